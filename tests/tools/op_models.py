"""One-op models of every builtin op, each described by a line of text; `tests.tools.probe_ops` runs them on the peer.

A line is "OP inputs -> outputs; options".  An operand is a data type, or T or U for every type in turn, and its shape;
"=" makes it a constant with these elements ("=*": ones), "~" gives it a bias's scale, "?" stands for an absent one.
Tensors of 8 and 16 bits, and those marked "q", have a scale, except in cases without quantization.
"""
import re
from functools import cache

import numpy as np

from pylite.ir.graph import DTYPE_BITS, NUMPY_DTYPES
from pylite.schema.builder import ModelBuilder

TYPES = tuple(t for t in DTYPE_BITS if t not in ("variant", "resource"))
LINES = """
ADD T[2,3] T[2,3] -> T; pot_scale_int16=False
SUB T[2,3] T[2,3] -> T; pot_scale_int16=False
MUL T[2,3] T[2,3] -> T
MUL int16[2,3] int16[2,3] -> int8
MUL int16[2,3] int16[2,3] -> uint8
DIV T[2,3] T[2,3]=* -> T
MAXIMUM T[2,3] T[2,3] -> T
MINIMUM T[2,3] T[2,3] -> T
FLOOR_DIV T[2,3] T[2,3]=* -> T
FLOOR_MOD T[2,3] T[2,3]=* -> T
POW T[2,3] T[2,3] -> T
SQUARED_DIFFERENCE T[2,3] T[2,3] -> T
ATAN2 T[2,3] T[2,3] -> T
BITWISE_XOR T[2,3] T[2,3] -> T
RIGHT_SHIFT T[2,3] T[2,3] -> T
ADD_N T[2,3] T[2,3] T[2,3] -> T
EQUAL T[2,3] T[2,3] -> bool
NOT_EQUAL T[2,3] T[2,3] -> bool
LESS T[2,3] T[2,3] -> bool
LESS_EQUAL T[2,3] T[2,3] -> bool
GREATER T[2,3] T[2,3] -> bool
GREATER_EQUAL T[2,3] T[2,3] -> bool
LOGICAL_AND T[2,3] T[2,3] -> T
LOGICAL_OR T[2,3] T[2,3] -> T
LOGICAL_NOT T[2,3] -> T
STABLEHLO_ADD T[2,3] T[2,3] -> T
STABLEHLO_MULTIPLY T[2,3] T[2,3] -> T
STABLEHLO_MAXIMUM T[2,3] T[2,3] -> T
STABLEHLO_MINIMUM T[2,3] T[2,3] -> T
STABLEHLO_AND T[2,3] T[2,3] -> T
STABLEHLO_SHIFT_LEFT T[2,3] T[2,3] -> T
RELU T[2,3] -> T
RELU6 T[2,3] -> T
RELU_N1_TO_1 T[2,3] -> T
RELU_0_TO_1 T[2,3] -> T
LEAKY_RELU T[2,3] -> T; alpha=0.5
PRELU float32[2,3] float32[3] -> float32
PRELU int8[2,3] int8[3] -> int8
PRELU uint8[2,3] uint8[3] -> uint8
PRELU int16[2,3] int8[3] -> int16
ELU T[2,3] -> T
GELU T[2,3] -> T
HARD_SWISH T[2,3] -> T
LOGISTIC T[2,3] -> T
TANH T[2,3] -> T
SOFTMAX T[2,3] -> T; beta=1.0
SOFTMAX int8[2,3] -> int16; beta=1.0
SOFTMAX uint8[2,3] -> int16; beta=1.0
LOG_SOFTMAX T[2,3] -> T
L2_NORMALIZATION T[2,3] -> T
ABS T[2,3] -> T
NEG T[2,3] -> T
SIGN T[2,3] -> T
SQUARE T[2,3] -> T
SQRT T[2,3] -> T
RSQRT T[2,3] -> T
EXP T[2,3] -> T
LOG T[2,3] -> T
SIN T[2,3] -> T
COS T[2,3] -> T
FLOOR T[2,3] -> T
CEIL T[2,3] -> T
ROUND T[2,3] -> T
FAKE_QUANT float32[2,3] -> float32; min=-1.0, max=1.0, num_bits=8
CAST T[2,3] -> U
QUANTIZE Tq[2,3] -> Uq
DEQUANTIZE Tq[2,3] -> float32
BUCKETIZE T[2,3] -> int32; boundaries=(0.0, 1.0)
BITCAST T[2,3] -> T
REAL complex64[2,3] -> float32
REAL complex128[2,3] -> float64
IMAG complex64[2,3] -> float32
IMAG complex128[2,3] -> float64
COMPLEX_ABS complex64[2,3] -> float32
COMPLEX_ABS complex128[2,3] -> float64
SUM T[2,3] int32[1]=1 -> T
MEAN T[2,3] int32[1]=1 -> T
REDUCE_PROD T[2,3] int32[1]=1 -> T
REDUCE_MAX T[2,3] int32[1]=1 -> T
REDUCE_MIN T[2,3] int32[1]=1 -> T
REDUCE_ANY T[2,3] int32[1]=1 -> T
REDUCE_ALL T[2,3] int32[1]=1 -> T
REDUCE_WINDOW T[4] T[]=* int64[1]=2 int64[1]=1 int64[1]=1 -> T[3]; reduce_function=%s
ARG_MAX T[2,3] int32[]=1 -> int32; output_type="int32"
ARG_MIN T[2,3] int32[]=1 -> int64; output_type="int64"
CUMSUM T[2,3] int32[]=1 -> T
TOPK_V2 T[2,3] int32[]=2 -> T int32
TOPK_V2 T[2,3] int16[]=2 -> T int16
UNIQUE T[3] -> T int32
UNIQUE T[3] -> T int64; idx_out_type="int64"
WHERE T[2,3] -> int64
AVERAGE_POOL_2D T[1,4,4,2] -> T; filter_width=2, filter_height=2, stride_w=2, stride_h=2, padding="VALID"
MAX_POOL_2D T[1,4,4,2] -> T; filter_width=2, filter_height=2, stride_w=2, stride_h=2, padding="VALID"
L2_POOL_2D T[1,4,4,2] -> T; filter_width=2, filter_height=2, stride_w=2, stride_h=2, padding="VALID"
LOCAL_RESPONSE_NORMALIZATION T[1,2,2,3] -> T; radius=1, bias=1.0, alpha=1.0, beta=0.5
RESIZE_BILINEAR T[1,2,2,1] int32[2]=4,4 -> T
RESIZE_NEAREST_NEIGHBOR T[1,2,2,1] int32[2]=4,4 -> T
CONCATENATION T[2,4] T[2,4] -> T; axis=1
PACK T[2,3] T[2,3] -> T; axis=0, values_count=2
UNPACK T[2,3] -> T T; axis=0, num=2
SPLIT int32[]=1 T[2,4] -> T T; num_splits=2
SPLIT_V T[2,4] int32[2]=1,3 int32[]=1 -> T T; num_splits=2
RESHAPE T[2,3] int32[1]=6 -> T; new_shape=(6,)
SQUEEZE T[2,1] -> T
EXPAND_DIMS T[2,3] int32[]=0 -> T
SHAPE T[2,3] -> int32; out_type="int32"
SHAPE T[2,3] -> int64; out_type="int64"
RANK T[2,3] -> int32
ZEROS_LIKE T[2,3] -> T
FILL int32[2]=2,3 T[]=* -> T
FILL int64[2]=2,3 T[] -> T
RANGE T[]=1 T[]=5 T[]=1 -> T
TILE T[2,3] int32[2]=2,1 -> T
TILE T[2,3] int64[2]=2,1 -> T
BROADCAST_TO T[1,3] int32[2]=2,3 -> T
BROADCAST_TO T[1,3] int64[2]=2,3 -> T
BROADCAST_ARGS T[2] T[1] -> T
TRANSPOSE T[2,3] int32[2]=1,0 -> T
REVERSE_V2 T[2,3] int32[1]=1 -> T
REVERSE_SEQUENCE T[2,3] int32[2]=1,2 -> T; seq_dim=1
REVERSE_SEQUENCE T[2,3] int64[2]=1,2 -> T; seq_dim=1
PAD T[2,3] int32[2,2]=1,1,0,0 -> T
PAD T[2,3] int64[2,2]=1,1,0,0 -> T
PADV2 T[2,3] int32[2,2]=1,1,0,0 T[]=* -> T
MIRROR_PAD T[2,3] int32[2,2]=1,1,0,0 -> T
SLICE T[2,3] int32[2]=0,1 int32[2]=1,2 -> T
SLICE T[2,3] int64[2]=0,1 int64[2]=1,2 -> T
STRIDED_SLICE T[2,3] int32[2]=0,1 int32[2]=1,3 int32[2]=1,1 -> T
SPACE_TO_DEPTH T[1,4,4,2] -> T; block_size=2
DEPTH_TO_SPACE T[1,4,4,4] -> T; block_size=2
SPACE_TO_BATCH_ND T[1,4,4,2] int32[2]=2,2 int32[2,2]=0,0,0,0 -> T
BATCH_TO_SPACE_ND T[4,2,2,2] int32[2]=2,2 int32[2,2]=0,0,0,0 -> T
MATRIX_DIAG T[2,3] -> T
MATRIX_SET_DIAG T[2,3,3] T[2,3] -> T
DILATE T[2,3] int32[2]=2,1 T[] -> T
STABLEHLO_PAD T[2,3] T[] -> T; edge_padding_low=(1, 0), edge_padding_high=(0, 1), interior_padding=(1, 0)
GATHER T[2,4] int32[2] -> T
GATHER T[2,4] int64[2] -> T
GATHER T[2,4] int16[2] -> T
GATHER_ND T[2,4] int32[2,1] -> T
GATHER_ND T[2,4] int64[2,1] -> T
GATHER_ND T[2,4] int16[2,1] -> T
SCATTER_ND int32[2,1] T[2,3] int32[2]=4,3 -> T
SPARSE_TO_DENSE int32[2]=0,1 int32[1]=3 T[2] T[] -> T
SPARSE_TO_DENSE int64[2]=0,1 int64[1]=3 T[2] T[] -> T
SELECT bool[2,3] T[2,3] T[2,3] -> T
SELECT_V2 bool[2,3] T[2,3] T[1,3] -> T
ONE_HOT int32[2] int32[]=3 T[] T[] -> T; axis=-1
ONE_HOT int64[2] int32[]=3 T[] T[] -> T; axis=-1
DYNAMIC_UPDATE_SLICE T[2,4] T[1,2] int32[2] -> T
DYNAMIC_UPDATE_SLICE T[2,4] T[1,2] int64[2] -> T
STABLEHLO_GATHER T[3,4] int32[2,1] -> T[2,4]; offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,), \
index_vector_dim=1, slice_sizes=(1, 4)
STABLEHLO_GATHER T[3,4] int64[2,1] -> T[2,4]; offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,), \
index_vector_dim=1, slice_sizes=(1, 4)
SEGMENT_SUM T[3,2] int32[3]=0,0,1 -> T
UNSORTED_SEGMENT_SUM T[3,2] int32[3]=0,0,1 int32[]=2 -> T
UNSORTED_SEGMENT_PROD T[3,2] int32[3]=0,0,1 int32[]=2 -> T
UNSORTED_SEGMENT_MAX T[3,2] int32[3]=0,0,1 int32[]=2 -> T
UNSORTED_SEGMENT_MIN T[3,2] int32[3]=0,0,1 int32[]=2 -> T
EMBEDDING_LOOKUP int32[2] T[3,4]=* -> T
EMBEDDING_LOOKUP int32[2] int8[3,4]=* -> float32
EMBEDDING_LOOKUP int32[2] uint8[3,4]=* -> float32
EMBEDDING_LOOKUP int32[2] int4[3,4]=* -> float32
EMBEDDING_LOOKUP int32[2] int2[3,4]=* -> float32
RANDOM_UNIFORM int32[1]=3 -> T; seed=1
RANDOM_STANDARD_NORMAL int32[1]=3 -> T; seed=1
MULTINOMIAL T[2,3] int32[]=4 -> int32; seed=1
MULTINOMIAL float32[2,3] int32[]=4 -> U; seed=1
STABLEHLO_RNG_BIT_GENERATOR uint64[2] -> uint64[2] U[3]; algorithm="PHILOX"
NON_MAX_SUPPRESSION_V4 T[3,4] T[3] int32[]=2 T[]=* T[]=* -> int32 int32
NON_MAX_SUPPRESSION_V5 T[3,4] T[3] int32[]=2 T[]=* T[]=* T[]=* -> int32 T int32
RFFT2D T[2,4] int32[2]=2,4 -> complex64
BATCH_MATMUL T[2,3] T[3,2] -> T
BATCH_MATMUL int8[2,3] int8[3,2] -> int32
BATCH_MATMUL int16[2,3] int8[3,2]=* -> int16
BATCH_MATMUL float32[2,3] int8[3,2]=* -> float32
FULLY_CONNECTED float32[2,4] float32[3,4]=* float32[3]=* -> float32
FULLY_CONNECTED float32[2,4] T[3,4]=* float32[3]=* -> float32
FULLY_CONNECTED int8[2,4] int8[3,4]=* int32[3]=*~ -> int8; quantized_bias_type="int32"
FULLY_CONNECTED int8[2,4] int4[3,4]=* int32[3]=*~ -> int8; quantized_bias_type="int32"
FULLY_CONNECTED int8[2,4] int2[3,4]=* int32[3]=*~ -> int8; quantized_bias_type="int32"
FULLY_CONNECTED int16[2,4] int8[3,4]=* int32[3]=*~ -> int16; quantized_bias_type="int32"
FULLY_CONNECTED int16[2,4] int8[3,4]=* int64[3]=*~ -> int16; quantized_bias_type="int64"
FULLY_CONNECTED int16[2,4] int4[3,4]=* int32[3]=*~ -> int16; quantized_bias_type="int32"
FULLY_CONNECTED int16[2,4] int2[3,4]=* int32[3]=*~ -> int16; quantized_bias_type="int32"
FULLY_CONNECTED int16[2,4] int16[3,4]=* int64[3]=*~ -> int16; quantized_bias_type="int64"
FULLY_CONNECTED uint8[2,4] uint8[3,4]=* int32[3]=*~ -> uint8
FULLY_CONNECTED uint8[2,4] uint8[3,4]=* int32[3]=*~ -> int16
CONV_2D float32[1,4,4,2] float32[3,2,2,2]=* float32[3]=* -> float32; stride_w=1, stride_h=1, padding="VALID"
CONV_2D float32[1,4,4,2] int8[3,2,2,2]=* float32[3]=* -> float32; stride_w=1, stride_h=1, padding="VALID"
CONV_2D float32[1,4,4,2] int4[3,2,2,2]=* float32[3]=* -> float32; stride_w=1, stride_h=1, padding="VALID"
CONV_2D int8[1,4,4,2] int8[3,2,2,2]=* int32[3]=*~ -> int8; stride_w=1, stride_h=1, padding="VALID"
CONV_2D int8[1,4,4,2] int4[3,2,2,2]=* int32[3]=*~ -> int8; stride_w=1, stride_h=1, padding="VALID"
CONV_2D uint8[1,4,4,2] uint8[3,2,2,2]=* int32[3]=*~ -> uint8; stride_w=1, stride_h=1, padding="VALID"
CONV_2D int16[1,4,4,2] int8[3,2,2,2]=* int64[3]=*~ -> int16; stride_w=1, stride_h=1, padding="VALID"
CONV_2D int16[1,4,4,2] int8[3,2,2,2]=* int32[3]=*~ -> int16; stride_w=1, stride_h=1, padding="VALID", \
quantized_bias_type="int32"
DEPTHWISE_CONV_2D float32[1,4,4,2] float32[1,2,2,2]=* float32[2]=* -> float32; stride_w=1, stride_h=1, \
depth_multiplier=1
DEPTHWISE_CONV_2D float32[1,4,4,2] int8[1,2,2,2]=* float32[2]=* -> float32; stride_w=1, stride_h=1, depth_multiplier=1
DEPTHWISE_CONV_2D float32[1,4,4,2] int4[1,2,2,2]=* float32[2]=* -> float32; stride_w=1, stride_h=1, depth_multiplier=1
DEPTHWISE_CONV_2D int8[1,4,4,2] int8[1,2,2,2]=* int32[2]=*~ -> int8; stride_w=1, stride_h=1, depth_multiplier=1
DEPTHWISE_CONV_2D int8[1,4,4,2] int4[1,2,2,2]=* int32[2]=*~ -> int8; stride_w=1, stride_h=1, depth_multiplier=1
DEPTHWISE_CONV_2D uint8[1,4,4,2] uint8[1,2,2,2]=* int32[2]=*~ -> uint8; stride_w=1, stride_h=1, depth_multiplier=1
DEPTHWISE_CONV_2D int16[1,4,4,2] int8[1,2,2,2]=* int64[2]=*~ -> int16; stride_w=1, stride_h=1, depth_multiplier=1
TRANSPOSE_CONV int32[4]=1,4,4,3 float32[3,2,2,2]=* float32[1,2,2,2] -> float32; stride_w=2, stride_h=2
TRANSPOSE_CONV int32[4]=1,4,4,3 int8[3,2,2,2]=* float32[1,2,2,2] -> float32; stride_w=2, stride_h=2
TRANSPOSE_CONV int32[4]=1,4,4,3 int4[3,2,2,2]=* float32[1,2,2,2] -> float32; stride_w=2, stride_h=2
TRANSPOSE_CONV int32[4]=1,4,4,3 int8[3,2,2,2]=* int8[1,2,2,2] -> int8; stride_w=2, stride_h=2
TRANSPOSE_CONV int32[4]=1,4,4,3 int4[3,2,2,2]=* int8[1,2,2,2] -> int8; stride_w=2, stride_h=2
TRANSPOSE_CONV int32[4]=1,4,4,3 uint8[3,2,2,2]=* uint8[1,2,2,2] -> uint8; stride_w=2, stride_h=2
TRANSPOSE_CONV int32[4]=1,4,4,3 int8[3,2,2,2]=* int16[1,2,2,2] -> int16; stride_w=2, stride_h=2
CONV_3D T[1,3,3,3,2] T[2,2,2,2,3]=* T[3]=* -> T; stride_d=1, stride_w=1, stride_h=1, padding="VALID"
CONV_3D_TRANSPOSE int32[5]=1,4,4,4,3 T[2,2,2,3,2]=* T[1,2,2,2,2] -> T; stride_d=2, stride_w=2, stride_h=2
SVDF T[1,2] T[2,2]=* T[2,3]=* T[2]=* T[1,6]! -> T; rank=1
RNN T[1,2] T[3,2]=* T[3,3]=* T[3]=* T[1,3]! -> T; fused_activation_function="TANH"
UNIDIRECTIONAL_SEQUENCE_RNN T[2,1,2] T[3,2]=* T[3,3]=* T[3]=* T[1,3]! -> T; time_major=True
VAR_HANDLE -> resource[1]; shared_name="v"
HASHTABLE -> resource[1]; table_id=1, key_dtype="int64", value_dtype="string"
"""
# Ops that a line cannot describe: only their versions are compared.
MORE = """
HASHTABLE_LOOKUP LSH_PROJECTION LSTM SKIP_GRAM EMBEDDING_LOOKUP_SPARSE UNIDIRECTIONAL_SEQUENCE_LSTM
BIDIRECTIONAL_SEQUENCE_RNN BIDIRECTIONAL_SEQUENCE_LSTM IF WHILE DENSIFY CALL_ONCE HASHTABLE_FIND HASHTABLE_IMPORT
HASHTABLE_SIZE READ_VARIABLE ASSIGN_VARIABLE STABLEHLO_SCATTER STABLEHLO_REDUCE_WINDOW STABLEHLO_COMPOSITE
STABLEHLO_CASE
"""
# Scale and zero point of the outputs of ops that prescribe them.
OUTPUTS = {("LOGISTIC", "int8"): (1 / 256, -128), ("LOGISTIC", "uint8"): (1 / 256, 0),
           ("LOGISTIC", "int16"): (2.0**-15, 0),
           ("TANH", "int8"): (1 / 128, 0), ("TANH", "uint8"): (1 / 128, 128), ("TANH", "int16"): (2.0**-15, 0),
           ("SOFTMAX", "int8"): (1 / 256, -128), ("SOFTMAX", "uint8"): (1 / 256, 0),
           ("SOFTMAX", "int16"): (2.0**-15, 0), ("SOFTMAX", "int8 -> int16"): (2.0**-16, -32768),
           ("SOFTMAX", "uint8 -> int16"): (2.0**-16, -32768),
           ("LOG_SOFTMAX", "int8"): (1 / 16, 127), ("LOG_SOFTMAX", "uint8"): (1 / 16, 255),
           ("L2_NORMALIZATION", "int8"): (1 / 128, 0), ("L2_NORMALIZATION", "uint8"): (1 / 128, 128)}
_OPERAND = re.compile(r"(\w+?)(q?)(?:\[([\d,]*)\])?(=[^~!]*)?([~!]?)$")


class Line:
    """One line: op, signature (such as "T T -> bool") and how to make its model."""

    def __init__(self, text):
        text, _, options = text.partition(";")
        self.op, *words = text.split()
        at = words.index("->")
        self.inputs, self.outputs = words[:at], words[at + 1:]
        self.options = options
        self.signature = " ".join(w if w == "->" else _OPERAND.match(w)[1] for w in words)
        self.letters = [letter for letter in "TU" if re.search(rf"\b{letter}\b", self.signature)]

    def cases(self):
        """All choices of types for the letters, as dicts."""
        choices = [{}]
        for letter in self.letters:
            choices = [{**c, letter: t} for c in choices for t in TYPES]
        return choices

    def types(self, choice):
        """(input types, output types) as Op.accepts takes them."""
        left, _, right = self.signature.partition("->")
        return tuple(tuple(choice.get(w, w) for w in side.split()) for side in (left, right))

    def model(self, choice, quantized=True, version=None, adjust=None):
        """The model, as bytes.

        adjust(number of the operand, dtype, shape, its scale and zero point as keywords, whether the op prescribes
        them) -> other keywords.
        """
        m = ModelBuilder()
        inputs = [self._operand(m, i, word, choice, quantized, adjust) for i, word in enumerate(self.inputs)]
        outputs = [self._operand(m, i, word, choice, quantized, adjust)
                   for i, word in enumerate(self.outputs, len(self.inputs))]
        reduction = '"ANY"' if choice.get("T") == "bool" else '"ADD"'
        options = eval(f"dict({self.options.replace('%s', reduction)})", {"dict": dict})     # text of this file
        m.operator(self.op, [i for i, _ in inputs], [i for i, _ in outputs], version=version, **options)
        m.inputs([i for i, is_input in inputs if is_input])
        m.outputs([i for i, _ in outputs])
        return m.build()

    def _operand(self, m, i, word, choice, quantized, adjust):
        output = i >= len(self.inputs)
        name = f"y{i - len(self.inputs)}" if output else f"x{i}"
        dtype, q, shape, contents, mark = _OPERAND.match(word).groups()
        dtype = choice.get(dtype, dtype)
        shape = tuple(int(n) for n in (shape or "").split(",") if n)
        fields, own = {}, None
        if mark == "~":
            fields = {"scale": 0.0625}
        elif quantized and (q or dtype in ("int8", "uint8", "int16", "int4", "uint4", "int2")):
            own = OUTPUTS.get((self.op, self.signature)) or OUTPUTS.get((self.op, dtype)) if output else None
            scale, zero = own or (0.25, 0)
            fields = {"scale": scale, "zero_point": zero}
        if adjust is not None:
            fields = adjust(i, dtype, shape, fields, own is not None)
        if contents:
            values = [1] * int(np.prod(shape)) if contents == "=*" else [float(v) for v in contents[1:].split(",")]
            if dtype == "string":
                return m.constant(name, np.array([b"x"] * len(values), object).reshape(shape)), False
            array = np.array(values).reshape(shape).astype(NUMPY_DTYPES[dtype])
            return m.constant(name, array, dtype=dtype, **fields), False
        variable = mark == "!"
        return m.tensor(name, shape, dtype, variable=variable, **fields), not variable


@cache
def lines():
    return [Line(text) for text in LINES.replace("\\\n", "").strip().splitlines()]
