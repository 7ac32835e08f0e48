# The objects around the tables that plug-ins see.
from pylite._core.capi.host cimport TfLiteExternalContext, pl_host


cdef class Externals:
    cdef TfLiteExternalContext **table


cdef class Host:
    cdef pl_host *host
    cdef Externals externals
    cdef list references        # the objects whose memory tensors and nodes point to
    cdef tuple delegates        # they must outlive the tables; the garbage collector would empty a list
    cdef public object replace, partition, metadata, subgraph, pending
    cdef object __weakref__
