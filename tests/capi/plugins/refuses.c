// An op and a delegate that call the functions of the host with wrong arguments and in wrong states: the host must refuse
// what it can check.  Both report the lines of calls that it did not refuse, and fail.
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/lite/builtin_ops.h"
#include "tensorflow/lite/c/c_api_opaque.h"
#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/delegates/external/external_delegate_interface.h"

static int faults;
#define SEE(condition)                                                             \
  do {                                                                             \
    if (!(condition)) {                                                            \
      context->ReportError(context, "refuses.c:%d: %s", __LINE__, #condition);     \
      faults++;                                                                    \
    }                                                                              \
  } while (0)
#define REFUSED(call) SEE((call) == kTfLiteError)
#define ACCEPTED(call) SEE((call) == kTfLiteOk)
#define OPAQUE(t) ((TfLiteOpaqueTensor*)(t))

static TfLiteIntArray* Array(int size, int first, int second) {
  TfLiteIntArray* a = TfLiteIntArrayCreate(2);
  a->size = size;
  a->data[0] = first, a->data[1] = second;
  return a;
}

static void Resizing(TfLiteContext* context, TfLiteNode* node, int added) {
  TfLiteTensor elsewhere = {.allocation_type = kTfLiteArenaRw}, *t = &context->tensors[added];
  REFUSED(context->ResizeTensor(context, t, NULL));
  REFUSED(context->ResizeTensor(context, NULL, Array(1, 1, 0)));
  REFUSED(context->ResizeTensor(context, &elsewhere, Array(1, 1, 0)));
  REFUSED(context->ResizeTensor(context, context->tensors - 1, Array(1, 1, 0)));
  REFUSED(context->ResizeTensor(context, context->tensors + context->tensors_size, Array(1, 1, 0)));
  for (int bytes = 8; bytes < 112; bytes += 8) {
    REFUSED(context->ResizeTensor(context, (TfLiteTensor*)((char*)context->tensors + bytes), Array(1, 1, 0)));
  }
  REFUSED(context->ResizeTensor(context, &context->tensors[node->inputs->data[1]], Array(1, 5, 0)));   // a constant
  REFUSED(context->ResizeTensor(context, t, Array(-1, 1, 0)));
  REFUSED(context->ResizeTensor(context, t, Array(2, 1, -1)));
  REFUSED(context->ResizeTensorExplicit(context, t, 4, (int[]){INT_MAX, INT_MAX, INT_MAX, 2}));
  REFUSED(context->ResizeTensorExplicit(context, t, -1, NULL));
  ACCEPTED(context->ResizeTensorExplicit(context, t, 0, NULL));
  SEE(t->bytes == 4 && t->dims->size == 0);
  ACCEPTED(context->ResizeTensorExplicit(context, t, 3, (int[]){7, 0, INT_MAX}));
  SEE(t->bytes == 0);
  t->type = kTfLiteVariant;
  ACCEPTED(context->ResizeTensor(context, t, Array(1, 3, 0)));
  SEE(t->bytes == 3 * sizeof(void*));
  t->type = (TfLiteType)99;
  ACCEPTED(context->ResizeTensor(context, t, Array(1, 2, 0)));
  t->type = kTfLiteInt8;
  t->allocation_type = kTfLiteDynamic;
  REFUSED(context->ResizeTensorExplicit(context, t, 2, (int[]){1 << 30, 1 << 24}));     // 16 petabytes
  ACCEPTED(context->ResizeTensor(context, t, Array(1, 9, 0)));
  SEE(t->data.raw != NULL);
  t->data.raw[8] = 1;
}

static void AddingAndStates(TfLiteContext* context) {
  TfLiteIntArray *plan = NULL, *nodes = Array(1, 0, 0);
  TfLiteRegistration reg = {0}, *found;
  TfLiteNode* node;
  TfLiteDelegateParams* parts;
  TfLiteContext* other;
  const char* data;
  size_t bytes;
  int count, before = (int)context->tensors_size;
  REFUSED(context->AddTensors(context, -1, &count));
  REFUSED(context->AddTensors(context, INT_MAX, &count));
  ACCEPTED(context->AddTensors(context, 1, NULL));
  SEE((int)context->tensors_size == before + 1);
  SEE(context->GetExternalContext(context, kTfLiteMaxExternalContexts) == NULL);
  SEE(context->GetExternalContext(context, (TfLiteExternalContextType)-1) == NULL);
  context->SetExternalContext(context, kTfLiteMaxExternalContexts, NULL);
  // These functions are for a delegate's Prepare.
  REFUSED(context->GetExecutionPlan(context, &plan));
  REFUSED(context->GetNodeAndRegistration(context, 0, &node, &found));
  REFUSED(context->ReplaceNodeSubsetsWithDelegateKernels(context, reg, nodes, NULL));
  REFUSED(context->PreviewDelegatePartitioning(context, nodes, &parts, &count));
  REFUSED(context->AcquireSubgraphContext(context, 0, &other));
  REFUSED(context->ReleaseSubgraphContext(context, 0));
  REFUSED(context->GetModelMetadata(context, NULL, &data, &bytes));
  REFUSED(context->GetModelMetadata(context, "note", &data, &bytes));
  free(nodes);
}

static void Strings(TfLiteContext* context, TfLiteTensor* t) {
  static const struct { int32_t words[5]; size_t bytes; int count; } damaged[] = {
      {{1, 12, 12}, 2, -1}, {{-1, 12, 12}, 12, -1}, {{9, 12, 12}, 12, -1}, {{1, -1, 12}, 12, 1}, {{1, 12, 8}, 12, 1},
      {{1, 12, 99}, 12, 1}};
  const char* text;
  int length;
  SEE(TfLiteOpaqueTensorGetStringCount(OPAQUE(&context->tensors[0])) == -1);        // floats
  SEE(TfLiteOpaqueTensorWriteString(OPAQUE(&context->tensors[0]), "a", 1) == kTfLiteError);
  t->type = kTfLiteString;
  t->data.raw = NULL;
  SEE(TfLiteOpaqueTensorGetStringCount(OPAQUE(t)) == -1);
  t->allocation_type = kTfLiteArenaRw;
  REFUSED(TfLiteOpaqueTensorWriteString(OPAQUE(t), "a", 1));
  TfLiteOpaqueTensorSetAllocationTypeToDynamic(OPAQUE(t));
  TfLiteOpaqueTensorSetAllocationTypeToDynamic(OPAQUE(t));
  REFUSED(TfLiteOpaqueTensorWriteStrings(OPAQUE(t), NULL, -1, NULL));
  REFUSED(TfLiteOpaqueTensorWriteStrings(OPAQUE(t), NULL, 1 << 29, NULL));  // whose offsets do not fit into int32
  REFUSED(TfLiteOpaqueTensorWriteString(OPAQUE(t), "a", -1));
  REFUSED(TfLiteOpaqueTensorWriteStrings(OPAQUE(t), NULL, 2, (int[]){INT_MAX - 20, 30}));
  REFUSED(TfLiteOpaqueTensorWriteString(OPAQUE(t), NULL, INT_MAX));
  ACCEPTED(TfLiteOpaqueTensorWriteStrings(OPAQUE(t), NULL, 0, NULL));
  SEE(TfLiteOpaqueTensorGetStringCount(OPAQUE(t)) == 0);
  ACCEPTED(TfLiteOpaqueTensorWriteString(OPAQUE(t), "word", 4));
  SEE(TfLiteOpaqueTensorGetString(OPAQUE(t), 0, &text, &length) == kTfLiteOk && length == 4 && *text == 'w');
  REFUSED(TfLiteOpaqueTensorGetString(OPAQUE(t), 1, &text, &length));
  REFUSED(TfLiteOpaqueTensorGetString(OPAQUE(t), -1, &text, &length));
  char *mine = t->data.raw;
  const size_t bytes = t->bytes;
  for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
    t->data.raw = (char*)damaged[i].words;
    t->bytes = damaged[i].bytes;
    SEE(TfLiteOpaqueTensorGetStringCount(OPAQUE(t)) == damaged[i].count);
    REFUSED(TfLiteOpaqueTensorGetString(OPAQUE(t), 0, &text, &length));
  }
  t->data.raw = mine;
  t->bytes = bytes;
}

static void Tensors(TfLiteContext* context, TfLiteNode* node) {
  TfLiteOpaqueContext* c = (TfLiteOpaqueContext*)context;
  const TfLiteOpaqueTensor *x = TfLiteOpaqueContextGetOpaqueTensor(c, node->inputs->data[0]);
  const TfLiteOpaqueTensor *k = TfLiteOpaqueContextGetOpaqueTensor(c, node->inputs->data[1]);
  TfLiteTensor none = {.type = kTfLiteFloat32};
  float values[2] = {0};
  int32_t n;
  size_t bytes;
  SEE(TfLiteOpaqueContextGetOpaqueTensor(c, -1) == NULL);
  SEE(TfLiteOpaqueContextGetOpaqueTensor(c, (int)context->tensors_size) == NULL);
  SEE(TfLiteOpaqueTensorNumDims(OPAQUE(&none)) == -1 && TfLiteOpaqueTensorDim(OPAQUE(&none), 0) == -1);
  SEE(TfLiteOpaqueTensorDim(x, -1) == -1 && TfLiteOpaqueTensorDim(x, 2) == -1 && TfLiteOpaqueTensorDim(x, 1) == 2);
  ACCEPTED(TfLiteOpaqueTensorGetNumDimsSignature(x, &n));
  SEE(n == 2);
  ACCEPTED(TfLiteOpaqueTensorGetNumDimsSignature(k, &n));
  SEE(n == -1);
  SEE(TfLiteOpaqueTensorGetDimSignature(x, 0, &n) == kTfLiteOk && n == -1);
  REFUSED(TfLiteOpaqueTensorGetDimSignature(x, 2, &n));
  REFUSED(TfLiteOpaqueTensorGetDimSignature(x, -1, &n));
  REFUSED(TfLiteOpaqueTensorGetDimSignature(k, 0, &n));
  SEE(TfLiteOpaqueTensorData(NULL) == NULL && TfLiteOpaqueTensorIsVariable(x) == 0);
  REFUSED(TfLiteOpaqueTensorCopyToBuffer(k, values, 3));
  ACCEPTED(TfLiteOpaqueTensorCopyToBuffer(k, values, 8));
  SEE(values[0] == 3 && TfLiteOpaqueTensorGetQuantizationParams(k).scale == 0.0f);
  REFUSED(TfLiteOpaqueTensorCopyToBuffer(x, values, TfLiteOpaqueTensorByteSize(x)));     // without memory yet
  REFUSED(TfLiteOpaqueTensorCopyFromBuffer((TfLiteOpaqueTensor*)x, values, TfLiteOpaqueTensorByteSize(x)));
  REFUSED(TfLiteOpaqueTensorCopyFromBuffer(OPAQUE(&none), values, 8));
  ACCEPTED(TfLiteOpaqueTensorCopyFromBuffer(OPAQUE(&none), values, 0));
  ACCEPTED(TfLiteOpaqueTensorCopyToBuffer(OPAQUE(&none), values, 0));
  none.bytes = 8;
  none.data.f = (float[]){5, 6};
  ACCEPTED(TfLiteOpaqueTensorCopyFromBuffer(OPAQUE(&none), values, 8));
  SEE(none.data.f[0] == 3 && TfLiteOpaqueTensorGetQuantization(x).type == kTfLiteNoQuantization);
  none.data.raw = NULL;
  TfLiteOpaqueTensorSetNonCpuAllocation(OPAQUE(&none));
  SEE(TfLiteOpaqueTensorGetAllocationType(OPAQUE(&none)) == kTfLiteNonCpu);
  for (int where = 0; where <= kTfLiteNonCpu; where++) {
    none.allocation_type = (TfLiteAllocationType)where;
    const bool constant = where <= kTfLiteMmapRo;
    TfLiteOpaqueTensorGetDataStability(OPAQUE(&none));
    SEE((TfLiteOpaqueTensorGetDataKnownStep(OPAQUE(&none)) == kTfLiteRunStepInit) == constant);
    TfLiteOpaqueTensorGetAllocationStrategy(OPAQUE(&none));
    TfLiteOpaqueTensorGetBufferAddressStability(OPAQUE(&none));
    TfLiteOpaqueTensorGetShapeKnownStep(OPAQUE(&none));
  }
  ACCEPTED(TfLiteOpaqueContextGetSizeOfType(c, kTfLiteInt64, &bytes));
  SEE(bytes == 8);
  REFUSED(TfLiteOpaqueContextGetSizeOfType(c, kTfLiteString, &bytes));
  REFUSED(TfLiteOpaqueContextGetSizeOfType(c, (TfLiteType)-1, &bytes));
}

static void Nodes(TfLiteContext* context, TfLiteNode* node) {
  TfLiteOpaqueContext* c = (TfLiteOpaqueContext*)context;
  TfLiteOpaqueNode *n = (TfLiteOpaqueNode*)node, *other;
  TfLiteNode empty = {0};
  TfLiteOperator* op;
  const void* options;
  const int* list;
  const char* data;
  int size, fd;
  int64_t offset, length;
  size_t bytes;
  SEE(TfLiteOpaqueNodeGetInput(c, n, -1) == NULL && TfLiteOpaqueNodeGetInput(c, n, 2) == NULL);
  SEE(TfLiteOpaqueNodeGetOutput(c, n, 9) == NULL && TfLiteOpaqueNodeGetOutput(c, (TfLiteOpaqueNode*)&empty, 0) == NULL);
  SEE(TfLiteOpaqueNodeGetInputTensorIndex(n, -1) == -1 && TfLiteOpaqueNodeGetInputTensorIndex(n, 2) == -1);
  SEE(TfLiteOpaqueNodeGetInputTensorIndex(n, 0) == node->inputs->data[0] && TfLiteOpaqueNodeNumberOfOutputs(n) == 1);
  SEE(TfLiteOpaqueNodeGetOutputTensorIndex(n, 0) == node->outputs->data[0]);
  ACCEPTED(TfLiteOpaqueNodeInputs(n, &list, &size));
  SEE(size == 2 && list[0] == node->inputs->data[0] && TfLiteOpaqueNodeNumberOfInputs(n) == 2);
  ACCEPTED(TfLiteOpaqueNodeOutputs((TfLiteOpaqueNode*)&empty, &list, &size));
  SEE(size == 0 && list == NULL && TfLiteOpaqueNodeGetBuiltinData(n) == NULL);
  ACCEPTED(TfLiteOpaqueNodeGetCustomInitialData(n, &options, &size));
  SEE(size == 1);
  REFUSED(TfLiteOpaqueNodeSetTemporaries(n, NULL, -1));
  ACCEPTED(TfLiteOpaqueNodeSetTemporaries(n, NULL, 0));
  ACCEPTED(TfLiteOpaqueContextGetInputs(c, &list, &size));
  ACCEPTED(TfLiteOpaqueContextGetOutputs(c, &list, &size));
  ACCEPTED(TfLiteOpaqueContextGetVariables(c, &list, &size));
  SEE(size == 0 && TfLiteOpaqueContextGetNumNodes(c) == 2 && TfLiteOpaqueContextGetNumTensors(c) >= 4);
  SEE(strcmp(TfLiteOpaqueContextGetName(c), "main") == 0);
  REFUSED(TfLiteOpaqueContextGetNodeInitDataMmapInfo(c, n, &fd, &offset, &length));
  REFUSED(TfLiteOpaqueContextGetMetadata(c, "note", &data, &bytes));
  REFUSED(TfLiteOpaqueContextGetNodeAndRegistration(c, 0, &other, &op));
  void* external = context;
  ACCEPTED(TfLiteOpaqueContextGetExternalContext(c, &external, kTfLiteEigenContext));
  SEE(external == NULL);
}

static void Builders(TfLiteContext* context) {
  TfLiteOpaqueContext* c = (TfLiteOpaqueContext*)context;
  TfLiteOpaqueTensorBuilder* b = TfLiteOpaqueTensorBuilderCreate();
  const TfLiteQuantizationParams params = {0.5f, 3};
  const TfLiteQuantization none = {kTfLiteNoQuantization, NULL};
  void* data = malloc(4);
  int index;
  TfLiteOpaqueTensorBuilderSetType(b, kTfLiteInt8);
  TfLiteOpaqueTensorBuilderSetQuantizationParams(TfLiteOpaqueTensorBuilderSetQuantization(b, none), params);
  REFUSED(TfLiteOpaqueContextAddTensor(c, TfLiteOpaqueTensorBuilderSetAllocationType(b, kTfLiteMmapRo), &index));
  REFUSED(TfLiteOpaqueContextAddTensor(c, TfLiteOpaqueTensorBuilderSetAllocationType(b, kTfLiteDynamic), &index));
  TfLiteOpaqueTensorBuilderSetData(b, data);
  REFUSED(TfLiteOpaqueContextAddTensor(c, TfLiteOpaqueTensorBuilderSetAllocationType(b, kTfLiteArenaRw), &index));
  ACCEPTED(TfLiteOpaqueContextAddTensor(c, TfLiteOpaqueTensorBuilderSetAllocationType(b, kTfLiteDynamic), &index));
  SEE(context->tensors[index].data.raw == data && context->tensors[index].params.zero_point == 3);
  TfLiteOpaqueTensorBuilderSetData(b, NULL);
  TfLiteOpaqueTensorBuilderSetAllocationType(b, kTfLiteArenaRwPersistent);
  ACCEPTED(TfLiteOpaqueContextAddTensor(c, b, NULL));
  while (context->AddTensors(context, 1, NULL) == kTfLiteOk) continue;
  REFUSED(TfLiteOpaqueContextAddTensor(c, b, &index));     // the table is full
  TfLiteOpaqueTensorBuilderDelete(b);
}

static void* NoInit(void* data, TfLiteOpaqueContext* c, const char* options, size_t n) { return NULL; }
static void NoFree(void* data, TfLiteOpaqueContext* c, void* kernel) {}
static TfLiteStatus NoCall(void* data, TfLiteOpaqueContext* c, TfLiteOpaqueNode* n) { return kTfLiteOk; }

static void Operators(TfLiteContext* context) {
  int mine;
  TfLiteOperator* op = TfLiteOperatorCreate(kTfLiteBuiltinAdd, NULL, 4, &mine);
  SEE(TfLiteOperatorGetBuiltInCode(op) == kTfLiteBuiltinAdd && TfLiteOperatorGetCustomName(op) == NULL);
  SEE(TfLiteOperatorGetVersion(op) == 4 && TfLiteOperatorGetVersion(NULL) == -1);
  SEE(TfLiteOperatorGetUserData(op) == &mine && TfLiteOperatorGetUserData(NULL) == NULL);
  ACCEPTED(TfLiteOperatorSetInitWithData(op, NoInit));
  ACCEPTED(TfLiteOperatorSetFreeWithData(op, NoFree));
  ACCEPTED(TfLiteOperatorSetPrepareWithData(op, NoCall));
  ACCEPTED(TfLiteOperatorSetInvokeWithData(op, NoCall));
  TfLiteOperatorSetInplaceOperator(op, 1);
  TfLiteOperatorDelete(op);
  TfLiteOperatorDelete(NULL);
  SEE(TfLiteOpaqueDelegateCreate(NULL) == NULL && TfLiteOpaqueDelegateGetData(NULL) == NULL);
  TfLiteOpaqueDelegateDelete(NULL);
  TfLiteOpaqueDelegateBuilder builder = {.data = &mine};
  TfLiteOpaqueDelegate* opaque = TfLiteOpaqueDelegateCreate(&builder);
  SEE(TfLiteOpaqueDelegateGetData(opaque) == &mine);
  TfLiteOpaqueDelegateDelete(opaque);
  TfLiteDelegate plain = {.data_ = &faults};
  SEE(TfLiteOpaqueDelegateGetData((TfLiteOpaqueDelegate*)&plain) == &faults);
}

static TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
  int added = -1;
  faults = 0;
  ACCEPTED(context->AddTensors(context, 2, &added));
  for (int i = 0; i < 2; i++) context->tensors[added + i].allocation_type = kTfLiteArenaRw;
  context->tensors[added].type = kTfLiteFloat32;
  Resizing(context, node, added);
  AddingAndStates(context);
  Strings(context, &context->tensors[added + 1]);
  Tensors(context, node);
  Nodes(context, node);
  Operators(context);
  Builders(context);
  context->ReportError(context, "two lines\nof %s", "a report");
  return faults ? kTfLiteError : kTfLiteOk;
}

static TfLiteStatus Invoke(TfLiteContext* context, TfLiteNode* node) {
  TfLiteTensor* x = &context->tensors[node->inputs->data[0]], *y = &context->tensors[node->outputs->data[0]];
  REFUSED(context->ResizeTensorExplicit(context, x, 1, (int[]){1}));
  REFUSED(context->ResizeTensorExplicit(context, y, 1, (int[]){1}));
  memcpy(y->data.raw, x->data.raw, y->bytes);
  return faults ? kTfLiteError : kTfLiteOk;
}

TFL_CAPI_EXPORT TfLiteRegistration* Register_REFUSED(void) {
  static TfLiteRegistration r = {.prepare = Prepare, .invoke = Invoke, .custom_name = "Refused", .version = 1};
  return &r;
}

// ---- The delegate, of a model with two subgraphs ----

static TfLiteStatus Known(TfLiteContext* context, TfLiteNode* node) { return kTfLiteOk; }

static TfLiteStatus Apply(TfLiteContext* context, TfLiteDelegate* delegate) {
  TfLiteOpaqueContext* c = (TfLiteOpaqueContext*)context;
  const TfLiteRegistration reg = {.prepare = Known, .invoke = Known, .custom_name = "Mine"};
  TfLiteRegistration* found;
  TfLiteIntArray *nodes = Array(1, 0, 0), *plan, *again;
  TfLiteNode* node;
  TfLiteDelegateParams* parts;
  TfLiteContext* other;
  TfLiteOpaqueContext* opaque;
  const char* data;
  size_t bytes;
  int count;
  faults = 0;
  ACCEPTED(context->GetExecutionPlan(context, &plan));
  ACCEPTED(context->GetExecutionPlan(context, &again));
  SEE(again->size == 1);
  REFUSED(context->GetNodeAndRegistration(context, -1, &node, &found));
  REFUSED(context->GetNodeAndRegistration(context, 1, &node, &found));
  ACCEPTED(context->GetNodeAndRegistration(context, 0, &node, &found));
  REFUSED(found->invoke(context, node));        // a kernel of pylite
  for (int wrong = -1; wrong < 2; wrong += 2) {
    nodes->data[0] = wrong;
    REFUSED(context->ReplaceNodeSubsetsWithDelegateKernels(context, reg, nodes, delegate));
    REFUSED(context->PreviewDelegatePartitioning(context, nodes, &parts, &count));
  }
  REFUSED(context->ReplaceNodeSubsetsWithDelegateKernels(context, reg, NULL, delegate));
  REFUSED(context->PreviewDelegatePartitioning(context, NULL, &parts, &count));
  nodes->size = 0;
  ACCEPTED(context->ReplaceNodeSubsetsWithDelegateKernels(context, reg, nodes, delegate));
  ACCEPTED(context->PreviewDelegatePartitioning(context, nodes, &parts, &count));
  SEE(count == 0);
  TfLiteOperator* op = TfLiteOperatorCreate(kTfLiteBuiltinDelegate, "Mine", 1, NULL);
  ACCEPTED(TfLiteOpaqueContextReplaceNodeSubsetsWithDelegateKernels(c, op, nodes, (TfLiteOpaqueDelegate*)delegate));
  free(nodes);
  REFUSED(context->AcquireSubgraphContext(context, 7, &other));
  REFUSED(context->ReleaseSubgraphContext(context, 7));
  REFUSED(TfLiteOpaqueContextMarkSubgraphAsDelegationSkippable(c, 7));
  const int mine = strcmp(TfLiteOpaqueContextGetName(c), "main") != 0;      // the index of this subgraph
  ACCEPTED(context->AcquireSubgraphContext(context, 1 - mine, &other));
  SEE(other != context && other->GetExecutionPlan(other, &plan) == kTfLiteOk);
  ACCEPTED(context->ReleaseSubgraphContext(context, 1 - mine));
  REFUSED(other->GetExecutionPlan(other, &plan));
  ACCEPTED(TfLiteOpaqueContextAcquireSubgraphContext(c, mine, &opaque));
  ACCEPTED(TfLiteOpaqueContextReleaseSubgraphContext(c, mine));
  ACCEPTED(context->GetExecutionPlan(context, &plan));      // its own subgraph stays
  REFUSED(context->GetModelMetadata(context, "none", &data, &bytes));
  REFUSED(context->GetModelMetadata(context, "empty", &data, &bytes));
  REFUSED(context->GetModelMetadata(context, "\xff\xfe", &data, &bytes));
  ACCEPTED(TfLiteOpaqueContextGetMetadata(c, "note", &data, &bytes));
  SEE(bytes == 4 && memcmp(data, "text", 4) == 0);
  return faults ? kTfLiteError : kTfLiteOk;
}

TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values, size_t count,
                                              void (*report)(const char*)) {
  TfLiteDelegate* delegate = calloc(1, sizeof(TfLiteDelegate));
  delegate->Prepare = Apply;
  return delegate;
}

void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate) { free(delegate); }
