// What models.c and interpreters.c need to know of delegates.
#ifndef PYLITE_CLIB_DELEGATES_H
#define PYLITE_CLIB_DELEGATES_H

#include "../../include/tensorflow/lite/c/common.h"

// The number of threads in the options of an XNNPACK delegate; -1 for any other delegate.
int pl_xnnpack_threads(const TfLiteDelegate *);

#endif
