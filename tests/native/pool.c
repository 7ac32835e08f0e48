/* A check of the worker pool on its own: loops of all sizes must cover each item once, never with the same thread index
 * at a time in two places, from several callers, after pauses in which workers fall asleep, and in a forked child.
 *
 *     pool THREADS LOOPS CALLERS
 */
#define _GNU_SOURCE         /* usleep */
#include "threads/platform.h"
#include "simd.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifndef WITHOUT_FORK            /* which ThreadSanitizer does not know, and Windows has not */
#include <sys/wait.h>
#endif

enum { MOST_ITEMS = 4000, MOST_THREADS = 16, MOST_CALLERS = 8 };

typedef struct {
  atomic_int hits[MOST_ITEMS], inside[MOST_THREADS];
  ptrdiff_t n;
  int effort;
} loop;

static pl_pool *pool;
static long loops;

static void check(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "%s\n", what);
  abort();
}

static void take(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) {
  loop *l = ctx;
  check(0 <= begin && begin < end && end <= l->n, "a range that is none");
  check(0 <= thread && thread < pl_pool_threads(pool), "no such thread");
  check(!atomic_fetch_add(&l->inside[thread], 1), "two with the same thread index");
  for (ptrdiff_t i = begin; i < end; i++) {
    atomic_fetch_add(&l->hits[i], 1);
    for (volatile int k = 0; k < l->effort; k++) {}
  }
  atomic_fetch_sub(&l->inside[thread], 1);
}

static unsigned draw(unsigned *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

static void *call(void *arg) {
  unsigned seed = (unsigned)(size_t)arg;
  loop *l = malloc(sizeof *l);
  check(l != NULL, "no memory");
  for (long i = 0; i < loops; i++) {
    memset(l, 0, sizeof *l);
    l->n = 1 + draw(&seed) % (draw(&seed) % 10 ? 40 : MOST_ITEMS);
    l->effort = draw(&seed) % 20 ? draw(&seed) % 30 : 2000;
    pl_for(pool, l->n, 1 + draw(&seed) % (draw(&seed) % 3 ? 2 : 20), take, l);
    for (ptrdiff_t k = 0; k < l->n; k++) check(l->hits[k] == 1, "an item that was not done once");
    if (draw(&seed) % 500 == 0) usleep(draw(&seed) % 150);
  }
  free(l);
  return NULL;
}

int main(int argc, char **argv) {
  pl_thread ids[MOST_CALLERS];
  check(argc == 4, "three numbers are needed");
  const size_t callers = (size_t)atoi(argv[3]);
  loops = atol(argv[2]);
  pool = pl_pool_create(atoi(argv[1]));
  for (size_t i = 1; i < callers; i++) check(!pl_thread_start(&ids[i], call, (void *)i), "no thread");
  call(NULL);
  for (size_t i = 1; i < callers; i++) pl_thread_join(ids[i]);
#ifndef WITHOUT_FORK
  int status = -1;
  loops /= 4;
  const pid_t child = fork();
  call((void *)callers);
  pl_pool_destroy(pool);
  if (!child) _exit(0);
  waitpid(child, &status, 0);
  check(!status, "the forked child failed");
#else
  pl_pool_destroy(pool);
#endif
  return 0;
}
