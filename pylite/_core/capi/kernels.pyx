"""Kernels that run plug-ins' nodes, and that read back delegates' buffers."""
from libc.stdint cimport uintptr_t
from libc.stdlib cimport calloc, free

from pylite._core.capi.host cimport (
    PL_BAND,
    PL_FAILED,
    PL_OVERRUN,
    PL_TENSOR_TEXT,
    TfLiteIntArray,
    TfLiteTensor,
    kTfLiteOk,
    pl_band_intact,
    pl_guards,
    pl_host_read_back,
    pl_node,
    pl_binding,
    pl_node_invoke,
    pl_node_overran,
    pl_set_guards,
    pl_tensor_text,
    pl_watched,
)
from pylite._core.capi.hosting cimport PluginHost
from pylite._core.run.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport pl_pool

BAND = PL_BAND


cdef class Plugin(Kernel):
    """Runs node `index` of `host`.

    tensors: the indices of its tensors; arrays: the bytes of each; banded: for each, are the first and the last BAND
    bytes of its array guard bands, which the plug-in must not overwrite? before: a function to call before each
    invoke(), or None.
    """
    cdef PluginHost owner
    cdef pl_node *node
    cdef pl_binding *bindings
    cdef int count
    cdef pl_watched *watched
    cdef int num_watched
    cdef bint hooked
    cdef tuple arrays
    cdef object before, error

    def __init__(self, PluginHost host, int index, tuple tensors, tuple banded, before, *arrays):
        cdef const unsigned char[::1] view
        cdef int i
        self.owner = host
        self.node = host.host.nodes[index]
        self.arrays = arrays
        self.count = <int>len(tensors)
        self.before = before
        self.hooked = before is not None
        self.bindings = <pl_binding *>calloc(max(1, self.count), sizeof(pl_binding))
        if self.bindings == NULL:
            raise MemoryError(f"no memory for the bindings of {self.count} tensors")
        for i in range(self.count):
            view = arrays[i]
            self.bindings[i].tensor = tensors[i]
            self.bindings[i].bytes = view.shape[0]
            if view.shape[0]:
                self.bindings[i].data = <char *><uintptr_t>&view[0]
                if banded[i]:
                    self.bindings[i].data += PL_BAND
                    self.bindings[i].bytes -= 2 * PL_BAND
                    self.bindings[i].band = True
        self._watch()
        self.fn = <kernel_fn>run_plugin

    def _watch(self):
        """Let each invoke() be followed by a check of the node's tensors."""
        cdef TfLiteIntArray *lists[3]
        lists[0] = self.node.node.outputs
        lists[1] = self.node.node.temporaries
        lists[2] = self.node.node.inputs
        # Inputs come first: for a tensor that is also an output or a temporary, that counts.
        is_input_of = {lists[k].data[i]: k == 2
                       for k in (2, 1, 0) for i in range(lists[k].size) if lists[k].data[i] >= 0}
        self.watched = <pl_watched *>calloc(max(1, len(is_input_of)), sizeof(pl_watched))
        if self.watched == NULL:
            raise MemoryError(f"no memory to watch {len(is_input_of)} tensors")
        for tensor, is_input in is_input_of.items():
            self.watched[self.num_watched].tensor = tensor
            self.watched[self.num_watched].input = is_input
            self.num_watched += 1

    def __dealloc__(self):
        free(self.bindings)
        free(self.watched)

    def explain(self, int status):
        if self.error is not None:
            return f"{type(self.error).__name__}: {self.error}"
        if status == PL_FAILED:
            return self.owner.errors() or "its invoke() failed and reported no error"
        return self._overwritten(status)

    def _overwritten(self, int status):
        """The output or temporary beyond whose ends it wrote, as the guard bands show."""
        cdef int tensor = -1, i
        cdef pl_binding *b
        cdef char text[PL_TENSOR_TEXT]
        for i in range(self.count):
            b = &self.bindings[i]
            if b.band and not pl_band_intact(b.data + b.bytes if status == PL_OVERRUN else b.data - PL_BAND):
                tensor = b.tensor
                break
        if tensor < 0:
            tensor = pl_node_overran(self.owner.host, self.node)
        where = "past the end" if status == PL_OVERRUN else "before the beginning"
        if tensor < 0:
            return f"it wrote {where} of an output or a temporary"
        pl_tensor_text(self.owner.host, tensor, text, PL_TENSOR_TEXT)
        return f"it wrote {where} of {text.decode('utf-8', 'replace')}"

    def cause(self):
        error, self.error = self.error, None
        return error


cdef int run_plugin(Plugin self, pl_pool *pool) noexcept nogil:
    cdef int status = 0
    if self.hooked:
        status = run_before(self)
    if status == 0:
        status = pl_node_invoke(self.owner.host, self.node, self.bindings, self.count, self.watched, self.num_watched)
    if status == 0 and self.owner.host.errors != NULL:
        log_warnings(self)
    return status


cdef int run_before(Plugin self) noexcept nogil:
    with gil:
        try:
            self.before()
            return 0
        except BaseException as error:
            self.error = error
            return PL_FAILED


cdef void log_warnings(Plugin self) noexcept nogil:
    with gil:
        self.owner.log("invoke")


cdef class ReadBack(Kernel):
    """Copies tensor `index` from its delegate's buffer to `array`, if the delegate left the contents there."""
    cdef PluginHost owner
    cdef int index
    cdef char *data
    cdef object array

    def __init__(self, PluginHost host, int index, const unsigned char[::1] array):
        self.owner = host
        self.index = index
        self.array = array
        self.data = <char *><uintptr_t>&array[0] if array.shape[0] else NULL
        self.fn = <kernel_fn>run_read_back

    def explain(self, int status):
        return self.owner.errors() or "CopyFromBufferHandle failed and reported no error"


cdef int run_read_back(ReadBack self, pl_pool *pool) noexcept nogil:
    cdef TfLiteTensor *t = &self.owner.host.context.tensors[self.index]
    if not t.data_is_stale:
        return 0
    t.data.raw = self.data
    return 0 if pl_host_read_back(self.owner.host, self.index) == kTfLiteOk else PL_FAILED


def install_guards(uintptr_t address, bint traps):
    """Call plug-ins through the pl_guards at `address`, which catch C++ exceptions; 0: call them directly.

    traps: catch faults in plug-ins, too?  See trap.c.
    """
    pl_set_guards(<const pl_guards *>address, traps)
