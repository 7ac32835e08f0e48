"""What WHILE, IF and the like call is compared node by node, as models of their own on the reference's calls."""
import json
from pathlib import Path

import numpy as np
import pytest

from pylite import Model, cli, validation
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from pylite.validation import called
from pylite.validation.analysis import analyse
from pylite.validation.comparison import Comparison
from pylite.validation.repair import repair
from tests.tools import resources

WIDTH, ITERATIONS = 8, 20
RNG = np.random.default_rng(0)
WEIGHTS = (RNG.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32)
BIAS = RNG.standard_normal(WIDTH).astype(np.float32) / 4
STEP = 1 / 128


def activation(m, name, integer, scale=STEP):
    return m.tensor(name, (1, WIDTH), "int8", scale=scale) if integer else m.tensor(name, (1, WIDTH))


def layer(m, x, y, integer, weights=WEIGHTS, factor=1.0):
    """A FULLY_CONNECTED and a TANH; factor: of the integer model's scale of weights, 1 where they are right."""
    z = activation(m, "sums", integer, 1.2 / 127)
    if integer:
        scale = float(np.abs(weights).max()) / 127
        w = m.constant("w", np.rint(weights / scale).astype(np.int8), scale=scale * factor)
        b = m.constant("b", np.rint(BIAS / (STEP * scale)).astype(np.int32), scale=STEP * scale * factor)
    else:
        w, b = m.constant("w", weights), m.constant("b", BIAS)
    m.operator("FULLY_CONNECTED", [x, w, b], [z])
    m.operator("TANH", [z], [y])


def body(integer, factor=1.0):
    """The layer as a model of its own, with a loop's counter."""
    m = ModelBuilder()
    write_body(m, integer, factor)
    return m.build()


def write_body(m, integer, factor=1.0):
    i, x = m.tensor("i", (1,), "int32"), activation(m, "x", integer)
    j, y = m.tensor("j", (1,), "int32"), activation(m, "y", integer)
    m.operator("ADD", [i, m.constant("one", np.ones(1, np.int32))], [j])
    layer(m, x, y, integer, factor=factor)
    m.inputs([i, x])
    m.outputs([j, y])


def loop(integer, factor=1.0, iterations=ITERATIONS, result=STEP):
    """result: the scale of the result, which is right if it is the body's."""
    m = ModelBuilder()
    x, y = activation(m, "start", integer), activation(m, "result", integer, result)
    j = m.tensor("count", (1,), "int32")
    m.operator("WHILE", [m.constant("zero", np.zeros(1, np.int32)), x], [j, y], cond_subgraph_index=1,
               body_subgraph_index=2)
    m.inputs([x])
    m.outputs([y])
    m.subgraph("condition")
    i, _ = m.tensor("i", (1,), "int32"), activation(m, "x", integer)
    less = m.tensor("less", (1,), "bool")
    m.operator("LESS", [i, m.constant("end", np.full(1, iterations, np.int32))], [less])
    m.inputs([0, 1])
    m.outputs([less])
    m.subgraph("body")
    write_body(m, integer, factor)
    return m.build()


def choice(integer, factor=1.0):
    """IF: one of two layers, of which `factor` spoils the second."""
    m = ModelBuilder()
    c, x, y = m.tensor("c", (1,), "bool"), activation(m, "x", integer), activation(m, "y", integer)
    m.operator("IF", [c, x], [y], then_subgraph_index=1, else_subgraph_index=2)
    m.inputs([c, x])
    m.outputs([y])
    for name, weights, spoiled in (("first", WEIGHTS, 1.0), ("second", WEIGHTS[::-1], factor)):
        m.subgraph(name)
        x, y = activation(m, "x", integer), activation(m, "y", integer)
        layer(m, x, y, integer, weights, spoiled)
        m.inputs([x])
        m.outputs([y])
    return m.build()


def states(sample, count):
    """What the float loop's body is given, iteration by iteration."""
    run = Interpreter(model_content=body(False))
    run.allocate_tensors()
    found, x = [], sample
    for i in range(count):
        found.append([np.full(1, i, np.int32), x])
        run.set_tensor(0, found[-1][0])
        run.set_tensor(1, x)
        run.invoke()
        x = run.get_tensor(run.get_output_details()[1]["index"]).copy()
    return found


def equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, sums in ours.items():
        one, other = sums.state(), theirs[name].state()
        for key in one:
            np.testing.assert_array_equal(one[key], other[key], f"{name} {key}")


def sample(seed=1):
    return np.random.default_rng(seed).uniform(-1, 1, (1, WIDTH)).astype(np.float32)


def test_a_loops_body_is_compared_as_a_model_of_its_own():
    """On the reference's state in the first 16 iterations, and in every 16th."""
    comparison = Comparison(Model(loop(True)), Model(loop(False)), histograms=True, origins=True)
    alone = Comparison(Model(body(True)), Model(body(False)), histograms=True, origins=True)
    for seed in range(3):
        comparison.add([sample(seed)], True, True)
        for number, arrays in enumerate(states(sample(seed), ITERATIONS)):
            if number <= 16:
                alone.add(arrays, True, True)
    condition, inner = comparison.calls
    assert (inner.name, inner.subgraphs, inner.comparison.samples) == ("0.body", (2, 2), 3 * 17)
    assert condition.comparison is None and not condition.reason    # it has nothing to compare
    assert alone.measured == inner.comparison.measured
    equal(inner.comparison.sums(), alone.sums())


def test_calls_become_fewer():
    chosen = [number for number in range(5000) if called._chosen(number)]
    assert chosen == [*range(16), *range(16, 256, 16), *range(256, 4096, 256), 4096]


def test_the_node_within_is_named(tmp_path):
    report = validation.compare(write(tmp_path / "a", loop(True, 2)), write(tmp_path / "b", loop(False)), [[sample()]])
    node, = report.tensors
    assert (node.op, node.cause) == ("WHILE", "called subgraph")
    assert node.detail.startswith("node 1 (FULLY_CONNECTED) of its body: weight scale: the weights are ")
    inner, = report.called
    assert (inner.part, inner.subgraph, inner.calls, inner.report.ranking[0]) == ("body", 2, 17, 1)
    text = "\n".join(report.lines())
    assert "body of node 0 (WHILE), subgraph 2: 17 calls, 2 tensors\n" in text
    assert "node 1 (FULLY_CONNECTED, sums): weight scale" in text
    right = validation.compare(write(tmp_path / "a", loop(True)), tmp_path / "b", [[sample()]])
    assert right.tensors[0].cause is None and right.called[0].report.first_divergence is None


def test_a_wrong_scale_of_the_node_that_calls_is_its_own_fault(tmp_path):
    """Though no node within is at fault, it is not the noise of iterations that adds up."""
    pair = write(tmp_path / "a", loop(True, result=2 * STEP)), write(tmp_path / "b", loop(False))
    report = validation.compare(*pair, [[sample()]])
    assert report.called[0].report.first_divergence is None
    assert report.first_divergence == 0 and report.tensors[0].cause not in (None, "called subgraph")


def test_branches(tmp_path):
    """Each on the samples that take it; one that none takes is said to be left out."""
    model, reference = write(tmp_path / "a", choice(True, 2)), write(tmp_path / "b", choice(False))
    data = [[np.array([seed % 3 == 0]), sample(seed)] for seed in range(9)]
    report = validation.compare(model, reference, data)
    assert [(c.part, c.calls, c.report.tensors[0].cause) for c in report.called] == [
        ("then", 3, None), ("else", 6, "weight scale")]
    report = validation.compare(model, reference, data[:1])
    assert [c.part for c in report.called] == ["then"]
    assert "the else of node 0 (IF) was not compared node by node: the reference never ran it" in report.notes


def test_sums_of_calls_are_shared_and_merged(tmp_path):
    """Workers and shards give the Report of one process, to the last bit."""
    pair = [str(write(tmp_path / f"{integer}.tflite", choice(integer, 2))) for integer in (True, False)]
    np.savez(tmp_path / "d.npz", c=np.arange(9)[:, None] % 3 == 0, x=np.stack([sample(k)[0] for k in range(9)]))
    whole = validation.compare(*pair, tmp_path / "d.npz")
    assert len(whole.called) == 2 and whole == validation.compare(*pair, tmp_path / "d.npz", workers=2)
    for part in (1, 2):
        validation.compare(*pair, tmp_path / "d.npz", shard=(part, 2), save=tmp_path / f"{part}.npz")
    assert validation.merge(*pair, [tmp_path / "1.npz", tmp_path / "2.npz"]) == whole


def test_nodes_that_keep_variables_run_once(tmp_path):
    """Running their subgraph again would change what later samples find there."""
    contents = []
    for integer in (True, False):
        m = ModelBuilder()
        c, x, y = m.tensor("c", (1,), "bool"), activation(m, "x", integer), activation(m, "y", integer)
        m.operator("IF", [c, x], [y], then_subgraph_index=1, else_subgraph_index=1)
        m.inputs([c, x])
        m.outputs([y])
        m.subgraph("both")
        x, y, v = activation(m, "x", integer), activation(m, "y", integer), m.tensor("v", (), "resource")
        m.operator("VAR_HANDLE", [], [v], shared_name="v", container="")
        m.operator("ASSIGN_VARIABLE", [v, x], [])
        layer(m, x, y, integer)
        m.inputs([x])
        m.outputs([y])
        contents.append(write(tmp_path / f"{integer}", m.build()))
    report = validation.compare(*contents, [[np.array([True]), sample()]])
    assert not report.called and len(report.tensors) == 1
    assert [note for note in report.notes if "it keeps variables" in note] == [
        f"the {part} of node 0 (IF) was not compared node by node: it keeps variables" for part in ("then", "else")]


def nested(integer, levels):
    """Subgraphs that call the next one twice, the last of which has the layer."""
    m = ModelBuilder()
    for level in range(levels):
        x, y, z = (activation(m, name, integer) for name in "xyz")
        for source, target in ((x, y), (y, z)):
            if level < levels - 1:
                m.operator("STABLEHLO_COMPOSITE", [source], [target], decomposition_subgraph_index=level + 1,
                           name="nested")
            else:
                layer(m, source, target, integer)
        m.inputs([x])
        m.outputs([z])
        if level < levels - 1:
            m.subgraph(f"level {level + 1}")
    return m.build()


def test_calls_within_calls():
    """Each has a Comparison, down to a depth that keeps their number small."""
    comparison = Comparison(Model(nested(True, 3)), Model(nested(False, 3)))
    comparison.add([sample()])
    report = analyse(comparison)
    parts = [*report.parts()]
    assert len(parts) == 1 + 2 + 4 and all(found.samples == 1 for _, found in parts)
    assert parts[2][0] == ("decomposition of node 0 (STABLEHLO_COMPOSITE), subgraph 1, decomposition of node 0 "
                           "(STABLEHLO_COMPOSITE), subgraph 2")
    assert [t.op for t in parts[2][1].tensors] == ["FULLY_CONNECTED", "TANH"] * 2
    deep = Comparison(Model(nested(True, 8)), Model(nested(False, 8)))
    deep.add([sample()])
    last = [*analyse(deep).parts()][called.DEEPEST][1]
    assert last.notes == [f"the decomposition of node {node} (STABLEHLO_COMPOSITE) was not compared node by node: 4 "
                          "calls lead to it, and more are not followed" for node in (0, 1)]


def test_the_schema_holds_for_called_subgraphs(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(__file__).parents[2] / "docs/validation.schema.json").read_text())
    report = validation.compare(write(tmp_path / "a", loop(True, 2)), write(tmp_path / "b", loop(False)), [[sample()]])
    found = json.loads(report.to_json())
    jsonschema.validate(found, schema)
    assert found["called"][0]["tensors"][0]["op"] == "FULLY_CONNECTED" and "verdict" not in found["called"][0]


@pytest.mark.parametrize("kind", ["dynint8", "float16"])
def test_a_recurrent_layer_of_keras(kind):
    folder = resources.models() / "keras"
    pair = [folder / f"gru_k3_28_{kind}.tflite", folder / "gru_k3_28_float32.tflite"]
    for path in pair:
        if not path.exists():
            pytest.skip(f"{path.name} is not among the shared models")
    samples = [[np.random.default_rng(seed).random((1, 28, 16), np.float32)] for seed in range(2)]
    report = validation.compare(*pair, samples)
    inner, = report.called
    assert inner.part == "body" and inner.calls == 2 * 17 and len(inner.report.tensors) > 20
    products = [t for t in inner.report.tensors if t.op == "FULLY_CONNECTED"]
    assert len(products) == 2 and all(t.weights and 40 < t.sqnr_local_db < 90 for t in products)


def write(path, contents):
    path.write_bytes(contents)
    return path


def test_limits_see_nodes_within(tmp_path, capsys):
    pair = [str(write(tmp_path / f"{name}.tflite", loop(factor > 0, factor))) for name, factor in (("a", 2), ("b", 0))]
    np.savez(tmp_path / "d.npz", sample())
    assert cli.main(["validate", pair[0], "--reference", pair[1], "--data", str(tmp_path / "d.npz"), "--fail-on",
                     "cause=weight scale", "--junit", str(tmp_path / "j.xml")]) == 1
    assert capsys.readouterr().err.splitlines()[0] == (
        "pylite validate: body of node 0 (WHILE), subgraph 2: node 1 (FULLY_CONNECTED, 'sums'): weight scale: the "
        "weights are 2 times the reference's")
    assert 'tests="3" failures="1"' in (tmp_path / "j.xml").read_text()


def test_a_repair_says_that_calls_stay(tmp_path):
    pair = [write(tmp_path / f"{name}.tflite", loop(factor > 0, factor)) for name, factor in (("a", 2), ("b", 0))]
    found = repair(*pair, [[sample(seed)] for seed in range(4)])
    assert found.notes == [("the subgraphs that node 0 (WHILE) calls stay as they are: a repair changes the main "
                            "subgraph only"),
                           "no step helped on the held-out samples, so the repaired model is the model as it is"]
