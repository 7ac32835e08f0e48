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

    def with_constant(self, name):
        return self.add(name, [self.constant(self.shape[-1])], self.shape)

    def build(self):
        self.builder.outputs([self.last])
        return self.builder.build()


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
