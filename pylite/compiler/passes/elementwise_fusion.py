"""Element-wise calls one after the other: functions of bytes become one table, others are taken block by block."""
from math import prod

import numpy as np

from pylite.ir.kernels import kernel_class
from pylite.ir.lowered import STREAMED
from pylite.ir.values import Call, Packed, View, roots

UNARY = "elementwise.Unary"
ELEMENTWISE = UNARY, "elementwise.Binary"


def run(lowered):
    """The Lowered with a table for each chain of functions of bytes, and one call for each other chain."""
    join_tables(lowered)
    join_blocks(lowered)
    return lowered


def _counts(lowered):
    """{root: how many arguments see it}; 0 where the caller of the graph does."""
    counts = {}
    for call in lowered.calls:
        for root in roots(call):
            counts[root] = counts.get(root, 0) + 1
    for i in lowered.subgraph.outputs:
        counts[lowered.values[i].root] = 0
    return counts


# ---- tables --------------------------------------------------------------------------------------------------
def join_tables(lowered):
    """Functions of one operand, the next one of the last one's result, from bytes to bytes are one table."""
    counts = _counts(lowered)
    chain, calls = [], []
    for call in lowered.calls:
        single = call.kernel == UNARY and len(call.args) == 5 and type(call.args[2]) is type(call.args[3]) is View
        if chain and not (single and _follows(call, chain[-1], counts)):
            calls += _as_table(lowered, chain)
            chain = []
        (chain if single else calls).append(call)
    lowered.calls = calls + _as_table(lowered, chain)


def _follows(call, before, counts):
    """Does nothing but `call` need what `before` computes?"""
    x, y = call.args[2].value, before.args[3].value
    return (x.root is y.root and counts[x.root] == 2 and x.root.kind == "temporary" and x.root.nbytes == y.nbytes
            and call.args[1] == before.args[1])         # BITCAST may make other elements of the same bytes


def _as_table(lowered, chain):
    """The chain, with the calls from the first that takes bytes to the last that gives some as one."""
    takes = [i for i, call in enumerate(chain) if call.args[2].value.nbytes == call.args[1]]
    gives = [i for i, call in enumerate(chain) if call.args[3].value.nbytes == call.args[1]]
    if not takes or not gives or takes[0] >= gives[-1]:
        return chain
    joined, last = chain[takes[0]:gives[-1] + 1], chain[gives[-1]]
    table = np.arange(256, dtype=np.uint8)
    for call in joined:
        row, n, _, y, p = call.args
        x, table = table, np.empty(256 * (y.value.nbytes // n), np.uint8)
        kernel_class(UNARY)(row, 256, x, table, lowered.model.pack(p) if type(p) is Packed else p).run()
        lowered.notes[call.node.index] = f"folded into node {last.node.index}"
    lowered.notes.pop(last.node.index)
    x, y = joined[0].args[2], last.args[3]
    call = Call(UNARY, "lut8", last.args[1], x, y, table, inplace=(y.value, x.value))
    call.node, call.note = last.node, "a table of several nodes' functions"
    return [*chain[:takes[0]], call, *chain[gives[-1] + 1:]]


# ---- blocks --------------------------------------------------------------------------------------------------
class _Step:
    """An element-wise call, taken apart: the row, n elements, operands with the bytes of an element, 0 where it is one.

    fits: does each operand lie as y does, or is a single element?
    """
    __slots__ = ("call", "row", "n", "operands", "y", "p", "fits")

    def __init__(self, call):
        self.call = call
        if call.kernel == UNARY:
            self.row, self.n, x, self.y, *p = call.args
            operands, fits = [(x, True)], True
        else:
            self.row, shape, a, a_strides, b, b_strides, self.y, *p = call.args
            operands = [(a, a_strides == (1,)), (b, b_strides == (1,))]
            self.n, fits = prod(shape), len(shape) == 1
        self.p = p[0] if p else b""
        self.fits = fits and self.n > 0
        if self.fits:
            self.operands = [(x, (x.shape[0] if type(x) is View else len(x)) // self.n if dense else 0)
                             for x, dense in operands]

    def takes(self, before, counts):
        """Is what `before` gives for this call alone, and too much to stay in the first-level cache?"""
        y = before.y.value
        seen = [size for x, size in self.operands if type(x) is View and x.value.root is y.root]
        return (y.nbytes >= STREAMED and self.n == before.n and y.root.kind == "temporary" and y.root.nbytes == y.nbytes
                and counts[y.root] == 1 + len(seen) > 1 and all(size * self.n == y.nbytes for size in seen))


def join_blocks(lowered):
    """Element-wise calls of which only the next one wants the result are one, which takes blocks through all of it."""
    counts, longest = _counts(lowered), kernel_class("elementwise.CHAIN_LENGTH")
    chain, calls = [], []
    for call in lowered.calls:
        step = _Step(call) if call.kernel in ELEMENTWISE else None
        if chain and not (step and step.fits and len(chain) < longest and step.takes(chain[-1], counts)):
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
    for call in reversed(lowered.calls):        # what is joined is next to each other
        if call.node.index in left:
            into = call.node.index
        else:
            lowered.notes[call.node.index] = f"folded into node {into}"
    lowered.calls = calls


def _as_one(chain):
    """The Call that does all the steps."""
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
        steps.append((step.row, tuple(operands), len(arrays), step.y.value.nbytes // step.n))
        arrays.append(step.p)
        before = step
    call = Call("elementwise.Chain", last.n, tuple(steps), last.y, *arrays, inplace=inplace)
    call.node = last.call.node
    nodes = sorted({step.call.node.index for step in chain} - {call.node.index})
    call.note = f"with node{'s' if len(nodes) > 1 else ''} {', '.join(map(str, nodes))}" if nodes else None
    return call
