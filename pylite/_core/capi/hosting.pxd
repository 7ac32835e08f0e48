# The Python objects that own the tables that plug-ins see.
from pylite._core.capi.callbacks cimport HostBase
from pylite._core.capi.host cimport TfLiteExternalContext


cdef class Externals:
    cdef TfLiteExternalContext **table


cdef class Host(HostBase):
    cdef Externals externals
    cdef tuple delegates        # they must outlive the tables; the garbage collector would empty a list
    cdef object __weakref__
