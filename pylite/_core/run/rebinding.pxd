# Kernels of recorded calls.
from libc.stdint cimport int64_t

from pylite._core.graph.calls cimport Call
from pylite._core.run.kernel cimport Kernel
from pylite._core.run.parts cimport BindingContext, Number, Part
from pylite._core.run.program cimport IOBytes


cdef class BoundCall:
    cdef object name            # of the kernel
    cdef object make            # its class; None before it is first constructed
    cdef Kernel kernel
    cdef list args              # its arguments by position,
    cdef dict named             # and by name
    cdef list parts, keys       # the Parts, and the position or name of the argument that each supplies
    # the called subgraphs: [(key of the argument, position in it if it is a list, else None, CalledProgram)]
    cdef list callees
    # `parts` and their roles as tables of `count` entries, because lists would take most of the time of renew()
    cdef void **table
    cdef int *roles             # after prepare(): the position in the class's ARRAYS, or an ArgumentRole
    cdef Py_ssize_t count
    cdef int complete(self) except -1
    # set by prepare() from the class
    cdef bint moves             # does it have moved()?
    cdef list size_keys         # the keys of its SIZES
    cdef Py_ssize_t first_array     # position of the first argument after those that contain `callees`
    cdef IOBytes fixed_bytes    # of the arguments from there on; absent if an argument depends on shapes
    cdef int prepare(self) except -1
    cdef Kernel moved(self, Rebinder rebinder)
    cdef Kernel calling(self, Rebinder rebinder)
    cdef Kernel constructed(self, Rebinder rebinder)
    cdef int renew(self, Rebinder rebinder, bint reconstruct) except -1
    cdef int put(self, key, argument) except -1


cdef class Rebinder(BindingContext):
    cdef list bound_calls, parts
    cdef list io_parts          # the Parts of the bytes that callers copy in and out
    cdef list root_indices      # the tensor index of the root of each block,
    cdef list scratch_copies    # and the Scratches with numbers of the blocks after these
    cdef list firsts, lasts     # live ranges of the blocks
    cdef void **part_table
    cdef void **call_table
    cdef Number *sizes          # bytes of each block
    cdef Py_ssize_t block_count
    cdef bint contents_vary     # do contents of values depend on dimensions?
    cdef list offsets
    cdef Py_ssize_t total
    cdef Py_ssize_t root_count
    cdef int64_t *room          # of each block in the layout
    cdef dict block_numbers     # {id of a root or Scratch: number of its block}, only during construction
    cdef dict known             # {key of a Part: the Part}, only during construction
    cdef dict roots             # {tensor index of a root: its offset}
    cdef dict scratches         # {Scratch with numbers: its offset}
    cdef dict outside           # {tensor index: array} of the values outside the arena
    cdef object kernel_class, instance
    cdef bint layout_changed    # since the last bind()
    cdef BoundCall bound_call(self, Call source, Call target)
    cdef Part io_part(self, view)
    cdef Part register(self, key, Part part)
    cdef Part part(self, source, target)
    cdef Part sized(self, source)
    cdef Part arena_array(self, source)
    cdef Py_ssize_t place(self) except -1
    cdef IOBytes current_io_bytes(self)
    cdef list bind(self, arena, dict outside, pack, kernel_class)
