#ifndef PYLITE_CLIB_DELEGATES_H
#define PYLITE_CLIB_DELEGATES_H

#include "../../include/tensorflow/lite/c/common.h"

// The threads that the options of an XNNPACK delegate ask for, or -1 for another delegate.
int pl_xnnpack_threads(const TfLiteDelegate *);

#endif
