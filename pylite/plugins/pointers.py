"""Ops whose functions are machine code that another tool made: ctypes, cffi, numba, or C behind a capsule."""
import ctypes

_CUSTOM = 32            # the builtin code of custom ops


class _Registration(ctypes.Structure):
    """TfLiteRegistration; what no op here sets is zero."""
    _fields_ = [("init", ctypes.c_void_p), ("free", ctypes.c_void_p), ("prepare", ctypes.c_void_p),
                ("invoke", ctypes.c_void_p), ("profiling_string", ctypes.c_void_p), ("builtin_code", ctypes.c_int32),
                ("custom_name", ctypes.c_char_p), ("version", ctypes.c_int), ("registration_external", ctypes.c_void_p),
                ("async_kernel", ctypes.c_void_p), ("inplace_operator", ctypes.c_uint64)]


def from_pointers(name, *, invoke, prepare=None, init=None, free=None, version=1):
    """A custom op made of four functions with the signatures of TfLiteRegistration; for `custom_op` and resolvers.

    Each is an address, a ctypes function, a cffi callback or function pointer, an object with `.address` (as numba's
    cfunc has), or a PyCapsule; or None.  They run without the GIL, unless they take it themselves.
    """
    from pylite.plugins.host.custom_ops import NativeOp
    functions = {"init": init, "free": free, "prepare": prepare, "invoke": invoke}
    if invoke is None:
        raise TypeError(f"op {name!r} needs an invoke function")
    addresses = {what: address(function, f"{what} of op {name!r}") for what, function in functions.items()}
    registration = _Registration(builtin_code=_CUSTOM, custom_name=name.encode(), version=version, **addresses)
    return NativeOp(name, version, registration=ctypes.addressof(registration), kept=(registration, functions),
                    library=False)


def address(function, what="function"):
    """The address of a function, however it is given; None for None.  TypeError naming `what` for what is none."""
    if function is None:
        return None
    if isinstance(function, int):
        found = function
    elif isinstance(function, ctypes._CFuncPtr | ctypes.c_void_p):
        found = ctypes.cast(function, ctypes.c_void_p).value
    elif type(function).__name__ == "PyCapsule":
        found = _inside(function)
    elif isinstance(getattr(function, "address", None), int):
        found = function.address
    elif type(function).__module__ == "_cffi_backend":
        import cffi
        found = int(cffi.FFI().cast("uintptr_t", function))
    else:
        raise TypeError(f"{what}: {function!r} is neither an address, a ctypes or cffi function, nor a PyCapsule")
    if not found:
        raise TypeError(f"{what}: a null pointer; leave it out instead")
    return found


def _inside(capsule):
    api = ctypes.pythonapi
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    return pointer(capsule, name(capsule))
