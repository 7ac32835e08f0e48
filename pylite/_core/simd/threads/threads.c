/* The worker pool (pl_pool and pl_for in simd.h).  Workers sleep until there is a loop; after it they spin for a few
 * dozen microseconds, because waking a thread takes as long as many loops.
 *
 * Reading a cache line that another core has written takes a hundred nanoseconds or more.  Each loop therefore writes
 * few: the caller writes one to announce the loop, and each worker one to report.  The pieces of a loop are divided
 * into shares, one for each thread, the same in every loop, so that a thread finds in its cache what it wrote before.
 * A thread that has finished its share takes pieces of other shares. */
#include "platform.h"
#include "simd.h"
#include "x86/subnormals.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* How long a worker spins for the next loop, and the caller for the end of this one, before they sleep. */
enum { SPIN_NS = 50000 };

/* Variables of different threads are two cache lines apart: some CPUs fetch lines in pairs. */
enum { LINE_PAIR = 128 };

/* A count of pieces is tagged with the number of its loop: number * NUMBER + count.  Counts need no reset between
 * loops, and a worker that was delayed since an earlier loop takes no piece of this one.  In pl_pool.number, the bit
 * WRITING is set while the caller writes the description of the next loop. */
#define COUNT_BITS 23
#define WRITING ((uint64_t)1 << COUNT_BITS)
#define NUMBER (WRITING << 1)
#define MAX_PIECES (WRITING - 1)
typedef _Atomic uint64_t atomic_tagged;

typedef struct {
  _Alignas(LINE_PAIR) atomic_tagged taken; /* pieces of this thread's share that any thread has begun */
  _Alignas(LINE_PAIR) atomic_tagged done;  /* pieces of any share that this thread has finished; unused by the caller */
} thread_state;

struct pl_pool {
  /* The current loop, written by the caller. */
  _Alignas(LINE_PAIR) atomic_tagged number;
  _Atomic(pl_range_fn) fn;
  _Atomic(void *) ctx;
  atomic_ptrdiff_t n, grain;
  atomic_int pieces;             /* of `grain` items each; the last one may have fewer */
  atomic_uint float_mode;        /* the caller's, which all threads of a loop use */
  /* Read by all threads, and rarely written. */
  _Alignas(LINE_PAIR) int threads, workers; /* threads, the caller included; workers that run */
  int spins;                     /* are there enough CPUs to spin? */
  int64_t *rows;                 /* the arguments of pl_pool_record; rows may be NULL */
  ptrdiff_t capacity;
  atomic_int stop, sleeping, awaited; /* awaited: the caller sleeps until the loop ends */
  unsigned forks;                /* value of the global `forks` when the workers were started */
  pl_thread *ids;
  void *memory;                  /* the allocation of the pool */
  _Alignas(LINE_PAIR) atomic_int busy; /* is a loop running? */
  atomic_ptrdiff_t recorded;     /* see pl_pool_recorded */
  pl_mutex lock;                 /* for going to sleep and waking */
  pl_condition wake, ended;      /* for workers, and for the caller */
  thread_state state[];          /* of each thread */
};

/* A thread's copy of the current loop. */
typedef struct {
  uint64_t number;
  pl_range_fn fn;
  void *ctx;
  ptrdiff_t n, grain;
  int pieces, shares;
  unsigned float_mode;
  int others;                    /* pieces that the workers took; read by the caller alone */
} loop;

static atomic_uint forks;        /* counts forks: a forked child has no workers, and its locks are in any state */
static void forked(void) { atomic_fetch_add(&forks, 1); }
static void register_fork_handler(void) { pl_at_fork(NULL, NULL, forked); }

static int shares_of(const pl_pool *pool, const loop *l) {
  return l->pieces < pool->threads ? l->pieces : pool->threads;
}

/* The first piece of a share.  If pieces do not divide evenly, the first shares have one more. */
static int start_of(const loop *l, int share) {
  const int more = l->pieces % l->shares;
  return l->pieces / l->shares * share + (share < more ? share : more);
}

/* How many of the remaining pieces of a share to take at a time: half of them, and at the end single ones, so that a
 * late or slow thread does not delay the others. */
static int batch_of(int left) { return left > 2 ? left / 2 : 1; }

/* Runs pieces begin .. begin + pieces - 1 of a loop, and records them if the pool has rows. */
static void run(pl_pool *pool, const loop *l, int begin, int pieces, int thread) {
  const ptrdiff_t from = begin * l->grain, to = from + pieces * l->grain, end = to < l->n ? to : l->n;
  if (!pool->rows) {
    l->fn(l->ctx, from, end, thread);
    return;
  }
  const int64_t before = pl_nanoseconds();
  l->fn(l->ctx, from, end, thread);
  const ptrdiff_t row_number = atomic_fetch_add(&pool->recorded, 1);
  const int64_t row[] = {before, pl_nanoseconds(), from, end, thread};
  if (row_number < pool->capacity) memcpy(pool->rows + 5 * row_number, row, sizeof row);
}

/* Runs the pieces of a share that no thread has begun; returns their number. */
static int take_share(pl_pool *pool, const loop *l, int share, int thread) {
  const int start = start_of(l, share), size = start_of(l, share + 1) - start;
  atomic_tagged *counter = &pool->state[share].taken;
  uint64_t taken = atomic_load(counter);
  int done = 0;
  for (;;) {
    /* > 0: the count is of an earlier loop; < 0: of a later one */
    const int64_t older = (int64_t)(l->number - (taken & ~MAX_PIECES));
    const int begin = older ? 0 : (int)(taken & MAX_PIECES), step = batch_of(size - begin);
    if ((older < 0 && thread) || begin == size) return done; /* the caller's loop is always the latest */
    if (!atomic_compare_exchange_weak(counter, &taken, l->number + (uint64_t)(begin + step))) continue;
    run(pool, l, start + begin, step, thread);
    done += step;
    taken = l->number + (uint64_t)(begin + step);
  }
}

/* Tells the CPU that this thread spins. */
static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__ARM_ARCH) && __ARM_ARCH >= 7)
  __asm__ volatile("yield");
#endif
}

/* Spins for up to SPIN_NS until ready(pool, l); returns whether it is. */
static int spin_until(const pl_pool *pool, int (*ready)(const pl_pool *, const loop *), const loop *l) {
  if (ready(pool, l)) return 1;
  if (!pool->spins) return 0;
  const int64_t start = pl_nanoseconds();
  for (;;) {
    for (int i = 0; i < 32; i++) {
      relax();
      if (ready(pool, l)) return 1;
    }
    if (pl_nanoseconds() - start > SPIN_NS) return 0;
  }
}

/* Is there a newer loop than l, or does the pool stop? */
static int announced(const pl_pool *pool, const loop *l) {
  const uint64_t number = atomic_load_explicit(&pool->number, memory_order_acquire);
  return (number != l->number && !(number & WRITING)) || atomic_load(&pool->stop);
}

/* The number of pieces that workers have finished. */
static int done_by_workers(const pl_pool *pool, const loop *l) {
  int count = 0;
  for (int i = 1; i <= pool->workers; i++) {
    const uint64_t done = atomic_load(&pool->state[i].done);
    if ((done & ~MAX_PIECES) == l->number) count += (int)(done & MAX_PIECES);
  }
  return count;
}

/* Have workers finished all pieces that they took? */
static int finished(const pl_pool *pool, const loop *l) { return done_by_workers(pool, l) == l->others; }

/* Reads the loop that the caller has announced; returns 0 if the caller was writing. */
static int read_loop(const pl_pool *pool, loop *l) {
  l->number = atomic_load_explicit(&pool->number, memory_order_acquire);
  l->fn = atomic_load_explicit(&pool->fn, memory_order_relaxed);
  l->ctx = atomic_load_explicit(&pool->ctx, memory_order_relaxed);
  l->n = atomic_load_explicit(&pool->n, memory_order_relaxed);
  l->grain = atomic_load_explicit(&pool->grain, memory_order_relaxed);
  l->pieces = atomic_load_explicit(&pool->pieces, memory_order_relaxed);
  l->float_mode = atomic_load_explicit(&pool->float_mode, memory_order_relaxed);
  l->shares = shares_of(pool, l);
  atomic_thread_fence(memory_order_acquire);
  return !(l->number & WRITING) && atomic_load_explicit(&pool->number, memory_order_relaxed) == l->number;
}

/* Reports the pieces that this thread has finished, and wakes the caller if it sleeps.  The caller stores `awaited`,
 * then loads the reports; this function stores a report, then loads `awaited`.  The fences guarantee that at least one
 * of both sees the other's store.  Sequentially consistent stores and loads would, too, but under QEMU 7.2 such a load
 * on AArch64 may overtake the store. */
static void report(pl_pool *pool, int thread, uint64_t done) {
  atomic_store_explicit(&pool->state[thread].done, done, memory_order_release);
  atomic_thread_fence(memory_order_seq_cst);
  if (!atomic_load_explicit(&pool->awaited, memory_order_relaxed)) return;
  pl_lock(&pool->lock);
  pl_wake_one(&pool->ended);
  pl_unlock(&pool->lock);
}

typedef struct { pl_pool *pool; int thread; } worker_args;

/* A worker thread. */
static void *work(void *arg) {
  pl_pool *pool = ((worker_args *)arg)->pool;
  const int thread = ((worker_args *)arg)->thread;
  loop l = {0};
  unsigned float_mode = pl_float_mode();
  free(arg);
  for (;;) {
    if (!spin_until(pool, announced, &l)) {
      pl_lock(&pool->lock);
      atomic_fetch_add(&pool->sleeping, 1);
      while (!announced(pool, &l)) pl_wait(&pool->wake, &pool->lock);
      atomic_fetch_sub(&pool->sleeping, 1);
      pl_unlock(&pool->lock);
    }
    if (atomic_load(&pool->stop)) return NULL;
    if (!read_loop(pool, &l)) continue;
    int done = 0;
    if (l.float_mode != float_mode) pl_set_float_mode(float_mode = l.float_mode);
    for (int k = 0; k < l.shares; k++) {
      const int taken = take_share(pool, &l, (thread + k) % l.shares, thread);
      if (taken) report(pool, thread, l.number + (uint64_t)(done += taken));
    }
  }
}

/* Initializes a pool whose memory is zeros. */
static void prepare(pl_pool *pool) {
  pool->forks = atomic_load(&forks);
  pool->workers = -1;            /* not started yet */
  pl_mutex_init(&pool->lock);
  pl_condition_init(&pool->wake);
  pl_condition_init(&pool->ended);
}

/* Reinitializes a pool after a fork, when its workers and their loop are gone. */
static void reset(pl_pool *pool) {
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

/* Wakes all sleeping workers. */
static void wake(pl_pool *pool) {
  pl_lock(&pool->lock);
  pl_wake_all(&pool->wake);
  pl_unlock(&pool->lock);
}

/* Announces a loop.  A worker that falls asleep at this moment may miss it; then other threads take its share.
 * Preventing that would cost each loop as much as the announcement itself. */
static void announce(pl_pool *pool, const loop *l) {
  atomic_store_explicit(&pool->number, l->number | WRITING, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&pool->fn, l->fn, memory_order_relaxed);
  atomic_store_explicit(&pool->ctx, l->ctx, memory_order_relaxed);
  atomic_store_explicit(&pool->n, l->n, memory_order_relaxed);
  atomic_store_explicit(&pool->grain, l->grain, memory_order_relaxed);
  atomic_store_explicit(&pool->pieces, l->pieces, memory_order_relaxed);
  atomic_store_explicit(&pool->float_mode, l->float_mode, memory_order_relaxed);
  atomic_store_explicit(&pool->number, l->number, memory_order_release);
  if (atomic_load_explicit(&pool->sleeping, memory_order_relaxed)) wake(pool);
}

/* Starts the workers.  If some cannot be started, other threads take their shares. */
static void start(pl_pool *pool) {
  pool->workers = 0;
  while (pool->workers < pool->threads - 1) {
    worker_args *args = malloc(sizeof *args);
    if (!args) break;
    *args = (worker_args){pool, pool->workers + 1};
    if (pl_thread_start(&pool->ids[pool->workers], work, args)) {
      free(args);
      break;
    }
    pool->workers++;
  }
}

pl_pool *pl_pool_create(int threads) {
  static pl_once_flag once = PL_ONCE_INIT;
  pl_once(&once, register_fork_handler);
  /* The size in units of thread_state, one more for alignment.  States of threads that never run are not touched. */
  const size_t states = (size_t)threads + sizeof(pl_pool) / sizeof(thread_state) + 1;
  void *memory = calloc(states, sizeof(thread_state)), *ids = calloc((size_t)threads, sizeof(pl_thread));
  if (!memory || !ids) {
    free(memory);
    free(ids);
    return NULL;
  }
  pl_pool *pool = (pl_pool *)(((uintptr_t)memory + LINE_PAIR - 1) & ~(uintptr_t)(LINE_PAIR - 1));
  pool->memory = memory;
  pool->ids = ids;
  pool->threads = threads;
  pool->spins = pl_cpus() >= threads;
  prepare(pool);
  return pool;
}

void pl_pool_destroy(pl_pool *pool) {
  if (!pool) return;
  if (pool->forks == atomic_load(&forks) && pool->workers > 0) {
    atomic_store(&pool->stop, 1);
    wake(pool);
    for (int i = 0; i < pool->workers; i++) pl_thread_join(pool->ids[i]);
  }
  free(pool->ids);
  free(pool->memory);
}

int pl_pool_threads(const pl_pool *pool) { return pool ? pool->threads : 1; }

void pl_pool_record(pl_pool *pool, int64_t *rows, ptrdiff_t capacity) {
  pool->rows = rows;
  pool->capacity = capacity;
  if (rows) atomic_store(&pool->recorded, 0);
}

ptrdiff_t pl_pool_recorded(const pl_pool *pool) { return atomic_load(&pool->recorded); }

void pl_for(pl_pool *pool, ptrdiff_t n, ptrdiff_t grain, pl_range_fn fn, void *ctx) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  if (!pool || pool->threads == 1 || n <= grain) {
    fn(ctx, 0, n, 0);
    return;
  }
  if (pool->forks != atomic_load(&forks)) reset(pool);
  if (atomic_exchange(&pool->busy, 1)) { /* another thread's loop is running, or this is a loop inside one */
    fn(ctx, 0, n, 0);
    return;
  }
  if (pool->workers < 0) start(pool);
  if (n / grain >= (ptrdiff_t)MAX_PIECES) grain = n / (ptrdiff_t)MAX_PIECES + 1;
  loop l = {atomic_load(&pool->number) + NUMBER, fn, ctx, n, grain, (int)(n / grain + (n % grain != 0)), 0,
            pl_float_mode() & ~PL_FLAG_BITS, 0};
  l.shares = shares_of(pool, &l);
  const int first = batch_of(start_of(&l, 1));
  atomic_store_explicit(&pool->state[0].taken, l.number + (uint64_t)first, memory_order_relaxed);
  announce(pool, &l);
  run(pool, &l, 0, first, 0);
  l.others = l.pieces - first;
  for (int share = 0; share < l.shares; share++) l.others -= take_share(pool, &l, share, 0);
  if (!spin_until(pool, finished, &l)) {
    pl_lock(&pool->lock);
    atomic_store_explicit(&pool->awaited, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    while (!finished(pool, &l)) pl_wait(&pool->ended, &pool->lock);
    atomic_store(&pool->awaited, 0);
    pl_unlock(&pool->lock);
  }
  atomic_store(&pool->busy, 0);
}
