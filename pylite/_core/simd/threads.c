/* The worker pool: threads that sleep until there is a loop to share, and after it look out for the next one for a few
 * dozen microseconds: waking a thread takes as long as many a loop. */
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
/* A thread takes that part of its share of what is left, and at last single pieces: so that one that was late or slow
 * does not hold up the rest. */
enum { PART = 2 };

/* How long a worker looks out for the next loop, and the caller for the end of this one, before they sleep. */
enum { WATCH_NS = 50000 };

/* The gate of a loop: how many workers are inside, and whether others may still join. */
enum { OPEN = 1 << 30 };

struct pl_pool {
  int threads, workers;          /* wanted, counting the caller; running */
  int watch;                     /* are there CPUs enough to look out? */
  unsigned forks;                /* how often the process had forked when the workers were started */
  atomic_int busy;               /* a loop is being shared */
  atomic_int ticket;             /* counts loops */
  atomic_int gate, sleeping, stop;
  atomic_ptrdiff_t next;         /* of the loop that the gate guards, as are */
  pl_range_fn fn;
  void *ctx;
  ptrdiff_t n, grain;
  pthread_t *ids;
  pthread_mutex_t lock;          /* for those who sleep */
  pthread_cond_t wake, done;
};

static atomic_uint forks;        /* a fork leaves the child without workers, and its locks in any state */
static void forked(void) { atomic_fetch_add(&forks, 1); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, forked); }

static void share(pl_pool *pool, int thread) {
  ptrdiff_t begin = atomic_load(&pool->next);
  while (begin < pool->n) {
    const ptrdiff_t left = pool->n - begin, part = left / (PART * pool->threads);
    const ptrdiff_t step = part > pool->grain ? part : pool->grain, end = begin + (step < left ? step : left);
    if (!atomic_compare_exchange_weak(&pool->next, &begin, end)) continue;
    pool->fn(pool->ctx, begin, end, thread);
    begin = atomic_load(&pool->next);
  }
}

typedef struct { pl_pool *pool; int thread; } worker_args;

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__ARM_ARCH) && __ARM_ARCH >= 7)
  __asm__ volatile("yield");
#endif
}

/* Look out for up to WATCH_NS while *what is `value`; returns whether it still is. */
static int same(const pl_pool *pool, const atomic_int *what, int value) {
  struct timespec start, now;
  if (atomic_load(what) != value) return 0;
  if (!pool->watch) return 1;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (;;) {
    for (int i = 0; i < 32; i++) {
      relax();
      if (atomic_load(what) != value) return 0;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    if ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec > WATCH_NS) return 1;
  }
}

static void *work(void *arg) {
  pl_pool *pool = ((worker_args *)arg)->pool;
  const int thread = ((worker_args *)arg)->thread;
  free(arg);
  for (int seen = 0; !atomic_load(&pool->stop);) {
    if (same(pool, &pool->ticket, seen)) {
      pthread_mutex_lock(&pool->lock);
      atomic_fetch_add(&pool->sleeping, 1);
      while (atomic_load(&pool->ticket) == seen) pthread_cond_wait(&pool->wake, &pool->lock);
      atomic_fetch_sub(&pool->sleeping, 1);
      pthread_mutex_unlock(&pool->lock);
    }
    seen = atomic_load(&pool->ticket);
    int gate = atomic_load(&pool->gate);
    while (gate & OPEN && !atomic_compare_exchange_weak(&pool->gate, &gate, gate + 1)) {}
    if (!(gate & OPEN)) continue;
    share(pool, thread);
    if (atomic_fetch_sub(&pool->gate, 1) == 1) { /* the last to leave, and the caller has closed the gate */
      pthread_mutex_lock(&pool->lock);
      pthread_cond_signal(&pool->done);
      pthread_mutex_unlock(&pool->lock);
    }
  }
  return NULL;
}

static void prepare(pl_pool *pool) {
  pool->forks = atomic_load(&forks);
  pool->workers = -1;            /* not started yet */
  atomic_store(&pool->ticket, 0);
  atomic_store(&pool->gate, 0);
  atomic_store(&pool->sleeping, 0);
  atomic_store(&pool->stop, 0);
  atomic_store(&pool->busy, 0);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->wake, NULL);
  pthread_cond_init(&pool->done, NULL);
}

/* A new ticket, and everybody up who sleeps. */
static void call(pl_pool *pool) {
  atomic_fetch_add(&pool->ticket, 1);
  if (atomic_load(&pool->sleeping)) {
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
  }
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
  pl_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return NULL;
  pool->ids = calloc((size_t)threads, sizeof *pool->ids);
  if (!pool->ids) {
    free(pool);
    return NULL;
  }
  pool->threads = threads;
  pool->watch = sysconf(_SC_NPROCESSORS_ONLN) >= threads;
  prepare(pool);
  return pool;
}

void pl_pool_destroy(pl_pool *pool) {
  if (!pool) return;
  if (pool->forks == atomic_load(&forks) && pool->workers > 0) {
    atomic_store(&pool->stop, 1);
    call(pool);
    for (int i = 0; i < pool->workers; i++) pthread_join(pool->ids[i], NULL);
  }
  free(pool->ids);
  free(pool);
}

int pl_pool_threads(const pl_pool *pool) { return pool ? pool->threads : 1; }

void pl_for(pl_pool *pool, ptrdiff_t n, ptrdiff_t grain, pl_range_fn fn, void *ctx) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  if (!pool || pool->threads == 1 || n <= grain) {
    fn(ctx, 0, n, 0);
    return;
  }
  if (pool->forks != atomic_load(&forks)) prepare(pool);
  if (atomic_exchange(&pool->busy, 1)) { /* shared by another thread's loop, or inside one */
    fn(ctx, 0, n, 0);
    return;
  }
  if (pool->workers < 0) start(pool);
  pool->fn = fn;
  pool->ctx = ctx;
  pool->n = n;
  pool->grain = grain;
  atomic_store(&pool->next, 0);
  atomic_store(&pool->gate, OPEN);
  call(pool);
  share(pool, 0);
  /* Who has not come yet is not waited for. */
  for (int inside = atomic_fetch_and(&pool->gate, ~OPEN) & ~OPEN; inside; inside = atomic_load(&pool->gate)) {
    if (!same(pool, &pool->gate, inside)) continue;
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->gate)) pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
  }
  atomic_store(&pool->busy, 0);
}
