// A preloaded library that lets one allocation fail: the n-th of those that certain libraries ask for.  glibc only.
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

#define MOST 16
static struct { uintptr_t first, end; } ranges[MOST];       // addresses of their code
static int num_ranges;
static long left;           // allocations until the one that fails; 0: none will fail, or it has failed

static int add_range(struct dl_phdr_info *info, size_t size, void *address) {
  uintptr_t first[MOST], end[MOST];
  int count = 0;
  bool found = false;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || count == MOST) continue;
    const uintptr_t start = info->dlpi_addr + part->p_vaddr;
    found |= (uintptr_t)address - start < part->p_memsz;
    if (!(part->p_flags & PF_X)) continue;
    first[count] = start, end[count++] = start + part->p_memsz;
  }
  for (int i = 0; found && i < count && num_ranges < MOST; i++) {
    ranges[num_ranges].first = first[i], ranges[num_ranges++].end = end[i];
  }
  return found;
}

// Count the allocations of the library that has this address.
void failing_in(void *address) { dl_iterate_phdr(add_range, address); }
void failing_at(long n) { left = n; }
long failing_left(void) { return left; }

static bool fails(void *caller) {
  if (left == 0) return false;
  for (int i = 0; i < num_ranges; i++) {
    if ((uintptr_t)caller - ranges[i].first >= ranges[i].end - ranges[i].first) continue;
    if (--left != 0) return false;
    errno = ENOMEM;
    return true;
  }
  return false;
}
#define FAILS() fails(__builtin_return_address(0))

void *malloc(size_t n) { return FAILS() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return FAILS() ? NULL : __libc_calloc(n, size); }
void *realloc(void *old, size_t n) { return FAILS() ? NULL : __libc_realloc(old, n); }
char *strdup(const char *text) {
  const size_t n = strlen(text) + 1;
  char *copy = FAILS() ? NULL : __libc_malloc(n);
  return copy == NULL ? NULL : memcpy(copy, text, n);
}
void *mmap(void *address, size_t n, int access, int flags, int file, off_t offset) {
  return FAILS() ? MAP_FAILED : (void *)syscall(SYS_mmap, address, n, access, flags, file, offset);
}
void *mmap64(void *address, size_t n, int access, int flags, int file, off64_t offset) {
  return FAILS() ? MAP_FAILED : (void *)syscall(SYS_mmap, address, n, access, flags, file, offset);
}
