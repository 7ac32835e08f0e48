"""Creates programs for new input shapes from a recorded program; ShapeCache, in program.pyx, keeps them.

Compiled, because a small model spends most of its allocation time here when shapes change.
"""
from libc.stdint cimport int64_t

from pylite._core.graph.tapes cimport ShapeTape, Tape, filled
from pylite._core.run.kernel cimport LARGE_ARENA_BYTES
from pylite._core.run.program cimport ExecutorBase, IOBytes, Program, ReshaperBase, Segment, ShapeCache
from pylite._core.run.rebinding cimport Rebinder
from pylite._core.simd cimport pl_slots, slots

from pylite._core.graph.dimensions import UnrecordableError


cdef class Reshaper(ReshaperBase):
    """Creates the programs of a RecordedProgram, `recorded`, for one Executor.

    history: the ShapeHistory that contains it; make: the class of the programs, ShapedProgram; kernel_class: as in
    Rebinder.bind(); is_plain(): are all ops pylite's own?
    """
    cdef object recorded, history, make, kernel_class, is_plain
    cdef Rebinder rebinder
    cdef ShapeTape tape
    cdef bint variables, was_reused
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
        cdef Segment segment
        if self.variables:
            outside = {value.index: executor.memory.variable(value, self.recorded.lowered.starts)
                       for value in self.recorded.variable_values(self.tape)}
        kernels = rebinder.bind(arena, outside, executor.model.weights.pack, self.kernel_class)
        shaped = self.make.__new__(self.make)
        shaped.origin = (self.recorded, self.tape.numbers_now(), rebinder.offsets, rebinder.total,
                         (outside.copy(), arena, rebinder.roots, rebinder.scratches))
        shaped.io_bytes = rebinder.current_io_bytes()
        segment = shaped
        segment.begin(Program(kernels, executor.pool), arena)
        return segment

    cdef bint activate(self, ExecutorBase executor, ShapeCache cache) except -1:
        return not executor.known_inputs and bool(self.is_plain()) and self.activate_unchecked(executor, cache)

    cdef bint activate_unchecked(self, ExecutorBase executor, ShapeCache cache) except -1:
        cdef Segment segment
        if slots != self.slots:
            return False
        cdef tuple key = tuple(executor.shapes)
        segment = cache.find(key)
        if segment is None:
            if not self.tape.evaluate_shapes(key):
                return False
            arena = executor.memory.arenas[0]
            if self.rebinder.place() > min(<int64_t>arena.nbytes, LARGE_ARENA_BYTES):
                return False
            try:
                segment = self.bound(executor, arena)
            except Exception:       # a kernel refused its arguments; lowering then raises the error with its context
                cache.reshaper = None
                return False
            if not self.was_reused:
                self.was_reused = True
                self.history.note_reuse()
            cache.keep(key, segment)
        executor.use(segment)
        return True


cdef class CalledProgram:
    """Stands for the Callee of a subgraph in the args of a recorded Call.

    executor: the subgraph's; shapes: of its inputs, with Dims; known_inputs, whole: as for Host.entry(); lowered: with
    Dims; absent: the inputs that callers do not copy.  bound, entry: the BoundProgram and the Callee for the current
    shapes, set by renew().
    """
    cdef readonly object executor, shapes, known_inputs, lowered, bound, entry
    cdef readonly bint whole
    cdef list absent

    def __init__(self, executor, shapes, known_inputs, lowered, bint whole=False, list absent=None):
        self.executor, self.shapes, self.known_inputs = executor, shapes, known_inputs
        self.lowered, self.whole, self.absent = lowered, whole, absent

    @property
    def boundary(self):
        """None: as for Prepared."""
        return None

    def renew(self, Tape tape not None):
        """Prepare the subgraph for the current shapes; returns whether its program has changed."""
        cdef list shapes = []
        for shape in self.shapes:
            shapes.append(filled(tape.numbers, shape))
        if self.absent and not self.known_inputs:   # the shape of an input that is neither copied nor read may stay
            before = self.executor.shapes
            for position in self.absent:
                shapes[position] = before[position]
        bound = self.prepared(shapes)
        if bound.boundary is not None:
            raise UnrecordableError("shapes depend on data")
        if bound is self.bound:
            return False
        self.bound = bound
        io = bound.io_bytes
        if io is None:
            self.entry = self.executor.entry(self.whole)
        else:
            self.entry = (<IOBytes>io).callee(bound, len(shapes), self.absent)
        return True

    cdef object prepared(self, list shapes):
        """Host.prepared(), with a shortcut for an executor whose Reshaper has a program for these shapes."""
        cdef ShapeCache cache
        executor = self.executor
        if not self.known_inputs and not executor.known_inputs and executor.delegation is None:
            if shapes != executor.shapes:
                executor.shapes = shapes
                executor.invalidate()
            if executor.ready:
                return executor.current
            cache = executor.cache
            if cache.reshaper is not None and cache.reshaper.activate_unchecked(executor, cache):   # the caller checked
                return executor.current
        return executor.prepared(shapes, self.known_inputs)

    def entering(self, bint whole, list absent):
        """The CalledProgram for Host.entry() with `whole`."""
        return CalledProgram(self.executor, self.shapes, self.known_inputs, self.lowered, whole, absent)

    def shape(self, index):
        """The shape of tensor `index`, with Dims."""
        return self.lowered.values[index].shape
