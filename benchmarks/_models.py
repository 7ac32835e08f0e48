"""Models that the benchmarks build, with the shapes of real models and random weights."""
import numpy as np

from pylite.schema.builder import ModelBuilder


class Net:
    """A float32 model under construction: each method appends operators after the last tensor."""
    scale = None

    def __init__(self, shape):
        self.builder = ModelBuilder()
        self.rng = np.random.default_rng(0)
        self.shape = tuple(shape)
        self.count = 0
        self.last = self.tensor(self.shape)
        self.inputs = [self.last]

    def tensor(self, shape, **fields):
        self.count += 1
        return self.builder.tensor(f"t{self.count}", shape, **fields)

    def input(self, *shape):
        """Another input of the model; its tensor."""
        self.inputs.append(self.tensor(shape))
        return self.inputs[-1]

    def constant(self, *shape):
        array = self.rng.standard_normal(shape).astype(np.float32) * 0.1
        return self.builder.constant(f"constant{self.count}_{len(shape)}", array)

    def filters(self, shape, axis):
        """Weights of `shape`, whose outputs lie along `axis`, and the bias."""
        return [self.constant(*shape), self.constant(shape[axis])]

    def add(self, name, operands, shape, same_scale=False, **options):
        """Append an operator.  same_scale: its output has the scale and zero point of the tensor added last."""
        y = self.tensor(shape, scale=self.scale) if same_scale else self.tensor(shape)
        self.builder.operator(name, [self.last, *operands], [y], **options)
        self.last, self.shape = y, tuple(shape)
        return self

    def _window(self, name, operands, channels, stride, activation, **options):
        n, h, w, _ = self.shape
        stride_h, stride_w = (stride, stride) if isinstance(stride, int) else stride
        return self.add(name, operands, (n, -(-h // stride_h), -(-w // stride_w), channels), padding="SAME",
                        stride_h=stride_h, stride_w=stride_w, fused_activation_function=activation, **options)

    def conv(self, channels, size, stride=1, activation="NONE"):
        """size, stride: of both axes, or (height, width)"""
        height, width = (size, size) if isinstance(size, int) else size
        filters = self.filters((channels, height, width, self.shape[3]), 0)
        return self._window("CONV_2D", filters, channels, stride, activation)

    def depthwise(self, size=3, stride=1, activation="NONE", dilation=1, multiplier=1):
        height, width = (size, size) if isinstance(size, int) else size
        channels = multiplier * self.shape[3]
        return self._window("DEPTHWISE_CONV_2D", self.filters((1, height, width, channels), 3), channels, stride,
                            activation, depth_multiplier=multiplier, dilation_h_factor=dilation,
                            dilation_w_factor=dilation)

    def pool(self, height, width, kind="MAX"):
        n, h, w, c = self.shape
        return self.add(kind + "_POOL_2D", [], (n, h // height, w // width, c), same_scale=True, padding="VALID",
                        filter_height=height, filter_width=width, stride_h=height, stride_w=width)

    def sliding_pool(self, size, stride, kind="MAX"):
        return self._window(kind + "_POOL_2D", [], self.shape[3], stride, "NONE", same_scale=True, filter_height=size,
                            filter_width=size)

    def resize(self, height, width):
        size = self.builder.constant(f"size{self.count}", np.array([height, width], np.int32))
        return self.add("RESIZE_BILINEAR", [size], (self.shape[0], height, width, self.shape[3]), same_scale=True)

    def dense(self, channels, activation="NONE"):
        return self.add("FULLY_CONNECTED", self.filters((channels, self.shape[-1]), 0), (*self.shape[:-1], channels),
                        fused_activation_function=activation)

    def mean(self):
        """The mean of each channel, (n, 1, 1, c)."""
        axes = self.builder.constant(f"axes{self.count}", np.array([1, 2], np.int32))
        return self.add("MEAN", [axes], (self.shape[0], 1, 1, self.shape[3]), keep_dims=True)

    def hard_swish(self):
        return self.add("HARD_SWISH", [], self.shape)

    def with_constant(self, name):
        return self.add(name, [self.constant(self.shape[-1])], self.shape)

    def build(self):
        self.builder.inputs(self.inputs)
        self.builder.outputs([self.last])
        return self.builder.build()


class Resizable(Net):
    """A float32 model of any batch."""

    def tensor(self, shape, **fields):
        return super().tensor(shape, shape_signature=(-1, *shape[1:]), **fields)


class HalfNet(Resizable):
    """A Resizable whose constants are float16."""

    def constant(self, *shape):
        half = self.builder.constant(f"half{self.count}_{len(shape)}",
                                     (self.rng.standard_normal(shape) * 0.1).astype(np.float16))
        whole = self.builder.tensor(f"constant{self.count}_{len(shape)}", shape)
        self.builder.operator("DEQUANTIZE", [half], [whole])
        return whole


class HybridNet(Net):
    """A float32 model whose weights are int8 with a scale for each output: dynamic range."""

    def filters(self, shape, axis):
        scales = self.rng.uniform(0.001, 0.01, shape[axis])
        weights = self.rng.integers(-127, 128, shape, np.int8)
        return [self.builder.constant(f"w{self.count}", weights, scale=scales, axis=axis), self.constant(shape[axis])]


class QuantizedNet(Net):
    """A model of int8."""

    def tensor(self, shape, scale=None, **fields):
        self.scale = scale or self.rng.uniform(0.02, 0.1)
        return super().tensor(shape, dtype="int8", scale=self.scale, zero_point=-3, **fields)

    def filters(self, shape, axis):
        scales = self.rng.uniform(0.001, 0.01, shape[axis])
        return [self.builder.constant(f"w{self.count}", self.rng.integers(-127, 128, shape, np.int8), scale=scales,
                                      axis=axis),
                self.builder.constant(f"b{self.count}", self.rng.integers(-999, 999, shape[axis], np.int32),
                                      scale=scales * 0.05)]


    def scalar(self, name, number, activation="NONE"):
        """Append an operator whose second operand is the constant `number`."""
        constant = self.builder.constant(f"scalar{self.count}", np.array([127], np.int8), scale=number / 127)
        return self.add(name, [constant], self.shape, fused_activation_function=activation)

    def squeeze_and_excite(self):
        """Multiply channels by the hard sigmoid of two layers of their means."""
        start, shape = self.last, self.shape
        self.mean().conv(max(8, shape[3] // 4 // 8 * 8), 1, activation="RELU").conv(shape[3], 1)
        gate = self.scalar("ADD", 3.0, "RELU6").scalar("MUL", 1 / 6).last
        self.last = start
        return self.add("MUL", [gate], shape)


class ResizableQuantized(QuantizedNet, Resizable):
    """A model of int8 of any batch."""


def embedding():
    """65 operators like openWakeWord's embedding model, from spectrograms (n, 76, 32, 1)."""
    net = Resizable((1, 76, 32, 1))
    for block in range(5):
        for _ in range(2):
            net.conv(24 + 8 * block, (1, 3)).with_constant("MUL").with_constant("MAXIMUM")
            net.conv(24 + 8 * block, (3, 1)).with_constant("MUL").with_constant("MAXIMUM")
        if block < 4:
            net.pool(2, 2)
    return net.add("RELU", [], net.shape).build()


def convolutions(half=False):
    """22 float32 operators with the filters of a ResNet-18, 44 MB; half: stored as float16, and dequantized."""
    net = (HalfNet if half else Resizable)((1, 64, 64, 3))
    for stage in range(4):
        for _layer in range(4):
            net.conv(64 << stage, 3).add("RELU", [], net.shape)
        net.pool(2, 2)
    return net.build()


def perceptron(width=2048, layers=3):
    """`layers` matrix products of float32 with one row: 50 MB of weights."""
    net = Resizable((1, width))
    for _ in range(layers):
        net.dense(width)
    return net.build()


def chain(count, shape=(1, 4)):
    """A sequence of `count` small operators of four kinds."""
    net = Resizable(shape)
    for i in range(count):
        name = ("ADD", "MUL", "RELU", "MAXIMUM")[i % 4]
        if name == "RELU":
            net.add(name, [], net.shape)
        else:
            net.with_constant(name)
    return net.build()


def encoder(blocks, width=16, tokens=8):
    """`blocks` transformer blocks of 25 float32 operators each, with the shapes of a very small model."""
    net = Resizable((tokens, width))
    for _ in range(blocks):
        for attends in (True, False):
            start = net.last
            _normalize(net)
            if attends:
                _attend(net)
            else:
                net.dense(4 * width).add("GELU", [], net.shape).dense(width)
            net.add("ADD", [start], net.shape)
    return net.build()


def _normalize(net):
    """Layer normalization in 7 operators."""
    shape, axes = net.shape, net.builder.constant(f"axes{net.count}", np.array([1], np.int32))
    x = net.last
    mean = net.add("MEAN", [axes], (shape[0], 1), keep_dims=True).last
    net.last = x
    net.add("SQUARED_DIFFERENCE", [mean], shape).add("MEAN", [axes], (shape[0], 1), keep_dims=True)
    inverse = net.add("RSQRT", [], net.shape).last
    net.last = x
    net.add("SUB", [mean], shape).add("MUL", [inverse], shape).with_constant("MUL")


def _attend(net):
    """Attention of one head, in 6 operators."""
    x, (tokens, width) = net.last, net.shape
    operands = []
    for _ in range(3):
        net.last, net.shape = x, (tokens, width)
        operands.append(net.dense(width).last)
    query, key, value = operands
    net.last = query
    net.add("BATCH_MATMUL", [key], (tokens, tokens), adj_y=True).add("SOFTMAX", [], net.shape, beta=1.0)
    net.add("BATCH_MATMUL", [value], (tokens, width))


def inverted_residuals(size=96):
    """MobileNetV2 of int8 with a scale for each channel, width 0.35: 64 operators."""
    net = ResizableQuantized((1, size, size, 3))
    net.conv(16, 3, 2, "RELU6").depthwise(activation="RELU6").conv(8, 1)
    _invert(net, ((8, 2, 2), (16, 3, 2), (24, 4, 2), (32, 3, 1), (56, 3, 2), (112, 1, 1)))
    return net.conv(1280, 1, activation="RELU6").build()


def _invert(net, groups):
    """The inverted residuals of MobileNetV2.  groups: (channels, number of blocks, stride of the first)"""
    for channels, count, stride in groups:
        for i in range(count):
            start, inner = net.last, 6 * net.shape[3]
            net.conv(inner, 1, activation="RELU6").depthwise(3, stride if i == 0 else 1, "RELU6").conv(channels, 1)
            if i:
                net.add("ADD", [start], net.shape)


def mobilenet_v3_small(size=224):
    """MobileNetV3-Small of int8 with a scale for each channel."""
    net = QuantizedNet((1, size, size, 3))
    net.conv(16, 3, 2).hard_swish()
    for filters, inner, channels, squeezed, swish, stride in (
            (3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1),
            (5, 96, 40, True, True, 2), (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1),
            (5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1), (5, 288, 96, True, True, 2),
            (5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1)):
        start, before, activation = net.last, net.shape, "NONE" if swish else "RELU"
        if inner != before[3]:
            net.conv(inner, 1, activation=activation)
            net = net.hard_swish() if swish else net
        net.depthwise(filters, stride, activation)
        net = net.hard_swish() if swish else net
        if squeezed:
            net.squeeze_and_excite()
        net.conv(channels, 1)
        if net.shape == before:
            net.add("ADD", [start], net.shape)
    net.conv(576, 1).hard_swish().mean().conv(1024, 1).hard_swish()
    return net.conv(1000, 1).build()


def mobilenet_v1(net):
    """MobileNetV1 of width 1.0 after the input of `net`."""
    net.conv(32, 3, 2, "RELU6")
    for channels, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2),
                             (1024, 1)):
        net.depthwise(3, stride, "RELU6").conv(channels, 1, activation="RELU6")
    return net.mean().conv(1000, 1).build()


def mobilenet_v2(net):
    """MobileNetV2 of width 1.0 after the input of `net`."""
    net.conv(32, 3, 2, "RELU6").depthwise(activation="RELU6").conv(16, 1)
    _invert(net, ((24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)))
    return net.conv(1280, 1, activation="RELU6").mean().conv(1000, 1).build()
