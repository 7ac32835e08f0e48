"""Models whose weights alone are stored in few bits, called subgraphs, and shapes that depend on data."""
import copy

import numpy as np
import pytest

from pylite import Model, validation
from pylite.schema import read, write
from pylite.schema.builder import ModelBuilder
from pylite.validation import agreement
from pylite.validation.data import Samples
from pylite.validation.widening import dequantized, folded
from tests.tools import resources

TRANSFORMER = "transformer_block_64_"
STORED = [("conv1d_har_128_float16", "conv1d_har_128_float32"), ("mobilenet_v1_050_160_float16",
          "mobilenet_v1_050_160_float32"), (TRANSFORMER + "float16", TRANSFORMER + "float32"),
          (TRANSFORMER + "aeq_dynamic_wi4b64_afp32", TRANSFORMER + "float32"),
          (TRANSFORMER + "aeq_dynamic_wi4_afp32", TRANSFORMER + "float32"),
          (TRANSFORMER + "aeq_weight_only_wi4_afp32", TRANSFORMER + "float32")]


def pair(names):
    return [resources.models() / "keras" / f"{name}.tflite" for name in names]


def samples(path, count=2):
    subgraph, rng = Model(path).graph.subgraphs[0], np.random.default_rng(0)
    return [[rng.integers(0, 50, t.shape).astype(t.dtype) if t.dtype == "int32" else
             rng.normal(0, 1, t.shape).astype(np.float32) for t in map(subgraph.tensors.__getitem__, subgraph.inputs)]
            for _ in range(count)]


@pytest.mark.parametrize("names", STORED, ids=[one for one, _ in STORED])
def test_stored_weights_are_compared(names):
    """By value, channel by channel; nothing is suspected, and nothing but what has no counterpart is left out."""
    model, reference = pair(names)
    report = validation.compare(model, reference, samples(reference))
    assert report.unmatched == [] and report.first_divergence is None and report.notes == []
    weighted = [t for t in report.tensors if t.op in ("CONV_2D", "FULLY_CONNECTED", "DEPTHWISE_CONV_2D")]
    assert len(weighted) > 5 and all(t.weights is not None for t in weighted)
    low, high = (8, 35) if "wi4" in names[0] else (55, 120)
    assert all(low < np.median(t.weights["sqnr_db"]) < high for t in weighted)
    assert all(t.sqnr_weights_db is not None and abs(t.sqnr_weights_db - t.sqnr_local_db) < 6 for t in weighted), [
        (t.node, t.sqnr_weights_db, t.sqnr_local_db) for t in weighted]


@pytest.mark.parametrize("names", [STORED[0], STORED[2], STORED[3], STORED[5]],
                         ids=[STORED[i][0] for i in (0, 2, 3, 5)])
def test_a_fault_in_stored_weights_is_found_and_named(names, tmp_path):
    """All weights of a node twice as large, in each of some nodes."""
    model, reference = pair(names)
    opened = Model(model).graph.subgraphs[0]
    behind = folded(opened)
    nodes = [o for o in opened.operators if o.name in ("CONV_2D", "FULLY_CONNECTED")
             and opened.tensors[behind.get(o.inputs[1], o.inputs[1])].dtype in ("float16", "int4")]
    for operator in nodes[:: max(1, len(nodes) // 3)]:
        file = read(model.read_bytes())
        index = behind.get(operator.inputs[1], operator.inputs[1])
        record, tensor = file.subgraphs[0].tensors[index], opened.tensors[index]
        if tensor.dtype == "float16":
            buffer = copy.copy(file.buffers[record.buffer])
            buffer.data = (np.asarray(tensor.data).view(np.float16) * np.float16(2)).view(np.uint8)
            record.buffer = len(file.buffers)
            file.buffers = [*file.buffers, buffer]
        elif tensor.quantization.block_size:
            scales = file.subgraphs[0].tensors[tensor.quantization.scale_tensor]
            buffer = copy.copy(file.buffers[scales.buffer])
            kind = np.dtype(opened.tensors[tensor.quantization.scale_tensor].dtype).type
            buffer.data = (np.asarray(buffer.data).view(kind) * kind(2)).view(np.uint8)
            scales.buffer = len(file.buffers)
            file.buffers = [*file.buffers, buffer]
        else:
            record.quantization.scale = record.quantization.scale * np.float32(2)
        (tmp_path / "spoiled.tflite").write_bytes(write(file))
        report = validation.compare(tmp_path / "spoiled.tflite", reference, samples(reference))
        first = report.by_node(report.ranking[0])
        assert (first.node, first.cause) == (operator.index, "weight scale"), report.lines()
        assert "times the reference" in first.detail and first.sqnr_weights_db < 6


@pytest.mark.parametrize("zero_points", [False, True])
def test_numbers_in_blocks(zero_points):
    """A scale, and perhaps a zero point, for each run of elements."""
    from pylite.ir.graph import Quantization, replace
    m = ModelBuilder()
    values = np.random.default_rng(0).integers(-8, 8, (6, 8)).astype(np.int8)
    m.constant("w", values, scale=1.0)
    m.inputs([])
    tensor = Model(m.build()).graph.subgraphs[0].tensors[0]
    scale = np.random.default_rng(1).random(12, np.float32)
    zero_point = np.arange(12) - 5 if zero_points else np.zeros(0, np.int64)
    tensor = replace(tensor, quantization=Quantization(scale, zero_point, block_size=4))
    expected = [[(int(values[i, j]) - (zero_point[2 * i + j // 4] if zero_points else 0)) * float(scale[2 * i + j // 4])
                 for j in range(8)] for i in range(6)]
    assert np.allclose(dequantized(Model(m.build()), tensor), expected, rtol=1e-12)
    uneven = replace(tensor, quantization=Quantization(scale[:5], zero_point[:5], block_size=4))
    assert dequantized(Model(m.build()), uneven) is None


def test_quantized_weights_of_called_subgraphs():
    """They make a model a quantized one, though its main subgraph has none."""
    model, reference = pair(["gru_k3_28_dynint8", "gru_k3_28_float32"])
    assert not validation.compare(model, reference, samples(reference)).notes
    plain = validation.compare(reference, reference, samples(reference)).notes
    assert any("no quantized tensors" in note for note in plain)


def test_shapes_that_depend_on_data(tmp_path):
    m = ModelBuilder()
    x, s, y, z = m.tensor("x", (1, 4)), m.tensor("s", (2,), "int32"), m.tensor("y", (None, None)), m.tensor("z", (
        None, None))
    m.operator("RESHAPE", [x, s], [y])
    m.operator("RELU", [y], [z])
    m.inputs([x, s])
    m.outputs([z])
    path = tmp_path / "m.tflite"
    path.write_bytes(m.build())
    data = [[np.float32([[-1, 2, 3, 4]]), np.int32(shape)] for shape in ([2, 2], [4, 1])]
    report = validation.compare(path, path, data)
    assert [(t.op, t.sqnr_db) for t in report.tensors] == [("RESHAPE", np.inf), ("RELU", np.inf)]
    found = validation.accuracy(path, [(sample, None) for sample in data], path,
                                metric=lambda outputs, labels: sum(array.sum() for array in outputs[0]))
    assert next(iter(found.metrics.values())).model == 18
    model = Model(path)
    np.savez(tmp_path / "d.npz", x=np.stack([d[0][0] for d in data]), s=np.stack([d[1] for d in data]))
    given = Samples(tmp_path / "d.npz", model.graph.subgraphs[0])
    agreement.record(model, given, tmp_path / "r.npz")
    assert agreement.check(model, given, tmp_path / "r.npz").equal
