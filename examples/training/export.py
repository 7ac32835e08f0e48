"""From a trained network to an int8 .tflite file: calibration, stored weights, the operators, labels.

Weights are int8, symmetric, with a scale for every output channel; biases int32; activations int8 with a scale and a
zero point from their range on the training data.
"""
import io
import zipfile

import numpy as np
from nn import Conv, Dense, Depthwise, MaxPool, Mean

from pylite.schema.builder import ModelBuilder


def calibrate(network, batches):
    """The (least, largest) value of every layer's output over `batches`, (layers, 2)."""
    found = {layer: [0.0, 0.0] for layer in network.layers}

    def observe(layer, y):
        found[layer] = [min(found[layer][0], float(y.min())), max(found[layer][1], float(y.max()))]
    for x in batches:
        network.forward(x, observe)
    return np.array(list(found.values()), np.float32)


def halve(network):
    """Round the weights to float16, as they are stored."""
    for p in network.parameters:
        p[...] = p.astype(np.float16)


def save(path, network, ranges):
    """Store weights and ranges; equal values give equal bytes."""
    np.savez_compressed(path, ranges=ranges, **{f"p{i:02}": p.astype(np.float16)
                                                for i, p in enumerate(network.parameters)})


def load(path, network):
    """Restore the weights of `save`; returns the ranges."""
    with np.load(path) as file:
        for i, p in enumerate(network.parameters):
            p[...] = file[f"p{i:02}"]
        return file["ranges"]


def activation_scale(low, high):
    """(scale, zero point) of int8 values for real numbers from `low` to `high`, with zero exact."""
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    scale = np.float32((high - low) / 255) or np.float32(1)
    return scale, round(-128 - low / float(scale))


class Exporter:
    """Writes a network's layers as quantized operators; further ones are added with `tensor` and `operator`.

    After construction, `heads` holds the index of each head's output tensor.
    """

    def __init__(self, network, ranges, description, name, shape, low, high, limit=np.inf):
        """name, shape, low, high: the input and the range of its real numbers; limit: the largest magnitude that is
        needed of a head's output."""
        self.builder = ModelBuilder(description)
        self.ranges = dict(zip(network.layers, ranges, strict=True))
        for head in network.heads:
            self.ranges[head[-1]] = np.clip(self.ranges[head[-1]], -limit, limit)
        self.tensors = {}
        self.input = self.tensor(name, shape, *activation_scale(low, high))
        trunk = self._layers(network.trunk, self.input, "trunk")
        self.heads = [self._layers(head, trunk, f"head{i}") for i, head in enumerate(network.heads)]

    def tensor(self, name, shape, scale=None, zero_point=0, dtype="int8"):
        index = self.builder.tensor(name, shape, dtype, scale=scale, zero_point=zero_point)
        self.tensors[index] = shape, scale, zero_point
        return index

    def operator(self, name, inputs, shape, scale=None, zero_point=0, dtype="int8", label=None, **options):
        """Add an operator with one output; return the output's index."""
        y = self.tensor(label or f"{name.lower()}_{len(self.tensors)}", shape, scale, zero_point, dtype)
        self.builder.operator(name, inputs, [y], **options)
        return y

    def like(self, name, x, shape, **options):
        """Add an operator whose output has the quantization of its input `x`."""
        return self.operator(name, [x, *options.pop("more", ())], shape, *self.tensors[x][1:], **options)

    def reshape(self, x, shape):
        new = self.builder.constant(f"shape_{len(self.tensors)}", np.array([-1, *shape[1:]], np.int32))
        return self.like("RESHAPE", x, shape, more=[new], new_shape=(-1, *shape[1:]))

    def probabilities(self, name, x, label, **options):
        """SOFTMAX or LOGISTIC of `x`, whose output always has the scale 1/256."""
        return self.operator(name, [x], self.tensors[x][0], 1 / 256, -128, label=label, version=2, **options)

    def finish(self, labels, outputs):
        """The file's bytes; outputs: {name: tensor index}."""
        b = self.builder
        b.inputs([self.input])
        b.outputs(list(outputs.values()))
        b.signature("serving_default", {"input": self.input}, outputs)
        return with_labels(b.build(), labels)

    def _layers(self, layers, x, label):
        for i, layer in enumerate(layers):
            shape, scale, _ = self.tensors[x]
            n, h, w, c = (*shape, 1, 1, 1)[:4]
            name = f"{label}/{i}"
            if isinstance(layer, Dense) and len(shape) > 2:
                x = self.reshape(x, (n, h * w * c))
            if isinstance(layer, MaxPool):
                k = layer.kernel
                x = self.like("MAX_POOL_2D", x, (n, -(-h // k), -(-w // k), c), label=name, version=2, padding="SAME",
                              filter_height=k, filter_width=k, stride_h=k, stride_w=k)
                continue
            if isinstance(layer, Mean):
                axes = self.builder.constant(f"{name}/axes", np.array([1, 2], np.int32))
                x = self.like("MEAN", x, (n, c), more=[axes], label=name, version=2)
                continue
            axis = 3 if isinstance(layer, Depthwise) else 0
            inputs = [x, *self._weights(name, layer, scale, axis)]
            options = {"fused_activation_function": "RELU" if layer.relu else "NONE", "label": name}
            if isinstance(layer, Dense):
                x = self.operator("FULLY_CONNECTED", inputs, (n, len(layer.parameters[1])),
                                  *activation_scale(*self.ranges[layer]), version=4, **options)
                continue
            options |= {"padding": "SAME", "stride_h": layer.stride, "stride_w": layer.stride, "version": 3}
            if isinstance(layer, Depthwise):
                options["depth_multiplier"] = 1
            shape = n, -(-h // layer.stride), -(-w // layer.stride), len(layer.parameters[1])
            x = self.operator("CONV_2D" if isinstance(layer, Conv) else "DEPTHWISE_CONV_2D", inputs, shape,
                              *activation_scale(*self.ranges[layer]), **options)
        return x

    def _weights(self, name, layer, input_scale, axis):
        weights, bias = (p.astype(np.float64) for p in layer.parameters)
        across = tuple(i for i in range(weights.ndim) if i != axis)
        scale = (np.maximum(np.abs(weights).max(across), 1e-6) / 127).astype(np.float32)
        shape = [1] * weights.ndim
        shape[axis] = -1
        steps = np.rint(weights / scale.reshape(shape).astype(np.float64)).astype(np.int8)
        bias_scale = (np.float32(input_scale) * scale).astype(np.float32)
        bias = np.rint(bias / bias_scale).astype(np.int32)
        return (self.builder.constant(f"{name}/weights", steps, scale=scale, axis=axis),
                self.builder.constant(f"{name}/bias", bias, scale=bias_scale))


def with_labels(model, labels):
    """The model, followed by a zip archive with labels.txt, which readers of the model ignore."""
    file = io.BytesIO(model)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(zipfile.ZipInfo("labels.txt"), "".join(f"{label}\n" for label in labels))
    return file.getvalue()
