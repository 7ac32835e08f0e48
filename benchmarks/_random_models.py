"""Random small convolutional networks, of blocks as in MobileNets, ResNets, DS-CNNs and U-Nets: random_models.py runs
them."""
import _models
import numpy as np

KINDS = {"float32": _models.Net, "int8": _models.QuantizedNet, "dynamic-range": _models.HybridNet,
         "float16": _models.HalfNet}
HEIGHTS = 8, 16, 20, 24, 32, 48, 49, 64, 96, 112, 128
WIDTHS = 1, 10, 40, 64          # of the images that are not square: series, spectrograms
MOST_CHANNELS = 320
MOST_ELEMENTS = 100_000         # of a tensor that is made larger


class Draw:
    """One random network."""
    NETS = KINDS

    def __init__(self, kind, seed):
        self.rng = np.random.default_rng(seed)
        self.net = self.NETS[kind](self.first())
        self.notes = ["x".join(map(str, self.net.shape[1:]))]

    def first(self):
        """The shape of the input."""
        height = int(self.choice(HEIGHTS))
        width = height if self.chance(0.6) else int(self.choice(WIDTHS))
        return 1, height, width, int(self.choice((1, 3, 3, 4, 8, 16, 24, 32)))

    def choice(self, options):
        return options[self.rng.integers(len(options))]

    def chance(self, share):
        return bool(self.rng.random() < share)

    def model(self):
        """The bytes of the model."""
        net, large = self.net, min(self.net.shape[1:3]) > 16
        net.conv(int(self.choice((8, 10, 12, 16, 24, 32))), self.choice((1, 3, 3, 5)), 2 if large else 1, "RELU")
        blocks = (self.inverted_residual, self.inverted_residual, self.plain, self.plain, self.residual, self.separable,
                  self.pooled, self.enlarged, self.joined, self.folded, self.activated)
        for _ in range(self.rng.integers(2, 9)):
            self.choice(blocks)()
        if self.chance(0.6):
            net.mean().conv(int(self.choice((2, 10, 12, 100, 1000))), 1)
        return net.build()

    # ---- parts ---------------------------------------------------------------------------------------------------
    def activation(self):
        return str(self.choice(("NONE", "RELU", "RELU6")))

    def stride(self):
        return 2 if min(self.net.shape[1:3]) > 6 and self.chance(0.3) else 1

    def channels(self):
        """About as many as now, or twice as many; a third of the time, no round number."""
        count = int(self.net.shape[3] * self.choice((0.5, 1, 1, 1.5, 2))) + self.chance(0.3) * self.rng.integers(-7, 8)
        return int(np.clip(count, 1, MOST_CHANNELS))

    def note(self, name):
        self.notes.append(f"{name} {self.net.shape[-1]}")

    def inverted_residual(self):
        net, start, shape, stride = self.net, self.net.last, self.net.shape, self.stride()
        net.conv(min(shape[3] * int(self.choice((2, 3, 4, 6))), 960), 1, activation=self.activation())
        self.note("expanded to")
        net.depthwise(self.choice((3, 3, 5, 7)), stride, self.activation(), 1 if stride > 1 else self.choice((1, 1, 2)))
        net.conv(shape[3] if stride == 1 else self.channels(), 1)
        if stride == 1:
            net.add("ADD", [start], shape)

    def residual(self):
        net, start, shape = self.net, self.net.last, self.net.shape
        net.conv(shape[3], 3, 1, self.activation()).conv(shape[3], 3).add("ADD", [start], shape)
        self.note("residual")

    def plain(self):
        self.net.conv(self.channels(), self.choice((1, 3, 3, 5, 7, (1, 3), (3, 1))), self.stride(), self.activation())
        self.note("convolution")

    def separable(self):
        multiplier = self.choice((1, 1, 1, 2)) if self.net.shape[3] < MOST_CHANNELS // 2 else 1
        self.net.depthwise(self.choice((3, 5, (3, 1), (1, 5))), self.stride(), self.activation(), multiplier=multiplier)
        self.note("depthwise")

    def pooled(self):
        self.net.sliding_pool(int(self.choice((2, 3))), 2, str(self.choice(("MAX", "AVERAGE"))))
        self.note("pool")

    def enlarged(self):
        if np.prod(self.net.shape) * 4 <= MOST_ELEMENTS:
            self.net.resize(2 * self.net.shape[1], 2 * self.net.shape[2])
            self.note("enlarged")

    def joined(self):
        """The largest values around each pixel as further channels: operands of one scale."""
        net, start, (n, h, w, c) = self.net, self.net.last, self.net.shape
        net.sliding_pool(3, 1)
        joined = net.tensor((n, h, w, 2 * c), scale=net.scale)
        net.builder.operator("CONCATENATION", [start, net.last], [joined], axis=3)
        net.last, net.shape = joined, (n, h, w, 2 * c)
        self.note("joined")

    def folded(self):
        n, h, w, c = self.net.shape
        if h % 2 == w % 2 == 0 and c < 64:
            self.net.add("SPACE_TO_DEPTH", [], (n, h // 2, w // 2, 4 * c), same_scale=True, block_size=2)
            self.note("folded")

    def activated(self):
        if self.chance(0.5):
            self.net.hard_swish()
        else:
            self.net.add("LEAKY_RELU", [], self.net.shape, alpha=0.1)
        self.note("activation")
