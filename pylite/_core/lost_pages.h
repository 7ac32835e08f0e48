// Mapped files that lose their pages: a file that is truncated while it is mapped raises SIGBUS where it is read.
//
// The handler puts a page of zeros there, so that what reads goes on, and counts; who started it then raises an error.
// Other faults go to the handler that was there before.  Included by memory.pyx alone, which calls with the GIL held.
#ifndef PL_LOST_PAGES_H
#define PL_LOST_PAGES_H
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define PL_FILES 1024           // mapped at the same time; those beyond are not watched

typedef struct pl_file {
  volatile uintptr_t begin, end;
  volatile int lost;            // pages
} pl_file;

static pl_file pl_files[PL_FILES];
static volatile int pl_lost_pages;      // of all files
static struct sigaction pl_previous;
static uintptr_t pl_page;

static void pl_on_bus_error(int number, siginfo_t *info, void *context) {
  uintptr_t at = (uintptr_t)info->si_addr;
  (void)context;
  for (int i = 0; i < PL_FILES; i++) {
    if (at < pl_files[i].begin || at >= pl_files[i].end) continue;
    void *page = (void *)(at / pl_page * pl_page);
    if (mmap(page, pl_page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != page) break;
    pl_files[i].lost++;
    pl_lost_pages++;
    return;
  }
  sigaction(number, &pl_previous, NULL);        // the fault comes again, and goes there
}

// Watch the file mapped at `at`; the number to stop with, or -1.
static int pl_watch(void *at, size_t size) {
  struct sigaction now;
  if (pl_page == 0) pl_page = (uintptr_t)sysconf(_SC_PAGESIZE);
  if (sigaction(SIGBUS, NULL, &now) == 0 && now.sa_sigaction != pl_on_bus_error) {
    struct sigaction ours = {.sa_sigaction = pl_on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    pl_previous = now;
    sigaction(SIGBUS, &ours, NULL);
  }
  for (int i = 0; i < PL_FILES; i++) {
    if (pl_files[i].end != 0) continue;
    pl_files[i].lost = 0;
    pl_files[i].begin = (uintptr_t)at;
    pl_files[i].end = (uintptr_t)at + size;
    return i;
  }
  return -1;
}

static void pl_unwatch(int file) {
  pl_files[file].end = 0;
}

static int pl_lost_of(int file) { return pl_files[file].lost; }
#endif
