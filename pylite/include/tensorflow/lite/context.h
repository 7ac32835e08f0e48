// The name under which C++ sources include the context.
#ifndef TENSORFLOW_LITE_CONTEXT_H_
#define TENSORFLOW_LITE_CONTEXT_H_

#include "c/common.h"

#endif
