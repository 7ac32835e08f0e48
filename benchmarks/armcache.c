/* A plug-in for QEMU's user mode: what a guest's loads, stores and instruction fetches find in which cache.
 *
 *     gcc -O2 -shared -fPIC -o armcache.so armcache.c        needs no header of QEMU (plug-in interface 1)
 *     qemu-aarch64 -plugin armcache.so,out=FILE,l1i=BYTES:WAYS,l1d=BYTES:WAYS,l2=BYTES:WAYS[,l3=BYTES:WAYS]
 *                                      [,streams=COUNT][,ahead=LINES] ...
 *
 * Markers are those of qemu_plugin.h.  At the end of a region FILE gets a line "region TAG COUNT", and COUNT windows of
 * WINDOW instructions (the last one is shorter), each the COUNTERS below, 32 bits each.  Caches have lines of 64 bytes,
 * replace the least recently used line, write back, and allocate lines on stores.  A stream of misses at one distance
 * from each other, met for the third time, brings `ahead` lines into the first-level cache, which a load then finds.
 * Addresses are virtual; there is no TLB.  One guest thread only.  tests/project/test_armcache.py calls cache_*. */
#include "qemu_plugin.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 50000, LINE = 64, MOST_STREAMS = 32, NEAR = 8 };

/* Counters of a window.  DATA + k: first-level misses of loads and stores that level 2 + k had (DRAM is the last one);
 * CODE + k: those of instruction fetches; AHEAD + k: lines that the prefetcher brought from there. */
enum { INSTRUCTIONS, DATA, CODE = DATA + 3, AHEAD = CODE + 3, WRITTEN = AHEAD + 3, COUNTERS };
enum { MEMORY = 2 };        /* k of DRAM */

/* Lines of a set, the most recently used one first: 4 * (number + 1), plus flags; 0 is empty. */
enum { DIRTY = 1, PREFETCHED = 2, FLAGS = 3 };
struct cache {
  uint64_t sets, ways, *lines;
};
static struct cache code, data, second, third;

static struct {
  uint64_t last, used;
  int64_t stride;
  unsigned repeats;
} streams[MOST_STREAMS];
static uint64_t stream_count = 8, ahead = 4, clock_of_streams;

static uint32_t counters[COUNTERS];

static uint64_t *find(struct cache *cache, uint64_t line) {
  uint64_t *set = cache->lines + line % cache->sets * cache->ways;
  for (uint64_t i = 0; i < cache->ways; i++)
    if (set[i] / 4 == line + 1) {
      uint64_t entry = set[i];
      memmove(set + 1, set, i * sizeof *set);
      set[0] = entry;
      return set;
    }
  return NULL;
}

static void put_back(int level, uint64_t line);

static void insert(struct cache *cache, int level, uint64_t line, uint64_t flags) {
  uint64_t *set = cache->lines + line % cache->sets * cache->ways, evicted = set[cache->ways - 1];
  memmove(set + 1, set, (cache->ways - 1) * sizeof *set);
  set[0] = 4 * (line + 1) | flags;
  if (evicted & DIRTY) put_back(level + 1, evicted / 4 - 1);
}

/* level: 0 is the second one */
static struct cache *shared(int level) { return level == 0 ? &second : level == 1 && third.sets ? &third : NULL; }

static void put_back(int level, uint64_t line) {
  struct cache *cache = shared(level);
  if (!cache) {
    counters[WRITTEN]++;
    return;
  }
  uint64_t *entry = find(cache, line);
  if (entry)
    *entry |= DIRTY;
  else
    insert(cache, level, line, DIRTY);
}

/* Which level has the line, or MEMORY; afterwards all levels from here have it. */
static int fetch(int level, uint64_t line) {
  struct cache *cache = shared(level);
  if (!cache) return MEMORY;
  if (find(cache, line)) return level;
  int found = fetch(level + 1, line);
  insert(cache, level, line, 0);
  return found;
}

static void prefetch(uint64_t line) {
  if (find(&data, line)) return;
  counters[AHEAD + fetch(0, line)]++;
  insert(&data, -1, line, PREFETCHED);
}

/* A line that was missed, or would have been missed without the prefetcher. */
static void train(uint64_t line) {
  uint64_t oldest = 0;
  clock_of_streams++;
  for (uint64_t i = 0; i < stream_count; i++) {
    int64_t stride = (int64_t)(line - streams[i].last);
    if (stride && stride <= NEAR && stride >= -NEAR && streams[i].used) {
      streams[i].repeats = stride == streams[i].stride ? streams[i].repeats + 1 : 0;
      streams[i].stride = stride, streams[i].last = line, streams[i].used = clock_of_streams;
      for (uint64_t k = 1; streams[i].repeats && k <= ahead; k++) prefetch(line + k * (uint64_t)stride);
      return;
    }
    if (streams[i].used < streams[oldest].used) oldest = i;
  }
  if (!stream_count) return;
  streams[oldest].last = line, streams[oldest].used = clock_of_streams;
  streams[oldest].stride = 0, streams[oldest].repeats = 0;
}

EXPORT void cache_access(uint64_t address, uint64_t size, int store) {
  for (uint64_t line = address / LINE; line <= (address + size - 1) / LINE; line++) {
    uint64_t *entry = find(&data, line);
    if (entry) {
      uint64_t flags = *entry & FLAGS;
      *entry = (*entry & ~(uint64_t)PREFETCHED) | (store ? DIRTY : 0);
      if (flags & PREFETCHED) train(line);
      continue;
    }
    counters[DATA + fetch(0, line)]++;
    insert(&data, -1, line, store ? DIRTY : 0);
    train(line);
  }
}

EXPORT void cache_fetch(uint64_t address, uint64_t size, uint64_t instructions) {
  counters[INSTRUCTIONS] += (uint32_t)instructions;
  for (uint64_t line = address / LINE; line <= (address + size - 1) / LINE; line++)
    if (!find(&code, line)) {
      counters[CODE + fetch(0, line)]++;
      insert(&code, -1, line, 0);
    }
}

/* "l1d=32768:4" and the like; 0, or -1 for what is not known. */
EXPORT int cache_option(const char *option) {
  static const struct { const char *name; struct cache *cache; } caches[] = {
      {"l1i", &code}, {"l1d", &data}, {"l2", &second}, {"l3", &third}};
  char name[16];
  uint64_t value, ways = 0;
  int fields = sscanf(option, "%15[a-z0-9]=%" SCNu64 ":%" SCNu64, name, &value, &ways);
  if (fields == 2 && !strcmp(name, "streams")) return value <= MOST_STREAMS ? (stream_count = value, 0) : -1;
  if (fields == 2 && !strcmp(name, "ahead")) return ahead = value, 0;
  for (size_t i = 0; fields == 3 && ways && i < sizeof caches / sizeof *caches; i++)
    if (!strcmp(name, caches[i].name)) {
      struct cache *cache = caches[i].cache;
      if (value < LINE * ways) return -1;
      free(cache->lines);
      cache->ways = ways, cache->sets = value / LINE / ways;
      cache->lines = calloc(cache->sets * ways, sizeof *cache->lines);
      return cache->lines ? 0 : -1;
    }
  return -1;
}

/* Copy the counters, and start over; caches keep their lines. */
EXPORT void cache_counters(uint32_t *into) {
  memcpy(into, counters, sizeof counters);
  memset(counters, 0, sizeof counters);
}

static FILE *out;
static uint32_t (*windows)[COUNTERS];
static size_t count, room;
static int active;

static void close_window(void) {
  if (count == room) windows = realloc(windows, (room = room ? 2 * room : 1 << 12) * sizeof *windows);
  cache_counters(windows[count++]);
}

struct block {
  uint64_t address, instructions;
};

static void on_executed(unsigned cpu, void *block_) {
  (void)cpu;
  const struct block *block = block_;
  if (!active) return;
  if (counters[INSTRUCTIONS] >= WINDOW) close_window();
  cache_fetch(block->address, 4 * block->instructions, block->instructions);
}

static void on_memory(unsigned cpu, uint32_t info, uint64_t address, void *unused) {
  (void)cpu, (void)unused;
  if (active) cache_access(address, (uint64_t)1 << qemu_plugin_mem_size_shift(info), qemu_plugin_mem_is_store(info));
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb) {
  (void)id;
  struct block *block = malloc(sizeof *block);        /* QEMU may run a translated block at any later time */
  *block = (struct block){qemu_plugin_tb_vaddr(tb), qemu_plugin_tb_n_insns(tb)};
  qemu_plugin_register_vcpu_tb_exec_cb(tb, on_executed, NO_REGISTERS, block);
  for (size_t i = 0; i < block->instructions; i++)
    qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), on_memory, NO_REGISTERS, LOADS_AND_STORES, NULL);
}

static void called(plugin_id id, unsigned cpu, int64_t number, uint64_t tag, uint64_t end, uint64_t a3, uint64_t a4,
                   uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
  (void)id, (void)cpu, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
  if (number != MARKER) return;
  if (end) {
    close_window();
    fprintf(out, "region %" PRIu64 " %zu\n", tag, count);
    fwrite(windows, sizeof *windows, count, out);
    fflush(out);
  }
  active = !end;
  count = 0;
  memset(counters, 0, sizeof counters);
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
  (void)info;
  for (int i = 0; i < argc; i++) {
    if (!strncmp(argv[i], "out=", 4))
      out = fopen(argv[i] + 4, "w");
    else if (cache_option(argv[i]))
      return -1;
  }
  if (!out || !code.sets || !data.sets || !second.sets) return -1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_vcpu_syscall_cb(id, called);
  return 0;
}
