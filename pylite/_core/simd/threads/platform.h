/* What operating systems do differently: threads, locks, clocks, memory, what an Arm CPU has.  platform_posix.c and
 * platform_windows.c implement it; no other source of the library calls the system, but those that host plug-ins. */
#ifndef PYLITE_PLATFORM_H
#define PYLITE_PLATFORM_H
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
typedef void *pl_thread;
typedef struct {
  void *state;
} pl_mutex, pl_condition, pl_once_flag; /* SRWLOCK, CONDITION_VARIABLE, INIT_ONCE */
#define PL_MUTEX_INIT {NULL}
#define PL_CONDITION_INIT {NULL}
#define PL_ONCE_INIT {NULL}
#else
#include <pthread.h>
typedef pthread_t pl_thread;
typedef pthread_mutex_t pl_mutex;
typedef pthread_cond_t pl_condition;
typedef pthread_once_t pl_once_flag;
#define PL_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
#define PL_CONDITION_INIT PTHREAD_COND_INITIALIZER
#define PL_ONCE_INIT PTHREAD_ONCE_INIT
#endif

void pl_mutex_init(pl_mutex *mutex);
void pl_lock(pl_mutex *mutex);
void pl_unlock(pl_mutex *mutex);
void pl_condition_init(pl_condition *condition);
void pl_wait(pl_condition *condition, pl_mutex *mutex);
void pl_wake_one(pl_condition *condition);
void pl_wake_all(pl_condition *condition);
void pl_once(pl_once_flag *flag, void (*run)(void));

/* Starts a thread with a small stack that gets no signals; not 0 where that fails. */
int pl_thread_start(pl_thread *thread, void *(*run)(void *), void *arg);
void pl_thread_join(pl_thread thread);
void pl_thread_detach(pl_thread thread);
/* Keeps a new thread off the caller's core, where it would wait for its creator even while another core is idle. */
void pl_thread_send_elsewhere(pl_thread thread);
/* Functions around a fork, where the system has such; each may be NULL. */
void pl_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

int64_t pl_nanoseconds(void); /* of a clock that only goes forward */
int pl_cpus(void);
int pl_running_threads(void); /* of the machine, the caller included; 1 where it is not known */
int64_t pl_physical_memory(void); /* bytes */

/* `size` bytes of zeros, or of the file `descriptor` unless it is -1, read-only; NULL where that fails. */
void *pl_pages_map(size_t size, int descriptor);
void pl_pages_unmap(void *address, size_t size, int is_file);
int pl_pages_protect(void *address, size_t size); /* from writes; 0, or -1 where the system refuses */
void pl_pages_make_huge(void *address, size_t size); /* where the system has huge pages */
/* A mapped file that another program truncates loses pages.  Those are zeros from then on, and counted.  Watch the file
 * mapped at `at`: the number to ask with, or -1 where it is not watched.  One thread calls at a time. */
extern volatile int pl_lost_pages; /* of all files */
int pl_watch(void *address, size_t size);
void pl_unwatch(int file);
int pl_lost_of(int file);
/* Gives the whole pages of [at, at + size) back to the system where they are of a watched file, which has them again when
 * they are next read.  For weights that were packed: they are in memory once. */
void pl_give_back(const void *address, size_t size);

/* Of an Arm CPU: NEON with fused multiplication, dot products of bytes, products of matrices of bytes. */
enum { PL_NEON_VFP4 = 1, PL_DOTPROD = 2, PL_I8MM = 4 };
unsigned pl_arm_features(void);
#endif
