/* The worker pool. */
#include "simd.h"
#include <stdlib.h>

struct pl_pool { int threads; };

pl_pool *pl_pool_create(int threads) {
  pl_pool *pool = malloc(sizeof *pool);
  if (pool) pool->threads = threads;
  return pool;
}
void pl_pool_destroy(pl_pool *pool) { free(pool); }
int pl_pool_threads(const pl_pool *pool) { return pool ? pool->threads : 1; }
void pl_for(pl_pool *pool, ptrdiff_t n, ptrdiff_t grain, pl_range_fn fn, void *ctx) {
  (void)pool; (void)grain;
  if (n > 0) fn(ctx, 0, n, 0);
}
