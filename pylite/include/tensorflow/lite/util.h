// Conversions between C++ containers and the arrays of the C API.
#ifndef TENSORFLOW_LITE_UTIL_H_
#define TENSORFLOW_LITE_UTIL_H_

#include <cstring>
#include <initializer_list>
#include <memory>
#include <vector>

#include "c/common.h"

namespace tflite {

inline TfLiteIntArray* ConvertArrayToTfLiteIntArray(int size, const int* data) {
  TfLiteIntArray* array = TfLiteIntArrayCreate(size);
  if (size > 0) std::memcpy(array->data, data, sizeof(int) * static_cast<std::size_t>(size));
  return array;
}

inline TfLiteIntArray* ConvertVectorToTfLiteIntArray(const std::vector<int>& values) {
  return ConvertArrayToTfLiteIntArray(static_cast<int>(values.size()), values.data());
}

struct TfLiteIntArrayDeleter {
  void operator()(TfLiteIntArray* a) { TfLiteIntArrayFree(a); }
};
using IntArrayUniquePtr = std::unique_ptr<TfLiteIntArray, TfLiteIntArrayDeleter>;

inline IntArrayUniquePtr BuildTfLiteArray(const std::vector<int>& values) {
  return IntArrayUniquePtr(ConvertVectorToTfLiteIntArray(values));
}
inline IntArrayUniquePtr BuildTfLiteArray(std::initializer_list<int> values) {
  return BuildTfLiteArray(std::vector<int>(values));
}

inline bool EqualArrayAndTfLiteIntArray(const TfLiteIntArray* a, int b_size, const int* b) {
  return a != nullptr && TfLiteIntArrayEqualsArray(a, b_size, b) != 0;
}

}  // namespace tflite

#endif
