// Accessors to nodes and tensors, for kernels in C++.
#ifndef TENSORFLOW_LITE_KERNELS_KERNEL_UTIL_H_
#define TENSORFLOW_LITE_KERNELS_KERNEL_UTIL_H_

#include <cstdint>

#include "../c/builtin_op_data.h"
#include "../c/common.h"

namespace tflite {

inline int NumDimensions(const TfLiteTensor* t) { return t->dims->size; }
inline int SizeOfDimension(const TfLiteTensor* t, int dim) { return t->dims->data[dim]; }
inline int NumInputs(const TfLiteNode* node) { return node->inputs == nullptr ? 0 : node->inputs->size; }
inline int NumOutputs(const TfLiteNode* node) { return node->outputs == nullptr ? 0 : node->outputs->size; }
inline int NumIntermediates(const TfLiteNode* node) {
  return node->intermediates == nullptr ? 0 : node->intermediates->size;
}

inline int64_t NumElements(const TfLiteIntArray* dims) {
  int64_t count = 1;
  for (int i = 0; i < dims->size; ++i) count *= dims->data[i];
  return count;
}
inline int64_t NumElements(const TfLiteTensor* t) { return NumElements(t->dims); }

// The tensor of operand `index`, or null when there is none.
inline TfLiteTensor* TensorAt(const TfLiteContext* context, const TfLiteIntArray* indices, int index) {
  if (indices == nullptr || index < 0 || index >= indices->size || indices->data[index] < 0) return nullptr;
  return &context->tensors[indices->data[index]];
}
inline const TfLiteTensor* GetInput(const TfLiteContext* context, const TfLiteNode* node, int index) {
  return TensorAt(context, node->inputs, index);
}
inline const TfLiteTensor* GetOptionalInputTensor(const TfLiteContext* context, const TfLiteNode* node, int index) {
  return TensorAt(context, node->inputs, index);
}
inline TfLiteTensor* GetVariableInput(TfLiteContext* context, const TfLiteNode* node, int index) {
  TfLiteTensor* t = TensorAt(context, node->inputs, index);
  return t != nullptr && t->is_variable ? t : nullptr;
}
inline TfLiteTensor* GetOutput(TfLiteContext* context, const TfLiteNode* node, int index) {
  return TensorAt(context, node->outputs, index);
}
inline TfLiteTensor* GetTemporary(TfLiteContext* context, const TfLiteNode* node, int index) {
  return TensorAt(context, node->temporaries, index);
}

inline TfLiteStatus GetInputSafe(const TfLiteContext* context, const TfLiteNode* node, int index,
                                 const TfLiteTensor** tensor) {
  *tensor = TensorAt(context, node->inputs, index);
  return *tensor != nullptr ? kTfLiteOk : kTfLiteError;
}
inline TfLiteStatus GetOutputSafe(const TfLiteContext* context, const TfLiteNode* node, int index,
                                  TfLiteTensor** tensor) {
  *tensor = TensorAt(context, node->outputs, index);
  return *tensor != nullptr ? kTfLiteOk : kTfLiteError;
}
inline TfLiteStatus GetTemporarySafe(const TfLiteContext* context, const TfLiteNode* node, int index,
                                     TfLiteTensor** tensor) {
  *tensor = TensorAt(context, node->temporaries, index);
  return *tensor != nullptr ? kTfLiteOk : kTfLiteError;
}

template <typename T>
inline T* GetTensorData(TfLiteTensor* tensor) {
  return tensor != nullptr ? reinterpret_cast<T*>(tensor->data.raw) : nullptr;
}
template <typename T>
inline const T* GetTensorData(const TfLiteTensor* tensor) {
  return tensor != nullptr ? reinterpret_cast<const T*>(tensor->data.raw) : nullptr;
}

inline bool IsConstantTensor(const TfLiteTensor* t) { return t->allocation_type == kTfLiteMmapRo; }
inline bool IsConstantOrPersistentTensor(const TfLiteTensor* t) {
  return IsConstantTensor(t) || t->allocation_type == kTfLitePersistentRo;
}
inline bool IsDynamicTensor(const TfLiteTensor* t) { return t->allocation_type == kTfLiteDynamic; }

// From now on the tensor is sized while the graph runs, with ResizeTensor.
inline void SetTensorToDynamic(TfLiteTensor* t) {
  if (t->allocation_type != kTfLiteDynamic) {
    TfLiteTensorDataFree(t);
    t->allocation_type = kTfLiteDynamic;
  }
}

inline bool HaveSameShapes(const TfLiteTensor* a, const TfLiteTensor* b) {
  return TfLiteIntArrayEqual(a->dims, b->dims) != 0;
}

}  // namespace tflite

#endif
