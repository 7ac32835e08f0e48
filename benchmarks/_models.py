"""Models that the benchmarks build, with the shapes of real models and random weights."""
import numpy as np

from pylite.schema.builder import ModelBuilder


class Net:
    """A float32 model under construction: each method appends operators after the last tensor."""

    def __init__(self, shape):
        self.builder = ModelBuilder()
        self.rng = np.random.default_rng(0)
        self.shape = tuple(shape)
        self.last = self.builder.tensor("x", self.shape, shape_signature=(-1, *self.shape[1:]))
        self.builder.inputs([self.last])
        self.count = 0

    def constant(self, *shape):
        array = self.rng.standard_normal(shape).astype(np.float32) * 0.1
        return self.builder.constant(f"constant{self.count}_{len(shape)}", array)

    def add(self, name, operands, shape, **options):
        y = self.builder.tensor(f"t{self.count}", shape)
        self.builder.operator(name, [self.last, *operands], [y], **options)
        self.last, self.shape, self.count = y, tuple(shape), self.count + 1
        return self

    def conv(self, channels, height, width):
        n, h, w, c = self.shape
        return self.add("CONV_2D", [self.constant(channels, height, width, c), self.constant(channels)],
                        (n, h, w, channels), padding="SAME", stride_h=1, stride_w=1)

    def pool(self, height, width):
        n, h, w, c = self.shape
        return self.add("MAX_POOL_2D", [], (n, h // height, w // width, c), padding="VALID", filter_height=height,
                        filter_width=width, stride_h=height, stride_w=width)

    def dense(self, channels):
        return self.add("FULLY_CONNECTED", [self.constant(channels, self.shape[-1]), self.constant(channels)],
                        (*self.shape[:-1], channels))

    def with_constant(self, name):
        return self.add(name, [self.constant(self.shape[-1])], self.shape)

    def build(self):
        self.builder.outputs([self.last])
        return self.builder.build()


class HalfNet(Net):
    """A Net whose constants are float16."""

    def constant(self, *shape):
        half = self.builder.constant(f"half{self.count}_{len(shape)}",
                                     (self.rng.standard_normal(shape) * 0.1).astype(np.float16))
        whole = self.builder.tensor(f"constant{self.count}_{len(shape)}", shape)
        self.builder.operator("DEQUANTIZE", [half], [whole])
        return whole


def embedding():
    """65 operators like openWakeWord's embedding model, from spectrograms (n, 76, 32, 1)."""
    net = Net((1, 76, 32, 1))
    for block in range(5):
        for _ in range(2):
            net.conv(24 + 8 * block, 1, 3).with_constant("MUL").with_constant("MAXIMUM")
            net.conv(24 + 8 * block, 3, 1).with_constant("MUL").with_constant("MAXIMUM")
        if block < 4:
            net.pool(2, 2)
    return net.add("RELU", [], net.shape).build()


def convolutions(half=False):
    """22 float32 operators with the filters of a ResNet-18, 44 MB; half: stored as float16, and dequantized."""
    net = (HalfNet if half else Net)((1, 64, 64, 3))
    for stage in range(4):
        for _layer in range(4):
            net.conv(64 << stage, 3, 3).add("RELU", [], net.shape)
        net.pool(2, 2)
    return net.build()


def perceptron(width=2048, layers=3):
    """`layers` matrix products of float32 with one row: 50 MB of weights."""
    net = Net((1, width))
    for _ in range(layers):
        net.dense(width)
    return net.build()


def chain(count, shape=(1, 4)):
    """A sequence of `count` small operators of four kinds."""
    net = Net(shape)
    for i in range(count):
        name = ("ADD", "MUL", "RELU", "MAXIMUM")[i % 4]
        if name == "RELU":
            net.add(name, [], net.shape)
        else:
            net.with_constant(name)
    return net.build()


def encoder(blocks, width=16, tokens=8):
    """`blocks` transformer blocks of 25 float32 operators each, with the shapes of a very small model."""
    net = Net((tokens, width))
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
    net = QuantizedNet((1, size, size, 3))
    net.conv(16, 3, 2).depthwise(1).conv(8, 1, 1, "NONE")
    for channels, count, stride in ((8, 2, 2), (16, 3, 2), (24, 4, 2), (32, 3, 1), (56, 3, 2), (112, 1, 1)):
        for i in range(count):
            start, inner = net.last, 6 * net.shape[3]
            net.conv(inner, 1, 1).depthwise(stride if i == 0 else 1).conv(channels, 1, 1, "NONE")
            if i:
                net.add("ADD", [start], net.shape)
    return net.conv(1280, 1, 1).build()


class QuantizedNet(Net):
    """A Net of int8."""

    def __init__(self, shape):
        self.builder = ModelBuilder()
        self.rng = np.random.default_rng(0)
        self.shape = tuple(shape)
        self.count = 0
        self.last = self.tensor(self.shape)
        self.builder.inputs([self.last])

    def tensor(self, shape):
        return self.builder.tensor(f"t{self.count}", shape, "int8", scale=self.rng.uniform(0.02, 0.1), zero_point=-3,
                                   shape_signature=(-1, *shape[1:]))

    def add(self, name, operands, shape, **options):
        self.count += 1
        y = self.tensor(shape)
        self.builder.operator(name, [self.last, *operands], [y], **options)
        self.last, self.shape = y, tuple(shape)
        return self

    def filters(self, shape, axis):
        """Weights of `shape` with a scale for each index along `axis`, and the bias."""
        scales = self.rng.uniform(0.001, 0.01, shape[axis])
        return [self.builder.constant(f"w{self.count}", self.rng.integers(-127, 128, shape, np.int8), scale=scales,
                                      axis=axis),
                self.builder.constant(f"b{self.count}", self.rng.integers(-999, 999, shape[axis], np.int32),
                                      scale=scales * 0.05)]

    def conv(self, channels, size, stride, activation="RELU6"):
        n, h, w, c = self.shape
        return self.add("CONV_2D", self.filters((channels, size, size, c), 0),
                        (n, -(-h // stride), -(-w // stride), channels), padding="SAME", stride_h=stride,
                        stride_w=stride, fused_activation_function=activation)

    def depthwise(self, stride):
        n, h, w, c = self.shape
        return self.add("DEPTHWISE_CONV_2D", self.filters((1, 3, 3, c), 3),
                        (n, -(-h // stride), -(-w // stride), c), padding="SAME", stride_h=stride, stride_w=stride,
                        depth_multiplier=1, fused_activation_function="RELU6")
