// Another runtime that has MutableOpResolver::AddCustom (with -DRUNTIME), or a library that is bound to it.
#define ADD "_ZN6tflite17MutableOpResolver9AddCustomEPKcPK18TfLiteRegistration"

void add_range(void* self, const char* name, const void* registration, int low, int high) __asm__(ADD "ii");
void add_one(void* self, const char* name, const void* registration, int version) __asm__(ADD "i");

#ifdef RUNTIME
static int added;
int versions_added(void) { return added; }
void add_range(void* self, const char* name, const void* registration, int low, int high) { added += 10 * low + high; }
void add_one(void* self, const char* name, const void* registration, int version) { added += version; }
#else
void add_both(void* self, const void* registration) {
  add_range(self, "Range", registration, 1, 2);
  add_one(self, "One", registration, 3);
}
#endif
