"""Decodes custom options in the FlexBuffers format to Python values."""
from pylite.errors import ModelError

_MAX_BYTES = 1 << 20
_MAX_VALUES = 10_000
_MAX_DEPTH = 16


def decode(data, name):
    """The dict, list or scalar in the custom options of operator `name`; {} if there are none.

    Raises ModelError (a ValueError), which names the operator, if the bytes are not a FlexBuffer.
    """
    if not data:
        return {}
    from flatbuffers import flexbuffers  # lazy: it takes 3 ms, and few models need it
    try:
        if len(data) > _MAX_BYTES:
            raise ValueError(f"more than {_MAX_BYTES} bytes")
        return _value(flexbuffers.GetRoot(bytes(data)), _Budget(len(data)), _MAX_DEPTH)
    except Exception as error:
        # flexbuffers does not check its input: any exception, from IndexError to AssertionError, means damage.
        raise ModelError(f"operator {name!r}: its custom options ({len(data)} bytes) are not a valid FlexBuffer: "
                         f"{error}") from None


class _Budget:
    """Limits how much is decoded, because nodes of a FlexBuffer may be shared, and may even contain themselves."""

    def __init__(self, size):
        self.values = min(size, _MAX_VALUES)
        self.text = size

    def elements(self, vector):
        self.values -= len(vector)
        if self.values < 0:
            raise ValueError("more values than fit in it")
        return vector


def _value(ref, budget, depth):
    if depth < 0:
        raise ValueError("too deeply nested")
    if ref.IsMap:
        entries = ref.AsMap
        keys = [key.AsKey for key in budget.elements(entries.Keys)]
        return dict(zip(keys, [_value(e, budget, depth - 1) for e in budget.elements(entries.Values)], strict=True))
    if ref.IsVector:
        return [_value(e, budget, depth - 1) for e in budget.elements(ref.AsVector)]
    if ref.IsTypedVector or ref.IsFixedTypedVector:
        vector = ref.AsTypedVector if ref.IsTypedVector else ref.AsFixedTypedVector
        return [_value(e, budget, depth - 1) for e in budget.elements(vector)]
    value = bytes(ref.AsBlob) if ref.IsBlob else ref.Value
    if isinstance(value, (str, bytes)):
        budget.text -= len(value)
        if budget.text < 0:
            raise ValueError("more text than fits in it")
    return value
