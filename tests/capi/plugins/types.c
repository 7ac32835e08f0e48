// Ops that process the bytes of tensors of any type.  The option, a letter, is the allocation type of the output.
#include <stdlib.h>

#include "tensorflow/lite/builtin_ops.h"
#include "tensorflow/lite/delegates/external/external_delegate_interface.h"

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

// A delegate that runs the first node, of any op, as Invert; its flags are the first option.
static TfLiteStatus Known(TfLiteContext* context, TfLiteNode* node) { return kTfLiteOk; }

static TfLiteStatus InvertAll(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* x = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* y = &context->tensors[node->outputs->data[0]];
  TF_LITE_ENSURE_EQ(context, x->bytes, y->bytes);
  for (size_t i = 0; i < x->bytes; i++) y->data.uint8[i] = ~x->data.uint8[i];
  return kTfLiteOk;
}

static TfLiteStatus DelegatePrepare(TfLiteContext* context, TfLiteDelegate* delegate) {
  const int first[] = {1, 0};
  TfLiteRegistration r = {.prepare = Known, .invoke = InvertAll, .builtin_code = kTfLiteBuiltinDelegate};
  return context->ReplaceNodeSubsetsWithDelegateKernels(context, r, (const TfLiteIntArray*)first, delegate);
}

TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values, size_t count,
                                              void (*report)(const char*)) {
  TfLiteDelegate* delegate = calloc(1, sizeof(TfLiteDelegate));
  delegate->Prepare = DelegatePrepare;
  delegate->flags = atoi(values[0]);
  return delegate;
}

void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate) { free(delegate); }
