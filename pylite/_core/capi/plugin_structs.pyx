"""The structs that the functions of a library return: delegates and registrations."""
from libc.stdint cimport uintptr_t

from pylite._core.capi.host cimport (
    TfLiteDelegate,
    TfLiteOpaqueDelegateBuilder,
    TfLiteOperator,
    TfLiteRegistration,
    pl_delegate_destroy,
    pl_delegate_plausible,
    pl_opaque_builder,
    pl_operator_plausible,
    pl_registration_plausible,
    pl_registration_read,
)


cdef class DelegateHandle:
    """Owns a TfLiteDelegate of a library, and calls the function that destroys it, unless its address is 0."""

    def __cinit__(self, uintptr_t address, uintptr_t destroy):
        self.address = address
        self.destroy = <void (*)(void *) noexcept nogil>destroy

    def __dealloc__(self):
        if self.destroy != NULL:
            pl_delegate_destroy(self.destroy, <void *>self.address)


def delegate_flags(uintptr_t address):
    """The flags of the TfLiteDelegate at `address`."""
    cdef const TfLiteDelegate *delegate = <const TfLiteDelegate *>address
    cdef const TfLiteOpaqueDelegateBuilder *builder = pl_opaque_builder(delegate)
    return delegate.flags if builder == NULL else builder.flags


def delegate_is_plausible(uintptr_t address):
    """Does the struct at `address` look like a TfLiteDelegate?"""
    return pl_delegate_plausible(<const TfLiteDelegate *>address)


def registration_facts(uintptr_t registration, uintptr_t operator):
    """(name or None, version) of the TfLiteRegistration or, if that is 0, the TfLiteOperator at this address.

    None if the struct there is neither.
    """
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
