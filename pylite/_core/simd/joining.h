/* Floats accumulated in 32 interleaved parts, joined pairwise: vectors of any width, and one order of additions. */
#ifndef PYLITE_JOINING_H
#define PYLITE_JOINING_H

#define JOIN_HALF(JOIN, half) \
  for (int k = 0; k < half; k++) part[k] = JOIN(part[k], part[k + half]);
/* part[0] = all of `float part[32]` */
#define JOIN_PARTS(JOIN) \
  JOIN_HALF(JOIN, 16) JOIN_HALF(JOIN, 8) JOIN_HALF(JOIN, 4) JOIN_HALF(JOIN, 2) JOIN_HALF(JOIN, 1)
#endif
