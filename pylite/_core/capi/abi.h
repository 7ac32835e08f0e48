// Compile-time checks that the shipped headers have the layout of existing plug-in binaries on 64-bit machines.
#ifndef PYLITE_ABI_H
#define PYLITE_ABI_H

#include "../../include/tensorflow/lite/c/builtin_op_data.h"
#include "../../include/tensorflow/lite/c/common.h"
#include "capi_assertions.h"    // generated from builtin_op_data.h by layouts.py

#if UINTPTR_MAX == UINT64_MAX
#define OFFSET(type, field, at) _Static_assert(offsetof(type, field) == (at), #type "." #field)
#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)

OFFSET(TfLiteContext, tensors_size, 0);
OFFSET(TfLiteContext, GetExecutionPlan, 8);
OFFSET(TfLiteContext, tensors, 16);
OFFSET(TfLiteContext, impl_, 24);
OFFSET(TfLiteContext, ResizeTensor, 32);
OFFSET(TfLiteContext, ReportError, 40);
OFFSET(TfLiteContext, AddTensors, 48);
OFFSET(TfLiteContext, GetNodeAndRegistration, 56);
OFFSET(TfLiteContext, ReplaceNodeSubsetsWithDelegateKernels, 64);
OFFSET(TfLiteContext, recommended_num_threads, 72);
OFFSET(TfLiteContext, GetExternalContext, 80);
OFFSET(TfLiteContext, SetExternalContext, 88);
OFFSET(TfLiteContext, allow_fp32_relax_to_fp16, 96);
OFFSET(TfLiteContext, profiler, 104);
OFFSET(TfLiteContext, AllocatePersistentBuffer, 112);
OFFSET(TfLiteContext, AllocateBufferForEval, 120);
OFFSET(TfLiteContext, RequestScratchBufferInArena, 128);
OFFSET(TfLiteContext, GetScratchBuffer, 136);
OFFSET(TfLiteContext, ResizeTensorExplicit, 144);
OFFSET(TfLiteContext, PreviewDelegatePartitioning, 152);
OFFSET(TfLiteContext, GetTensor, 160);
OFFSET(TfLiteContext, GetEvalTensor, 168);
OFFSET(TfLiteContext, GetModelMetadata, 176);
OFFSET(TfLiteContext, AcquireSubgraphContext, 184);
OFFSET(TfLiteContext, ReleaseSubgraphContext, 192);
SIZE(TfLiteContext, 200);
OFFSET(TfLiteTensor, type, 0);
OFFSET(TfLiteTensor, data, 8);
OFFSET(TfLiteTensor, dims, 16);
OFFSET(TfLiteTensor, params, 24);
OFFSET(TfLiteTensor, allocation_type, 32);
OFFSET(TfLiteTensor, bytes, 40);
OFFSET(TfLiteTensor, allocation, 48);
OFFSET(TfLiteTensor, name, 56);
OFFSET(TfLiteTensor, delegate, 64);
OFFSET(TfLiteTensor, buffer_handle, 72);
OFFSET(TfLiteTensor, data_is_stale, 76);
OFFSET(TfLiteTensor, is_variable, 77);
OFFSET(TfLiteTensor, quantization, 80);
OFFSET(TfLiteTensor, sparsity, 96);
OFFSET(TfLiteTensor, dims_signature, 104);
SIZE(TfLiteTensor, 112);
OFFSET(TfLiteNode, inputs, 0);
OFFSET(TfLiteNode, outputs, 8);
OFFSET(TfLiteNode, intermediates, 16);
OFFSET(TfLiteNode, temporaries, 24);
OFFSET(TfLiteNode, user_data, 32);
OFFSET(TfLiteNode, builtin_data, 40);
OFFSET(TfLiteNode, custom_initial_data, 48);
OFFSET(TfLiteNode, custom_initial_data_size, 56);
OFFSET(TfLiteNode, delegate, 64);
OFFSET(TfLiteNode, might_have_side_effect, 72);
SIZE(TfLiteNode, 80);
OFFSET(TfLiteRegistration, init, 0);
OFFSET(TfLiteRegistration, free, 8);
OFFSET(TfLiteRegistration, prepare, 16);
OFFSET(TfLiteRegistration, invoke, 24);
OFFSET(TfLiteRegistration, profiling_string, 32);
OFFSET(TfLiteRegistration, builtin_code, 40);
OFFSET(TfLiteRegistration, custom_name, 48);
OFFSET(TfLiteRegistration, version, 56);
OFFSET(TfLiteRegistration, registration_external, 64);
OFFSET(TfLiteRegistration, async_kernel, 72);
OFFSET(TfLiteRegistration, inplace_operator, 80);
SIZE(TfLiteRegistration, 88);
OFFSET(TfLiteDelegate, data_, 0);
OFFSET(TfLiteDelegate, Prepare, 8);
OFFSET(TfLiteDelegate, CopyFromBufferHandle, 16);
OFFSET(TfLiteDelegate, CopyToBufferHandle, 24);
OFFSET(TfLiteDelegate, FreeBufferHandle, 32);
OFFSET(TfLiteDelegate, flags, 40);
OFFSET(TfLiteDelegate, opaque_delegate_builder, 48);
SIZE(TfLiteDelegate, 56);
OFFSET(TfLiteDelegateParams, delegate, 0);
OFFSET(TfLiteDelegateParams, nodes_to_replace, 8);
OFFSET(TfLiteDelegateParams, input_tensors, 16);
OFFSET(TfLiteDelegateParams, output_tensors, 24);
SIZE(TfLiteDelegateParams, 32);
OFFSET(TfLiteOpaqueDelegateParams, delegate, 0);
OFFSET(TfLiteOpaqueDelegateParams, delegate_data, 8);
OFFSET(TfLiteOpaqueDelegateParams, nodes_to_replace, 16);
OFFSET(TfLiteOpaqueDelegateParams, input_tensors, 24);
OFFSET(TfLiteOpaqueDelegateParams, output_tensors, 32);
SIZE(TfLiteOpaqueDelegateParams, 40);
OFFSET(TfLiteOpaqueDelegateBuilder, data, 0);
OFFSET(TfLiteOpaqueDelegateBuilder, Prepare, 8);
OFFSET(TfLiteOpaqueDelegateBuilder, CopyFromBufferHandle, 16);
OFFSET(TfLiteOpaqueDelegateBuilder, CopyToBufferHandle, 24);
OFFSET(TfLiteOpaqueDelegateBuilder, FreeBufferHandle, 32);
OFFSET(TfLiteOpaqueDelegateBuilder, flags, 40);
SIZE(TfLiteOpaqueDelegateBuilder, 48);
OFFSET(TfLiteAffineQuantization, scale, 0);
OFFSET(TfLiteAffineQuantization, zero_point, 8);
OFFSET(TfLiteAffineQuantization, quantized_dimension, 16);
SIZE(TfLiteAffineQuantization, 24);
OFFSET(TfLiteQuantization, type, 0);
OFFSET(TfLiteQuantization, params, 8);
SIZE(TfLiteQuantization, 16);
SIZE(TfLiteQuantizationParams, 8);
OFFSET(TfLiteSparsity, traversal_order, 0);
OFFSET(TfLiteSparsity, block_map, 8);
OFFSET(TfLiteSparsity, dim_metadata, 16);
OFFSET(TfLiteSparsity, dim_metadata_size, 24);
SIZE(TfLiteSparsity, 32);
OFFSET(TfLiteDimensionMetadata, format, 0);
OFFSET(TfLiteDimensionMetadata, dense_size, 4);
OFFSET(TfLiteDimensionMetadata, array_segments, 8);
OFFSET(TfLiteDimensionMetadata, array_indices, 16);
SIZE(TfLiteDimensionMetadata, 24);
OFFSET(TfLiteExternalContext, type, 0);
OFFSET(TfLiteExternalContext, Refresh, 8);
SIZE(TfLiteExternalContext, 16);
OFFSET(TfLiteIntArray, data, 4);
SIZE(TfLiteIntArray, 4);
OFFSET(TfLiteFloatArray, data, 4);
SIZE(TfLiteFloatArray, 4);
OFFSET(TfLiteCustomAllocation, bytes, 8);
SIZE(TfLiteCustomAllocation, 16);
SIZE(TfLiteConvParams, 28);
SIZE(TfLiteFullyConnectedParams, 16);
SIZE(TfLiteStridedSliceParams, 24);
SIZE(TfLiteTransposeConvParams, 20);

#undef OFFSET
#undef SIZE
#endif
#endif
