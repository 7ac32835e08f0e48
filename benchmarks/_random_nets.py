"""Networks under construction that blocks may leave and come back to, of six kinds: for _random_blocks.py."""
import _models
import numpy as np

# scale and zero point of the results, as the reference demands
UNIT, HALF = ("LOGISTIC", "SOFTMAX"), ("TANH", "L2_NORMALIZATION")
FIXED = {dtype: dict.fromkeys(UNIT, unit) | dict.fromkeys(HALF, half) for dtype, unit, half in (
    ("int8", (1 / 256, -128), (1 / 128, 0)), ("uint8", (1 / 256, 0), (1 / 128, 128)),
    ("int16", (1 / 32768, 0), (1 / 32768, 0)))}


class Tracked:
    """A Net that knows the shape of each tensor, and has the ops of attention, recurrent cells and heads."""
    dtype, held = "float32", None       # held: the scale and zero point of the next tensors
    others = ()                         # outputs beside the last tensor

    def __init__(self, shape):
        self.shapes = {}
        super().__init__(shape)

    def tensor(self, shape, **fields):
        index = super().tensor(shape, **fields)
        self.shapes[index] = tuple(shape)
        return index

    def at(self, index):
        """Continue from that tensor."""
        self.last, self.shape = index, self.shapes[index]
        return self

    def ints(self, *numbers):
        return self.builder.constant(f"ints{self.count}", np.array(numbers, np.int32))

    def build(self):
        self.builder.inputs(self.inputs)
        self.builder.outputs([self.last, *self.others])
        return self.builder.build()

    def number(self, value):
        """A constant of one element."""
        return self.known(self.builder.constant(f"number{self.count}", np.array([value], np.float32)), (1,))

    def row(self):
        """A constant for each channel."""
        return self.known(self.constant(self.shape[-1]), self.shape[-1:])

    def known(self, index, shape):
        """The constant, whose shape is remembered."""
        self.shapes[index] = shape
        return index

    def function(self, name, **options):
        """Append an op of one operand, whose result may have a fixed scale."""
        held, self.held = self.held, FIXED.get(self.dtype, {}).get(name, self.held)
        self.add(name, [], self.shape, **options)
        self.held = held
        return self

    def pair(self, name, x, y, activation="NONE"):
        """Append ADD, SUB or MUL of two tensors."""
        shape = np.broadcast_shapes(self.shapes[x], self.shapes[y])
        return self.at(x).add(name, [y], shape, fused_activation_function=activation)

    def move(self, name, operands, shape, **options):
        return self.add(name, operands, shape, same_scale=True, **options)

    def reshape(self, *shape):
        return self.move("RESHAPE", [self.ints(*shape)], shape)

    def transpose(self, *order):
        return self.move("TRANSPOSE", [self.ints(*order)], [self.shape[i] for i in order])

    def pad(self, *widths):
        """widths: (before, after) of the axes"""
        operand = self.builder.constant(f"pad{self.count}", np.array(widths, np.int32))
        return self.move("PAD", [operand], [n + sum(width) for n, width in zip(self.shape, widths, strict=True)])

    def part(self, begin, end, step):
        """A STRIDED_SLICE."""
        shape = [-(-(e - b) // s) for b, e, s in zip(begin, end, step, strict=True)]
        return self.move("STRIDED_SLICE", [self.ints(*begin), self.ints(*end), self.ints(*step)], shape)

    def parts(self, count, axis, unpack=False):
        """The tensors of a SPLIT or UNPACK."""
        shape, x = list(self.shape), self.last
        if unpack:
            del shape[axis]
        else:
            shape[axis] //= count
        found = [self.tensor(shape, scale=self.scale) for _ in range(count)]
        if unpack:
            self.builder.operator("UNPACK", [x], found, num=count, axis=axis)
        else:
            self.builder.operator("SPLIT", [self.ints(axis), x], found, num_splits=count)
        return found

    def join(self, tensors, axis, name="CONCATENATION"):
        """A CONCATENATION or PACK of tensors, which are brought to one scale."""
        tensors = [self.at(index).like(tensors[0]).last for index in tensors]
        shape = list(self.at(tensors[0]).shape)
        if name == "PACK":
            shape.insert(axis, len(tensors))
            return self.move(name, tensors[1:], shape, values_count=len(tensors), axis=axis)
        shape[axis] = sum(self.shapes[index][axis] for index in tensors)
        return self.move(name, tensors[1:], shape, axis=axis)

    def like(self, _other):
        """The last tensor with the scale of another one."""
        return self

    def reduce(self, *axes, name="MEAN", keep=True):
        shape = [1 if i in axes else n for i, n in enumerate(self.shape) if keep or i not in axes]
        return self.add(name, [self.ints(*axes)], shape, same_scale=name != "MEAN", keep_dims=keep)

    def layer(self, weights, channels, activation="NONE"):
        """FULLY_CONNECTED with given weights."""
        return self.add("FULLY_CONNECTED", weights, (*self.shape[:-1], channels), keep_num_dims=len(self.shape) > 2,
                        fused_activation_function=activation)

    def dense(self, channels, activation="NONE"):
        return self.layer(self.filters((channels, self.shape[-1]), 0), channels, activation)

    def valid(self, channels, size, stride=1, dilation=(1, 1), activation="NONE"):
        """A convolution with VALID padding, depthwise if channels is None; size, dilation: (height, width)"""
        n, *extent, c = self.shape
        extent = [-(-(e - (s - 1) * d) // stride) for e, s, d in zip(extent, size, dilation, strict=True)]
        filters = self.filters((channels, *size, c), 0) if channels else self.filters((1, *size, c), 3)
        name, options = ("CONV_2D", {}) if channels else ("DEPTHWISE_CONV_2D", {"depth_multiplier": 1})
        return self.add(name, filters, (n, *extent, channels or c), padding="VALID", stride_h=stride, stride_w=stride,
                        dilation_h_factor=dilation[0], dilation_w_factor=dilation[1],
                        fused_activation_function=activation, **options)

    def transpose_conv(self, channels, size, stride):
        n, h, w, c = self.shape
        shape, x, filters = (n, stride * h, stride * w, channels), self.last, self.filters((channels, size, size, c), 0)
        self.last = self.ints(*shape)
        return self.add("TRANSPOSE_CONV", [filters[0], x, filters[1]], shape, padding="SAME", stride_h=stride,
                        stride_w=stride)


class Float(Tracked, _models.Net):
    """float32"""


class Half(Tracked, _models.HalfNet):
    """float32 with constants of float16"""


class Hybrid(Tracked, _models.HybridNet):
    """dynamic range"""


class Int8(Tracked, _models.QuantizedNet):
    """int8 with a scale for each channel; results neither saturate nor vanish."""
    dtype, zero_point, finer = "int8", -3, 1

    def __init__(self, shape):
        self.scales, self.last = {}, None
        super().__init__(shape)

    @property
    def scale(self):
        """(scale, zero point) of the last tensor"""
        return self.scales.get(self.last)

    def tensor(self, shape, scale=None):
        pair = scale or self.held or (self.rng.uniform(0.02, 0.1) / self.finer, self.zero_point)
        self.count += 1
        index = self.builder.tensor(f"t{self.count}", shape, self.dtype, *pair)
        self.scales[index], self.shapes[index] = pair, tuple(shape)
        return index

    def like(self, other):
        if self.scale == self.scales[other]:
            return self
        y = self.tensor(self.shape, self.scales[other])
        self.builder.operator("QUANTIZE", [self.last], [y])
        return self.at(y)

    def constant(self, *shape):
        low, high = np.iinfo(self.dtype).min, np.iinfo(self.dtype).max
        values = self.rng.integers(low, high, shape, self.dtype, endpoint=True)
        index = self.builder.constant(f"constant{self.count}", values, 0.01 / self.finer, self.zero_point)
        self.scales[index] = 0.01 / self.finer, self.zero_point
        return index

    def number(self, value):
        most = np.iinfo(self.dtype).max
        array = np.array([most], self.dtype)
        return self.known(self.builder.constant(f"number{self.count}", array, value / most), (1,))

    def weights(self, shape, axis, ratios):
        return self.builder.constant(f"w{self.count}", self.rng.integers(-127, 128, shape, np.int8), scale=ratios,
                                     axis=axis)

    def filters(self, shape, axis):
        taps = np.prod(shape) / shape[axis]
        ratios = np.float32(self.rng.uniform(0.5, 1.5, shape[axis]) / (74 * np.sqrt(taps)))
        ratios = ratios[:1] if self.dtype == "uint8" else ratios
        bias = self.rng.integers(-999, 999, shape[axis]) * self.finer
        return [self.weights(shape, axis, ratios),
                self.builder.constant(f"b{self.count}", bias.astype(np.int64 if self.finer > 1 else np.int32),
                                      scale=ratios * np.float32(self.scale[0]))]

    def hard_swish(self):
        return self.add("HARD_SWISH", [], self.shape, same_scale=True)


class UInt8(Int8):
    """uint8 with one scale for all channels"""
    dtype, zero_point = "uint8", 125

    def weights(self, shape, axis, ratios):
        return self.builder.constant(f"w{self.count}", self.rng.integers(0, 256, shape, np.uint8), scale=ratios,
                                     zero_point=121)


class Int16(Int8):
    """int16 with weights of int8"""
    dtype, zero_point, finer = "int16", 0, 256

    def hard_swish(self):       # which the reference lacks
        return self.add("LEAKY_RELU", [], self.shape, alpha=0.1)


NETS = {"float32": Float, "int8": Int8, "dynamic-range": Hybrid, "float16": Half, "uint8": UInt8, "int16": Int16}
