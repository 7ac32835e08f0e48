// Calls plug-ins and stops the C++ exceptions that they let out: each becomes a reported error and a status.
#include "guards.h"

#include <exception>

namespace {

template <typename Result, typename Call>
Result Guarded(TfLiteContext* context, Result failed, Call call) {
  try {
    return call();
  } catch (const std::exception& e) {
    context->ReportError(context, "it threw an exception: %s", e.what());
  } catch (...) {
    context->ReportError(context, "it threw something that is no std::exception");
  }
  return failed;
}

void* Init(void* (*fn)(TfLiteContext*, const char*, size_t), TfLiteContext* context, const char* buffer, size_t length) {
  return Guarded(context, TfLiteKernelInitFailed(), [&] { return fn(context, buffer, length); });
}

void Free(void (*fn)(TfLiteContext*, void*), TfLiteContext* context, void* data) {
  Guarded(context, kTfLiteError, [&] { return fn(context, data), kTfLiteOk; });
}

TfLiteStatus Node(TfLiteStatus (*fn)(TfLiteContext*, TfLiteNode*), TfLiteContext* context, TfLiteNode* node) {
  return Guarded(context, kTfLiteError, [&] { return fn(context, node); });
}

TfLiteStatus Delegate(TfLiteStatus (*fn)(TfLiteContext*, TfLiteDelegate*), TfLiteContext* context,
                      TfLiteDelegate* delegate) {
  return Guarded(context, kTfLiteError, [&] { return fn(context, delegate); });
}

}  // namespace

extern "C" __attribute__((visibility("default"))) pl_guards pl_cxx_guards;
pl_guards pl_cxx_guards = {Init, Free, Node, Delegate};
