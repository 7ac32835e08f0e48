// Atan whose parts report to context->profiler, as kernels of TensorFlow Lite do.
#include <cmath>
#include <cstring>
#include <thread>

#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/core/api/profiler.h"

namespace {

TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
  TFLITE_SCOPED_TAGGED_DEFAULT_PROFILE(static_cast<tflite::Profiler*>(context->profiler), "not of a run");
  const TfLiteTensor& x = context->tensors[node->inputs->data[0]];
  return context->ResizeTensor(context, &context->tensors[node->outputs->data[0]], TfLiteIntArrayCopy(x.dims));
}

void Report(tflite::Profiler* profiler) {
  using Type = tflite::Profiler::EventType;
  for (int i = 0; i < 3; ++i) {
    TFLITE_SCOPED_DELEGATE_OPERATOR_PROFILE(profiler, "inner", i);
  }
  profiler->EndEvent(profiler->BeginEvent("with metadata", Type::DEFAULT, 0), 1, 2);
  profiler->AddEvent("added", Type::OPERATOR_INVOKE_EVENT, 0, 7);
  profiler->AddEvent("since 1970", Type::OPERATOR_INVOKE_EVENT, 1700000000000000, 7);
  profiler->AddEvent("no time", Type::TELEMETRY_EVENT, 0, 7);
  profiler->AddEventWithData("settings", Type::TELEMETRY_REPORT_SETTINGS, nullptr);
  profiler->BeginEvent("never ends", Type::DEFAULT, 0);
  profiler->EndEvent(12345);
  profiler->EndEvent(0);
  std::thread([profiler] { TFLITE_SCOPED_TAGGED_DEFAULT_PROFILE(profiler, "of a thread"); }).join();
  char name[200];
  std::memset(name, 'n', sizeof(name) - 1);
  name[sizeof(name) - 1] = 0;
  TFLITE_SCOPED_TAGGED_OPERATOR_PROFILE(profiler, name, 1);
}

TfLiteStatus Invoke(TfLiteContext* context, TfLiteNode* node) {
  tflite::Profiler* profiler = static_cast<tflite::Profiler*>(context->profiler);
  TFLITE_SCOPED_TAGGED_DEFAULT_PROFILE(profiler, "whole");
  const TfLiteTensor& x = context->tensors[node->inputs->data[0]];
  for (size_t i = 0; i < x.bytes / sizeof(float); ++i) {
    context->tensors[node->outputs->data[0]].data.f[i] = std::atan(x.data.f[i]);
  }
  if (profiler != nullptr) Report(profiler);
  return kTfLiteOk;
}

}  // namespace

extern "C" const TfLiteRegistration* Profiling() {
  static TfLiteRegistration r;
  r.prepare = Prepare;
  r.invoke = Invoke;
  r.custom_name = "Atan";
  return &r;
}
