"""Small convolutional networks in plain numpy: layers with forward and backward, losses, Adam.

Activations are float32 in NHWC, weights in the layout that the .tflite file has, padding is SAME.
"""
import numpy as np


def same_padding(size, kernel, stride):
    """(output size, padding before, padding after) of one axis."""
    out = -(-size // stride)
    total = max((out - 1) * stride + kernel - size, 0)
    return out, total // 2, total - total // 2


class Layer:
    """`forward(x)` -> y; `backward(dy)` -> dx, and the gradients of `parameters` in `gradients`."""
    relu = False
    parameters = ()
    gradients = ()


class _Windowed(Layer):
    """The base of layers with a sliding window."""

    def __init__(self, kernel, stride):
        self.kernel, self.stride = kernel, stride

    def pad(self, x, value=0):
        (self.rows, *rows), (self.columns, *columns) = (same_padding(n, self.kernel, self.stride) for n in x.shape[1:3])
        self.inside = np.s_[:, rows[0]:rows[0] + x.shape[1], columns[0]:columns[0] + x.shape[2]]
        if not any(rows + columns):
            return x
        return np.pad(x, ((0, 0), rows, columns, (0, 0)), constant_values=value)

    def taps(self, padded):
        """For every position in the window, the elements of `padded` at that position, as a view."""
        down, across = self.rows * self.stride, self.columns * self.stride
        return [padded[:, i:i + down:self.stride, j:j + across:self.stride]
                for i in range(self.kernel) for j in range(self.kernel)]


class Conv(_Windowed):
    """2-D convolution; weights (out, kernel, kernel, in)."""

    def __init__(self, rng, channels_in, channels, kernel=3, stride=1, relu=True):
        super().__init__(kernel, stride)
        fan_in = kernel * kernel * channels_in
        self.relu = relu
        self.parameters = [rng.normal(0, np.sqrt((1 + relu) / fan_in), (channels, kernel, kernel, channels_in)),
                           np.zeros(channels)]
        self.parameters = [p.astype(np.float32) for p in self.parameters]

    def forward(self, x):
        weights, bias = self.parameters
        padded = self.pad(x)
        self.shape = padded.shape
        # im2col: a row for every output pixel, with the window's taps in the order of the weights
        columns = padded if self.kernel == self.stride == 1 else np.stack(self.taps(padded), 3)
        self.patches = columns.reshape(-1, weights[0].size)
        y = self.patches @ weights.reshape(len(weights), -1).T + bias
        self.y = np.maximum(y, 0, out=y) if self.relu else y
        return self.y.reshape(len(x), self.rows, self.columns, len(weights))

    def backward(self, dy):
        weights = self.parameters[0]
        dy = dy.reshape(-1, len(weights))
        if self.relu:
            dy = dy * (self.y > 0)
        self.gradients = [(dy.T @ self.patches).reshape(weights.shape), dy.sum(0)]
        if self.kernel == self.stride == 1:
            return (dy @ weights[:, 0, 0]).reshape(self.shape)
        dpadded = np.zeros(self.shape, np.float32)
        for tap, w in zip(self.taps(dpadded), weights.reshape(len(weights), -1, self.shape[3]).swapaxes(0, 1),
                          strict=True):
            tap += (dy @ w).reshape(tap.shape)
        return dpadded[self.inside]


class Depthwise(_Windowed):
    """Depthwise 2-D convolution; weights (1, kernel, kernel, channels)."""

    def __init__(self, rng, channels, kernel=3, stride=1, relu=True):
        super().__init__(kernel, stride)
        self.relu = relu
        self.parameters = [rng.normal(0, np.sqrt(2) / kernel, (1, kernel, kernel, channels)).astype(np.float32),
                           np.zeros(channels, np.float32)]

    def forward(self, x):
        weights, bias = self.parameters
        self.padded = self.pad(x)
        y = sum(tap * w for tap, w in zip(self.taps(self.padded), weights.reshape(-1, x.shape[3]), strict=True)) + bias
        self.y = np.maximum(y, 0, out=y) if self.relu else y
        return self.y

    def backward(self, dy):
        weights = self.parameters[0]
        if self.relu:
            dy = dy * (self.y > 0)
        dweights = [np.einsum("nhwc,nhwc->c", tap, dy) for tap in self.taps(self.padded)]
        self.gradients = [np.reshape(dweights, weights.shape), dy.sum((0, 1, 2))]
        dpadded = np.zeros_like(self.padded)
        for tap, w in zip(self.taps(dpadded), weights.reshape(-1, dy.shape[3]), strict=True):
            tap += dy * w
        return dpadded[self.inside]


class MaxPool(_Windowed):
    """Maximum over windows that do not overlap."""

    def __init__(self, kernel=2):
        super().__init__(kernel, kernel)

    def forward(self, x):
        self.padded = self.pad(x, -np.inf)
        self.y = np.maximum.reduce(self.taps(self.padded))
        return self.y

    def backward(self, dy):
        dpadded = np.zeros_like(self.padded)
        for tap, x in zip(self.taps(dpadded), self.taps(self.padded), strict=True):
            tap += dy * (x == self.y)
        return dpadded[self.inside]


class Mean(Layer):
    """Mean over the picture: (n, h, w, c) -> (n, c)."""

    def forward(self, x):
        self.shape = x.shape
        return x.mean((1, 2))

    def backward(self, dy):
        return np.broadcast_to(dy[:, None, None] / (self.shape[1] * self.shape[2]), self.shape)


class Dense(Layer):
    """Fully connected; weights (out, in)."""

    def __init__(self, rng, size, units, relu=False):
        self.relu = relu
        self.parameters = [rng.normal(0, np.sqrt((1 + relu) / size), (units, size)).astype(np.float32),
                           np.zeros(units, np.float32)]

    def forward(self, x):
        self.shape = x.shape
        self.x = x.reshape(len(x), -1)
        y = self.x @ self.parameters[0].T + self.parameters[1]
        self.y = np.maximum(y, 0, out=y) if self.relu else y
        return self.y

    def backward(self, dy):
        if self.relu:
            dy = dy * (self.y > 0)
        self.gradients = [dy.T @ self.x, dy.sum(0)]
        return (dy @ self.parameters[0]).reshape(self.shape)


class Network:
    """A trunk of layers, and heads that each take the trunk's output."""

    def __init__(self, trunk, *heads):
        self.trunk, self.heads = trunk, heads

    @property
    def layers(self):
        return [*self.trunk, *(layer for head in self.heads for layer in head)]

    def forward(self, x, observe=lambda layer, y: None):
        """Outputs of all heads; calls `observe` with every layer and its output."""
        def run(layers, x):
            for layer in layers:
                x = layer.forward(x)
                observe(layer, x)
            return x
        x = run(self.trunk, x)
        return [run(head, x) for head in self.heads]

    def backward(self, gradients):
        """Compute the gradients of all parameters, in the layers; gradients: of the loss by the heads' outputs."""
        total = 0
        for head, dy in zip(self.heads, gradients, strict=True):
            for layer in reversed(head):
                dy = layer.backward(dy)
            total = total + dy
        for layer in reversed(self.trunk):
            total = layer.backward(total)

    @property
    def parameters(self):
        return [p for layer in self.layers for p in layer.parameters]


def softmax_cross_entropy(logits, labels):
    """(mean loss, its gradient by the logits) for the classes `labels`."""
    shifted = logits - logits.max(-1, keepdims=True)
    p = np.exp(shifted)
    p /= p.sum(-1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(p[rows, labels] + 1e-12).mean()
    p[rows, labels] -= 1
    return loss, p / len(labels)


def train(network, batches, loss, steps, rate=2e-3, decay=1e-4, longest=np.inf, report=None):
    """Adam with decoupled weight decay, a short warm-up and cosine decay of the learning rate.

    batches: yields (x, target); loss: (outputs of all heads, target) -> (loss, gradients of these outputs);
    longest: the maximum norm of all gradients together; report: called ten times with (step, mean loss since the last
    call).
    """
    parameters = network.parameters
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
    recent = []
    for step, (x, target) in zip(range(1, steps + 1), batches, strict=False):
        value, gradients = loss(network.forward(x), target)
        network.backward(gradients)
        now = rate * min(step / 50, 1) * 0.5 * (1 + np.cos(np.pi * step / steps))
        found = [g for layer in network.layers for g in layer.gradients]
        length = np.sqrt(sum(np.vdot(g, g) for g in found))
        if length > longest:
            found = [g * (longest / length) for g in found]
        for p, g, (m, v) in zip(parameters, found, moments, strict=True):
            m += 0.1 * (g - m)
            v += 0.01 * (g * g - v)
            p -= now * (m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.99**step)) + 1e-8) + decay * p * (p.ndim > 1))
        recent.append(float(value))
        if report and step % max(steps // 10, 1) == 0:
            report(step, np.mean(recent))
            recent.clear()
