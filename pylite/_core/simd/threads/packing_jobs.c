/* Deferred packing (pl_packing_job in simd.h): while the caller prepares a model in Python, one worker thread packs
 * weights.  At the end, the caller runs the jobs that remain. */
#include "platform.h"
#include "simd.h"

enum {
  MIN_BYTES = 1024 * 1024,      /* the least waiting work for which starting or waking the worker pays */
  MAX_COPIED = 4 * 1024 * 1024, /* if jobs hold more bytes of copies, the caller has to drain the queue */
  PROMPT_NS = 300000            /* a worker that takes longer to start shares its core with other threads */
};

static pl_mutex lock = PL_MUTEX_INIT;
static pl_condition wanted = PL_CONDITION_INIT, ended = PL_CONDITION_INIT; /* there is work; no job is running */
static pl_packing_job *waiting, **end = &waiting; /* a queue */
static pl_packing_job *running, *finished;        /* in no order */
static ptrdiff_t bytes;                            /* of the waiting jobs */
static ptrdiff_t copied;                           /* bytes of copies that jobs hold which were not drained yet */
static int preparing;                              /* threads between pl_packing_begin and pl_packing_finish */
static int worker, idle;                           /* is there a worker, and does it sleep? */
static int crowded;                                /* no core is free for a worker; reset when `preparing` becomes 0 */
static int64_t called;                             /* when the worker was last started or woken */
static _Thread_local int depth;                    /* calls of pl_packing_begin by this thread that are not finished */

/* A forked child has one thread.  It runs the jobs again that other threads were running. */
static void forked(void) {
  pl_mutex_init(&lock);
  pl_condition_init(&wanted);
  pl_condition_init(&ended);
  preparing = depth > 0;
  worker = idle = 0;
  while (running) {
    pl_packing_job *job = running;
    running = job->next;
    bytes += job->bytes;
    job->next = waiting;
    if (!waiting) end = &job->next;
    waiting = job;
  }
}

static void before_fork(void) { pl_lock(&lock); }
static void after_fork(void) { pl_unlock(&lock); }
static void register_fork_handlers(void) { pl_at_fork(before_fork, after_fork, forked); }

/* Runs the first waiting job.  The caller holds the lock, which is released meanwhile. */
static void run_first(void) {
  pl_packing_job *job = waiting, **link = &running;
  waiting = job->next;
  if (!waiting) end = &waiting;
  bytes -= job->bytes;
  job->next = running;
  running = job;
  pl_unlock(&lock);
  job->run(job);
  pl_lock(&lock);
  while (*link != job) link = &(*link)->next;
  *link = job->next;
  job->next = finished;
  finished = job;
  if (!running) pl_wake_all(&ended);
}

/* Does the machine have an idle core?  On a core on which another thread spins, as OpenBLAS's do after an import of
 * numpy, the worker would wait milliseconds for its turn. */
static int core_to_spare(void) { return pl_cpus() > pl_running_threads(); }

/* The worker thread.  It ends if it shares its core with other threads: it would be preempted in the middle of a job,
 * and the caller would wait for that job. */
static void *work(void *arg) {
  (void)arg;
  pl_lock(&lock);
  while (preparing && !(crowded = pl_nanoseconds() - called > PROMPT_NS)) {
    while (waiting) run_first();
    if (!preparing) break;
    idle = 1;
    pl_wait(&wanted, &lock);
    idle = 0;
  }
  worker = 0;
  pl_unlock(&lock);
  return NULL;
}

void pl_packing_begin(void) {
  static pl_once_flag once = PL_ONCE_INIT;
  pl_once(&once, register_fork_handlers);
  pl_lock(&lock);
  if (!depth++) {
    if (!preparing) crowded = 0;
    preparing++;
  }
  pl_unlock(&lock);
}

int pl_packing_defer(pl_packing_job *job) {
  pl_thread id;
  if (!depth) {
    job->run(job);
    return 0;
  }
  pl_lock(&lock);
  job->next = NULL;
  *end = job;
  end = &job->next;
  bytes += job->bytes;
  copied += job->copied;
  int full = copied > MAX_COPIED;
  if (bytes >= MIN_BYTES && !crowded && (idle || !worker)) {
    called = pl_nanoseconds();
    if (idle) pl_wake_one(&wanted);
    else if (!(crowded = !core_to_spare()) && !pl_thread_start(&id, work, NULL)) {
      worker = 1;
      pl_thread_send_elsewhere(id);
      pl_thread_detach(id);
    }
  }
  pl_unlock(&lock);
  return full ? -1 : 1;
}

/* Runs all waiting jobs, waits for running ones, and returns all finished ones.  The caller holds the lock. */
static pl_packing_job *drain(void) {
  while (waiting) run_first();
  while (running) pl_wait(&ended, &lock);
  pl_packing_job *done = finished;
  finished = NULL;
  copied = 0;
  return done;
}

pl_packing_job *pl_packing_drain(void) {
  pl_lock(&lock);
  pl_packing_job *done = drain();
  pl_unlock(&lock);
  return done;
}

pl_packing_job *pl_packing_finish(void) {
  pl_lock(&lock);
  if (depth && !--depth) preparing--;
  pl_packing_job *done = drain();
  if (idle && !preparing) pl_wake_one(&wanted);
  pl_unlock(&lock);
  return done;
}
