/* platform.h for POSIX systems. */
#define _GNU_SOURCE
#include "platform.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- threads ---- */
void pl_mutex_init(pl_mutex *mutex) { pthread_mutex_init(mutex, NULL); }
void pl_lock(pl_mutex *mutex) { pthread_mutex_lock(mutex); }
void pl_unlock(pl_mutex *mutex) { pthread_mutex_unlock(mutex); }
void pl_condition_init(pl_condition *condition) { pthread_cond_init(condition, NULL); }
void pl_wait(pl_condition *condition, pl_mutex *mutex) { pthread_cond_wait(condition, mutex); }
void pl_wake_one(pl_condition *condition) { pthread_cond_signal(condition); }
void pl_wake_all(pl_condition *condition) { pthread_cond_broadcast(condition); }
void pl_once(pl_once_flag *flag, void (*run)(void)) { pthread_once(flag, run); }

/* Kernels keep up to 96 KiB of scratch on the stack; musl's default stack is 128 KiB. */
enum { STACK = 512 * 1024 };

int pl_thread_start(pl_thread *thread, void *(*run)(void *), void *arg) {
  pthread_attr_t attr;
  sigset_t all, before;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, STACK);
  sigfillset(&all);        /* leave signals to the program's own threads, */
  sigdelset(&all, SIGBUS); /* except faults of this thread, mainly accesses to lost pages of files */
  sigdelset(&all, SIGSEGV);
  sigdelset(&all, SIGFPE);
  sigdelset(&all, SIGILL);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int failed = pthread_create(thread, &attr, run, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attr);
  return failed;
}

void pl_thread_join(pl_thread thread) { pthread_join(thread, NULL); }
void pl_thread_detach(pl_thread thread) { pthread_detach(thread); }

void pl_thread_send_elsewhere(pl_thread thread) {
#if defined(__linux__)
  cpu_set_t others;
  int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof others, &others)) return;
  CPU_CLR(here, &others);
  if (CPU_COUNT(&others)) pthread_setaffinity_np(thread, sizeof others, &others);
#else
  (void)thread;
#endif
}

void pl_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
  pthread_atfork(before, in_parent, in_child);
}

/* ---- the machine ---- */
int64_t pl_nanoseconds(void) {
  struct timespec reading;
  clock_gettime(CLOCK_MONOTONIC, &reading);
  return (int64_t)reading.tv_sec * 1000000000 + reading.tv_nsec;
}

int pl_cpus(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }

int pl_running_threads(void) {
  char text[64];
  const char *slash = NULL;
  int descriptor = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  ssize_t size = 0;
  if (descriptor >= 0) {
    size = read(descriptor, text, sizeof text - 1);
    close(descriptor);
  }
  text[size > 0 ? size : 0] = 0;
  slash = strchr(text, '/'); /* it follows the number of running threads */
  while (slash && slash > text && slash[-1] != ' ') slash--;
  return slash ? atoi(slash) : 1;
}

int64_t pl_physical_memory(void) { return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE); }

/* ---- memory ---- */
void *pl_pages_map(size_t size, int descriptor) {
  int is_file = descriptor >= 0;
  void *address = mmap(NULL, size, is_file ? PROT_READ : PROT_READ | PROT_WRITE,
                  is_file ? MAP_PRIVATE : MAP_PRIVATE | MAP_ANONYMOUS, descriptor, 0);
  return address != MAP_FAILED ? address : NULL;
}

void pl_pages_unmap(void *address, size_t size, int is_file) {
  (void)is_file;
  munmap(address, size);
}

int pl_pages_protect(void *address, size_t size) { return mprotect(address, size, PROT_READ); }

void pl_pages_make_huge(void *address, size_t size) {
#ifdef MADV_HUGEPAGE
  madvise(address, size, MADV_HUGEPAGE);
#else
  (void)address, (void)size;
#endif
}

/* ---- files that lose pages: reading one raises SIGBUS ---- */
enum {
  FILES = 1024,               /* most files that are watched at the same time */
  WORTH_RETURNING = 64 * 1024 /* fewer bytes are not worth a system call */
};

static struct {
  atomic_int taken;
  _Atomic uintptr_t begin, end; /* end: 0 if there is no file; written last */
  atomic_int lost;              /* number of lost pages */
} files[FILES];
static atomic_int used; /* entries that have ever been taken */
static struct sigaction previous;
static uintptr_t page;
volatile int pl_lost_pages;

/* If the address is a lost page, maps zeros there, so that the reader can continue, and counts it; after the run, its
 * caller raises an error.  Other faults go to the previous handler. */
static void on_bus_error(int number, siginfo_t *info, void *context) {
  uintptr_t address = (uintptr_t)info->si_addr;
  (void)context;
  for (int i = 0; i < FILES; i++) {
    if (address >= atomic_load(&files[i].end) || address < atomic_load(&files[i].begin)) continue;
    void *lost = (void *)(address / page * page);
    if (mmap(lost, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != lost) break;
    atomic_fetch_add(&files[i].lost, 1);
    __atomic_fetch_add(&pl_lost_pages, 1, __ATOMIC_RELAXED);
    return;
  }
  sigaction(number, &previous, NULL); /* the fault recurs and reaches the previous handler */
}

static pl_mutex installing = PL_MUTEX_INIT;
static void before_fork(void) { pl_lock(&installing); }
static void after_fork(void) { pl_unlock(&installing); }
static void prepare(void) {
  page = (uintptr_t)sysconf(_SC_PAGESIZE);
  pl_at_fork(before_fork, after_fork, after_fork);
}

/* Installs the handler, or installs it again if another one has replaced it. */
static void install(void) {
  static pl_once_flag once = PL_ONCE_INIT;
  struct sigaction current;
  pl_once(&once, prepare);
  pl_lock(&installing);
  if (sigaction(SIGBUS, NULL, &current) == 0 && current.sa_sigaction != on_bus_error) {
    struct sigaction ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    previous = current;
    sigaction(SIGBUS, &ours, NULL);
  }
  pl_unlock(&installing);
}

int pl_watch(void *address, size_t size) {
  install();
  for (int i = 0; i < FILES; i++) {
    if (atomic_exchange(&files[i].taken, 1)) continue;
    int before = atomic_load(&used);
    while (i >= before && !atomic_compare_exchange_weak(&used, &before, i + 1)) continue;
    atomic_store(&files[i].lost, 0);
    atomic_store(&files[i].begin, (uintptr_t)address);
    atomic_store(&files[i].end, (uintptr_t)address + size);
    return i;
  }
  return -1;
}

void pl_unwatch(int file) {
  atomic_store(&files[file].end, 0);
  atomic_store(&files[file].taken, 0);
}

int pl_lost_of(int file) { return atomic_load(&files[file].lost); }

void pl_give_back(const void *address, size_t size) {
  uintptr_t begin = (uintptr_t)address, end = begin + size;
  if (size < WORTH_RETURNING) return;
  for (int i = 0, count = atomic_load(&used); i < count; i++) {
    if (end > atomic_load(&files[i].end) || begin < atomic_load(&files[i].begin)) continue;
    begin = (begin + page - 1) / page * page;
    end = end / page * page;
    if (begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
    return;
  }
}

/* ---- Arm ---- */
#if defined(__linux__) && (defined(__aarch64__) || defined(__arm__))
#include <sys/auxv.h>
unsigned pl_arm_features(void) {
  unsigned features = 0;
#if defined(__aarch64__)
  /* HWCAP_ASIMDDP and HWCAP_ASIMDHP: the level uses float16 arithmetic, which every CPU with dotprod has. */
  if ((~getauxval(AT_HWCAP) & (1UL << 20 | 1UL << 10)) == 0) features |= PL_DOTPROD;
  if (getauxval(AT_HWCAP2) & (1UL << 13)) features |= PL_I8MM;   /* HWCAP2_I8MM */
#else
  /* HWCAP_NEON and HWCAP_VFPv4: Cortex-A8 and A9 have the first alone. */
  if ((~getauxval(AT_HWCAP) & (1UL << 12 | 1UL << 16)) == 0) features |= PL_NEON_VFP4;
#endif
  return features;
}
#elif defined(__APPLE__)
#include <sys/sysctl.h>
static int has(const char *name) {
  int value = 0;
  size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, NULL, 0) == 0 && value;
}
unsigned pl_arm_features(void) {
  return (has("hw.optional.arm.FEAT_DotProd") ? PL_DOTPROD : 0) | (has("hw.optional.arm.FEAT_I8MM") ? PL_I8MM : 0);
}
#else
unsigned pl_arm_features(void) { return 0; }
#endif
