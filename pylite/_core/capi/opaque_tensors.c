// c_api_opaque.h: tensors, their strings, and new tensors.
#include "opaque.h"

TfLiteType TfLiteOpaqueTensorType(const TfLiteOpaqueTensor *t) { return TENSOR(t)->type; }

int32_t TfLiteOpaqueTensorNumDims(const TfLiteOpaqueTensor *t) {
  return TENSOR(t)->dims != NULL ? TENSOR(t)->dims->size : -1;
}

int32_t TfLiteOpaqueTensorDim(const TfLiteOpaqueTensor *t, int32_t index) {
  const TfLiteIntArray *dims = TENSOR(t)->dims;
  return dims != NULL && index >= 0 && index < dims->size ? dims->data[index] : -1;
}

TfLiteStatus TfLiteOpaqueTensorGetNumDimsSignature(const TfLiteOpaqueTensor *t, int32_t *count) {
  *count = TENSOR(t)->dims_signature != NULL ? TENSOR(t)->dims_signature->size : -1;
  return kTfLiteOk;
}

TfLiteStatus TfLiteOpaqueTensorGetDimSignature(const TfLiteOpaqueTensor *t, int32_t index, int32_t *length) {
  const TfLiteIntArray *dims = TENSOR(t)->dims_signature;
  if (dims == NULL || index < 0 || index >= dims->size) return kTfLiteError;
  *length = dims->data[index];
  return kTfLiteOk;
}

int TfLiteOpaqueTensorIsVariable(const TfLiteOpaqueTensor *t) { return TENSOR(t)->is_variable; }
size_t TfLiteOpaqueTensorByteSize(const TfLiteOpaqueTensor *t) { return TENSOR(t)->bytes; }
void *TfLiteOpaqueTensorData(const TfLiteOpaqueTensor *t) { return t != NULL ? TENSOR(t)->data.raw : NULL; }

TfLiteAllocationType TfLiteOpaqueTensorGetAllocationType(const TfLiteOpaqueTensor *t) {
  return TENSOR(t)->allocation_type;
}
TfLiteAllocationStrategy TfLiteOpaqueTensorGetAllocationStrategy(const TfLiteOpaqueTensor *t) {
  return TfLiteTensorGetAllocationStrategy(TENSOR(t));
}
TfLiteRunStability TfLiteOpaqueTensorGetBufferAddressStability(const TfLiteOpaqueTensor *t) {
  return TfLiteTensorGetBufferAddressStability(TENSOR(t));
}
TfLiteRunStability TfLiteOpaqueTensorGetDataStability(const TfLiteOpaqueTensor *t) {
  return TfLiteTensorGetDataStability(TENSOR(t));
}
TfLiteRunStep TfLiteOpaqueTensorGetDataKnownStep(const TfLiteOpaqueTensor *t) {
  return TfLiteTensorGetDataKnownStep(TENSOR(t));
}
TfLiteRunStep TfLiteOpaqueTensorGetShapeKnownStep(const TfLiteOpaqueTensor *t) {
  return TfLiteTensorGetShapeKnownStep(TENSOR(t));
}
const char *TfLiteOpaqueTensorName(const TfLiteOpaqueTensor *t) { return TENSOR(t)->name; }
TfLiteQuantization TfLiteOpaqueTensorGetQuantization(const TfLiteOpaqueTensor *t) { return TENSOR(t)->quantization; }
TfLiteQuantizationParams TfLiteOpaqueTensorGetQuantizationParams(const TfLiteOpaqueTensor *t) {
  return TENSOR(t)->params;
}

TfLiteStatus TfLiteOpaqueTensorCopyFromBuffer(TfLiteOpaqueTensor *t, const void *data, size_t size) {
  if (size != TENSOR(t)->bytes || (size != 0 && TENSOR(t)->data.raw == NULL)) return kTfLiteError;
  if (size != 0) memcpy(TENSOR(t)->data.raw, data, size);
  return kTfLiteOk;
}

TfLiteStatus TfLiteOpaqueTensorCopyToBuffer(const TfLiteOpaqueTensor *t, void *data, size_t size) {
  if (size != TENSOR(t)->bytes || (size != 0 && TENSOR(t)->data.raw == NULL)) return kTfLiteError;
  if (size != 0) memcpy(data, TENSOR(t)->data.raw, size);
  return kTfLiteOk;
}

void TfLiteOpaqueTensorSetAllocationTypeToDynamic(TfLiteOpaqueTensor *opaque) {
  TfLiteTensor *t = (TfLiteTensor *)opaque;
  if (t->allocation_type == kTfLiteDynamic) return;
  TfLiteTensorDataFree(t);
  t->allocation_type = kTfLiteDynamic;
}

void TfLiteOpaqueTensorSetNonCpuAllocation(TfLiteOpaqueTensor *opaque) {
  TfLiteTensor *t = (TfLiteTensor *)opaque;
  TfLiteTensorDataFree(t);
  t->allocation_type = kTfLiteNonCpu;
}

// ---- Strings: count, count + 1 offsets from the start, characters ----

static int string_count(const TfLiteTensor *t) {
  int32_t count;
  if (t->type != kTfLiteString || t->data.raw == NULL || t->bytes < sizeof(count)) return -1;
  memcpy(&count, t->data.raw, sizeof(count));
  return count >= 0 && (size_t)count <= (t->bytes - sizeof(count)) / sizeof(count) ? count : -1;
}

int TfLiteOpaqueTensorGetStringCount(const TfLiteOpaqueTensor *t) { return string_count(TENSOR(t)); }

TfLiteStatus TfLiteOpaqueTensorGetString(const TfLiteOpaqueTensor *opaque, int index, const char **str, int *length) {
  const TfLiteTensor *t = TENSOR(opaque);
  int32_t ends[2];
  if (index < 0 || index >= string_count(t)) return kTfLiteError;
  memcpy(ends, t->data.raw + sizeof(int32_t) * (size_t)(index + 1), sizeof(ends));
  if (ends[0] < 0 || ends[1] < ends[0] || (size_t)ends[1] > t->bytes) return kTfLiteError;
  *str = t->data.raw + ends[0];
  *length = ends[1] - ends[0];
  return kTfLiteOk;
}

TfLiteStatus TfLiteOpaqueTensorWriteStrings(TfLiteOpaqueTensor *opaque, const char *const *strings, int count,
                                            const int *lengths) {
  TfLiteTensor *t = (TfLiteTensor *)opaque;
  if (t->type != kTfLiteString || t->allocation_type != kTfLiteDynamic || count < 0) return kTfLiteError;
  if ((size_t)count > INT32_MAX / sizeof(int32_t) - 2) return kTfLiteError;
  size_t total = sizeof(int32_t) * ((size_t)count + 2);
  for (int i = 0; i < count; i++) {
    if (lengths[i] < 0 || (size_t)lengths[i] > INT32_MAX - total) return kTfLiteError;
    total += (size_t)lengths[i];
  }
  char *data = malloc(total);
  if (data == NULL) return kTfLiteError;
  int32_t offset = (int32_t)(sizeof(int32_t) * ((size_t)count + 2));
  memcpy(data, &count, sizeof(int32_t));
  for (int i = 0; i < count; i++) {
    memcpy(data + sizeof(int32_t) * (size_t)(i + 1), &offset, sizeof(offset));
    memcpy(data + offset, strings[i], (size_t)lengths[i]);
    offset += lengths[i];
  }
  memcpy(data + sizeof(int32_t) * ((size_t)count + 1), &offset, sizeof(offset));
  free(t->data.raw);
  t->data.raw = data;
  t->bytes = total;
  return kTfLiteOk;
}

TfLiteStatus TfLiteOpaqueTensorWriteString(TfLiteOpaqueTensor *t, const char *str, int length) {
  return TfLiteOpaqueTensorWriteStrings(t, &str, 1, &length);
}

// ---- New tensors ----

struct TfLiteOpaqueTensorBuilder {
  TfLiteType type;
  void *data;
  TfLiteAllocationType allocation_type;
  TfLiteQuantizationParams params;
  TfLiteQuantization quantization;
};

TfLiteOpaqueTensorBuilder *TfLiteOpaqueTensorBuilderCreate(void) {
  return calloc(1, sizeof(TfLiteOpaqueTensorBuilder));
}
void TfLiteOpaqueTensorBuilderDelete(TfLiteOpaqueTensorBuilder *b) { free(b); }

#define SETTER(Name, TYPE, member)                                                                                    \
  TfLiteOpaqueTensorBuilder *TfLiteOpaqueTensorBuilderSet##Name(TfLiteOpaqueTensorBuilder *b, TYPE value) {           \
    b->member = value;                                                                                                \
    return b;                                                                                                         \
  }
SETTER(Type, TfLiteType, type)
SETTER(Data, void *, data)
SETTER(AllocationType, TfLiteAllocationType, allocation_type)
SETTER(QuantizationParams, TfLiteQuantizationParams, params)
SETTER(Quantization, TfLiteQuantization, quantization)

TfLiteStatus TfLiteOpaqueContextAddTensor(TfLiteOpaqueContext *context, TfLiteOpaqueTensorBuilder *b, int *index) {
  TfLiteContext *c = CONTEXT(context);
  bool dynamic = b->allocation_type == kTfLiteDynamic;
  if (!dynamic && b->allocation_type != kTfLiteArenaRw && b->allocation_type != kTfLiteArenaRwPersistent) {
    c->ReportError(c, "TfLiteOpaqueContextAddTensor: the allocation type must be dynamic or an arena");
    return kTfLiteError;
  }
  if (dynamic != (b->data != NULL)) {
    c->ReportError(c, "TfLiteOpaqueContextAddTensor: a dynamic tensor must have data, a tensor of an arena must not");
    return kTfLiteError;
  }
  int position = -1;
  TfLiteStatus status = c->AddTensors(c, 1, &position);
  if (status != kTfLiteOk) return status;
  TfLiteTensor *t = &c->tensors[position];
  t->type = b->type;
  t->data.data = b->data;
  t->allocation_type = b->allocation_type;
  t->params = b->params;
  t->quantization = b->quantization;
  if (index != NULL) *index = position;
  return kTfLiteOk;
}
