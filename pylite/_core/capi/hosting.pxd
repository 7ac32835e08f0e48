# The Python objects that own the structs that plug-ins see.
from pylite._core.capi.callbacks cimport PluginHostBase
from pylite._core.capi.host cimport TfLiteExternalContext


cdef class Externals:
    cdef TfLiteExternalContext **table


cdef class PluginHost(PluginHostBase):
    cdef Externals externals
    cdef tuple delegates        # they must outlive the structs; the garbage collector would empty a list
    cdef object __weakref__
