// Ops and a delegate whose calls let the host allocate memory.  They pass on every error.  An op that was told less than
// the model says, a name or a shape, fails as well.
#include <stdlib.h>
#include <string.h>

#include "tensorflow/lite/builtin_ops.h"
#include "tensorflow/lite/c/c_api_opaque.h"
#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/delegates/external/external_delegate_interface.h"

#define SEE(condition)                                                      \
  do {                                                                      \
    if (!(condition)) {                                                     \
      context->ReportError(context, "line %d: %s", __LINE__, #condition);   \
      return kTfLiteError;                                                  \
    }                                                                       \
  } while (0)
#define CHECK(call) TF_LITE_ENSURE_STATUS(call)

static TfLiteIntArray* Copied(TfLiteContext* context, int tensor) {
  return TfLiteIntArrayCopy(context->tensors[tensor].dims);
}

// ---- A classic op: y of the arena, z dynamic, s strings; a temporary; the quantized constant c and the sparse k. ----

static TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
  SEE(node->inputs->size == 5 && node->outputs->size == 3 && node->intermediates != NULL);
  SEE(node->custom_initial_data_size == 5 && memcmp(node->custom_initial_data, "words", 5) == 0);
  const int x = node->inputs->data[0], c = node->inputs->data[1], k = node->inputs->data[2], *out = node->outputs->data;
  SEE(strcmp(context->tensors[x].name, "x") == 0 && context->tensors[x].dims_signature != NULL);
  SEE(context->tensors[x].dims_signature->data[0] == -1);
  const TfLiteAffineQuantization* q = context->tensors[c].quantization.params;
  SEE(q != NULL && q->scale->size == 2 && q->zero_point->size == 2 && q->scale->data[1] == 0.5f);
  const TfLiteSparsity* s = context->tensors[k].sparsity;
  SEE(s != NULL && s->dim_metadata_size == 2 && s->traversal_order->size == 2);
  SEE(s->dim_metadata[1].array_segments->size == 3 && s->dim_metadata[1].array_indices->size == 2);
  SEE(context->tensors[node->inputs->data[3]].quantization.type == kTfLiteBlockwiseQuantization);
  SEE(context->tensors[node->inputs->data[3]].quantization.params != NULL);
  context->ReportError(context, "a remark");
  context->ReportError(context, "another one");
  if (node->temporaries->size == 0) {
    int first;
    CHECK(context->AddTensors(context, 1, &first));
    TfLiteIntArray* list = TfLiteIntArrayCreate(1);
    if (list == NULL) return kTfLiteError;
    list->data[0] = first;
    TfLiteIntArrayFree(node->temporaries);
    node->temporaries = list;
    context->tensors[first].type = kTfLiteFloat32;
    context->tensors[first].allocation_type = kTfLiteArenaRw;
  }
  CHECK(context->ResizeTensorExplicit(context, &context->tensors[node->temporaries->data[0]], 1, (int[]){4}));
  TfLiteTensor* z = &context->tensors[out[1]];
  if (z->allocation_type != kTfLiteDynamic) {
    TfLiteTensorDataFree(z);
    z->allocation_type = kTfLiteDynamic;
  }
  return context->ResizeTensor(context, &context->tensors[out[0]], Copied(context, x));
}

static TfLiteStatus Invoke(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* x = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* outputs[3];
  for (int i = 0; i < 3; i++) outputs[i] = &context->tensors[node->outputs->data[i]];
  CHECK(context->ResizeTensor(context, outputs[1], Copied(context, node->inputs->data[0])));
  SEE(TfLiteOpaqueTensorGetStringCount((TfLiteOpaqueTensor*)&context->tensors[node->inputs->data[4]]) == 1);
  SEE(outputs[1]->data.raw != NULL && outputs[1]->bytes == x->bytes);
  for (size_t i = 0; i < x->bytes / sizeof(float); i++) {
    outputs[0]->data.f[i] = x->data.f[i] + 1;
    outputs[1]->data.f[i] = x->data.f[i] + 2;
  }
  const char* texts[] = {"one", "and another"};
  CHECK(TfLiteOpaqueTensorWriteStrings((TfLiteOpaqueTensor*)outputs[2], texts, 2, (int[]){3, 11}));
  return kTfLiteOk;
}

TFL_CAPI_EXPORT TfLiteRegistration* Register_NEEDY(void) {
  static TfLiteRegistration r = {.prepare = Prepare, .invoke = Invoke, .custom_name = "Needy", .version = 1};
  return &r;
}

// ---- An op behind opaque types, with a temporary. ----

static TfLiteStatus OpaquePrepare(TfLiteOpaqueContext* c, TfLiteOpaqueNode* node) {
  TfLiteContext* context = (TfLiteContext*)c;
  const int *list, x = TfLiteOpaqueNodeGetInputTensorIndex(node, 0);
  int size, first;
  CHECK(TfLiteOpaqueNodeTemporaries(node, &list, &size));
  if (size == 0) {
    TfLiteOpaqueTensorBuilder* b = TfLiteOpaqueTensorBuilderCreate();
    if (b == NULL) return kTfLiteError;
    TfLiteOpaqueTensorBuilderSetAllocationType(TfLiteOpaqueTensorBuilderSetType(b, kTfLiteFloat32), kTfLiteArenaRw);
    const TfLiteStatus added = TfLiteOpaqueContextAddTensor(c, b, &first);
    TfLiteOpaqueTensorBuilderDelete(b);
    CHECK(added);
    CHECK(TfLiteOpaqueNodeSetTemporaries(node, &first, 1));
  } else {
    first = list[0];
  }
  CHECK(TfLiteOpaqueContextResizeTensor(c, TfLiteOpaqueContextGetOpaqueTensor(c, first), Copied(context, x)));
  return TfLiteOpaqueContextResizeTensor(c, TfLiteOpaqueNodeGetOutput(c, node, 0), Copied(context, x));
}

static TfLiteStatus OpaqueInvoke(TfLiteOpaqueContext* c, TfLiteOpaqueNode* node) {
  const float* x = TfLiteOpaqueTensorData(TfLiteOpaqueNodeGetInput(c, node, 0));
  TfLiteOpaqueTensor* out = TfLiteOpaqueNodeGetOutput(c, node, 0);
  float* y = TfLiteOpaqueTensorData(out);
  for (size_t i = 0; i < TfLiteOpaqueTensorByteSize(out) / sizeof(float); i++) y[i] = 2 * x[i];
  return kTfLiteOk;
}

TFL_CAPI_EXPORT TfLiteOperator* DoubledOperator(void) {
  static TfLiteOperator* op;
  if (op == NULL && (op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Doubled", 1, NULL)) != NULL) {
    TfLiteOperatorSetPrepare(op, OpaquePrepare);
    TfLiteOperatorSetInvoke(op, OpaqueInvoke);
  }
  return op;
}

// ---- Delegates, with and without opaque types: they take NEG. ----

static TfLiteStatus PrepareNegate(TfLiteContext* context, TfLiteNode* node) {
  TfLiteIntArrayFree(node->temporaries);        // the host puts an empty list there
  node->temporaries = NULL;
  return context->ResizeTensor(context, &context->tensors[node->outputs->data[0]],
                               Copied(context, node->inputs->data[0]));
}

static TfLiteStatus Negate(TfLiteContext* context, TfLiteNode* node) {
  SEE(node->builtin_data != NULL && node->intermediates != NULL);
  const TfLiteTensor* x = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* y = &context->tensors[node->outputs->data[0]];
  for (size_t i = 0; i < x->bytes / sizeof(float); i++) y->data.f[i] = -x->data.f[i];
  return kTfLiteOk;
}
static TfLiteStatus OpaquePrepareNegate(TfLiteOpaqueContext* c, TfLiteOpaqueNode* n) {
  return PrepareNegate((TfLiteContext*)c, (TfLiteNode*)n);
}
static TfLiteStatus OpaqueNegate(TfLiteOpaqueContext* c, TfLiteOpaqueNode* n) {
  return Negate((TfLiteContext*)c, (TfLiteNode*)n);
}

static TfLiteStatus Claim(TfLiteContext* context, TfLiteDelegate* delegate, TfLiteIntArray* nodes, int opaque) {
  TfLiteDelegateParams* parts;
  int count;
  CHECK(context->PreviewDelegatePartitioning(context, nodes, &parts, &count));
  SEE(count == 2 && parts[1].nodes_to_replace->size == 1 && parts[1].output_tensors->size == 1);
  if (!opaque) {
    const TfLiteRegistration r = {.prepare = PrepareNegate, .invoke = Negate, .custom_name = "Negative"};
    return context->ReplaceNodeSubsetsWithDelegateKernels(context, r, nodes, delegate);
  }
  TfLiteOperator* op = TfLiteOperatorCreate(kTfLiteBuiltinDelegate, "Negative", 1, NULL);
  if (op == NULL) return kTfLiteError;
  TfLiteOperatorSetPrepare(op, OpaquePrepareNegate);
  TfLiteOperatorSetInvoke(op, OpaqueNegate);
  return TfLiteOpaqueContextReplaceNodeSubsetsWithDelegateKernels((TfLiteOpaqueContext*)context, op, nodes,
                                                                  (TfLiteOpaqueDelegate*)delegate);
}

static TfLiteStatus Apply(TfLiteContext* context, TfLiteDelegate* delegate, int opaque) {
  TfLiteIntArray* plan;
  const char* note;
  size_t bytes;
  CHECK(context->GetModelMetadata(context, "note", &note, &bytes));
  SEE(bytes == 4 && memcmp(note, "text", 4) == 0);
  CHECK(context->GetExecutionPlan(context, &plan));
  SEE(plan->size == 5);
  TfLiteIntArray* nodes = TfLiteIntArrayCreate(plan->size);
  if (nodes == NULL) return kTfLiteError;
  nodes->size = 0;
  for (int i = 0; i < plan->size; i++) {
    TfLiteOpaqueNode* node;
    TfLiteOperator* op;
    if (TfLiteOpaqueContextGetNodeAndRegistration((TfLiteOpaqueContext*)context, plan->data[i], &node, &op) !=
        kTfLiteOk) {
      free(nodes);
      return kTfLiteError;
    }
    if (TfLiteOperatorGetBuiltInCode(op) == kTfLiteBuiltinNeg) nodes->data[nodes->size++] = plan->data[i];
    if (TfLiteOperatorGetBuiltInCode(op) == kTfLiteBuiltinCustom && TfLiteOperatorGetCustomName(op) == NULL) {
      context->ReportError(context, "a custom op has no name");
      free(nodes);
      return kTfLiteError;
    }
  }
  const TfLiteStatus status = Claim(context, delegate, nodes, opaque);
  free(nodes);
  return status;
}

static TfLiteStatus ClassicApply(TfLiteContext* context, TfLiteDelegate* d) { return Apply(context, d, 0); }
static TfLiteStatus OpaqueApply(TfLiteOpaqueContext* context, TfLiteOpaqueDelegate* d, void* data) {
  return Apply((TfLiteContext*)context, (TfLiteDelegate*)d, 1);
}

TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values, size_t count,
                                              void (*report)(const char*)) {
  if (count == 1) {
    TfLiteOpaqueDelegateBuilder builder = {.Prepare = OpaqueApply, .flags = kTfLiteDelegateFlagsAllowDynamicTensors};
    return (TfLiteDelegate*)TfLiteOpaqueDelegateCreate(&builder);
  }
  TfLiteDelegate* delegate = calloc(1, sizeof(TfLiteDelegate));
  if (delegate == NULL) return NULL;
  delegate->Prepare = ClassicApply;
  delegate->flags = kTfLiteDelegateFlagsAllowDynamicTensors;
  return delegate;
}

void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate) { free(delegate); }
