"""Decides which nodes compute in float16, for interpreters whose `precision` asks for it, and converts their calls.

The pass half_storage then stores tensors between such nodes as float16.  docs/numerics.md section 4 describes the sums.
Results do not depend on the storage: a node rounds its operands to float16 before computing, and its results after.
"""
import numpy as np

from pylite._core.kernels import kernel_class
from pylite._core.product.layouts import WinogradFloat
from pylite._core.run.kernel import of_types
from pylite.ir.lowered import ACTIVATIONS, BINARY, BINARY_A, BINARY_Y, FUNCTION, UNARY, UNARY_X, UNARY_Y
from pylite.ir.values import HALF_RESULT, HALVES, Call, Packed, Temporary, View, known_array, raw

_WINOGRAD = "winograd.WinogradF32"
_HALF_WEIGHTS = "half_weights.HalfWeights"
PRODUCTS = "conv_float.ConvF32", _WINOGRAD, _HALF_WEIGHTS
TO_HALF, FROM_HALF = "float_to_half", "half_to_float"
_DEPTHWISE = "depthwise.DepthwiseF32"
_PACK = "packing.pack_f32", "packing.pack_halves"
PANELS = 2             # the position of packed weights among the arguments
_PLANE = 8              # length of `filter` in two dimensions; others are computed in float32
# Costs in products of a convolution, on a Cortex-A76:
_CONVERSION = 16        # of the conversion of a number
_TAP = 2                # of a product in a depthwise convolution
_STEP = 17              # gained by an element-wise operation: more than one conversion, less than two
_ELEMENTWISE = {f"{name}_f32": f"{name}_f16" for name in ("add", "mul", "prelu", "hard_swish", "leaky_relu")}   # slots
_REPEAT = "elementwise.repeat"      # packs a constant operand
_SMALL = 8              # converting an operand costs nothing if the result has at least this many times its numbers
_TRANSPARENT = ACTIVATIONS | {"RESHAPE", "PAD", "MAX_POOL_2D"}      # results are float16 numbers if operands are


def convert(lowered):
    """Make calls of `lowered` compute in float16 if that pays, and pack the weights."""
    costs, others = {}, set()       # {node index: its _Cost}; indices of nodes with a call that cannot use float16
    for call in lowered.calls:
        index, cost = call.node.index, _cost_of(call)
        if cost is None:
            others.add(index)
        else:
            costs[index] = costs[index].plus(cost) if index in costs else cost
    chosen = _chosen(lowered, {index: cost for index, cost in costs.items() if index not in others})
    lowered.calls = [other for call in lowered.calls for other in (
        _in_float16(call) if call.node.index in chosen else (call,))]
    for call in lowered.calls:
        for packed in of_types(call.args, frozenset((Packed,))):
            if packed.value.fixed:
                lowered.model.weights.pack(packed)
    lowered.half = True


class _Cost:
    """The cost of one output pixel of a node: products, numbers read for the first time, and results."""
    __slots__ = ("products", "inputs", "results")

    def __init__(self, products, inputs, results):
        self.products, self.inputs, self.results = products, inputs, results

    def plus(self, other):
        """The _Cost of a node with two calls."""
        return _Cost(self.products + other.products, self.inputs + other.inputs, self.results + other.results)


def _cost_of(call):
    """The _Cost of a call that can compute in float16, or None."""
    if call.kernel == _DEPTHWISE:
        return _depthwise_cost(call)
    if call.kernel in (UNARY, BINARY):
        return _elementwise_cost(call)
    if call.kernel not in PRODUCTS:
        return None
    panels, filter = call.args[PANELS], _named(call, "filter")
    if type(panels) is not Packed or panels.function not in _PACK or len(filter) != _PLANE:
        return None
    _, _, stride_h, stride_w, *_ = filter
    weights = panels.value
    return _Cost(weights.size, call.args[0].shape[3] * stride_h * stride_w, weights.shape[0])


def _named(call, name):
    """The argument of `call` with this name."""
    return call.args[call.names.index(name) - len(call.names)]


def _depthwise_cost(call):
    fh, fw, stride_h, stride_w, *_ = _named(call, "filter")
    channels = call.args[1].shape[3]
    return _Cost(_TAP * fh * fw * channels, channels * stride_h * stride_w, channels)


def _elementwise_cost(call):
    """The _Cost of an operation on tensors, or on a tensor and a small constant; None for all others."""
    operands, y = _operands(call)
    large = [x for x in operands if not _is_small(x.value, y.value)]
    known = call.args[FUNCTION] in _ELEMENTWISE and all(
        type(x) is View or (type(x) is Packed and x.function == _REPEAT and type(x.args[0]) is int) for x in operands)
    return _Cost(_STEP, len(large), 1) if known and all(x.value.data is None for x in large) else None


def _operands(call):
    """(the operands of an element-wise call, its result): Views, except for Packed constants."""
    if call.kernel == UNARY:
        return call.args[UNARY_X:UNARY_Y], call.args[UNARY_Y]
    return call.args[BINARY_A:BINARY_Y], call.args[BINARY_Y]


def _is_small(x, y):
    """Is operand x so small compared with result y that its conversion does not count?"""
    return x.size * _SMALL <= y.size


def _chosen(lowered, costs):
    """The indices of the nodes in `costs` whose products outweigh conversions of float32 inputs and results."""
    edges = _Edges(lowered)
    chosen = set(costs)
    while True:
        half = edges.half(chosen)
        lost = {index for index in chosen if not _pays(costs[index], *edges.of_node(index, half, chosen))}
        if not lost:
            return chosen
        chosen -= lost


def _pays(cost, reads_half, writes_half):
    """Does a node gain from float16?  reads_half, writes_half: are its inputs, its result, stored as float16?"""
    return cost.products > _CONVERSION * (cost.inputs * (not reads_half) + cost.results * (not writes_half))


class _Edges:
    """The tensors that nodes write and read at run time.

    The input and the result of a transparent operator count as one tensor.  Activations may have been fused into
    operators before; that does not change the edges between the others.
    """

    def __init__(self, lowered):
        subgraph = lowered.subgraph
        self.same = {}          # {result of a transparent operator: the tensor that stands for it}
        self.readers, self.writers = {}, {}
        self.ends = {}          # {node index: (tensors read, tensors written)}
        for operator in subgraph.operators:
            writes = [i for i in operator.outputs if i >= 0]
            reads = [self.same.get(i, i) for i in _computed_inputs(operator, lowered.values)]
            if operator.name in _TRANSPARENT and reads:
                self.same[writes[0]] = reads[0]
                continue
            self.ends[operator.index] = reads, writes
            for i in reads:
                self.readers.setdefault(i, set()).add(operator.index)
            for i in writes:
                self.writers[i] = operator.index
        self.visible = {self.same.get(i, i) for i in (*subgraph.inputs, *subgraph.outputs)}

    def half(self, chosen):
        """The tensors that may be stored as float16: a node in `chosen` writes them, and no caller sees them."""
        return {i for i, writer in self.writers.items() if writer in chosen and i not in self.visible
                and i in self.readers}

    def of_node(self, index, half, chosen):
        """(are all of the node's inputs in `half`?  is its result, and do only nodes in `chosen` read it?)

        A result that others read, too, counts as not stored as float16, so its writer pays for their conversion.
        """
        reads, writes = self.ends[index]
        return half.issuperset(reads), writes[0] in half and self.readers[writes[0]] <= chosen


def _computed_inputs(operator, values):
    """The tensors that an operator reads at run time; if there are several, without the small ones."""
    reads = [i for i in operator.inputs if i >= 0 and values[i].data is None]
    results = [values[i] for i in operator.outputs if i >= 0]
    if len(reads) < 2 or not results:
        return reads
    return [i for i in reads if not _is_small(values[i], results[0])]


def _in_float16(call):
    """The calls that compute `call` in float16."""
    if call.kernel == _DEPTHWISE:
        return _convert_depthwise(call)
    if call.kernel in (UNARY, BINARY):
        return _convert_elementwise(call)
    _convert_product(call)
    return (call,)


def _convert_depthwise(call):
    x, y, weights, *rest = call.args
    before, (x,) = _converted([x], call.node)
    after, y = _converted_back(y, call.node)
    w, layout = (weights.value, weights.args[1:]) if type(weights) is Packed else (weights, ())
    packed = Packed("depthwise_packing.pack_half", w, *layout)
    call.kernel, call.args = "depthwise.DepthwiseF16", (x.view(), y.view(), packed, *rest)
    return *before, call, after


def _convert_elementwise(call):
    name, shape, *_ = call.args
    operands, y = _operands(call)
    before, halves = _converted([x.value for x in operands if x.value.data is None], call.node)
    after, y = _converted_back(y.value, call.node)
    computed, rest = iter(halves), call.args[3 + len(operands):]
    call.args = (_ELEMENTWISE[name], shape, *[
        next(computed).bytes if x.value.data is None else _constant(x) for x in operands], y.bytes, *rest)
    call.inplace = next(((y, x) for x in halves if x.size == y.size), None)
    return *before, call, after


def _constant(operand):
    """The bytes of a constant operand in float16."""
    half = rounded(known_array(operand.value))
    return raw(np.tile(half.reshape(-1), operand.args[0]) if type(operand) is Packed else half)


def rounded(array):
    """An array of float32 in float16; numbers beyond 65504 become infinite."""
    with np.errstate(over="ignore"):
        return np.array(array, np.float16, order="C")


def _converted(values, node):
    """(the calls that convert `values` to float16, their results)."""
    halves = [Temporary(node, value.shape, "float16", HALVES + i) for i, value in enumerate(values)]
    return [_unary(TO_HALF, value, half, node) for value, half in zip(values, halves, strict=True)], halves


def _converted_back(value, node):
    """(the call that converts the Temporary to `value`, a Temporary of float16 for another call to write)."""
    half = Temporary(node, value.shape, "float16", HALF_RESULT)
    return _unary(FROM_HALF, half, value, node), half


def _unary(name, x, y, node):
    call = Call(UNARY, name, x.size, x.bytes, y.bytes, b"")
    call.node = node
    return call


def _convert_product(call):
    panels = call.args[PANELS]
    named = dict(zip(call.names, call.args[-len(call.names):], strict=True)) | {"half": True}
    layout = panels.args
    scratch = named.pop("scratch", None)
    if call.kernel == _HALF_WEIGHTS:
        call.kernel = PRODUCTS[0]
    elif scratch is not None:       # filters of float16 are never transformed at run time
        few = panels.value.shape[3] <= kernel_class(_WINOGRAD).WIDEST_HALF
        call.kernel, layout = (_WINOGRAD, (16, WinogradFloat())) if few else (PRODUCTS[0], ())
    packed = Packed("packing.pack_f16", panels.value, *layout)
    call.args = (*call.args[:PANELS], packed, *call.args[PANELS + 1:-len(call.names)], *named.values())
    call.names = tuple(named)
