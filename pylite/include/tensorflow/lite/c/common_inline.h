// The functions of common.h on arrays and tensors.  Included by common.h; not for direct use.
#ifndef TENSORFLOW_LITE_CORE_C_COMMON_INLINE_H_
#define TENSORFLOW_LITE_CORE_C_COMMON_INLINE_H_

// The library that exports these for binaries that import them defines this as nothing.
#ifndef TFL_INLINE
#define TFL_INLINE static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

TFL_INLINE size_t TfLiteIntArrayGetSizeInBytes(int size) {
  return sizeof(TfLiteIntArray) + sizeof(int) * (size_t)(size > 0 ? size : 0);
}

TFL_INLINE TfLiteIntArray* TfLiteIntArrayCreate(int size) {
  TfLiteIntArray* a = (TfLiteIntArray*)malloc(TfLiteIntArrayGetSizeInBytes(size));
  if (a != NULL) a->size = size;
  return a;
}

TFL_INLINE int TfLiteIntArrayEqualsArray(const TfLiteIntArray* a, int b_size, const int b_data[]) {
  if (a == NULL) return b_size == 0;
  return a->size == b_size && (b_size <= 0 || memcmp(a->data, b_data, sizeof(int) * (size_t)b_size) == 0);
}

TFL_INLINE int TfLiteIntArrayEqual(const TfLiteIntArray* a, const TfLiteIntArray* b) {
  if (a == b) return 1;
  if (a == NULL || b == NULL) return 0;
  return TfLiteIntArrayEqualsArray(a, b->size, b->data);
}

TFL_INLINE TfLiteIntArray* TfLiteIntArrayCopy(const TfLiteIntArray* src) {
  if (src == NULL) return NULL;
  TfLiteIntArray* a = TfLiteIntArrayCreate(src->size);
  if (a != NULL) memcpy(a, src, TfLiteIntArrayGetSizeInBytes(src->size));
  return a;
}

TFL_INLINE void TfLiteIntArrayFree(TfLiteIntArray* a) { free(a); }

TFL_INLINE int TfLiteFloatArrayGetSizeInBytes(int size) {
  return (int)(sizeof(TfLiteFloatArray) + sizeof(float) * (size_t)(size > 0 ? size : 0));
}

TFL_INLINE TfLiteFloatArray* TfLiteFloatArrayCreate(int size) {
  TfLiteFloatArray* a = (TfLiteFloatArray*)malloc((size_t)TfLiteFloatArrayGetSizeInBytes(size));
  if (a != NULL) a->size = size;
  return a;
}

TFL_INLINE TfLiteFloatArray* TfLiteFloatArrayCopy(const TfLiteFloatArray* src) {
  if (src == NULL) return NULL;
  TfLiteFloatArray* a = TfLiteFloatArrayCreate(src->size);
  if (a != NULL) memcpy(a, src, (size_t)TfLiteFloatArrayGetSizeInBytes(src->size));
  return a;
}

TFL_INLINE void TfLiteFloatArrayFree(TfLiteFloatArray* a) { free(a); }

TFL_INLINE const char* TfLiteTypeGetName(TfLiteType type) {
  static const char* const names[] = {
      "NOTYPE", "FLOAT32", "INT32", "UINT8", "INT64", "STRING", "BOOL", "INT16", "COMPLEX64", "INT8", "FLOAT16",
      "FLOAT64", "COMPLEX128", "UINT64", "RESOURCE", "VARIANT", "UINT32", "UINT16", "INT4", "BFLOAT16", "INT2",
      "UINT4"};
  return (unsigned)type < sizeof(names) / sizeof(names[0]) ? names[type] : "Unknown type";
}

TFL_INLINE void TfLiteQuantizationFree(TfLiteQuantization* q) {
  if (q == NULL) return;
  if (q->type == kTfLiteAffineQuantization && q->params != NULL) {
    TfLiteAffineQuantization* affine = (TfLiteAffineQuantization*)q->params;
    TfLiteFloatArrayFree(affine->scale);
    TfLiteIntArrayFree(affine->zero_point);
  }
  free(q->params);
  q->params = NULL;
  q->type = kTfLiteNoQuantization;
}

TFL_INLINE TfLiteQuantization TfLiteQuantizationClone(TfLiteQuantization src) {
  TfLiteQuantization q;
  q.type = src.type;
  q.params = NULL;
  if (src.params == NULL) return q;
  if (src.type == kTfLiteAffineQuantization) {
    const TfLiteAffineQuantization* from = (const TfLiteAffineQuantization*)src.params;
    TfLiteAffineQuantization* to = (TfLiteAffineQuantization*)calloc(1, sizeof(TfLiteAffineQuantization));
    if (to != NULL) {
      to->scale = TfLiteFloatArrayCopy(from->scale);
      to->zero_point = TfLiteIntArrayCopy(from->zero_point);
      to->quantized_dimension = from->quantized_dimension;
    }
    q.params = to;
  } else if (src.type == kTfLiteBlockwiseQuantization) {
    q.params = malloc(sizeof(TfLiteBlockwiseQuantization));
    if (q.params != NULL) memcpy(q.params, src.params, sizeof(TfLiteBlockwiseQuantization));
  }
  return q;
}

TFL_INLINE void TfLiteSparsityFree(TfLiteSparsity* sparsity) {
  if (sparsity == NULL) return;
  TfLiteIntArrayFree(sparsity->traversal_order);
  TfLiteIntArrayFree(sparsity->block_map);
  for (int i = 0; sparsity->dim_metadata != NULL && i < sparsity->dim_metadata_size; i++) {
    TfLiteIntArrayFree(sparsity->dim_metadata[i].array_segments);
    TfLiteIntArrayFree(sparsity->dim_metadata[i].array_indices);
  }
  free(sparsity->dim_metadata);
  free(sparsity);
}

TFL_INLINE void TfLiteTensorDataFree(TfLiteTensor* t) {
  if (t == NULL) return;
  if (t->allocation_type == kTfLiteDynamic || t->allocation_type == kTfLitePersistentRo) {
    free(t->data.raw);
  }
  t->data.raw = NULL;
}

TFL_INLINE void TfLiteTensorFree(TfLiteTensor* t) {
  if (t == NULL) return;
  TfLiteTensorDataFree(t);
  TfLiteIntArrayFree(t->dims);
  t->dims = NULL;
  TfLiteIntArrayFree((TfLiteIntArray*)t->dims_signature);
  t->dims_signature = NULL;
  TfLiteQuantizationFree(&t->quantization);
  TfLiteSparsityFree(t->sparsity);
  t->sparsity = NULL;
}

TFL_INLINE TfLiteSparsity* TfLiteSparsityClone(const TfLiteSparsity* src) {
  TfLiteSparsity* to = src != NULL ? (TfLiteSparsity*)calloc(1, sizeof(TfLiteSparsity)) : NULL;
  if (to == NULL) return NULL;
  to->traversal_order = TfLiteIntArrayCopy(src->traversal_order);
  to->block_map = TfLiteIntArrayCopy(src->block_map);
  to->dim_metadata =
      (TfLiteDimensionMetadata*)calloc((size_t)src->dim_metadata_size + 1, sizeof(TfLiteDimensionMetadata));
  if (to->dim_metadata == NULL) return to;
  to->dim_metadata_size = src->dim_metadata_size;
  for (int i = 0; i < src->dim_metadata_size; i++) {
    to->dim_metadata[i] = src->dim_metadata[i];
    to->dim_metadata[i].array_segments = TfLiteIntArrayCopy(src->dim_metadata[i].array_segments);
    to->dim_metadata[i].array_indices = TfLiteIntArrayCopy(src->dim_metadata[i].array_indices);
  }
  return to;
}

// A deep copy, except for the name.
TFL_INLINE TfLiteTensor TfLiteTensorClone(const TfLiteTensor src) {
  TfLiteTensor to = src;
  if (src.data.raw != NULL) {
    to.data.raw = (char*)malloc(src.bytes + 1);
    if (to.data.raw != NULL) memcpy(to.data.raw, src.data.raw, src.bytes);
  }
  to.dims = TfLiteIntArrayCopy(src.dims);
  to.dims_signature = TfLiteIntArrayCopy(src.dims_signature);
  to.quantization = TfLiteQuantizationClone(src.quantization);
  to.sparsity = TfLiteSparsityClone(src.sparsity);
  return to;
}

TFL_INLINE void TfLiteTensorReset(TfLiteType type, const char* name, TfLiteIntArray* dims,
                                  TfLiteQuantizationParams quantization, char* buffer, size_t size,
                                  TfLiteAllocationType allocation_type, const void* allocation, bool is_variable,
                                  TfLiteTensor* tensor) {
  TfLiteTensorFree(tensor);
  tensor->type = type;
  tensor->name = name;
  tensor->dims = dims;
  tensor->params = quantization;
  tensor->data.raw = buffer;
  tensor->bytes = size;
  tensor->allocation_type = allocation_type;
  tensor->allocation = allocation;
  tensor->is_variable = is_variable;
}

// (Re)sizes the memory of a dynamic tensor; others are unchanged.  The memory is a little larger, because fast readers
// read past the end.
TFL_INLINE TfLiteStatus TfLiteTensorResizeMaybeCopy(size_t num_bytes, TfLiteTensor* tensor, bool preserve_data) {
  if (tensor == NULL) return kTfLiteError;
  if (tensor->allocation_type != kTfLiteDynamic && tensor->allocation_type != kTfLitePersistentRo) return kTfLiteOk;
  if (num_bytes > (size_t)-1 - 16) return kTfLiteError;
  if (tensor->data.raw == NULL || num_bytes > tensor->bytes) {
    char* fresh = preserve_data ? (char*)realloc(tensor->data.raw, num_bytes + 16) : (char*)malloc(num_bytes + 16);
    if (fresh == NULL) return kTfLiteError;
    if (!preserve_data) free(tensor->data.raw);
    tensor->data.raw = fresh;
  }
  tensor->bytes = num_bytes;
  return kTfLiteOk;
}

TFL_INLINE TfLiteStatus TfLiteTensorRealloc(size_t num_bytes, TfLiteTensor* tensor) {
  return TfLiteTensorResizeMaybeCopy(num_bytes, tensor, true);
}

// Copies contents, shape and type; both must have the same number of bytes.
TFL_INLINE TfLiteStatus TfLiteTensorCopy(const TfLiteTensor* src, TfLiteTensor* dst) {
  if (src == NULL || dst == NULL || src == dst) return kTfLiteOk;
  if (src->bytes != dst->bytes) return kTfLiteError;
  dst->type = src->type;
  TfLiteIntArrayFree(dst->dims);
  dst->dims = TfLiteIntArrayCopy(src->dims);
  if (src->bytes != 0) memcpy(dst->data.raw, src->data.raw, src->bytes);
  dst->buffer_handle = src->buffer_handle;
  dst->data_is_stale = src->data_is_stale;
  dst->delegate = src->delegate;
  return kTfLiteOk;
}

TFL_INLINE const TfLiteIntArray* TfLiteTensorGetDimsSignature(const TfLiteTensor* t) {
  return t->dims_signature != NULL && t->dims_signature->size > 0 ? t->dims_signature : t->dims;
}

TFL_INLINE TfLiteDelegate TfLiteDelegateCreate(void) {
  TfLiteDelegate d;
  memset(&d, 0, sizeof(d));
  return d;
}

// What init of a kernel returns when it failed.
TFL_INLINE void* TfLiteKernelInitFailed(void) { return (void*)(intptr_t)-1; }

TFL_INLINE TfLiteAllocationStrategy TfLiteTensorGetAllocationStrategy(const TfLiteTensor* t) {
  switch (t->allocation_type) {
    case kTfLiteMemNone: return kTfLiteAllocationStrategyNone;
    case kTfLiteMmapRo: return kTfLiteAllocationStrategyMMap;
    case kTfLiteArenaRw: case kTfLiteArenaRwPersistent: return kTfLiteAllocationStrategyArena;
    case kTfLiteDynamic: case kTfLitePersistentRo: return kTfLiteAllocationStrategyMalloc;
    case kTfLiteVariantObject: return kTfLiteAllocationStrategyNew;
    default: return kTfLiteAllocationStrategyUnknown;
  }
}

TFL_INLINE TfLiteRunStability TfLiteTensorGetBufferAddressStability(const TfLiteTensor* t) {
  switch (t->allocation_type) {
    case kTfLiteMemNone: case kTfLiteMmapRo: case kTfLitePersistentRo: return kTfLiteRunStabilityAcrossRuns;
    case kTfLiteArenaRw: case kTfLiteArenaRwPersistent: return kTfLiteRunStabilityUnstable;
    case kTfLiteDynamic: return kTfLiteRunStabilitySingleRun;
    default: return kTfLiteRunStabilityUnknown;
  }
}

TFL_INLINE TfLiteRunStability TfLiteTensorGetDataStability(const TfLiteTensor* t) {
  switch (t->allocation_type) {
    case kTfLiteMemNone: case kTfLiteMmapRo: case kTfLitePersistentRo: return kTfLiteRunStabilityAcrossRuns;
    case kTfLiteArenaRw: case kTfLiteArenaRwPersistent: case kTfLiteDynamic: return kTfLiteRunStabilitySingleRun;
    default: return kTfLiteRunStabilityUnknown;
  }
}

TFL_INLINE TfLiteRunStep TfLiteTensorGetDataKnownStep(const TfLiteTensor* t) {
  switch (t->allocation_type) {
    case kTfLiteMemNone: case kTfLiteMmapRo: return kTfLiteRunStepInit;
    case kTfLitePersistentRo: return kTfLiteRunStepPrepare;
    case kTfLiteArenaRw: case kTfLiteArenaRwPersistent: case kTfLiteDynamic: return kTfLiteRunStepEval;
    default: return kTfLiteRunStepUnknown;
  }
}

TFL_INLINE TfLiteRunStep TfLiteTensorGetShapeKnownStep(const TfLiteTensor* t) {
  switch (t->allocation_type) {
    case kTfLiteMemNone: case kTfLiteMmapRo: return kTfLiteRunStepInit;
    case kTfLitePersistentRo: case kTfLiteArenaRw: case kTfLiteArenaRwPersistent: return kTfLiteRunStepPrepare;
    case kTfLiteDynamic: return kTfLiteRunStepEval;
    default: return kTfLiteRunStepUnknown;
  }
}

#ifdef __cplusplus
}
#endif
#endif
