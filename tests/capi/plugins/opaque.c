// Plug-ins behind the opaque types: the op Atan under both spellings, and a delegate for RELU.
#include <math.h>
#include <stdlib.h>

#include "tensorflow/lite/c/c_api_opaque.h"
#include "tensorflow/lite/delegates/external/external_delegate_interface.h"

typedef struct {
  int temporary;
} Data;

static void* Init(TfLiteOpaqueContext* context, const char* buffer, size_t length) {
  Data* data = calloc(1, sizeof(Data));
  data->temporary = -1;
  return data;
}

static void Free(TfLiteOpaqueContext* context, void* data) { free(data); }

static TfLiteStatus Prepare(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  TF_LITE_OPAQUE_ENSURE_EQ(context, TfLiteOpaqueNodeNumberOfInputs(node), 1);
  Data* data = TfLiteOpaqueNodeGetUserData(node);
  const TfLiteOpaqueTensor* x = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteOpaqueTensor* y = TfLiteOpaqueNodeGetOutput(context, node, 0);
  TF_LITE_OPAQUE_ENSURE_TYPES_EQ(context, TfLiteOpaqueTensorType(x), kTfLiteFloat32);
  TfLiteIntArray* dims = TfLiteIntArrayCreate(TfLiteOpaqueTensorNumDims(x));
  for (int i = 0; i < dims->size; i++) dims->data[i] = TfLiteOpaqueTensorDim(x, i);
  if (data->temporary < 0) {
    TfLiteOpaqueTensorBuilder* b = TfLiteOpaqueTensorBuilderCreate();
    TfLiteOpaqueTensorBuilderSetAllocationType(TfLiteOpaqueTensorBuilderSetType(b, kTfLiteFloat32), kTfLiteArenaRw);
    TF_LITE_OPAQUE_ENSURE(context, TfLiteOpaqueContextAddTensor(context, b, &data->temporary) == kTfLiteOk);
    TfLiteOpaqueTensorBuilderDelete(b);
  }
  TfLiteOpaqueNodeSetTemporaries(node, &data->temporary, 1);
  TfLiteOpaqueTensor* t = TfLiteOpaqueContextGetOpaqueTensor(context, data->temporary);
  TF_LITE_OPAQUE_ENSURE(context, TfLiteOpaqueContextResizeTensor(context, t, TfLiteIntArrayCopy(dims)) == kTfLiteOk);
  return TfLiteOpaqueContextResizeTensor(context, y, dims);
}

static TfLiteStatus Invoke(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  Data* data = TfLiteOpaqueNodeGetUserData(node);
  const float* x = TfLiteOpaqueTensorData(TfLiteOpaqueNodeGetInput(context, node, 0));
  TfLiteOpaqueTensor* out = TfLiteOpaqueNodeGetOutput(context, node, 0);
  float* y = TfLiteOpaqueTensorData(out);
  float* t = TfLiteOpaqueTensorData(TfLiteOpaqueContextGetOpaqueTensor(context, data->temporary));
  size_t count = TfLiteOpaqueTensorByteSize(out) / sizeof(float);
  for (size_t i = 0; i < count; i++) t[i] = x[i];
  for (size_t i = 0; i < count; i++) y[i] = atanf(t[i]);
  return kTfLiteOk;
}

TFL_CAPI_EXPORT TfLiteOperator* AtanOperator(void) {
  static TfLiteOperator* op;
  if (op == NULL) {
    op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Atan", 1, NULL);
    TfLiteOperatorSetInit(op, Init);
    TfLiteOperatorSetFree(op, Free);
    TfLiteOperatorSetPrepare(op, Prepare);
    TfLiteOperatorSetInvoke(op, Invoke);
  }
  return op;
}

TFL_CAPI_EXPORT TfLiteRegistrationExternal* AtanExternal(void) {
  static TfLiteRegistrationExternal* op;
  if (op == NULL) {
    op = TfLiteRegistrationExternalCreate(kTfLiteBuiltinCustom, "Atan", 1);
    TfLiteRegistrationExternalSetInit(op, Init);
    TfLiteRegistrationExternalSetFree(op, Free);
    TfLiteRegistrationExternalSetPrepare(op, Prepare);
    TfLiteRegistrationExternalSetInvoke(op, Invoke);
  }
  return op;
}

// A classic registration with nothing but a pointer to the opaque one.
TFL_CAPI_EXPORT const TfLiteRegistration* AtanOpRegistration(void) {
  static TfLiteRegistration registration;
  registration.registration_external = AtanOperator();
  return &registration;
}

TFL_CAPI_EXPORT TfLiteRegistration AtanByValue(void) { return *AtanOpRegistration(); }

static int calls;

static TfLiteStatus CountingInvoke(void* user_data, TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  ++*(int*)user_data;
  return Invoke(context, node);
}

TFL_CAPI_EXPORT TfLiteOperator* AtanWithData(void) {
  static TfLiteOperator* op;
  if (op == NULL) {
    op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Atan", 1, &calls);
    TfLiteOperatorSetInit(op, Init);
    TfLiteOperatorSetFree(op, Free);
    TfLiteOperatorSetPrepare(op, Prepare);
    TfLiteOperatorSetInvokeWithData(op, CountingInvoke);
  }
  return op;
}

TFL_CAPI_EXPORT int count_calls(void) { return calls; }

// ---- The delegate ----

static void* KernelInit(TfLiteOpaqueContext* context, const char* buffer, size_t length) {
  const TfLiteOpaqueDelegateParams* p = (const TfLiteOpaqueDelegateParams*)buffer;
  if (*(int*)p->delegate_data != 42) return TfLiteKernelInitFailed();
  int* node_count = malloc(sizeof(int));
  *node_count = p->nodes_to_replace->size;
  return node_count;
}

static TfLiteStatus KernelPrepare(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) { return kTfLiteOk; }

static TfLiteStatus KernelInvoke(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* in = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteOpaqueTensor* out = TfLiteOpaqueNodeGetOutput(context, node, 0);
  const float* x = TfLiteOpaqueTensorData(in);
  float* y = TfLiteOpaqueTensorData(out);
  for (size_t i = 0; i < TfLiteOpaqueTensorByteSize(out) / sizeof(float); i++) y[i] = x[i] > 0 ? x[i] : 0;
  return kTfLiteOk;
}

static int skip;        // the subgraph to mark as skippable

static TfLiteStatus DelegatePrepare(TfLiteOpaqueContext* context, TfLiteOpaqueDelegate* delegate, void* data) {
  if (skip) {
    TF_LITE_OPAQUE_ENSURE(context, TfLiteOpaqueContextMarkSubgraphAsDelegationSkippable(context, skip) == kTfLiteOk);
  }
  TfLiteIntArray* plan;
  TF_LITE_OPAQUE_ENSURE(context, TfLiteOpaqueContextGetExecutionPlan(context, &plan) == kTfLiteOk);
  TfLiteIntArray* nodes = TfLiteIntArrayCreate(plan->size);
  nodes->size = 0;
  for (int i = 0; i < plan->size; i++) {
    TfLiteOpaqueNode* node;
    TfLiteOperator* op;
    TF_LITE_OPAQUE_ENSURE(
        context, TfLiteOpaqueContextGetNodeAndRegistration(context, plan->data[i], &node, &op) == kTfLiteOk);
    if (TfLiteOperatorGetBuiltInCode(op) == kTfLiteBuiltinRelu) nodes->data[nodes->size++] = plan->data[i];
  }
  TfLiteOperator* kernel = TfLiteOperatorCreate(kTfLiteBuiltinDelegate, "Relus", 1, NULL);
  TfLiteOperatorSetInit(kernel, KernelInit);
  TfLiteOperatorSetFree(kernel, Free);
  TfLiteOperatorSetPrepare(kernel, KernelPrepare);
  TfLiteOperatorSetInvoke(kernel, KernelInvoke);
  TfLiteStatus status = TfLiteOpaqueContextReplaceNodeSubsetsWithDelegateKernels(context, kernel, nodes, delegate);
  TfLiteIntArrayFree(nodes);
  return status;
}

TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values, size_t count,
                                              void (*report_error)(const char*)) {
  static int data = 42;
  skip = count > 0 ? atoi(values[0]) : 0;
  TfLiteOpaqueDelegateBuilder builder = {0};
  builder.data = &data;
  builder.Prepare = DelegatePrepare;
  return (TfLiteDelegate*)TfLiteOpaqueDelegateCreate(&builder);
}

void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate) {
  TfLiteOpaqueDelegateDelete((TfLiteOpaqueDelegate*)delegate);
}
