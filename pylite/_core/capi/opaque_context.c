// c_api_opaque.h: nodes and the context.
#include "opaque.h"

#include <stdio.h>

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
  TfLiteNode *table_node;
  TfLiteRegistration *reg;
  TfLiteStatus status = CONTEXT(c)->GetNodeAndRegistration(CONTEXT(c), index, &table_node, &reg);
  if (status != kTfLiteOk) return status;
  *node = (TfLiteOpaqueNode *)table_node;
  pl_node *entry = (pl_node *)table_node;
  if (entry->op == NULL && entry->identity == NULL) {
    entry->identity =
        TfLiteOperatorCreate((TfLiteBuiltinOperator)reg->builtin_code, reg->custom_name, reg->version, NULL);
  }
  *op = entry->op != NULL ? entry->op : entry->identity;
  return *op != NULL ? kTfLiteOk : kTfLiteError;
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

TfLiteStatus TfLiteOpaqueContextGetNodeInitDataMmapInfo(const TfLiteOpaqueContext *c, const TfLiteOpaqueNode *n,
                                                        int *fd, int64_t *offset, int64_t *size) {
  (void)c, (void)n, (void)fd, (void)offset, (void)size;
  return kTfLiteError;    // the host does not know the model's file
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
