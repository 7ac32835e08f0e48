// operator.h: TfLiteOperator, also under its older name TfLiteRegistrationExternal.
#include "opaque.h"

TfLiteOperator *TfLiteOperatorCreate(TfLiteBuiltinOperator code, const char *custom_name, int version,
                                     void *user_data) {
  TfLiteOperator *op = calloc(1, sizeof(TfLiteOperator));
  if (op == NULL) return NULL;
  op->magic = PL_OPERATOR_MAGIC;
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

TfLiteBuiltinOperator TfLiteOperatorGetBuiltInCode(const TfLiteOperator *op) {
  return op != NULL ? op->builtin_code : (TfLiteBuiltinOperator)-1;
}
const char *TfLiteOperatorGetCustomName(const TfLiteOperator *op) { return op != NULL ? op->custom_name : NULL; }
int TfLiteOperatorGetVersion(const TfLiteOperator *op) { return op != NULL ? op->version : -1; }
void *TfLiteOperatorGetUserData(const TfLiteOperator *op) { return op != NULL ? op->user_data : NULL; }

// Setters of a callback: under both names, and of the callback that gets the op's user_data.
#define METHOD(Name, member, RESULT, ARGS, DATA_ARGS)                                             \
  void TfLiteOperatorSet##Name(TfLiteOperator *op, RESULT(*member) ARGS) {                        \
    if (op != NULL) op->member = member;                                                          \
  }                                                                                               \
  void TfLiteRegistrationExternalSet##Name(TfLiteOperator *op, RESULT(*member) ARGS) {            \
    if (op != NULL) op->member = member;                                                          \
  }                                                                                               \
  TfLiteStatus TfLiteOperatorSet##Name##WithData(TfLiteOperator *op, RESULT(*member) DATA_ARGS) { \
    if (op == NULL) return kTfLiteError;                                                          \
    op->member##_with_data = member;                                                              \
    return kTfLiteOk;                                                                             \
  }

METHOD(Init, init, void *, (TfLiteOpaqueContext *, const char *, size_t),
       (void *, TfLiteOpaqueContext *, const char *, size_t))
METHOD(Free, free, void, (TfLiteOpaqueContext *, void *), (void *, TfLiteOpaqueContext *, void *))
METHOD(Prepare, prepare, TfLiteStatus, (TfLiteOpaqueContext *, TfLiteOpaqueNode *),
       (void *, TfLiteOpaqueContext *, TfLiteOpaqueNode *))
METHOD(Invoke, invoke, TfLiteStatus, (TfLiteOpaqueContext *, TfLiteOpaqueNode *),
       (void *, TfLiteOpaqueContext *, TfLiteOpaqueNode *))

// Asynchronous kernels are accepted, but not used.
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
  (void)kernel;
  return op != NULL ? kTfLiteOk : kTfLiteError;
}
void TfLiteOperatorSetInplaceOperator(TfLiteOperator *op, uint64_t flags) {
  if (op != NULL) op->inplace_operator = flags;
}

TfLiteOperator *TfLiteRegistrationExternalCreate(TfLiteBuiltinOperator code, const char *custom_name, int version) {
  return TfLiteOperatorCreate(code, custom_name, version, NULL);
}
void TfLiteRegistrationExternalDelete(TfLiteOperator *op) { TfLiteOperatorDelete(op); }
TfLiteBuiltinOperator TfLiteRegistrationExternalGetBuiltInCode(const TfLiteOperator *op) {
  return TfLiteOperatorGetBuiltInCode(op);
}
const char *TfLiteRegistrationExternalGetCustomName(const TfLiteOperator *op) {
  return TfLiteOperatorGetCustomName(op);
}
int TfLiteRegistrationExternalGetVersion(const TfLiteOperator *op) { return TfLiteOperatorGetVersion(op); }
void TfLiteRegistrationExternalSetInplaceOperator(TfLiteOperator *op, uint64_t flags) {
  TfLiteOperatorSetInplaceOperator(op, flags);
}
