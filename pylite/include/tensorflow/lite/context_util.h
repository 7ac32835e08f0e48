// Ranges over the integer arrays of the C API.
#ifndef TENSORFLOW_LITE_CONTEXT_UTIL_H_
#define TENSORFLOW_LITE_CONTEXT_UTIL_H_

#include <cstddef>

#include "c/common.h"

namespace tflite {

// for (int index : TfLiteIntArrayView(node->inputs)) ...
class TfLiteIntArrayView {
 public:
  explicit TfLiteIntArrayView(const TfLiteIntArray* array) : array_(array) {}
  const int* begin() const { return array_->data; }
  const int* end() const { return array_->data + array_->size; }
  std::size_t size() const { return static_cast<std::size_t>(end() - begin()); }
  int operator[](std::size_t i) const { return array_->data[i]; }

 private:
  const TfLiteIntArray* array_;
};

}  // namespace tflite

#endif
