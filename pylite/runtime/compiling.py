"""Makes the BoundProgram of an Executor for its input shapes: lowers the subgraph, plans memory, binds kernels.

An Executor imports this module when it has no program, plan or recording for its input shapes.
"""
from typing import TYPE_CHECKING

from pylite._core.run.program import Program
from pylite._core.simd import begin_packing, finish_packing
from pylite.compiler import binding, lowering, memory_planner
from pylite.runtime import blueprint as blueprints
from pylite.runtime.blueprint import Blueprint
from pylite.runtime.bound_program import BoundProgram

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pylite.ir.lowered import Lowered

    Executor = Any      # it imports this module
    Shape = tuple[int, ...]

CACHED_DYNAMIC = 64     # sets of input shapes to keep if shapes depend on data


def program(executor: "Executor") -> BoundProgram:
    """A new BoundProgram for the current input shapes."""
    executor.use_graph()
    begin_packing()     # another thread packs weights during lowering
    try:
        key = blueprints.key_of(executor)
        blueprint = executor.model.blueprints.find(key) or _new_blueprint(executor, key)
        try:
            return bind(executor, blueprint)
        finally:
            blueprint.release()
    finally:
        finish_packing()
        if executor.plans is not None:
            executor.plans.writing = False


def _new_blueprint(executor: "Executor", key: "Any") -> Blueprint:
    """A new Blueprint for the current input shapes, acquired; the model keeps it under `key` if it may be shared."""
    result = lowered(executor, executor.shapes)
    if result.boundary is not None:
        from pylite.runtime import dynamic_shapes  # imported for graphs that have such shapes
        executor.dynamic_shapes = dynamic_shapes
        executor.cache.capacity = max(executor.cache.capacity, CACHED_DYNAMIC)
    new = blueprint_of(executor, result).acquire()
    if key is not None and blueprints.is_shared(executor, new):
        executor.model.blueprints.keep(key, new)
    return new


def lowered(executor: "Executor", shapes: "Sequence[Shape]") -> "Lowered":
    """The Lowered for these input shapes.  Lowering starts over if an op calls lower_again()."""
    result = None
    while result is None or executor.stale:
        if executor.stale:
            executor.forget()
        result = lowering.lower(executor.model, executor.subgraph, shapes, preserve=executor.preserve,
                                find=executor.find, dynamic=True, host=executor)
    return result


def blueprint_of(executor: "Executor", lowered: "Lowered") -> Blueprint:
    """The Blueprint of `lowered`, with its memory planned."""
    if executor.plugin_structs is not None:
        executor.plugin_structs.finish(lowered)
    return Blueprint(lowered, memory_planner.placement_of(lowered, executor.preserve, executor.guard, executor.access))


def bind(executor: "Executor", blueprint: Blueprint, before: "Sequence[BoundProgram]" = ()) -> BoundProgram:
    """`blueprint`, bound to the executor's memory.

    before: the BoundPrograms of the segments that run first and whose results this one reads.
    """
    memory, lowered, placement = executor.memory, blueprint.lowered, blueprint.placement
    if executor.max_memory is not None and not before:
        _drop_outgrown(executor, placement.total)
    memory.check(lowered, placement, lambda: sum([s.placement.total for s in before]) + _bytes_of_others(executor))
    arena = memory.arena(placement.total, len(before), executor.cache.drop_arena)
    storage = binding.Storage(memory.outside(lowered, before), arena, placement.offsets, placement.scratch)
    pool = memory.packing_pool()
    operands = binding.operands(lowered.calls, storage, executor.model, pool)
    memory.counted += pool.taken
    kernels = binding.kernels(lowered.calls, operands)
    result = BoundProgram(blueprint, storage, Program(kernels, executor.pool), arena)
    main_plans = executor.shared.executors.get(0, executor).plans
    if main_plans is not None and main_plans.writing:
        result.operands = operands      # a plan of the calling program needs them
    if executor.plans is not None and executor.plans.writing and not before:
        from pylite.runtime import plan_store
        plan_store.store(executor.plans, executor, result, operands)
    return result


def _bytes_of_others(executor: "Executor") -> int:
    """Bytes of this interpreter's other subgraphs, and of the variables and tables of all subgraphs."""
    others = [other for other in executor.shared.executors.values() if other is not executor]
    return sum([other.memory.nbytes for other in others]) + sum(
        [resource.reserved for resource in executor.shared.resources])


def _drop_outgrown(executor: "Executor", nbytes: int) -> None:
    """Free all arenas if a larger one, of `nbytes`, is about to replace the first."""
    arenas = executor.memory.arenas
    if arenas and arenas[0].nbytes < nbytes:
        executor.cache.clear()
        arenas.clear()
        executor.segments = []
        executor.current = None
