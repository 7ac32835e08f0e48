// Exports the functions of common.h, which are inline everywhere else.
#define TFL_INLINE __attribute__((visibility("default")))
#include "../../include/tensorflow/lite/c/common.h"
