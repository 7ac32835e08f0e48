// Calls the functions of plug-ins, so that C++ exceptions and two kinds of faults become errors.
//
// Exceptions: pl_guard calls functions directly, or through guard.cc if pylite was built with a C++ compiler.
//
// Faults: two kinds of unsupported plug-ins cannot be recognised before they run.  Some use context->impl_ as a
// tflite::Subgraph; so it points to pages without access rights.  Others were built for another layout of tensors
// (before TensorFlow 2.5, or for microcontrollers), and soon dereference a null pointer.  pl_trapped() installs a
// signal handler that catches these two faults in the calling thread.  All other faults go to the previous handler,
// which is restored after the call.
#include "host.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#define NULL_BYTES 65536    // the lowest addresses, which operating systems do not map

typedef struct pl_trap {
  sigjmp_buf back;
  uintptr_t no_access, address;
} pl_trap;

#if defined(__APPLE__)
static const int signals[] = {SIGSEGV, SIGBUS};
#else
static const int signals[] = {SIGSEGV};
#endif
enum { SIGNALS = sizeof(signals) / sizeof(signals[0]) };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int users;           // calls in progress that need the handler
static struct sigaction previous[SIGNALS];
#if defined(__GLIBC__)      // else the first access may allocate memory, which a signal handler must not do
__attribute__((tls_model("initial-exec")))
#endif
static _Thread_local pl_trap *current;      // of the call in progress on this thread, or NULL

static TfLiteStatus call_node(TfLiteStatus (*fn)(TfLiteContext *, TfLiteNode *), TfLiteContext *context,
                              TfLiteNode *node) {
  return fn(context, node);
}

static TfLiteStatus call_any(TfLiteStatus (*fn)(void *), void *arguments, TfLiteContext *context) {
  (void)context;
  return fn(arguments);
}

pl_guards pl_guard = {call_node, call_any};

static bool traps = true;

void pl_set_guards(const pl_guards *guards, bool catch_faults) {
  if (guards != NULL) pl_guard = *guards;
  traps = catch_faults;
}

void *pl_no_access_new(void) {
  void *memory = mmap(NULL, PL_NO_ACCESS_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory != MAP_FAILED ? memory : NULL;
}

void pl_no_access_free(void *memory) {
  if (memory != NULL) munmap(memory, PL_NO_ACCESS_BYTES);
}

// Passes a signal to the previous handler.
static void pass_on(int number, siginfo_t *info, void *context) {
  const struct sigaction *old = &previous[number != signals[0]];
  if (old->sa_flags & SA_SIGINFO) {
    old->sa_sigaction(number, info, context);
  } else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
    old->sa_handler(number);
  } else {
    signal(number, SIG_DFL);        // the instruction faults again and ends the process
    if (info->si_code <= 0) raise(number);
  }
}

static void caught(int number, siginfo_t *info, void *context) {
  pl_trap *trap = current;
  uintptr_t address = (uintptr_t)info->si_addr;
  bool fault = info->si_code == SEGV_MAPERR || info->si_code == SEGV_ACCERR;      // si_addr is valid
  if (trap == NULL || !fault || !(address < NULL_BYTES || address - trap->no_access < PL_NO_ACCESS_BYTES)) {
    pass_on(number, info, context);
    return;
  }
  trap->address = address;
  siglongjmp(trap->back, 1);
}

// Makes sure that a forked child gets a mutex that is not locked.
static void before_fork(void) { pthread_mutex_lock(&mutex); }
static void after_fork(void) { pthread_mutex_unlock(&mutex); }
static void register_fork_handlers(void) { pthread_atfork(before_fork, after_fork, after_fork); }

static void install(void) {
  struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  pthread_mutex_lock(&mutex);
  if (users++ == 0) {
    for (int i = 0; i < SIGNALS; i++) sigaction(signals[i], &action, &previous[i]);
  }
  pthread_mutex_unlock(&mutex);
}

static void uninstall(void) {
  pthread_mutex_lock(&mutex);
  if (--users == 0) {
    for (int i = 0; i < SIGNALS; i++) {
      struct sigaction installed;
      sigaction(signals[i], NULL, &installed);
      if (installed.sa_sigaction == caught) sigaction(signals[i], &previous[i], NULL);
    }
  }
  pthread_mutex_unlock(&mutex);
}

void *pl_trap_suspend(void) {
  pl_trap *outer = current;
  current = NULL;
  return outer;
}

void pl_trap_resume(void *outer) { current = outer; }

TfLiteStatus pl_trapped(TfLiteStatus (*fn)(void *), void *arguments, TfLiteContext *context) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (!traps) return pl_guard.any(fn, arguments, context);
  pthread_once(&once, register_fork_handlers);
  pl_trap trap = {.no_access = (uintptr_t)context->impl_}, *outer = current;
  volatile TfLiteStatus status = kTfLiteError;
  install();
  if (sigsetjmp(trap.back, 0) == 0) {
    current = &trap;
    status = pl_guard.any(fn, arguments, context);
  } else if (trap.address >= NULL_BYTES) {
    context->ReportError(context, "it uses context->impl_, which is a tflite::Subgraph in TensorFlow Lite and nothing "
                                  "in pylite: such plug-ins are not supported");
  } else {
    context->ReportError(context, "it accessed unmapped memory at %p: a bug in the plug-in, or it was built for "
                                  "structs of another layout, with TensorFlow before 2.5 or for microcontrollers",
                         (void *)trap.address);
  }
  current = outer;
  uninstall();
  return status;
}
