// A function that builds a resolver of its own, looks ops up, replaces a builtin op, and adds all to the host's.
#include "tensorflow/lite/c/builtin_op_data.h"
#include "tensorflow/lite/mutable_op_resolver.h"

namespace {

const tflite::BuiltinOperator TANH = static_cast<tflite::BuiltinOperator>(kTfLiteBuiltinTanh);
const tflite::BuiltinOperator LEAKY_RELU = static_cast<tflite::BuiltinOperator>(kTfLiteBuiltinLeakyRelu);

TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
  return context->ResizeTensor(context, &context->tensors[node->outputs->data[0]],
                               TfLiteIntArrayCopy(context->tensors[node->inputs->data[0]].dims));
}

template <int times>
TfLiteStatus Multiply(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor& x = context->tensors[node->inputs->data[0]];
  TfLiteTensor& y = context->tensors[node->outputs->data[0]];
  for (size_t i = 0; i < y.bytes / sizeof(float); ++i) y.data.f[i] = times * x.data.f[i];
  return kTfLiteOk;
}

TfLiteRegistration Times(TfLiteStatus (*invoke)(TfLiteContext*, TfLiteNode*)) {
  TfLiteRegistration registration = {};
  registration.prepare = Prepare;
  registration.invoke = invoke;
  return registration;
}

// What a builtin op's node has: its options.
TfLiteStatus Leaky(TfLiteContext* context, TfLiteNode* node) {
  const float alpha = static_cast<const TfLiteLeakyReluParams*>(node->builtin_data)->alpha;
  TfLiteTensor& y = context->tensors[node->outputs->data[0]];
  for (size_t i = 0; i < y.bytes / sizeof(float); ++i) y.data.f[i] = alpha;
  return kTfLiteOk;
}

// A function that takes the base class, so that the calls are virtual.
int Known(const tflite::OpResolver& resolver) {
  return (resolver.FindOp(TANH, 1) != nullptr) + 2 * (resolver.FindOp("Triple", 2) != nullptr) +
         4 * (resolver.FindOp("Triple", 3) != nullptr) + 8 * (resolver.FindOp("Other", 1) != nullptr);
}

int known[3];

}  // namespace

void RegisterOps(tflite::MutableOpResolver* host) {
  tflite::MutableOpResolver mine;
  known[0] = Known(*host);
  TfLiteRegistration registration = Times(Multiply<2>);
  mine.AddBuiltin(TANH, &registration, 1, 3);
  registration = Times(Multiply<5>);
  mine.AddCustom("Triple", &registration, 1, 2);
  registration = Times(Multiply<3>);
  mine.AddCustom("Triple", &registration, 2);     // the later one
  known[1] = Known(mine);
  if (mine.FindOp("Triple", 1)->invoke == Multiply<5> && mine.FindOp("Triple", 2)->invoke == Multiply<3>) {
    host->AddAll(mine);
  }
  registration = Times(Leaky);
  host->AddBuiltin(LEAKY_RELU, &registration, 1, 9);
  known[2] = Known(*host);
}

extern "C" int WasKnown(int when) { return known[when]; }
