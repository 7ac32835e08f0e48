// Calls plug-ins and stops the C++ exceptions that they let out: each becomes a reported error and a status.
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
    if (context) context->ReportError(context, "it threw something that is no std::exception");
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

// A function of a library that takes up to four words, before there is any context; its exception as text.
EXPORT void* pl_cxx_call(void* (*fn)(const void*, const void*, size_t, const void*), const void* a, const void* b,
                         size_t c, const void* d, char* text, size_t room);
void* pl_cxx_call(void* (*fn)(const void*, const void*, size_t, const void*), const void* a, const void* b, size_t c,
                  const void* d, char* text, size_t room) {
  try {
    return fn(a, b, c, d);
  } catch (const std::exception& e) {
    snprintf(text, room, "it threw an exception: %s", e.what());
  } catch (...) {
    snprintf(text, room, "it threw something that is no std::exception");
  }
  return nullptr;
}
