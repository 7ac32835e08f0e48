"""Dimensions that record the arithmetic on them, so that a graph is lowered once for many shapes.

A Dim stands for a dimension of an input.  Arithmetic on Dims gives other Dims.  A comparison gives a bool, and a
conversion gives a plain number; the Recording notes both as guards: the calls are valid for every set of shapes that
gives the same results.  A Dim is not an int, so that no code can read its number without leaving a guard.
"""
import operator

cdef object NUMBER_LIMIT = number_limit()
# By operation, see dimensions.pxd.
cdef tuple functions = (None, None, operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod,
                        operator.eq, operator.lt, operator.le)


class UnrecordableError(Exception):
    """An operation on a dimension that cannot be replayed for other shapes."""


cdef class Recording:
    """The arithmetic on the dimensions of one lowering.

    instructions: [(operation, operand, operand)], one per cell; values: of the cells, for the current shapes;
    guards: {cell: the value on which the calls depend}; closed: the recording accepts no more operations; computed:
    {key: Computed}, see compiler/size_folding.py.
    """
    def __init__(self):
        self.instructions, self.values, self.guards, self.cells, self.computed = [], [], {}, {}, {}

    def add_input(self, value):
        """A Dim for the next input dimension.  value: its current size."""
        cdef Py_ssize_t number = len([i for i in self.instructions if i[0] == INPUT])
        self.values.append(value)
        self.instructions.append((INPUT, number, 0))
        return dim_of(self, len(self.values) - 1)

    cdef Py_ssize_t operand(self, number) except -1:
        """The cell of a Dim or of a plain number."""
        if type(number) is Dim:
            if (<Dim>number).recording is not self:
                raise UnrecordableError("dimensions of two recordings meet")
            return (<Dim>number).cell
        return self.cell_of(NUMBER, int(number), 0)

    cdef Py_ssize_t cell_of(self, int operation, a, b) except -1:
        """The cell of the result of an operation, recorded on first use."""
        key = operation, a, b
        cell = self.cells.get(key)
        if cell is not None:
            return cell
        if self.closed:
            raise UnrecordableError("a dimension is used after its recording")
        value = a if operation == NUMBER else functions[operation](self.values[a], self.values[b])
        if not -NUMBER_LIMIT < value < NUMBER_LIMIT:
            raise UnrecordableError("a number is too large")
        self.instructions.append(key)
        self.values.append(int(value))
        self.cells[key] = cell = len(self.values) - 1
        return cell

    cdef object arithmetic(self, int operation, a, b):
        """A Dim for the result of an operation, or a number if it is the same for all shapes.

        Sums and products with numbers are simplified: (n * 16) // 16 is n.  Operators that repeat others then have the
        same Dims, see repeats.pyx, and fewer guards are needed.
        """
        cdef Py_ssize_t x = self.operand(a), y = self.operand(b)
        if operation == SUBTRACT and self.is_number(y):
            operation, y = ADD, self.cell_of(NUMBER, -self.values[y], 0)
        if (operation == ADD or operation == MULTIPLY) and (self.is_number(x) or (x > y and not self.is_number(y))):
            x, y = y, x
        if not self.is_number(y):
            return dim_of(self, self.cell_of(operation, x, y))
        made_by, first, second = <tuple>self.instructions[x]
        constant = self.values[y]
        if made_by == operation and (operation == ADD or operation == MULTIPLY) and self.is_number(second):
            constant = self.values[second] + constant if operation == ADD else self.values[second] * constant
            x = first
        elif operation >= DIVIDE and made_by == MULTIPLY and self.is_number(second) and (
                self.values[second] % constant == 0):
            if operation == REMAINDER:
                return 0
            operation, constant, x = MULTIPLY, self.values[second] // constant, first
        if (operation == ADD and constant == 0) or (operation == MULTIPLY and constant == 1):
            return dim_of(self, x)
        return dim_of(self, self.cell_of(operation, x, self.cell_of(NUMBER, constant, 0)))

    cdef bint is_number(self, Py_ssize_t cell):
        """Is the cell a number in every evaluation?"""
        return (<tuple>self.instructions[cell])[0] == NUMBER

    cdef object guarded_value(self, Py_ssize_t cell):
        """The value of a cell; a guard is recorded for it."""
        value = self.values[cell]
        if cell not in self.guards:
            if self.closed:
                raise UnrecordableError("a dimension is read after its recording")
            self.guards[cell] = value
        return value


cdef Dim dim_of(Recording recording, Py_ssize_t cell):
    cdef Dim dim = Dim.__new__(Dim)
    dim.recording, dim.cell = recording, cell
    return dim


cdef bint plain(number) noexcept:
    """Does the number follow the arithmetic of Python's integers?  numpy's integers may overflow."""
    return type(number) is int or type(number) is Dim or type(number) is bool


cdef class Dim:
    """A dimension during recording.  Operands other than Python's integers get its plain number, with a guard."""
    __array_ufunc__ = None      # numpy then leaves arithmetic to these methods

    def __index__(self):
        return self.recording.guarded_value(self.cell)

    def __int__(self):
        return self.recording.guarded_value(self.cell)

    def __float__(self):
        return float(self.recording.guarded_value(self.cell))

    def __bool__(self):
        return not equals(self, 0)

    def __hash__(self):
        raise UnrecordableError("a dimension is a key of a dictionary")     # the dictionary may outlive the recording

    def __repr__(self):
        return repr(self.recording.guarded_value(self.cell))

    def __str__(self):
        return str(self.recording.guarded_value(self.cell))

    def __format__(self, layout):
        return format(self.recording.guarded_value(self.cell), layout)

    def __add__(self, other):
        if not plain(other):
            return int(self) + other
        return self if type(other) is not Dim and other == 0 else self.recording.arithmetic(ADD, self, other)

    def __radd__(self, other):
        if not plain(other):
            return other + int(self)
        return self if other == 0 else self.recording.arithmetic(ADD, self, other)

    def __sub__(self, other):
        if not plain(other):
            return int(self) - other
        if type(other) is Dim and (<Dim>other).cell == self.cell:
            return 0
        return self if type(other) is not Dim and other == 0 else self.recording.arithmetic(SUBTRACT, self, other)

    def __rsub__(self, other):
        return self.recording.arithmetic(SUBTRACT, other, self) if plain(other) else other - int(self)

    def __mul__(self, other):
        return times(self, other) if plain(other) else int(self) * other

    def __rmul__(self, other):
        return times(self, other) if plain(other) else other * int(self)

    def __floordiv__(self, other):
        if not plain(other):
            return int(self) // other
        return self if type(other) is not Dim and other == 1 else divided(DIVIDE, self, other)

    def __rfloordiv__(self, other):
        return divided(DIVIDE, other, self) if plain(other) else other // int(self)

    def __mod__(self, other):
        if not plain(other):
            return int(self) % other
        return 0 if type(other) is not Dim and other == 1 else divided(REMAINDER, self, other)

    def __rmod__(self, other):
        return divided(REMAINDER, other, self) if plain(other) else other % int(self)

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __truediv__(self, other):
        return int(self) / other

    def __rtruediv__(self, other):
        return other / int(self)

    def __pow__(self, other, modulo):
        return pow(int(self), other, modulo)

    def __rpow__(self, other, modulo):
        return pow(other, int(self), modulo)

    def __neg__(self):
        return self.recording.arithmetic(SUBTRACT, 0, self)

    def __pos__(self):
        return self

    def __abs__(self):
        return self if self >= 0 else -self

    def __and__(self, other):
        return int(self) & other

    def __rand__(self, other):
        return other & int(self)

    def __or__(self, other):
        return int(self) | other

    def __ror__(self, other):
        return other | int(self)

    def __xor__(self, other):
        return int(self) ^ other

    def __rxor__(self, other):
        return other ^ int(self)

    def __lshift__(self, other):
        return int(self) << other

    def __rlshift__(self, other):
        return other << int(self)

    def __rshift__(self, other):
        return int(self) >> other

    def __rrshift__(self, other):
        return other >> int(self)

    def __invert__(self):
        return ~int(self)

    def __eq__(self, other):
        if plain(other):
            return equals(self, other)
        return other is not None and type(other) is not str and int(self) == other

    def __ne__(self, other):
        return not self == other

    def __lt__(self, other):
        return compared(self.recording, LESS, self, other) if plain(other) else int(self) < other

    def __le__(self, other):
        return compared(self.recording, NOT_GREATER, self, other) if plain(other) else int(self) <= other

    def __gt__(self, other):
        return compared(self.recording, LESS, other, self) if plain(other) else int(self) > other

    def __ge__(self, other):
        return compared(self.recording, NOT_GREATER, other, self) if plain(other) else int(self) >= other


cdef bint equals(Dim a, b) except -1:
    if type(b) is Dim and (<Dim>b).cell == a.cell and (<Dim>b).recording is a.recording:
        return True
    cdef Recording recording = a.recording
    return recording.guarded_value(recording.cell_of(EQUAL, recording.operand(a), recording.operand(b)))


cdef object compared(Recording recording, int operation, a, b):
    """Is a < b (LESS) or a <= b (NOT_GREATER)?  A guard is recorded for the answer."""
    return bool(recording.guarded_value(recording.cell_of(operation, recording.operand(a), recording.operand(b))))


cdef object times(Dim a, b):
    if type(b) is not Dim and 0 <= b <= 1:
        return a if b else 0
    return a.recording.arithmetic(MULTIPLY, a, b)


cdef object divided(int operation, a, b):
    """a // b or a % b.  A Dim as divisor gets a guard that it is not 0."""
    if b == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    cdef Recording recording = (<Dim>a).recording if type(a) is Dim else (<Dim>b).recording
    return recording.arithmetic(operation, a, b)


def estimate(number):
    """The number of a Dim for the current shapes, without a guard.  Only for choices on which no result depends."""
    return (<Dim>number).recording.values[(<Dim>number).cell] if type(number) is Dim else number


cdef class Computed:
    """A deferred function(*args): args contain Dims, which become numbers later."""
    def __init__(self, function, tuple args):
        self.function, self.args = function, args

    def settled(self):
        """The result for the current shapes; guards are recorded for the Dims."""
        return self.function(*with_guards(self.args))


def with_guards(thing):
    """`thing` with its Dims replaced by numbers; guards are recorded for them."""
    if not has_dims(thing):
        return thing
    if type(thing) is tuple or type(thing) is list:
        return type(thing)([with_guards(item) for item in thing])
    if type(thing) is Computed:
        return thing.settled()
    return int(thing)


def computed(function, *args):
    """function(*args) as an argument of a Call; a Computed if some of the args are Dims.

    The function must depend on its arguments alone, and lowering must not inspect its result.
    """
    return Computed(function, args) if has_dims(args) else function(*args)


def cells_in(thing):
    """The set of cells of all Dims in `thing`: a Dim, a Computed, or a tuple or list of things."""
    cells = set()
    if type(thing) is Dim:
        cells.add((<Dim>thing).cell)
    elif isinstance(thing, (tuple, list)):
        for item in thing:
            cells |= cells_in(item)
    elif type(thing) is Computed:
        return cells_in((<Computed>thing).args)
    return cells


cdef bint has_dims(thing) except -1:
    """Does cells_in(thing) contain any?"""
    kind = type(thing)
    if kind is Dim:
        return True
    if kind is Computed:
        thing = (<Computed>thing).args
    elif not isinstance(thing, (tuple, list)):
        return False
    for item in thing:
        if type(item) is not int and has_dims(item):
            return True
    return False
