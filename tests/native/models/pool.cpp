/* The algorithm of pylite/_core/simd/threads/threads.c under the memory model of C11, by Relacy: it runs the threads in many
 * orders, lets loads return each value that the model allows, and detects data races, deadlocks and lost wake-ups.
 * Names and steps are those of threads.c; a thread does not spin before it sleeps.  Each planted fault takes one step away, which
 * must be found.  `.ci/sanitize models` builds and runs this. */
#include "models.hpp"

enum { FAULTS = 9, THREADS = 3, LOOPS = 3, MOST_PIECES = 5 };
static const int pieces_of[LOOPS] = {5, 2, 3};
static const uint64_t WRITING = 1 << 8, NUMBER = WRITING << 1, MOST = WRITING - 1;

struct loop {
  uint64_t number;
  int ctx, pieces, shares, others;
};

static int start_of(const loop &l, int share) {
  const int more = l.pieces % l.shares;
  return l.pieces / l.shares * share + (share < more ? share : more);
}
static int batch_of(int left) { return left > 2 ? left / 2 : 1; }

struct pool_model : rl::test_suite<pool_model, THREADS> {
  rl::atomic<uint64_t> number, taken[THREADS], done[THREADS];
  rl::atomic<int> ctx, pieces, stop, sleeping, awaited;
  rl::mutex lock;
  rl::condition_variable_any wake, ended;
  rl::var<int> argument;               /* on the caller's stack: another value in each loop */
  rl::var<int> ran[LOOPS][MOST_PIECES]; /* how often a piece was run; its results */

  void before() {
    number($).store(0, rl::mo_relaxed);
    ctx($).store(0, rl::mo_relaxed);
    pieces($).store(0, rl::mo_relaxed);
    stop($).store(0, rl::mo_relaxed);
    sleeping($).store(0, rl::mo_relaxed);
    awaited($).store(0, rl::mo_relaxed);
    for (int i = 0; i < THREADS; i++) {
      taken[i]($).store(0, rl::mo_relaxed);
      done[i]($).store(0, rl::mo_relaxed);
    }
    for (int k = 0; k < LOOPS; k++)
      for (int i = 0; i < MOST_PIECES; i++) ran[k][i]($) = 0;
  }

  void run(const loop &l, int begin, int count) {
    RL_ASSERT(argument($) == l.ctx);
    for (int i = begin; i < begin + count; i++) ran[l.ctx][i]($) = ran[l.ctx][i]($) + 1;
  }

  int take_share(const loop &l, int share, int thread) {
    const int start = start_of(l, share), size = start_of(l, share + 1) - start;
    uint64_t seen = taken[share]($).load(rl::mo_seq_cst);
    int count = 0;
    for (;;) {
      const int64_t older = (int64_t)(l.number - (seen & ~MOST));
      const bool later = fault == 1 ? false : older < 0; /* 1: a worker that was delayed takes pieces of a later loop */
      const int begin = later || older > 0 ? 0 : (int)(seen & MOST), step = batch_of(size - begin);
      if ((later && thread) || begin >= size) return count;
      if (!taken[share]($).compare_exchange_weak(seen, l.number + (uint64_t)(begin + step), rl::mo_seq_cst,
                                                 rl::mo_seq_cst))
        continue;
      run(l, start + begin, step);
      count += step;
      seen = l.number + (uint64_t)(begin + step);
    }
  }

  bool announced(const loop &l) {
    const uint64_t found = number($).load(rl::mo_acquire);
    return (found != l.number && !(found & WRITING)) || stop($).load(rl::mo_seq_cst);
  }

  bool finished(const loop &l) {
    int count = 0;
    for (int i = 1; i < THREADS; i++) {
      const uint64_t found = done[i]($).load(rl::mo_seq_cst);
      if ((found & ~MOST) == l.number) count += (int)(found & MOST);
    }
    return count == l.others;
  }

  bool read_loop(loop *l) {
    l->number = number($).load(rl::mo_acquire);
    l->ctx = ctx($).load(rl::mo_relaxed);
    l->pieces = pieces($).load(rl::mo_relaxed);
    l->shares = l->pieces < THREADS ? l->pieces : THREADS;
    if (fault != 2) rl::atomic_thread_fence(rl::mo_acquire, $);
    return !(l->number & WRITING) && number($).load(rl::mo_relaxed) == l->number;
  }

  void report(int thread, uint64_t count) {
    int sleeps = 0;
    if (fault == 3) sleeps = awaited($).load(rl::mo_relaxed); /* the caller may sleep before the next step */
    /* 4: the results are not seen with the count; 5: both threads may read what was there before the other one's store */
    done[thread]($).store(count, fault == 4 ? rl::mo_relaxed : rl::mo_release);
    if (fault != 5 && fault != 4) rl::atomic_thread_fence(rl::mo_seq_cst, $);
    if (fault != 3) sleeps = awaited($).load(rl::mo_relaxed);
    if (!sleeps) return;
    lock.lock($);
    ended.notify_one($);
    lock.unlock($);
  }

  void work(int thread) {
    loop l = {};
    for (;;) {
      if (!announced(l)) {
        lock.lock($);
        sleeping($).fetch_add(1, rl::mo_seq_cst);
        while (!announced(l)) wake.wait(lock, $);
        sleeping($).fetch_sub(1, rl::mo_seq_cst);
        lock.unlock($);
      }
      if (stop($).load(rl::mo_seq_cst)) return;
      if (!read_loop(&l)) continue;
      RL_ASSERT((uint64_t)(l.ctx + 1) * NUMBER == l.number && l.pieces == pieces_of[l.ctx]);
      int count = 0;
      for (int k = 0; k < l.shares; k++) {
        const int share = take_share(l, (thread + k) % l.shares, thread);
        if (share) report(thread, l.number + (uint64_t)(count += share));
      }
    }
  }

  void wake_all() {
    lock.lock($);
    wake.notify_all($);
    lock.unlock($);
  }

  void announce(const loop &l) {
    if (fault != 6) number($).store(l.number | WRITING, rl::mo_relaxed);
    if (fault != 7) rl::atomic_thread_fence(rl::mo_release, $);
    ctx($).store(l.ctx, rl::mo_relaxed);
    pieces($).store(l.pieces, rl::mo_relaxed);
    number($).store(l.number, fault == 8 ? rl::mo_relaxed : rl::mo_release);
    if (sleeping($).load(rl::mo_relaxed)) wake_all();
  }

  void run_loop(int k) {
    loop l = {number($).load(rl::mo_seq_cst) + NUMBER, k, pieces_of[k], 0, 0};
    l.shares = l.pieces < THREADS ? l.pieces : THREADS;
    argument($) = k;
    const int first = batch_of(start_of(l, 1));
    taken[0]($).store(l.number + (uint64_t)first, rl::mo_relaxed);
    announce(l);
    run(l, 0, first);
    l.others = l.pieces - first;
    for (int share = 0; share < l.shares; share++) l.others -= take_share(l, share, 0);
    if (!finished(l)) {
      lock.lock($);
      awaited($).store(1, rl::mo_relaxed);
      if (fault != 9) rl::atomic_thread_fence(rl::mo_seq_cst, $); /* 9: as 5, on the other side */
      while (!finished(l)) ended.wait(lock, $);
      awaited($).store(0, rl::mo_seq_cst);
      lock.unlock($);
    }
    for (int i = 0; i < l.pieces; i++) RL_ASSERT(ran[k][i]($) == 1);
  }

  void thread(unsigned index) {
    if (index) {
      work((int)index);
      return;
    }
    for (int k = 0; k < LOOPS; k++) run_loop(k);
    stop($).store(1, rl::mo_seq_cst);
    wake_all();
  }
};

int main(int, char **argv) { return check<pool_model>("pool", argv[1], FAULTS); }
