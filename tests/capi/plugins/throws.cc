// A delegate for RELU in C++ that throws in the callback that its option `where` names, and an op whose init throws.
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "tensorflow/lite/builtin_ops.h"
#include "tensorflow/lite/c/c_api_opaque.h"
#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/delegates/external/external_delegate_interface.h"

namespace {

void Throw(TfLiteDelegate* delegate, const char* where) {
  if (*static_cast<std::string*>(delegate->data_) == where) throw std::runtime_error(std::string("thrown in ") + where);
}

void* Init(TfLiteContext*, const char* buffer, size_t) {
  TfLiteDelegate* delegate = reinterpret_cast<const TfLiteDelegateParams*>(buffer)->delegate;
  Throw(delegate, "init");
  return delegate;
}

void Free(TfLiteContext*, void* data) { Throw(static_cast<TfLiteDelegate*>(data), "free"); }

TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
  Throw(node->delegate, "prepare");
  TfLiteTensor& y = context->tensors[node->outputs->data[0]];
  y.buffer_handle = 5;
  y.delegate = node->delegate;
  return kTfLiteOk;
}

TfLiteStatus Invoke(TfLiteContext* context, TfLiteNode* node) {
  Throw(node->delegate, "invoke");
  context->tensors[node->outputs->data[0]].data_is_stale = true;
  return kTfLiteOk;
}

TfLiteStatus Copy(TfLiteContext*, TfLiteDelegate* delegate, TfLiteBufferHandle, TfLiteTensor* t) {
  Throw(delegate, "copy");
  std::memset(t->data.raw, 0, t->bytes);
  return kTfLiteOk;
}

void FreeHandle(TfLiteContext*, TfLiteDelegate* delegate, TfLiteBufferHandle* handle) {
  *handle = -1;
  Throw(delegate, "free handle");
}

TfLiteStatus DelegatePrepare(TfLiteContext* context, TfLiteDelegate* delegate) {
  Throw(delegate, "delegate");
  TfLiteRegistration registration = {};
  registration.init = Init;
  registration.free = Free;
  registration.prepare = Prepare;
  registration.invoke = Invoke;
  int nodes[] = {1, 0};
  return context->ReplaceNodeSubsetsWithDelegateKernels(context, registration,
                                                        reinterpret_cast<TfLiteIntArray*>(nodes), delegate);
}

}  // namespace

extern "C" TfLiteDelegate* tflite_plugin_create_delegate(const char* const*, const char* const* values, size_t count,
                                                         void (*)(const char*)) {
  if (count && !std::strcmp(values[0], "create")) throw std::runtime_error("thrown in create");
  TfLiteDelegate* delegate = static_cast<TfLiteDelegate*>(std::calloc(1, sizeof(TfLiteDelegate)));
  delegate->data_ = new std::string(count ? values[0] : "");
  delegate->Prepare = DelegatePrepare;
  delegate->CopyFromBufferHandle = Copy;
  delegate->FreeBufferHandle = FreeHandle;
  return delegate;
}

extern "C" void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate) {
  std::string* where = static_cast<std::string*>(delegate->data_);
  bool here = *where == "destroy";
  delete where;
  std::free(delegate);
  if (here) throw std::runtime_error("thrown in destroy");
}

namespace {

void* InitWithData(void* data, TfLiteOpaqueContext*, const char*, size_t) {
  if (data) throw 1;
  return reinterpret_cast<void*>(&Throw);
}

void FreeWithData(void*, TfLiteOpaqueContext*, void*) { throw std::runtime_error("thrown in free"); }

TfLiteStatus Do(void* data, TfLiteOpaqueContext*, TfLiteOpaqueNode*) {
  if (!data) throw std::runtime_error("thrown with data");
  return kTfLiteOk;
}

TfLiteOperator* Make(void* data) {
  TfLiteOperator* op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Throws", 1, data);
  TfLiteOperatorSetInitWithData(op, InitWithData);
  TfLiteOperatorSetFreeWithData(op, FreeWithData);
  TfLiteOperatorSetPrepareWithData(op, Do);
  TfLiteOperatorSetInvokeWithData(op, Do);
  return op;
}

}  // namespace

extern "C" TFL_CAPI_EXPORT TfLiteOperator* ThrowsInInit() {
  static TfLiteOperator* op = Make(reinterpret_cast<void*>(&Throw));
  return op;
}

extern "C" TFL_CAPI_EXPORT TfLiteOperator* ThrowsInPrepare() {
  static TfLiteOperator* op = Make(nullptr);
  return op;
}

extern "C" TFL_CAPI_EXPORT TfLiteOperator* ThrowsAtOnce() { throw std::runtime_error("thrown at once"); }
