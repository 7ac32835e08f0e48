"""The callbacks of host.h, by which plug-ins query and change the interpreter."""
cimport cython
from libc.stdint cimport uintptr_t

from pylite._core.capi.host cimport (
    TfLiteContext,
    TfLiteDelegate,
    TfLiteIntArray,
    TfLiteOperator,
    TfLiteRegistration,
    TfLiteStatus,
    kTfLiteError,
    kTfLiteOk,
    pl_callbacks,
    pl_host,
    pl_host_add_preview,
)
from pylite._core.capi.int_arrays cimport free_three, int_tuple, set_three

callbacks = pl_callbacks(replace, preview, metadata, subgraph)


@cython.no_gc_clear     # as PluginHost
cdef class PluginHostBase:
    """The base of PluginHost: the state that the callbacks need."""


cdef TfLiteStatus replace(pl_host *host, const TfLiteRegistration *registration, TfLiteOperator *op,
                          const TfLiteIntArray *nodes, TfLiteDelegate *delegate) noexcept with gil:
    self = <PluginHostBase>host.python
    try:
        self.replace(int_tuple(nodes), <uintptr_t>registration, <uintptr_t>op, <uintptr_t>delegate)
        return kTfLiteOk
    except BaseException as error:
        self.pending = error
        return kTfLiteError


cdef TfLiteStatus preview(pl_host *host, const TfLiteIntArray *nodes) noexcept with gil:
    self = <PluginHostBase>host.python
    cdef TfLiteIntArray *arrays[3]
    cdef int status = 0
    try:
        for claimed, inputs, outputs in self.partition(int_tuple(nodes)):
            set_three(arrays, claimed, inputs, outputs)
            status |= pl_host_add_preview(host, arrays[0], arrays[1], arrays[2])
            free_three(arrays)
        return kTfLiteOk if status == 0 else kTfLiteError
    except BaseException as error:
        self.pending = error
        return kTfLiteError


cdef TfLiteStatus metadata(pl_host *host, const char *name, const char **data, size_t *size) noexcept with gil:
    self = <PluginHostBase>host.python
    cdef const unsigned char[::1] view
    try:
        content = None if self.metadata is None else self.metadata((<bytes>name).decode("utf-8", "replace"))
        if content is None or not len(content):
            return kTfLiteError
        view = content
        self.references.append(view)
        data[0] = <const char *>&view[0]
        size[0] = view.shape[0]
        return kTfLiteOk
    except BaseException as error:
        self.pending = error
        return kTfLiteError


cdef TfLiteStatus subgraph(pl_host *host, int index, TfLiteContext **context) noexcept with gil:
    self = <PluginHostBase>host.python
    try:
        other = None if self.subgraph is None else self.subgraph(index)
        if other is None:
            return kTfLiteError
        context[0] = &(<PluginHostBase>other).host.context
        return kTfLiteOk
    except BaseException as error:
        self.pending = error
        return kTfLiteError
