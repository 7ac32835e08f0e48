// The objects of c_api.h that several files access.
#ifndef PYLITE_CLIB_OBJECTS_H
#define PYLITE_CLIB_OBJECTS_H

#include "../../include/tensorflow/lite/c/c_api_experimental.h"
#include "clib.h"

struct TfLiteModel {
  PyObject *object;
};

// An op that TfLiteInterpreterOptions add.  pylite/clib.py declares the same struct.
typedef struct pl_op {
  int builtin;                  // from builtin_ops.h; kTfLiteBuiltinCustom: see `name`
  const char *name;             // NULL: the operator's own
  const TfLiteRegistration *registration;
  TfLiteOperator *op;           // if registration is NULL
  int min_version, max_version;
} pl_op;

struct TfLiteInterpreterOptions {
  pl_reporter reporter;
  int threads;
  int num_delegates, num_ops;
  TfLiteDelegate **delegates;
  pl_op *ops;
};

void pl_drop(PyObject *);       // takes the GIL and releases a reference, if Python still runs

#endif
