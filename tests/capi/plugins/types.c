// Ops on tensors of any type, which know nothing but bytes.  The option is a letter: where the output lies.
#include "tensorflow/lite/c/common.h"

static void* Init(TfLiteContext* context, const char* buffer, size_t length) { return (void*)(size_t)buffer[0]; }

static TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* x = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* y = &context->tensors[node->outputs->data[0]];
  y->type = x->type;
  if (node->user_data == (void*)'d') {
    TfLiteTensorDataFree(y);
    y->allocation_type = kTfLiteDynamic;
    return kTfLiteOk;
  }
  if (node->user_data == (void*)'r') y->allocation_type = kTfLitePersistentRo;
  TF_LITE_ENSURE_STATUS(context->ResizeTensor(context, y, TfLiteIntArrayCopy(x->dims)));
  TF_LITE_ENSURE_EQ(context, x->bytes, y->bytes);
  if (node->user_data == (void*)'r') {
    for (size_t i = 0; i < x->bytes; i++) y->data.uint8[i] = ~x->data.uint8[i];
  }
  return kTfLiteOk;
}

// Inverts all bits: x -> -1 - x for signed integers of any width.
static TfLiteStatus Invert(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* x = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* y = &context->tensors[node->outputs->data[0]];
  if (node->user_data == (void*)'d') {
    TF_LITE_ENSURE_STATUS(context->ResizeTensor(context, y, TfLiteIntArrayCopy(x->dims)));
    TF_LITE_ENSURE_EQ(context, x->bytes, y->bytes);
  }
  if (node->user_data == (void*)'r') return kTfLiteOk;
  for (size_t i = 0; i < x->bytes; i++) y->data.uint8[i] = ~x->data.uint8[i];
  return kTfLiteOk;
}

static TfLiteStatus Same(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* x = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* y = &context->tensors[node->outputs->data[0]];
  if (node->user_data == (void*)'d') {
    TF_LITE_ENSURE_STATUS(context->ResizeTensor(context, y, TfLiteIntArrayCopy(x->dims)));
  }
  for (size_t i = 0; i < x->bytes; i++) y->data.uint8[i] = x->data.uint8[i];
  return kTfLiteOk;
}

TFL_CAPI_EXPORT const TfLiteRegistration* Register_INVERT(void) {
  static const TfLiteRegistration r = {
      .init = Init, .prepare = Prepare, .invoke = Invert, .custom_name = "Invert", .version = 1};
  return &r;
}

TFL_CAPI_EXPORT const TfLiteRegistration* Register_SAME(void) {
  static const TfLiteRegistration r = {
      .init = Init, .prepare = Prepare, .invoke = Same, .custom_name = "Same", .version = 1};
  return &r;
}
