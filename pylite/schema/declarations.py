"""The .tflite format, schema version 3, as declarations: one entry per table, enumeration and union.

METADATA declares tables of another flatbuffer, a model's metadata TFLITE_METADATA, with the fields that are used.

An entry starts at the margin.  A table lists its fields in the order of their slots:

    name:i32=1      a number (bool, i8 ... u64, f32) with its default, zero when none is given
    name:str        a string
    name:[f32]      a vector of numbers, kept as an array that views the file
    name:(i32)      a short vector of numbers or of an enumeration, kept as a tuple
    name:Padding    an enumeration, kept as the name of its value (as the number if it has no name)
    name:Buffer     a table; name:[Buffer] a vector of tables
    name:BuiltinOptions   a union, which takes two slots: the type's number and the table
    -               a slot that is no longer used

An enumeration gives its storage type and names its values from zero on; a union its tables from one on.
"""

ENUMS = """
TensorType:i8 float32 float16 int32 uint8 int64 string bool int16 complex64 int8 float64 complex128 uint64 resource
  variant uint32 uint16 int4 bfloat16 int2 uint4 float8_e4m3fn float8_e5m2
DimensionType:i8 DENSE SPARSE_CSR
StablehloPrecisionConfig:u32 DEFAULT HIGH HIGHEST
StablehloComparisonDirection:u32 STABLEHLO_COMPARISON_DIRECTION_EQ STABLEHLO_COMPARISON_DIRECTION_NE
  STABLEHLO_COMPARISON_DIRECTION_GE STABLEHLO_COMPARISON_DIRECTION_GT STABLEHLO_COMPARISON_DIRECTION_LE
  STABLEHLO_COMPARISON_DIRECTION_LT
StablehloComparisonType:u32 STABLEHLO_COMPARISON_TYPE_NOTYPE STABLEHLO_COMPARISON_TYPE_FLOAT
  STABLEHLO_COMPARISON_TYPE_FLOAT_TOTAL_ORDER STABLEHLO_COMPARISON_TYPE_SIGNED STABLEHLO_COMPARISON_TYPE_UNSIGNED
RngAlgorithm:i8 DEFAULT PHILOX THREEFRY
Padding:i8 SAME VALID
ActivationFunctionType:i8 NONE RELU RELU_N1_TO_1 RELU6 TANH SIGN_BIT
LSHProjectionType:i8 UNKNOWN SPARSE DENSE
FullyConnectedOptionsWeightsFormat:i8 DEFAULT SHUFFLED4x16INT8
LSTMKernelType:i8 FULL BASIC
CombinerType:i8 SUM MEAN SQRTN
MirrorPadMode:i8 REFLECT SYMMETRIC
ReduceWindowFunction:i32 UNSUPPORTED ADD MUL MINIMUM MAXIMUM ALL ANY
CustomOptionsFormat:i8 FLEXBUFFERS
BuiltinOperator:i32 ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE
  EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION
  LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX
  SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD
  UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE
  UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE
  BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL
  SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW
  ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN
  FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE
  MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG
  QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND
  SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D
  CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL
  CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE
  RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX
  UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC
  STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP
  STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL
  STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG
  STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT
  STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT
  STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL
  STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE
  STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
"""

UNIONS = """
QuantizationDetails NONE CustomQuantization BlockwiseQuantization MultiAxisQuantization
SparseIndexVector NONE Int32Vector Uint16Vector Uint8Vector
BuiltinOptions NONE Conv2DOptions DepthwiseConv2DOptions ConcatEmbeddingsOptions LSHProjectionOptions Pool2DOptions
  SVDFOptions RNNOptions FullyConnectedOptions SoftmaxOptions ConcatenationOptions AddOptions L2NormOptions
  LocalResponseNormalizationOptions LSTMOptions ResizeBilinearOptions CallOptions ReshapeOptions SkipGramOptions
  SpaceToDepthOptions EmbeddingLookupSparseOptions MulOptions PadOptions GatherOptions BatchToSpaceNDOptions
  SpaceToBatchNDOptions TransposeOptions ReducerOptions SubOptions DivOptions SqueezeOptions SequenceRNNOptions
  StridedSliceOptions ExpOptions TopKV2Options SplitOptions LogSoftmaxOptions CastOptions DequantizeOptions
  MaximumMinimumOptions ArgMaxOptions LessOptions NegOptions PadV2Options GreaterOptions GreaterEqualOptions
  LessEqualOptions SelectOptions SliceOptions TransposeConvOptions SparseToDenseOptions TileOptions
  ExpandDimsOptions EqualOptions NotEqualOptions ShapeOptions PowOptions ArgMinOptions FakeQuantOptions PackOptions
  LogicalOrOptions OneHotOptions LogicalAndOptions LogicalNotOptions UnpackOptions FloorDivOptions SquareOptions
  ZerosLikeOptions FillOptions BidirectionalSequenceLSTMOptions BidirectionalSequenceRNNOptions
  UnidirectionalSequenceLSTMOptions FloorModOptions RangeOptions ResizeNearestNeighborOptions LeakyReluOptions
  SquaredDifferenceOptions MirrorPadOptions AbsOptions SplitVOptions UniqueOptions ReverseV2Options AddNOptions
  GatherNdOptions CosOptions WhereOptions RankOptions ReverseSequenceOptions MatrixDiagOptions QuantizeOptions
  MatrixSetDiagOptions HardSwishOptions IfOptions WhileOptions DepthToSpaceOptions NonMaxSuppressionV4Options
  NonMaxSuppressionV5Options ScatterNdOptions SelectV2Options DensifyOptions SegmentSumOptions BatchMatMulOptions
  CumsumOptions CallOnceOptions BroadcastToOptions Rfft2dOptions Conv3DOptions HashtableOptions HashtableFindOptions
  HashtableImportOptions HashtableSizeOptions VarHandleOptions ReadVariableOptions AssignVariableOptions
  RandomOptions BucketizeOptions GeluOptions DynamicUpdateSliceOptions UnsortedSegmentProdOptions
  UnsortedSegmentMaxOptions UnsortedSegmentMinOptions UnsortedSegmentSumOptions ATan2Options SignOptions
  BitcastOptions BitwiseXorOptions RightShiftOptions
BuiltinOptions2 NONE StablehloConcatenateOptions StablehloBroadcastInDimOptions StablehloSliceOptions
  StablehloConvolutionOptions StablehloCustomCallOptions StablehloReduceOptions StablehloScatterOptions
  StablehloCompareOptions StablehloDynamicSliceOptions StablehloPadOptions StablehloIotaOptions
  StablehloDotGeneralOptions StablehloReduceWindowOptions StablehloSortOptions StablehloWhileOptions
  StablehloGatherOptions StablehloTransposeOptions DilateOptions StablehloRngBitGeneratorOptions ReduceWindowOptions
  StableHLOCompositeOptions StablehloShiftLeftOptions StablehloCaseOptions
ContentProperties NONE FeatureProperties ImageProperties BoundingBoxProperties AudioProperties
ProcessUnitOptions NONE NormalizationOptions ScoreCalibrationOptions ScoreThresholdingOptions BertTokenizerOptions
  SentencePieceTokenizerOptions RegexTokenizerOptions
"""

TABLES = """
CustomQuantization custom:[u8]
BlockwiseQuantization scales:i32 zero_points:i32 block_size:i32 block_shape:(i32)
MultiAxisQuantization scales:i32 zero_points:i32 block_size:i32 quantized_dimensions:(i32)
QuantizationParameters min:[f32] max:[f32] scale:[f32] zero_point:[i64] details:QuantizationDetails
  quantized_dimension:i32
Int32Vector values:[i32]
Uint16Vector values:[u16]
Uint8Vector values:[u8]
DimensionMetadata format:DimensionType dense_size:i32 array_segments:SparseIndexVector
  array_indices:SparseIndexVector
SparsityParameters traversal_order:(i32) block_map:(i32) dim_metadata:[DimensionMetadata]
VariantSubType shape:(i32) type:TensorType has_rank:bool
Tensor shape:(i32) type:TensorType buffer:u32 name:str quantization:QuantizationParameters is_variable:bool
  sparsity:SparsityParameters shape_signature:(i32) has_rank:bool variant_tensors:[VariantSubType]
  external_buffer:u32
OperatorCode deprecated_builtin_code:i8 custom_code:str version:i32=1 builtin_code:BuiltinOperator
Operator opcode_index:u32 inputs:(i32) outputs:(i32) builtin_options:BuiltinOptions custom_options:[u8]
  custom_options_format:CustomOptionsFormat mutating_variable_inputs:(bool) intermediates:(i32)
  large_custom_options_offset:u64 large_custom_options_size:u64 builtin_options2:BuiltinOptions2
  debug_metadata_index:i32=-1
SubGraph tensors:[Tensor] inputs:(i32) outputs:(i32) operators:[Operator] name:str debug_metadata_index:i32=-1
Buffer data:[u8] offset:u64 size:u64
ExternalBufferGroup name:str
ExternalBuffer id:u32 group:u32 offset:u64 length:u64 packing:str
Metadata name:str buffer:u32
TensorMap name:str tensor_index:u32
SignatureDef inputs:[TensorMap] outputs:[TensorMap] signature_key:str - subgraph_index:u32
Model version:u32 operator_codes:[OperatorCode] subgraphs:[SubGraph] description:str buffers:[Buffer]
  metadata_buffer:(i32) metadata:[Metadata] signature_defs:[SignatureDef]
  external_buffer_groups:[ExternalBufferGroup] external_buffers:[ExternalBuffer]
Conv2DOptions padding:Padding stride_w:i32 stride_h:i32 fused_activation_function:ActivationFunctionType
  dilation_w_factor:i32=1 dilation_h_factor:i32=1 quantized_bias_type:TensorType
Conv3DOptions padding:Padding stride_d:i32 stride_w:i32 stride_h:i32
  fused_activation_function:ActivationFunctionType dilation_d_factor:i32=1 dilation_w_factor:i32=1
  dilation_h_factor:i32=1
Pool2DOptions padding:Padding stride_w:i32 stride_h:i32 filter_width:i32 filter_height:i32
  fused_activation_function:ActivationFunctionType
DepthwiseConv2DOptions padding:Padding stride_w:i32 stride_h:i32 depth_multiplier:i32
  fused_activation_function:ActivationFunctionType dilation_w_factor:i32=1 dilation_h_factor:i32=1
ConcatEmbeddingsOptions num_channels:i32 num_columns_per_channel:(i32) embedding_dim_per_channel:(i32)
LSHProjectionOptions type:LSHProjectionType
SVDFOptions rank:i32 fused_activation_function:ActivationFunctionType asymmetric_quantize_inputs:bool
RNNOptions fused_activation_function:ActivationFunctionType asymmetric_quantize_inputs:bool
SequenceRNNOptions time_major:bool fused_activation_function:ActivationFunctionType asymmetric_quantize_inputs:bool
BidirectionalSequenceRNNOptions time_major:bool fused_activation_function:ActivationFunctionType merge_outputs:bool
  asymmetric_quantize_inputs:bool
FullyConnectedOptions fused_activation_function:ActivationFunctionType
  weights_format:FullyConnectedOptionsWeightsFormat keep_num_dims:bool asymmetric_quantize_inputs:bool
  quantized_bias_type:TensorType quant_spec:[u8]
SoftmaxOptions beta:f32
ConcatenationOptions axis:i32 fused_activation_function:ActivationFunctionType
AddOptions fused_activation_function:ActivationFunctionType pot_scale_int16:bool=1
MulOptions fused_activation_function:ActivationFunctionType
L2NormOptions fused_activation_function:ActivationFunctionType
LocalResponseNormalizationOptions radius:i32 bias:f32 alpha:f32 beta:f32
LSTMOptions fused_activation_function:ActivationFunctionType cell_clip:f32 proj_clip:f32 kernel_type:LSTMKernelType
  asymmetric_quantize_inputs:bool
UnidirectionalSequenceLSTMOptions fused_activation_function:ActivationFunctionType cell_clip:f32 proj_clip:f32
  time_major:bool asymmetric_quantize_inputs:bool diagonal_recurrent_tensors:bool
BidirectionalSequenceLSTMOptions fused_activation_function:ActivationFunctionType cell_clip:f32 proj_clip:f32
  merge_outputs:bool time_major:bool=1 asymmetric_quantize_inputs:bool
ResizeBilinearOptions - - align_corners:bool half_pixel_centers:bool
ResizeNearestNeighborOptions align_corners:bool half_pixel_centers:bool
CallOptions subgraph:u32
ReshapeOptions new_shape:(i32)
SkipGramOptions ngram_size:i32 max_skip_size:i32 include_all_ngrams:bool
SpaceToDepthOptions block_size:i32
DepthToSpaceOptions block_size:i32
SubOptions fused_activation_function:ActivationFunctionType pot_scale_int16:bool=1
DivOptions fused_activation_function:ActivationFunctionType
EmbeddingLookupSparseOptions combiner:CombinerType
GatherOptions axis:i32 batch_dims:i32
ReducerOptions keep_dims:bool
SqueezeOptions squeeze_dims:(i32)
SplitOptions num_splits:i32
SplitVOptions num_splits:i32
StridedSliceOptions begin_mask:i32 end_mask:i32 ellipsis_mask:i32 new_axis_mask:i32 shrink_axis_mask:i32 offset:bool
CastOptions in_data_type:TensorType out_data_type:TensorType
ArgMaxOptions output_type:TensorType
ArgMinOptions output_type:TensorType
TransposeConvOptions padding:Padding stride_w:i32 stride_h:i32 fused_activation_function:ActivationFunctionType
  quantized_bias_type:TensorType
SparseToDenseOptions validate_indices:bool
ShapeOptions out_type:TensorType
FakeQuantOptions min:f32 max:f32 num_bits:i32 narrow_range:bool
PackOptions values_count:i32 axis:i32
OneHotOptions axis:i32
UnpackOptions num:i32 axis:i32
LeakyReluOptions alpha:f32
MirrorPadOptions mode:MirrorPadMode
UniqueOptions idx_out_type:TensorType=2
ReverseSequenceOptions seq_dim:i32 batch_dim:i32
IfOptions then_subgraph_index:i32 else_subgraph_index:i32
CallOnceOptions init_subgraph_index:i32
WhileOptions cond_subgraph_index:i32 body_subgraph_index:i32
BatchMatMulOptions adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool
CumsumOptions exclusive:bool reverse:bool
HashtableOptions table_id:i32 key_dtype:TensorType value_dtype:TensorType
VarHandleOptions container:str shared_name:str
RandomOptions seed:i64 seed2:i64
BucketizeOptions boundaries:[f32]
GeluOptions approximate:bool
ReduceWindowOptions reduce_function:ReduceWindowFunction
StablehloGatherOptions offset_dims:(i64) collapsed_slice_dims:(i64) start_index_map:(i64) index_vector_dim:i64
  slice_sizes:(i64) indices_are_sorted:bool
StablehloTransposeOptions permutation:(i64)
StablehloDotGeneralOptions lhs_batching_dimensions:(i64) rhs_batching_dimensions:(i64)
  lhs_contracting_dimensions:(i64) rhs_contracting_dimensions:(i64) precision_config:(StablehloPrecisionConfig)
StablehloReduceWindowOptions window_dimensions:(i64) window_strides:(i64) base_dilations:(i64)
  window_dilations:(i64) padding:(i64) body_subgraph_index:i32
StablehloWhileOptions cond_subgraph_index:i32 body_subgraph_index:i32
StablehloSortOptions dimension:i64 is_stable:bool comparator_subgraph_index:i32
StablehloConcatenateOptions dimension:i64
StablehloBroadcastInDimOptions broadcast_dimensions:(i64)
StablehloCompareOptions comparison_direction:StablehloComparisonDirection compare_type:StablehloComparisonType
StablehloDynamicSliceOptions slice_sizes:(i64)
StablehloPadOptions edge_padding_low:(i64) edge_padding_high:(i64) interior_padding:(i64)
StablehloIotaOptions iota_dimension:i64
StablehloCustomCallOptions call_target_name:str has_side_effect:bool backend_config:str api_version:i32
  called_computations:(i32) custom_attributes:[u8]
StablehloReduceOptions dimensions:(i64) body_subgraph_index:i32
StablehloSliceOptions start_indices:(i64) limit_indices:(i64) strides:(i64)
StablehloConvolutionOptions window_strides:(i64) padding:(i64) lhs_dilation:(i64) rhs_dilation:(i64)
  window_reversal:(bool) input_batch_dimension:i64 input_feature_dimension:i64 input_spatial_dimensions:(i64)
  kernel_input_feature_dimension:i64 kernel_output_feature_dimension:i64 kernel_spatial_dimensions:(i64)
  output_batch_dimension:i64 output_feature_dimension:i64 output_spatial_dimensions:(i64) feature_group_count:i64
  batch_group_count:i64 precision_config:(StablehloPrecisionConfig)
StablehloScatterOptions indices_are_sorted:bool update_window_dims:(i64) inserted_window_dims:(i64)
  scatter_dims_to_operand_dims:(i64) index_vector_dim:i64 unique_indices:bool update_computation_subgraph_index:i32
StablehloCaseOptions branch_subgraph_indices:(i32)
StablehloRngBitGeneratorOptions algorithm:RngAlgorithm
StableHLOCompositeOptions name:str decomposition_subgraph_index:i32 composite_attributes:[u8]
  composite_attributes_format:CustomOptionsFormat version:i32
"""

METADATA = """
FeatureProperties -
AssociatedFile name:str description:str type:i8 locale:str
ImageProperties color_space:i8
BoundingBoxProperties index:(u32) type:i8 coordinate_type:i8
AudioProperties sample_rate:u32 channels:u32
BertTokenizerOptions vocab_file:[AssociatedFile]
SentencePieceTokenizerOptions -
RegexTokenizerOptions delim_regex_pattern:str vocab_file:[AssociatedFile]
Content content_properties:ContentProperties
NormalizationOptions mean:(f32) std:(f32)
ScoreCalibrationOptions score_transformation:i8 default_score:f32
ScoreThresholdingOptions global_score_threshold:f32
ProcessUnit options:ProcessUnitOptions
TensorMetadata name:str description:str - content:Content process_units:[ProcessUnit] -
  associated_files:[AssociatedFile]
SubGraphMetadata name:str description:str input_tensor_metadata:[TensorMetadata] output_tensor_metadata:[TensorMetadata]
  associated_files:[AssociatedFile] input_process_units:[ProcessUnit]
ModelMetadata name:str description:str version:str subgraph_metadata:[SubGraphMetadata]
"""

# Options without fields.
EMPTY_TABLES = """
PadOptions PadV2Options SpaceToBatchNDOptions BatchToSpaceNDOptions TopKV2Options TransposeOptions ExpOptions
CosOptions LogSoftmaxOptions DequantizeOptions MaximumMinimumOptions TileOptions GreaterOptions GreaterEqualOptions
LessOptions LessEqualOptions NegOptions SelectOptions SliceOptions ExpandDimsOptions EqualOptions NotEqualOptions
RankOptions PowOptions LogicalOrOptions AbsOptions HardSwishOptions LogicalAndOptions LogicalNotOptions
FloorDivOptions SquareOptions ZerosLikeOptions FillOptions FloorModOptions RangeOptions SquaredDifferenceOptions
ReverseV2Options AddNOptions GatherNdOptions WhereOptions MatrixDiagOptions QuantizeOptions MatrixSetDiagOptions
NonMaxSuppressionV4Options NonMaxSuppressionV5Options ScatterNdOptions SelectV2Options DensifyOptions
SegmentSumOptions BroadcastToOptions Rfft2dOptions HashtableFindOptions HashtableImportOptions HashtableSizeOptions
ReadVariableOptions AssignVariableOptions DynamicUpdateSliceOptions UnsortedSegmentProdOptions
UnsortedSegmentMaxOptions UnsortedSegmentSumOptions ATan2Options UnsortedSegmentMinOptions SignOptions BitcastOptions
BitwiseXorOptions RightShiftOptions DilateOptions StablehloShiftLeftOptions
"""

# The options of an operator are the table of its name (CONV_2D: Conv2DOptions), save for these.
OPTIONS = """
AVERAGE_POOL_2D:Pool2DOptions MAX_POOL_2D:Pool2DOptions L2_POOL_2D:Pool2DOptions L2_NORMALIZATION:L2NormOptions
MAXIMUM:MaximumMinimumOptions MINIMUM:MaximumMinimumOptions CONV_3D_TRANSPOSE:Conv3DOptions
MEAN:ReducerOptions SUM:ReducerOptions REDUCE_PROD:ReducerOptions REDUCE_MAX:ReducerOptions
REDUCE_MIN:ReducerOptions REDUCE_ANY:ReducerOptions REDUCE_ALL:ReducerOptions
UNIDIRECTIONAL_SEQUENCE_RNN:SequenceRNNOptions RANDOM_STANDARD_NORMAL:RandomOptions RANDOM_UNIFORM:RandomOptions
MULTINOMIAL:RandomOptions
"""
