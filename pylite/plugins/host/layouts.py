"""builtin_data: the parameters of builtin ops as C structs, laid out as the header that plug-ins include says.

As a script, writes a header of compile-time assertions that the C compiler uses the same layout.
"""
import ctypes
import re
import sys
from functools import cache
from pathlib import Path

HEADER = Path(__file__).parents[2] / "include" / "tensorflow" / "lite" / "c" / "builtin_op_data.h"

_C_TYPES = {"char": ctypes.c_char, "bool": ctypes.c_bool, "int": ctypes.c_int, "float": ctypes.c_float,
            "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64,
            "size_t": ctypes.c_size_t}

# Builtin op -> struct, without the "TfLite" and "Params" around all names.  Other ops have no builtin_data.
_STRUCT_NAMES = """
ADD:Add ARG_MAX:ArgMax ARG_MIN:ArgMin AVERAGE_POOL_2D:Pool BATCH_MATMUL:BatchMatMul
BIDIRECTIONAL_SEQUENCE_LSTM:BidirectionalSequenceLSTM BIDIRECTIONAL_SEQUENCE_RNN:BidirectionalSequenceRNN
BUCKETIZE:Bucketize CALL_ONCE:CallOnce CAST:Cast CONCATENATION:Concatenation CONV_2D:Conv CONV_3D:Conv3D
CONV_3D_TRANSPOSE:Conv3D CUMSUM:Cumsum DEPTH_TO_SPACE:DepthToSpace DEPTHWISE_CONV_2D:DepthwiseConv DIV:Div
EMBEDDING_LOOKUP_SPARSE:EmbeddingLookupSparse FAKE_QUANT:FakeQuant FULLY_CONNECTED:FullyConnected GATHER:Gather
GELU:Gelu HASHTABLE:Hashtable IF:If L2_NORMALIZATION:L2Norm L2_POOL_2D:Pool LEAKY_RELU:LeakyRelu
LOCAL_RESPONSE_NORMALIZATION:LocalResponseNorm LSH_PROJECTION:LSHProjection LSTM:LSTM MAX_POOL_2D:Pool MEAN:Reducer
MIRROR_PAD:MirrorPadding MUL:Mul MULTINOMIAL:Random ONE_HOT:OneHot PACK:Pack RANDOM_STANDARD_NORMAL:Random
RANDOM_UNIFORM:Random REDUCE_ALL:Reducer REDUCE_ANY:Reducer REDUCE_MAX:Reducer REDUCE_MIN:Reducer REDUCE_PROD:Reducer
REDUCE_WINDOW:ReduceWindow RESHAPE:Reshape RESIZE_BILINEAR:ResizeBilinear
RESIZE_NEAREST_NEIGHBOR:ResizeNearestNeighbor REVERSE_SEQUENCE:ReverseSequence RNN:RNN SHAPE:Shape SKIP_GRAM:SkipGram
SOFTMAX:Softmax SPACE_TO_DEPTH:SpaceToDepth SPARSE_TO_DENSE:SparseToDense SPLIT:Split SPLIT_V:SplitV SQUEEZE:Squeeze
STABLEHLO_CASE:StablehloCase STABLEHLO_COMPOSITE:StablehloComposite STABLEHLO_CONCATENATE:StablehloConcatenate
STABLEHLO_GATHER:StablehloGather STABLEHLO_PAD:StablehloPad STABLEHLO_REDUCE_WINDOW:StablehloReduceWindow
STABLEHLO_RNG_BIT_GENERATOR:StablehloRngBitGenerator STABLEHLO_SCATTER:StablehloScatter STRIDED_SLICE:StridedSlice
SUB:Sub SUM:Reducer SVDF:SVDF TRANSPOSE_CONV:TransposeConv UNIDIRECTIONAL_SEQUENCE_LSTM:UnidirectionalSequenceLSTM
UNIDIRECTIONAL_SEQUENCE_RNN:SequenceRNN UNIQUE:Unique UNPACK:Unpack VAR_HANDLE:VarHandle WHILE:While
"""
_STRUCTS = dict(item.split(":") for item in _STRUCT_NAMES.split())

# Field -> option, where their names differ.
_RENAMES = """
activation:fused_activation_function stride_width:stride_w stride_height:stride_h stride_depth:stride_d
dilation_width_factor:dilation_w_factor dilation_height_factor:dilation_h_factor
dilation_depth_factor:dilation_d_factor shape:new_shape num_dimensions:new_shape num_squeeze_dims:squeeze_dims
index_out_type:idx_out_type subgraph_index:decomposition_subgraph_index attributes:composite_attributes
attributes_size:composite_attributes num_branches:branch_subgraph_indices
"""
_RENAMED = dict(item.split(":") for item in _RENAMES.split())

# Fields with the length of the option of their name.
_COUNTED = """
num_boundaries num_collapsed_slice_dims num_inserted_window_dims num_offset_dims num_scatter_dims_to_operand_dims
num_slice_sizes num_start_index_map num_update_window_dims
"""
_COUNTS = _COUNTED.split()

# Type of an enumerated field -> the names of its values in the model file, in order.
_ENUMS = {
    "TfLitePadding": ("", "SAME", "VALID"),
    "TfLiteMirrorPaddingMode": ("", "REFLECT", "SYMMETRIC"),
    "TfLiteFusedActivation": ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT"),
    "TfLiteFullyConnectedWeightsFormat": ("DEFAULT", "SHUFFLED4x16INT8"),
    "TfLiteLSHProjectionType": ("UNKNOWN", "SPARSE", "DENSE"),
    "TfLiteLSTMKernelType": ("FULL", "BASIC"),
    "TfLiteCombinerType": ("SUM", "MEAN", "SQRTN"),
    "TfLiteRngAlgorithm": ("", "DEFAULT", "PHILOX", "THREEFRY"),
    "TfLiteReduceWindowFunction": ("UNSUPPORTED", "ADD", "MUL", "MINIMUM", "MAXIMUM", "ALL", "ANY"),
    "TfLiteType": ("", "float32", "int32", "uint8", "int64", "string", "bool", "int16", "complex64", "int8", "float16",
                   "float64", "complex128", "uint64", "resource", "variant", "uint32", "uint16", "int4", "bfloat16",
                   "int2", "uint4"),
}
TYPE_CODES = {name: code for code, name in enumerate(_ENUMS["TfLiteType"]) if name}


@cache
def structs():
    """{name: ctypes.Structure} of every struct in the header; its `declared` lists (field, C type, length or 0)."""
    text = re.sub(r"//.*", "", HEADER.read_text())
    text = re.sub(r"(?<!typedef )struct \{\s*(\w+) \w+;\s*\} (\w+);", r"\1 \2;", text)       # a struct with one field
    counts = {name: int(n) for name, n in re.findall(r"#define (\w+_COUNT) (\d+)", text)}
    by_name = {}
    for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", text, re.S):
        declared, fields = [], []
        for c_type, field, length in re.findall(r"([\w\s]+?\*?)\s*\b(\w+)(?:\[(.+?)\])?;", body):
            c_type = c_type.replace("enum", "").strip()
            count = int(eval(length, {}, counts)) if length else 0      # "8", or a product of the header's names
            base = (ctypes.c_void_p if c_type.endswith("*") else _C_TYPES.get(c_type) or by_name.get(c_type)
                    or (ctypes.c_int if c_type in _ENUMS else None))
            if base is None:
                raise TypeError(f"{name}.{field} has the unknown type {c_type!r}")
            declared.append((field, c_type, count))
            fields.append((field, base * count if count else base))  # type: ignore[operator]
        by_name[name] = type(name, (ctypes.Structure,), {"_fields_": fields, "declared": declared})
    return by_name


def builtin_data(operator):
    """The parameters of a graph.Operator: (ctypes.Structure, buffers that it points to), or (None, ())."""
    stem = None if operator.custom else _STRUCTS.get(operator.name)
    if stem is None or operator.options is None:
        return None, ()
    data = structs()[f"TfLite{stem}Params"]()
    buffers = []
    for field, c_type, count in data.declared:
        value = getattr(operator.options, option_of(field), None)
        if value is None:
            continue
        if count:
            value = list(value)[:count]
            getattr(data, field)[:len(value)] = value
        elif c_type.endswith("*"):
            content = value.encode() + b"\0" if isinstance(value, str) else bytes(value)
            buffers.append(ctypes.create_string_buffer(content, len(content)))
            setattr(data, field, ctypes.addressof(buffers[-1]))
        elif c_type in _ENUMS:
            names = _ENUMS[c_type]
            setattr(data, field, names.index(value) if value in names else 0)
        elif isinstance(value, (str, bytes)) or hasattr(value, "__len__"):
            setattr(data, field, len(value))
        else:
            setattr(data, field, value)
    return data, buffers


def option_of(field):
    """The name of the option that sets a field of a struct."""
    return _RENAMED.get(field, field.removeprefix("num_") if field in _COUNTS else field)


def assertions():
    """Lines of C that fail to compile if the compiler uses another layout for a struct."""
    yield f"#if UINTPTR_MAX == {2 ** (8 * ctypes.sizeof(ctypes.c_void_p)) - 1}u"
    for name, struct in structs().items():
        yield f'_Static_assert(sizeof({name}) == {ctypes.sizeof(struct)}, "{name}");'
        for field, _, _ in struct.declared:
            offset = getattr(struct, field).offset
            yield f'_Static_assert(offsetof({name}, {field}) == {offset}, "{name}.{field}");'
    yield "#endif"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("// Made by layouts.py.\n" + "\n".join(assertions()) + "\n")
