"""Random small networks of rarer blocks: attention, unrolled recurrent cells, dilated series, branches, heads.

random_models.py --rare runs them.
"""
import _random_models
import _random_nets
import numpy as np

LENGTHS = 16, 25, 40, 49, 64, 100, 128, 200     # of series and sentences
MOST_TOKENS, MOST_STEPS = 200, 600              # of attention; features of a recurrent step
VOCABULARY = 500


class Draw(_random_models.Draw):
    """One random network.  The blocks take and leave tensors (n, h, w, c)."""
    NETS = _random_nets.NETS

    def first(self):
        start = self.rng.random()
        batch = int(self.choice((1, 1, 1, 1, 1, 2, 3, 4)))
        if start < 0.6:
            return (batch, *super().first()[1:])
        return batch, 1, int(self.choice(LENGTHS)), int(self.choice((1, 8, 13, 16, 32, 40, 64)))

    def model(self):
        net = self.net
        if net.shape[1] == 1 and self.chance(0.3):
            self.embedded()
        elif min(net.shape[1:3]) > 16:
            self.choice((self.focus, self.padded, self.stem))()
        blocks = (self.encoder, self.recurrent, self.series, self.series, self.inception, self.pyramid, self.face,
                  self.convnext, self.shuffled, self.unet, self.unet, self.squeezed, self.squeezed, self.padded,
                  self.inverted_residual, self.separable, self.pooled, self.activated)
        for _ in range(self.rng.integers(2, 6)):
            self.choice(blocks)()
        self.choice((self.classes, self.heads, self.heads, self.boxes, lambda: None))()
        return net.build()

    # ---- the first layers ----------------------------------------------------------------------------------------
    def stem(self):
        self.net.conv(int(self.choice((8, 16, 24))), 3, 2, "RELU")

    def embedded(self):
        """Rows of a table, by indices."""
        net, (n, _, length, _) = self.net, self.net.shape
        ids = net.builder.tensor("ids", (n, 1, length), "int32")
        width, net.inputs = int(self.choice((8, 16, 24, 50))), [ids]
        table = net.known(net.constant(VOCABULARY, width), (VOCABULARY, width))
        net.at(table).move("GATHER", [ids], (n, 1, length, width), axis=0)
        self.note("embedded in")

    def focus(self):
        """A pixel of every four as one image, the others as further channels."""
        net, x, (n, h, w, c) = self.net, self.net.last, self.net.shape
        h, w = h // 2 * 2, w // 2 * 2
        slices = [net.at(x).part((0, i, j, 0), (n, h, w, c), (1, 2, 2, 1)).last for j in range(2) for i in range(2)]
        net.join(slices, 3).conv(int(self.choice((8, 16, 20))), 3, activation=self.activation())
        self.note("focus")

    # ---- blocks --------------------------------------------------------------------------------------------------
    def padded(self):
        """PAD and a convolution or pool with VALID padding."""
        net, size, stride = self.net, int(self.choice((2, 3, 5))), self.stride()
        net.pad((0, 0), (size // 2, (size - 1) // 2), (size // 2, (size - 1) // 2), (0, 0))
        channels = self.channels() if self.chance(0.7) else None
        net.valid(channels, (size, size), stride, activation=self.activation())
        self.note(f"padded {size}")

    def squeezed(self):
        """Squeeze-and-excite, of convolutions or of dense layers, with a hard or a true sigmoid."""
        net, x, (n, _, _, c) = self.net, self.net.last, self.net.shape
        if self.chance(0.5):
            net.mean().conv(max(4, c // 4), 1, activation="RELU").conv(c, 1)
        else:
            net.reduce(1, 2, keep=False).dense(max(4, c // 4), "RELU").dense(c).reshape(n, 1, 1, c)
        if self.chance(0.5):
            net.function("LOGISTIC")
        else:
            net.pair("ADD", net.last, net.number(3.0), "RELU6").pair("MUL", net.last, net.number(1 / 6))
        net.pair("MUL", *((x, net.last) if self.chance(0.5) else (net.last, x)))
        self.note("squeezed")

    def normalized(self):
        """Layer normalization; without means where the reference lacks SQUARED_DIFFERENCE."""
        net, x, axis = self.net, self.net.last, len(self.net.shape) - 1
        if net.dtype == "uint8":
            return net.pair("MUL", x, net.row())
        if net.dtype == "int16":
            centred = x
            net.pair("MUL", x, x)
        else:
            mean = net.reduce(axis).last
            shape = net.shapes[x]
            if self.chance(0.5):
                centred = net.pair("SUB", x, mean).last
                net.pair("MUL", centred, centred)
            else:
                net.at(x).add("SQUARED_DIFFERENCE", [mean], shape)
                variance = net.last
                centred = net.pair("SUB", x, mean).last
                net.at(variance)
        net.reduce(axis)
        net.pair("ADD", net.last, net.number(0.001), "RELU").add("RSQRT", [], net.shape)
        return net.pair("MUL", centred, net.last).pair("MUL", net.last, net.row()).pair("ADD", net.last, net.row())

    def encoder(self):
        """A block of a transformer."""
        net, (n, h, w, _) = self.net, self.net.shape
        if h * w > MOST_TOKENS or net.dtype == "uint8":     # the reference has no BATCH_MATMUL of uint8
            return self.pooled()
        heads, depth = int(self.choice((1, 2, 4))), int(self.choice((4, 8, 16, 20)))
        width, tokens = heads * depth, h * w
        x = net.reshape(n, tokens, net.shape[3]).dense(width).last
        self.normalized()
        start, found = net.last, []
        for _ in range(3):
            net.at(start).dense(width).reshape(n, tokens, heads, depth)
            found.append(net.transpose(0, 2, 1, 3).last)
        query, key, value = found
        if self.chance(0.5):
            net.at(query).add("BATCH_MATMUL", [key], (n, heads, tokens, tokens), adj_y=True)
        else:
            key = net.at(key).transpose(0, 1, 3, 2).last
            net.at(query).add("BATCH_MATMUL", [key], (n, heads, tokens, tokens))
        if self.chance(0.6):
            net.pair("MUL", net.last, net.number(depth ** -0.5))
        net.function("SOFTMAX", beta=1.0).add("BATCH_MATMUL", [value], (n, heads, tokens, depth))
        x = net.transpose(0, 2, 1, 3).reshape(n, tokens, width).dense(width).pair("ADD", x, net.last).last
        self.normalized().dense(2 * width)
        net.add(str(self.choice(("GELU", "RELU"))), [], net.shape).dense(width).pair("ADD", net.last, x)
        net.reshape(n, h, w, width)
        return self.note(f"encoder of {heads} heads, {tokens} tokens,")

    def recurrent(self):
        """An unrolled GRU or LSTM."""
        net, (n, h, w, c) = self.net, self.net.shape
        steps = next((k for k in (6, 5, 4, 3) if h * w % k == 0 and h * w * c <= k * MOST_STEPS), 0)
        if not steps:
            return self.pooled()
        features, units = h * w * c // steps, int(self.choice((8, 16, 20, 32)))
        net.reshape(n, steps, features)
        inputs, net.held = net.parts(steps, 1, unpack=True), net.scale
        state, cell = (net.at(inputs[0]).dense(units, "RELU").last for _ in range(2))
        lstm, weights, outputs = self.chance(0.5), {}, []
        for x in inputs:
            if lstm:
                state, cell = self.lstm_step(x, state, cell, weights)
            else:
                state = self.gru_step(x, state, weights)
            outputs.append(state)
        net.join(outputs, 1, "PACK").reshape(n, 1, steps, units)
        net.held = None
        return self.note(f"{'LSTM' if lstm else 'GRU'} of {steps} steps from {features} to")

    def gates(self, x, state, weights, name, count):
        net = self.net.join([x, state], len(self.net.shapes[x]) - 1)
        units = self.net.shapes[state][-1]
        if name not in weights:         # the steps share them
            weights[name] = net.filters((count * units, net.shape[-1]), 0)
        return net.layer(weights[name], count * units)

    def lstm_step(self, x, state, cell, weights):
        net = self.gates(x, state, weights, "all", 4)
        i, f, g, o = net.parts(4, 1)
        i, f, o = (net.at(gate).function("LOGISTIC").last for gate in (i, f, o))
        g = net.at(g).function("TANH").last
        cell = net.pair("ADD", net.pair("MUL", f, cell).last, net.pair("MUL", i, g).last).last
        return net.pair("MUL", o, net.at(cell).function("TANH").last).last, cell

    def gru_step(self, x, state, weights):
        net = self.gates(x, state, weights, "gates", 2).function("LOGISTIC")
        r, z = net.parts(2, 1)
        reset = net.pair("MUL", r, state).last
        new = self.gates(x, reset, weights, "new", 1).function("TANH").last
        rest = net.pair("SUB", net.number(1.0), z).last
        return net.pair("ADD", net.pair("MUL", z, state).last, net.pair("MUL", rest, new).last).last

    def series(self):
        """Dilated convolutions along one axis, padded before or by SPACE_TO_BATCH_ND, perhaps with WaveNet's gates."""
        net, (n, h, w, c) = self.net, self.net.shape
        if h * w * c > 20_000:
            return self.pooled()
        if h > 1:
            net.reshape(n, 1, h * w, c)
        gated = self.chance(0.4)
        for dilation in (1, 2, 4)[:self.rng.integers(1, 4)]:
            x = net.last
            self.dilated(int(self.choice((2, 3, 5))), dilation, c, "NONE" if gated else self.activation())
            if gated:
                filtered = net.last
                gate = net.function("LOGISTIC").last
                tanh = net.at(filtered).function("TANH").last
                net.pair("MUL", tanh, gate).conv(c, 1)
            net.pair("ADD", x, net.last)
        if h > 1:
            net.reshape(n, h, w, c)
        return self.note("gated series" if gated else "series")

    def dilated(self, size, dilation, c, activation):
        net, reach = self.net, (size - 1) * dilation
        n, _, w, _ = net.shape
        channels, way = c if self.chance(0.7) else None, self.rng.integers(2)
        if way == 0 or dilation == 1:
            net.pad((0, 0), (0, 0), (reach, 0), (0, 0)).valid(channels, (1, size), 1, (1, dilation), activation)
            return
        more = -(w + reach) % dilation
        length, blocks = (w + reach + more) // dilation, net.ints(1, dilation)
        pads = net.builder.constant(f"pads{net.count}", np.array([[0, 0], [reach, more]], np.int32))
        net.move("SPACE_TO_BATCH_ND", [blocks, pads], (n * dilation, 1, length, c))
        net.valid(channels, (1, size), 1, (1, 1), activation)
        crops = net.builder.constant(f"crops{net.count}", np.array([[0, 0], [0, more]], np.int32))
        net.move("BATCH_TO_SPACE_ND", [blocks, crops], (n, 1, w, c))

    def inception(self):
        """Branches of several sizes, joined."""
        net, x, c = self.net, self.net.last, self.net.shape[3]
        few, branches = int(np.clip(c // 2, 4, 48)) + self.chance(0.3), []
        net.held = net.scale
        branches.append(net.conv(few, 1, activation="RELU").last)
        branches.append(net.at(x).conv(few, 1, activation="RELU").conv(few, 3, activation="RELU").last)
        branches.append(net.at(x).sliding_pool(3, 1, str(self.choice(("MAX", "AVERAGE")))).conv(few, 1).last)
        if self.chance(0.5):
            branches.append(net.at(x).conv(few, 1).conv(few, (1, 3)).conv(few, (3, 1), activation="RELU").last)
        net.join(branches, 3).held = None
        self.note("inception")

    def pyramid(self):
        """SPPF: pools of pools, joined; or SPP, of pools of several sizes."""
        net, few = self.net, int(np.clip(self.net.shape[3] // 2, 2, 64))
        x, chain = net.conv(few, 1, activation="RELU").last, self.chance(0.6)
        found = [x]
        for size in (5, 5, 5) if chain else (5, 9, 13):
            found.append(net.at(found[-1] if chain else x).sliding_pool(size, 1).last)
        net.join(found, 3).conv(2 * few, 1, activation="RELU")
        self.note("pyramid")

    def face(self):
        """BlazeFace's block: the shortcut is pooled and gets channels of zeros."""
        net, x, c, stride = self.net, self.net.last, self.net.shape[3], self.stride()
        more = int(self.choice((0, 4, 8, c)))
        y = net.depthwise(int(self.choice((3, 5))), stride).conv(c + more, 1).last
        net.at(x)
        if stride > 1:
            net.sliding_pool(2, 2)
        if more:
            net.pad((0, 0), (0, 0), (0, 0), (0, more))
        net.pair("ADD", y, net.last, "RELU")
        self.note("BlazeFace")

    def convnext(self):
        net, x, c = self.net, self.net.last, self.net.shape[3]
        net.depthwise(7)
        self.normalized().conv(min(4 * c, 320), 1).add("GELU", [], net.shape).conv(c, 1).pair("ADD", x, net.last)
        self.note("ConvNeXt")

    def shuffled(self):
        """A unit of ShuffleNet V2."""
        net, (n, h, w, c) = self.net, self.net.shape
        if c % 2:
            net.conv(c + 1, 1)
            c += 1
        left, right = net.parts(2, 3)
        net.held = net.scale
        net.at(right).conv(c // 2, 1, activation="RELU").depthwise().conv(c // 2, 1, activation="RELU")
        net.held = None
        net.join([left, net.last], 3)
        if self.chance(0.8):
            net.reshape(n, h, w, 2, c // 2).transpose(0, 1, 2, 4, 3).reshape(n, h, w, c)
        self.note("shuffled")

    def unet(self):
        """Down, up again by TRANSPOSE_CONV or by repeated pixels, and joined with what was before."""
        net, x, (n, h, w, c) = self.net, self.net.last, self.net.shape
        if h % 2 or w % 2 or h * w * c > 40_000:
            return self.separable()
        net.held = net.scale
        net.conv(min(2 * c, 96), 3, 2, "RELU")
        if self.chance(0.5):
            net.transpose_conv(c, int(self.choice((2, 3, 4))), 2)
        else:
            net.move("RESIZE_NEAREST_NEIGHBOR", [net.ints(h, w)], (n, h, w, net.shape[3]))
        net.held = None
        net.join([x, net.last] if self.chance(0.5) else [net.last, x], 3)
        net.conv(c, 3, activation="RELU")
        return self.note("U-Net")

    # ---- the last layers -----------------------------------------------------------------------------------------
    def classes(self):
        net = self.net
        if self.chance(0.5):
            net.reduce(1, 2, keep=False, name=str(self.choice(("MEAN", "MEAN", "REDUCE_MAX"))))
        else:
            net.mean().reshape(net.shape[0], net.shape[3])
        net.dense(int(self.choice((2, 10, 100)))).function("SOFTMAX", beta=1.0)

    def heads(self):
        """Boxes and scores of two sizes of an image, as in SSD."""
        net, n, count, classes = self.net, self.net.shape[0], int(self.choice((1, 2, 3, 6))), int(
            self.choice((1, 2, 20, 90)))
        maps = [net.last]
        if min(net.shape[1:3]) > 2:
            maps.append(net.conv(min(2 * net.shape[3], 128), 3, 2, "RELU").last)
        held, found = net.scale, []
        for width in (4, classes):
            net.held, parts = held, []
            for x in maps:
                h, w = net.at(x).shape[1:3]
                parts.append(net.conv(count * width, self.choice((1, 3))).reshape(n, h * w * count, width).last)
            found.append(net.join(parts, 1).last)
            net.held = None
        scores = net.function("LOGISTIC").last
        self.note(f"heads of {count} x {classes} classes")
        if net.dtype == "float32" and n == 1 and self.chance(0.4):
            self.detect(found[0], scores)
        else:
            net.at(found[0]).others = [scores]

    def detect(self, boxes, scores):
        """TFLite_Detection_PostProcess."""
        net, (_, count, classes) = self.net, self.net.shapes[scores]
        anchors = net.builder.constant("anchors", np.float32(net.rng.uniform(0.1, 0.9, (count, 4))))
        shapes = (1, 10, 4), (1, 10), (1, 10), (1,)
        found = [net.tensor(shape) for shape in shapes]
        options = {"max_detections": 10, "max_classes_per_detection": 1, "num_classes": classes, "y_scale": 10.0,
                   "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0, "nms_score_threshold": 0.3,
                   "nms_iou_threshold": 0.6, "use_regular_nms": False}
        net.builder.operator("TFLite_Detection_PostProcess", [boxes, scores, anchors], found, custom_options=options)
        net.at(found[0]).others = found[1:]
        self.note("detections")

    def boxes(self):
        """YOLO's head: centres and sizes from the slices of a convolution."""
        net, (n, h, w, _) = self.net, self.net.shape
        classes = int(self.choice((1, 5, 20)))
        net.conv(4 + classes, 1).reshape(n, h * w, 4 + classes).function("LOGISTIC")
        y, tokens = net.last, h * w
        centre = net.part((0, 0, 0), (n, tokens, 2), (1, 1, 1)).last
        size = net.at(y).part((0, 0, 2), (n, tokens, 4), (1, 1, 1)).last
        rest = net.at(y).part((0, 0, 4), (n, tokens, 4 + classes), (1, 1, 1)).last
        half = net.pair("MUL", size, net.number(0.5)).last
        low, high = net.pair("SUB", centre, half).last, net.pair("ADD", centre, half).last
        net.join([low, high, rest], 2)
        self.note("boxes")
