"""PluginHost owns the structs that plug-ins see, for a subgraph that has plug-ins; see host.h."""
cimport cython
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from pylite._core.capi.callbacks cimport PluginHostBase, callbacks
from pylite._core.capi.host cimport (
    TfLiteDelegate,
    TfLiteExternalContext,
    TfLiteIntArray,
    TfLiteOperator,
    TfLiteRegistration,
    TfLiteSparsity,
    TfLiteStatus,
    TfLiteTensor,
    kTfLiteDimSparseCSR,
    kTfLiteDynamic,
    kTfLiteMaxExternalContexts,
    pl_event,
    pl_context_fill,
    pl_host_apply_delegate,
    pl_host_set_blockwise,
    pl_host_add_delegate_node,
    pl_host_free,
    pl_host_new,
    pl_host_add_node,
    pl_host_add_sparsity,
    pl_host_set_kernel,
    pl_host_set_quantization,
    pl_host_read_back,
    pl_host_set_tensor,
    pl_host_take_back,
    pl_host_take_errors,
    pl_host_undo_delegates,
    pl_node,
    pl_node_finalize,
    pl_node_init,
    pl_node_prepare,
    pl_node_profiling_string,
    pl_profiler_clear,
    pl_profiler_events,
    pl_profiler_new,
    pl_profiler_record,
    pl_host_refresh_external,
)
from pylite._core.capi.int_arrays cimport free_three, int_array, int_tuple, set_three
from pylite._core.capi.plugin_structs cimport DelegateHandle

STATUS = ("ok", "error", "delegate error", "application error", "no delegate data", "delegate data not written",
          "delegate data not read", "unresolved ops", "cancelled", "output shape not known")


cdef class Externals:
    """The external contexts that the plug-ins of one interpreter share."""

    def __cinit__(self):
        self.table = <TfLiteExternalContext **>calloc(kTfLiteMaxExternalContexts, sizeof(TfLiteExternalContext *))
        if self.table == NULL:
            raise MemoryError("no memory for external contexts")

    def __dealloc__(self):
        free(self.table)


@cython.no_gc_clear     # __dealloc__ needs the attributes even if a reference cycle is collected
cdef class PluginHost(PluginHostBase):
    """The structs of one subgraph.  max_bytes: the most bytes of a tensor that a plug-in may ask for.

    Before applying a delegate, set these callbacks: replace(nodes, registration, operator, delegate), the last three as
    addresses; partition(nodes) -> [(nodes, inputs, outputs)]; metadata(name) -> bytes or None; subgraph(index) ->
    PluginHost or None.  `pending`: the exception that one of them raised, or None.

    A "status" is a TfLiteStatus; STATUS has the names.
    """

    def __cinit__(self, Py_ssize_t tensors, Externals externals, size_t max_bytes):
        self.references = []
        self.delegates = ()
        self.externals = externals
        self.host = pl_host_new(tensors, pl_context_fill, &callbacks, <void *>self, externals.table)
        if self.host == NULL:
            raise MemoryError(f"no memory for a table of {tensors} tensors")
        self.host.max_bytes = max_bytes

    def __dealloc__(self):
        pl_host_free(self.host)

    # ---- the model ----

    def set_tensor(self, int index, str name, int type, shape, signature, int allocation_type, uintptr_t data,
                   size_t nbytes, bint is_variable, owner=None):
        """Describe tensor `index`.  data: the address of a constant's bytes, which `owner` keeps alive, or 0."""
        cdef TfLiteIntArray *dims = int_array(shape)
        cdef TfLiteIntArray *signed = NULL
        cdef bytes encoded = name.encode()
        try:
            if signature is not None:
                signed = int_array(signature)
            self._check(pl_host_set_tensor(self.host, index, encoded, type, dims, signed, allocation_type,
                                           <const void *>data, nbytes, is_variable))
        finally:
            free(dims)
            free(signed)
        if owner is not None:
            self.references.append(owner)

    def set_quantization(self, int index, const float[::1] scales, const int64_t[::1] zero_points, int axis):
        self._check(pl_host_set_quantization(self.host, index, &scales[0], &zero_points[0], <int>scales.shape[0], axis))

    def set_sparsity(self, int index, traversal_order, block_map, dimensions):
        """Describe the compression of tensor `index`.

        dimensions: for each (dense size, segments or None, indices or None).
        """
        cdef TfLiteSparsity *sparsity = pl_host_add_sparsity(self.host, index, <int>len(dimensions))
        cdef int i
        self._check(0 if sparsity != NULL else -1)
        sparsity.traversal_order = int_array(traversal_order)
        sparsity.block_map = int_array(block_map)
        for i, (size, segments, indices) in enumerate(dimensions):
            sparsity.dim_metadata[i].dense_size = size
            if segments is not None:
                sparsity.dim_metadata[i].format = kTfLiteDimSparseCSR
                sparsity.dim_metadata[i].array_segments = int_array(segments)
                sparsity.dim_metadata[i].array_indices = int_array(indices)

    def set_blockwise(self, int index, int scale, int zero_point, int block_size, int axis):
        self._check(pl_host_set_blockwise(self.host, index, scale, zero_point, block_size, axis))

    def add_node(self, int builtin_code, name, int version, inputs, outputs, intermediates,
                 const unsigned char[::1] params, const unsigned char[::1] options, owner=None):
        """Add the next node of the model.

        name: of a custom op, else None; params: the bytes of its builtin_data, which may point to memory that `owner`
        keeps alive; options: of a custom op.
        """
        cdef TfLiteIntArray *arrays[3]
        cdef bytes encoded = None if name is None else name.encode()
        cdef const char *custom_name = NULL
        if encoded is not None:
            custom_name = encoded
        cdef size_t size = params.shape[0]
        cdef int length = <int>options.shape[0]
        cdef int status
        set_three(arrays, inputs, outputs, intermediates)
        status = pl_host_add_node(
            self.host, builtin_code, custom_name, version, arrays[0], arrays[1], arrays[2],
            &params[0] if size else NULL, size, &options[0] if length else NULL, length)
        free_three(arrays)
        self._check(status)
        self.references.append((options, owner))

    def finish(self, plan, inputs, outputs, variables, str name):
        """Set the attributes of the whole subgraph; call it after adding all nodes.

        plan: the order of the nodes; inputs, outputs, variables: indices of tensors.
        """
        self.host.model_nodes = self.host.num_nodes
        self.host.plan = int_array(plan)
        self.host.model_plan = int_array(plan)
        self.host.inputs = int_array(inputs)
        self.host.outputs = int_array(outputs)
        self.host.variables = int_array(variables)
        cdef bytes encoded = name.encode() + b"\0"
        self.host.name = <char *>malloc(len(encoded))
        self._check(0 if self.host.name != NULL else -1)
        memcpy(self.host.name, <const char *>encoded, len(encoded))

    def _check(self, int status):
        if status != 0:
            raise MemoryError("no memory for the tables of plug-ins")

    # ---- nodes of plug-ins ----

    def set_kernel(self, int index, uintptr_t registration, uintptr_t operator, bint trapped):
        """Let a plug-in run node `index`: the TfLiteRegistration or, if that is 0, the TfLiteOperator at this address.

        trapped: are the functions in a library?  Then faults in them are caught; see trap.c.
        """
        pl_host_set_kernel(self.host, index, <const TfLiteRegistration *>registration, <TfLiteOperator *>operator,
                           trapped)

    def init(self, int index):
        """Call init() of node `index`; return a status."""
        cdef pl_node *node = self.host.nodes[index]
        if node.node.builtin_data != NULL or node.node.custom_initial_data == NULL:
            return pl_node_init(self.host, node, <const char *>node.node.builtin_data, 0)
        return pl_node_init(self.host, node, <const char *>node.node.custom_initial_data,
                            node.node.custom_initial_data_size)

    def prepare(self, int index):
        """Call prepare() of node `index`; return a status."""
        return pl_node_prepare(self.host, self.host.nodes[index])

    def finalize(self, int index):
        """Call free() of node `index`, at most once.  The node itself is freed with the PluginHost."""
        if index < self.host.num_nodes:
            pl_node_finalize(self.host, self.host.nodes[index])

    def errors(self):
        """The text of errors that plug-ins have reported since the last call."""
        cdef char *reported = pl_host_take_errors(self.host)
        if reported == NULL:
            return ""
        try:
            return (<bytes>reported).decode("utf-8", "replace")
        finally:
            free(reported)

    def log(self, str step):
        """Log errors that plug-ins reported although `step` succeeded, as a warning of the logger "pylite"."""
        text = self.errors()
        if text:
            import logging          # lazy: few programs need it
            logger = logging.getLogger("pylite")
            if not logger.handlers:
                logger.addHandler(logging.NullHandler())    # else logging would print the warning
            logger.warning("a plug-in reported in %s: %s", step, text)

    def temporaries(self, int index):
        """Indices of the temporary tensors of node `index`."""
        return int_tuple(self.host.nodes[index].node.temporaries)

    def profiling_string(self, int index):
        """The name that the plug-in of node `index` gives it in profiles, or None."""
        cdef const char *text = pl_node_profiling_string(self.host, self.host.nodes[index])
        return None if text == NULL else (<bytes>text).decode("utf-8", "replace")

    def add_profiler(self):
        """Give plug-ins a profiler, in context->profiler."""
        if self.host.profiler == NULL:
            self.host.profiler = pl_profiler_new()
        if self.host.profiler == NULL:
            raise MemoryError("no memory for a profiler")
        self.host.context.profiler = self.host.profiler

    def record_events(self, bint on):
        """Start or stop recording the events that plug-ins report to the profiler."""
        pl_profiler_record(self.host.profiler, on)

    def clear_events(self):
        pl_profiler_clear(self.host.profiler)

    def events(self):
        """The recorded events: a list of (index of the node, name, number of calls, total nanoseconds)."""
        cdef const pl_event *events
        cdef int i, n, count = pl_profiler_events(self.host.profiler, &events)
        result = []
        for i in range(count):
            for n in range(self.host.num_nodes):
                if events[i].calls and self.host.nodes[n] == events[i].node:
                    name = (<bytes>events[i].name).decode("utf-8", "replace")
                    result.append((n, name, events[i].calls, events[i].nanoseconds))
        return result

    def custom_name(self, int index):
        """The custom name of node `index`, which delegates may set for their kernels, or None."""
        cdef const char *name = self.host.nodes[index].reg.custom_name
        return None if name == NULL else (<bytes>name).decode("utf-8", "replace")

    # ---- tensors ----

    @property
    def tensors(self):
        """Number of tensors, including those that plug-ins added."""
        return self.host.context.tensors_size

    @property
    def model_tensors(self):
        """Number of tensors of the model."""
        return self.host.model_tensors

    def facts(self, int index):
        """(type, shape or None, allocation type, bytes, address) of tensor `index`."""
        cdef TfLiteTensor *t = &self.host.context.tensors[index]
        return (t.type, None if t.dims == NULL else int_tuple(t.dims), t.allocation_type, t.bytes,
                <uintptr_t>t.data.raw)

    def reshape(self, int index, shape, size_t nbytes):
        """Set the shape of tensor `index`, and its size, unless it is dynamic: the plug-in sets the size then."""
        cdef TfLiteTensor *t = &self.host.context.tensors[index]
        cdef TfLiteIntArray *dims
        if t.dims == NULL or int_tuple(t.dims) != shape:
            dims = int_array(shape)
            free(t.dims)
            t.dims = dims
        if t.allocation_type != kTfLiteDynamic:
            t.bytes = nbytes

    def set_address(self, int index, uintptr_t address):
        """Set the data pointer of tensor `index`; 0 for none."""
        self.host.context.tensors[index].data.raw = <char *>address

    def get_bytes(self, int index):
        """The bytes of a dynamic tensor."""
        cdef TfLiteTensor *t = &self.host.context.tensors[index]
        return b"" if t.data.raw == NULL else t.data.raw[:t.bytes]

    def set_bytes(self, int index, bytes content):
        """Set the contents of a dynamic tensor to a copy of these bytes."""
        cdef TfLiteTensor *t = &self.host.context.tensors[index]
        free(t.data.raw)
        t.data.raw = <char *>malloc(max(len(content), 1))      # malloc(0) may give NULL
        if t.data.raw == NULL:
            raise MemoryError(f"no memory for {len(content)} bytes of strings")
        memcpy(t.data.raw, <const char *>content, len(content))
        t.bytes = len(content)

    # ---- delegates ----

    def apply_delegate(self, uintptr_t delegate):
        """Call Prepare() of the TfLiteDelegate at this address; return a status."""
        self.pending = None
        return pl_host_apply_delegate(self.host, <TfLiteDelegate *>delegate)

    def take_back(self):
        """End the use of this context by the delegate of another subgraph, which acquired it."""
        pl_host_take_back(self.host)

    def add_delegate_node(self, nodes, inputs, outputs, uintptr_t registration, uintptr_t operator,
                          uintptr_t delegate):
        """Add the node of a delegate that replaces `nodes`, and call its init(); return a status."""
        cdef TfLiteIntArray *arrays[3]
        cdef TfLiteStatus status
        set_three(arrays, nodes, inputs, outputs)
        status = pl_host_add_delegate_node(
            self.host, <const TfLiteRegistration *>registration, <TfLiteOperator *>operator,
            <TfLiteDelegate *>delegate, arrays[0], arrays[1], arrays[2])
        free_three(arrays)
        return status

    def own_operator(self, int index):
        """Pass ownership of the TfLiteOperator of node `index` to that node, which frees it."""
        self.host.nodes[index].owns_op = True

    def delegate_of(self, int index):
        """Address of the TfLiteDelegate whose kernel runs node `index`, or 0."""
        return <uintptr_t>self.host.nodes[index].node.delegate

    def keep_alive(self, DelegateHandle handle):
        """Keep a delegate alive as long as these structs."""
        if handle not in self.delegates:
            self.delegates += (handle,)

    def set_plan(self, plan):
        """Set the order of the nodes."""
        cdef TfLiteIntArray *array = int_array(plan)
        free(self.host.plan)
        self.host.plan = array

    @property
    def num_nodes(self):
        return self.host.num_nodes

    def undo_delegates(self):
        """Remove the nodes of all delegates, and restore the model's plan."""
        pl_host_undo_delegates(self.host)

    def read_back(self, int index):
        """Copy the contents of a stale tensor from its delegate's buffer; return a status."""
        return pl_host_read_back(self.host, index)

    def set_threads(self, int count):
        """Set the number of threads that the user asked for, and refresh the external contexts."""
        cdef int i
        self.host.context.recommended_num_threads = count
        for i in range(kTfLiteMaxExternalContexts):
            if self.externals.table[i] != NULL and self.externals.table[i].Refresh != NULL:
                pl_host_refresh_external(self.host, self.externals.table[i])

    @property
    def threads(self):
        return self.host.context.recommended_num_threads

    @threads.setter
    def threads(self, int count):
        self.host.context.recommended_num_threads = count

    @property
    def skippable(self):
        """Has a delegate marked this subgraph as one that other delegates skip?"""
        return self.host.skippable
