// tflite::MutableOpResolver::AddCustom for C++ functions that register ops: pylite passes them a pl_resolver as `this`.
//
// Loaded only for libraries with such functions.  A call with the resolver of another runtime is forwarded to it.
#include <dlfcn.h>
#include <stdint.h>

#define PL_RESOLVER_MAGIC 0x70796c697465u

typedef struct pl_resolver {
  uint64_t magic;
  void (*add)(const char *name, const void *registration, int low, int high);
} pl_resolver;

#define EXPORT __attribute__((visibility("default")))
#define ADD "_ZN6tflite17MutableOpResolver9AddCustomEPKcPK18TfLiteRegistration"

void add_range(void *self, const char *name, const void *registration, int low, int high) __asm__(ADD "ii");
void add_one(void *self, const char *name, const void *registration, int version) __asm__(ADD "i");

EXPORT void add_range(void *self, const char *name, const void *registration, int low, int high) {
  const pl_resolver *resolver = self;
  if (resolver->magic == PL_RESOLVER_MAGIC) {
    resolver->add(name, registration, low, high);
    return;
  }
  void (*next)(void *, const char *, const void *, int, int) =
      (void (*)(void *, const char *, const void *, int, int))dlsym(RTLD_NEXT, ADD "ii");
  if (next != 0) next(self, name, registration, low, high);
}

EXPORT void add_one(void *self, const char *name, const void *registration, int version) {
  const pl_resolver *resolver = self;
  if (resolver->magic == PL_RESOLVER_MAGIC) {
    resolver->add(name, registration, version, version);
    return;
  }
  void (*next)(void *, const char *, const void *, int) =
      (void (*)(void *, const char *, const void *, int))dlsym(RTLD_NEXT, ADD "i");
  if (next != 0) next(self, name, registration, version);
}
