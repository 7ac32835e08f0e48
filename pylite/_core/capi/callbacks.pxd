# The callbacks that a PluginHost gives to its structs.
from pylite._core.capi.host cimport pl_callbacks, pl_host

cdef pl_callbacks callbacks


cdef class PluginHostBase:
    cdef pl_host *host
    cdef list references        # the objects whose memory tensors and nodes point to
    cdef public object replace, partition, metadata, subgraph, pending
