"""Calls: arguments by position and by name."""
from pylite._core.run.kernel import construct
from pylite.ir.values import Call, Scratch


def test_named_arguments():
    scratch = Scratch((4,), "int8")
    call = Call("family.Kernel", 1, 2, low=-3, memory=scratch, note="why", strided=(0,))
    assert call.args == (1, 2, -3, scratch)
    assert call.names == ("low", "memory")
    assert (call.note, call.strided, call.inplace) == ("why", (0,), None)
    assert Call("family.Kernel", 1).names is None


def test_construction():
    def kernel(*args, **named):
        return args, named

    assert construct(kernel, [1, 2, 3], ("low", "high")) == ((1,), {"low": 2, "high": 3})
    assert construct(kernel, (1, 2), None) == ((1, 2), {})
