/* What depends on the operating system: threads, locks, clocks, memory, features of Arm CPUs.  platform_posix.c and
 * platform_windows.c implement it; no other file calls the system, except the plug-in host and the C library. */
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

/* Starts a thread with a small stack, which leaves signals to other threads; returns 0, or another number on
 * failure. */
int pl_thread_start(pl_thread *thread, void *(*run)(void *), void *arg);
void pl_thread_join(pl_thread thread);
void pl_thread_detach(pl_thread thread);
/* Keeps a new thread off the caller's core, where it would wait for its creator even while another core is idle. */
void pl_thread_send_elsewhere(pl_thread thread);
/* Registers functions to call around a fork, on systems that support it; each may be NULL. */
void pl_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

int64_t pl_nanoseconds(void); /* of a monotonic clock */
int pl_cpus(void);            /* that are online */
int pl_running_threads(void); /* on the machine, including the caller; 1 if unknown */
int64_t pl_physical_memory(void); /* bytes */

/* Maps `size` bytes: of the file `descriptor`, read-only, or of zeros if it is -1.  NULL on failure. */
void *pl_pages_map(size_t size, int descriptor);
void pl_pages_unmap(void *address, size_t size, int is_file);
int pl_pages_protect(void *address, size_t size); /* makes pages read-only; 0, or -1 if the system refuses */
void pl_pages_make_huge(void *address, size_t size); /* requests huge pages, if the system has them */
/* If another program truncates a mapped file, the file loses pages; reading them gives zeros, and they are counted.
 * pl_watch() watches the file mapped at `address`, and returns its number for pl_unwatch() and pl_lost_of(), or -1.
 * Calls must not overlap. */
extern volatile int pl_lost_pages; /* of all files */
int pl_watch(void *address, size_t size);
void pl_unwatch(int file);
int pl_lost_of(int file);
/* Returns the whole pages of [address, address + size) to the system if they belong to a watched file; an access reads
 * them from the file again.  Called for weights that have been packed, so that memory does not hold them twice. */
void pl_give_back(const void *address, size_t size);

/* Features of an Arm CPU: NEON with fused multiply-add; dot products of bytes; matrix products of bytes. */
enum { PL_NEON_VFP4 = 1, PL_DOTPROD = 2, PL_I8MM = 4 };
unsigned pl_arm_features(void);
#endif
