// The ops Words, which splits each string at its spaces (one output, as many strings as there are words), and Lengths.
#include <string.h>

#include "tensorflow/lite/c/c_api_opaque.h"

static TfLiteStatus Prepare(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  TfLiteOpaqueTensorSetAllocationTypeToDynamic(TfLiteOpaqueNodeGetOutput(context, node, 0));
  return kTfLiteOk;
}

static TfLiteStatus Invoke(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* x = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteOpaqueTensor* y = TfLiteOpaqueNodeGetOutput(context, node, 0);
  const char* words[64];
  int lengths[64], count = 0;
  for (int i = 0; i < TfLiteOpaqueTensorGetStringCount(x); i++) {
    const char* text;
    int length;
    TF_LITE_OPAQUE_ENSURE(context, TfLiteOpaqueTensorGetString(x, i, &text, &length) == kTfLiteOk);
    for (int start = 0, end = 0; end <= length && count < 64; end++) {
      if (end < length && text[end] != ' ') continue;
      words[count] = text + start;
      lengths[count++] = end - start;
      start = end + 1;
    }
  }
  TfLiteIntArray* dims = TfLiteIntArrayCreate(1);
  dims->data[0] = count;
  TF_LITE_OPAQUE_ENSURE(context, TfLiteOpaqueContextResizeTensor(context, y, dims) == kTfLiteOk);
  return TfLiteOpaqueTensorWriteStrings(y, words, count, lengths);
}

TFL_CAPI_EXPORT TfLiteOperator* WordsOperator(void) {
  static TfLiteOperator* op;
  if (op == NULL) {
    op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Words", 1, NULL);
    TfLiteOperatorSetPrepare(op, Prepare);
    TfLiteOperatorSetInvoke(op, Invoke);
  }
  return op;
}

static TfLiteStatus LengthsPrepare(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  TfLiteIntArray* dims = TfLiteIntArrayCreate(1);
  dims->data[0] = TfLiteOpaqueTensorDim(TfLiteOpaqueNodeGetInput(context, node, 0), 0);
  return TfLiteOpaqueContextResizeTensor(context, TfLiteOpaqueNodeGetOutput(context, node, 0), dims);
}

static TfLiteStatus LengthsInvoke(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* x = TfLiteOpaqueNodeGetInput(context, node, 0);
  int* y = TfLiteOpaqueTensorData(TfLiteOpaqueNodeGetOutput(context, node, 0));
  for (int i = 0; i < TfLiteOpaqueTensorGetStringCount(x); i++) {
    const char* text;
    TF_LITE_OPAQUE_ENSURE(context, TfLiteOpaqueTensorGetString(x, i, &text, &y[i]) == kTfLiteOk);
  }
  return kTfLiteOk;
}

TFL_CAPI_EXPORT TfLiteOperator* LengthsOperator(void) {
  static TfLiteOperator* op;
  if (op == NULL) {
    op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Lengths", 1, NULL);
    TfLiteOperatorSetPrepare(op, LengthsPrepare);
    TfLiteOperatorSetInvoke(op, LengthsInvoke);
  }
  return op;
}
