// The functions of c_api.h that access a TfLiteTensor.
#include <stdlib.h>
#include <string.h>

#include "../../include/tensorflow/lite/c/c_api.h"

TfLiteType TfLiteTensorType(const TfLiteTensor *t) { return t == NULL ? kTfLiteNoType : t->type; }

int32_t TfLiteTensorNumDims(const TfLiteTensor *t) { return t == NULL || t->dims == NULL ? -1 : t->dims->size; }

int32_t TfLiteTensorDim(const TfLiteTensor *t, int32_t i) {
  return i < 0 || i >= TfLiteTensorNumDims(t) ? -1 : t->dims->data[i];
}

size_t TfLiteTensorByteSize(const TfLiteTensor *t) { return t == NULL ? 0 : t->bytes; }

void *TfLiteTensorData(const TfLiteTensor *t) { return t == NULL ? NULL : t->data.data; }

const char *TfLiteTensorName(const TfLiteTensor *t) { return t == NULL ? NULL : t->name; }

TfLiteQuantizationParams TfLiteTensorQuantizationParams(const TfLiteTensor *t) {
  return t == NULL ? (TfLiteQuantizationParams){0, 0} : t->params;
}

TfLiteStatus TfLiteTensorCopyFromBuffer(TfLiteTensor *t, const void *data, size_t size) {
  if (t == NULL || (data == NULL && size != 0)) return kTfLiteError;
  if (t->type == kTfLiteString && t->bytes != size) {
    void *room = realloc(t->data.data, size);
    if (room == NULL && size != 0) return kTfLiteError;
    t->data.data = room;
    t->bytes = size;
  }
  if (t->bytes != size || (t->data.data == NULL && size != 0)) return kTfLiteError;
  if (size != 0) memcpy(t->data.data, data, size);
  return kTfLiteOk;
}

TfLiteStatus TfLiteTensorCopyToBuffer(const TfLiteTensor *t, void *data, size_t size) {
  if (t == NULL || t->bytes != size || (size != 0 && (data == NULL || t->data.data == NULL))) return kTfLiteError;
  if (size != 0) memcpy(data, t->data.data, size);
  return kTfLiteOk;
}
