"""CONV_3D and CONV_3D_TRANSPOSE, of float32.  docs/numerics.md section 3."""
import itertools
import math

from pylite._core.product.layouts import VolumePhaseTaps, Volumes
from pylite.errors import counted
from pylite.ir import shapes
from pylite.ir.registry import register
from pylite.ir.values import Call, Packed
from pylite.ops import products
from pylite.ops.convolution_window import effective_dilation


def _options(node):
    """[(stride, dilation)] of depth, height and width, as the file has them."""
    o = node.options
    pairs = [(o.stride_d, o.dilation_d_factor), (o.stride_h, o.dilation_h_factor), (o.stride_w, o.dilation_w_factor)]
    if min(min(pair) for pair in pairs) < 1:
        raise node.error(f"strides and dilations {pairs} must be at least 1")
    return pairs


def _effective(node, w, sizes):
    """[(taps, stride, effective_dilation())] of the three axes of an image with these `sizes`."""
    return [(taps, stride, effective_dilation(node, w, taps, dilation, size))
            for taps, (stride, dilation), size in zip(w.shape[:3], _options(node), sizes, strict=True)]


def _check(node, x, w, b, channel_axis, filter_axis):
    for value in (x, w):
        if len(value.shape) != 5:
            raise node.error("a volume and its filter must have 5 dimensions", value)
    channels, filters = w.shape[channel_axis], w.shape[filter_axis]
    if x.shape[4] != channels:
        raise node.error(f"has {x.shape[4]} channels and the filter {channels}", x)
    if b is not None and b.size != filters:
        raise node.error(f"has {b.size} elements for {filters} output channels", b)


def infer_conv(node):
    x, w = node.inputs[:2]
    _check(node, x, w, node.input(2), channel_axis=3, filter_axis=4)
    size = [shapes.window_output(n, taps, stride, dilation, node.options.padding) for n, taps, (stride, dilation)
            in zip(x.shape[1:4], w.shape[:3], _options(node), strict=True)]
    if min(size) < 0:
        raise node.error(f"a filter of {list(w.shape[:3])} does not fit", x)
    return [(x.shape[0], *size, w.shape[4])]


def lower_conv(node):
    x, w = node.inputs[:2]
    y = node.outputs[0]
    axes = [(taps, stride, dilation, shapes.window_padding(n, taps, stride, dilation, m)[0])
            for n, m, (taps, stride, dilation)
            in zip(x.shape[1:4], y.shape[1:4], _effective(node, w, x.shape[1:4]), strict=True)]
    return _call(node, (x, w, node.input(2)), y.view(), axes, Volumes())


def infer_transpose(node):
    wanted, w, x = node.inputs[:3]
    _check(node, x, w, node.input(3), channel_axis=4, filter_axis=3)
    shape = tuple(int(n) for n in node.constant(0, "output shape").ravel())
    if len(shape) != 5 or min(shape) < 0 or shape[0] != x.shape[0] or shape[4] != w.shape[3]:
        raise node.error(f"requests the output shape {list(shape)}, but the input gives "
                         f"{counted(x.shape[0], 'volume')} of {counted(w.shape[3], 'channel')}", wanted)
    return [shape]


def lower_transpose(node):
    """A plain convolution for each phase of the output; a phase has the positions that the same taps contribute to."""
    w, x = node.inputs[1:3]
    y = node.outputs[0]
    phases = []
    for size, (taps, stride, dilation) in zip(y.shape[1:4], _effective(node, w, y.shape[1:4]), strict=True):
        seen = shapes.window_output(size, taps, stride, dilation, node.options.padding)
        pad = shapes.window_padding(size, taps, stride, dilation, seen)[0]
        phases.append([_phase(i, size, taps, stride, dilation, pad) for i in range(min(stride, size))])
    strides, calls = _strides(y), []
    for along in itertools.product(*phases):        # a phase of each axis
        out = y.view((y.shape[0], *(phase.count for phase in along), y.shape[4]),
                     (strides[0], *(n * phase.step for n, phase in zip(strides[1:], along, strict=True)), 1),
                     sum(n * phase.first for n, phase in zip(strides[1:], along, strict=True)))
        layout = VolumePhaseTaps(tuple(phase.taps for phase in along))
        calls.append(_call(node, (x, w, node.input(3)), out, [phase.axis for phase in along], layout))
    return calls


def _strides(y):
    """The strides of all axes but the channels."""
    return [math.prod(y.shape[i:]) for i in range(1, 5)]


class _Phase:
    """The outputs first, first + step, ... of an axis.

    taps: a slice of the filter's; axis: for _call(); count: the number of outputs.
    """
    __slots__ = ("taps", "axis", "first", "step", "count")

    def __init__(self, taps, axis, first, step, count):
        self.taps, self.axis, self.first, self.step, self.count = taps, axis, first, step, count


def _phase(first, size, taps, stride, dilation, pad):
    """The _Phase of the outputs first, first + stride, ...

    Output o sees input (o + pad - tap * dilation) / stride where that is an integer; the slice is in descending order.
    """
    common = math.gcd(stride, dilation)
    met = [tap for tap in range(taps) if (first + pad - tap * dilation) % stride == 0]
    count = -(-(size - first) // stride)
    if not met:
        return _Phase(slice(0, 0, 1), (0, 1, 1, 0), first, stride, count)
    last = (first + pad - met[-1] * dilation) // stride
    return _Phase(slice(met[-1], met[0] - 1 if met[0] else None, -(stride // common)),
                  (len(met), 1, dilation // common, -last), first, stride, count)


def _call(node, operands, out, axes, layout):
    """operands: x, w, bias or None; out: a View of y; axes: the (taps, stride, dilation, pad) of each."""
    x, w, b = operands
    products.contents(node, w, "filter")
    return Call("conv_float.ConvF32", x.view(), out, Packed("packing.pack_f32", w, 1, layout),
                products.contents(node, b, "bias"), filter=tuple(itertools.chain(*zip(*axes, strict=True))),
                limits=products.float_range(node), strided=(1,))


register("CONV_3D", types=["float32 float32 float32? -> float32"], infer=infer_conv, lower=lower_conv,
         fuses_activation=True)
register("CONV_3D_TRANSPOSE", types=["int32 float32 float32 float32? -> float32"], infer=infer_transpose,
         lower=lower_transpose, fuses_activation=True)
