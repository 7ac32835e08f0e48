"""The most that better rounding of weights could gain: int8 models with the float weights in place of their own.

    python benchmarks/weight_rounding.py [PAIR ...]      pairs of tests/validation/planted.py

Each graph runs in real numbers, with every activation rounded to its grid, once with the rounded weights and once with
the float ones; biases are those of the model.  Adaptive rounding lies between the two.
"""
import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pylite import Model
from pylite.ir.graph import Operator, replace
from pylite.schema.tables import enum_numbers
from pylite.validation.counterparts import counterparts
from pylite.validation.judging import Judge, judged
from pylite.validation.mixture import CAST_VERSION
from pylite.validation.requantizing import Requantizer
from pylite.validation.ties import tied
from pylite.validation.weights import WEIGHT_OPS
from pylite.validation.widening import quantized, real
from tests.validation.planted import PAIRS, Pair, samples


def cast(name, source, target):
    return Operator(-1, name, enum_numbers("BuiltinOperator")[name], False, CAST_VERSION, (source,), (target,), None)


def recast(operator, back):
    """The node if it reads or writes real numbers; else one from real numbers to the grid of its result."""
    (source,), (target,) = operator.inputs, operator.outputs
    return operator if source == back[source] or target == back[target] else cast("QUANTIZE", back[source], target)


def added(tensors, tensor):
    tensors.append(replace(tensor, index=len(tensors), buffer=0))
    return len(tensors) - 1


def with_real(model):
    """Tensors, and where their real numbers are: as a node computes them, and as its readers take them, rounded."""
    tensors = list(model.graph.subgraphs[0].tensors)
    raw, back = {}, {-1: -1}
    for t in tuple(tensors):
        raw[t.index] = back[t.index] = added(tensors, real(model, t)) if quantized(t) else t.index
        if quantized(t) and t.data is None:
            back[t.index] = added(tensors, real(model, t))
    return tensors, raw, back


def emulated(model, weights):
    """The Model in real numbers with rounded activations.  weights: {node: float weights in place of its own}"""
    graph = model.graph.subgraphs[0]
    tensors, raw, back = with_real(model)
    operators = [cast("DEQUANTIZE", i, back[i]) for i in graph.inputs if back[i] != i]
    for operator in graph.operators:
        inputs = [back[i] for i in operator.inputs]
        if operator.index in weights:
            position = WEIGHT_OPS[operator.name].weights
            own = real(model, graph.tensors[operator.inputs[position]])
            inputs[position] = added(tensors, replace(
                own, data=weights[operator.index].astype("f4").reshape(-1).view("u1")))
        if operator.name in ("QUANTIZE", "DEQUANTIZE"):
            operators.append(recast(operator, back))
        else:
            operators.append(replace(operator, inputs=tuple(inputs), outputs=tuple(raw[i] for i in operator.outputs)))
            operators += [cast("QUANTIZE", raw[i], i) for i in operator.outputs if raw[i] != i]
        operators += [cast("DEQUANTIZE", i, back[i]) for i in operator.outputs if back[i] != i]
    numbered = tuple(replace(operator, index=k) for k, operator in enumerate(operators))
    return Model(model.graph.contents, replace(model.graph, subgraphs=(
        replace(graph, tensors=tuple(tensors), operators=numbered), *model.graph.subgraphs[1:])))


def measured(name):
    """SQNR of the model, of its emulation, and of this with float weights, in dB"""
    pair = Pair(name)
    model, reference = Model(pair.contents), pair.reference
    matches = {i: m.reference for i, m in pair.comparison.matching.matches.items()}
    judge = Judge(reference, judged(model, reference, matches, tied(model)), samples(model, 32, seed=3), 1)
    found = counterparts(model, Requantizer(model), reference, matches)
    weights = {node: other.weights for node, other in found}
    return [judge.measure(m) for m in (model, emulated(model, {}), emulated(model, weights))]


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs", nargs="*", default=[*PAIRS])
    for name in parser.parse_args(arguments).pairs:
        own, rounded, floating = measured(name)
        sys.stdout.write(f"{name}: {own:.2f} dB, emulated {rounded:.2f} dB, with float weights {floating:.2f} "
                         f"dB: {floating - rounded:+.2f} dB\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
