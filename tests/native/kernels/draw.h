/* What the checks of kernels.c share: numbers and arrays that libFuzzer's input determines, and a comparison of all ISA
 * levels.  A check draws its arguments, then runs EACH_LEVEL(s), where it asks for results and calls a slot of s.  The
 * results of a level must equal those of the first, "base"; nothing but them may be written, and nothing beyond the
 * arrays read (AddressSanitizer guards all of them). */
#ifndef DRAW_H
#define DRAW_H
#include "simd.h"
#include <stdbool.h>

/* ---- numbers ---- */
int between(int low, int high); /* low <= result <= high */
bool chance(int in);            /* one of so many */
size_t some(size_t least, size_t most);
int32_t multiplier(void);
float real(void);               /* above 0, about 1 */

/* ---- arrays; `item`: bytes of an element, to which alone they are aligned ---- */
void *array(size_t n, size_t item);                    /* of anything, as all below are: kept until the check ends */
void *integers(size_t n, size_t item, int low, int high);
float *floats(size_t n);                               /* NaN and infinities, too */
float *whole(size_t n, int most);                      /* floats whose sums are exact */
uint16_t *halves(size_t n);                            /* float16 below 2, whose sums never are NaN */
void *copied(const void *from, size_t n, size_t item);
void *room(size_t n, size_t item);                     /* zeros; may be written */

void flush_subnormals(void); /* to 0, as most steps of float arithmetic do; until the check ends */

/* ---- results ---- */
typedef enum { EXACT, NEAR, NEAR_LARGEST, NEAR_HALF } closeness; /* 2e-5 of each float, or of the largest; 2e-3 */
/* An array to write, which holds `before`, or else 0x5A.  Only the first `front` elements are compared. */
void *result(size_t n, size_t item, const void *before, size_t front, closeness how);
static inline void *results(size_t n, size_t item, closeness how) { return result(n, item, NULL, n, how); }

const pl_slots *first_level(void), *next_level(void); /* next_level compares */
#define EACH_LEVEL(s) for (const pl_slots *s = first_level(); s; s = next_level())

/* ---- the checks ---- */
typedef struct {
  const char *name;
  void (*run)(void);
} check;
extern const check element_checks[], moving_checks[], reducing_checks[], recurring_checks[], product_checks[],
    depthwise_checks[]; /* each ends with NULL */
extern const check *now;
#endif
