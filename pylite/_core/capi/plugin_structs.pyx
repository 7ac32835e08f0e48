"""The structs that the functions of a library return: delegates and registrations."""
from libc.stdint cimport uintptr_t

from pylite._core.capi.host cimport (
    TfLiteDelegate,
    TfLiteOperator,
    TfLiteRegistration,
    pl_delegate_end,
    pl_delegate_plausible,
    pl_operator_plausible,
    pl_registration_plausible,
    pl_registration_read,
)


cdef class DelegateHandle:
    """A TfLiteDelegate, and the function that ends it when nothing holds it any more: neither its owner nor a Host."""

    def __cinit__(self, uintptr_t address, uintptr_t end):
        self.address = address
        self.end = <void (*)(void *) noexcept nogil>end

    def __dealloc__(self):
        pl_delegate_end(self.end, <void *>self.address)


def delegate_flags(uintptr_t address):
    """The flags of the TfLiteDelegate at `address`."""
    cdef TfLiteDelegate *delegate = <TfLiteDelegate *>address
    if delegate.Prepare == NULL and delegate.opaque_delegate_builder != NULL:
        return delegate.opaque_delegate_builder.flags
    return delegate.flags


def delegate_is_plausible(uintptr_t address):
    """Does it look like a TfLiteDelegate?"""
    return pl_delegate_plausible(<const TfLiteDelegate *>address)


def registration_facts(uintptr_t registration, uintptr_t operator):
    """(name or None, version) that a TfLiteRegistration, or where 0 a TfLiteOperator, says of itself; None if none."""
    cdef TfLiteRegistration read
    if registration and not pl_registration_plausible(<const TfLiteRegistration *>registration) or (
            operator and not pl_operator_plausible(<const TfLiteOperator *>operator)):
        return None
    cdef TfLiteOperator *op = <TfLiteOperator *>operator
    cdef const char *name = NULL
    cdef int version = 1
    if registration:
        pl_registration_read(<const TfLiteRegistration *>registration, &read, &op)
        name = read.custom_name
        version = read.version
    if op != NULL:
        name = op.custom_name
        version = op.version
    return None if name == NULL else (<bytes>name).decode("utf-8", "replace"), max(1, version)
