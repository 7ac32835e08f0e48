// Compile-time checks that the shipped headers have the layout of existing plug-in binaries on 64-bit machines.
#ifndef PYLITE_ABI_H
#define PYLITE_ABI_H

#include "../../include/tensorflow/lite/c/builtin_op_data.h"
#include "../../include/tensorflow/lite/c/common.h"
#include "capi_assertions.h"    // generated from builtin_op_data.h by layouts.py

#if UINTPTR_MAX == UINT64_MAX
#define AT(type, field, at) _Static_assert(offsetof(type, field) == (at), #type "." #field)
#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)

AT(TfLiteContext, tensors_size, 0);
AT(TfLiteContext, GetExecutionPlan, 8);
AT(TfLiteContext, tensors, 16);
AT(TfLiteContext, impl_, 24);
AT(TfLiteContext, ResizeTensor, 32);
AT(TfLiteContext, ReportError, 40);
AT(TfLiteContext, AddTensors, 48);
AT(TfLiteContext, GetNodeAndRegistration, 56);
AT(TfLiteContext, ReplaceNodeSubsetsWithDelegateKernels, 64);
AT(TfLiteContext, recommended_num_threads, 72);
AT(TfLiteContext, GetExternalContext, 80);
AT(TfLiteContext, SetExternalContext, 88);
AT(TfLiteContext, allow_fp32_relax_to_fp16, 96);
AT(TfLiteContext, profiler, 104);
AT(TfLiteContext, AllocatePersistentBuffer, 112);
AT(TfLiteContext, AllocateBufferForEval, 120);
AT(TfLiteContext, RequestScratchBufferInArena, 128);
AT(TfLiteContext, GetScratchBuffer, 136);
AT(TfLiteContext, ResizeTensorExplicit, 144);
AT(TfLiteContext, PreviewDelegatePartitioning, 152);
AT(TfLiteContext, GetTensor, 160);
AT(TfLiteContext, GetEvalTensor, 168);
AT(TfLiteContext, GetModelMetadata, 176);
AT(TfLiteContext, AcquireSubgraphContext, 184);
AT(TfLiteContext, ReleaseSubgraphContext, 192);
SIZE(TfLiteContext, 200);
AT(TfLiteTensor, type, 0);
AT(TfLiteTensor, data, 8);
AT(TfLiteTensor, dims, 16);
AT(TfLiteTensor, params, 24);
AT(TfLiteTensor, allocation_type, 32);
AT(TfLiteTensor, bytes, 40);
AT(TfLiteTensor, allocation, 48);
AT(TfLiteTensor, name, 56);
AT(TfLiteTensor, delegate, 64);
AT(TfLiteTensor, buffer_handle, 72);
AT(TfLiteTensor, data_is_stale, 76);
AT(TfLiteTensor, is_variable, 77);
AT(TfLiteTensor, quantization, 80);
AT(TfLiteTensor, sparsity, 96);
AT(TfLiteTensor, dims_signature, 104);
SIZE(TfLiteTensor, 112);
AT(TfLiteNode, inputs, 0);
AT(TfLiteNode, outputs, 8);
AT(TfLiteNode, intermediates, 16);
AT(TfLiteNode, temporaries, 24);
AT(TfLiteNode, user_data, 32);
AT(TfLiteNode, builtin_data, 40);
AT(TfLiteNode, custom_initial_data, 48);
AT(TfLiteNode, custom_initial_data_size, 56);
AT(TfLiteNode, delegate, 64);
AT(TfLiteNode, might_have_side_effect, 72);
SIZE(TfLiteNode, 80);
AT(TfLiteRegistration, init, 0);
AT(TfLiteRegistration, free, 8);
AT(TfLiteRegistration, prepare, 16);
AT(TfLiteRegistration, invoke, 24);
AT(TfLiteRegistration, profiling_string, 32);
AT(TfLiteRegistration, builtin_code, 40);
AT(TfLiteRegistration, custom_name, 48);
AT(TfLiteRegistration, version, 56);
AT(TfLiteRegistration, registration_external, 64);
AT(TfLiteRegistration, async_kernel, 72);
AT(TfLiteRegistration, inplace_operator, 80);
SIZE(TfLiteRegistration, 88);
AT(TfLiteDelegate, data_, 0);
AT(TfLiteDelegate, Prepare, 8);
AT(TfLiteDelegate, CopyFromBufferHandle, 16);
AT(TfLiteDelegate, CopyToBufferHandle, 24);
AT(TfLiteDelegate, FreeBufferHandle, 32);
AT(TfLiteDelegate, flags, 40);
AT(TfLiteDelegate, opaque_delegate_builder, 48);
SIZE(TfLiteDelegate, 56);
AT(TfLiteDelegateParams, delegate, 0);
AT(TfLiteDelegateParams, nodes_to_replace, 8);
AT(TfLiteDelegateParams, input_tensors, 16);
AT(TfLiteDelegateParams, output_tensors, 24);
SIZE(TfLiteDelegateParams, 32);
AT(TfLiteOpaqueDelegateParams, delegate, 0);
AT(TfLiteOpaqueDelegateParams, delegate_data, 8);
AT(TfLiteOpaqueDelegateParams, nodes_to_replace, 16);
AT(TfLiteOpaqueDelegateParams, input_tensors, 24);
AT(TfLiteOpaqueDelegateParams, output_tensors, 32);
SIZE(TfLiteOpaqueDelegateParams, 40);
AT(TfLiteOpaqueDelegateBuilder, data, 0);
AT(TfLiteOpaqueDelegateBuilder, Prepare, 8);
AT(TfLiteOpaqueDelegateBuilder, CopyFromBufferHandle, 16);
AT(TfLiteOpaqueDelegateBuilder, CopyToBufferHandle, 24);
AT(TfLiteOpaqueDelegateBuilder, FreeBufferHandle, 32);
AT(TfLiteOpaqueDelegateBuilder, flags, 40);
SIZE(TfLiteOpaqueDelegateBuilder, 48);
AT(TfLiteAffineQuantization, scale, 0);
AT(TfLiteAffineQuantization, zero_point, 8);
AT(TfLiteAffineQuantization, quantized_dimension, 16);
SIZE(TfLiteAffineQuantization, 24);
AT(TfLiteQuantization, type, 0);
AT(TfLiteQuantization, params, 8);
SIZE(TfLiteQuantization, 16);
SIZE(TfLiteQuantizationParams, 8);
AT(TfLiteSparsity, traversal_order, 0);
AT(TfLiteSparsity, block_map, 8);
AT(TfLiteSparsity, dim_metadata, 16);
AT(TfLiteSparsity, dim_metadata_size, 24);
SIZE(TfLiteSparsity, 32);
AT(TfLiteDimensionMetadata, format, 0);
AT(TfLiteDimensionMetadata, dense_size, 4);
AT(TfLiteDimensionMetadata, array_segments, 8);
AT(TfLiteDimensionMetadata, array_indices, 16);
SIZE(TfLiteDimensionMetadata, 24);
AT(TfLiteExternalContext, type, 0);
AT(TfLiteExternalContext, Refresh, 8);
SIZE(TfLiteExternalContext, 16);
AT(TfLiteIntArray, data, 4);
SIZE(TfLiteIntArray, 4);
AT(TfLiteFloatArray, data, 4);
SIZE(TfLiteFloatArray, 4);
AT(TfLiteCustomAllocation, bytes, 8);
SIZE(TfLiteCustomAllocation, 16);
SIZE(TfLiteConvParams, 28);
SIZE(TfLiteFullyConnectedParams, 16);
SIZE(TfLiteStridedSliceParams, 24);
SIZE(TfLiteTransposeConvParams, 20);

#undef AT
#undef SIZE
#endif
#endif
