"""Finds the quantized nodes that cost a model most: each runs in float in turn, all others stay quantized.

It can also try whole blocks instead of single nodes, such as a residual block or an attention block.
"""
from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from pylite.display import text_table
from pylite.errors import ComparisonError, PyliteError, counted
from pylite.media import models
from pylite.runtime.model import Model
from pylite.validation import orders
from pylite.validation.accuracy_report import finite
from pylite.validation.blocks import blocks as blocks_of
from pylite.validation.data import Samples
from pylite.validation.evidence import Settings
from pylite.validation.measures import decibels
from pylite.validation.mixture import Mixture
from pylite.validation.node_search import small_set
from pylite.validation.predicting import Predictor
from pylite.validation.printed import Printed
from pylite.validation.scoring import scored
from pylite.validation.widening import quantized, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.display.text_table import Table
    from pylite.validation.data import Numbers


VERSION = 1
SAMPLES = 64            # used by default; all are kept in memory
NOISE_SAMPLES = 16      # used to measure the noise of single nodes


@dataclass
class Node:
    """A quantized node or block of nodes that could run in float.

    node: its index, or that of a block's last node; nodes: the indices of all its nodes
    names: names of the results of the reference's node, or else of its own
    value: the measure with only this node in float; regained: the gain of that over the quantized model
    quantized_alone: the measure with all other nodes in float
    """
    node: int
    nodes: list[int]
    op: str
    names: list[str]
    value: float
    regained: float
    quantized_alone: float


@dataclass(repr=False)
class Sensitivity(Printed):
    """The nodes that gain most in float, and a small set of them that reaches a target.

    measure: "sqnr_db", that of the worst output, or the name of the accuracy's metric
    quantized, real: the measure with no node in float, and with all that can run in float
    ranking: Nodes, the largest gain first; left_out: [{"node", "reason"}]: nodes that cannot be tried
    proposed: the smallest set of nodes found that reaches `target`; reached: the measure with only these in float
    order: sentences that compare the ranking with the one by noise
    For the files: config: how the model is quantized, as in ai-edge-quantizer; in_float: names of the results of the
    proposed nodes and of nodes that only move values between them; contents: the .tflite file with these in float.
    """
    model: str
    reference: str
    samples: int
    measure: str
    quantized: float
    real: float
    target: float
    proposed: list[int]
    reached: float
    ranking: list[Node]
    left_out: list[dict[str, Any]] = field(default_factory=list)
    order: str = ""
    config: dict[str, Any] = field(default_factory=dict, repr=False)
    in_float: list[list[str]] = field(default_factory=list, repr=False)
    contents: bytes = field(default=b"", repr=False)

    @property
    def ok(self) -> bool:
        """Does the set reach the target?"""
        return self.reached >= self.target

    def to_dict(self) -> dict[str, Any]:
        """`sensitivity` in docs/validation.schema.json; infinities are None."""
        fields = asdict(self)
        del fields["config"], fields["in_float"], fields["contents"]
        return {"version": VERSION, **finite(fields)}

    def to_json(self) -> str:
        """to_dict() as JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def denylist(self) -> list[str]:
        """The nodes as TensorFlow's converter knows them: for `denylisted_nodes` of its QuantizationDebugOptions."""
        return [name for names in self.in_float for name in names]

    def recipe(self) -> list[dict[str, Any]]:
        """A recipe of ai-edge-quantizer: all quantized as in the model, but for the proposed nodes."""
        rules: list[tuple[str, str, dict[str, Any]]] = [(".*", "min_max_uniform_quantize", self.config)]
        rules += [(f"^{re.escape(';'.join(names))};$", "no_quantize", {}) for names in self.in_float]
        return [{"regex": regex, "operation": "*", "algorithm_key": key, "op_config": config}
                for regex, key, config in rules]

    def outcome(self) -> str:
        """A sentence: what the set reaches, and whether this is the target."""
        form, count = _form(self.measure), sum(len(n.nodes) for n in self.ranking)
        chosen = (f"{len(self.proposed)} of {count} nodes in float (marked >) "
                  f"reach{'es' if len(self.proposed) == 1 else ''} {form(self.reached)}")
        if self.proposed:
            return f"{chosen}." if self.ok else f"{chosen}; no set reaches {form(self.target)}."
        if self.ok:
            return f"the model reaches the target of {form(self.target)} as it is, {form(self.reached)}."
        return f"no set of nodes in float reaches {form(self.target)}; all nodes in float reach {form(self.real)}."

    def lines(self, top: int = 10, table: Table = text_table.table) -> list[str]:
        """The result as text, with the ranking's first `top` nodes.  table: makes the lines of tables."""
        form = _form(self.measure)
        rows = [(f"{'> ' * (n.node in self.proposed)}{n.node}",
                 n.op if len(n.nodes) == 1 else f"{n.op} and {len(n.nodes) - 1} before", form(n.value),
                 form(n.regained), n.names[0].split(";")[0]) for n in self.ranking[:top]]
        text = [f"{os.path.basename(self.model)} against {os.path.basename(self.reference)}: "
                f"{counted(self.samples, 'sample')}, "
                f"{'SQNR' if self.measure == 'sqnr_db' else self.measure} {form(self.quantized)}, "
                f"{form(self.real)} with all nodes in float",
                *table(("node", "op", "in float", "regained", "name"), rows, ("node", "in float", "regained"),
                       ("name",))]
        text += ["", self.order] if self.order else []
        return [*text, "", self.outcome(),
                *(f"not tried: node {left['node']}: {left['reason']}" for left in self.left_out)]


def _form(measure: str) -> Callable[[float], str]:
    """A function that formats values of `measure`."""
    return "{:.1f} dB".format if measure == "sqnr_db" else "{:.4f}".format


def sensitivity(model: str | os.PathLike[str], reference: str | os.PathLike[str], data: str | os.PathLike[str],
                target: float, *, accuracy: Settings | None = None, samples: int | None = None,
                mean: Numbers | None = None, std: Numbers | None = None, threads: int = 1,
                blocks: bool = False, progress: Callable[[int, int], object] | None = None) -> Sensitivity:
    """Rank quantized nodes by what float would gain, and find a small set that reaches a target; returns a Sensitivity.

    target: the SQNR that the worst output must reach, in decibels; with `accuracy`, the value that its first metric
    must reach on data with labels.
    samples: use the first N samples (default: SAMPLES).
    blocks: try whole blocks, as pylite.validation.blocks defines them, instead of nodes.
    progress: called with the number of models measured, and of all models before the search.
    The other arguments are those of pylite.validation.compare().
    Raises ComparisonError (a ValueError) if the models or the data do not fit.
    """
    model, reference = models.named(model), models.named(reference)
    original, other = Model(model), widened(reference)
    taken = Samples(os.fspath(data), original.graph.subgraphs[0], mean, std, samples or SAMPLES,
                    metadata={**other.graph.metadata, **original.graph.metadata})
    mixture = Mixture(original, other)
    if not mixture.candidates:
        raise ComparisonError(f"{model}: has no quantized nodes that could run in float")
    measure, name = _sqnr(other, taken, threads), "sqnr_db"
    if accuracy is not None:
        measure, name = _accuracy(os.fspath(model), taken, accuracy, threads, other)
    graph = original.graph.subgraphs[0]
    groups = blocks_of(graph, mixture.candidates) if blocks else [(node,) for node in mixture.candidates]
    parts = {nodes[-1]: nodes for nodes in groups}      # a block is known by its last node

    def nodes_of(keys: frozenset[int]) -> frozenset[int]:
        return frozenset(node for key in keys for node in parts[key])

    @cache
    def value(keys: frozenset[int]) -> float:
        return measure(mixture.of(nodes_of(keys)))
    quantized_value = value(frozenset())
    alone, others, left_out = _one_by_one(list(parts), value, progress)
    every = frozenset(alone)
    order = sorted(alone, key=lambda key: (-alone[key], key))
    by_others = sorted(alone, key=lambda key: (others[key], key))
    chosen = small_set(value, [[frozenset({key}) for key in keys] for keys in (order, by_others)], target)
    proposed = nodes_of(chosen)
    ranking = [Node(n, list(parts[n]), graph.operators[n].name, mixture.names[n], alone[n], alone[n] - quantized_value,
                    others[n]) for n in order]
    by_noise = orders.noise(original, other, [taken[i] for i in range(min(NOISE_SAMPLES, len(taken)))], threads)
    return Sensitivity(os.fspath(model), os.fspath(reference), len(taken), measure=name, quantized=quantized_value,
                       real=value(every), target=target, proposed=sorted(proposed), reached=value(chosen),
                       ranking=ranking, left_out=left_out, order=orders.explained(by_noise, ranking, _form(name)),
                       config=_config(original), contents=mixture.written(proposed),
                       in_float=[mixture.names[node] for node in sorted(mixture.floating(proposed))])


def _one_by_one(keys: Sequence[int], value: Callable[[frozenset[int]], float],
                progress: Callable[[int, int], object] | None
                ) -> tuple[dict[int, float], dict[int, float], list[dict[str, Any]]]:
    """({part: the value with it alone in float}, {part: the value with all others in float}, [a part that cannot be
    tried, as in Sensitivity.left_out])"""
    alone, others, left_out = dict[int, float](), dict[int, float](), []
    for key in keys:
        try:
            alone[key] = value(frozenset({key}))
        except (PyliteError, ValueError) as error:
            left_out.append({"node": key, "reason": str(error)})
        if progress is not None:
            progress(len(alone) + len(left_out), 2 * len(keys))
    every = frozenset(alone)
    for number, key in enumerate(alone):
        others[key] = value(every - {key})
        if progress is not None:
            progress(len(keys) + number + 1, len(keys) + len(alone))
    return alone, others, left_out


def _sqnr(reference: Model, samples: Samples, threads: int) -> Callable[[Model], float]:
    """A function from a model to the SQNR of its worst output, in dB."""
    inputs = [samples[i] for i in range(len(samples))]
    predictor = Predictor(reference, None, threads)
    expected = [predictor.run(arrays) for arrays in inputs]

    def measure(model: Model) -> float:
        predictor = Predictor(model, None, threads)
        power, noise = np.zeros(len(expected[0])), np.zeros(len(expected[0]))
        for arrays, wanted in zip(inputs, expected, strict=True):
            for k, (output, y) in enumerate(zip(predictor.run(arrays), wanted, strict=True)):
                if y.dtype == output.dtype == np.float32 and y.size == output.size:
                    difference: NDArray[Any] = output.reshape(-1).astype(np.float64) - y.reshape(-1)
                    power[k] += float(np.square(y, dtype=np.float64).sum())
                    noise[k] += float(np.square(difference).sum())
        if not power.any():
            raise ComparisonError("no output can be compared with the reference's: they are not real numbers")
        return min(decibels(p, n) for p, n in zip(power.tolist(), noise.tolist(), strict=True) if p)
    return measure


def _accuracy(path: str, samples: Samples, settings: Settings, threads: int,
              reference: Model) -> tuple[Callable[[Model], float], str]:
    """(a function from a model to its first metric, the metric's name)"""
    def measured(model: Model) -> tuple[float, str]:
        accuracy = scored(model, samples, range(len(samples)), settings, threads, reference)
        first = accuracy.metrics[accuracy.main]
        if first.better == "lower":
            raise ComparisonError(f"{accuracy.main}: lower is better, and --target is a minimum; let the metric return "
                                  f"its negative")
        assert first.model is not None
        return first.model, accuracy.main
    return lambda model: measured(model)[0], measured(Model(path))[1]


def _config(model: Model) -> dict[str, Any]:
    """How the model is quantized, as ai-edge-quantizer's op_config says it."""
    tensors = model.graph.subgraphs[0].tensors
    scales = [t.quantization.scale.size for t in tensors if t.data is not None and t.quantization is not None
              and t.dtype in ("int8", "uint8", "int4")]
    activations = {t.dtype for t in tensors if t.data is None and quantized(t)}
    config: dict[str, Any] = {
        "weight_tensor_config": {"num_bits": 4 if any(t.dtype == "int4" for t in tensors) else 8, "symmetric": True,
                                 "granularity": "CHANNELWISE" if max(scales, default=1) > 1 else "TENSORWISE",
                                 "dtype": "INT"},
        "compute_precision": "INTEGER", "explicit_dequantize": False, "skip_checks": False, "min_weight_elements": 0}
    if activations:
        wide = "int16" in activations
        config["activation_tensor_config"] = {"num_bits": 16 if wide else 8, "symmetric": wide,
                                              "granularity": "TENSORWISE", "dtype": "INT"}
    return config
