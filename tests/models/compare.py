"""Real models against the reference kernels: `python -m tests.models.compare` prints a table.

    python -m tests.models.compare [WORD ...] [--failing] [--layers]

WORD: only models whose path contains one of the words; --failing: omit equal and unsupported models;
--layers: name the first node whose result differs.

If the peer's reference kernels lack an operator of the model, or small float differences grow through the model (such
as a value near a rounding step of dynamic quantization), each node is compared on its own, on pylite's inputs to it:
equal nodes make an equal model.
"""
import argparse
import multiprocessing
import sys
import traceback
from dataclasses import dataclass, field

import numpy as np

from pylite import Model
from pylite._core import simd
from pylite.errors import UnsupportedOpError
from pylite.interpreter import Interpreter, OpResolverType
from pylite.ir import registry
from pylite.schema import load, read
from pylite.schema.writer import write
from tests.tools.resources import MODELS

TOLERANCE = 1e-5        # of the largest magnitude, for float outputs
RUNS = ("smooth", "random", "smooth")
SIZES = (None, 2, 16, 160, 1760, 16000)     # for unknown dimensions, where the declared 1 is refused
TIMEOUT = 300
SHAPE_OPERANDS = {"TRANSPOSE_CONV": (0, slice(None)), "RESHAPE": (1, slice(None)), "FILL": (0, slice(None)),
                  "BROADCAST_TO": (1, slice(None)), "RESIZE_BILINEAR": (1, slice(1, 3)),
                  "RESIZE_NEAREST_NEIGHBOR": (1, slice(1, 3))}     # operand that is a shape, part of the output's shape
VARIANTS = ({"num_threads": 1}, {"num_threads": 2}, {"num_threads": 4}, {"guard_bands": True},
            {"experimental_preserve_all_tensors": True})

OTHER_KERNELS = "Didn't find op"    # the peer's message if its reference kernels lack one; then the optimized ones run


@dataclass
class Result:
    """The comparison of one model.  status: equal, close, DIFFERS, ERROR, unsupported or refused (by the peer)."""
    status: str
    detail: str = ""
    nodes: int = 0
    layers: list = field(default_factory=list)

    def take(self, status, text, where):
        """Keep the worse of this status and the new one."""
        if ("equal", "close", "DIFFERS").index(status) > ("equal", "close", "DIFFERS").index(self.status):
            self.status, self.detail = status, where + text


def names():
    """Every model, as a path relative to MODELS."""
    return sorted(str(p.relative_to(MODELS)) for p in MODELS.rglob("*") if p.suffix in (".tflite", ".bin"))


def compare(name, layers=False):
    """Compare one model in a process of its own: the peer may abort."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, name, layers))
    process.start()
    sender.close()
    try:
        if not receiver.poll(TIMEOUT):
            return Result("ERROR", f"no result in {TIMEOUT} s")
        return receiver.recv()
    except EOFError:
        process.join()
        return Result("ERROR", f"the process ended with {process.exitcode}")
    finally:
        process.kill()
        process.join()
        receiver.close()


def _child(sender, name, layers):
    try:
        result = _compare(MODELS / name, layers)
    except Exception:
        result = Result("ERROR", traceback.format_exc(limit=-2).replace("\n", " "))
    sender.send(result)


def _compare(path, layers):
    try:
        ours = Interpreter(path, experimental_preserve_all_tensors=layers,
                           experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
        nodes = len(ours._get_ops_details())
        ours._main.check()
    except UnsupportedOpError as error:
        return Result("unsupported", str(error))
    try:
        theirs, inputs, expected = _reference(path, layers)
    except (ValueError, RuntimeError) as error:
        return Result("refused", str(error), nodes)
    for detail, array in zip(ours.get_input_details(), inputs[0], strict=True):
        ours.resize_tensor_input(detail["index"], array.shape)
    ours.allocate_tensors()
    worst, results = Result("equal", "", nodes), []
    for run, arrays in enumerate(inputs):
        results.append(_run(ours, arrays))
        for o, (got, want) in enumerate(zip(results[run], expected[run], strict=True)):
            worst.take(*difference(got, want), f"run {run}, output {o}: ")
        if layers and worst.status == "DIFFERS":
            worst.layers = _first_differences(ours, theirs, run, inputs)
            break
    if worst.status == "DIFFERS" and not layers:
        by_node = _node_by_node(path, inputs)
        if by_node.status != "DIFFERS":
            by_node.detail = f"node by node; as a whole {worst.detail}. {by_node.detail}"
        worst = by_node
    if worst.status != "DIFFERS":
        text = _variants(path, inputs, results)
        if text:
            return Result("DIFFERS", text, nodes)
    return worst


def _run(interpreter, arrays):
    _feed(interpreter, arrays)
    interpreter.invoke()
    return [np.array(interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details()]


def _node_by_node(path, inputs):
    """Run every node of the first run as a separate model on the peer, on pylite's inputs to the node."""
    ours = Interpreter(path, experimental_preserve_all_tensors=True,
                       experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    for detail, array in zip(ours.get_input_details(), inputs[0], strict=True):
        ours.resize_tensor_input(detail["index"], array.shape)
    ours.allocate_tensors()
    _run(ours, inputs[0])
    constants = {t.index for t in ours._model.graph.subgraphs[0].tensors if t.data is not None}
    worst = Result("equal", "", len(ours._get_ops_details()))
    for node in ours._get_ops_details():
        outputs = node["outputs"].tolist()
        operands = [i for i in dict.fromkeys(node["inputs"].tolist()) if i >= 0 and i not in constants]
        peer = _peer(_one_node(path.read_bytes(), node["index"], operands, outputs))
        for index in operands:
            peer.resize_tensor_input(index, ours.get_tensor(index).shape)
        peer.allocate_tensors()
        for index in operands:
            peer.set_tensor(index, ours.get_tensor(index))
        peer.invoke()
        for o, index in enumerate(outputs):
            status, text = difference(ours.get_tensor(index), np.array(peer.get_tensor(index)))
            if status == "DIFFERS" and _truer(ours, node, o, np.array(peer.get_tensor(index))):
                status, text = "close", f"{text}, and nearer to the exact result than the peer"
            worst.take(status, text, f"node {node['index']} {node['op_name']}: ")
    return worst


def _truer(ours, node, output, theirs):
    """Is a float output nearer than the peer's to the op's definition, computed in float64?"""
    op = registry.find(node["op_name"])
    if op.reference is None or theirs.dtype != np.float32:
        return False
    operands = [ours.get_tensor(i) for i in node["inputs"].tolist()]
    exact = op.reference(*[a.astype(np.float64) if a.dtype == np.float32 else a for a in operands],
                         ours._model.graph.subgraphs[0].operators[node["index"]].options)
    got = ours.get_tensor(node["outputs"][output])
    return np.abs(got - exact.reshape(got.shape)).max() < np.abs(theirs - exact.reshape(got.shape)).max()


def _one_node(contents, index, inputs, outputs):
    """The model reduced to one node of its first subgraph."""
    model = read(contents)
    subgraph = model.subgraphs[0]
    operator = subgraph.operators[index]
    subgraph.operators, model.operator_codes = [operator], [model.operator_codes[operator.opcode_index]]
    operator.opcode_index = 0
    subgraph.inputs, subgraph.outputs = inputs, outputs
    model.subgraphs, model.signature_defs, model.metadata = [subgraph], [], []
    used = {t for side in (operator.inputs, outputs) for t in side if t >= 0}
    details = [q.details for t in used if (q := subgraph.tensors[t].quantization) is not None and q.details is not None]
    used |= {t for d in details for t in (getattr(d, "scales", -1), getattr(d, "zero_points", -1)) if t >= 0}
    kept = {subgraph.tensors[t].buffer for t in used}
    model.buffers = [b if i in kept else b.TABLE() for i, b in enumerate(model.buffers)]
    return write(model)


def _peer(source, **options):
    """The peer with reference kernels, or with its optimized kernels if these are missing."""
    from ai_edge_litert import interpreter as litert
    options["model_content" if isinstance(source, bytes) else "model_path"] = source
    kinds = litert.OpResolverType
    if _blockwise(source):
        return litert.Interpreter(**options,
                                  experimental_op_resolver_type=kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    try:
        peer = litert.Interpreter(**options, experimental_op_resolver_type=kinds.BUILTIN_REF)
    except ValueError as error:
        if OTHER_KERNELS not in str(error):
            raise
        peer = litert.Interpreter(**options, experimental_op_resolver_type=kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    return peer


def _blockwise(source):
    """Does a model have weights with blockwise scales?  The reference kernels accept them and return zeros."""
    return any(t.quantization is not None and t.quantization.block_size
               for subgraph in load(source).subgraphs for t in subgraph.tensors)


def _variants(path, inputs, expected):
    """Threads, memory layout and guard bands change no bit, ISA levels no integer; a violation as text, or None."""
    chosen = simd.current
    for isa_level in reversed(simd.available()):
        simd.use(isa_level)
        model, first = Model(path), None
        for options in VARIANTS if isa_level == chosen else VARIANTS[:1]:
            interpreter = Interpreter(model=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, **options)
            for detail, array in zip(interpreter.get_input_details(), inputs[0], strict=True):
                interpreter.resize_tensor_input(detail["index"], array.shape)
            interpreter.allocate_tensors()
            got = _run(interpreter, inputs[0])
            where = f"ISA level {isa_level}, {options}"
            for o, (a, want) in enumerate(zip(got, expected[0], strict=True)):
                status, text = difference(a, want)
                if status == "DIFFERS" and (a.dtype.kind not in "fc" or _node_by_node(path, inputs).status == status):
                    return f"{where}: output {o}: {text}"
                if first is not None and a.dtype != object and a.tobytes() != first[o].tobytes():
                    return f"{where}: output {o} has other bits"
            first = first or got
    simd.use(chosen)
    return None


def difference(got, want):
    """("equal" | "close" | "DIFFERS", how): integers must be equal, floats within TOLERANCE of the largest."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return "DIFFERS", f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if got.dtype.kind not in "fc":
        wrong = int((got != want).sum())
        if not wrong:
            return "equal", ""
        if got.dtype.kind in "OSUb":
            return "DIFFERS", f"{wrong} of {got.size}"
        off = np.abs(got.astype(np.int64) - want.astype(np.int64)).max()
        return "DIFFERS", f"{wrong} of {got.size}, by up to {off}"
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), want.astype(wide)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return "DIFFERS", "infinities and NaN"
    top = np.abs(b[finite]).max(initial=0)
    off = np.abs(a[finite] - b[finite]).max(initial=0)
    relative = off / top if top else off
    text = f"{relative:.1e} of the largest magnitude"
    return ("equal", "") if off == 0 else ("close" if relative <= TOLERANCE else "DIFFERS", text)


def _reference(path, layers):
    """(the peer's interpreter, the inputs of each run, the outputs of each run)"""
    first, hints = None, _shape_operands(path)
    for size in SIZES:
        for integers, whole in ((4, False), (2, False), (1, False), (4, True)):
            try:
                peer = _peer(path, experimental_preserve_all_tensors=layers)
                unknown = _resize(peer, size)
                peer.allocate_tensors()
                inputs = [make_inputs(peer, run, mode, integers, whole, hints) for run, mode in enumerate(RUNS)]
                return peer, inputs, [_run(peer, arrays) for arrays in inputs]
            except (ValueError, RuntimeError) as error:
                first = first or error
        if not unknown:
            break
    raise first


def _resize(peer, size):
    """Set every unknown dimension to `size`, or to 1 if it is the batch of several; returns whether there is any."""
    unknown = False
    for detail in peer.get_input_details():
        signature = detail["shape_signature"].tolist()
        if -1 in signature:
            unknown = True
            if size is not None:
                several = signature.count(-1) > 1
                peer.resize_tensor_input(detail["index"], [
                    n if n != -1 else 1 if several and i == 0 else size for i, n in enumerate(signature)])
    return unknown


def _feed(interpreter, arrays):
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)


def _shape_operands(path):
    """{graph input: value} for inputs that an operator reads as a shape; the values give its declared output."""
    graph = Interpreter(path)._model.graph.subgraphs[0]
    found = {}
    for operator in graph.operators:
        at, part = SHAPE_OPERANDS.get(operator.name, (len(operator.inputs), None))
        if at < len(operator.inputs) and operator.inputs[at] in graph.inputs:
            found[operator.inputs[at]] = graph.tensors[operator.outputs[0]].shape[part]
    return found


def make_inputs(interpreter, run, mode, integers=4, whole=False, hints=None):
    """One array for each input, equal on all machines.

    integers: upper limit of indices and counts; whole: integral floats, which may become indices; hints: {tensor:
    value}.
    """
    arrays = []
    for k, detail in enumerate(interpreter.get_input_details()):
        dtype = np.dtype(detail["dtype"])
        if detail["index"] in (hints or {}):
            array = np.array(hints[detail["index"]])
        else:
            array = contents(np.random.default_rng([run, k]), detail, mode, integers, whole)
        arrays.append(np.asarray(array).astype(object if dtype.kind == "S" else dtype))
    return arrays


def contents(rng, detail, mode, integers, whole):
    """Random values of one input, of any type; see make_inputs()."""
    shape, dtype = tuple(detail["shape"].tolist()), np.dtype(detail["dtype"])
    quantized = len(detail["quantization_parameters"]["scales"]) > 0
    if dtype.kind == "S":
        words = np.array([b"word%d" % i for i in range(100)], object)
        return words[rng.integers(0, 100, shape)]
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if (dtype.kind in "iu" and not quantized and dtype.itemsize > 1) or whole:
        return rng.integers(0, integers, shape) if integers > 1 else np.ones(shape)
    if dtype.kind in "iu":
        low, high = (-(1 << 15), 1 << 15) if dtype.itemsize > 2 else (np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
        if mode == "random":
            return rng.integers(low, high, shape)
        return np.floor(low + (smooth(rng, shape) + 1) / 2 * (high - 1 - low))
    if dtype.kind == "c":
        return rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return rng.normal(size=shape) if mode == "random" else smooth(rng, shape)


def smooth(rng, shape):
    """Slow waves along the longer axes plus weak noise, within [-1, 1]: noise alone saturates classifiers."""
    total = np.zeros(shape)
    for _ in range(3):
        wave = np.full(shape, rng.uniform(-np.pi, np.pi))
        for axis, n in enumerate(shape):
            angle = np.arange(n) * rng.uniform(-2, 2) * np.pi / max(n, 8) + rng.uniform(-1, 1, n) * (n < 8)
            wave = wave + angle.reshape([-1 if a == axis else 1 for a in range(len(shape))])
        total += rng.uniform(0.2, 0.5) * np.sin(wave)
    return np.clip(total + 0.03 * rng.normal(size=shape), -1, 1)


def _first_differences(ours, theirs, run, inputs):
    """Run the peer up to `run` again, compare all intermediate tensors, and return the first nodes that differ."""
    theirs.reset_all_variables()
    for arrays in inputs[:run + 1]:
        _feed(theirs, arrays)
        theirs.invoke()
    found = []
    names = {d["index"]: d["name"] for d in ours.get_tensor_details()}
    for node in ours._get_ops_details():
        for index in node["outputs"].tolist():
            try:
                status, text = difference(ours.get_tensor(index), np.array(theirs.get_tensor(index)))
            except ValueError as error:
                status, text = "unread", str(error)
            if status == "DIFFERS" or (status == "close" and not text.startswith("0")):
                found.append(f"{status} node {node['index']} {node['op_name']} {names.get(index)!r}: {text}")
    worst = [f for f in found if f.startswith("DIFFERS")]
    return (worst or found)[:3]


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.models.compare", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--failing", action="store_true")
    parser.add_argument("--layers", action="store_true")
    args = parser.parse_args()
    if not MODELS.is_dir():
        parser.exit(1, f"there is no folder {MODELS}\n")
    counts = {}
    for name in names():
        if args.words and not any(word in name for word in args.words):
            continue
        result = compare(name, args.layers)
        counts[result.status] = counts.get(result.status, 0) + 1
        if not args.failing or result.status in ("DIFFERS", "ERROR"):
            sys.stdout.write(f"{result.status:<12} {result.nodes:>5}  {name}  {result.detail[:400]}\n")
            sys.stdout.writelines(f"{'':20}{line}\n" for line in result.layers)
            sys.stdout.flush()
    sys.stdout.write(", ".join(f"{n} {status}" for status, n in sorted(counts.items())) + "\n")
    return 1 if counts.keys() & {"DIFFERS", "ERROR"} else 0


if __name__ == "__main__":
    sys.exit(main())
