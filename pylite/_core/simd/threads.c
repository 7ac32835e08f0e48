/* The worker pool: threads that sleep until there is a loop to share. */
#define _GNU_SOURCE
#include "simd.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Kernels keep up to 64 KiB of scratch on the stack; musl's default stack is 128 KiB. */
enum { STACK = 512 * 1024 };
/* Ranges per thread: more than one, so that a thread that was late or slow does not hold up the rest. */
enum { RANGES = 4 };

struct pl_pool {
  int threads, workers;          /* wanted, counting the caller; running */
  unsigned forks;                /* how often the process had forked when the workers were started */
  atomic_int busy;               /* a loop is being shared */
  pthread_t *ids;
  pthread_mutex_t lock;          /* guards what follows */
  pthread_cond_t wake, done;
  unsigned ticket;               /* counts loops */
  int open, inside, stop;        /* may workers join?  how many have? */
  pl_range_fn fn;
  void *ctx;
  ptrdiff_t n, step;
  atomic_ptrdiff_t next;
};

static atomic_uint forks;        /* a fork leaves the child without workers, and its locks in any state */
static void forked(void) { atomic_fetch_add(&forks, 1); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, forked); }

static void share(pl_pool *pool, int thread) {
  ptrdiff_t begin;
  while ((begin = atomic_fetch_add(&pool->next, pool->step)) < pool->n) {
    ptrdiff_t end = begin + pool->step < pool->n ? begin + pool->step : pool->n;
    pool->fn(pool->ctx, begin, end, thread);
  }
}

typedef struct { pl_pool *pool; int thread; } worker_args;

static void *work(void *arg) {
  pl_pool *pool = ((worker_args *)arg)->pool;
  const int thread = ((worker_args *)arg)->thread;
  free(arg);
  pthread_mutex_lock(&pool->lock);
  for (unsigned seen = 0; !pool->stop;) {
    if (!pool->open || pool->ticket == seen) {
      pthread_cond_wait(&pool->wake, &pool->lock);
      continue;
    }
    seen = pool->ticket;
    pool->inside++;
    pthread_mutex_unlock(&pool->lock);
    share(pool, thread);
    pthread_mutex_lock(&pool->lock);
    if (--pool->inside == 0) pthread_cond_signal(&pool->done);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

static void prepare(pl_pool *pool) {
  pool->forks = atomic_load(&forks);
  pool->workers = -1;            /* not started yet */
  pool->open = pool->inside = pool->stop = 0;
  pool->ticket = 0;
  atomic_store(&pool->busy, 0);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->wake, NULL);
  pthread_cond_init(&pool->done, NULL);
}

/* Start the workers; with fewer than wanted the rest of the work is the caller's. */
static void start(pl_pool *pool) {
  pthread_attr_t attr;
  sigset_t all, before;
  pool->workers = 0;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, STACK);
  sigfillset(&all);              /* signals are for the threads of the program */
  pthread_sigmask(SIG_BLOCK, &all, &before);
  while (pool->workers < pool->threads - 1) {
    worker_args *args = malloc(sizeof *args);
    if (!args) break;
    *args = (worker_args){pool, pool->workers + 1};
    if (pthread_create(&pool->ids[pool->workers], &attr, work, args)) {
      free(args);
      break;
    }
    pool->workers++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attr);
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
  prepare(pool);
  return pool;
}

void pl_pool_destroy(pl_pool *pool) {
  if (!pool) return;
  if (pool->forks == atomic_load(&forks) && pool->workers > 0) {
    pthread_mutex_lock(&pool->lock);
    pool->stop = 1;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
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
  ptrdiff_t step = (n + pool->threads * RANGES - 1) / (pool->threads * RANGES);
  pthread_mutex_lock(&pool->lock);
  pool->fn = fn;
  pool->ctx = ctx;
  pool->n = n;
  pool->step = step > grain ? step : grain;
  atomic_store(&pool->next, 0);
  pool->ticket++;
  pool->open = 1;
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
  share(pool, 0);
  pthread_mutex_lock(&pool->lock);
  pool->open = 0;                /* who has not come yet is not waited for */
  while (pool->inside) pthread_cond_wait(&pool->done, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
  atomic_store(&pool->busy, 0);
}
