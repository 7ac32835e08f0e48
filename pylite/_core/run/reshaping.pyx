"""Programs for further input shapes: those that were bound before, and those that a recorded program serves.

In C, as it is most of the time that a small model takes to allocate for a new shape.
"""
from libc.stdint cimport int64_t

from pylite._core.graph.tapes cimport ShapeTape
from pylite._core.run.program cimport ExecutorBase, Program, Segment
from pylite._core.run.rebinding cimport Rebinder
from pylite._core.simd cimport pl_slots, slots

cdef enum:
    LARGE = 1 << 28         # bytes of an arena that is compared with the machine's memory before


cdef class ShapeCache:
    """The programs of an Executor by input shapes, the one used last at the end.

    capacity: sets of input shapes to keep; reshaper: the Reshaper that served last, or None.
    """
    cdef public Py_ssize_t capacity
    cdef public Reshaper reshaper
    cdef dict programs
    cdef dict arenas            # {id of an arena: [its bytes, programs in it]}
    cdef int64_t nbytes         # of all arenas

    def __init__(self, Py_ssize_t capacity):
        self.capacity, self.programs, self.arenas = capacity, {}, {}

    def clear(self):
        """Drop all programs, and the references of their loops to themselves."""
        cdef Segment program
        for program in self.programs.values():
            program.iterations.clear()
        self.programs, self.arenas, self.nbytes, self.reshaper = {}, {}, 0, None

    cpdef get(self, key):
        """The program for a set of input shapes, or None."""
        program = self.programs.pop(key, None)
        if program is not None:
            self.programs[key] = program
        return program

    cpdef add(self, key, Segment program):
        """Keep `program`.

        Drops those used longest ago: beyond the capacity, or while outgrown arenas take more than the present one.
        """
        cdef list held
        if key in self.programs:
            self.pop(key)
        self.programs[key] = program
        cdef int64_t nbytes = program.arena.nbytes
        held = self.arenas.get(id(program.arena))
        if held is None:
            held = self.arenas[id(program.arena)] = [nbytes, 0]
            self.nbytes += nbytes
        held[1] += 1
        while len(self.programs) > 1 and (len(self.programs) > self.capacity or self.nbytes > 2 * nbytes):
            old = self.pop(next(iter(self.programs)))
            if old.boundary is not None:        # segments follow
                self.drop([old])

    cdef Segment pop(self, key):
        """Take a program out."""
        cdef Segment old = self.programs.pop(key)
        cdef list held = self.arenas[id(old.arena)]
        held[1] -= 1
        if not held[1]:
            self.nbytes -= held[0]
            del self.arenas[id(old.arena)]
        return old

    def activate(self, ExecutorBase executor not None):
        """Let `executor` run the program for its input shapes; False where that takes more than a Reshaper."""
        return self.reshaper is not None and self.reshaper.activate(executor, self)


cdef class Reshaper:
    """Makes the programs of a RecordedProgram, `recorded`, for one Executor.

    history: the ShapeHistory that has it; make: the class of the programs, ShapedProgram; kernel_class: as for
    Rebinder.bind(); is_plain(): are all ops those of pylite?
    """
    cdef object recorded, history, make, kernel_class, is_plain
    cdef Rebinder rebinder
    cdef ShapeTape tape
    cdef const pl_slots *slots      # of the ISA level

    def __init__(self, recorded, history, make, kernel_class, is_plain):
        self.recorded, self.history, self.make = recorded, history, make
        self.kernel_class, self.is_plain, self.slots = kernel_class, is_plain, slots
        self.rebinder, self.tape = recorded.rebinder, recorded.tape

    def bound(self, executor, arena):
        """A program in `arena` for the shapes at hand, after place()."""
        cdef list outside = self.recorded.variable_values(self.tape) if self.recorded.variables else []
        kernels, storage = self.rebinder.bind(
            arena, {value.index: executor.memory.variable(value) for value in outside} if outside else {},
            executor.model.pack, self.kernel_class)
        made = self.make.__new__(self.make)
        made.program_of_all, made.numbers, made.executor, made.storage = (
            self.recorded, self.tape.numbers_now(), executor, storage)
        made.offsets, made.total = self.rebinder.offsets, self.rebinder.total
        made.ends = self.rebinder.end_arrays() or None
        (<Segment>made).start(Program(kernels, executor.pool), arena)
        return made

    cdef bint activate(self, ExecutorBase executor, ShapeCache cache) except -1:
        """ShapeCache.activate()."""
        if executor.given or slots != self.slots or not self.is_plain():
            return False
        cdef tuple key = tuple(executor.shapes)
        program = cache.get(key)
        if program is None:
            if not self.tape.fits(key):
                return False
            arena = executor.memory.arenas[0]
            if self.rebinder.place() > min(<int64_t>arena.nbytes, LARGE):
                return False
            try:
                program = self.bound(executor, arena)
            except Exception:       # kernels refuse operands that lowering does not check; lowering anew says so
                cache.reshaper = None
                return False
            self.history.served()
            cache.add(key, program)
        executor.enter(program)
        return True
