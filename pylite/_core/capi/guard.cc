// Calls functions of plug-ins, and catches C++ exceptions: they are reported, and become the status kTfLiteError.
#include "guards.h"

#include <cstdio>
#include <exception>

namespace {

template <typename Call>
TfLiteStatus Guarded(TfLiteContext* context, Call call) {
  try {
    return call();
  } catch (const std::exception& e) {
    if (context) context->ReportError(context, "it threw an exception: %s", e.what());
  } catch (...) {
    if (context) context->ReportError(context, "it threw an object that is not a std::exception");
  }
  return kTfLiteError;
}

TfLiteStatus Node(TfLiteStatus (*fn)(TfLiteContext*, TfLiteNode*), TfLiteContext* context, TfLiteNode* node) {
  return Guarded(context, [&] { return fn(context, node); });
}

TfLiteStatus Any(TfLiteStatus (*fn)(void*), void* arguments, TfLiteContext* context) {
  return Guarded(context, [&] { return fn(arguments); });
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT pl_guards pl_cxx_guards;
pl_guards pl_cxx_guards = {Node, Any};

// Calls a function of a library with up to four arguments, without a context.  If it throws, writes an error to `text`,
// which is otherwise left unchanged.
EXPORT void* pl_cxx_call(void* (*fn)(const void*, const void*, size_t, const void*), const void* a, const void* b,
                         size_t c, const void* d, char* text, size_t capacity);
void* pl_cxx_call(void* (*fn)(const void*, const void*, size_t, const void*), const void* a, const void* b, size_t c,
                  const void* d, char* text, size_t capacity) {
  try {
    return fn(a, b, c, d);
  } catch (const std::exception& e) {
    snprintf(text, capacity, "it threw an exception: %s", e.what());
  } catch (...) {
    snprintf(text, capacity, "it threw an object that is not a std::exception");
  }
  return nullptr;
}
