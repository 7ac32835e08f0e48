"""The grid of quantizations: each op whose operands have a scale (tests/tools/op_models.py), one changed at a time.

A child process runs the reference kernels, since some cases stop it.
"""
import contextlib
import io
import os
import pickle
import subprocess
import sys
import zlib
from functools import cache
from pathlib import Path

import numpy as np

from pylite.ir import registry
from pylite.numerics.quantization import LIMITS
from tests.tools import op_models

RUNS = 3
QUANTIZED = ("int8", "uint8", "int16", "int4", "uint4", "int2")
BASES = ("round", "odd")        # scales that are powers of two, and others
SCALES = {"off 1e-6": lambda s: s * (1 + 1e-6), "off 2%": lambda s: s * 1.02, "2^-3": lambda s: 0.125,
          "2^-15": lambda s: 2.0**-15, "2^2": lambda s: 4.0, "tiny": lambda s: 7.8e-9, "denormal": lambda s: 1e-40,
          "huge": lambda s: 1e30, "zero": lambda s: 0.0, "negative": lambda s: -s, "none": None}
ZEROS = {"3": 3, "low": "low", "high": "high", "beyond": "beyond", "below": "below"}
CHANNELS = ("channels of the last axis", "channels of the first axis", "equal channels", "channels beyond")


# The sources come last on the path, so that an installed pylite is found first.
SERVER = (f"import sys; sys.path.append({str(Path(__file__).parents[2])!r}); "
          "from tests.ops import extremes, grid; grid.serve()")     # extremes: its cases are unpickled


class Case:
    """A one-op model and its inputs.  operand: the number of the changed one, inputs first, or None."""

    def __init__(self, line, choice, base, operand=None, change=None):
        self.line, self.choice, self.base, self.operand, self.change = line, choice, base, operand, change

    def __str__(self):
        line = op_models.lines()[self.line]
        text = f"{line.op} {line.signature} {' '.join(f'{k}={v}' for k, v in line.cases()[self.choice].items())} "
        return text + f"{self.base}, operand {self.operand}: {self.change}"

    @property
    def op(self):
        return op_models.lines()[self.line].op

    def dtypes(self):
        """The data types of the operands, inputs first."""
        line = op_models.lines()[self.line]
        inputs, outputs = line.types(line.cases()[self.choice])
        return (*inputs, *outputs)

    def model(self):
        line = op_models.lines()[self.line]
        return line.model(line.cases()[self.choice], adjust=self.adjust)

    def adjust(self, position, dtype, shape, fields, own):
        """The quantization of operand `position`; own: the op prescribes it."""
        if "scale" not in fields or dtype not in QUANTIZED + ("int32", "int64"):
            return fields
        scale, zero = fields["scale"], fields.get("zero_point", 0)
        if self.base == "odd" and not own and dtype in QUANTIZED:
            scale *= 1.3 + 0.1 * position
        if position == self.operand:
            change = self.change
            if change in SCALES:
                if SCALES[change] is None:
                    return {}
                scale = SCALES[change](scale)
            elif change in ZEROS:
                low, high = LIMITS[dtype]
                zero = {"low": low, "high": high, "beyond": high + 1, "below": low - 1}.get(ZEROS[change], 3)
            elif shape:
                axis = {"channels of the last axis": len(shape) - 1, "channels beyond": 7}.get(change, 0)
                n = shape[axis] if axis < len(shape) else 2
                factors = np.ones(n) if change == "equal channels" else 1 + np.arange(n) / 7
                return {"scale": scale * factors, "zero_point": [zero] * n, "axis": axis}
        return {"scale": scale, "zero_point": zero}

    def inputs(self, details):
        """RUNS lists of inputs: anything, extremes, and none below the zero point."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        return [[values(rng, d, run) for d in details] for run in range(RUNS)]


def values(rng, detail, run):
    dtype, shape = np.dtype(detail["dtype"]), tuple(detail["shape"])
    if dtype.name in QUANTIZED:
        low, high = LIMITS[dtype.name]
        if run == 1:
            return rng.choice([low, low + 1, 0, high - 1, high], shape).astype(dtype)
        if run == 2:
            zero = detail["quantization_parameters"]["zero_points"]
            low = int(np.clip(zero[0], low, high)) if len(zero) else 0
        return rng.integers(low, high, shape, endpoint=True).astype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "OSU":
        return np.full(shape, b"x", object)
    return (rng.standard_normal(shape) * 3).astype(dtype)


def accepted():
    """(line, choice, positions of the operands that have a scale) of each one-op model whose types pylite accepts."""
    for number, line in enumerate(op_models.lines()):
        for choice, types in enumerate(line.cases()):
            if not registry.find(line.op).accepts(*line.types(types)):
                continue
            operands = []

            def note(position, dtype, shape, fields, own, operands=operands):
                if dtype in QUANTIZED and "scale" in fields:
                    operands.append(position)
                return fields
            with contextlib.suppress(ValueError, TypeError, KeyError):      # the line has no model of these types
                line.model(types, adjust=note)
                yield number, choice, operands


@cache
def cases():
    """All Cases."""
    return [case for number, choice, operands in accepted() if operands for base in BASES
            for case in (Case(number, choice, base),
                         *(Case(number, choice, base, operand, change) for operand in operands
                           for change in (*SCALES, *ZEROS, *CHANNELS)))]


def outcome(module, case, **options):
    """("refused", message), ("failed", message) if all runs did, or ("ran", outputs of each run, None if it failed)."""
    try:
        interpreter = module.Interpreter(model_content=case.model(), **options)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError, MemoryError) as error:
        return "refused", str(error)
    details = interpreter.get_input_details()
    found = []
    message = ""
    for arrays in case.inputs(details):
        try:
            for detail, array in zip(details, arrays, strict=True):
                interpreter.set_tensor(detail["index"], array)
            interpreter.invoke()
            found.append([interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()])
        except (RuntimeError, ValueError) as error:
            found.append(None)
            message = str(error)
    return ("failed", message) if all(f is None for f in found) else ("ran", found)


def serve():
    """Read Cases from the standard input; write the outcome of each on the reference kernels, all as pickles.

    Forked children run them, so that a case that stops its process costs little.
    """
    import ai_edge_litert.interpreter as litert
    reference = {"experimental_op_resolver_type": litert.OpResolverType.BUILTIN_REF}
    chosen, done = pickle.load(sys.stdin.buffer), 0
    while done < len(chosen):
        read, write = os.pipe()
        sys.stdout.flush()      # a child that ends by an exception would write a copy of what is buffered
        child = os.fork()
        if not child:
            with open(write, "wb") as out:
                for case in chosen[done:]:
                    pickle.dump(outcome(litert, case, **reference), out)
                    out.flush()
            os._exit(0)
        os.close(write)
        with open(read, "rb") as answers:
            while done < len(chosen):
                try:
                    found = pickle.load(answers)
                except (EOFError, pickle.UnpicklingError):
                    found = "stopped", ""
                done += 1
                pickle.dump(found, sys.stdout.buffer)
                if found[0] == "stopped":
                    break
        os.waitpid(child, 0)
    sys.stdout.flush()


def peers_outcomes(chosen):
    """The outcome of each Case on the reference kernels: ("stopped", "") where they stop the process."""
    done = subprocess.run([sys.executable, "-P", "-c", SERVER], input=pickle.dumps(chosen), stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=True)
    stream = io.BytesIO(done.stdout)
    return [pickle.load(stream) for _ in chosen]
