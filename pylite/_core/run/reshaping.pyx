"""Creates programs for further input shapes from a recorded program; ShapeCache, in program.pyx, keeps them.

Compiled, because this is most of the time that a small model takes to allocate for a new shape.
"""
from libc.stdint cimport int64_t

from pylite._core.graph.tapes cimport ShapeTape
from pylite._core.run.program cimport ExecutorBase, Program, ReshaperBase, Segment, ShapeCache
from pylite._core.run.rebinding cimport Rebinder
from pylite._core.simd cimport pl_slots, slots

cdef enum:
    LARGE = 1 << 28         # larger arenas are checked against the machine's memory, which the caller does


cdef class Reshaper(ReshaperBase):
    """Creates the programs of a RecordedProgram, `recorded`, for one Executor.

    history: the ShapeHistory that contains it; make: the class of the programs, ShapedProgram; kernel_class: as in
    Rebinder.bind(); is_plain(): are all ops pylite's own?
    """
    cdef object recorded, history, make, kernel_class, is_plain
    cdef Rebinder rebinder
    cdef ShapeTape tape
    cdef bint variables, has_served
    cdef const pl_slots *slots      # of the ISA level

    def __init__(self, recorded, history, make, kernel_class, is_plain):
        self.recorded, self.history, self.make = recorded, history, make
        self.kernel_class, self.is_plain, self.slots = kernel_class, is_plain, slots
        self.rebinder, self.tape, self.variables = recorded.rebinder, recorded.tape, bool(recorded.variables)

    def place(self):
        """Rebinder.place()."""
        return self.rebinder.place()

    def bind(self, ExecutorBase executor not None, arena):
        """A program in `arena` for the current shapes, after place()."""
        return self.bound(executor, arena)

    cdef Segment bound(self, ExecutorBase executor, arena):
        cdef Rebinder rebinder = self.rebinder
        cdef dict outside = {}
        cdef Segment program
        if self.variables:
            outside = {value.index: executor.memory.variable(value)
                       for value in self.recorded.variable_values(self.tape)}
        kernels = rebinder.bind(arena, outside, executor.model.pack, self.kernel_class)
        shaped = self.make.__new__(self.make)
        shaped.origin = (self.recorded, self.tape.numbers_now(), rebinder.offsets, rebinder.total,
                         (outside.copy(), arena, rebinder.roots, rebinder.scratches))
        shaped.ends = rebinder.end_arrays() or None
        program = shaped
        program.begin(Program(kernels, executor.pool), arena)
        return program

    cdef bint activate(self, ExecutorBase executor, ShapeCache cache) except -1:
        cdef Segment program
        if executor.known_inputs or slots != self.slots or not self.is_plain():
            return False
        cdef tuple key = tuple(executor.shapes)
        program = cache.find(key)
        if program is None:
            if not self.tape.serve(key):
                return False
            arena = executor.memory.arenas[0]
            if self.rebinder.place() > min(<int64_t>arena.nbytes, LARGE):
                return False
            try:
                program = self.bound(executor, arena)
            except Exception:       # a kernel refused its operands; lowering anew raises the error with its context
                cache.reshaper = None
                return False
            if not self.has_served:
                self.has_served = True
                self.history.served()
            cache.keep(key, program)
        executor.use(program)
        return True
