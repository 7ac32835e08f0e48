// The name that common.h had until 2019.
#ifndef TENSORFLOW_LITE_C_C_API_INTERNAL_H_
#define TENSORFLOW_LITE_C_C_API_INTERNAL_H_

#include "common.h"

#define kOptionalTensor kTfLiteOptionalTensor

#endif
