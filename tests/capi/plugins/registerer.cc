// Ops in C++ that a function adds to a tflite::MutableOpResolver; one throws.
#include <stdexcept>

#include "tensorflow/lite/mutable_op_resolver.h"

namespace {

TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
  return context->ResizeTensor(context, &context->tensors[node->outputs->data[0]],
                               TfLiteIntArrayCopy(context->tensors[node->inputs->data[0]].dims));
}

TfLiteStatus Double(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor& x = context->tensors[node->inputs->data[0]];
  TfLiteTensor& y = context->tensors[node->outputs->data[0]];
  for (size_t i = 0; i < y.bytes / sizeof(float); ++i) y.data.f[i] = 2 * x.data.f[i];
  return kTfLiteOk;
}

TfLiteStatus Throw(TfLiteContext*, TfLiteNode*) { throw std::runtime_error("out of luck"); }

}  // namespace

void RegisterOps(tflite::MutableOpResolver* resolver) {
  TfLiteRegistration registration = {};     // gone when this function returns
  registration.prepare = Prepare;
  registration.invoke = Double;
  resolver->AddCustom("Double", &registration);
  registration.invoke = Throw;
  resolver->AddCustom("Throw", &registration, 1, 3);
}

#ifdef OWN_RESOLVER     // as in libraries that include TensorFlow Lite
void tflite::MutableOpResolver::AddCustom(const char*, const TfLiteRegistration*, int) { throw 1; }
void tflite::MutableOpResolver::AddCustom(const char*, const TfLiteRegistration*, int, int) { throw 1; }
#endif

extern "C" void RegisterFromC(tflite::MutableOpResolver* resolver) { RegisterOps(resolver); }

namespace mine {
void Register(tflite::MutableOpResolver* resolver) { RegisterOps(resolver); }
}  // namespace mine
