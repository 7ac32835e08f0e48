// Adds the op of ops.c to a tflite::MutableOpResolver, be it pylite's or another runtime's.
#include "tensorflow/lite/c/common.h"

namespace tflite {
class MutableOpResolver {
 public:
  void AddCustom(const char* name, const TfLiteRegistration* registration, int version = 1);
};
}  // namespace tflite

extern "C" const TfLiteRegistration* Register_TEST(void);

void RegisterTest(tflite::MutableOpResolver* resolver) { resolver->AddCustom("Test", Register_TEST()); }
