/* A plug-in for QEMU's user mode: which basic blocks a guest executes between two markers, one after the other.
 *
 *     gcc -O2 -shared -fPIC -o armcount.so armcount.c        needs no header of QEMU (plug-in interface 1)
 *     qemu-aarch64 -plugin armcount.so,out=FILE ...
 *
 * Markers are those of qemu_plugin.h.  FILE gets a line "block NUMBER ADDRESS INSTRUCTIONS" for each block, the
 * instructions' bytes in hexadecimal, as soon as it is translated, and at the end of a region "region TAG COUNT" and
 * the numbers of the COUNT blocks executed, 32 bits each.  One guest thread only. */
#include "qemu_plugin.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *out;
static uint32_t *executed, blocks;
static size_t count, room;
static int active;

static void on_executed(unsigned cpu, void *number) {
  (void)cpu;
  if (!active) return;
  if (count == room) executed = realloc(executed, (room = room ? 2 * room : 1 << 20) * sizeof *executed);
  executed[count++] = (uint32_t)(uintptr_t)number;
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb) {
  (void)id;
  fprintf(out, "block %" PRIu32 " %" PRIx64 " ", blocks, qemu_plugin_tb_vaddr(tb));
  for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
    struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, i);
    for (size_t k = 0; k < qemu_plugin_insn_size(instruction); k++)
      fprintf(out, "%02x", qemu_plugin_insn_data(instruction)[k]);
  }
  fputc('\n', out);
  qemu_plugin_register_vcpu_tb_exec_cb(tb, on_executed, NO_REGISTERS, (void *)(uintptr_t)blocks++);
}

static void called(plugin_id id, unsigned cpu, int64_t number, uint64_t tag, uint64_t end, uint64_t a3, uint64_t a4,
                   uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
  (void)id, (void)cpu, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
  if (number != MARKER) return;
  if (end) {
    fprintf(out, "region %" PRIu64 " %zu\n", tag, count);
    fwrite(executed, sizeof *executed, count, out);
    fflush(out);
  }
  active = !end;
  count = 0;
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
  (void)info;
  out = argc == 1 && !strncmp(argv[0], "out=", 4) ? fopen(argv[0] + 4, "w") : NULL;
  if (!out) return -1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_vcpu_syscall_cb(id, called);
  return 0;
}
