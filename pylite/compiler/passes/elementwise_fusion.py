"""Fuses chains of element-wise calls: functions of bytes become one lookup table, other chains run block by block."""
import itertools
from collections import Counter
from math import prod

import numpy as np

from pylite._core.kernels import kernel_class
from pylite.ir.lowered import BINARY, COUNT, STREAMED, UNARY, UNARY_X, UNARY_Y, Folded
from pylite.ir.values import Call, Packed, View, roots

ELEMENTWISE = UNARY, BINARY


def run(lowered):
    """The Lowered with each chain of functions of bytes as one table, and every other chain as one call."""
    fuse_tables(lowered)
    fuse_blocks(lowered)
    return lowered


class _Counts(dict[object, int]):
    """{root: number of arguments in its memory}; 0 if the caller of the graph reads it.

    The first look-up counts all of them; most graphs never look one up.
    """

    def __init__(self, lowered):
        self.lowered = lowered

    def __missing__(self, root):
        self.update(Counter(itertools.chain.from_iterable(map(roots, self.lowered.calls))))
        self.update(dict.fromkeys([self.lowered.values[i].root for i in self.lowered.subgraph.outputs], 0))
        return self.setdefault(root, 0)


# ---- tables --------------------------------------------------------------------------------------------------
def fuse_tables(lowered):
    """Replace each chain of one-operand functions from bytes to bytes by one table."""
    counts = _Counts(lowered)
    chain, calls = [], []
    for call in lowered.calls:
        single = (call.kernel == UNARY and len(call.args) == 5
                  and type(call.args[UNARY_X]) is type(call.args[UNARY_Y]) is View)
        if chain and not (single and _follows(call, chain[-1], counts)):
            calls += _as_table(lowered, chain)
            chain = []
        (chain if single else calls).append(call)
    lowered.calls = calls + _as_table(lowered, chain)


def _follows(call, before, counts):
    """Is `call` the only reader of the result of `before`?"""
    x, y = call.args[UNARY_X].value, before.args[UNARY_Y].value
    return (x.root is y.root and counts[x.root] == 2 and x.root.kind == "temporary" and x.root.nbytes == y.nbytes
            and call.args[COUNT] == before.args[COUNT])         # BITCAST changes the number of elements


def _as_table(lowered, chain):
    """The chain with one table in place of the calls from the first that reads bytes to the last that writes bytes."""
    readers = [i for i, call in enumerate(chain) if call.args[UNARY_X].value.nbytes == call.args[COUNT]]
    writers = [i for i, call in enumerate(chain) if call.args[UNARY_Y].value.nbytes == call.args[COUNT]]
    if not readers or not writers or readers[0] >= writers[-1]:
        return chain
    begin, end = readers[0], writers[-1] + 1
    fused, last = chain[begin:end], chain[end - 1]
    table = np.arange(256, dtype=np.uint8)
    for call in fused:
        name, n, _, y, p = call.args
        x, table = table, np.empty(256 * (y.value.nbytes // n), np.uint8)
        kernel_class(UNARY)(name, 256, x, table, lowered.model.weights.pack(p) if type(p) is Packed else p).run()
        lowered.notes[call.node.index] = Folded(last.node.index)
    lowered.notes.pop(last.node.index)
    x, y = fused[0].args[UNARY_X], last.args[UNARY_Y]
    call = Call(UNARY, "lut8", last.args[COUNT], x, y, table, inplace=(y.value, x.value))
    call.node, call.note = last.node, "a table of several nodes' functions"
    return [*chain[:begin], call, *chain[end:]]


# ---- blocks --------------------------------------------------------------------------------------------------
class _Step:
    """The arguments of an element-wise call: its micro-kernel, n elements, and operands with their bytes per element.

    A single-element operand has 0 bytes per element.  fits: is each operand either contiguous like y or one element?
    """
    __slots__ = ("call", "name", "n", "operands", "y", "p", "fits")

    def __init__(self, call):
        self.call = call
        if call.kernel == UNARY:
            self.name, self.n, x, self.y, *p = call.args
            operands, fits = [(x, True)], True
        else:
            self.name, shape, a, b, self.y, a_strides, b_strides, *p = call.args
            operands = [(a, a_strides == (1,)), (b, b_strides == (1,))]
            self.n, fits = prod(shape), len(shape) == 1
        self.p = p[0] if p else b""
        self.fits = fits and self.n > 0
        if self.fits:
            self.operands = [(x, (x.shape[0] if type(x) is View else len(x)) // self.n if dense else 0)
                             for x, dense in operands]

    def follows(self, before, counts):
        """Is this call the only reader of the result of `before`, and is the result too large for the first-level
        cache?"""
        y = before.y.value
        reads = [size for x, size in self.operands if type(x) is View and x.value.root is y.root]
        return (y.nbytes >= STREAMED and self.n == before.n and y.root.kind == "temporary" and y.root.nbytes == y.nbytes
                and counts[y.root] == 1 + len(reads) > 1 and all(size * self.n == y.nbytes for size in reads))


def fuse_blocks(lowered):
    """Replace each chain of element-wise calls by one call; each call in it is the only reader of the one before."""
    counts, longest = _Counts(lowered), kernel_class("elementwise.CHAIN_LENGTH")
    chain, calls = [], []
    for call in lowered.calls:
        step = _Step(call) if call.kernel in ELEMENTWISE else None
        if chain and not (step and step.fits and len(chain) < longest and step.follows(chain[-1], counts)):
            calls.append(_as_one(chain))
            chain = []
        if step and step.fits:
            chain.append(step)
        else:
            calls.append(call)
    if chain:
        calls.append(_as_one(chain))
    left = {call.node.index for call in calls}
    into = None
    for call in reversed(lowered.calls):        # the calls of a chain follow one another
        if call.node.index in left:
            into = call.node.index
        else:
            lowered.notes[call.node.index] = Folded(into)
    lowered.calls = calls


def _as_one(chain):
    """The Call that runs all steps of a chain."""
    last, before = chain[-1], None
    if len(chain) == 1:
        return last.call
    arrays, steps, inplace = [], [], None
    for step in chain:
        operands = []
        for x, size in step.operands:
            if before and type(x) is View and x.value.root is before.y.value.root:
                operands.append((-1, size))
                continue
            operands.append((len(arrays), size))
            arrays.append(x)
            if inplace is None and type(x) is View and x.value.data is None and size * last.n == last.y.value.nbytes:
                inplace = last.y.value, x.value
        steps.append((step.name, tuple(operands), len(arrays), step.y.value.nbytes // step.n))
        arrays.append(step.p)
        before = step
    call = Call("elementwise.Chain", last.n, tuple(steps), last.y, *arrays, inplace=inplace)
    call.node = last.call.node
    nodes = sorted({step.call.node.index for step in chain} - {call.node.index})
    call.note = f"with node{'s' if len(nodes) > 1 else ''} {', '.join(map(str, nodes))}" if nodes else None
    return call
