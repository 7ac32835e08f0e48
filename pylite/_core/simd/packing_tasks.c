/* Work put off while a model is prepared: one more thread does it while the caller goes on in Python, and in the end
 * both do what is left. */
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
  MIN_BYTES = 1024 * 1024, /* of work that pays for starting or waking a thread */
  PROMPT = 300000       /* nanoseconds: one that takes longer to begin has no core for itself */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static pl_packing_task *waiting, **end = &waiting;   /* in order */
static pl_packing_task *running, *finished;          /* in no order */
static ptrdiff_t bytes;                     /* of what waits */
static int open_threads, worker, idle;      /* is there a worker, and does it sleep? */
static int crowded;                         /* the others do without a worker until nobody is open */
static int64_t called;                      /* when the worker was last wanted */
static _Thread_local int depth;          /* how often the calling thread has opened */

/* A fork leaves the child one thread, and the others' work where it was: it can be done again. */
static void forked(void) {
  pthread_mutex_init(&lock, NULL);
  pthread_cond_init(&more, NULL);
  pthread_cond_init(&ended, NULL);
  open_threads = depth > 0;
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
static void watch_forks(void) { pthread_atfork(before_fork, after_fork, forked); }

/* Do the task that has waited longest; with the lock held, which is free meanwhile. */
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

/* Has the machine a core that does nothing?  One that OpenBLAS's threads look out on, for example, after numpy has been
 * imported, is given away in pieces of milliseconds, and starting a thread for it is in vain. */
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
  slash = strchr(text, '/');      /* behind how many threads run now, this one among them */
  while (slash && slash > text && slash[-1] != ' ') slash--;
  return sysconf(_SC_NPROCESSORS_ONLN) > (slash ? atoi(slash) : 1);
}

/* A new thread begins on its maker's core, whose work it would wait for, even while another core does nothing. */
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

/* A thread that shares its core with others would be taken off it in the middle of a task, which all would wait for. */
static void *work(void *arg) {
  (void)arg;
  pthread_mutex_lock(&lock);
  while (open_threads && !(crowded = now() - called > PROMPT)) {
    while (waiting) run_first();
    if (!open_threads) break;
    idle = 1;
    pthread_cond_wait(&more, &lock);
    idle = 0;
  }
  worker = 0;
  pthread_mutex_unlock(&lock);
  return NULL;
}

void pl_packing_begin(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&lock);
  if (!depth++) {
    if (!open_threads) crowded = 0;
    open_threads++;
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
    if (idle) pthread_cond_signal(&more);
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
  if (depth && !--depth) open_threads--;
  while (waiting) run_first();
  while (running) pthread_cond_wait(&ended, &lock);
  if (idle && !open_threads) pthread_cond_signal(&more);
  pl_packing_task *done = finished;
  finished = NULL;
  pthread_mutex_unlock(&lock);
  return done;
}
