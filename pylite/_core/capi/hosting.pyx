"""The tables that plug-ins see: a Host for each subgraph that has plug-ins."""
cimport cython
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from pylite._core.capi.host cimport (
    TfLiteContext,
    TfLiteDelegate,
    TfLiteExternalContext,
    TfLiteIntArray,
    TfLiteIntArrayCreate,
    TfLiteOperator,
    TfLiteRegistration,
    TfLiteSparsity,
    TfLiteStatus,
    TfLiteTensor,
    kTfLiteDimSparseCSR,
    kTfLiteDynamic,
    kTfLiteError,
    kTfLiteMaxExternalContexts,
    kTfLiteOk,
    pl_callbacks,
    pl_context_fill,
    pl_host,
    pl_host_add_preview,
    pl_host_apply,
    pl_host_blockwise,
    pl_host_delegate_node,
    pl_host_free,
    pl_host_new,
    pl_host_node,
    pl_host_plug,
    pl_host_quantization,
    pl_host_read_back,
    pl_host_sparsity,
    pl_host_tensor,
    pl_host_undo,
    pl_node,
    pl_node_end,
    pl_node_init,
    pl_node_prepare,
    pl_refresh,
)
from pylite._core.capi.plugin_structs cimport DelegateHandle

STATUS = ("ok", "error", "delegate error", "application error", "no delegate data", "delegate data not written",
          "delegate data not read", "unresolved ops", "cancelled", "output shape not known")


cdef TfLiteIntArray *ints(object values) except NULL:
    """A malloc'd copy of a sequence of int."""
    cdef TfLiteIntArray *array = TfLiteIntArrayCreate(<int>len(values))
    cdef int i
    if array == NULL:
        raise MemoryError(f"no memory for {len(values)} numbers")
    for i in range(array.size):
        array.data[i] = values[i]
    return array


cdef void free_ints(TfLiteIntArray **arrays) noexcept:
    for i in range(3):
        free(arrays[i])


cdef tuple numbers(const TfLiteIntArray *array):
    cdef int i
    return () if array == NULL else tuple([array.data[i] for i in range(array.size)])


cdef class Externals:
    """The external contexts that the plug-ins of one interpreter share."""

    def __cinit__(self):
        self.table = <TfLiteExternalContext **>calloc(kTfLiteMaxExternalContexts, sizeof(TfLiteExternalContext *))
        if self.table == NULL:
            raise MemoryError("no memory for external contexts")

    def __dealloc__(self):
        free(self.table)


@cython.no_gc_clear     # what the tables need when they go is still there, also when a cycle is collected
cdef class Host:
    """The tables of one subgraph.

    Set before a delegate is applied: replace(nodes, registration, operator, delegate), the last three as addresses;
    partition(nodes) -> [(nodes, inputs, outputs)]; metadata(name) -> bytes or None; subgraph(index) -> Host or None.
    `pending` holds the exception that one of them raised.
    """

    def __cinit__(self, Py_ssize_t tensors, Externals externals):
        self.kept = []
        self.handles = ()
        self.externals = externals
        self.host = pl_host_new(tensors, pl_context_fill, &callbacks, <void *>self, externals.table)
        if self.host == NULL:
            raise MemoryError(f"no memory for a table of {tensors} tensors")

    def __dealloc__(self):
        pl_host_free(self.host)

    # Building.

    def tensor(self, int index, str name, int type, shape, signature, int allocation_type, uintptr_t data,
               size_t nbytes, bint is_variable, kept=None):
        """Describe tensor `index`.  data: the address of a constant's bytes, kept alive by `kept`, or 0."""
        cdef TfLiteIntArray *dims = ints(shape)
        cdef TfLiteIntArray *signed = NULL if signature is None else ints(signature)
        cdef bytes encoded = name.encode()
        cdef int status = pl_host_tensor(self.host, index, encoded, type, dims, signed, allocation_type,
                                         <const void *>data, nbytes, is_variable)
        free(dims)
        free(signed)
        self._keep(status, kept)

    def quantization(self, int index, const float[::1] scales, const int64_t[::1] zero_points, int axis):
        self._keep(pl_host_quantization(self.host, index, &scales[0], &zero_points[0], <int>scales.shape[0], axis))

    def sparsity(self, int index, traversal_order, block_map, dimensions):
        """dimensions: (dense size, segments or None, indices or None) of each."""
        cdef TfLiteIntArray *order = ints(traversal_order)
        cdef TfLiteIntArray *blocks = ints(block_map)
        cdef TfLiteSparsity *made = pl_host_sparsity(self.host, index, order, blocks, <int>len(dimensions))
        cdef int i
        self._keep(0 if made != NULL else -1)
        for i, (size, segments, indices) in enumerate(dimensions):
            made.dim_metadata[i].dense_size = size
            if segments is not None:
                made.dim_metadata[i].format = kTfLiteDimSparseCSR
                made.dim_metadata[i].array_segments = ints(segments)
                made.dim_metadata[i].array_indices = ints(indices)

    def blockwise(self, int index, int scale, int zero_point, int block_size, int axis):
        self._keep(pl_host_blockwise(self.host, index, scale, zero_point, block_size, axis))

    def node(self, int builtin_code, name, int version, inputs, outputs, intermediates, const unsigned char[::1] params,
             const unsigned char[::1] options, kept=None):
        """Add the next node.  name: of a custom op, else None; params: its builtin_data; options: a custom op's."""
        cdef TfLiteIntArray *arrays[3]
        arrays[0], arrays[1], arrays[2] = ints(inputs), ints(outputs), ints(intermediates)
        cdef bytes encoded = None if name is None else name.encode()
        cdef const char *custom_name = NULL
        if encoded is not None:
            custom_name = encoded
        cdef size_t size = params.shape[0]
        cdef int length = <int>options.shape[0]
        cdef int status = pl_host_node(self.host, builtin_code, custom_name, version, arrays[0], arrays[1], arrays[2],
                                       &params[0] if size else NULL, size, &options[0] if length else NULL, length)
        free_ints(arrays)
        self._keep(status, (options, kept))

    def finish(self, plan, inputs, outputs, variables, str name):
        """The nodes are complete: their order, and the graph's ends."""
        self.host.model_nodes = self.host.num_nodes
        self.host.plan = ints(plan)
        self.host.model_plan = ints(plan)
        self.host.inputs = ints(inputs)
        self.host.outputs = ints(outputs)
        self.host.variables = ints(variables)
        cdef bytes encoded = name.encode() + b"\0"
        self.host.name = <char *>malloc(len(encoded))
        if self.host.name != NULL:
            memcpy(self.host.name, <const char *>encoded, len(encoded))

    def _keep(self, int status, kept=None):
        if status != 0:
            raise MemoryError("no memory for the tables of plug-ins")
        if kept is not None:
            self.kept.append(kept)

    # Nodes of plug-ins.

    def plug(self, int index, uintptr_t registration, uintptr_t operator, bint trapped):
        """Have node `index` run by the TfLiteRegistration or, where 0, the TfLiteOperator at these addresses.

        trapped: its functions are a library's, not Python's, and may be stopped where they use what no host has.
        """
        pl_host_plug(self.host, index, <const TfLiteRegistration *>registration, <TfLiteOperator *>operator, trapped)

    def init(self, int index):
        """init() of node `index`, once; a status."""
        cdef pl_node *node = self.host.nodes[index]
        if node.node.builtin_data != NULL or node.node.custom_initial_data == NULL:
            return pl_node_init(self.host, node, <const char *>node.node.builtin_data, 0)
        return pl_node_init(self.host, node, <const char *>node.node.custom_initial_data,
                            node.node.custom_initial_data_size)

    def prepare(self, int index):
        """prepare() of node `index`; a status."""
        return pl_node_prepare(self.host, self.host.nodes[index])

    def end(self, int index):
        """free() of node `index`, once; the rest of the node stays until the Host goes."""
        if index < self.host.num_nodes:
            pl_node_end(self.host, self.host.nodes[index])

    def errors(self):
        """What plug-ins reported since the last call."""
        if self.host.errors == NULL:
            return ""
        text = (<bytes>self.host.errors).decode("utf-8", "replace")
        free(self.host.errors)
        self.host.errors = NULL
        return text

    def temporaries(self, int index):
        return numbers(self.host.nodes[index].node.temporaries)

    def operands(self, int index):
        """(inputs, outputs) of node `index` as they are now."""
        cdef pl_node *node = self.host.nodes[index]
        return numbers(node.node.inputs), numbers(node.node.outputs)

    def custom_name(self, int index):
        """The name that a delegate gave to its kernel, or None."""
        cdef const char *name = self.host.nodes[index].reg.custom_name
        return None if name == NULL else (<bytes>name).decode("utf-8", "replace")

    # Tensors.

    @property
    def tensors(self):
        """Number of tensors, those that plug-ins added included."""
        return self.host.context.tensors_size

    @property
    def model_tensors(self):
        return self.host.model_tensors

    def facts(self, int index):
        """(type, shape or None, allocation type, bytes, address) of tensor `index`."""
        cdef TfLiteTensor *t = &self.host.context.tensors[index]
        return (t.type, None if t.dims == NULL else numbers(t.dims), t.allocation_type, t.bytes,
                <uintptr_t>t.data.raw)

    def reshape(self, int index, shape, size_t nbytes):
        """Tensor `index` has another shape; its memory, if it had any of the arena, is not its own any more."""
        cdef TfLiteTensor *t = &self.host.context.tensors[index]
        cdef TfLiteIntArray *dims
        if t.dims == NULL or numbers(t.dims) != shape:
            dims = ints(shape)
            free(t.dims)
            t.dims = dims
        if t.allocation_type != kTfLiteDynamic:
            t.bytes = nbytes        # else whoever wrote it knows

    def place(self, int index, uintptr_t address):
        """Tensor `index` lies at `address`; 0: nowhere."""
        self.host.context.tensors[index].data.raw = <char *>address

    def set_allocation(self, int index, int allocation_type):
        self.host.context.tensors[index].allocation_type = allocation_type

    def string_bytes(self, int index):
        """The bytes of a dynamic tensor."""
        cdef TfLiteTensor *t = &self.host.context.tensors[index]
        return b"" if t.data.raw == NULL else t.data.raw[:t.bytes]

    def set_bytes(self, int index, bytes content):
        """Give a dynamic tensor these bytes, in memory of its own."""
        cdef TfLiteTensor *t = &self.host.context.tensors[index]
        free(t.data.raw)
        t.data.raw = <char *>malloc(len(content) + 16)
        if t.data.raw == NULL:
            raise MemoryError(f"no memory for {len(content)} bytes of strings")
        memcpy(t.data.raw, <const char *>content, len(content))
        t.bytes = len(content)

    # Delegates.

    def apply(self, uintptr_t delegate):
        """Prepare() of the TfLiteDelegate at this address; a status."""
        self.pending = None
        return pl_host_apply(self.host, <TfLiteDelegate *>delegate)

    def add_delegate_node(self, nodes, inputs, outputs, uintptr_t registration, uintptr_t operator,
                          uintptr_t delegate):
        """A node of a delegate in place of `nodes`, initialised; a status."""
        cdef TfLiteIntArray *arrays[3]
        arrays[0], arrays[1], arrays[2] = ints(nodes), ints(inputs), ints(outputs)
        cdef TfLiteStatus status = pl_host_delegate_node(
            self.host, <const TfLiteRegistration *>registration, <TfLiteOperator *>operator,
            <TfLiteDelegate *>delegate, arrays[0], arrays[1], arrays[2])
        free_ints(arrays)
        return status

    def own_operator(self, int index):
        """The TfLiteOperator of node `index` was handed over: it ends with that node."""
        self.host.nodes[index].owns_op = True

    def delegate_of(self, int index):
        """Address of the TfLiteDelegate whose kernel runs node `index`, or 0."""
        return <uintptr_t>self.host.nodes[index].node.delegate

    def hold(self, DelegateHandle handle):
        """Let a delegate live as long as these tables."""
        if handle not in self.handles:
            self.handles += (handle,)

    def set_plan(self, plan):
        cdef TfLiteIntArray *fresh = ints(plan)
        free(self.host.plan)
        self.host.plan = fresh

    @property
    def plan(self):
        return numbers(self.host.plan)

    @property
    def num_nodes(self):
        return self.host.num_nodes

    def undo(self):
        """Take every delegate's nodes out again."""
        pl_host_undo(self.host)

    def read_back(self, int index):
        """Bring a stale tensor's contents to memory; a status."""
        return pl_host_read_back(self.host, index)

    def set_threads(self, int count):
        """The user asked for `count` threads: tell the external contexts."""
        cdef int i
        self.host.context.recommended_num_threads = count
        for i in range(kTfLiteMaxExternalContexts):
            if self.externals.table[i] != NULL and self.externals.table[i].Refresh != NULL:
                pl_refresh(self.host, self.externals.table[i])

    @property
    def threads(self):
        return self.host.context.recommended_num_threads

    @threads.setter
    def threads(self, int count):
        self.host.context.recommended_num_threads = count

    @property
    def skippable(self):
        return self.host.skippable


cdef pl_callbacks callbacks = pl_callbacks(replace, preview, metadata, subgraph)


cdef TfLiteStatus replace(pl_host *host, const TfLiteRegistration *registration, TfLiteOperator *op,
                          const TfLiteIntArray *nodes, TfLiteDelegate *delegate) noexcept with gil:
    self = <Host>host.python
    try:
        self.replace(numbers(nodes), <uintptr_t>registration, <uintptr_t>op, <uintptr_t>delegate)
        return kTfLiteOk
    except BaseException as error:
        self.pending = error
        return kTfLiteError


cdef TfLiteStatus preview(pl_host *host, const TfLiteIntArray *nodes) noexcept with gil:
    self = <Host>host.python
    cdef TfLiteIntArray *arrays[3]
    cdef int status = 0
    try:
        for part in self.partition(numbers(nodes)):
            arrays[0], arrays[1], arrays[2] = ints(part[0]), ints(part[1]), ints(part[2])
            status |= pl_host_add_preview(host, arrays[0], arrays[1], arrays[2])
            free_ints(arrays)
        return kTfLiteOk if status == 0 else kTfLiteError
    except BaseException as error:
        self.pending = error
        return kTfLiteError


cdef TfLiteStatus metadata(pl_host *host, const char *name, const char **data, size_t *size) noexcept with gil:
    self = <Host>host.python
    cdef const unsigned char[::1] view
    try:
        found = None if self.metadata is None else self.metadata((<bytes>name).decode())
        if found is None or not len(found):
            return kTfLiteError
        view = found
        self.kept.append(view)
        data[0] = <const char *>&view[0]
        size[0] = view.shape[0]
        return kTfLiteOk
    except BaseException as error:
        self.pending = error
        return kTfLiteError


cdef TfLiteStatus subgraph(pl_host *host, int index, TfLiteContext **context) noexcept with gil:
    self = <Host>host.python
    try:
        other = None if self.subgraph is None else self.subgraph(index)
        if other is None:
            return kTfLiteError
        context[0] = &(<Host>other).host.context
        return kTfLiteOk
    except BaseException as error:
        self.pending = error
        return kTfLiteError
