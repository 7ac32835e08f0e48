"""Weights rounded so that their errors cancel in a node's results, instead of each to the nearest step.

The weights of a result are rounded one after the other; later weights make up for the error of each, as far as the
inputs are correlated.  This is the method of optimal brain compression (Frantar et al. 2022, arXiv:2208.11580), which
GPTQ applies to columns in their order.
"""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pylite.ir.shapes import window_output, window_padding
from pylite.validation.activations import Activations
from pylite.validation.requantizing import RealWeights
from pylite.validation.statistics import Grid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Operator
    from pylite.runtime.model import Model

    Array = NDArray[Any]

DEEPEST = 2560          # most products in a result: the work grows with the third power of their number
ROOM = 1 << 25          # most moments, float64, in memory at a time
BLOCK = 64              # columns between two products of matrices
ROWS = 256              # most rows of a sample that are used, spread evenly
DAMPING = 0.01          # share of the mean moment added to the diagonal, since rows may be fewer than weights


def round_together(model: Model, nodes: Mapping[int, tuple[RealWeights, int, str]], samples: Sequence[Sequence[Array]],
             threads: int) -> Iterator[tuple[int, RealWeights]]:
    """(node, its weights rounded together), for those of `nodes` that moment_count() and their grids allow.

    nodes: {node: (RealWeights, axis of the output channels, integer type)}
    """
    graph = model.graph.subgraphs[0]
    shapes: dict[int, Sequence[int]] = {}
    for node, (weights, _, _) in nodes.items():
        operator, shape = graph.operators[node], weights.values.shape
        x = graph.tensors[operator.inputs[0]]
        grouped = operator.name == "CONV_2D" and x.shape[-1] != shape[-1]
        if moment_count(operator, shape) and not grouped and Grid.of(x) is not None:
            shapes[node] = shape
    for node, second in moments(model, shapes, samples, threads):
        weights, axis, dtype = nodes[node]
        limits = np.iinfo(dtype)
        low = int(limits.min) + (limits.min < 0) - weights.zero_point       # int8 weights do not take -128
        yield node, rounded(graph.operators[node], weights, axis, second, (low, int(limits.max) - weights.zero_point))


def moment_count(operator: Operator, shape: Sequence[int]) -> int:
    """The number of second moments of a node whose weights have this shape; 0 if its op or its depth is not supported.

    CONV_2D must have one group.
    """
    if operator.name == "FULLY_CONNECTED":
        depth, groups = shape[1], 1
    elif operator.name == "CONV_2D":
        depth, groups = int(np.prod(shape[1:])), 1
    elif operator.name == "DEPTHWISE_CONV_2D":
        groups = shape[3] // max(1, operator.options.depth_multiplier)      # type: ignore[attr-defined]
        depth = shape[1] * shape[2]
    else:
        return 0
    return groups * depth ** 2 if 1 < depth <= DEEPEST else 0


def moments(model: Model, nodes: Mapping[int, Sequence[int]], samples: Sequence[Sequence[Array]],
            threads: int) -> Iterator[tuple[int, Array]]:
    """(node, second moments of its inputs over the samples, float64 (groups, depth, depth)), for each of `nodes`.

    nodes: {node: shape of its weights}.  Inputs are dequantized.  CONV_2D has one group, DEPTHWISE_CONV_2D one for each
    channel of its input.
    """
    graph = model.graph.subgraphs[0]
    chunk: dict[int, Sequence[int]] = {}
    for node, shape in [*nodes.items(), (-1, ())]:
        left = ROOM - sum(moment_count(graph.operators[n], s) for n, s in chunk.items())
        if chunk and (node < 0 or moment_count(graph.operators[node], shape) > left):
            yield from _moments(model, chunk, samples, threads).items()
            chunk = {}
        if node >= 0:
            chunk[node] = shape


def _moments(model: Model, nodes: Mapping[int, Sequence[int]], samples: Sequence[Sequence[Array]],
             threads: int) -> dict[int, Array]:
    graph = model.graph.subgraphs[0]
    inputs = {node: graph.operators[node].inputs[0] for node in nodes}
    activations = Activations(model, list(dict.fromkeys(inputs.values())), threads)
    moments: dict[int, Array] = {}
    for sample in samples:
        activations.run(sample)
        for node, index in inputs.items():
            grid = Grid.of(graph.tensors[index])
            assert grid is not None
            rows = _rows(graph.operators[node], nodes[node], grid.real(activations.array(index)).astype(np.float64))
            total = np.matmul(rows.transpose(0, 2, 1), rows) / max(1, rows.shape[1])
            moments[node] = moments.get(node, np.zeros(())) + total / len(samples)
    return moments


def _rows(operator: Operator, shape: Sequence[int], x: Array) -> Array:
    """The rows of the node's input x that its weights multiply: (groups, up to ROWS rows, depth)."""
    if operator.name == "FULLY_CONNECTED":
        return _spread(x.reshape(-1, shape[1]), 1)[None]
    taps, options = shape[1:3], operator.options
    stride = options.stride_h, options.stride_w                                     # type: ignore[attr-defined]
    dilation = options.dilation_h_factor, options.dilation_w_factor                 # type: ignore[attr-defined]
    pads = []
    for axis in range(2):
        window = x.shape[1 + axis], taps[axis], stride[axis], dilation[axis]
        pads.append(window_padding(*window, window_output(*window, options.padding)))   # type: ignore[attr-defined]
    x = np.pad(x, ((0, 0), *pads, (0, 0)))
    extents = [(n - 1) * d + 1 for n, d in zip(taps, dilation, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(x, extents, (1, 2))[
        :, ::stride[0], ::stride[1], :, ::dilation[0], ::dilation[1]]
    if operator.name == "CONV_2D":      # (images, rows, columns, channels, taps): taps before channels, as weights have
        return _spread(seen.transpose(0, 1, 2, 4, 5, 3), 3).reshape(1, -1, int(np.prod(shape[1:])))
    rows = _spread(seen, 3)             # (rows, channels, taps down, taps right)
    return rows.reshape(*rows.shape[:2], -1).transpose(1, 0, 2)


def _spread(x: Array, axes: int) -> Array:
    """Up to ROWS of the places that the first axes of x number, spread evenly: (places, *the other axes)."""
    count = math.prod(x.shape[:axes])
    return x[np.unravel_index(np.arange(0, count, max(1, -(-count // ROWS))), x.shape[:axes])]


def rounded(operator: Operator, weights: RealWeights, axis: int, second: Array, limits: tuple[int, int]) -> RealWeights:
    """The weights, rounded to whole steps of their scales between `limits`; second: the node's moments()."""
    scale = np.broadcast_to(weights.along(axis), weights.values.shape)
    groups, depth = second.shape[:2]
    if operator.name == "DEPTHWISE_CONV_2D":        # (1, down, right, channels): a group's channels are neighbours
        def matrices(values: Array) -> Array:
            return values.reshape(depth, groups, -1).transpose(1, 2, 0)

        def restored(values: Array) -> Array:
            return values.transpose(2, 0, 1).reshape(weights.values.shape)
    else:
        def matrices(values: Array) -> Array:
            return values.reshape(1, -1, depth)

        def restored(values: Array) -> Array:
            return values.reshape(weights.values.shape)
    rows_rounded = _cancelled(matrices(weights.values), matrices(scale), second, limits)
    return RealWeights(restored(rows_rounded), weights.scale, weights.zero_point)


def _cancelled(values: Array, scale: Array, second: Array, limits: tuple[int, int]) -> Array:
    """Weights (groups, rows, depth), rounded column by column; the columns that follow compensate for the error.

    With the second moments H = U U', U upper triangular, a row's errors e cost |e U|^2.  Number j of e U depends on the
    errors up to e[j] alone, so that a weight is rounded to where it comes closest to zero.  This finds what the updates
    of all later weights by H's inverse find, without the inverse.
    """
    damping = DAMPING * np.einsum("gjj->gj", second).mean(axis=1)
    damped = second + np.where(damping, damping, 1.0)[:, None, None] * np.eye(second.shape[1])
    upper = np.linalg.cholesky(damped[:, ::-1, ::-1])[:, ::-1, ::-1]
    upper = upper / np.einsum("gjj->gj", upper)[:, None]
    values, scale = (np.ascontiguousarray(array.transpose(0, 2, 1)) for array in (values, scale))   # columns are rows
    grid_values, errors = np.empty_like(values), np.empty_like(values)
    for start in range(0, second.shape[1], BLOCK):
        stop = min(start + BLOCK, second.shape[1])
        wanted = values[:, start:stop] + upper[:, :start, start:stop].transpose(0, 2, 1) @ errors[:, :start]
        for j in range(start, stop):
            carried = upper[:, None, start:j, j] @ errors[:, start:j]
            steps = np.rint((wanted[:, j - start] + carried[:, 0]) / scale[:, j])
            grid_values[:, j] = np.clip(steps, *limits) * scale[:, j]
            errors[:, j] = values[:, j] - grid_values[:, j]
    return grid_values.transpose(0, 2, 1)
