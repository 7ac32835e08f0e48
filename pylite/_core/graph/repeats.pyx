"""Operators that repeat an earlier one are lowered by copying its calls.

Large graphs repeat a few blocks many times.  Operators whose outputs have scales are lowered one by one, as they hardly
ever have equal scales.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free

from pylite._core.graph.calls cimport NodeBase, ValueBase
from pylite._core.graph.templates cimport CALL, OTHER, Maker, Template

cdef enum:
    COMPARED = 256              # bytes of a constant up to which its contents are compared
    OPERANDS = 32               # of an operator that may repeat another
cdef object UNKNOWN = object()


cdef class Repeats:
    """The nodes of one graph by kind: `infer` and `lower` cannot tell nodes of one kind apart.

    values: of the graph, by tensor index; op: the class of ops whose nodes may repeat others; classes: the module of
    Node, Temporary and Alias.

    Objects have numbers; those with equal numbers are alike.
    """
    cdef list values
    cdef object op, classes
    cdef bytes group            # of the operator that find() was last asked for and has no Template of, or None
    cdef int32_t *shallow       # the numbers of values without the contents of constants, by tensor index; 0: not known
    cdef int32_t *deep          # with the contents
    cdef dict numbers           # {what tells things apart, or the id of one: its number}
    cdef dict known             # {id: the object}, kept alive so that its id stays its own
    # By op and outputs, which tell most nodes apart: (a single node, its calls), or by the other
    # operands, too: such a pair, its Template, or None.
    cdef dict groups
    cdef dict kinds             # the kinds of the group that find() looked in last, None if the group is new

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
        """Lower the operators from `position` on as copies of earlier ones; returns the position of the first that
        repeats none.

        ops: of each operator; host: of new Nodes.  Appends to `nodes` and `calls`; finish(node, item) gets each Alias
        and Packed of a node.
        """
        cdef Template template
        cdef NodeBase node
        while position < len(ops):
            operator = operators[position]
            template = self.find(operator, ops[position])
            if template is None:
                break
            node = NodeBase.__new__(self.classes.Node)
            node.start(operator, self.values, host)
            nodes.append(node)
            self.copy(template, node, calls, finish)
            position += 1
        return position

    cpdef Template find(self, operator, op):
        """The Template for an operator like an earlier one, else None; the caller then passes its calls to keep()."""
        cdef tuple record = <tuple>operator, inputs = record[5], outputs = record[6]
        cdef int32_t numbers[OPERANDS + 1]
        cdef Py_ssize_t n = 1, i
        cdef ValueBase value
        self.group = self.kinds = None
        if type(op) is not self.op or op.stateful or record[3] or record[8]:
            return None         # of a plug-in, custom, or with intermediates
        if len(inputs) >= OPERANDS or len(outputs) > OPERANDS:
            return None
        numbers[0] = self.number_of(op)
        for index in outputs:
            i = index
            value = None if i < 0 else <ValueBase>self.values[i]
            if value is not None and value.quantized:
                return None
            numbers[n] = 0 if value is None else self.number(value, True)
            n += 1
        group = PyBytes_FromStringAndSize(<const char *>numbers, n * sizeof(int32_t))
        found = self.groups.get(group)
        if found is None:
            self.group = group
            return None
        opaque = op.opaque
        if type(found) is tuple:        # the second one of its group
            found = self.groups[group] = {self.key(<tuple>(<NodeBase>found[0]).operator, opaque): found}
        cdef dict kinds = found
        key = self.key(record, opaque)
        if key is None:
            return None
        found = kinds.get(key, UNKNOWN)
        if found is UNKNOWN:
            kinds[key] = None
            self.group = key
            self.kinds = kinds
            return None
        if type(found) is tuple:
            found = kinds[key] = self.template(opaque, found[0], found[1])
        return found

    cdef bytes key(self, tuple record, opaque):
        """The bytes that tell an operator from others of its group, None if it is unique."""
        cdef tuple inputs = record[5]
        cdef Py_ssize_t at[OPERANDS]
        cdef int32_t numbers[OPERANDS + 1]
        cdef Py_ssize_t count = len(inputs), i, j
        numbers[0] = self.options_number(record[7])
        for i in range(count):
            at[i] = inputs[i]
            if at[i] < 0:
                numbers[i + 1] = -1
                continue
            numbers[i + 1] = self.input_number(at[i], i not in opaque)
            if numbers[i + 1] == 0:
                return None
            for j in range(i):
                if at[j] == at[i]:
                    numbers[i + 1] = <int32_t>(-2 - j)
        return PyBytes_FromStringAndSize(<const char *>numbers, (count + 1) * sizeof(int32_t))

    def keep(self, node, emitted):
        """Keep the calls of the node whose operator find() was last asked for."""
        if self.group is not None:
            (self.groups if self.kinds is None else self.kinds)[self.group] = node, emitted
            self.kinds = None

    cdef Template template(self, opaque, node, emitted):
        """The Template of a kind, None if the calls of its first node cannot be copied."""
        cdef Template made = Template(self.classes)
        if not made.take(opaque, node, emitted):
            return None
        made.numbers = [0 if value is None else self.number(value, True) for value in node.outputs]
        return made

    # ---- numbers ---------------------------------------------------------------------------------------------
    cdef int32_t new_number(self, key) except -1:
        """The number of things that `key` tells from others."""
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.numbers) + 1
        return number

    cdef int32_t known_number(self, thing) except -1:
        """The number of an object that has one, else 0."""
        return self.numbers.get(id(thing), 0)

    cdef int32_t remember(self, thing, int32_t number) except -1:
        """Give an object its number, and keep it alive, so that its id stays its own."""
        self.known[id(thing)] = thing
        self.numbers[id(thing)] = number
        return number

    cdef int32_t number_of(self, thing) except -1:
        """The number of an object that equals no other."""
        return self.known_number(thing) or self.remember(thing, <int32_t>len(self.numbers) + 1)

    cdef int32_t options_number(self, options) except -1:
        """The number of an operator's options, 0 where it has none."""
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
        return self.known_number(q) or self.remember(q, self.new_number((q[0].tobytes(), q[1].tobytes(), *q[2:8])))

    cdef int32_t input_number(self, Py_ssize_t index, bint contents) except -1:
        """The number of an input, 0 if it is unique; contents: are the contents of constants compared?"""
        cdef int32_t *number = &(self.deep if contents else self.shallow)[index]
        if number[0] == 0:
            number[0] = self.number(self.values[index], contents)
        return number[0]

    cdef int32_t number(self, ValueBase value, bint contents) except -1:
        """The number of a value in its present state, 0 if it is unique."""
        data, q = value.data, value.quantization
        if value.pad is not None:
            return 0
        if data is None:
            data = False
        elif not contents:
            data = True
        elif data.nbytes > COMPARED or data.dtype.hasobject:
            return 0
        else:
            data = data.tobytes()
        return self.new_number((value.dtype, value.shape, data, value.fixed, value.kind,
                                None if q is None else self.quantization_number(q)))

    # ---- copies ----------------------------------------------------------------------------------------------
    cdef int copy(self, Template template, NodeBase node, list calls, finish) except -1:
        """Append the Calls of `node`, pass its Aliases and Packed to finish(), and set the shapes of its outputs."""
        cdef list objects = []
        cdef tuple record = <tuple>node.operator
        cdef Py_ssize_t i = 0, at
        cdef Maker maker
        cdef ValueBase value
        for index in record[5]:
            at = index
            objects.append(self.values[at] if at >= 0 else None)
        for index in record[6]:
            at = index
            value = None
            if at >= 0:
                value = self.values[at]
                value.shape = template.shapes[i]
                self.shallow[at] = self.deep[at] = template.numbers[i]
            objects.append(value)
            i += 1
        for maker in template.makers:
            made = maker.make(objects, node)
            objects.append(made)
            if maker.role == CALL:
                calls.append(made)
            elif maker.role == OTHER:
                finish(node, made)
        return 0
