"""Products in float16, for interpreters whose `precision` asks for it: kernels of float32 with weights in float16.

Tensors stay float32.  docs/numerics.md section 4 describes the sums.
"""
from pylite.ir.values import Call, Packed

_PRODUCT, _PACK = "conv_float.ConvF32", "conv_float.pack_f32"
_PANELS = 2             # the position of packed weights among the arguments
_PLANE = 8              # numbers of a filter in 2 dimensions; others are computed in float32
_WINOGRAD = 64          # channels from which Winograd's algorithm pays: its transformations stay in float32
_WIDTH = 16             # columns of a panel; partly empty ones would cost the gain of doing without the algorithm
_CONVERSION = 16        # products that take as long as the conversion of a number, on a Cortex-A76


def convert(calls):
    """Let `calls` multiply in float16 where a kernel can."""
    for call in calls:
        if type(call) is Call and call.kernel == _PRODUCT:
            panels = call.args[_PANELS]
            named = dict(zip(call.names, call.args[-len(call.names):], strict=True))
            if type(panels) is Packed and panels.function == _PACK and _pays(call, panels.value, named["filter"]):
                layout = panels.args
                if named.get("winograd") and panels.value.shape[-1] < _WINOGRAD:
                    if panels.value.shape[0] % _WIDTH:
                        continue
                    layout, named["winograd"] = (), False
                named["half"] = True
                packed = Packed("conv_float.pack_f16", panels.value, *layout)
                call.args = (*call.args[:_PANELS], packed, *call.args[_PANELS + 1:-len(call.names)], *named.values())
                call.names = tuple(named)


def _pays(call, weights, filter):
    """Do the products of an output pixel outweigh the conversion of the inputs that it adds, and of its sums?"""
    if len(filter) != _PLANE:
        return False
    _, _, stride_h, stride_w, *_ = filter
    depth, columns = weights.size // weights.shape[0], weights.shape[0]
    return depth * columns > _CONVERSION * (call.args[0].shape[3] * stride_h * stride_w + columns)
