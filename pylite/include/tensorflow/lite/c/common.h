// What custom ops and delegates see of the runtime: arrays, tensors, nodes, the context, registrations, delegates.
//
// Names and layouts are those of TensorFlow Lite, so that plug-ins written for it compile, and binaries built from this
// file run there too.  The layout is append-only: no field ever moves.
//
// The functions on arrays and tensors are inline: a plug-in that uses only this file needs no library to link with.
// The file is longer than others, since TensorFlow Lite has all of this in one header of this name.
//
// The host frees with free() what plug-ins allocate with malloc(), and the other way round.
#ifndef TENSORFLOW_LITE_CORE_C_COMMON_H_
#define TENSORFLOW_LITE_CORE_C_COMMON_H_

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "c_api_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define kTfLiteOptionalTensor (-1)  // in a node's inputs: an optional operand that is missing

typedef enum TfLiteExternalContextType {
  kTfLiteEigenContext = 0,
  kTfLiteGemmLowpContext = 1,
  kTfLiteEdgeTpuContext = 2,
  kTfLiteCpuBackendContext = 3,
  kTfLiteLiteRtBufferContext = 4,
  kTfLiteMaxExternalContexts = 5
} TfLiteExternalContextType;

struct TfLiteContext;
struct TfLiteDelegate;
struct TfLiteRegistration;
struct TfLiteOpaqueDelegateBuilder;

// Data that several nodes share.  Refresh is called when the number of threads changes.
typedef struct TfLiteExternalContext {
  TfLiteExternalContextType type;
  TfLiteStatus (*Refresh)(struct TfLiteContext* context);
} TfLiteExternalContext;

// ---- Arrays ----

typedef struct TfLiteIntArray {
  int size;
  int data[];
} TfLiteIntArray;

typedef struct TfLiteFloatArray {
  int size;
  float data[];
} TfLiteFloatArray;

// ---- Errors ----

#ifndef TF_LITE_STRIP_ERROR_STRINGS
#define TF_LITE_KERNEL_LOG(context, ...)            \
  do {                                              \
    (context)->ReportError((context), __VA_ARGS__); \
  } while (0)
#else
#define TF_LITE_KERNEL_LOG(context, ...) (void)sizeof(#__VA_ARGS__)
#endif
#define TF_LITE_MAYBE_KERNEL_LOG(context, ...)                        \
  do {                                                                \
    if ((context) != NULL) TF_LITE_KERNEL_LOG((context), __VA_ARGS__); \
  } while (0)

#define TF_LITE_ENSURE_MSG(context, value, ...)                \
  do {                                                         \
    if (!(value)) {                                            \
      TF_LITE_KERNEL_LOG((context), __FILE__ " " __VA_ARGS__); \
      return kTfLiteError;                                     \
    }                                                          \
  } while (0)
#define TF_LITE_ENSURE(context, a)                                                         \
  do {                                                                                     \
    if (!(a)) {                                                                            \
      TF_LITE_KERNEL_LOG((context), "%s:%d %s was not true.", __FILE__, __LINE__, #a);     \
      return kTfLiteError;                                                                 \
    }                                                                                      \
  } while (0)
#define TF_LITE_ENSURE_STATUS(a)              \
  do {                                        \
    const TfLiteStatus status_of_a_ = (a);    \
    if (status_of_a_ != kTfLiteOk) return status_of_a_; \
  } while (0)
#define TF_LITE_ENSURE_OK(context, status) TF_LITE_ENSURE_STATUS(status)
#define TF_LITE_ENSURE_EQ(context, a, b)                                                                  \
  do {                                                                                                    \
    if ((a) != (b)) {                                                                                     \
      TF_LITE_KERNEL_LOG((context), "%s:%d %s != %s (%d != %d)", __FILE__, __LINE__, #a, #b, (int)(a), (int)(b)); \
      return kTfLiteError;                                                                                \
    }                                                                                                     \
  } while (0)
#define TF_LITE_ENSURE_TYPES_EQ(context, a, b)                                                            \
  do {                                                                                                    \
    if ((a) != (b)) {                                                                                     \
      TF_LITE_KERNEL_LOG((context), "%s:%d %s != %s (%s != %s)", __FILE__, __LINE__, #a, #b,              \
                         TfLiteTypeGetName(a), TfLiteTypeGetName(b));                                     \
      return kTfLiteError;                                                                                \
    }                                                                                                     \
  } while (0)
#define TF_LITE_ENSURE_NEAR(context, a, b, epsilon)                                                       \
  do {                                                                                                    \
    const double a_ = (double)(a), b_ = (double)(b);                                                      \
    if ((a_ > b_ ? a_ - b_ : b_ - a_) > (epsilon)) {                                                      \
      TF_LITE_KERNEL_LOG((context), "%s:%d %s not near %s (%f != %f)", __FILE__, __LINE__, #a, #b, a_, b_); \
      return kTfLiteError;                                                                                \
    }                                                                                                     \
  } while (0)

// ---- Tensors ----

typedef struct TfLiteComplex64 {
  float re, im;
} TfLiteComplex64;

typedef struct TfLiteComplex128 {
  double re, im;
} TfLiteComplex128;

typedef struct TfLiteFloat16 {
  uint16_t data;
} TfLiteFloat16;

typedef struct TfLiteBFloat16 {
  uint16_t data;
} TfLiteBFloat16;

typedef enum TfLiteQuantizationType {
  kTfLiteNoQuantization = 0,
  kTfLiteAffineQuantization = 1,     // params: TfLiteAffineQuantization
  kTfLiteBlockwiseQuantization = 2   // params: TfLiteBlockwiseQuantization
} TfLiteQuantizationType;

typedef struct TfLiteQuantization {
  TfLiteQuantizationType type;
  void* params;                      // malloc'd, with the arrays in it
} TfLiteQuantization;

// real = scale[i] * (q - zero_point[i]); with more than one scale, i is the index along quantized_dimension.
typedef struct TfLiteAffineQuantization {
  TfLiteFloatArray* scale;
  TfLiteIntArray* zero_point;
  int32_t quantized_dimension;
} TfLiteAffineQuantization;

typedef struct TfLiteBlockwiseQuantization {
  int32_t scale;                     // index of the tensor that holds the scales
  int32_t zero_point;
  int32_t blocksize;
  int32_t quantized_dimension;
} TfLiteBlockwiseQuantization;

typedef union TfLitePtrUnion {
  int32_t* i32;
  uint32_t* u32;
  int64_t* i64;
  uint64_t* u64;
  float* f;
  TfLiteFloat16* f16;
  TfLiteBFloat16* bf16;
  double* f64;
  char* raw;
  const char* raw_const;
  uint8_t* uint8;
  bool* b;
  int16_t* i16;
  uint16_t* ui16;
  TfLiteComplex64* c64;
  TfLiteComplex128* c128;
  int8_t* int8;
  void* data;
} TfLitePtrUnion;

typedef enum TfLiteAllocationType {
  kTfLiteMemNone = 0,
  kTfLiteMmapRo,                     // a constant of the model
  kTfLiteArenaRw,                    // planned by the host; contents last as long as the graph needs them
  kTfLiteArenaRwPersistent,          // the same, and contents last from one invoke to the next
  kTfLiteDynamic,                    // malloc'd when its size is known; strings are always so
  kTfLitePersistentRo,               // malloc'd and filled in prepare, a constant from then on
  kTfLiteCustom,
  kTfLiteVariantObject,
  kTfLiteNonCpu
} TfLiteAllocationType;

typedef enum TfLiteAllocationStrategy {
  kTfLiteAllocationStrategyUnknown,
  kTfLiteAllocationStrategyNone,
  kTfLiteAllocationStrategyMMap,
  kTfLiteAllocationStrategyArena,
  kTfLiteAllocationStrategyMalloc,
  kTfLiteAllocationStrategyNew
} TfLiteAllocationStrategy;

typedef enum TfLiteRunStability {
  kTfLiteRunStabilityUnknown,
  kTfLiteRunStabilityUnstable,
  kTfLiteRunStabilitySingleRun,
  kTfLiteRunStabilityAcrossRuns
} TfLiteRunStability;

typedef enum TfLiteRunStep {
  kTfLiteRunStepUnknown,
  kTfLiteRunStepInit,
  kTfLiteRunStepPrepare,
  kTfLiteRunStepEval
} TfLiteRunStep;

typedef int TfLiteBufferHandle;      // zero or more: the delegate's name for the contents of a tensor
enum { kTfLiteNullBufferHandle = -1 };

typedef struct TfLiteDimensionMetadata {
  TfLiteDimensionType format;
  int dense_size;
  TfLiteIntArray* array_segments;
  TfLiteIntArray* array_indices;
} TfLiteDimensionMetadata;

typedef struct TfLiteSparsity {
  TfLiteIntArray* traversal_order;
  TfLiteIntArray* block_map;
  TfLiteDimensionMetadata* dim_metadata;
  int dim_metadata_size;
} TfLiteSparsity;

typedef struct TfLiteCustomAllocation {
  void* data;
  size_t bytes;
} TfLiteCustomAllocation;

typedef enum TfLiteCustomAllocationFlags {
  kTfLiteCustomAllocationFlagsNone = 0,
  kTfLiteCustomAllocationFlagsSkipAlignCheck = 1
} TfLiteCustomAllocationFlags;

typedef struct TfLiteTensor {
  TfLiteType type;
  TfLitePtrUnion data;               // valid while invoke runs; a constant's also in prepare.  Read it anew each time
  TfLiteIntArray* dims;
  TfLiteQuantizationParams params;   // the same as `quantization` where there is one scale
  TfLiteAllocationType allocation_type;
  size_t bytes;
  const void* allocation;
  const char* name;
  struct TfLiteDelegate* delegate;   // the one that `buffer_handle` belongs to
  TfLiteBufferHandle buffer_handle;
  bool data_is_stale;                // set by a delegate: the contents are in its buffer, not in `data`
  bool is_variable;
  TfLiteQuantization quantization;
  TfLiteSparsity* sparsity;
  const TfLiteIntArray* dims_signature;  // -1 for an unknown dimension; null or empty when all are known
} TfLiteTensor;

typedef struct TfLiteEvalTensor {
  TfLitePtrUnion data;
  TfLiteIntArray* dims;
  TfLiteType type;
} TfLiteEvalTensor;

// ---- Nodes ----

typedef struct TfLiteNode {
  TfLiteIntArray* inputs;            // indices into context->tensors, or kTfLiteOptionalTensor
  TfLiteIntArray* outputs;
  TfLiteIntArray* intermediates;
  TfLiteIntArray* temporaries;       // a kernel may replace the array; the host frees it
  void* user_data;                   // what init returned
  void* builtin_data;                // a struct of builtin_op_data.h, or null
  const void* custom_initial_data;   // the custom op's options
  int custom_initial_data_size;
  struct TfLiteDelegate* delegate;   // for nodes that a delegate runs
  bool might_have_side_effect;
} TfLiteNode;

// What init of a delegate's kernel gets in place of options.
typedef struct TfLiteDelegateParams {
  struct TfLiteDelegate* delegate;
  TfLiteIntArray* nodes_to_replace;
  TfLiteIntArray* input_tensors;
  TfLiteIntArray* output_tensors;
} TfLiteDelegateParams;

typedef struct TfLiteOpaqueDelegateParams {
  TfLiteOpaqueDelegate* delegate;
  void* delegate_data;
  TfLiteIntArray* nodes_to_replace;
  TfLiteIntArray* input_tensors;
  TfLiteIntArray* output_tensors;
} TfLiteOpaqueDelegateParams;

// ---- The context: the host, as a kernel or a delegate may call it ----

typedef struct TfLiteContext {
  size_t tensors_size;
  // Only in Prepare of a delegate or init of its kernel.  The host owns the array; it is valid until the next call.
  TfLiteStatus (*GetExecutionPlan)(struct TfLiteContext* context, TfLiteIntArray** execution_plan);
  TfLiteTensor* tensors;
  void* impl_;                       // not a tflite::Subgraph; not accessible
  // Sets the shape.  Takes ownership of the array, also on failure.
  TfLiteStatus (*ResizeTensor)(struct TfLiteContext*, TfLiteTensor* tensor, TfLiteIntArray* new_size);
  void (*ReportError)(struct TfLiteContext*, const char* msg, ...);
  // Adds tensors permanently: call it once per node, not at each prepare.
  TfLiteStatus (*AddTensors)(struct TfLiteContext*, int tensors_to_add, int* first_new_tensor_index);
  // As GetExecutionPlan.
  TfLiteStatus (*GetNodeAndRegistration)(struct TfLiteContext*, int node_index, TfLiteNode** node,
                                         struct TfLiteRegistration** registration);
  // Only in Prepare of a delegate, whose kernel will run these nodes.
  TfLiteStatus (*ReplaceNodeSubsetsWithDelegateKernels)(struct TfLiteContext*, struct TfLiteRegistration registration,
                                                        const TfLiteIntArray* nodes_to_replace,
                                                        struct TfLiteDelegate* delegate);
  int recommended_num_threads;       // -1: not set
  TfLiteExternalContext* (*GetExternalContext)(struct TfLiteContext*, TfLiteExternalContextType);
  void (*SetExternalContext)(struct TfLiteContext*, TfLiteExternalContextType, TfLiteExternalContext*);
  bool allow_fp32_relax_to_fp16;
  void* profiler;                    // a tflite::Profiler (core/api/profiler.h) in `pylite bench`, else null
  // The next four, GetTensor and GetEvalTensor are null: they serve microcontrollers.
  void* (*AllocatePersistentBuffer)(struct TfLiteContext* ctx, size_t bytes);
  TfLiteStatus (*AllocateBufferForEval)(struct TfLiteContext* ctx, size_t bytes, void** ptr);
  TfLiteStatus (*RequestScratchBufferInArena)(struct TfLiteContext* ctx, size_t bytes, int* buffer_idx);
  void* (*GetScratchBuffer)(struct TfLiteContext* ctx, int buffer_idx);
  // As ResizeTensor; the caller keeps ownership of the shape.
  TfLiteStatus (*ResizeTensorExplicit)(struct TfLiteContext* ctx, TfLiteTensor* tensor, int dims, const int* shape);
  // What ReplaceNodeSubsetsWithDelegateKernels would do.  The host owns the array; it is valid until the next call.
  TfLiteStatus (*PreviewDelegatePartitioning)(struct TfLiteContext* context, const TfLiteIntArray* nodes_to_replace,
                                              TfLiteDelegateParams** partition_params_array, int* num_partitions);
  TfLiteTensor* (*GetTensor)(const struct TfLiteContext* context, int tensor_idx);
  TfLiteEvalTensor* (*GetEvalTensor)(const struct TfLiteContext* context, int tensor_idx);
  TfLiteStatus (*GetModelMetadata)(const struct TfLiteContext* context, const char* name, const char** ptr,
                                   size_t* bytes);
  TfLiteStatus (*AcquireSubgraphContext)(struct TfLiteContext* context, int subgraph_index,
                                         struct TfLiteContext** acquired_context);
  TfLiteStatus (*ReleaseSubgraphContext)(struct TfLiteContext* context, int subgraph_index);
#if defined(_WIN32)
  TfLiteIntArray* (*TfLiteIntArrayCreate)(int size);
  void (*TfLiteIntArrayFree)(TfLiteIntArray* a);
#endif
} TfLiteContext;

// ---- Registrations: what an op is ----

typedef struct TfLiteOperator TfLiteOperator;          // the opaque form, see operator.h
typedef TfLiteOperator TfLiteRegistrationExternal;     // its name until 2024

typedef struct TfLiteRegistration {
  // Once per node.  buffer, length: a custom op's options; for a builtin op its builtin_data and 0; for a delegate's
  // kernel its TfLiteDelegateParams and 0.  The result becomes node->user_data.
  void* (*init)(TfLiteContext* context, const char* buffer, size_t length);
  void (*free)(TfLiteContext* context, void* buffer);
  // At each allocation: checks the inputs and sets the shapes of the outputs.
  TfLiteStatus (*prepare)(TfLiteContext* context, TfLiteNode* node);
  TfLiteStatus (*invoke)(TfLiteContext* context, TfLiteNode* node);
  const char* (*profiling_string)(const TfLiteContext* context, const TfLiteNode* node);
  int32_t builtin_code;
  const char* custom_name;
  int version;
  // The host reads the rest only if the four functions above are all null: binaries made before 2022 end here.
  TfLiteOperator* registration_external;
  struct TfLiteAsyncKernel* (*async_kernel)(TfLiteContext* context, TfLiteNode* node);
  uint64_t inplace_operator;
} TfLiteRegistration;

#define kTfLiteInplaceOpNone 0
#define kTfLiteInplaceOpDataUnmodified 1
#define kTfLiteInplaceInputCanBeSharedWithCorrespondingOutput 2
#define kTfLiteInplaceOpInput0Shared 4
#define kTfLiteInplaceOpInput1Shared 8
#define kTfLiteInplaceOpInput2Shared 16

// ---- Delegates ----

typedef enum TfLiteDelegateFlags {
  kTfLiteDelegateFlagsNone = 0,
  kTfLiteDelegateFlagsAllowDynamicTensors = 1,
  kTfLiteDelegateFlagsRequirePropagatedShapes = 2,
  kTfLiteDelegateFlagsPerOperatorProfiling = 4,
  kTfLiteDelegateFlagsHintFullyDelegatedToSingleDelegate = 8
} TfLiteDelegateFlags;

struct TfLiteDelegate {
  void* data_;                       // the delegate's own
  // Once per graph: inspects it, and claims nodes with ReplaceNodeSubsetsWithDelegateKernels.
  TfLiteStatus (*Prepare)(TfLiteContext* context, struct TfLiteDelegate* delegate);
  // Copies the contents of a stale tensor to tensor->data.  May be null if the delegate uses no handles.
  TfLiteStatus (*CopyFromBufferHandle)(TfLiteContext* context, struct TfLiteDelegate* delegate,
                                       TfLiteBufferHandle buffer_handle, TfLiteTensor* tensor);
  TfLiteStatus (*CopyToBufferHandle)(TfLiteContext* context, struct TfLiteDelegate* delegate,
                                     TfLiteBufferHandle buffer_handle, TfLiteTensor* tensor);
  void (*FreeBufferHandle)(TfLiteContext* context, struct TfLiteDelegate* delegate, TfLiteBufferHandle* handle);
  int64_t flags;
  struct TfLiteOpaqueDelegateBuilder* opaque_delegate_builder;  // read only where Prepare is null
};

typedef struct TfLiteOpaqueDelegateBuilder {
  void* data;
  TfLiteStatus (*Prepare)(TfLiteOpaqueContext* context, TfLiteOpaqueDelegate* delegate, void* data);
  TfLiteStatus (*CopyFromBufferHandle)(TfLiteOpaqueContext* context, TfLiteOpaqueDelegate* delegate, void* data,
                                       TfLiteBufferHandle buffer_handle, TfLiteOpaqueTensor* tensor);
  TfLiteStatus (*CopyToBufferHandle)(TfLiteOpaqueContext* context, TfLiteOpaqueDelegate* delegate, void* data,
                                     TfLiteBufferHandle buffer_handle, TfLiteOpaqueTensor* tensor);
  void (*FreeBufferHandle)(TfLiteOpaqueContext* context, TfLiteOpaqueDelegate* delegate, void* data,
                           TfLiteBufferHandle* handle);
  int64_t flags;
} TfLiteOpaqueDelegateBuilder;

#ifdef __cplusplus
}
#endif

#include "common_inline.h"

#endif
