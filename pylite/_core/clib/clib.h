// libtensorflowlite_c.so: TensorFlow Lite's C API, on pylite.  python.c finds and starts Python; models.c and
// interpreters.c call pylite/clib.py, which does the work; tensors.c accesses TfLiteTensors; delegates.c loads
// delegates.
#ifndef PYLITE_CLIB_H
#define PYLITE_CLIB_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct _object PyObject;

typedef struct pl_reporter {
  void (*report)(void *user_data, const char *format, va_list args);    // NULL: print to standard error
  void *user_data;
} pl_reporter;

// Reports a message, with the format of printf.
__attribute__((format(printf, 2, 3))) void pl_report(const pl_reporter *, const char *format, ...);

// ---- python.c ----

typedef struct pl_gil {
  int state;
} pl_gil;

// Takes the GIL.  The first call starts Python, if the process has none.  Returns 0, or -1 with a report.
int pl_gil_take(pl_gil *, const pl_reporter *);
void pl_gil_release(pl_gil);
// pl_gil_take() for functions that free objects of Python: it does not report.
int pl_gil_retake(pl_gil *);

// The following functions need the GIL.
PyObject *pl_module(void);                      // pylite.clib, borrowed
void pl_release(PyObject *);                    // releases a reference; may be NULL
// Calls object.method(arguments); returns a new reference, or NULL with a report.  format, ...: as for Py_BuildValue,
// in parentheses.
PyObject *pl_call(const pl_reporter *, PyObject *object, const char *method, const char *format, ...);
// pl_call() of a method that returns an integer; -1 with a report.
intptr_t pl_call_number(const pl_reporter *, PyObject *object, const char *method, const char *format, ...);
PyObject *pl_none(void);                        // borrowed

#endif
