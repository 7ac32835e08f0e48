// How plug-ins' functions are called: straight, or by a C++ library that stops exceptions.
#ifndef PYLITE_GUARDS_H
#define PYLITE_GUARDS_H

#include "../../include/tensorflow/lite/c/common.h"

typedef struct pl_guards {
  void *(*init)(void *(*)(TfLiteContext *, const char *, size_t), TfLiteContext *, const char *, size_t);
  void (*free)(void (*)(TfLiteContext *, void *), TfLiteContext *, void *);
  TfLiteStatus (*node)(TfLiteStatus (*)(TfLiteContext *, TfLiteNode *), TfLiteContext *, TfLiteNode *);
  TfLiteStatus (*delegate)(TfLiteStatus (*)(TfLiteContext *, TfLiteDelegate *), TfLiteContext *, TfLiteDelegate *);
} pl_guards;

#endif
