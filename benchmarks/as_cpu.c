/* Preloaded into a process: the instruction cpuid tells it of a CPU with fewer features.
 * cc -shared -fPIC -DHIDDEN='{leaf, subleaf, eax, ebx, ecx, edx}, ...' as_cpu.c
 * Linux lets the instruction fault on Intel's CPUs from Ivy Bridge on (arch_prctl(2)); children inherit that. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARCH_SET_CPUID = 0x1012 };
static const uint32_t hidden[][6] = {HIDDEN};
static struct sigaction before;

static long let_cpuid_fault(int yes) { return syscall(SYS_arch_prctl, ARCH_SET_CPUID, !yes); }

static void answer(int number, siginfo_t *info, void *context) {
  (void)number, (void)info;
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  if (memcmp((const void *)registers[REG_RIP], "\x0f\xa2", 2)) { /* an ordinary fault: it happens again */
    sigaction(SIGSEGV, &before, NULL);
    return;
  }
  uint32_t leaf = (uint32_t)registers[REG_RAX], subleaf = (uint32_t)registers[REG_RCX], found[4];
  let_cpuid_fault(0);
  __cpuid_count(leaf, subleaf, found[0], found[1], found[2], found[3]);
  let_cpuid_fault(1);
  for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
    if (hidden[i][0] == leaf && hidden[i][1] == subleaf)
      for (int k = 0; k < 4; k++) found[k] &= ~hidden[i][2 + k];
  registers[REG_RAX] = found[0], registers[REG_RBX] = found[1];
  registers[REG_RCX] = found[2], registers[REG_RDX] = found[3];
  registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
  struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
  if (sigaction(SIGSEGV, &action, &before) || let_cpuid_fault(1)) {
    static const char message[] = "as_cpu.py: this CPU or kernel cannot let cpuid fault\n";
    _exit(write(2, message, sizeof message - 1) < 0 ? 2 : 1);
  }
}
