/* Declares the slots that are compiled once, for all ISA levels: in wide.c and common.c. */
#ifndef PYLITE_COMMON_H
#define PYLITE_COMMON_H
#include "elementwise.h"
#include <stddef.h>

#define X(name, args) void name args;
PL_COMMON_SLOTS(X)
#undef X
#endif
