"""Layers of image, speech and detection networks, as models of one operator with random weights."""
import _models

NETS = {"int8": _models.QuantizedNet, "float32": _models.Net, "dynamic-range": _models.HybridNet}


def image(size, c):
    """(1, height, width, c); size: of both axes, or (height, width)"""
    return (1, *((size, size) if isinstance(size, int) else size), c)


def by(size):
    return f"{size}x{size}" if isinstance(size, int) else "x".join(map(str, size))


# (image, channels, filter, stride)
DEPTHWISE = [
    (56, 64, 3, 1), (56, 128, 3, 2), (28, 256, 3, 1), (14, 512, 3, 1), (14, 512, 3, 2), (7, 1024, 3, 1),  # MobileNetV1
    (56, 144, 3, 1), (28, 192, 3, 2), (14, 384, 3, 1), (14, 576, 3, 2), (7, 960, 3, 1),  # MobileNetV2
    (56, 16, 3, 2), (56, 72, 3, 2), (28, 88, 3, 1), (28, 96, 5, 2), (14, 240, 5, 1), (14, 120, 5, 1),  # MobileNetV3
    (14, 144, 5, 1), (14, 288, 5, 2), (7, 576, 5, 1), (56, 72, 5, 2), (28, 120, 5, 1), (14, 200, 3, 1),
    (56, 96, 5, 2), (28, 144, 5, 1), (14, 672, 5, 2), (7, 1152, 5, 1),                              # EfficientNet-Lite
    (40, 24, 7, 2), (20, 48, 7, 1), (10, 120, 7, 1), (5, 240, 7, 1), (20, 80, 5, 2),                        # MCUNet
    ((25, 5), 64, 3, 1),                                                                                    # DS-CNN
    (19, 256, 3, 2), (10, 128, 3, 2), (24, 96, 3, 1), (12, 192, 3, 2),  # SSD, MoveNet
    (64, 24, 5, 1), (32, 48, 5, 2), (16, 88, 3, 1), (8, 96, 5, 1),                                          # BlazeFace
    (9, 20, 3, 1), (12, 36, 5, 1), (20, 6, 3, 1),                                           # partly filled blocks
    ((98, 1), 40, (9, 1), 1), ((50, 1), 64, (21, 1), 1),                                                    # speech
]
# (image, channels, filter, dilation or multiplier)
DILATED = [(28, 192, 3, 2), (28, 96, 3, 4), (14, 240, 5, 2), (14, 64, 7, 2)]
MULTIPLIED = [(32, 1, 3, 8), (28, 16, 3, 6), (24, 32, 3, 2), (32, 3, 5, 4)]
# (image, channels, filters, filter, stride)
FIRST = [(96, 1, 8, 3, 2), (96, 3, 8, 3, 2), (112, 3, 16, 3, 2), (160, 3, 32, 3, 2), ((49, 10), 1, 64, (10, 4), 2),
         (64, 4, 16, 3, 1), (32, 3, 16, 3, 1), (64, 3, 24, 5, 2), (112, 3, 64, 7, 2), (96, 4, 16, 3, 2)]
POINTWISE = [(56, 16, 16), (28, 16, 72), (56, 24, 96), (28, 24, 88), (28, 88, 24), (28, 72, 24), (14, 40, 240),
             (14, 240, 40), (14, 48, 144), (7, 96, 576), (7, 576, 96), (28, 128, 128), (14, 256, 256), (7, 512, 512),
             (7, 320, 1280), ((25, 5), 64, 64), (20, 8, 24), (19, 256, 12), (10, 512, 24), (48, 32, 16)]
CONV = [(32, 16, 16, 3, 1), (32, 16, 32, 3, 2), (16, 32, 32, 3, 1), (8, 64, 64, 3, 1), (28, 64, 64, 3, 1),
        (14, 128, 128, 3, 1), (14, 128, 256, 3, 2), (7, 256, 256, 3, 1), (28, 64, 128, 1, 2), (64, 16, 16, 3, 1),
        (32, 48, 24, 3, 1), (10, 96, 24, 3, 1), (16, 96, 6, 1, 1), (16, 88, 2, 1, 1), ((49, 1), 40, 64, (3, 1), 1)]
SQUEEZED = [(28, 16), (14, 96), (14, 240), (14, 120), (7, 576)]
EXCITED = [(96, 24), (24, 96), (240, 64), (64, 240), (576, 144), (144, 576), (576, 1024), (1024, 1000)]
SUMS = [(56, 24), (28, 32), (14, 40), (7, 96), (16, 88)]
# (kind, image, channels, window, stride)
SLIDING = [("MAX", 56, 64, 3, 2), ("MAX", 13, 128, 5, 1), ("AVERAGE", 28, 64, 3, 1)]
RESIZED = [(28, 64), (16, 21)]


def windows(net):
    for size, c, k, stride in DEPTHWISE:
        yield (f"depthwise {by(k)}", f"{by(size)}x{c}" + f", stride {stride}" * (stride > 1),
               net(image(size, c)).depthwise(k, stride, "RELU6"))
    for size, c, k, dilation in DILATED:
        yield ("depthwise, other", f"{by(k)}, {by(size)}x{c}, dilation {dilation}",
               net(image(size, c)).depthwise(k, 1, "RELU6", dilation))
    for size, c, k, m in MULTIPLIED:
        yield ("depthwise, other", f"{by(k)}, {by(size)}x{c}, multiplier {m}",
               net(image(size, c)).depthwise(k, 1, "RELU6", multiplier=m))
    for group, layers in (("first layer", FIRST), ("convolution", CONV)):
        for size, c, n, k, stride in layers:
            yield (group, f"{by(k)}, {by(size)}x{c} to {n}" + f", stride {stride}" * (stride > 1),
                   net(image(size, c)).conv(n, k, stride, "RELU"))
    for size, c, n in POINTWISE:
        yield "convolution 1x1", f"{by(size)}x{c} to {n}", net(image(size, c)).conv(n, 1, activation="RELU6")


def others(net):
    for size, c in SQUEEZED:
        yield "MEAN", f"{by(size)}x{c}", net(image(size, c)).mean()
        scaled = net(image(size, c))
        yield "MUL by a row", f"{by(size)}x{c}", scaled.add("MUL", [scaled.input(1, 1, 1, c)], scaled.shape)
        yield "HARD_SWISH", f"{by(size)}x{c}", (lambda n: n.add("HARD_SWISH", [], n.shape))(net(image(size, c)))
    for c, n in EXCITED:
        yield "single row", f"{c} to {n}", net((1, 1, 1, c)).conv(n, 1, activation="RELU")
    for size, c in SUMS:
        added = net(image(size, c))
        yield "ADD", f"{by(size)}x{c}", added.add("ADD", [added.input(*added.shape)], added.shape)
    yield "pool", "AVERAGE 7x7x1024", net(image(7, 1024)).pool(7, 7, "AVERAGE")
    yield "pool", "MAX 2x2, 32x32x32", net(image(32, 32)).pool(2, 2)
    for kind, size, c, k, stride in SLIDING:
        yield ("pool", f"{kind} {by(k)}, {by(size)}x{c}, stride {stride}",
               net(image(size, c)).sliding_pool(k, stride, kind))
    for size, c in RESIZED:
        yield "RESIZE_BILINEAR", f"{by(size)}x{c}, twice as large", net(image(size, c)).resize(2 * size, 2 * size)


def layers(dtype):
    """(group, name, the bytes of the model)"""
    for some in (windows,) if dtype == "dynamic-range" else (windows, others):
        for group, name, net in some(NETS[dtype]):
            yield group, name, net.build()
    if dtype == "dynamic-range":
        for c, n in EXCITED:
            yield "single row", f"{c} to {n}", _models.HybridNet((1, c)).dense(n).build()
