"""Dimensions record arithmetic, leave guards where they are read, and compute what Python's integers do."""
import math
import operator
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylite._core.graph.dimensions import Recording, UnrecordableError, cells_in
from pylite._core.graph.tapes import Tape

INTEGERS = st.integers(-40, 40)
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
              "min": min, "max": max, "neg": lambda x, y: -x, "abs": lambda x, y: abs(x)}


@given(st.lists(st.tuples(st.sampled_from(list(OPERATIONS)), INTEGERS | st.sampled_from((-4, -2, 1, 2, 4, 8, 16)),
                          st.integers(0, 5), st.integers(0, 5)), max_size=12),
       st.tuples(INTEGERS, INTEGERS), st.tuples(INTEGERS, INTEGERS))
def test_a_tape_computes_what_python_does(steps, first, second):
    """Where all guards hold, and only there, the same results."""
    def run(a, b):
        numbers = [a, b]
        for operation, constant, i, j in steps:
            x, y = numbers[i % len(numbers)], (numbers + [constant])[j % (len(numbers) + 1)]
            try:
                numbers.append(OPERATIONS[operation](x, y))
            except ZeroDivisionError:
                numbers.append(0)
        return numbers

    recording = Recording()
    made = run(recording.add_input(first[0]), recording.add_input(first[1]))
    tape = Tape(recording)
    assert tape.evaluate(first)
    assert list(tape.filled(tuple(made))) == run(*first)
    if tape.evaluate(second):
        assert list(tape.filled(tuple(made))) == run(*second)


@pytest.mark.parametrize(("compute", "same"), [
    (lambda n: n * 16 // 16, lambda n: n), (lambda n: n * 16 // 4, lambda n: n * 4),
    (lambda n: n * 4 * 4, lambda n: 16 * n), (lambda n: n + 3 - 3, lambda n: n), (lambda n: n + 5 - 3, lambda n: 2 + n),
    (lambda n: (n - 1) * 3, lambda n: 3 * (-1 + n)), (lambda n: n * (n + 1), lambda n: (1 + n) * n),
    (lambda n: n * 16 % 8, lambda n: 0)])
def test_arithmetic_with_numbers_is_simplified(compute, same):
    recording = Recording()
    n = recording.add_input(7)
    assert cells_in(compute(n)) == cells_in(same(n)) and compute(n) == same(n)
    assert not recording.guards


@pytest.mark.parametrize("read", [int, float, bool, str, hex, lambda n: [0] * n, range, lambda n: f"{n}", np.zeros,
                                  lambda n: np.array([n], np.int32), lambda n: np.int64(3) * n, lambda n: n ** 2,
                                  lambda n: n / 2, lambda n: n & 1, lambda n: math.gcd(n, 4), lambda n: n == 7,
                                  lambda n: n < 9, lambda n: struct.pack("i", n)])
def test_what_reads_a_dimension_leaves_a_guard(read):
    recording = Recording()
    read(recording.add_input(7))
    assert recording.guards
    tape = Tape(recording)
    assert tape.evaluate([7])
    assert not (tape.evaluate([0]) and tape.evaluate([10]))


def test_a_dimension_is_no_key_and_is_not_read_later():
    recording = Recording()
    n = recording.add_input(7)
    with pytest.raises(UnrecordableError):
        hash(n)
    Tape(recording)
    for read in (int, str, lambda n: n + 1, lambda n: n == 7):
        with pytest.raises(UnrecordableError):
            read(n)


def test_numbers_beyond_64_bits_are_refused():
    recording = Recording()
    n = recording.add_input(3)
    product = n * n * n * n * n * n
    tape = Tape(recording)
    assert tape.evaluate([1000]) and tape.filled(product) == 1000**6
    assert not tape.evaluate([1 << 20])
