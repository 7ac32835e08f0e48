// The custom op Atan: y = atan(x), as a classic registration.
#include <math.h>

#include "tensorflow/lite/c/common.h"

static TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
  TF_LITE_ENSURE_EQ(context, node->inputs->size, 1);
  TF_LITE_ENSURE_EQ(context, node->outputs->size, 1);
  const TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* output = &context->tensors[node->outputs->data[0]];
  TF_LITE_ENSURE_TYPES_EQ(context, input->type, kTfLiteFloat32);
  output->type = kTfLiteFloat32;
  return context->ResizeTensor(context, output, TfLiteIntArrayCopy(input->dims));
}

static TfLiteStatus Eval(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* output = &context->tensors[node->outputs->data[0]];
  const size_t count = output->bytes / sizeof(float);
  for (size_t i = 0; i < count; i++) output->data.f[i] = atanf(input->data.f[i]);
  return kTfLiteOk;
}

TFL_CAPI_EXPORT const TfLiteRegistration* AtanOpRegistration(void) {
  static const TfLiteRegistration registration = {
      .prepare = Prepare, .invoke = Eval, .custom_name = "Atan", .version = 1};
  return &registration;
}
