/* Deferred packing: while a model is prepared, one worker thread packs weights; the caller continues in Python.  At the
 * end the caller runs remaining tasks, too. */
#define _GNU_SOURCE
#include "simd.h"
#include "threads.h"
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  MIN_BYTES = 1024 * 1024, /* of waiting work that pays for starting or waking the worker */
  PROMPT_NS = 300000       /* a worker that takes longer to begin shares its core with other threads */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static pl_packing_task *waiting, **end = &waiting; /* a queue */
static pl_packing_task *running, *finished;        /* in no order */
static ptrdiff_t bytes;                            /* of the waiting tasks */
static int preparing;                              /* threads between begin and finish */
static int worker, idle;                           /* is there a worker, and does it sleep? */
static int crowded;                                /* there is no core for a worker, until no thread prepares a model */
static int64_t called;                             /* when the worker was last started or woken */
static _Thread_local int depth;                    /* how often the calling thread has begun */

/* A forked child has one thread.  It runs the tasks again that other threads were running. */
static void forked(void) {
  pthread_mutex_init(&lock, NULL);
  pthread_cond_init(&wanted, NULL);
  pthread_cond_init(&ended, NULL);
  preparing = depth > 0;
  worker = idle = 0;
  while (running) {
    pl_packing_task *task = running;
    running = task->next;
    bytes += task->bytes;
    task->next = waiting;
    if (!waiting) end = &task->next;
    waiting = task;
  }
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void register_fork_handlers(void) { pthread_atfork(before_fork, after_fork, forked); }

/* Runs the first waiting task.  The caller holds the lock, which is released meanwhile. */
static void run_first(void) {
  pl_packing_task *task = waiting, **at = &running;
  waiting = task->next;
  if (!waiting) end = &waiting;
  bytes -= task->bytes;
  task->next = running;
  running = task;
  pthread_mutex_unlock(&lock);
  task->run(task);
  pthread_mutex_lock(&lock);
  while (*at != task) at = &(*at)->next;
  *at = task->next;
  task->next = finished;
  finished = task;
  if (!running) pthread_cond_broadcast(&ended);
}

/* Does the machine have an idle core?  A core on which OpenBLAS's threads spin, after numpy was imported, is scheduled
 * in slices of milliseconds: a thread that is started for it comes too late. */
static int core_to_spare(void) {
  char text[64];
  const char *slash = NULL;
  int descriptor = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  ssize_t size = 0;
  if (descriptor >= 0) {
    size = read(descriptor, text, sizeof text - 1);
    close(descriptor);
  }
  text[size > 0 ? size : 0] = 0;
  slash = strchr(text, '/'); /* it follows the number of running threads, this one included */
  while (slash && slash > text && slash[-1] != ' ') slash--;
  return sysconf(_SC_NPROCESSORS_ONLN) > (slash ? atoi(slash) : 1);
}

/* A new thread begins on its creator's core and would wait for it, even while another core is idle. */
static void send_elsewhere(pthread_t id) {
  cpu_set_t others;
  int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof others, &others)) return;
  CPU_CLR(here, &others);
  if (CPU_COUNT(&others)) pthread_setaffinity_np(id, sizeof others, &others);
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* The worker ends where it shares its core with other threads: it would be preempted in the middle of a task, which all
 * would wait for. */
static void *work(void *arg) {
  (void)arg;
  pthread_mutex_lock(&lock);
  while (preparing && !(crowded = now() - called > PROMPT_NS)) {
    while (waiting) run_first();
    if (!preparing) break;
    idle = 1;
    pthread_cond_wait(&wanted, &lock);
    idle = 0;
  }
  worker = 0;
  pthread_mutex_unlock(&lock);
  return NULL;
}

void pl_packing_begin(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, register_fork_handlers);
  pthread_mutex_lock(&lock);
  if (!depth++) {
    if (!preparing) crowded = 0;
    preparing++;
  }
  pthread_mutex_unlock(&lock);
}

int pl_packing_defer(pl_packing_task *task) {
  pthread_t id;
  if (!depth) {
    task->run(task);
    return 0;
  }
  pthread_mutex_lock(&lock);
  task->next = NULL;
  *end = task;
  end = &task->next;
  bytes += task->bytes;
  if (bytes >= MIN_BYTES && !crowded && (idle || !worker)) {
    called = now();
    if (idle) pthread_cond_signal(&wanted);
    else if (!(crowded = !core_to_spare()) && !pl_start_thread(&id, work, NULL)) {
      worker = 1;
      send_elsewhere(id);
      pthread_detach(id);
    }
  }
  pthread_mutex_unlock(&lock);
  return 1;
}

pl_packing_task *pl_packing_finish(void) {
  pthread_mutex_lock(&lock);
  if (depth && !--depth) preparing--;
  while (waiting) run_first();
  while (running) pthread_cond_wait(&ended, &lock);
  if (idle && !preparing) pthread_cond_signal(&wanted);
  pl_packing_task *done = finished;
  finished = NULL;
  pthread_mutex_unlock(&lock);
  return done;
}
