"""One case: a model and a sequence of calls, determined by the seed and the number of the case."""
import contextlib
import os
import re
from unittest import mock

import numpy as np

from pylite.cli import _cost
from pylite.compiler import lowering
from pylite.errors import PyliteError
from pylite.interpreter import Interpreter
from pylite.tflite.resolver_type import OpResolverType
from tests.fuzz import mutate

MAX_MEMORY = 64 << 20       # bytes: the limit of a model
SLACK = 96 << 20            # bytes in addition: files, packed weights, copies for the caller, Python
PATIENCE = 3                # seconds of CPU time until a case is interrupted
SECONDS = 6                 # of CPU time until it is killed
PRODUCTS = 10**9            # of one node: the kernel and the reference take seconds for as many


class Interrupted(BaseException):
    """Raised by the handler of a signal, which loops and Python code let through."""


class TooMuchWork(PyliteError):
    """A node would compute more than PRODUCTS, as sizes of the file demand; no kernel is interrupted."""


class Unexpected(Exception):
    """A case raised an exception that is none of pylite's, or exceeded its memory limit."""


def content(seed, number):
    """The bytes of the model of a case."""
    return mutate.model(np.random.default_rng([seed, number]))[1]


def value(rng, shape, dtype):
    """An input: zeros, extremes, small numbers, NaN, random bytes, or strings."""
    if np.dtype(dtype).hasobject or np.dtype(dtype).kind == "S":
        words = np.empty(shape, object)
        words.reshape(-1)[:] = [mutate.WORDS[i] for i in rng.integers(0, len(mutate.WORDS), words.size)]
        return words
    dtype, choice = np.dtype(dtype), rng.integers(5)
    if choice == 0 or dtype.kind == "b":
        return np.zeros(shape, dtype)
    if choice == 1:
        return rng.integers(0, 4, shape, np.uint8).astype(dtype)
    if choice == 2 and dtype.kind in "iu":
        return np.full(shape, (np.iinfo(dtype).min, np.iinfo(dtype).max)[rng.integers(2)], dtype)
    if choice == 2:
        return np.full(shape, mutate.FLOATS[rng.integers(len(mutate.FLOATS))], dtype)
    count = int(np.prod(shape)) * dtype.itemsize
    return rng.integers(0, 256, count, np.uint8).view(dtype).reshape(shape)


def use(interpreter, rng):
    """Allocate, set, run and read, then repeat with other shapes; returns the last step that succeeded."""
    for details in (interpreter.get_input_details, interpreter.get_output_details, interpreter.get_tensor_details,
                    interpreter._get_ops_details, interpreter.get_signature_list):
        details()
    reached = "loaded"
    for step in range(2):
        interpreter.allocate_tensors()
        reached = "allocated"
        for detail in interpreter.get_input_details():
            if np.prod(np.maximum(detail["shape"], 1), dtype=np.float64) > MAX_MEMORY // 16:
                continue        # it has no reader, and so no memory
            accepted(lambda d=detail: interpreter.set_tensor(d["index"], value(rng, d["shape"], d["dtype"])))
        for _ in range(2):
            interpreter.invoke()
        reached = "run"
        for detail in [*interpreter.get_output_details(), *interpreter.get_tensor_details()]:
            accepted(lambda d=detail: interpreter.get_tensor(d["index"]))
        if step:
            break
        for detail in interpreter.get_input_details():
            shape = [int(mutate.SIZES[rng.integers(len(mutate.SIZES))]) if rng.random() < 0.4 else int(n)
                     for n in detail["shape"]]
            accepted(lambda d=detail, s=shape: interpreter.resize_tensor_input(d["index"], s))
        interpreter.reset_all_variables()
    return reached


def accepted(call):
    """Call `call`, which may raise a documented error."""
    with contextlib.suppress(PyliteError):
        call()


def open_model(model, rng):
    """An Interpreter with random options."""
    options = {"num_threads": int(rng.integers(1, 3)), "guard_bands": bool(rng.random() < 0.1)}
    if rng.random() < 0.2:
        options |= {"experimental_preserve_all_tensors": True,
                    "experimental_op_resolver_type": OpResolverType.BUILTIN_REF}
    return Interpreter(model_content=model, max_memory=MAX_MEMORY, **options)


def run(seed, number, model=None):
    """Run a case on its own model or another, and return its outcome.  Unexpected has a description of the failure.

    The calls are determined by the seed and the number alone, so that they are the same on a smaller model.
    """
    rng = np.random.default_rng([seed, number, 1])
    start = reset_peak()
    try:
        if model is None:
            model = content(seed, number)
            start = reset_peak()
        with mock.patch.object(lowering, "_prepared", limited):
            ended = use(open_model(model, rng), rng)
    except Interrupted:
        return "interrupted"
    except PyliteError as error:
        ended = re.sub(r"\W", "", type(error).__name__)
    except Exception as error:
        raise Unexpected(f"{type(error).__name__}: {error}") from error
    grown = peak() - start
    if grown > MAX_MEMORY + SLACK and "asan" not in os.environ.get("LD_PRELOAD", ""):   # whose shadow counts, too
        raise Unexpected(f"{grown >> 20} MB of memory, where max_memory is {MAX_MEMORY >> 20} MB")
    return ended


def limited(op, node, *others, prepared=lowering._prepared):
    """What lowers a node, or TooMuchWork."""
    emitted = prepared(op, node, *others)
    if _cost.macs(node) > PRODUCTS:
        raise TooMuchWork(f"{node} takes {_cost.macs(node)} products")
    return emitted


def reset_peak():
    """Bytes of memory in use; peak() counts from here."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return _status("VmRSS")


def peak():
    return _status("VmHWM")


def _status(name):
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name))
