/* Rows for element types that no loop of their own is worth: wide.c, compiled once, not for every rung. */
#ifndef PYLITE_WIDE_H
#define PYLITE_WIDE_H
#include "elementwise.h"
#include <stddef.h>

#define X(name, args) void name args;
PL_WIDE_SLOTS(X)
#undef X
#endif
