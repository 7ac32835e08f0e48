// tflite::MutableOpResolver::AddCustom, for C++ functions that register ops: pylite passes them a pl_resolver as
// `this`.  The other methods are inline in mutable_op_resolver.h, or virtual (FindOp).
//
// This library is only loaded for such functions.  Calls with a resolver of another runtime are forwarded to that
// runtime.
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define PL_RESOLVER_MAGIC 0x70796c697465u

typedef struct pl_resolver {
  void *const *methods;     // the table of virtual functions
  uint64_t magic;
  void (*add)(struct pl_resolver *, const char *name, int builtin, const void *registration, int low, int high);
  void *entries;            // used by resolvers that plug-ins make
  const void *(*find)(const char *name, int builtin, int version);    // used by the host's resolvers
} pl_resolver;

static const void *find_builtin(const pl_resolver *self, int op, int version) { return self->find(NULL, op, version); }
static const void *find_custom(const pl_resolver *self, const char *name, int version) {
  return self->find(name, 0, version);
}

// A C++ vtable: offset to the top of the object, type information, virtual functions in the order of their
// declarations.
static void *const methods[] = {NULL, NULL, (void *)find_builtin, (void *)find_custom};

EXPORT void pl_resolver_begin(pl_resolver *self);
EXPORT void pl_resolver_begin(pl_resolver *self) {
  self->methods = methods + 2;
  self->magic = PL_RESOLVER_MAGIC;
}

#define ADD "_ZN6tflite17MutableOpResolver9AddCustomEPKcPK18TfLiteRegistration"

typedef void (*add_range_t)(void *, const char *, const void *, int, int);
typedef void (*add_one_t)(void *, const char *, const void *, int);
void add_range(void *self, const char *name, const void *registration, int low, int high) __asm__(ADD "ii");
void add_one(void *self, const char *name, const void *registration, int version) __asm__(ADD "i");

// The functions that libraries called before pl_resolver_bind() redirected their calls.
#define MAX_BOUND 128
static struct {
  uintptr_t library;
  const char *symbol;
  void *function;
} bound[MAX_BOUND];
static int num_bound;

// The other runtime's function that the code at `caller` meant to call, or NULL.
static void *other(void *caller, const char *symbol) {
  Dl_info info;
  if (dladdr(caller, &info) != 0) {
    for (int i = 0; i < num_bound; i++) {
      if (bound[i].library == (uintptr_t)info.dli_fbase && strcmp(bound[i].symbol, symbol) == 0)
        return bound[i].function;
    }
  }
  return dlsym(RTLD_NEXT, symbol);
}

EXPORT void add_range(void *self, const char *name, const void *registration, int low, int high) {
  pl_resolver *resolver = self;
  if (resolver->magic == PL_RESOLVER_MAGIC) {
    resolver->add(resolver, name, 0, registration, low, high);
    return;
  }
  add_range_t next = (add_range_t)other(__builtin_return_address(0), ADD "ii");
  if (next != 0) next(self, name, registration, low, high);
}

EXPORT void add_one(void *self, const char *name, const void *registration, int version) {
  pl_resolver *resolver = self;
  if (resolver->magic == PL_RESOLVER_MAGIC) {
    resolver->add(resolver, name, 0, registration, version, version);
    return;
  }
  add_one_t next = (add_one_t)other(__builtin_return_address(0), ADD "i");
  if (next != 0) next(self, name, registration, version);
}

// Redirects a library's pointer to the function `symbol` to `function`.
static void redirect(uintptr_t library, const char *symbol, void **slot, void *function) {
  if (*slot == function || num_bound == MAX_BOUND) return;
  uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), page = (uintptr_t)slot & ~(size - 1);
  if (mprotect((void *)page, size, PROT_READ | PROT_WRITE) != 0) return;      // it may be read-only
  bound[num_bound].library = library;
  bound[num_bound].symbol = symbol;
  bound[num_bound++].function = *slot;
  *slot = function;
}

static void search(uintptr_t base, uintptr_t entries, size_t bytes, size_t each, const ElfW(Sym) *symbols,
                   const char *names) {
  for (uintptr_t address = entries; address < entries + bytes; address += each) {
    const ElfW(Rel) *entry = (const ElfW(Rel) *)address;     // the beginning of a Rela, too
    const char *name = names + symbols[entry->r_info >> (sizeof(void *) == 8 ? 32 : 8)].st_name;
    if (strcmp(name, ADD "ii") == 0) redirect(base, ADD "ii", (void **)(base + entry->r_offset), (void *)add_range);
    if (strcmp(name, ADD "i") == 0) redirect(base, ADD "i", (void **)(base + entry->r_offset), (void *)add_one);
  }
}

static int search_library(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size, (void)data;
  const ElfW(Dyn) *dynamic = NULL;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
      dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
  }
  uintptr_t symbols = 0, names = 0, entries = 0;
  size_t bytes = 0, each = sizeof(ElfW(Rela));
  for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++) {
    if (dynamic->d_tag == DT_SYMTAB) symbols = dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_STRTAB) names = dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_JMPREL) entries = dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_PLTRELSZ) bytes = dynamic->d_un.d_val;
    if (dynamic->d_tag == DT_PLTREL && dynamic->d_un.d_val == DT_REL) each = sizeof(ElfW(Rel));
  }
  // The loader has turned these into addresses, except in libraries of the kernel.
  if (bytes != 0 && entries > info->dlpi_addr && symbols > info->dlpi_addr && names > info->dlpi_addr) {
    search(info->dlpi_addr, entries, bytes, each, (const ElfW(Sym) *)symbols, (const char *)names);
  }
  return 0;
}

// Lets libraries that were loaded before this one, and are bound to another runtime's resolver, call these functions.
EXPORT void pl_resolver_bind(void);
EXPORT void pl_resolver_bind(void) { dl_iterate_phdr(search_library, NULL); }
