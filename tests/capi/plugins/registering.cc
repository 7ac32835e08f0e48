// Adds the op of ops.c to a tflite::MutableOpResolver, of pylite or of another runtime.
#include "tensorflow/lite/mutable_op_resolver.h"

extern "C" const TfLiteRegistration* Register_TEST(void);

void RegisterTest(tflite::MutableOpResolver* resolver) { resolver->AddCustom("Test", Register_TEST()); }
