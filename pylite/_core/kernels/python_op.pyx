"""A kernel that runs a Python callable, with the GIL held."""
from pylite._core.run.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport pl_pool


cdef extern from "Python.h":
    object PyObject_Call(object callable, object args, void *kwargs)


cdef class PythonOp(Kernel):
    """Calls invoke(*arrays): `inputs` arrays to read, then `outputs` to write, then temporaries.

    explain() and cause() report its exception.
    """
    ERRORS = {1: "its code raised an exception"}
    OWNED = PYTHON = True
    cdef object invoke
    cdef tuple arrays
    cdef tuple outputs
    cdef object error

    def __init__(self, invoke, Py_ssize_t inputs, Py_ssize_t outputs, *arrays):
        self.invoke = invoke
        self.arrays = arrays
        self.outputs = arrays[inputs:inputs + outputs]
        self.fn = <kernel_fn>call

    def explain(self, int status):
        error = self.error
        if error is not None and not isinstance(error, Exception):
            self.error = None
            raise error             # KeyboardInterrupt, for example, is not a failure of the op
        return f"{type(error).__name__}: {error}"

    def cause(self):
        error, self.error = self.error, None
        return error

    def returned(self, result):
        """Raise TypeError unless `result` consists of the output arrays themselves, as ufuncs return them."""
        returned = result if isinstance(result, tuple) else (result,)
        if not all(any(a is y for y in self.outputs) for a in returned):
            raise TypeError(f"it returned {type(result).__name__}; results must be written into the output arrays, "
                            "y[...] = result")


cdef class CustomOp(PythonOp):
    """A PythonOp with a callable of the user.

    states: positions of inputs that are variables and may be written; other inputs are read-only.  The callable gets
    views, so that changes to their shapes or types have no effect elsewhere.
    """
    def __init__(self, invoke, Py_ssize_t inputs, Py_ssize_t outputs, states, *arrays):
        views = [None if array is None else array.view() for array in arrays]
        for i, view in enumerate(views[:inputs]):
            if view is not None and i not in states:
                view.flags.writeable = False
        super().__init__(invoke, inputs, outputs, *views)


cdef int call(PythonOp self, pl_pool *pool) noexcept nogil:
    with gil:
        try:
            result = PyObject_Call(self.invoke, self.arrays, NULL)
            if result is not None:
                self.returned(result)
        except BaseException as error:
            self.error = error
            return 1
    return 0
