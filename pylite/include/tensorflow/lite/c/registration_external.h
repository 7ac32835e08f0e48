// The name that operator.h had until 2024.
#ifndef TENSORFLOW_LITE_CORE_C_REGISTRATION_EXTERNAL_H_
#define TENSORFLOW_LITE_CORE_C_REGISTRATION_EXTERNAL_H_

#include "operator.h"

#endif
