// The context, nodes and tensors behind opaque types: functions in place of fields.
//
// A plug-in that uses these imports them; pylite loads the library that has them before it.
#ifndef TENSORFLOW_LITE_CORE_C_C_API_OPAQUE_H_
#define TENSORFLOW_LITE_CORE_C_C_API_OPAQUE_H_

#include "c_api.h"
#include "common.h"
#include "operator.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Tensors ----

TFL_CAPI_EXPORT TfLiteType TfLiteOpaqueTensorType(const TfLiteOpaqueTensor* t);
TFL_CAPI_EXPORT int32_t TfLiteOpaqueTensorNumDims(const TfLiteOpaqueTensor* t);              // -1 without a shape
TFL_CAPI_EXPORT int32_t TfLiteOpaqueTensorDim(const TfLiteOpaqueTensor* t, int32_t dim_index);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueTensorGetNumDimsSignature(const TfLiteOpaqueTensor* t, int32_t* num_dims);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueTensorGetDimSignature(const TfLiteOpaqueTensor* t, int32_t dim_index,
                                                               int32_t* dim_length);
TFL_CAPI_EXPORT int TfLiteOpaqueTensorIsVariable(const TfLiteOpaqueTensor* t);
TFL_CAPI_EXPORT size_t TfLiteOpaqueTensorByteSize(const TfLiteOpaqueTensor* t);
TFL_CAPI_EXPORT void* TfLiteOpaqueTensorData(const TfLiteOpaqueTensor* t);
TFL_CAPI_EXPORT TfLiteAllocationType TfLiteOpaqueTensorGetAllocationType(const TfLiteOpaqueTensor* t);
TFL_CAPI_EXPORT TfLiteAllocationStrategy TfLiteOpaqueTensorGetAllocationStrategy(const TfLiteOpaqueTensor* t);
TFL_CAPI_EXPORT TfLiteRunStability TfLiteOpaqueTensorGetBufferAddressStability(const TfLiteOpaqueTensor* t);
TFL_CAPI_EXPORT TfLiteRunStability TfLiteOpaqueTensorGetDataStability(const TfLiteOpaqueTensor* t);
TFL_CAPI_EXPORT TfLiteRunStep TfLiteOpaqueTensorGetDataKnownStep(const TfLiteOpaqueTensor* t);
TFL_CAPI_EXPORT TfLiteRunStep TfLiteOpaqueTensorGetShapeKnownStep(const TfLiteOpaqueTensor* t);
TFL_CAPI_EXPORT const char* TfLiteOpaqueTensorName(const TfLiteOpaqueTensor* t);
TFL_CAPI_EXPORT TfLiteQuantization TfLiteOpaqueTensorGetQuantization(const TfLiteOpaqueTensor* t);
TFL_CAPI_EXPORT TfLiteQuantizationParams TfLiteOpaqueTensorGetQuantizationParams(const TfLiteOpaqueTensor* t);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueTensorCopyFromBuffer(TfLiteOpaqueTensor* t, const void* input_data,
                                                              size_t input_data_size);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueTensorCopyToBuffer(const TfLiteOpaqueTensor* t, void* output_data,
                                                            size_t output_data_size);
TFL_CAPI_EXPORT void TfLiteOpaqueTensorSetAllocationTypeToDynamic(TfLiteOpaqueTensor* t);
TFL_CAPI_EXPORT void TfLiteOpaqueTensorSetNonCpuAllocation(TfLiteOpaqueTensor* t);

// Strings: the tensor's memory holds the count, the offsets, and the characters.
TFL_CAPI_EXPORT int TfLiteOpaqueTensorGetStringCount(const TfLiteOpaqueTensor* t);          // -1 on failure
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueTensorGetString(const TfLiteOpaqueTensor* t, int index, const char** str,
                                                         int* len);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueTensorWriteStrings(TfLiteOpaqueTensor* t, const char* const* str_array,
                                                            int str_array_len, const int* str_n_len);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueTensorWriteString(TfLiteOpaqueTensor* t, const char* str, int len);

// New tensors: build, then TfLiteOpaqueContextAddTensor.  kTfLiteDynamic needs data, which is malloc'd and whose
// ownership passes to the tensor; arena types must have none.
typedef struct TfLiteOpaqueTensorBuilder TfLiteOpaqueTensorBuilder;
TFL_CAPI_EXPORT TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderCreate(void);
TFL_CAPI_EXPORT void TfLiteOpaqueTensorBuilderDelete(TfLiteOpaqueTensorBuilder* builder);
TFL_CAPI_EXPORT TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderSetType(TfLiteOpaqueTensorBuilder* builder,
                                                                            TfLiteType type);
TFL_CAPI_EXPORT TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderSetData(TfLiteOpaqueTensorBuilder* builder,
                                                                            void* data);
TFL_CAPI_EXPORT TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderSetAllocationType(
    TfLiteOpaqueTensorBuilder* builder, TfLiteAllocationType allocation_type);
TFL_CAPI_EXPORT TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderSetQuantizationParams(
    TfLiteOpaqueTensorBuilder* builder, TfLiteQuantizationParams params);
TFL_CAPI_EXPORT TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderSetQuantization(
    TfLiteOpaqueTensorBuilder* builder, TfLiteQuantization quantization);

// ---- Nodes ----

TFL_CAPI_EXPORT const TfLiteOpaqueTensor* TfLiteOpaqueNodeGetInput(const TfLiteOpaqueContext* context,
                                                                   const TfLiteOpaqueNode* node, int index);
TFL_CAPI_EXPORT TfLiteOpaqueTensor* TfLiteOpaqueNodeGetOutput(TfLiteOpaqueContext* context,
                                                              const TfLiteOpaqueNode* node, int index);
TFL_CAPI_EXPORT int TfLiteOpaqueNodeNumberOfInputs(const TfLiteOpaqueNode* node);
TFL_CAPI_EXPORT int TfLiteOpaqueNodeNumberOfOutputs(const TfLiteOpaqueNode* node);
TFL_CAPI_EXPORT void* TfLiteOpaqueNodeGetUserData(const TfLiteOpaqueNode* node);
TFL_CAPI_EXPORT void* TfLiteOpaqueNodeGetBuiltinData(const TfLiteOpaqueNode* node);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueNodeGetCustomInitialData(const TfLiteOpaqueNode* node, const void** init_data,
                                                                  int* size);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueNodeInputs(const TfLiteOpaqueNode* node, const int** inputs, int* num_inputs);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueNodeOutputs(const TfLiteOpaqueNode* node, const int** outputs,
                                                     int* num_outputs);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueNodeSetTemporaries(TfLiteOpaqueNode* node, const int* temporaries,
                                                            int num_temporaries);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueNodeTemporaries(const TfLiteOpaqueNode* node, const int** temporaries,
                                                         int* num_temporaries);
TFL_CAPI_EXPORT int TfLiteOpaqueNodeGetInputTensorIndex(const TfLiteOpaqueNode* node, int index_of_input);
TFL_CAPI_EXPORT int TfLiteOpaqueNodeGetOutputTensorIndex(const TfLiteOpaqueNode* node, int index_of_output);

// ---- The context ----

TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetExecutionPlan(TfLiteOpaqueContext* context,
                                                                 TfLiteIntArray** execution_plan);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetExternalContext(TfLiteOpaqueContext* context,
                                                                   void** external_context,
                                                                   TfLiteExternalContextType type);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetNodeAndRegistration(TfLiteOpaqueContext* context, int node_index,
                                                                       TfLiteOpaqueNode** node, TfLiteOperator** op);
// Takes ownership of `op`.
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextReplaceNodeSubsetsWithDelegateKernels(
    TfLiteOpaqueContext* context, TfLiteOperator* op, const TfLiteIntArray* nodes_to_replace,
    TfLiteOpaqueDelegate* delegate);
TFL_CAPI_EXPORT TfLiteOpaqueTensor* TfLiteOpaqueContextGetOpaqueTensor(const TfLiteOpaqueContext* context, int index);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetInputs(const TfLiteOpaqueContext* context, const int** inputs,
                                                          int* num_inputs);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetOutputs(const TfLiteOpaqueContext* context, const int** outputs,
                                                           int* num_outputs);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetVariables(const TfLiteOpaqueContext* context, const int** variables,
                                                             int* num_variables);
TFL_CAPI_EXPORT size_t TfLiteOpaqueContextGetNumNodes(const TfLiteOpaqueContext* context);
TFL_CAPI_EXPORT size_t TfLiteOpaqueContextGetNumTensors(const TfLiteOpaqueContext* context);
TFL_CAPI_EXPORT const char* TfLiteOpaqueContextGetName(const TfLiteOpaqueContext* context);
// Takes ownership of new_size, also on failure.
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextResizeTensor(TfLiteOpaqueContext* context, TfLiteOpaqueTensor* tensor,
                                                             TfLiteIntArray* new_size);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextAcquireSubgraphContext(TfLiteOpaqueContext* context,
                                                                       int subgraph_index,
                                                                       TfLiteOpaqueContext** acquired);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextReleaseSubgraphContext(TfLiteOpaqueContext* context,
                                                                       int subgraph_index);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextMarkSubgraphAsDelegationSkippable(TfLiteOpaqueContext* context,
                                                                                  int subgraph_index);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetNodeInitDataMmapInfo(const TfLiteOpaqueContext* context,
                                                                        const TfLiteOpaqueNode* node, int* fd,
                                                                        int64_t* offset_in_file, int64_t* size);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextAddTensor(TfLiteOpaqueContext* context,
                                                          TfLiteOpaqueTensorBuilder* builder, int* new_tensor_index);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetSizeOfType(TfLiteOpaqueContext* context, TfLiteType type,
                                                              size_t* bytes);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetMetadata(TfLiteOpaqueContext* context, const char* name,
                                                            const char** ptr, size_t* bytes);
TFL_CAPI_EXPORT void TfLiteOpaqueContextReportError(TfLiteOpaqueContext* context, const char* format, ...);
TFL_CAPI_EXPORT void TfLiteOpaqueContextReportErrorVa(TfLiteOpaqueContext* context, const char* format, va_list vlist);

#ifndef TF_LITE_STRIP_ERROR_STRINGS
#define TF_LITE_OPAQUE_KERNEL_LOG(context, ...) TfLiteOpaqueContextReportError((context), __VA_ARGS__)
#else
#define TF_LITE_OPAQUE_KERNEL_LOG(context, ...) (void)sizeof(#__VA_ARGS__)
#endif
#define TF_LITE_OPAQUE_MAYBE_KERNEL_LOG(context, ...)                         \
  do {                                                                        \
    if ((context) != NULL) TF_LITE_OPAQUE_KERNEL_LOG((context), __VA_ARGS__); \
  } while (0)
#define TF_LITE_OPAQUE_ENSURE_MSG(context, value, msg)       \
  do {                                                       \
    if (!(value)) {                                          \
      TF_LITE_OPAQUE_KERNEL_LOG((context), __FILE__ " " msg); \
      return kTfLiteError;                                   \
    }                                                        \
  } while (0)
#define TF_LITE_OPAQUE_ENSURE(context, a)                                                         \
  do {                                                                                            \
    if (!(a)) {                                                                                   \
      TF_LITE_OPAQUE_KERNEL_LOG((context), "%s:%d: %s was not true.", __FILE__, __LINE__, #a);    \
      return kTfLiteError;                                                                        \
    }                                                                                             \
  } while (0)
#define TF_LITE_OPAQUE_ENSURE_EQ(context, a, b)                                                                 \
  do {                                                                                                          \
    if ((a) != (b)) {                                                                                           \
      TF_LITE_OPAQUE_KERNEL_LOG((context), "%s:%d: %s != %s (%d != %d)", __FILE__, __LINE__, #a, #b, (int)(a),  \
                                (int)(b));                                                                      \
      return kTfLiteError;                                                                                      \
    }                                                                                                           \
  } while (0)
#define TF_LITE_OPAQUE_ENSURE_TYPES_EQ(context, a, b)                                                           \
  do {                                                                                                          \
    if ((a) != (b)) {                                                                                           \
      TF_LITE_OPAQUE_KERNEL_LOG((context), "%s:%d: %s != %s (%s != %s)", __FILE__, __LINE__, #a, #b,            \
                                TfLiteTypeGetName(a), TfLiteTypeGetName(b));                                    \
      return kTfLiteError;                                                                                      \
    }                                                                                                           \
  } while (0)

// ---- Delegates ----

// Copies the builder.
TFL_CAPI_EXPORT TfLiteOpaqueDelegate* TfLiteOpaqueDelegateCreate(const TfLiteOpaqueDelegateBuilder* builder);
TFL_CAPI_EXPORT void TfLiteOpaqueDelegateDelete(TfLiteOpaqueDelegate* delegate);
TFL_CAPI_EXPORT void* TfLiteOpaqueDelegateGetData(const TfLiteOpaqueDelegate* delegate);

#ifdef __cplusplus
}
#endif
#endif
