"""Turns a graph into calls: infers every shape, chooses every kernel, folds constants."""
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from pylite import errors
from pylite._core.graph.calls import values_of
from pylite._core.graph.dimensions import cells_in
from pylite._core.graph.repeats import Repeats
from pylite._core.run.kernel import of_types
from pylite._core.run.memory import MemoryPool, memory_limit
from pylite.compiler import pipeline
from pylite.ir import values as ir_values
from pylite.ir.conditions import check as check_conditions
from pylite.ir.graph import NUMPY_DTYPES, replace
from pylite.ir.lowered import COPY, Lowered
from pylite.ir.registry import Op, default
from pylite.ir.values import Call, Constant, FoldablePad, Node, Packed, Value, as_list, known_array

if TYPE_CHECKING:
    from pylite.ir.host import Host

_PACKED = frozenset((Packed,))
_LARGEST = 2**31 - 1    # largest dimension: it has 32 bits in the file and in the API
_MOST_DIMENSIONS = 32 if np.__version__.startswith("1.") else 64     # most dimensions of a numpy array
_MANY = 2**26           # results with more elements are checked against the machine's memory


@np.errstate(all="ignore")
def lower(model, subgraph, shapes, *, preserve=False, find=default.find, dynamic=False, host: "Host | None" = None):
    """The Lowered of `subgraph` for the input `shapes`, one tuple per graph input.

    model: the runtime's Model, which keeps folded constants and packed weights; preserve: give every tensor its own
    memory; find(operator): returns its Op; dynamic: if a shape depends on data, stop at a boundary instead of raising;
    host: the host.Host, for ops that call other subgraphs or keep state.
    Raises OpError (a RuntimeError) that names the node and the tensor that cannot be prepared, and, without `dynamic`,
    DataDependentError.
    """
    fused = ()
    if not preserve:
        subgraph, fused = pipeline.rewrite_graph(subgraph, find)
    if host is not None and host.max_memory is not None:
        _check_sparse(subgraph, host.max_memory)
    values = values_of(Value, subgraph.tensors, model.weights.constant)
    if host is not None:
        for position, data in host.known_inputs.items():
            values[subgraph.inputs[position]].data = data
    for index, shape in zip(subgraph.inputs, shapes, strict=True):
        values[index].shape = shape
        if values[index].data is None and values[index].kind != "variable":
            values[index].kind = "input"
    lowered = lower_values(model, subgraph, values, preserve=preserve, find=find, dynamic=dynamic, host=host)
    lowered.record(fused)
    return lowered


def _check_sparse(subgraph, max_memory):
    """Raise MemoryLimitError if sparse constants take more than `max_memory` in dense form."""
    total = sum([prod(tensor.shape) * NUMPY_DTYPES[tensor.dtype].itemsize for tensor in subgraph.tensors
                 if tensor.sparsity is not None])
    if total > max_memory:
        raise errors.MemoryLimitError(
            f"the sparse constants of subgraph {subgraph.index} take {total} bytes in memory; "
            f"max_memory is {max_memory}. Raise it, or convert the model without sparsity")


def lower_values(model, subgraph, values, *, preserve, find, dynamic, host):
    """The second half of lower(): the Lowered of `subgraph`.  values: its Values, with the contents known so far."""
    ops = [find(operator) for operator in subgraph.operators]
    lowering = _Lowering(model, subgraph, values, preserve, host, ops)
    lowered = lowering.lowered
    position, kind = lowering.repeat(ops, 0)
    while position < len(ops):
        operator = subgraph.operators[position]
        node = Node(operator.index, operator, values, host)
        try:
            lowering.add(node, ops[position], kind)
        except errors.DataDependentError as problem:
            if not dynamic:
                raise
            _stop(lowered, position, problem.cause)
            return _converted(lowered, host)
        except errors.PyliteError:
            raise
        except Exception as problem:        # mostly scales that no multiplier can express
            raise node.wrapped(problem) from problem
        position, kind = lowering.repeat(ops, position + 1)
    lowered = _converted(lowered, host)
    return lowered if preserve else pipeline.rewrite_calls(lowered)


def _converted(lowered, host):
    """`lowered`, with calls in float16 if the host wants them."""
    if host is not None and host.half:
        from pylite.compiler import float16  # imported for those interpreters
        float16.convert(lowered)
    return lowered


def _stop(lowered, position, boundary):
    """End `lowered` before operator `position`, whose shapes depend on `boundary`.

    boundary: a Value whose contents that operator needs, or the Node of the operator itself.  A Node belongs to neither
    segment, because its op evaluates it between them.
    """
    subgraph = lowered.subgraph
    evaluated = type(boundary) is Node
    head, tail = subgraph.operators[:position], subgraph.operators[position + evaluated:]
    later = frozenset(i for operator in tail for i in operator.outputs)
    needed = {i for operator in tail for i in operator.inputs if i >= 0} | set(subgraph.outputs)
    if evaluated:
        later = later.union(boundary.operator.outputs)
        needed.update(value.index for value in boundary.inputs if value is not None)
    else:
        needed.add(boundary.index)
    lowered.subgraph = replace(subgraph, operators=head, outputs=tuple(sorted(needed - later)))
    lowered.boundary, lowered.later = boundary, later
    lowered.tail = replace(subgraph, operators=tail, inputs=())


class _Budget:
    """Limits the bytes of results that are computed during lowering, to `max_memory` or the machine's memory.

    many: results with more elements are checked; known: bytes of all results so far, including earlier segments'.
    """
    __slots__ = ("max_memory", "many", "known")

    def __init__(self, max_memory, values):
        self.max_memory = max_memory
        self.many = _MANY if max_memory is None else max_memory // 16      # the largest element has 16 bytes
        owned = [] if max_memory is None else [
            v for v in values if v.kind == "carried" or (v.data is not None and not v.fixed)]
        self.known = sum([value.nbytes for value in owned])

    def check(self, node, value):
        """Raise MemoryLimitError if `value`, a result of `node`, does not fit."""
        limit = memory_limit() if self.max_memory is None else self.max_memory
        if self.known + value.nbytes > limit:
            has = "this machine has" if self.max_memory is None else "max_memory is"
            others = f", in addition to {self.known} of computed constants" if self.known else ""
            remedy = "Make the inputs smaller" + ("" if self.max_memory is None else " or raise max_memory")
            raise errors.MemoryLimitError(
                f"{node}: {value!r} would take {value.nbytes} bytes{others}; {has} {limit}. {remedy}")

    def packing_pool(self):
        """A MemoryPool for weights that are packed to compute a result."""
        return MemoryPool(limit=-1 if self.max_memory is None else max(0, self.max_memory - self.known))

    def reserve(self, node, values):
        """Count results that are kept."""
        for value in values:
            if value is not None:
                if value.size > self.many:
                    self.check(node, value)
                self.known += value.nbytes


class _Lowering:
    """Lowers the nodes one by one into a Lowered."""

    def __init__(self, model, subgraph, values, preserve, host, ops):
        self.lowered = Lowered(subgraph, values, model)
        self.preserve = preserve
        self.budget = _Budget(None if host is None else host.max_memory, values)
        self.outputs = set(subgraph.outputs)
        self.host = host
        self.repeats = Repeats(values, Op, ir_values)
        self.half = host is not None and host.half
        self.may_have_objects = not {"string", "variant"}.isdisjoint([value.dtype for value in values]) or (
            host is not None and bool(host.plugins))        # they change the types of their outputs
        self.ops = ops
        self.unpacked = None        # the tensors that operators also need in another form than packed; see _is_packed()
        self.recorded = cells_in([values[index].shape for index in subgraph.inputs]) != set()

    def repeat(self, ops, position):
        """Lower operators from `position` on until one repeats no earlier one; returns its position and Kind or None.

        ops: the op of each operator.
        """
        lowered = self.lowered
        if self.may_have_objects:
            return position, None
        return self.repeats.lower(lowered.subgraph.operators, ops, position, self.host, lowered.nodes, lowered.calls,
                                  self._finish)

    def _finish(self, node, item):
        """Process an Alias or Packed of a node that repeats another."""
        try:
            if type(item) is not Packed:
                self._alias(node, item.y, item.x)
            elif item.value.fixed and not self.half:
                self.lowered.model.weights.pack(item)
        except errors.PyliteError:
            raise
        except Exception as problem:
            raise node.wrapped(problem) from problem

    def add(self, node, op, kind):
        """Lower `node` by its op.  kind: its Kind, or None."""
        lowered = self.lowered
        foldable = not op.stateful and _may_run_once(node)
        if self.recorded:
            from pylite.compiler import size_folding
            if foldable and size_folding.fold(op, node):
                self._keep_starts(node)
                lowered.nodes.append(node)
                lowered.notes[node.index] = "computed once, from constants"
                return
            emitted = size_folding.retried_with_numbers(node, lambda: _prepared(op, node, foldable, self.budget))
        else:
            emitted = _prepared(op, node, foldable, self.budget)
        lowered.nodes.append(node)
        if emitted is None:
            lowered.notes[node.index] = (
                "known beforehand" if node.outputs and node.outputs[0].data is not None else "its outputs are empty")
            return
        emitted = as_list(emitted)
        if self.may_have_objects:
            from pylite.compiler import string_ops
            emitted = string_ops.run_in_python(op, node, emitted)
        if foldable:
            from pylite.compiler import constant_folding
            if not constant_folding.defer(node, emitted, self._is_packed):
                self.budget.reserve(node, [item.y for item in emitted if type(item) is Constant] or node.outputs)
                constant_folding.fold(lowered.model, lowered.subgraph, node, emitted, self.budget.packing_pool())
                self._keep_starts(node)
            lowered.notes[node.index] = "computed once, from constants"
        else:
            if kind is not None:
                kind.keep(node, emitted)
            self._emit(node, emitted)

    def _keep_starts(self, node):
        """Make results of the node the initial contents of variables, which are not constants for their readers."""
        for value in node.outputs:
            if value is not None and value.kind == "variable":
                self.lowered.starts[value.index], value.data = known_array(value), None

    def _is_packed(self, index):
        """Do operators only pack the contents of tensor `index`, if they are constant?"""
        if self.unpacked is None:
            self.unpacked = set(self.lowered.subgraph.outputs)
            for operator, op in zip(self.lowered.subgraph.operators, self.ops, strict=True):
                packs = getattr(op, "packs", None)      # plug-ins lack it
                self.unpacked.update(x for position, x in enumerate(operator.inputs) if position != packs)
        return index not in self.unpacked

    def _emit(self, node, emitted):
        """Append the calls, aliases and constants of `node`."""
        lowered = self.lowered
        for item in emitted:
            kind = type(item)
            if kind is Call:
                self._call(node, item)
            elif kind is Constant:
                item.y.data = np.asarray(item.data, order="C")
                lowered.notes[node.index] = "known beforehand"
            elif kind is FoldablePad:
                if not self.preserve:
                    item.y.pad = item
                    lowered.pads.append((node, item))
            else:
                self._alias(node, item.y, item.x)

    def _call(self, node, call):
        call.node = node
        self.lowered.calls.append(call)
        if self.recorded:
            from pylite.compiler.settling import settle
            settle(call)
        for packed in of_types(call.args, _PACKED):
            if packed.value.fixed and not self.half:        # convert() knows which form
                self.lowered.model.weights.pack(packed)     # another thread packs while lowering continues

    def _alias(self, node, y, x):
        """Make y share the memory of x, or copy x if the caller could see or change one through the other."""
        if self.preserve or not _may_share(y, x, self.outputs):
            self._call(node, Call(COPY, x.view((x.nbytes,), dtype="uint8"),
                                  y.view((y.nbytes,), dtype="uint8")))
        else:
            y.root, y.byte_offset = x.root, x.byte_offset
            self.lowered.notes[node.index] = f"alias of tensor {x.index}"


def _may_run_once(node):
    """Are all inputs known?  Even then variables are written at each run, but by DEQUANTIZE once, as in tf.lite."""
    for value in node.inputs:       # a generator takes three times as long, for every node
        if value is not None and value.data is None:
            return False
    return node.operator.name == "DEQUANTIZE" or not any(v is not None and v.kind == "variable" for v in node.outputs)


def _prepared(op, node, foldable, budget):
    """Infer the outputs' shapes; returns the result of the op's lower(), None if there is nothing to compute.

    foldable: are all inputs known?  Then an op without infer() is evaluated.
    """
    shapes = op.infer(node)
    if shapes is None:
        if not foldable:
            raise errors.DataDependentError(f"{node}: its outputs' shapes depend on data", node)
        from pylite.compiler import constant_folding
        return constant_folding.evaluate(op, node)
    if len(shapes) != len(node.outputs):
        raise node.error(f"has {len(node.outputs)} outputs, but the op computes {len(shapes)}")
    if _take_shapes(node, shapes, budget) and node.outputs and not op.stateful:
        return None
    if op.conditions:
        check_conditions(node, op.conditions)
    return op.lower(node)


def _take_shapes(node, shapes, budget):
    """Give the outputs of `node` their shapes; returns whether all are empty.

    Raises OpError for a shape that infer() must not return, MemoryLimitError for one beyond the budget.
    """
    empty = True
    for value, shape in zip(node.outputs, shapes, strict=True):
        if value is not None:
            value.shape = shape
            try:
                count = len(shape)
            except TypeError:
                raise node.error(f"{shapes!r}, from infer(), are not the shapes of {len(shapes)} "
                                 f"output{'s' * (len(shapes) != 1)}; a shape is a tuple of int") from None
            if count > _MOST_DIMENSIONS:
                raise node.error(f"has {count} dimensions; numpy's arrays have {_MOST_DIMENSIONS} at most", value)
            if 0 not in shape:
                empty = False
                if prod(shape) > budget.many:
                    budget.check(node, value)
            elif max(shape) > _LARGEST:
                raise node.error(f"its shape would be {list(shape)}, and no dimension exceeds {_LARGEST}", value)
    return empty


def _may_share(y, x, outputs):
    """May y share x's memory?  Not if the caller could see or change one through the other."""
    root = x.root
    if root.data is not None or "variable" in (root.kind, y.kind):
        return False
    return not (y.index in outputs and (root.kind in ("input", "carried") or root.index in outputs))
