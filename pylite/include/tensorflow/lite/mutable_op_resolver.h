// The argument of C++ functions that register ops: `void f(tflite::MutableOpResolver*)`, called by load_custom_ops().
#ifndef TENSORFLOW_LITE_MUTABLE_OP_RESOLVER_H_
#define TENSORFLOW_LITE_MUTABLE_OP_RESOLVER_H_

#include "c/common.h"

namespace tflite {

// The host's; plug-ins get a pointer and make none themselves.  Registrations are copied.
class MutableOpResolver {
 public:
  MutableOpResolver() = delete;
  void AddCustom(const char* name, const TfLiteRegistration* registration, int version = 1);
  void AddCustom(const char* name, const TfLiteRegistration* registration, int min_version, int max_version);
};

}  // namespace tflite

#endif
