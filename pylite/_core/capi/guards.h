// How functions of plug-ins are called: directly (trap.c), or catching C++ exceptions (guard.cc).
#ifndef PYLITE_GUARDS_H
#define PYLITE_GUARDS_H

#include "../../include/tensorflow/lite/c/common.h"

// Exceptions are reported to the context, unless it is NULL.
typedef struct pl_guards {
  TfLiteStatus (*node)(TfLiteStatus (*)(TfLiteContext *, TfLiteNode *), TfLiteContext *, TfLiteNode *);
  TfLiteStatus (*any)(TfLiteStatus (*)(void *), void *arguments, TfLiteContext *);
} pl_guards;

#endif
