/* A check of the packing jobs on their own: each deferred job runs once, and what it wrote is seen by the thread that
 * takes it back, from several threads that prepare models at a time.
 *
 *     packing THREADS ROUNDS
 */
#include "threads/platform.h"
#include "simd.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { JOBS = 20, MOST_THREADS = 16, WORDS = 64 };

typedef struct {
  pl_packing_job job;         /* first, so that one is the other */
  int runs;                     /* not atomic: the queue orders the accesses */
  unsigned words[WORDS];
} work;

static atomic_long deferred, taken_back;
static long rounds;

static void check(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "%s\n", what);
  abort();
}

static void run(pl_packing_job *job) {
  work *w = (work *)job;
  w->runs++;
  for (unsigned i = 0; i < WORDS; i++) w->words[i] = i * i;
}

static void take_back(pl_packing_job *job) {
  while (job != NULL) {
    work *w = (work *)job;
    job = job->next;
    check(w->runs == 1, "a job that did not run once");
    for (unsigned i = 0; i < WORDS; i++) check(w->words[i] == i * i, "a result that is not seen");
    atomic_fetch_add(&taken_back, 1);
    free(w);
  }
}

static unsigned draw(unsigned *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

static void *prepare(void *arg) {
  unsigned seed = (unsigned)(size_t)arg;
  for (long round = 0; round < rounds; round++) {
    const int nested = draw(&seed) % 4 == 0, count = draw(&seed) % JOBS;
    pl_packing_begin();
    if (nested) pl_packing_begin();
    for (int i = 0; i < count; i++) {
      work *w = calloc(1, sizeof *w);
      check(w != NULL, "no memory");
      w->job.run = run;
      w->job.bytes = draw(&seed) % 3 ? 1 << 20 : 100;
      w->job.copied = draw(&seed) % 8 ? 0 : 3 << 20;
      const int waits = pl_packing_defer(&w->job);
      check(waits, "a job was not deferred");
      atomic_fetch_add(&deferred, 1);
      if (waits < 0) take_back(pl_packing_drain());
    }
    if (nested) take_back(pl_packing_finish());
    take_back(pl_packing_finish());
  }
  return NULL;
}

int main(int argc, char **argv) {
  pl_thread ids[MOST_THREADS];
  check(argc == 3, "two numbers are needed");
  const size_t threads = (size_t)atoi(argv[1]);
  rounds = atol(argv[2]);
  for (size_t i = 0; i < threads; i++) check(!pl_thread_start(&ids[i], prepare, (void *)(i + 1)), "no thread");
  for (size_t i = 0; i < threads; i++) pl_thread_join(ids[i]);
  check(deferred == taken_back && deferred > 0, "a job that nobody took back");
  return 0;
}
