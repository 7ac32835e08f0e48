/* A custom op and a delegate that call the host's functions as libFuzzer's input says: tests/fuzz/libfuzzer.py runs them.
 * Pointers are valid, as those of real plug-ins; numbers, shapes, names and the order of the calls are any. */
#include "tensorflow/lite/c/c_api_opaque.h"
#include "tensorflow/lite/c/common.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t *left, *end;
void drive_input(const uint8_t *data, size_t size) { left = data, end = data + size; }

static int byte(void) { return left < end ? *left++ : 0; }
static int number(void) {
  static const int odd[] = {INT32_MAX, INT32_MIN, -1, 65536, 70000, 1 << 20};
  const int b = byte();
  return b < 230 ? b % 14 - 2 : odd[b % 6];
}
static TfLiteIntArray *numbers(void) {
  const int size = byte() % 7;
  if (size == 6) return NULL;
  TfLiteIntArray *a = TfLiteIntArrayCreate(size);
  for (int i = 0; i < size; i++) a->data[i] = number();
  return a;
}
static TfLiteTensor *tensor(TfLiteContext *c) {
  const int i = number();
  if (i == -1) return NULL;
  if (i == -2) return (TfLiteTensor *)((char *)c->tensors + 96);
  return i >= 0 && (size_t)i < c->tensors_size ? &c->tensors[i] : &c->tensors[c->tensors_size - 1];
}
static const char *name(void) {
  static const char *const names[] = {"note", "", "none", NULL, "a name that is rather longer than the others are"};
  return names[byte() % 5];
}

static TfLiteStatus prepare(TfLiteContext *, TfLiteNode *), invoke(TfLiteContext *, TfLiteNode *);
static TfLiteDelegate *applied;

static void look_at(TfLiteContext *c, const TfLiteTensor *tensor) { /* by all functions that only read */
  const TfLiteOpaqueTensor *t = (const TfLiteOpaqueTensor *)tensor;
  TfLiteOpaqueContext *o = (TfLiteOpaqueContext *)c;
  const char *text;
  int32_t length;
  size_t bytes;
  for (int i = -1; i <= TfLiteOpaqueTensorNumDims(t); i++)
    TfLiteOpaqueTensorDim(t, i), TfLiteOpaqueTensorGetDimSignature(t, i, &length);
  TfLiteOpaqueTensorGetNumDimsSignature(t, &length);
  for (int i = -1, n = TfLiteOpaqueTensorGetStringCount(t); i <= n; i++)
    TfLiteOpaqueTensorGetString(t, i, &text, &length);
  TfLiteOpaqueTensorGetAllocationStrategy(t), TfLiteOpaqueTensorGetBufferAddressStability(t);
  TfLiteOpaqueTensorGetDataStability(t), TfLiteOpaqueTensorGetDataKnownStep(t), TfLiteOpaqueTensorGetShapeKnownStep(t);
  TfLiteOpaqueTensorName(t), TfLiteOpaqueTensorGetQuantization(t), TfLiteOpaqueTensorIsVariable(t);
  TfLiteOpaqueContextGetSizeOfType(o, TfLiteOpaqueTensorType(t), &bytes);
  TfLiteOpaqueContextGetSizeOfType(o, (TfLiteType)number(), &bytes);
  char *copy = malloc(tensor->bytes + 1);
  if (copy != NULL) TfLiteOpaqueTensorCopyToBuffer(t, copy, tensor->bytes + (size_t)(byte() == 1));
  free(copy);
}
static void write_to(TfLiteOpaqueTensor *t) {
  const char *const strings[] = {"a", "", "some words", "a"};
  const int lengths[] = {1, 0, 10, byte() == 1 ? -1 : 1};
  const size_t bytes = TfLiteOpaqueTensorByteSize(t);
  if (TfLiteOpaqueTensorType(t) == kTfLiteString) {
    TfLiteOpaqueTensorWriteStrings(t, strings, number() % 5, lengths);
    if (byte() % 2) TfLiteOpaqueTensorWriteString(t, "one", 3);
  } else if (TfLiteOpaqueTensorGetAllocationType(t) != kTfLiteMmapRo && bytes < 1 << 20) {
    void *zeros = calloc(1, bytes + 1);
    TfLiteOpaqueTensorCopyFromBuffer(t, zeros, bytes + (size_t)(byte() == 1));
    free(zeros);
  }
}
static void look_at_node(TfLiteContext *c, TfLiteNode *node) {
  const TfLiteOpaqueNode *n = (const TfLiteOpaqueNode *)node;
  TfLiteOpaqueContext *o = (TfLiteOpaqueContext *)c;
  const void *data;
  const int *list;
  int size;
  for (int i = -1; i <= TfLiteOpaqueNodeNumberOfInputs(n); i++)
    TfLiteOpaqueNodeGetInput(o, n, i), TfLiteOpaqueNodeGetInputTensorIndex(n, i);
  for (int i = -1; i <= TfLiteOpaqueNodeNumberOfOutputs(n); i++)
    TfLiteOpaqueNodeGetOutput(o, n, i), TfLiteOpaqueNodeGetOutputTensorIndex(n, i);
  TfLiteOpaqueNodeGetCustomInitialData(n, &data, &size), TfLiteOpaqueNodeGetBuiltinData(n);
  TfLiteOpaqueNodeInputs(n, &list, &size), TfLiteOpaqueNodeOutputs(n, &list, &size);
  TfLiteOpaqueNodeTemporaries(n, &list, &size), TfLiteOpaqueNodeGetUserData(n);
  TfLiteOpaqueContextGetInputs(o, &list, &size), TfLiteOpaqueContextGetOutputs(o, &list, &size);
  TfLiteOpaqueContextGetVariables(o, &list, &size), TfLiteOpaqueContextGetName(o);
  TfLiteOpaqueContextGetNumNodes(o), TfLiteOpaqueContextGetNumTensors(o);
}
static void add_tensor(TfLiteContext *c) {
  TfLiteOpaqueTensorBuilder *b = TfLiteOpaqueTensorBuilderCreate();
  const int where = byte() % 8, type = byte() % 22;
  void *data = byte() % 2 ? malloc(8) : NULL;
  TfLiteOpaqueTensorBuilderSetType(b, (TfLiteType)type);
  TfLiteOpaqueTensorBuilderSetAllocationType(b, (TfLiteAllocationType)where);
  TfLiteOpaqueTensorBuilderSetData(b, data);
  int index = -1;
  if (TfLiteOpaqueContextAddTensor((TfLiteOpaqueContext *)c, b, byte() % 2 ? &index : NULL) != kTfLiteOk) free(data);
  TfLiteOpaqueTensorBuilderDelete(b);
}
static void ask_as_delegate(TfLiteContext *c) {
  TfLiteOpaqueContext *o = (TfLiteOpaqueContext *)c;
  const TfLiteRegistration all = {.prepare = prepare, .invoke = invoke, .custom_name = "All"};
  TfLiteOpaqueNode *opaque;
  TfLiteOperator *op;
  TfLiteNode *node;
  TfLiteRegistration *reg;
  TfLiteIntArray *nodes = NULL;
  TfLiteDelegateParams *params;
  TfLiteContext *other;
  int count;
  switch (byte() % 6) {
    case 0: TfLiteOpaqueContextGetExecutionPlan(o, &nodes); break;
    case 1: c->GetNodeAndRegistration(c, number(), &node, &reg); break;
    case 2:
      if (TfLiteOpaqueContextGetNodeAndRegistration(o, number(), &opaque, &op) == kTfLiteOk)
        TfLiteOperatorGetBuiltInCode(op), TfLiteOperatorGetVersion(op), TfLiteOperatorGetCustomName(op);
      break;
    case 3:
      nodes = numbers();
      c->ReplaceNodeSubsetsWithDelegateKernels(c, all, nodes, byte() % 4 ? applied : NULL);
      free(nodes);
      break;
    case 4:
      nodes = numbers();
      c->PreviewDelegatePartitioning(c, nodes, &params, &count);
      free(nodes);
      break;
    case 5:
      count = number();
      if (c->AcquireSubgraphContext(c, count, &other) == kTfLiteOk) c->ReleaseSubgraphContext(c, count);
      c->ReleaseSubgraphContext(c, number());
  }
}
static void step(TfLiteContext *c, TfLiteNode *node, bool invoking) {
  const int shape[] = {1, 4, 2, number()};
  const char *data;
  size_t bytes;
  TfLiteTensor *t;
  switch (byte() % 14) {
    case 0: c->ResizeTensor(c, tensor(c), numbers()); break;
    case 1: c->ResizeTensorExplicit(c, tensor(c), number() % 5, shape); break;
    case 2: c->AddTensors(c, number(), byte() % 2 ? NULL : &(int){0}); break;
    case 3: ask_as_delegate(c); break;
    case 4: c->SetExternalContext(c, (TfLiteExternalContextType)number(), NULL); break;
    case 5: c->GetExternalContext(c, (TfLiteExternalContextType)number()); break;
    case 6:
      if (c->GetModelMetadata(c, name(), &data, &bytes) == kTfLiteOk && bytes) (void)*(const volatile char *)data;
      break;
    case 7: TfLiteOpaqueContextReportError((TfLiteOpaqueContext *)c, "%d %s", number(), name() ? "and" : "so"); break;
    case 8:
      if (node != NULL && !invoking) {
        int list[4] = {number(), number(), number(), number()};
        TfLiteOpaqueNodeSetTemporaries((TfLiteOpaqueNode *)node, list, byte() % 6 - 1);
      }
      break;
    case 9:
      if (node != NULL && node->outputs->size && !invoking) /* of another's tensor, what follows is undefined */
        TfLiteOpaqueTensorSetAllocationTypeToDynamic(
            (TfLiteOpaqueTensor *)&c->tensors[node->outputs->data[byte() % node->outputs->size]]);
      break;
    case 10:
      if ((t = tensor(c)) != NULL && (char *)t != (char *)c->tensors + 96) look_at(c, t);
      break;
    case 11:
      if (node != NULL && node->outputs->size) write_to((TfLiteOpaqueTensor *)&c->tensors[node->outputs->data[0]]);
      break;
    case 12: add_tensor(c); break;
    case 13:
      if (node != NULL) look_at_node(c, node);
  }
}
static TfLiteStatus drive(TfLiteContext *c, TfLiteNode *node, bool invoking) {
  for (int i = byte() % 9; i > 0; i--) step(c, node, invoking);
  return byte() == 1 ? kTfLiteError : kTfLiteOk;
}
static TfLiteStatus prepare(TfLiteContext *c, TfLiteNode *node) { return drive(c, node, false); }
static TfLiteStatus invoke(TfLiteContext *c, TfLiteNode *node) { return drive(c, node, true); }

TfLiteRegistration *Register_DRIVEN(void) {
  static TfLiteRegistration reg = {.prepare = prepare, .invoke = invoke, .custom_name = "Driven"};
  return &reg;
}

static TfLiteStatus delegate_prepare(TfLiteContext *c, TfLiteDelegate *delegate) {
  applied = delegate;
  for (int i = byte() % 9; i > 0; i--) {
    if (byte() % 2) ask_as_delegate(c);
    else step(c, NULL, false);
  }
  return byte() == 1 ? kTfLiteError : kTfLiteOk;
}
TfLiteDelegate *tflite_plugin_create_delegate(char **keys, char **values, size_t count, void (*report)(const char *)) {
  (void)keys, (void)values, (void)count, (void)report;
  TfLiteDelegate *d = calloc(1, sizeof *d);
  d->Prepare = delegate_prepare;
  d->flags = byte() % 4;
  return d;
}
void tflite_plugin_destroy_delegate(TfLiteDelegate *d) { free(d); }
