// Stops plug-ins at addresses that no correct one uses, and turns the fault into an error.
//
// Two kinds of plug-ins cannot be told from others before they run: those that take context->impl_ for a
// tflite::Subgraph, and those built for another layout of tensors (before TensorFlow 2.5, or for microcontrollers).
// The first find memory there that nobody may touch; the others soon follow a null pointer.  While a
// plug-in's function runs for the first time, a handler takes these two faults, of this thread, and leaves all others
// to whoever had the signal before; between such calls the process's handlers are what they were.
#include "host.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#define NULL_BYTES 65536    // where the kernel maps nothing

typedef struct pl_trap {
  sigjmp_buf back;
  uintptr_t forbidden, address;
} pl_trap;

#if defined(__APPLE__)
static const int signals[] = {SIGSEGV, SIGBUS};
#else
static const int signals[] = {SIGSEGV};
#endif
enum { SIGNALS = sizeof(signals) / sizeof(signals[0]) };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int users;           // threads with a trap
static struct sigaction before[SIGNALS];
#if defined(__GLIBC__)      // where reading it may allocate memory, which a handler must not
__attribute__((tls_model("initial-exec")))
#endif
static _Thread_local pl_trap *current;

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

void *pl_forbidden_new(void) {
  void *memory = mmap(NULL, PL_FORBIDDEN_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory != MAP_FAILED ? memory : NULL;
}

void pl_forbidden_free(void *memory) {
  if (memory != NULL) munmap(memory, PL_FORBIDDEN_BYTES);
}

static void pass_on(int number, siginfo_t *info, void *context) {
  const struct sigaction *old = &before[number != signals[0]];
  if (old->sa_flags & SA_SIGINFO) {
    old->sa_sigaction(number, info, context);
  } else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
    old->sa_handler(number);
  } else {
    signal(number, SIG_DFL);        // the instruction faults once more
    if (info->si_code <= 0) raise(number);
  }
}

static void caught(int number, siginfo_t *info, void *context) {
  pl_trap *trap = current;
  uintptr_t at = (uintptr_t)info->si_addr;
  bool fault = info->si_code == SEGV_MAPERR || info->si_code == SEGV_ACCERR;      // and its address is known
  if (trap == NULL || !fault || !(at < NULL_BYTES || at - trap->forbidden < PL_FORBIDDEN_BYTES)) {
    pass_on(number, info, context);
    return;
  }
  trap->address = at;
  siglongjmp(trap->back, 1);
}

static void install(void) {
  struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  pthread_mutex_lock(&mutex);
  if (users++ == 0) {
    for (int i = 0; i < SIGNALS; i++) sigaction(signals[i], &action, &before[i]);
  }
  pthread_mutex_unlock(&mutex);
}

static void uninstall(void) {
  pthread_mutex_lock(&mutex);
  if (--users == 0) {
    for (int i = 0; i < SIGNALS; i++) {
      struct sigaction now;
      sigaction(signals[i], NULL, &now);
      if (now.sa_sigaction == caught) sigaction(signals[i], &before[i], NULL);
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
  if (!traps) return pl_guard.any(fn, arguments, context);
  pl_trap trap = {.forbidden = (uintptr_t)context->impl_}, *outer = current;
  volatile TfLiteStatus status = kTfLiteError;
  install();
  if (sigsetjmp(trap.back, 0) == 0) {
    current = &trap;
    status = pl_guard.any(fn, arguments, context);
  } else if (trap.address >= NULL_BYTES) {
    context->ReportError(context, "it uses context->impl_, where TensorFlow Lite has its tflite::Subgraph and pylite "
                                  "has nothing: such plug-ins cannot be hosted");
  } else {
    context->ReportError(context, "it used the address %p, where no memory is: by mistake, or because it was built for "
                                  "structs of another layout, with TensorFlow before 2.5 or for microcontrollers",
                         (void *)trap.address);
  }
  current = outer;
  uninstall();
  return status;
}
