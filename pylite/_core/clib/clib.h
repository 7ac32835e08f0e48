// libtensorflowlite_c.so: TensorFlow Lite's C API on pylite.  python.c finds and starts Python; models.c and
// interpreters.c call pylite/clib.py, which does the work; tensors.c reads TfLiteTensors; delegates.c loads delegates.
#ifndef PYLITE_CLIB_H
#define PYLITE_CLIB_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct _object PyObject;

typedef struct pl_reporter {
  void (*report)(void *user_data, const char *format, va_list args);    // NULL: to standard error
  void *user_data;
} pl_reporter;

// Reports one message, formatted as by printf.
__attribute__((format(printf, 2, 3))) void pl_report(const pl_reporter *, const char *format, ...);

// ---- python.c ----

typedef struct pl_held {
  int state;
} pl_held;

// Takes the GIL, after starting Python at the first call of a process without it.  0, or -1 with a report.
int pl_hold(pl_held *, const pl_reporter *);
void pl_let_go(pl_held);
// As pl_hold(), but never starts Python, nor reports: for what frees objects.
int pl_hold_again(pl_held *);

// What follows needs the GIL.
PyObject *pl_module(void);                      // pylite.clib, borrowed
void pl_release(PyObject *);                    // drops a reference; NULL is none
// object.method(arguments): a new reference, or NULL with a report.  format, ...: as of Py_BuildValue, in parentheses.
PyObject *pl_call(const pl_reporter *, PyObject *object, const char *method, const char *format, ...);
// pl_call(), whose result is an integer; -1 with a report.
intptr_t pl_call_number(const pl_reporter *, PyObject *object, const char *method, const char *format, ...);
PyObject *pl_none(void);                        // borrowed

#endif
