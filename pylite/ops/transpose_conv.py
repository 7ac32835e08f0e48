"""TRANSPOSE_CONV: several plain convolutions."""
from pylite.ir import shapes
from pylite.ir.registry import register
from pylite.ops import products
from pylite.ops.convolution import TYPES, Window, check_images, lower_window, strides_of


def infer(node):
    wanted, w, x = node.inputs[:3]
    check_images(node, x, w)
    strides_of(node)
    shape = tuple(int(n) for n in node.constant(0, "output shape").ravel())
    if len(shape) != 4 or min(shape) < 0:
        raise node.error(f"the output shape has 4 dimensions, not {list(shape)}", wanted)
    if x.shape[3] != w.shape[3]:
        raise node.error(f"has {x.shape[3]} channels and the filter {w.shape[3]}", x)
    if shape[3] != w.shape[0]:
        raise node.error(f"asks for {shape[3]} channels of {w.shape[0]} filters", wanted)
    if shape[0] != x.shape[0]:
        raise node.error(f"asks for {shape[0]} images of {x.shape[0]}. If the input was resized, the shape was fixed "
                         "when the model was converted", wanted)
    return [shape]


def lower(node):
    """One plain convolution for each phase of the output: pixels whose taps meet the input alike.

    Where all phases of a line see the same pixels, as with filters as wide as the stride, neighbours are one pixel.
    """
    o = node.options
    w, x = node.inputs[1:3]
    y = node.outputs[0]
    b = node.input(3)
    products.check(node, x, w, b, y, y.shape[3], axis=0)
    batch, rows, cols, channels = y.shape
    step = o.stride_h, o.stride_w
    pad = [shapes.window_padding(size, taps, stride, 1, shapes.window_output(size, taps, stride, 1, o.padding))[0]
           for size, taps, stride in zip((rows, cols), w.shape[1:3], step, strict=True)]
    calls, shared = [], products.shared_room(node, x, w.shape[2])
    phases = [_phase(j, w.shape[2], step[1], pad[1]) for j in range(min(step[1], cols))]
    together = 1
    if cols % step[1] == 0 and len({phase[1:] for phase in phases}) == 1 and x.dtype != "int16":
        together = len(phases)
    for i in range(min(step[0], rows)):
        top, high, up = _phase(i, w.shape[1], step[0], pad[0])
        for j in range(0, len(phases), together):
            layouts = tuple((top, step[0], phase[0], step[1]) for phase in phases[j:j + together])
            window = Window(high, phases[j][1], pad=(up, phases[j][2]),
                            layout=layouts[0] if together == 1 else ("beside", layouts))
            window.out = together
            part = y.view((batch, -(-(rows - i) // step[0]), -(-(cols - j) // step[1]), together * channels),
                          (rows * cols * channels, step[0] * cols * channels, step[1] * channels, 1),
                          (i * cols + j) * channels)
            calls.append(lower_window(node, x, w, b, y, part, window, shared, not calls))
    return calls


def _phase(i, taps, stride, pad):
    """(first tap, number of taps, padding before) of the outputs i, i + stride, ... along one axis."""
    first = (i + pad) % stride
    count = max(-(-(taps - first) // stride), 0)
    return first, count, count - 1 - (i + pad - first) // stride


register("TRANSPOSE_CONV", versions=(1, 5), types=["int32 " + " ".join(
    [t.split()[1], t.split()[0], *t.split()[2:]]) for t in TYPES], infer=infer, lower=lower, fuses_activation=True)
