// Reads and checks the registrations, operators and delegates of a library, before any of their functions is called.
#include "host.h"

#include <dlfcn.h>

static bool is_function(void *address) {
  Dl_info info;
  return address == NULL || dladdr(address, &info) != 0;
}

// Registrations in binaries from before 2022 have 64 bytes.  Later fields are read only if all four functions are null,
// which they never are in such binaries.
void pl_registration_read(const TfLiteRegistration *from, TfLiteRegistration *to, TfLiteOperator **op) {
  memset(to, 0, sizeof(*to));
  memcpy(to, from, offsetof(TfLiteRegistration, registration_external));
  *op = NULL;
  if (from->init == NULL && from->free == NULL && from->prepare == NULL && from->invoke == NULL) {
    *op = from->registration_external;
  }
  if (!is_function((void *)to->profiling_string)) to->profiling_string = NULL;      // some binaries do not set it
}

bool pl_operator_plausible(const TfLiteOperator *op) { return op != NULL && op->magic == PL_OPERATOR_MAGIC; }

bool pl_registration_plausible(const TfLiteRegistration *r) {
  if (r->init == NULL && r->free == NULL && r->prepare == NULL && r->invoke == NULL) {
    return pl_operator_plausible(r->registration_external);
  }
  return is_function((void *)r->init) && is_function((void *)r->free) && is_function((void *)r->prepare) &&
         is_function((void *)r->invoke);
}

bool pl_delegate_plausible(const TfLiteDelegate *d) {
  if (d->Prepare == NULL && d->opaque_delegate_builder == NULL) return false;
  return is_function(d->Prepare != NULL ? (void *)d->Prepare : (void *)d->opaque_delegate_builder->Prepare) &&
         is_function((void *)d->CopyFromBufferHandle) && is_function((void *)d->FreeBufferHandle);
}
