// The functions of c_api_opaque.h, operator.h and common.h, for plug-ins that import them.
#define TFL_INLINE __attribute__((visibility("default")))
#define TFL_CAPI_EXPORT __attribute__((visibility("default")))
#include "host.h"

#include <stdio.h>

#include "../../include/tensorflow/lite/c/c_api_opaque.h"

#define TENSOR(t) ((const TfLiteTensor *)(t))
#define NODE(n) ((const TfLiteNode *)(n))
#define CONTEXT(c) ((TfLiteContext *)(c))
#define HOST(c) ((const pl_host *)(c))

// ---- Ops ----

TfLiteOperator *TfLiteOperatorCreate(TfLiteBuiltinOperator code, const char *custom_name, int version, void *user_data) {
  TfLiteOperator *op = calloc(1, sizeof(TfLiteOperator));
  if (op == NULL) return NULL;
  op->mark = PL_OPERATOR;
  op->builtin_code = code;
  op->custom_name = custom_name != NULL ? strdup(custom_name) : NULL;
  op->version = version;
  op->user_data = user_data;
  return op;
}

void TfLiteOperatorDelete(TfLiteOperator *op) {
  if (op != NULL) free(op->custom_name);
  free(op);
}

TfLiteBuiltinOperator TfLiteOperatorGetBuiltInCode(const TfLiteOperator *op) { return op->builtin_code; }
const char *TfLiteOperatorGetCustomName(const TfLiteOperator *op) { return op->custom_name; }
int TfLiteOperatorGetVersion(const TfLiteOperator *op) { return op != NULL ? op->version : -1; }
void *TfLiteOperatorGetUserData(const TfLiteOperator *op) { return op != NULL ? op->user_data : NULL; }

// Each method under both names; the classic one, and the one that gets the op's user_data.
#define METHOD(Name, member, RESULT, ARGS, DATA_ARGS)                                                       \
  void TfLiteOperatorSet##Name(TfLiteOperator *op, RESULT(*member) ARGS) { op->member = member; }           \
  void TfLiteRegistrationExternalSet##Name(TfLiteOperator *op, RESULT(*member) ARGS) { op->member = member; } \
  TfLiteStatus TfLiteOperatorSet##Name##WithData(TfLiteOperator *op, RESULT(*member) DATA_ARGS) {           \
    op->member##_with_data = member;                                                                        \
    return kTfLiteOk;                                                                                       \
  }

METHOD(Init, init, void *, (TfLiteOpaqueContext *, const char *, size_t),
       (void *, TfLiteOpaqueContext *, const char *, size_t))
METHOD(Free, free, void, (TfLiteOpaqueContext *, void *), (void *, TfLiteOpaqueContext *, void *))
METHOD(Prepare, prepare, TfLiteStatus, (TfLiteOpaqueContext *, TfLiteOpaqueNode *),
       (void *, TfLiteOpaqueContext *, TfLiteOpaqueNode *))
METHOD(Invoke, invoke, TfLiteStatus, (TfLiteOpaqueContext *, TfLiteOpaqueNode *),
       (void *, TfLiteOpaqueContext *, TfLiteOpaqueNode *))

// Nothing runs asynchronously here: the kernel that could is accepted and not used.
void TfLiteOperatorSetAsyncKernel(TfLiteOperator *op,
                                  struct TfLiteAsyncKernel *(*kernel)(TfLiteOpaqueContext *, TfLiteOpaqueNode *)) {
  (void)op, (void)kernel;
}
void TfLiteRegistrationExternalSetAsyncKernel(TfLiteOperator *op,
                                              struct TfLiteAsyncKernel *(*kernel)(TfLiteOpaqueContext *,
                                                                                  TfLiteOpaqueNode *)) {
  (void)op, (void)kernel;
}
TfLiteStatus TfLiteOperatorSetAsyncKernelWithData(TfLiteOperator *op,
                                                  struct TfLiteAsyncKernel *(*kernel)(void *, TfLiteOpaqueContext *,
                                                                                      TfLiteOpaqueNode *)) {
  (void)op, (void)kernel;
  return kTfLiteOk;
}
void TfLiteOperatorSetInplaceOperator(TfLiteOperator *op, uint64_t flags) { op->inplace_operator = flags; }

TfLiteOperator *TfLiteRegistrationExternalCreate(TfLiteBuiltinOperator code, const char *custom_name, int version) {
  return TfLiteOperatorCreate(code, custom_name, version, NULL);
}
void TfLiteRegistrationExternalDelete(TfLiteOperator *op) { TfLiteOperatorDelete(op); }
TfLiteBuiltinOperator TfLiteRegistrationExternalGetBuiltInCode(const TfLiteOperator *op) { return op->builtin_code; }
const char *TfLiteRegistrationExternalGetCustomName(const TfLiteOperator *op) { return op->custom_name; }
int TfLiteRegistrationExternalGetVersion(const TfLiteOperator *op) { return TfLiteOperatorGetVersion(op); }
void TfLiteRegistrationExternalSetInplaceOperator(TfLiteOperator *op, uint64_t flags) { op->inplace_operator = flags; }

// ---- Tensors ----

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
  size_t total = sizeof(int32_t) * ((size_t)count + 2);
  for (int i = 0; i < count; i++) {
    if (lengths[i] < 0 || (size_t)lengths[i] > INT32_MAX - total) return kTfLiteError;
    total += (size_t)lengths[i];
  }
  char *data = malloc(total + 16);
  if (data == NULL) return kTfLiteError;
  int32_t at = (int32_t)(sizeof(int32_t) * ((size_t)count + 2));
  memcpy(data, &count, sizeof(int32_t));
  for (int i = 0; i < count; i++) {
    memcpy(data + sizeof(int32_t) * (size_t)(i + 1), &at, sizeof(at));
    memcpy(data + at, strings[i], (size_t)lengths[i]);
    at += lengths[i];
  }
  memcpy(data + sizeof(int32_t) * ((size_t)count + 1), &at, sizeof(at));
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

TfLiteOpaqueTensorBuilder *TfLiteOpaqueTensorBuilderCreate(void) { return calloc(1, sizeof(TfLiteOpaqueTensorBuilder)); }
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
    c->ReportError(c, "TfLiteOpaqueContextAddTensor: the allocation type must be dynamic or of the arena");
    return kTfLiteError;
  }
  if (dynamic != (b->data != NULL)) {
    c->ReportError(c, "TfLiteOpaqueContextAddTensor: a dynamic tensor needs data, and one of the arena takes none");
    return kTfLiteError;
  }
  int at = -1;
  TfLiteStatus status = c->AddTensors(c, 1, &at);
  if (status != kTfLiteOk) return status;
  TfLiteTensor *t = &c->tensors[at];
  t->type = b->type;
  t->data.data = b->data;
  t->allocation_type = b->allocation_type;
  t->params = b->params;
  t->quantization = b->quantization;
  if (index != NULL) *index = at;
  return kTfLiteOk;
}

// ---- Nodes ----

static TfLiteTensor *operand(const TfLiteOpaqueContext *context, const TfLiteIntArray *indices, int i) {
  if (indices == NULL || i < 0 || i >= indices->size) return NULL;
  return (TfLiteTensor *)TfLiteOpaqueContextGetOpaqueTensor(context, indices->data[i]);
}

const TfLiteOpaqueTensor *TfLiteOpaqueNodeGetInput(const TfLiteOpaqueContext *c, const TfLiteOpaqueNode *n, int i) {
  return (const TfLiteOpaqueTensor *)operand(c, NODE(n)->inputs, i);
}
TfLiteOpaqueTensor *TfLiteOpaqueNodeGetOutput(TfLiteOpaqueContext *c, const TfLiteOpaqueNode *n, int i) {
  return (TfLiteOpaqueTensor *)operand(c, NODE(n)->outputs, i);
}
int TfLiteOpaqueNodeNumberOfInputs(const TfLiteOpaqueNode *n) { return NODE(n)->inputs->size; }
int TfLiteOpaqueNodeNumberOfOutputs(const TfLiteOpaqueNode *n) { return NODE(n)->outputs->size; }
void *TfLiteOpaqueNodeGetUserData(const TfLiteOpaqueNode *n) { return NODE(n)->user_data; }
void *TfLiteOpaqueNodeGetBuiltinData(const TfLiteOpaqueNode *n) { return NODE(n)->builtin_data; }

TfLiteStatus TfLiteOpaqueNodeGetCustomInitialData(const TfLiteOpaqueNode *n, const void **data, int *size) {
  *data = NODE(n)->custom_initial_data;
  *size = NODE(n)->custom_initial_data_size;
  return kTfLiteOk;
}

static TfLiteStatus list(const TfLiteIntArray *array, const int **data, int *count) {
  *data = array != NULL ? array->data : NULL;
  *count = array != NULL ? array->size : 0;
  return kTfLiteOk;
}
TfLiteStatus TfLiteOpaqueNodeInputs(const TfLiteOpaqueNode *n, const int **data, int *count) {
  return list(NODE(n)->inputs, data, count);
}
TfLiteStatus TfLiteOpaqueNodeOutputs(const TfLiteOpaqueNode *n, const int **data, int *count) {
  return list(NODE(n)->outputs, data, count);
}
TfLiteStatus TfLiteOpaqueNodeTemporaries(const TfLiteOpaqueNode *n, const int **data, int *count) {
  return list(NODE(n)->temporaries, data, count);
}

TfLiteStatus TfLiteOpaqueNodeSetTemporaries(TfLiteOpaqueNode *opaque, const int *indices, int count) {
  TfLiteIntArray *array = count >= 0 ? TfLiteIntArrayCreate(count) : NULL;
  if (array == NULL) return kTfLiteError;
  if (count > 0) memcpy(array->data, indices, sizeof(int) * (size_t)count);
  free(((TfLiteNode *)opaque)->temporaries);
  ((TfLiteNode *)opaque)->temporaries = array;
  return kTfLiteOk;
}

static int index_of(const TfLiteIntArray *array, int i) { return i >= 0 && i < array->size ? array->data[i] : -1; }
int TfLiteOpaqueNodeGetInputTensorIndex(const TfLiteOpaqueNode *n, int i) { return index_of(NODE(n)->inputs, i); }
int TfLiteOpaqueNodeGetOutputTensorIndex(const TfLiteOpaqueNode *n, int i) { return index_of(NODE(n)->outputs, i); }

// ---- The context ----

TfLiteOpaqueTensor *TfLiteOpaqueContextGetOpaqueTensor(const TfLiteOpaqueContext *c, int index) {
  const TfLiteContext *context = (const TfLiteContext *)c;
  return index >= 0 && (size_t)index < context->tensors_size ? (TfLiteOpaqueTensor *)&context->tensors[index] : NULL;
}

TfLiteStatus TfLiteOpaqueContextGetExecutionPlan(TfLiteOpaqueContext *c, TfLiteIntArray **plan) {
  return CONTEXT(c)->GetExecutionPlan(CONTEXT(c), plan);
}

TfLiteStatus TfLiteOpaqueContextGetExternalContext(TfLiteOpaqueContext *c, void **external,
                                                   TfLiteExternalContextType type) {
  *external = CONTEXT(c)->GetExternalContext(CONTEXT(c), type);
  return kTfLiteOk;
}

TfLiteStatus TfLiteOpaqueContextGetNodeAndRegistration(TfLiteOpaqueContext *c, int index, TfLiteOpaqueNode **node,
                                                       TfLiteOperator **op) {
  TfLiteNode *found;
  TfLiteRegistration *reg;
  TfLiteStatus status = CONTEXT(c)->GetNodeAndRegistration(CONTEXT(c), index, &found, &reg);
  if (status != kTfLiteOk) return status;
  *node = (TfLiteOpaqueNode *)found;
  pl_node *own = (pl_node *)found;
  if (own->op == NULL && own->identity == NULL) {
    own->identity = TfLiteOperatorCreate((TfLiteBuiltinOperator)reg->builtin_code, reg->custom_name, reg->version, NULL);
  }
  *op = own->op != NULL ? own->op : own->identity;
  return *op != NULL ? kTfLiteOk : kTfLiteError;
}

TfLiteStatus TfLiteOpaqueContextReplaceNodeSubsetsWithDelegateKernels(TfLiteOpaqueContext *c, TfLiteOperator *op,
                                                                      const TfLiteIntArray *nodes,
                                                                      TfLiteOpaqueDelegate *delegate) {
  TfLiteRegistration reg;
  memset(&reg, 0, sizeof(reg));
  reg.registration_external = op;
  int before = HOST(c)->num_nodes;
  TfLiteStatus status =
      CONTEXT(c)->ReplaceNodeSubsetsWithDelegateKernels(CONTEXT(c), reg, nodes, (TfLiteDelegate *)delegate);
  if (HOST(c)->num_nodes == before) TfLiteOperatorDelete(op);     // no node was made that could own it
  return status;
}

TfLiteStatus TfLiteOpaqueContextGetInputs(const TfLiteOpaqueContext *c, const int **data, int *count) {
  return list(HOST(c)->inputs, data, count);
}
TfLiteStatus TfLiteOpaqueContextGetOutputs(const TfLiteOpaqueContext *c, const int **data, int *count) {
  return list(HOST(c)->outputs, data, count);
}
TfLiteStatus TfLiteOpaqueContextGetVariables(const TfLiteOpaqueContext *c, const int **data, int *count) {
  return list(HOST(c)->variables, data, count);
}
size_t TfLiteOpaqueContextGetNumNodes(const TfLiteOpaqueContext *c) { return (size_t)HOST(c)->num_nodes; }
size_t TfLiteOpaqueContextGetNumTensors(const TfLiteOpaqueContext *c) { return HOST(c)->context.tensors_size; }
const char *TfLiteOpaqueContextGetName(const TfLiteOpaqueContext *c) { return HOST(c)->name; }

TfLiteStatus TfLiteOpaqueContextResizeTensor(TfLiteOpaqueContext *c, TfLiteOpaqueTensor *t, TfLiteIntArray *dims) {
  return CONTEXT(c)->ResizeTensor(CONTEXT(c), (TfLiteTensor *)t, dims);
}

TfLiteStatus TfLiteOpaqueContextAcquireSubgraphContext(TfLiteOpaqueContext *c, int index, TfLiteOpaqueContext **other) {
  return CONTEXT(c)->AcquireSubgraphContext(CONTEXT(c), index, (TfLiteContext **)other);
}
TfLiteStatus TfLiteOpaqueContextReleaseSubgraphContext(TfLiteOpaqueContext *c, int index) {
  return CONTEXT(c)->ReleaseSubgraphContext(CONTEXT(c), index);
}

TfLiteStatus TfLiteOpaqueContextMarkSubgraphAsDelegationSkippable(TfLiteOpaqueContext *c, int index) {
  TfLiteContext *other = NULL;
  TfLiteStatus status = HOST(c)->callbacks->subgraph((pl_host *)c, index, &other);
  if (status == kTfLiteOk) ((pl_host *)other)->skippable = true;
  return status;
}

TfLiteStatus TfLiteOpaqueContextGetNodeInitDataMmapInfo(const TfLiteOpaqueContext *c, const TfLiteOpaqueNode *n, int *fd,
                                                        int64_t *offset, int64_t *size) {
  (void)c, (void)n, (void)fd, (void)offset, (void)size;
  return kTfLiteError;    // the file behind the options is not known
}

TfLiteStatus TfLiteOpaqueContextGetSizeOfType(TfLiteOpaqueContext *c, TfLiteType type, size_t *bytes) {
  (void)c;
  return pl_size_of(type, bytes) ? kTfLiteOk : kTfLiteError;
}

TfLiteStatus TfLiteOpaqueContextGetMetadata(TfLiteOpaqueContext *c, const char *name, const char **data,
                                            size_t *bytes) {
  return CONTEXT(c)->GetModelMetadata(CONTEXT(c), name, data, bytes);
}

void TfLiteOpaqueContextReportErrorVa(TfLiteOpaqueContext *c, const char *format, va_list arguments) {
  char text[1024];
  vsnprintf(text, sizeof(text), format, arguments);
  CONTEXT(c)->ReportError(CONTEXT(c), "%s", text);
}

void TfLiteOpaqueContextReportError(TfLiteOpaqueContext *c, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  TfLiteOpaqueContextReportErrorVa(c, format, arguments);
  va_end(arguments);
}

// ---- Delegates: the builder's copy stands behind the struct ----

TfLiteOpaqueDelegate *TfLiteOpaqueDelegateCreate(const TfLiteOpaqueDelegateBuilder *builder) {
  if (builder == NULL) return NULL;
  TfLiteDelegate *d = calloc(1, sizeof(TfLiteDelegate) + sizeof(TfLiteOpaqueDelegateBuilder));
  if (d == NULL) return NULL;
  d->opaque_delegate_builder = (TfLiteOpaqueDelegateBuilder *)(d + 1);
  *d->opaque_delegate_builder = *builder;
  d->data_ = builder->data;
  d->flags = builder->flags;
  return (TfLiteOpaqueDelegate *)d;
}

void TfLiteOpaqueDelegateDelete(TfLiteOpaqueDelegate *d) { free(d); }

void *TfLiteOpaqueDelegateGetData(const TfLiteOpaqueDelegate *opaque) {
  const TfLiteDelegate *d = (const TfLiteDelegate *)opaque;
  if (d == NULL) return NULL;
  const TfLiteOpaqueDelegateBuilder *builder = pl_opaque_builder(d);
  return builder != NULL ? builder->data : d->data_;
}
