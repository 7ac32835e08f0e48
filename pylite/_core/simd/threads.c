/* The worker pool: threads that sleep until there is a loop to share, and after it look out for the next one for a few
 * dozen microseconds: waking a thread takes as long as many a loop.
 *
 * What a core has written takes another one a hundred nanoseconds or more to see, so a loop costs as few such exchanges
 * as may be: the caller writes one line of its cache to announce it, a worker one to say what it has done, and each
 * thread takes pieces of a part of its own, which begins where it did in the loop before: there it finds what it wrote
 * in its cache.  Who is done with that helps the others with theirs. */
#define _GNU_SOURCE
#include "simd.h"
#include "threads.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Kernels keep up to 96 KiB of scratch on the stack; musl's default stack is 128 KiB. */
enum { STACK = 512 * 1024 };

/* A thread takes that part of what is left of a part, and at last single pieces: so that one that was late or slow
 * does not hold up the rest. */
enum { SHARE = 2 };

/* How long a worker looks out for the next loop, and the caller for the end of this one, before they sleep. */
enum { WATCH_NS = 50000 };

/* What different threads write lies apart by two lines of cache, which some CPUs fetch together. */
enum { APART = 128 };

/* A count of pieces is kept with the number of the loop that it belongs to, so that it needs no resetting, and so that
 * a worker that was held up since an earlier loop takes nothing of this one: number * NUMBER + count.  A number has the
 * bit WRITING while the caller describes the next loop. */
#define COUNT_BITS 23
#define WRITING ((uint64_t)1 << COUNT_BITS)
#define NUMBER (WRITING << 1)
#define MOST (WRITING - 1)
typedef _Atomic uint64_t atomic_tagged;

typedef struct {
  _Alignas(APART) atomic_tagged taken; /* pieces of this thread's part that somebody has begun */
  _Alignas(APART) atomic_tagged done;  /* pieces of any part that this thread is done with; not the caller's */
} thread_state;

struct pl_pool {
  _Alignas(APART) atomic_tagged number;
  _Atomic(pl_range_fn) fn;
  _Atomic(void *) ctx;
  atomic_ptrdiff_t n, grain;
  atomic_int pieces;             /* each of `grain` items, the last one perhaps of fewer */
  /* All threads read these, and they seldom change. */
  _Alignas(APART) int threads, workers; /* wanted, counting the caller; running */
  int watch;                     /* are there CPUs enough to look out? */
  atomic_int stop, sleeping, awaited; /* awaited: the caller sleeps until all is done */
  unsigned forks;                /* how often the process had forked when the workers were started */
  pthread_t *ids;
  void *memory;                  /* that all this lies in */
  _Alignas(APART) atomic_int busy; /* a loop is being shared */
  pthread_mutex_t lock;          /* for those who sleep */
  pthread_cond_t wake, ended;
  thread_state state[];          /* of each thread */
};

/* What a thread knows of the loop that goes on. */
typedef struct {
  uint64_t number;
  pl_range_fn fn;
  void *ctx;
  ptrdiff_t n, grain;
  int pieces, parts;
  int others;                    /* pieces that the caller left to the workers; it alone knows */
} loop;

static atomic_uint forks;        /* a fork leaves the child without workers, and its locks in any state */
static void forked(void) { atomic_fetch_add(&forks, 1); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, forked); }

static int parts_of(const pl_pool *pool, const loop *l) {
  return l->pieces < pool->threads ? l->pieces : pool->threads;
}

/* The first piece of a part. */
static int start_of(const loop *l, int part) {
  const int more = l->pieces % l->parts;
  return l->pieces / l->parts * part + (part < more ? part : more);
}

/* How many of the `left` pieces of a part to take at a time. */
static int some_of(int left) { return left > SHARE ? left / SHARE : 1; }

static void run(const loop *l, int begin, int pieces, int thread) {
  const ptrdiff_t from = begin * l->grain, to = from + pieces * l->grain;
  l->fn(l->ctx, from, to < l->n ? to : l->n, thread);
}

/* Do what nobody has begun of a part; returns how many pieces that were. */
static int take_part(pl_pool *pool, const loop *l, int part, int thread) {
  const int start = start_of(l, part), size = start_of(l, part + 1) - start;
  atomic_tagged *at = &pool->state[part].taken;
  uint64_t taken = atomic_load(at);
  int done = 0;
  for (;;) {
    const int64_t older = (int64_t)(l->number - (taken & ~MOST)); /* than this loop; less than 0: of a later one */
    const int begin = older ? 0 : (int)(taken & MOST), step = some_of(size - begin);
    if ((older < 0 && thread) || begin == size) return done; /* the caller's loop is the last there is */
    if (!atomic_compare_exchange_weak(at, &taken, l->number + (uint64_t)(begin + step))) continue;
    run(l, start + begin, step, thread);
    done += step;
    taken = l->number + (uint64_t)(begin + step);
  }
}

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__ARM_ARCH) && __ARM_ARCH >= 7)
  __asm__ volatile("yield");
#endif
}

/* Look out for up to WATCH_NS until ready(pool, l); returns whether it came to that. */
static int watched(const pl_pool *pool, int (*ready)(const pl_pool *, const loop *), const loop *l) {
  struct timespec start, now;
  if (ready(pool, l)) return 1;
  if (!pool->watch) return 0;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (;;) {
    for (int i = 0; i < 32; i++) {
      relax();
      if (ready(pool, l)) return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    if ((int64_t)(now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec > WATCH_NS) return 0;
  }
}

/* Is there another loop than that one, or an end to it all? */
static int called(const pl_pool *pool, const loop *l) {
  const uint64_t number = atomic_load_explicit(&pool->number, memory_order_acquire);
  return (number != l->number && !(number & WRITING)) || atomic_load(&pool->stop);
}

/* The number of pieces that workers are done with. */
static int done_by_workers(const pl_pool *pool, const loop *l) {
  int count = 0;
  for (int i = 1; i <= pool->workers; i++) {
    const uint64_t done = atomic_load(&pool->state[i].done);
    if ((done & ~MOST) == l->number) count += (int)(done & MOST);
  }
  return count;
}

static int finished(const pl_pool *pool, const loop *l) { return done_by_workers(pool, l) == l->others; }

/* Read what the caller has written; returns 0 if it was writing at the time. */
static int look_up(const pl_pool *pool, loop *l) {
  l->number = atomic_load_explicit(&pool->number, memory_order_acquire);
  l->fn = atomic_load_explicit(&pool->fn, memory_order_relaxed);
  l->ctx = atomic_load_explicit(&pool->ctx, memory_order_relaxed);
  l->n = atomic_load_explicit(&pool->n, memory_order_relaxed);
  l->grain = atomic_load_explicit(&pool->grain, memory_order_relaxed);
  l->pieces = atomic_load_explicit(&pool->pieces, memory_order_relaxed);
  l->parts = parts_of(pool, l);
  atomic_thread_fence(memory_order_acquire);
  return !(l->number & WRITING) && atomic_load_explicit(&pool->number, memory_order_relaxed) == l->number;
}

/* Let the caller know what this thread is done with. */
static void report(pl_pool *pool, int thread, uint64_t done) {
  atomic_store(&pool->state[thread].done, done);
  if (!atomic_load(&pool->awaited)) return;
  pthread_mutex_lock(&pool->lock);
  pthread_cond_signal(&pool->ended);
  pthread_mutex_unlock(&pool->lock);
}

typedef struct { pl_pool *pool; int thread; } worker_args;

static void *work(void *arg) {
  pl_pool *pool = ((worker_args *)arg)->pool;
  const int thread = ((worker_args *)arg)->thread;
  loop l = {0};
  free(arg);
  for (;;) {
    if (!watched(pool, called, &l)) {
      pthread_mutex_lock(&pool->lock);
      atomic_fetch_add(&pool->sleeping, 1);
      while (!called(pool, &l)) pthread_cond_wait(&pool->wake, &pool->lock);
      atomic_fetch_sub(&pool->sleeping, 1);
      pthread_mutex_unlock(&pool->lock);
    }
    if (atomic_load(&pool->stop)) return NULL;
    if (!look_up(pool, &l)) continue;
    int done = 0;
    for (int k = 0; k < l.parts; k++) {
      const int taken = take_part(pool, &l, (thread + k) % l.parts, thread);
      if (taken) report(pool, thread, l.number + (uint64_t)(done += taken));
    }
  }
}

/* What a new pool needs, whose counts are 0. */
static void prepare(pl_pool *pool) {
  pool->forks = atomic_load(&forks);
  pool->workers = -1;            /* not started yet */
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->wake, NULL);
  pthread_cond_init(&pool->ended, NULL);
}

/* After a fork: the workers are gone, and what they were at. */
static void renew(pl_pool *pool) {
  atomic_store(&pool->number, 0);
  for (int i = 0; i < pool->threads; i++) {
    atomic_store(&pool->state[i].taken, 0);
    atomic_store(&pool->state[i].done, 0);
  }
  atomic_store(&pool->stop, 0);
  atomic_store(&pool->sleeping, 0);
  atomic_store(&pool->awaited, 0);
  atomic_store(&pool->busy, 0);
  prepare(pool);
}

static void wake(pl_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
}

/* A worker that goes to sleep at this moment may miss it, and the others do its part: looking again would cost each
 * loop as much as telling the workers does. */
static void announce(pl_pool *pool, const loop *l) {
  atomic_store_explicit(&pool->number, l->number | WRITING, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&pool->fn, l->fn, memory_order_relaxed);
  atomic_store_explicit(&pool->ctx, l->ctx, memory_order_relaxed);
  atomic_store_explicit(&pool->n, l->n, memory_order_relaxed);
  atomic_store_explicit(&pool->grain, l->grain, memory_order_relaxed);
  atomic_store_explicit(&pool->pieces, l->pieces, memory_order_relaxed);
  atomic_store_explicit(&pool->number, l->number, memory_order_release);
  if (atomic_load_explicit(&pool->sleeping, memory_order_relaxed)) wake(pool);
}

int pl_start_thread(pthread_t *id, void *(*run)(void *), void *arg) {
  pthread_attr_t attr;
  sigset_t all, before;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, STACK);
  sigfillset(&all);              /* signals are for the threads of the program */
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int failed = pthread_create(id, &attr, run, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attr);
  return failed;
}

/* Start the workers; with fewer than wanted the rest of the work is the caller's. */
static void start(pl_pool *pool) {
  pool->workers = 0;
  while (pool->workers < pool->threads - 1) {
    worker_args *args = malloc(sizeof *args);
    if (!args) break;
    *args = (worker_args){pool, pool->workers + 1};
    if (pl_start_thread(&pool->ids[pool->workers], work, args)) {
      free(args);
      break;
    }
    pool->workers++;
  }
}

pl_pool *pl_pool_create(int threads) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  /* In whole states, and one more to align them; of many threads only those are touched that run. */
  const size_t states = (size_t)threads + sizeof(pl_pool) / sizeof(thread_state) + 1;
  void *memory = calloc(states, sizeof(thread_state)), *ids = calloc((size_t)threads, sizeof(pthread_t));
  if (!memory || !ids) {
    free(memory);
    free(ids);
    return NULL;
  }
  pl_pool *pool = (pl_pool *)(((uintptr_t)memory + APART - 1) & ~(uintptr_t)(APART - 1));
  pool->memory = memory;
  pool->ids = ids;
  pool->threads = threads;
  pool->watch = sysconf(_SC_NPROCESSORS_ONLN) >= threads;
  prepare(pool);
  return pool;
}

void pl_pool_destroy(pl_pool *pool) {
  if (!pool) return;
  if (pool->forks == atomic_load(&forks) && pool->workers > 0) {
    atomic_store(&pool->stop, 1);
    wake(pool);
    for (int i = 0; i < pool->workers; i++) pthread_join(pool->ids[i], NULL);
  }
  free(pool->ids);
  free(pool->memory);
}

int pl_pool_threads(const pl_pool *pool) { return pool ? pool->threads : 1; }

void pl_for(pl_pool *pool, ptrdiff_t n, ptrdiff_t grain, pl_range_fn fn, void *ctx) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  if (!pool || pool->threads == 1 || n <= grain) {
    fn(ctx, 0, n, 0);
    return;
  }
  if (pool->forks != atomic_load(&forks)) renew(pool);
  if (atomic_exchange(&pool->busy, 1)) { /* shared by another thread's loop, or inside one */
    fn(ctx, 0, n, 0);
    return;
  }
  if (pool->workers < 0) start(pool);
  if (n / grain >= (ptrdiff_t)MOST) grain = n / (ptrdiff_t)MOST + 1;
  loop l = {atomic_load(&pool->number) + NUMBER, fn, ctx, n, grain, (int)(n / grain + (n % grain != 0)), 0, 0};
  l.parts = parts_of(pool, &l);
  const int first = some_of(start_of(&l, 1));
  atomic_store_explicit(&pool->state[0].taken, l.number + (uint64_t)first, memory_order_relaxed);
  announce(pool, &l);
  run(&l, 0, first, 0);
  l.others = l.pieces - first;
  for (int part = 0; part < l.parts; part++) l.others -= take_part(pool, &l, part, 0);
  if (!watched(pool, finished, &l)) {
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->awaited, 1);
    while (!finished(pool, &l)) pthread_cond_wait(&pool->ended, &pool->lock);
    atomic_store(&pool->awaited, 0);
    pthread_mutex_unlock(&pool->lock);
  }
  atomic_store(&pool->busy, 0);
}
