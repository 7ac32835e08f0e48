"""Registers, runs and times checks; see the package."""
import ctypes
import time

import numpy as np

from tests.checkasm.slots import ISA_LEVELS, SLOTS, Table

GUARD = 64
CHECKS = {}
TILES = {"gemm": Table.q8, "hybrid": Table.q8, "half": Table.f32}   # {module of checks: first tile its slots depend on}


def check(*slots, rounds=12):
    """Register a check for these slots; `rounds`: how many times it is called."""
    def register(function):
        for slot in slots:
            assert slot in SLOTS and slot not in CHECKS, slot
            CHECKS[slot] = function, rounds
        return function
    return register


def distinct():
    """[(slot, ISA level)]; a level that has the function of an earlier level, and lays data out alike, is left out."""
    found, seen = [], set()
    for name, isa_level in ISA_LEVELS.items():
        for slot, (function, _) in CHECKS.items():
            first = TILES.get(function.__module__.rpartition(".")[2], Table.dw8)
            code = slot, getattr(isa_level.table, slot), bytes(isa_level.table)[first.offset:]
            if code not in seen:
                found.append((slot, name))
                seen.add(code)
    return found


class In:
    """An array that is read; `start`: the byte offset of the pointer."""
    start = 0

    def __init__(self, array, start=0):
        self.array, self.start = np.ascontiguousarray(array), start


class InOut(In):
    pass


class Out(In):
    def __init__(self, shape, dtype):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.array = np.full(size, 0x5A, np.uint8).view(dtype).reshape(shape)


class At:
    """`offset` bytes into another argument."""

    def __init__(self, argument, offset=0):
        self.argument, self.offset = argument, offset


class Pointers:
    """An array of pointers to arrays; None becomes NULL."""

    def __init__(self, arrays):
        self.arrays = arrays


class Within:
    """An array of pointers into one array, `offsets` elements after its first one."""

    def __init__(self, array, offsets):
        self.array, self.offsets = array, offsets


class Struct:
    """A structure of the headers; arrays, Pointers and Within among its members lie between guard bytes, too."""

    def __init__(self, kind, **members):
        self.kind, self.members = kind, members


class Call:
    """arguments: numbers, In, Out, InOut, At, Pointers, Within, Struct, or None (NULL).

    expect: the outputs, or a function that checks them; front: compare only the first elements of the outputs;
    close: tolerance of floats, "relative" to each or on the "scale" of the largest.
    """

    def __init__(self, *arguments, expect=None, front=False, close=None, work=0, unit="elements"):
        self.arguments, self.expect, self.front, self.close = arguments, expect, front, close
        self.work, self.unit = work, unit


class Draw:
    """Random sizes and values for a check of `slot` on `isa_level`."""

    def __init__(self, slot, isa_level, rng, bench=False):
        self.slot, self.isa_level, self.rng, self.bench = slot, isa_level, rng, bench

    def size(self, most=300, bench=4096, least=0):
        """Often small, often a multiple of a vector's length, or one more or less."""
        if self.bench:
            return bench
        kind = self.rng.integers(3)
        n = self.rng.integers(least, 20) if kind == 0 else self.rng.integers(least, most + 1)
        if kind == 1:
            n = 16 * self.rng.integers(0, most // 16 + 1) + self.rng.integers(-1, 2)
        return int(min(max(n, least), most))

    def integer(self, low, high):
        """low <= result <= high"""
        return int(self.rng.integers(low, high + 1))

    def choice(self, *values):
        return values[self.rng.integers(len(values))]

    def array(self, dtype, shape, low=None, high=None):
        """All values of the type, or the two extremes, or one of them alone."""
        dtype = np.dtype(dtype)
        if dtype.kind == "f":
            return self.floats(dtype, shape)
        info = np.iinfo(dtype)
        low, high = info.min if low is None else low, info.max if high is None else high
        kind = 3 if self.bench else self.rng.integers(6)
        if kind < 2:
            return np.full(shape, (low, high)[kind], dtype)
        if kind == 2:
            return self.rng.choice(np.array([low, high], dtype), shape)
        return self.rng.integers(low, high, shape, dtype, endpoint=True)

    def floats(self, dtype, shape):
        """Numbers around one; sometimes also large ones, infinities and NaN."""
        x = (self.rng.standard_normal(shape) * self.choice(1, 1, 10, 1000)).astype(dtype)
        if not self.bench and self.rng.random() < 0.3:
            odd = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e4, -1e4, 0.5, 1.5, 2.5, -0.5], dtype)
            x = np.where(self.rng.random(shape) < 0.3, self.rng.choice(odd, shape), x).astype(dtype)
        return x

    def whole(self, shape, most=9):
        """Floats whose sums are exact."""
        return self.rng.integers(-most, most, shape, endpoint=True).astype(np.float32)

    def multiplier(self):
        return self.choice(2**30, 2**31 - 1, self.integer(2**30, 2**31 - 1), self.integer(2**30, 2**31 - 1))


class Memory:
    """A copy of an array between guard bytes, not aligned to anything but its elements."""

    def __init__(self, array, fill, shift):
        item = array.dtype.itemsize
        raw = np.full(array.nbytes + 2 * GUARD + 64, fill, np.uint8)
        start = GUARD + shift * item - raw.ctypes.data % item
        self.raw, self.fill, self.start, self.end = raw, fill, start, start + array.nbytes
        self.array = raw[start:self.end].view(array.dtype).reshape(array.shape)
        self.array[...] = array
        self.before = array

    def check(self, name, read_only):
        intact = (self.raw[:self.start] == self.fill).all() and (self.raw[self.end:] == self.fill).all()
        assert intact, f"argument {name}: wrote out of bounds"
        assert not read_only or self.array.tobytes() == self.before.tobytes(), f"argument {name}: wrote to an input"


class Frame:
    """The arguments of one call in memory: `values` for ctypes, `outputs` as arrays."""

    def __init__(self, call, names, fill=0xA5, shift=0):
        self.fill, self.shift, self.alive, self.outputs, memories = fill, shift, [], [], {}
        self.values = []
        for i, (a, name) in enumerate(zip(call.arguments, names, strict=True)):
            if isinstance(a, In):
                memories[i] = self.place(a.array, name, type(a) is In)
                self.values.append(memories[i].array.ctypes.data + a.start)
                if type(a) is not In:
                    self.outputs.append(memories[i].array)
            elif isinstance(a, At):
                self.values.append(memories[a.argument].array.ctypes.data + a.offset)
            else:
                self.values.append(self.value(a, name))

    def place(self, array, name, read_only=True):
        memory = Memory(array, self.fill, self.shift)
        self.alive.append((memory, name, read_only))
        return memory

    def value(self, a, name):
        if isinstance(a, np.ndarray):
            return self.place(a, name).array.ctypes.data
        if isinstance(a, Pointers):
            addresses = [0 if array is None else self.value(array, name) for array in a.arrays]
            return self.value(np.array(addresses or [0], np.uintp), name)
        if isinstance(a, Within):
            first = self.value(a.array, name)
            return self.value(np.array([first + a.array.itemsize * i for i in a.offsets], np.uintp), name)
        if isinstance(a, Struct):
            assert a.members.keys() <= {field for field, _ in a.kind._fields_}, a.members.keys()
            members = {key: self.value(member, f"{name}.{key}") for key, member in a.members.items()}
            words = np.frombuffer(bytes(a.kind(**members)), f"u{ctypes.alignment(a.kind)}")
            return self.place(words, name).array.ctypes.data
        return a

    def check(self):
        for memory, name, read_only in self.alive:
            memory.check(name, read_only)


def run(call, isa_level, slot, fill=0xA5, shift=0):
    """The outputs of an ISA level's function."""
    frame = Frame(call, SLOTS[slot].split(","), fill, shift)
    getattr(ISA_LEVELS[isa_level], slot)(*frame.values)
    frame.check()
    return frame.outputs


def compare(got, want, close):
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
    elif got.dtype == np.float16 or close is not None:
        scale = np.nanmax(np.abs(np.where(np.isfinite(want), want, 0)), initial=0) if close == "scale" else 0
        np.testing.assert_allclose(got, want, rtol=2e-3 if got.dtype == np.float16 else 2e-5,
                                   atol=1e-5 * scale + 1e-30)
    else:
        np.testing.assert_array_equal(got, want)


def examine(slot, isa_level, seed=0):
    """Check one slot of one ISA level; AssertionError names the difference."""
    made, rounds = CHECKS[slot]
    for number in range(rounds):
        draw = Draw(slot, ISA_LEVELS[isa_level], np.random.default_rng((seed, number)))
        with np.errstate(all="ignore"):
            for call in made(draw):
                want = call.expect if call.expect is not None else run(call, "base", slot)
                # neither the bytes around the arguments nor their alignment may change the outputs
                for fill, shift in ((0xA5, 0), (0x7F, draw.integer(1, 3))):
                    got = run(call, isa_level, slot, fill, shift)
                    if callable(want):
                        want(*got)
                        continue
                    for g, w in zip(got, want, strict=True):
                        compare(g[:w.size] if call.front else g, w, call.close)


def best_time(function, values):
    """Nanoseconds of a call, the minimum of many."""
    best, times = float("inf"), 1
    until = time.perf_counter() + 0.1
    while time.perf_counter() < until:
        start = time.perf_counter_ns()
        for _ in range(times):
            function(*values)
        spent = time.perf_counter_ns() - start
        best = min(best, spent / times)
        if spent < 200_000:
            times *= 2
    return best


def measure(slot, isa_level):
    """(nanoseconds of a call of the size for timing, work, unit)"""
    draw = Draw(slot, ISA_LEVELS[isa_level], np.random.default_rng(0), bench=True)
    call = next(iter(CHECKS[slot][0](draw)))
    frame = Frame(call, SLOTS[slot].split(","))
    calling = best_time(ISA_LEVELS[isa_level].copy_runs, (0, 8, None, 0, None, 0))     # from Python
    return max(best_time(getattr(ISA_LEVELS[isa_level], slot), frame.values) - calling, 1), call.work, call.unit
