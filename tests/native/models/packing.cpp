/* The algorithm of pylite/_core/simd/threads/packing_jobs.c under the memory model of C11, by Relacy, as in pool.cpp.  Two threads
 * prepare models, a third one is the worker, which ends when no thread prepares one: here it starts again when wanted.
 * A task is packed once, and its result is seen by the thread that finishes.  Each planted fault takes one step away. */
#include "models.hpp"

enum { FAULTS = 4, CALLERS = 2, TASKS = 2, ALL = CALLERS * TASKS };

struct packing_model : rl::test_suite<packing_model, CALLERS + 1> {
  rl::mutex lock;
  rl::condition_variable_any wanted, ended;
  rl::var<int> queue[ALL], first, last, running, preparing, idle, left; /* guarded by lock; left: threads to come */
  rl::var<int> weights[ALL], packed[ALL];

  void before() {
    first($) = last($) = running($) = preparing($) = idle($) = 0;
    left($) = CALLERS;
    for (int i = 0; i < ALL; i++) packed[i]($) = 0;
  }

  void run_first() {              /* the caller holds the lock */
    const int task = queue[(int)first($)]($);
    first($) = first($) + 1;
    running($) = running($) + 1;
    lock.unlock($);
    packed[task]($) = packed[task]($) + (int)weights[task]($);
    lock.lock($);
    running($) = running($) - 1;
    if (fault != 1 && !running($)) ended.notify_all($);
  }

  bool waiting() { return (int)first($) < (int)last($); }

  void work() {
    lock.lock($);
    while (left($)) {
      while (waiting()) run_first();
      if (!left($)) break;
      idle($) = 1;
      wanted.wait(lock, $);
      idle($) = 0;
    }
    lock.unlock($);
  }

  void prepare(int caller) {
    lock.lock($);
    preparing($) = preparing($) + 1;
    lock.unlock($);
    for (int i = 0; i < TASKS; i++) {
      const int task = caller * TASKS + i;
      weights[task]($) = 1;
      if (fault != 2) lock.lock($);
      queue[(int)last($)]($) = task;
      last($) = last($) + 1;
      if (idle($)) wanted.notify_one($);
      if (fault != 2) lock.unlock($);
    }
    lock.lock($);
    preparing($) = preparing($) - 1;
    while (waiting()) run_first();
    while (fault != 3 && running($)) ended.wait(lock, $);
    left($) = left($) - 1;
    if (fault != 4 && idle($) && !left($)) wanted.notify_one($);
    lock.unlock($);
    for (int i = 0; i < TASKS; i++) RL_ASSERT(packed[caller * TASKS + i]($) == 1);
  }

  void thread(unsigned index) {
    if (index == CALLERS) work();
    else prepare((int)index);
  }
};

int main(int, char **argv) { return check<packing_model>("packing", argv[1], FAULTS); }
