// The objects of c_api.h that several files look into.
#ifndef PYLITE_CLIB_OBJECTS_H
#define PYLITE_CLIB_OBJECTS_H

#include "../../include/tensorflow/lite/c/c_api_experimental.h"
#include "clib.h"

struct TfLiteModel {
  PyObject *object;
};

// An op that the options add.  pylite/clib.py has the same struct.
typedef struct pl_op {
  int builtin;                  // of builtin_ops.h; kTfLiteBuiltinCustom: by its name
  const char *name;             // NULL: the operator's own
  const TfLiteRegistration *registration;
  TfLiteOperator *op;           // instead of a registration
  int min_version, max_version;
} pl_op;

struct TfLiteInterpreterOptions {
  pl_reporter reporter;
  int threads;
  int num_delegates, num_ops;
  TfLiteDelegate **delegates;
  pl_op *ops;
};

void pl_drop(PyObject *);       // drops a reference where Python still runs

#endif
