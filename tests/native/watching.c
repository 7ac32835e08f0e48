/* A check of the table of mapped files on its own: threads that open and close files at a time each get a place that no
 * other has, and a fault in a file that was shortened is counted there.
 *
 *     watching THREADS ROUNDS
 *
 * WITHOUT_FAULTS: for QEMU 7.2, which gives 32-bit Arm the host's address of a SIGBUS, where nothing is mapped.
 */
#include "threads/platform.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_THREADS = 16, MOST_FILES = 1024, HELD = 8, PAGE = 65536 }; /* bytes: a multiple of all sizes of pages */

static atomic_int holders[MOST_FILES];
static char room[MOST_THREADS][HELD][64];
static long rounds;

static void check(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "%s\n", what);
  abort();
}

#ifndef WITHOUT_FAULTS
/* A mapped file without its second half. */
static char *shortened(void) {
  FILE *file = tmpfile();
  check(file != NULL && ftruncate(fileno(file), 2 * PAGE) == 0, "no file");
  char *at = pl_pages_map(2 * PAGE, fileno(file));
  check(at != NULL && ftruncate(fileno(file), PAGE) == 0, "no mapping");
  fclose(file);
  return at;
}

static void lose_a_page(void) {
  char *at = shortened();
  const int place = pl_watch(at, 2 * PAGE);
  check(place >= 0 && pl_lost_of(place) == 0, "a new file has lost pages");
  check(*(volatile char *)(at + PAGE) == 0 && pl_lost_of(place) == 1, "a lost page was not counted");
  pl_unwatch(place);
  pl_pages_unmap(at, 2 * PAGE, 1);
}
#else
static void lose_a_page(void) {}
#endif

static void *run(void *arg) {
  char (*own)[64] = room[(size_t)arg];
  for (long round = 0; round < rounds; round++) {
    int places[HELD];
    for (int i = 0; i < HELD; i++) {
      places[i] = pl_watch(own[i], sizeof own[i]);
      check(places[i] >= 0 && atomic_fetch_add(&holders[places[i]], 1) == 0, "two threads have one place");
    }
    if (round % 64 == 0) lose_a_page();
    for (int i = 0; i < HELD; i++) {
      atomic_fetch_sub(&holders[places[i]], 1);
      pl_unwatch(places[i]);
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const int threads = atoi(argv[1]);
  rounds = atol(argv[2]);
  pl_thread ids[MOST_THREADS];
  if (threads > MOST_THREADS) return 2;
  for (int i = 0; i < threads; i++) check(pl_thread_start(&ids[i], run, (void *)(size_t)i) == 0, "no thread");
  for (int i = 0; i < threads; i++) pl_thread_join(ids[i]);
  printf("%d threads opened %ld files each\n", threads, HELD * rounds);
  return 0;
}
