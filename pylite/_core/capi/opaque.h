// For the library that exports the functions of c_api_opaque.h, operator.h and common.h.
//
// The files.  Each calls only functions of files before it in this list:
//
//   opaque_common.c     the functions of common.h
//   opaque_operators.c  TfLiteOperator, also by its older name TfLiteRegistrationExternal
//   opaque_tensors.c    tensors, their strings, new tensors
//   opaque_context.c    nodes and the context
//   opaque_delegates.c  delegates, and the functions of the context that only delegates call
//
// Opaque types are structs of common.h under other names: these functions cast them, and access their fields.
#ifndef PYLITE_OPAQUE_H
#define PYLITE_OPAQUE_H

#define TFL_CAPI_EXPORT __attribute__((visibility("default")))
#include "host.h"

#include "../../include/tensorflow/lite/c/c_api_opaque.h"

#define TENSOR(t) ((const TfLiteTensor *)(t))
#define NODE(n) ((const TfLiteNode *)(n))
#define CONTEXT(c) ((TfLiteContext *)(c))
#define HOST(c) ((const pl_host *)(c))

#endif
