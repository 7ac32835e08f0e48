"""The memory behind CompiledModel's TensorBuffers, and runs of a subgraph on it.

A Port is the memory of one input or output of a bound program.  A Buffer, the base of TensorBuffer, has its own memory,
or uses a Port's, which saves the copy.  Begin reading at BufferRun.run().
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memmove

from pylite._core.run.fast_path cimport Lock, run_bound
from pylite._core.run.program cimport ExecutorBase, Program

from weakref import ref

from numpy import empty, ndarray, uint8

from pylite import errors
from pylite._core.run.memory import aligned


cdef class Port:
    """The memory of one input or output in a bound program.

    array: the tensor's array; type_name: the type of its elements; lendable: may a Buffer use this memory as its own,
    which saves the copy?
    """
    cdef readonly object array, dtype
    cdef readonly str type_name
    cdef readonly tuple shape
    cdef readonly Py_ssize_t nbytes
    cdef bint lendable
    cdef object weak_user       # a weak reference to the Buffer that uses this memory, or None
    cdef object bytes           # of `array`; None if it is not contiguous
    cdef Py_buffer view

    def __init__(self, array, str type_name, bint lendable):
        self.type_name = type_name
        self.array, self.shape, self.dtype, self.nbytes = array, array.shape, array.dtype, array.nbytes
        contiguous = array.flags.c_contiguous and not array.dtype.hasobject
        self.lendable = lendable and contiguous and array.flags.writeable and array.nbytes > 0
        if contiguous:
            self.bytes = array.reshape(-1).view(uint8)
            PyObject_GetBuffer(self.bytes, &self.view, PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    cdef Buffer user(self):
        """The Buffer that uses this memory, or None."""
        return None if self.weak_user is None else self.weak_user()

    def evict(self):
        """Move the Buffer that uses this memory to memory of its own, with the same contents."""
        cdef Buffer user = self.user()
        self.weak_user = None
        if user is not None:
            user.leave(self)

    cdef int load(self, Buffer buffer) except -1:
        """Copy a Buffer's contents here, and lend this memory to the Buffer if possible."""
        self.evict()
        with cython.critical_section(buffer):
            if buffer.view.buf == NULL:
                raise buffer.destroyed()
            memmove(self.view.buf, buffer.view.buf, min(self.nbytes, buffer.nbytes))
            if self.lendable and buffer.port is None and not buffer.shared and buffer.nbytes == self.nbytes:
                buffer.hold(self.bytes, True)
                buffer.port, self.weak_user = self, ref(buffer)
        return 0

    cdef int store(self, Buffer buffer) except -1:
        """Copy this memory to a Buffer."""
        with cython.critical_section(buffer):
            if buffer.port is not self:
                if buffer.view.buf == NULL:
                    raise buffer.destroyed()
                buffer.check_writable()
                memmove(buffer.view.buf, self.view.buf, self.nbytes)
        return 0


cdef class Buffer:
    """The base of TensorBuffer: bytes of its own, of a Port, or of the caller's array.

    dtype, type_name: the type of its elements; shared: the memory belongs to the caller's array; elastic: the buffer
    adapts to the size of each result, which depends on data.
    """
    cdef readonly object dtype
    cdef readonly str type_name
    cdef readonly tuple shape
    cdef readonly Py_ssize_t nbytes
    cdef readonly bint shared
    cdef bint elastic
    cdef object scalar          # the type of the elements that dtype stands for
    cdef object bytes           # the memory as an array of uint8
    cdef object last            # the array of this memory that copy() last copied
    cdef object last_count, last_dtype      # the arguments of that copy()
    cdef Port port              # the Port that lends this memory, or None
    cdef Py_buffer view         # buf is NULL after the buffer is destroyed

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    @staticmethod
    def of_port(cls, Port port not None, bint elastic=False):
        """A Buffer of the class `cls` for a Port, in the Port's memory if no other Buffer uses it."""
        cdef Buffer self = cls.__new__(cls)
        self.dtype, self.shape, self.nbytes, self.scalar = port.dtype, port.shape, port.nbytes, port.dtype.type
        self.type_name, self.elastic = port.type_name, elastic
        if port.lendable and port.user() is None:
            self.hold(port.bytes, True)
            self.port, port.weak_user = port, ref(self)
        else:
            self.hold(self.memory(self.nbytes), True)
        return self

    @staticmethod
    def of_array(cls, array):
        """A Buffer of the class `cls` on the memory of a C-contiguous array."""
        cdef Buffer self = cls.__new__(cls)
        self.dtype, self.shape, self.nbytes, self.scalar = array.dtype, (array.size,), array.nbytes, array.dtype.type
        self.shared, self.type_name = True, array.dtype.name
        self.hold(array.reshape(-1).view(uint8), array.flags.writeable)
        return self

    cdef int hold(self, bytes, bint writable) except -1:
        """Make the array `bytes` the memory."""
        PyBuffer_Release(&self.view)
        self.bytes, self.last = bytes, None
        PyObject_GetBuffer(bytes, &self.view, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        return 0

    cdef memory(self, Py_ssize_t nbytes):
        """Zeroed memory for this buffer."""
        try:
            return aligned(nbytes)
        except MemoryError:
            raise self.without_memory("", nbytes) from None

    cdef without_memory(self, str what, nbytes):
        return errors.MemoryLimitError(f"there is no memory for {what}a TensorBuffer of {self.dtype} with the "
                                       f"shape {list(self.shape)}: {nbytes} bytes")

    def fit_to(self, Port port not None):
        """If elastic, take memory for the contents of `port`."""
        with cython.critical_section(self):
            if self.elastic and self.view.buf != NULL:
                if self.nbytes != port.nbytes:
                    self.hold(self.memory(port.nbytes), True)
                self.shape, self.nbytes = port.shape, port.nbytes

    cdef int leave(self, Port port) except -1:
        """Stop using the memory of `port`: move the contents to memory of its own."""
        with cython.critical_section(self):
            if self.port is port:
                self.port = None
                fresh = self.memory(self.nbytes)
                old = self.view.buf
                self.hold(fresh, True)      # `old` lies in port.bytes, which is kept
                memmove(self.view.buf, old, self.nbytes)
        return 0

    cdef destroyed(self):
        return ValueError("TensorBuffer has been destroyed")

    cdef int check_writable(self) except -1:
        if self.view.readonly:
            raise errors.TensorBufferError(
                "the array that this TensorBuffer was created from is read-only, so that nothing can be written to it. "
                "Create the buffer from a copy of the array")
        return 0

    @property
    def alive(self):
        return self.view.buf != NULL

    def release(self):
        """Release the memory; the buffer can neither be read nor written afterwards."""
        with cython.critical_section(self):
            if self.port is not None:
                self.port.weak_user = None
                self.port = None
            PyBuffer_Release(&self.view)
            self.view.buf, self.bytes, self.last = NULL, None, None

    def assign(self, array):
        """Copy the array's bytes to the start of the buffer.  False for another type, or if not C-contiguous."""
        if type(array) is not ndarray or array.dtype is not self.dtype:
            return False
        return self.copy_from(array)

    def copy_from(self, array):
        """Like assign(), for arrays of any type."""
        cdef Py_buffer source
        try:
            PyObject_GetBuffer(array, &source, PyBUF_SIMPLE)
        except (BufferError, ValueError):       # not contiguous
            return False
        try:
            with cython.critical_section(self):
                if self.view.buf == NULL:
                    raise errors.TensorBufferError("WriteTensorBuffer: the TensorBuffer has been destroyed")
                if source.len > self.nbytes:
                    raise errors.TensorBufferError(
                        f"WriteTensorBuffer: source buffer is larger than the tensor buffer: {source.len} bytes, an "
                        f"array of {array.dtype} with the shape {list(array.shape)}, for {self.nbytes}, {self.dtype} "
                        f"with the shape {list(self.shape)}")
                self.check_writable()
                memmove(self.view.buf, source.buf, source.len)
        finally:
            PyBuffer_Release(&source)
        return True

    def has_type(self, dtype):
        """Does `dtype` name the type of the buffer's elements, without a conversion?"""
        return dtype is self.scalar or dtype is self.dtype

    def copy(self, count, dtype):
        """The first elements, `count` of them (or a shape), in a new array of `dtype`."""
        cdef Py_buffer target
        try:
            array = empty(count, dtype)
        except MemoryError:
            raise self.without_memory("a copy of ", self.nbytes) from None
        self.last = None
        PyObject_GetBuffer(array, &target, PyBUF_WRITABLE)
        try:
            with cython.critical_section(self):
                if self.view.buf == NULL:
                    raise errors.TensorBufferError("ReadTensorToBuffer: the TensorBuffer has been destroyed")
                if target.len > self.nbytes:
                    raise errors.TensorBufferError(
                        f"ReadTensorToBuffer: destination buffer is larger than the tensor buffer: {count} elements of "
                        f"{array.dtype} take {target.len} bytes, and the buffer has {self.nbytes}, {self.dtype} with "
                        f"the shape {list(self.shape)}")
                memmove(target.buf, self.view.buf, target.len)
                if type(count) is int or type(count) is tuple:
                    self.last = self.bytes[:target.len].view(array.dtype).reshape(array.shape)
                    self.last_count, self.last_dtype = count, dtype
        finally:
            PyBuffer_Release(&target)
        return array

    def copy_again(self, count, dtype):
        """Repeat the last copy() in half the time; None if the arguments differ from the last ones."""
        with cython.critical_section(self):
            if dtype is not self.last_dtype or self.last is None or type(count) is not type(self.last_count):
                return None
            if count != self.last_count:
                return None
            try:
                return self.last.copy()
            except MemoryError:
                raise self.without_memory("a copy of ", self.last.nbytes) from None


cdef list checked_copy(str side, buffers, bint partial):
    """A copy of the caller's list of Buffers, which other threads may change.  partial: may it contain None?"""
    cdef list copies
    try:
        copies = list(buffers)
    except TypeError:
        raise TypeError(f"{side} buffers must be a list of TensorBuffers, not {type(buffers).__name__}") from None
    for buffer in copies:
        if not isinstance(buffer, Buffer) and not (partial and buffer is None):
            raise errors.BufferTypeError(
                f"{side} buffers must be TensorBuffers, as create_{side.lower()}_buffers() makes them, not "
                f"{type(buffer).__name__}")
    return copies


cdef class BufferRun:
    """Runs a subgraph on Buffers.

    program: the Executor's fast_program, to which the Ports `inputs` and `outputs` belong.  The derived class adds
    prepare(inputs, outputs), which makes the tensors fit the Buffers, and fetch(outputs), which creates the Ports of
    outputs whose shapes depend on data, after a run.
    """
    cdef public ExecutorBase executor
    cdef public Lock lock
    cdef public list inputs, outputs
    cdef public Program program

    def run(self, input_buffers, output_buffers, bint partial=False):
        """Run once.  partial: a None among the inputs keeps the input as it is."""
        cdef list inputs = checked_copy("Input", input_buffers, partial)
        cdef list outputs = checked_copy("Output", output_buffers, False)
        self.lock.acquire()
        try:
            self.lock.check_idle()
            if self.program is None or self.executor.fast_program is not self.program or not self.fit(inputs, outputs):
                self.prepare(inputs, outputs)
            self.load(inputs, outputs)
            if self.program is None:
                self.lock.run(self.executor.invoke)
                self.fetch(outputs)
            else:
                self.lock.busy = True
                try:
                    run_bound(self.executor)
                finally:
                    self.lock.busy = False
            self.store(outputs)
        finally:
            self.lock.release()

    cdef bint fit(self, list inputs, list outputs) except -1:
        """Do the Buffers have the sizes of the tensors?"""
        cdef Py_ssize_t i
        cdef Buffer buffer
        cdef Port port
        if len(inputs) != len(self.inputs) or len(outputs) != len(self.outputs):
            return False
        for i in range(len(inputs)):
            if inputs[i] is None:
                continue
            buffer, port = <Buffer>inputs[i], <Port>self.inputs[i]
            if buffer.port is port:
                continue
            if buffer.view.buf == NULL:
                raise buffer.destroyed()
            # A shared Buffer has the shape of the caller's array; only its size counts.
            if (buffer.shape is not port.shape and buffer.shape != port.shape and not (
                    buffer.shared and buffer.nbytes == port.nbytes)) or buffer.nbytes != port.nbytes:
                return False
        return self.outputs_fit(outputs)

    def fit_outputs(self, list outputs not None):
        """Are the Buffers of outputs large enough?"""
        return self.outputs_fit(outputs)

    cdef bint outputs_fit(self, list outputs) except -1:
        """fit_outputs()."""
        cdef Py_ssize_t i
        cdef Buffer buffer
        cdef Port port
        for i in range(len(outputs)):
            buffer, port = <Buffer>outputs[i], <Port>self.outputs[i]
            if buffer.port is port:
                continue
            if buffer.view.buf == NULL:
                raise buffer.destroyed()
            if buffer.nbytes < port.nbytes:
                return False
            buffer.check_writable()
        return True

    cdef int load(self, list inputs, list outputs) except -1:
        """Copy inputs to their Ports, except inputs that use their Port's memory.

        Moves Buffers that use a Port that the run overwrites to memory of their own.
        """
        cdef Py_ssize_t i
        cdef Buffer buffer
        cdef Port port
        for i in range(len(outputs)):       # the run overwrites these Ports
            port = <Port>self.outputs[i]
            if port.weak_user is not None and (<Buffer>outputs[i]).port is not port:
                port.evict()
        for i in range(len(inputs)):
            if inputs[i] is None:
                continue
            buffer, port = <Buffer>inputs[i], <Port>self.inputs[i]
            if buffer.port is not port:
                port.load(buffer)
        return 0

    cdef int store(self, list outputs) except -1:
        """Copy Ports to outputs, except outputs that use their Port's memory."""
        cdef Py_ssize_t i
        for i in range(len(outputs)):
            if (<Buffer>outputs[i]).port is not <Port>self.outputs[i]:
                (<Port>self.outputs[i]).store(<Buffer>outputs[i])
        return 0
