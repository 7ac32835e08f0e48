// The two ways to call a function of a plug-in: trap.c has plain calls, guard.cc calls that catch C++ exceptions.
#ifndef PYLITE_GUARDS_H
#define PYLITE_GUARDS_H

#include "../../include/tensorflow/lite/c/common.h"

// Exceptions are reported to the context, if there is one.
typedef struct pl_guards {
  TfLiteStatus (*node)(TfLiteStatus (*)(TfLiteContext *, TfLiteNode *), TfLiteContext *, TfLiteNode *);
  TfLiteStatus (*any)(TfLiteStatus (*)(void *), void *arguments, TfLiteContext *);
} pl_guards;

#endif
