"""Samples of different shapes, and shapes that depend on data: the sums are those of a plain comparison."""
import numpy as np
import pytest

from pylite import Model, validation
from pylite.interpreter import Interpreter
from pylite.media import models
from pylite.schema.builder import ModelBuilder
from pylite.validation.analysis import analyse
from pylite.validation.comparison import Comparison
from pylite.validation.measures import Errors
from pylite.validation.widening import widened
from tests.tools import resources
from tests.validation import planted
from tests.validation.test_called import equal

STEP = 1 / 64


def comparison(model, reference, **options):
    return Comparison(Model(str(model)), widened(reference), histograms=True, origins=True, **options)


@pytest.mark.parametrize("name", ["digits", "unet", "lstm", "transformer"])
def test_sums_are_those_of_the_interleaved_programs(name):
    if name == "digits":
        pair = [models.path(name)] * 2
    else:
        pair = [resources.models() / f"{path}.tflite" for path in planted.PAIRS[name]]
    plain, varying = comparison(*pair), comparison(*pair)
    varying._vary()
    for number, arrays in enumerate(planted.samples(plain.model, 3)):
        for one in (plain, varying):
            one.add(arrays, number < 2, number < 1)
    assert plain.finite and varying.finite and len(plain.measured) > 4
    ours, theirs = plain.sums(), varying.sums()
    equal({k: v for k, v in ours.items() if k in theirs}, theirs)
    assert all(not sums.samples for name, sums in ours.items() if name not in theirs)


def convolution(integer):
    """Two layers over pictures of any size."""
    m = ModelBuilder()
    rng = np.random.default_rng(0)

    def activation(name, channels, scale):
        shape = (1, None, None, channels)
        return m.tensor(name, shape, "int8", scale=scale) if integer else m.tensor(name, shape)
    x, y, z = activation("x", 2, STEP), activation("y", 4, 0.05), activation("z", 3, 0.05)
    for source, target, scale, shape in ((x, y, STEP, (4, 3, 3, 2)), (y, z, 0.05, (3, 3, 3, 4))):
        weights = rng.integers(-127, 128, shape).astype(np.int8)
        w = (m.constant(f"w{source}", weights, scale=0.004) if integer
             else m.constant(f"w{source}", weights.astype(np.float32) * np.float32(0.004)))
        bias = rng.integers(-500, 500, shape[0]).astype(np.int32)
        b = (m.constant(f"b{source}", bias, scale=scale * 0.004) if integer
             else m.constant(f"b{source}", bias.astype(np.float32) * np.float32(scale * 0.004)))
        m.operator("CONV_2D", [source, w, b], [target], padding="SAME", stride_w=1, stride_h=1)
    m.inputs([x])
    m.outputs([z])
    return m.build()


def picture(seed):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (1, *rng.integers(1, 9, 2), 2)).astype(np.float32)


def test_samples_of_different_shapes():
    """Sums over all are the merged sums of one comparison for each, whatever process takes which sample."""
    pair = Model(convolution(True)), Model(convolution(False))
    whole = Comparison(*pair, histograms=True, origins=True)
    first, second, total = (Comparison(*pair, histograms=True, origins=True) for _ in range(3))
    for seed in range(6):
        whole.add([picture(seed)], True, True)
        (first if seed == 4 else second).add([picture(seed)], True, True)
    sums = first.sums()
    for name, found in second.sums().items():
        sums[name].merge(found)
    total.take(sums, 6)
    equal(total.sums(), whole.sums())
    assert total.finite and whole.samples == total.samples == 6
    assert Errors.of(whole.cumulative[whole.measured[0]]).count.sum() == sum(picture(k).size * 2 for k in range(6))


def test_channels_that_differ_are_joined():
    """The last axis of a sample need not be that of the others."""
    contents = []
    for integer in (True, False):
        m = ModelBuilder()
        shape = (1, None)
        x, y = ((m.tensor(n, shape, "int8", scale=s) if integer else m.tensor(n, shape))
                for n, s in (("x", STEP), ("y", 1 / 256)))
        m.operator("LOGISTIC", [x], [y])
        m.inputs([x])
        m.outputs([y])
        contents.append(Model(m.build()))
    widths = 5, 3, 5
    rng = np.random.default_rng(0)
    samples = [rng.uniform(-1, 1, (1, w)).astype(np.float32) for w in widths]
    both = [Comparison(*contents) for _ in range(2)]
    for one, order in zip(both, (samples, samples[::-1]), strict=True):
        for array in order:
            one.add([array])
    equal(both[0].sums(), both[1].sums())
    errors = Errors.of(both[0].cumulative[1])
    assert errors.count.tolist() == [sum(widths)]
    exact = np.concatenate([1 / (1 + np.exp(-np.float64(a[0]))) for a in samples])
    assert errors.mean(errors.signal) == pytest.approx(np.mean(exact ** 2), rel=1e-5)


def chosen(integer, factor=1.0):
    """A layer of the rows whose first element is positive."""
    m = ModelBuilder()
    rng = np.random.default_rng(0)

    def activation(name, shape, scale):
        return m.tensor(name, shape, "int8", scale=scale) if integer else m.tensor(name, shape)
    x, k = activation("x", (6, 4), STEP), m.tensor("k", (6,), "bool")
    places, rows = m.tensor("places", (None, 1), "int64"), activation("rows", (None, 4), STEP)
    y, z = activation("y", (None, 3), 0.02), activation("z", (None, 3), 0.02)
    m.operator("WHERE", [k], [places])
    m.operator("GATHER_ND", [x, places], [rows])
    weights, scale = rng.integers(-127, 128, (3, 4)).astype(np.int8), 0.004
    w = (m.constant("w", weights, scale=scale * factor) if integer
         else m.constant("w", weights.astype(np.float32) * np.float32(scale)))
    b = (m.constant("b", np.zeros(3, np.int32), scale=STEP * scale) if integer
         else m.constant("b", np.zeros(3, np.float32)))
    m.operator("FULLY_CONNECTED", [rows, w, b], [y])
    m.operator("RELU", [y], [z])
    m.inputs([x, k])
    m.outputs([z])
    return m.build()


def rows(seed, count):
    """A sample that chooses so many rows."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, (6, 4)).astype(np.float32), rng.permutation(np.arange(6) < count)]


def results(contents, arrays):
    """Real numbers of the output."""
    run = Interpreter(model_content=contents)
    run.allocate_tensors()
    x, k = run.get_input_details()
    scale = x["quantization"][0]
    steps = arrays[0] / np.float32(scale or 1)
    run.set_tensor(x["index"], np.trunc(steps + np.copysign(np.float32(0.5), steps)).astype(np.int8) if scale
                   else arrays[0])
    run.set_tensor(k["index"], arrays[1])
    run.invoke()
    output = run.get_output_details()[0]
    return run.get_tensor(output["index"]).astype(np.float64) * (output["quantization"][0] or 1)


def test_shapes_that_depend_on_data(tmp_path):
    """Counts of rows differ from sample to sample; no row at all counts as nothing."""
    pair = chosen(True), chosen(False)
    samples = [rows(seed, count) for seed, count in enumerate((3, 1, 0, 6))]
    found = Comparison(*map(Model, pair), histograms=True, origins=True)
    for arrays in samples:
        found.add(arrays, True, True)
    ours, theirs = (np.concatenate([results(contents, arrays) for arrays in samples]) for contents in pair)
    output = found.subgraph.outputs[0]
    errors = Errors.of(found.cumulative[output])
    assert errors.count.tolist() == [10] * 3 and found.cumulative[output].samples == 3
    np.testing.assert_allclose(errors.noise, np.mean((ours - theirs) ** 2, 0), rtol=1e-5)
    np.testing.assert_allclose(errors.signal, np.mean(theirs ** 2, 0), rtol=1e-5)
    assert found.local.keys() == set(found.measured)

    paths = [tmp_path / name for name in ("a.tflite", "b.tflite")]
    for path, contents in zip(paths, (chosen(True, 2), pair[1]), strict=True):
        path.write_bytes(contents)
    report = validation.compare(*paths, samples)
    first = report.by_node(report.ranking[0])
    assert (first.op, first.cause) == ("FULLY_CONNECTED", "weight scale")
    np.savez(tmp_path / "d.npz", x=np.stack([s[0] for s in samples]), k=np.stack([s[1] for s in samples]))
    whole = validation.compare(*paths, tmp_path / "d.npz")
    assert whole.ranking == report.ranking and whole == validation.compare(*paths, tmp_path / "d.npz", workers=2)
    for part in (1, 2):
        validation.compare(*paths, tmp_path / "d.npz", shard=(part, 2), save=tmp_path / f"{part}.npz")
    assert whole.regained
    whole.regained = {}     # for which samples are needed
    assert validation.merge(*paths, [tmp_path / "1.npz", tmp_path / "2.npz"]) == whole


def masked():
    """[model, reference] of rows that a mask of x's own chooses: of all that the reference does, the model's some.

    rows: the chosen ones; y: the same, by a mask that is chosen anew; z: of all rows.
    """
    contents = []
    for integer in (True, False):
        m = ModelBuilder()
        x, rows, y = ((m.tensor(n, s, "int8", scale=STEP) if integer else m.tensor(n, s))
                      for n, s in (("x", (4,)), ("rows", (None, 1)), ("y", (None, 1))))
        k, p, chosen = m.tensor("k", (4,), "bool"), m.tensor("p", (None, 1), "int64"), m.tensor("b", (None, 1), "bool")
        limit = m.constant("t", np.int8([10]), scale=STEP) if integer else m.constant("t", np.float32([-9]))
        m.operator("GREATER", [x, limit], [k])
        m.operator("WHERE", [k], [p])
        m.operator("GATHER_ND", [x, p], [rows])
        m.operator("GATHER_ND", [k, p], [chosen])
        m.operator("SELECT_V2", [chosen, rows, rows], [y])
        z = m.tensor("z", (4,), "int8", scale=1 / 256, zero_point=-128) if integer else m.tensor("z", (4,))
        m.operator("LOGISTIC", [x], [z])
        m.inputs([x])
        m.outputs([y, z])
        contents.append(m.build())
    return contents


def test_sizes_that_always_differ_are_not_compared():
    comparison = Comparison(*map(Model, masked()))
    comparison.add([np.float32([-1, -0.5, 0.1, 0.5])])      # the model chooses 1 row, the reference 4
    report = analyse(comparison)
    assert [t.op for t in report.tensors] == ["LOGISTIC"]
    reason = "its shape depends on data: in no sample did it have elements, and as many as its counterpart"
    assert [(u["name"], u["reason"]) for u in report.unmatched if u["side"] == "model"] == [
        ("rows", reason), ("y", reason)]


def test_a_node_that_cannot_run_by_itself_is_ranked_last():
    """On the reference's rows, the mask that it has chosen anew is too short."""
    comparison = Comparison(*map(Model, masked()))
    for values in ([0.5, 0.6, 0.7, 0.8], [-1, -0.5, 0.3, 0.5]):     # the model chooses 4 rows, then 2; the reference 4
        comparison.add([np.float32(values)])
    assert {comparison.local[i].samples for i in comparison.subgraph.outputs} == {1, 2}
    del comparison.local[comparison.subgraph.outputs[0]]
    report = analyse(comparison)
    assert report.by_node(4).excess_db is None and report.ranking[-1] == 4 and report.lines()
