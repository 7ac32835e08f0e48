// How plug-ins' functions are called: straight, or by a C++ library that stops exceptions and reports these.
#ifndef PYLITE_GUARDS_H
#define PYLITE_GUARDS_H

#include "../../include/tensorflow/lite/c/common.h"

typedef struct pl_guards {
  TfLiteStatus (*node)(TfLiteStatus (*)(TfLiteContext *, TfLiteNode *), TfLiteContext *, TfLiteNode *);
  TfLiteStatus (*any)(TfLiteStatus (*)(void *), void *arguments, TfLiteContext *);    // without a context: in silence
} pl_guards;

#endif
