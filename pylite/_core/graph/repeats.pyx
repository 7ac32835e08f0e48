"""Lowers an operator that repeats an earlier one by copying the earlier one's calls.

Large graphs repeat a few blocks many times.  Operators with quantized outputs are lowered one by one, because two of
them hardly ever have equal scales.
"""
import numpy as np

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free

from pylite._core.graph.calls cimport (
    OPERATOR_CUSTOM,
    OPERATOR_INPUTS,
    OPERATOR_INTERMEDIATES,
    OPERATOR_OPTIONS,
    OPERATOR_OUTPUTS,
    QUANTIZATION_AXIS,
    QUANTIZATION_MIN,
    QUANTIZATION_SCALE,
    QUANTIZATION_ZERO_POINT,
    NodeBase,
    ValueBase,
)
from pylite._core.graph.dimensions cimport Computed, Dim
from pylite._core.graph.templates cimport CALL, FINISHED, Maker, Template

cdef enum:
    MAX_COMPARED_BYTES = 256    # contents of constants are compared up to this number of bytes
    MAX_OPERANDS = 32           # operators with more operands never repeat another


cdef class Kind:
    """Operators that `infer` and `lower` cannot tell apart.

    node, emitted: the first node and its calls, from the time they are known until `template` is made from them.
    template: copies these calls; None before the second operator, and if `unique`: the calls cannot be copied.
    """
    cdef object node, emitted
    cdef Template template
    cdef bint unique

    def keep(self, node, list emitted):
        """Remember the calls of the first operator."""
        if not self.unique:
            self.node, self.emitted = node, emitted


cdef class Group:
    """Operators of one op with equal outputs.

    only: the Kind of the first operator.  kinds: {key of inputs and options: Kind}, from the second operator on: a
    single one need not be compared.
    """
    cdef Kind only
    cdef dict kinds


cdef class Repeats:
    """The operators of one graph by Kind.

    values: the graph's values by tensor index; op: the class of ops whose nodes may repeat others; classes: the module
    with Node, Temporary and Alias.

    lower() is the entry.  Objects are numbered, so that interchangeable ones have equal numbers; the numbers of an
    operator's operands and options are the key of its Kind.
    """
    cdef list values
    cdef object op, classes
    cdef int32_t *shallow       # by tensor index: the value's number, ignoring contents of constants; 0: not known yet
    cdef int32_t *deep          # the same, comparing contents
    cdef dict numbers           # {distinguishing features, or id of an object: number}
    cdef dict known             # {id: object}: keeps numbered objects alive, so that no other object gets the same id
    cdef dict groups            # {key of op and outputs: Group}

    def __cinit__(self, list values, op, classes):
        self.shallow = <int32_t *>calloc(2 * len(values) + 1, sizeof(int32_t))
        if self.shallow == NULL:
            raise MemoryError(f"no memory for the numbers of {len(values)} tensors")

    def __init__(self, list values, op, classes):
        self.values, self.op, self.classes = values, op, classes
        self.deep = self.shallow + len(values)
        self.numbers, self.known, self.groups = {}, {}, {}

    def __dealloc__(self):
        free(self.shallow)

    def lower(self, operators, list ops, Py_ssize_t position, host, list nodes, list calls, finish):
        """Lower operators from `position` on by copying, until one repeats no earlier one.

        Returns (its position, its Kind or None); the caller passes its calls to Kind.keep().
        ops: the op of each operator; host: the host of new Nodes.  Appends to `nodes` and `calls`, and calls
        finish(node, item) for each Alias and Packed of a node.
        """
        cdef Kind kind = None
        cdef Template template
        cdef NodeBase node
        while position < len(ops):
            operator, op = operators[position], ops[position]
            kind = self.kind_of(operator, op)
            template = None if kind is None else self.template_of(kind, op)
            if template is None:
                break
            node = NodeBase.__new__(self.classes.Node)
            node.start(operator, self.values, host)
            nodes.append(node)
            self.copy(template, node, calls, finish)
            position += 1
        return position, kind

    cpdef Kind kind_of(self, operator, op):
        """The Kind of an operator; None if no other can be of the same Kind."""
        cdef tuple record = <tuple>operator, inputs = record[OPERATOR_INPUTS], outputs = record[OPERATOR_OUTPUTS]
        cdef int32_t numbers[MAX_OPERANDS + 1]
        cdef Py_ssize_t n = 1, i
        cdef ValueBase value
        cdef Group group
        cdef Kind kind
        if type(op) is not self.op or op.stateful or record[OPERATOR_CUSTOM] or record[OPERATOR_INTERMEDIATES]:
            return None         # a plug-in's op, a custom op, or an operator with intermediates
        if len(inputs) >= MAX_OPERANDS or len(outputs) > MAX_OPERANDS:
            return None
        numbers[0] = self.number_of(op)
        for index in outputs:
            i = index
            value = None if i < 0 else <ValueBase>self.values[i]
            if value is not None and value.quantized:
                return None
            numbers[n] = 0 if value is None else self.number(value, True)
            n += 1
        group_key = PyBytes_FromStringAndSize(<const char *>numbers, n * sizeof(int32_t))
        group = self.groups.get(group_key)
        if group is None:
            group = self.groups[group_key] = Group()
            group.only = Kind()
        if group.kinds is None:
            if group.only.node is None:     # there are no calls yet that this operator could repeat
                return group.only
            group.kinds = {self.key(<tuple>(<NodeBase>group.only.node).operator, op.opaque): group.only}
        key = self.key(record, op.opaque)
        if key is None:
            return None
        kind = group.kinds.get(key)
        if kind is None:
            kind = group.kinds[key] = Kind()
        return kind

    cpdef Template template_of(self, Kind kind, op):
        """The Template of a Kind; None if there are no calls yet, or they cannot be copied."""
        cdef Template template
        if kind.node is not None:
            template = Template(self.classes)
            if template.build_from(op.opaque, kind.node, kind.emitted):
                template.numbers = [0 if value is None else self.number(value, True) for value in kind.node.outputs]
                kind.template = template
            else:
                kind.unique = True
            kind.node = kind.emitted = None
        return kind.template

    cdef bytes key(self, tuple record, opaque):
        """The bytes that distinguish kinds within a group; None if the operator is unique."""
        cdef tuple inputs = record[OPERATOR_INPUTS]
        cdef Py_ssize_t indices[MAX_OPERANDS]
        cdef int32_t numbers[MAX_OPERANDS + 1]
        cdef Py_ssize_t count = len(inputs), i, j
        numbers[0] = self.options_number(record[OPERATOR_OPTIONS])
        for i in range(count):
            indices[i] = inputs[i]
            if indices[i] < 0:
                numbers[i + 1] = -1
                continue
            numbers[i + 1] = self.input_number(indices[i], i not in opaque)
            if numbers[i + 1] == 0:
                return None
            for j in range(i):
                if indices[j] == indices[i]:
                    numbers[i + 1] = <int32_t>(-2 - j)
        return PyBytes_FromStringAndSize(<const char *>numbers, (count + 1) * sizeof(int32_t))

    # ---- numbers ---------------------------------------------------------------------------------------------
    cdef int32_t new_number(self, key) except -1:
        """The number of objects with the features `key`."""
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.numbers) + 1
        return number

    cdef int32_t known_number(self, thing) except -1:
        """The number of an object; 0 if it has none yet."""
        return self.numbers.get(id(thing), 0)

    cdef int32_t remember(self, thing, int32_t number) except -1:
        """Assign a number to an object, and keep the object alive, so that no other object gets its id."""
        self.known[id(thing)] = thing
        self.numbers[id(thing)] = number
        return number

    cdef int32_t number_of(self, thing) except -1:
        """A number of this object alone."""
        return self.known_number(thing) or self.remember(thing, <int32_t>len(self.numbers) + 1)

    cdef int32_t options_number(self, options) except -1:
        """The number of an operator's options; 0 if it has none."""
        if options is None:
            return 0
        cdef int32_t number = self.known_number(options)
        if number:
            return number
        try:
            number = self.new_number((options.TABLE.name, *options.__dict__.values()))
        except TypeError:       # it has an array
            return self.number_of(options)
        return self.remember(options, number)

    cdef int32_t quantization_number(self, q) except -1:
        """The number of a Quantization by what kernels use: all but min, max and custom."""
        return self.known_number(q) or self.remember(q, self.new_number((
            q[QUANTIZATION_SCALE].tobytes(), q[QUANTIZATION_ZERO_POINT].tobytes(),
            *q[QUANTIZATION_AXIS:QUANTIZATION_MIN])))

    cdef int32_t input_number(self, Py_ssize_t index, bint contents) except -1:
        """The number of an input; 0 if it is unique.  contents: compare the contents of constants?"""
        cdef int32_t *number = &(self.deep if contents else self.shallow)[index]
        if number[0] == 0:
            number[0] = self.number(self.values[index], contents)
        return number[0]

    cdef int32_t number(self, ValueBase value, bint contents) except -1:
        """The number of a value in its current state; 0 if it is unique."""
        data, q = value.data, value.quantization
        if value.pad is not None or type(data) is Computed:
            return 0
        if data is None:
            data = False
        elif not contents:      # a Deferred's weights are packed in the type that the file stores
            data = True if isinstance(data, np.ndarray) else data.stored.dtype
        elif data.nbytes > MAX_COMPARED_BYTES or data.dtype.hasobject:
            return 0
        else:
            data = data.tobytes()
        return self.new_number((value.dtype, hashable(value.shape), data, value.fixed, value.kind,
                                None if q is None else self.quantization_number(q)))

    # ---- copies ----------------------------------------------------------------------------------------------
    cdef int copy(self, Template template, NodeBase node, list calls, finish) except -1:
        """Append the Calls of `node`, pass its Aliases and Packed objects to finish(), and set its outputs' shapes."""
        cdef list objects = []
        cdef tuple record = <tuple>node.operator
        cdef Py_ssize_t i = 0, tensor
        cdef Maker maker
        cdef ValueBase value
        for index in record[OPERATOR_INPUTS]:
            tensor = index
            objects.append(self.values[tensor] if tensor >= 0 else None)
        for index in record[OPERATOR_OUTPUTS]:
            tensor = index
            value = None
            if tensor >= 0:
                value = self.values[tensor]
                value.shape = template.shapes[i]
                self.shallow[tensor] = self.deep[tensor] = template.numbers[i]
            objects.append(value)
            i += 1
        for maker in template.makers:
            item = maker.make(objects, node)
            objects.append(item)
            if maker.role == CALL:
                calls.append(item)
            elif maker.role == FINISHED:
                finish(node, item)
        return 0


cdef object hashable(shape):
    """A shape, with negative numbers that stand for its Dims: Dims with equal numbers may differ for other shapes."""
    cdef list numbers = list(shape)
    cdef Py_ssize_t i
    for i in range(len(numbers)):
        if type(numbers[i]) is Dim:
            numbers[i] = -1 - (<Dim>numbers[i]).cell
    return tuple(numbers)
