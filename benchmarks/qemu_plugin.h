/* QEMU's plug-in interface 1, as far as armcount.c and armcache.c use it; weak, so that a test can load a plug-in without
 * QEMU. */
#include <stddef.h>
#include <stdint.h>

#define QEMU __attribute__((weak))
typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void (*translated_fn)(plugin_id, struct qemu_plugin_tb *);
typedef void (*syscall_fn)(plugin_id, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                           uint64_t, uint64_t);
typedef void (*executed_fn)(unsigned cpu, void *data);
typedef void (*memory_fn)(unsigned cpu, uint32_t info, uint64_t address, void *data);
QEMU void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, translated_fn);
QEMU void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, executed_fn, int flags, void *data);
QEMU void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, memory_fn, int flags, int which, void *data);
QEMU void qemu_plugin_register_vcpu_syscall_cb(plugin_id, syscall_fn);
QEMU size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
QEMU uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
QEMU struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
QEMU const uint8_t *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
QEMU size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
QEMU unsigned qemu_plugin_mem_size_shift(uint32_t info);
QEMU _Bool qemu_plugin_mem_is_store(uint32_t info);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;
enum { NO_REGISTERS = 0, LOADS_AND_STORES = 3 };
/* Markers are system calls that the kernel does not know: syscall(MARKER, tag, 0) begins, syscall(MARKER, tag, 1) ends. */
enum { MARKER = 31338 };
