/* The micro-kernels for rare element types (wide.c).  They are compiled once, not for every ISA level. */
#ifndef PYLITE_WIDE_H
#define PYLITE_WIDE_H
#include "elementwise.h"
#include <stddef.h>

#define X(name, args) void name args;
PL_WIDE_SLOTS(X)
#undef X
#endif
