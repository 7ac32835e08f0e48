// The types and the op definitions of the C API.  pylite runs models from Python, so the functions that create
// interpreters in C are not here.
#ifndef TENSORFLOW_LITE_CORE_C_C_API_H_
#define TENSORFLOW_LITE_CORE_C_C_API_H_

#include "../builtin_ops.h"
#include "c_api_types.h"
#include "common.h"
#include "operator.h"

#endif
