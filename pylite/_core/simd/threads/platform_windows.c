/* platform.h for Windows.  Other processes cannot truncate a file that is mapped, so no file loses pages. */
#define WIN32_LEAN_AND_MEAN
#include "platform.h"
#include <io.h>
#include <process.h>
#include <stdlib.h>
#include <windows.h>

_Static_assert(sizeof(pl_mutex) == sizeof(SRWLOCK) && sizeof(pl_condition) == sizeof(CONDITION_VARIABLE) &&
                   sizeof(pl_once_flag) == sizeof(INIT_ONCE), "one pointer each");

/* ---- threads ---- */
void pl_mutex_init(pl_mutex *mutex) { InitializeSRWLock((SRWLOCK *)mutex); }
void pl_lock(pl_mutex *mutex) { AcquireSRWLockExclusive((SRWLOCK *)mutex); }
void pl_unlock(pl_mutex *mutex) { ReleaseSRWLockExclusive((SRWLOCK *)mutex); }
void pl_condition_init(pl_condition *condition) { InitializeConditionVariable((CONDITION_VARIABLE *)condition); }
void pl_wait(pl_condition *condition, pl_mutex *mutex) {
  SleepConditionVariableSRW((CONDITION_VARIABLE *)condition, (SRWLOCK *)mutex, INFINITE, 0);
}
void pl_wake_one(pl_condition *condition) { WakeConditionVariable((CONDITION_VARIABLE *)condition); }
void pl_wake_all(pl_condition *condition) { WakeAllConditionVariable((CONDITION_VARIABLE *)condition); }

/* Calls the function that pl_once() was given. */
static BOOL CALLBACK call(INIT_ONCE *flag, void *run, void **context) {
  (void)flag, (void)context;
  (*(void (**)(void))run)();
  return TRUE;
}

void pl_once(pl_once_flag *flag, void (*run)(void)) { InitOnceExecuteOnce((INIT_ONCE *)flag, call, &run, NULL); }

/* Kernels keep up to 96 KiB of scratch on the stack. */
enum { STACK = 512 * 1024 };

/* The arguments of pl_thread_start(), for begin(), which frees them. */
typedef struct {
  void *(*run)(void *);
  void *arg;
} started;

static unsigned __stdcall begin(void *memory) {
  started thread = *(started *)memory;
  free(memory);
  thread.run(thread.arg);
  return 0;
}

int pl_thread_start(pl_thread *thread, void *(*run)(void *), void *arg) {
  started *memory = malloc(sizeof *memory);
  if (!memory) return 1;
  *memory = (started){run, arg};
  *thread = (pl_thread)_beginthreadex(NULL, STACK, begin, memory, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
  if (*thread) return 0;
  free(memory);
  return 1;
}

void pl_thread_join(pl_thread thread) {
  WaitForSingleObject(thread, INFINITE);
  CloseHandle(thread);
}

void pl_thread_detach(pl_thread thread) { CloseHandle(thread); }
void pl_thread_send_elsewhere(pl_thread thread) { (void)thread; }
void pl_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
  (void)before, (void)in_parent, (void)in_child;
}

/* ---- the machine ---- */
int64_t pl_nanoseconds(void) {
  LARGE_INTEGER ticks, frequency;
  QueryPerformanceCounter(&ticks);
  QueryPerformanceFrequency(&frequency);
  return ticks.QuadPart / frequency.QuadPart * 1000000000 +
         ticks.QuadPart % frequency.QuadPart * 1000000000 / frequency.QuadPart;
}

int pl_cpus(void) { return (int)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS); }
int pl_running_threads(void) { return 1; }

int64_t pl_physical_memory(void) {
  MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
  return GlobalMemoryStatusEx(&memory) ? (int64_t)memory.ullTotalPhys : 0;
}

/* ---- memory ---- */
void *pl_pages_map(size_t size, int descriptor) {
  if (descriptor < 0) return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  HANDLE mapping = CreateFileMappingW((HANDLE)_get_osfhandle(descriptor), NULL, PAGE_READONLY, 0, 0, NULL);
  if (!mapping) return NULL;
  void *address = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, size);
  CloseHandle(mapping); /* the view keeps it */
  return address;
}

void pl_pages_unmap(void *address, size_t size, int is_file) {
  (void)size;
  if (is_file) UnmapViewOfFile(address);
  else VirtualFree(address, 0, MEM_RELEASE);
}

int pl_pages_protect(void *address, size_t size) {
  DWORD before;
  return VirtualProtect(address, size, PAGE_READONLY, &before) ? 0 : -1;
}

void pl_pages_make_huge(void *address, size_t size) { (void)address, (void)size; }

volatile int pl_lost_pages;
int pl_watch(void *address, size_t size) {
  (void)address, (void)size;
  return -1;
}
void pl_unwatch(int file) { (void)file; }
int pl_lost_of(int file) {
  (void)file;
  return 0;
}
void pl_give_back(const void *address, size_t size) { (void)address, (void)size; }

/* ---- Arm ---- */
unsigned pl_arm_features(void) {
  enum { DOT_PRODUCTS = 43, MATRICES = 67 }; /* PF_ARM_V82_..., which older headers lack */
  return (IsProcessorFeaturePresent(DOT_PRODUCTS) ? PL_DOTPROD : 0) |
         (IsProcessorFeaturePresent(MATRICES) ? PL_I8MM : 0);
}
