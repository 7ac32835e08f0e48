"""The sentence that says whether a model is good, and the one that says why two orders of nodes differ."""
import numpy as np
import pytest

from pylite import validation
from pylite.media import models
from pylite.schema import read, write
from pylite.schema.builder import ModelBuilder
from pylite.validation import orders
from pylite.validation.accuracy_report import Accuracy, Metric
from pylite.validation.report import Report, TensorReport
from pylite.validation.sensitivity import Node, sensitivity
from pylite.validation.verdict import OUTSIDE

PICTURES, SCALE = str(models.sample("seven").parent), {"mean": [0], "std": [255]}


def tensor(node, op, sqnr, excess, judged=False, cause=None):
    return TensorReport(node, op, node, f"t{node}", f"t{node}", "name", "int8", judged, sqnr, excess, sqnr, excess,
                        cause=cause, detail="half of it is used", remedy="Calibrate again.", judged=judged)


def report(*tensors):
    order = sorted(range(len(tensors)), key=lambda node: -tensors[node].excess_db)
    return Report("m.tflite", "f.tflite", 8, 8, list(tensors), order, None, [])


def test_a_model_against_itself_is_good():
    assert validation.compare("digits", "digits", PICTURES, **SCALE).verdict["level"] == "good"


def test_a_softmax_vouches_for_no_model(tmp_path):
    model = read(models.path("digits").read_bytes())
    weights = next(t for t in model.subgraphs[0].tensors if t.name == "trunk/4/weights")
    weights.quantization.scale = weights.quantization.scale.copy()
    weights.quantization.scale[7] *= 3
    (tmp_path / "spoiled.tflite").write_bytes(write(model))
    found = validation.compare(tmp_path / "spoiled.tflite", "digits", PICTURES, **SCALE)
    assert found.outputs[0].sqnr_db > 40
    assert found.verdict["level"] == "fair" and "hide errors. Most noise comes from node 4" in found.verdict["text"]


@pytest.mark.parametrize(("sqnr", "excess", "level"), [
    (45.0, 9.0, "good"), (45.0, 0.0, "good"), (35.0, 0.0, "good"), (35.0, 9.0, "fair"), (25.0, 0.0, "fair"),
    (15.0, 0.0, "poor")])
def test_limits(sqnr, excess, level):
    found = report(tensor(0, "CONV_2D", 50.0, excess, cause="range too wide"), tensor(1, "MEAN", sqnr, -1.0, True))
    assert found.verdict["level"] == level
    assert ("It could be better still" in found.verdict["text"]) == (level == "good" and excess > 0)


@pytest.mark.parametrize("count", [1, 3])
def test_what_the_scheme_limits_is_named(count):
    found = report(tensor(0, "SOFTMAX", 15.0, 0.0, True, "coarse rule"),
                   *(tensor(node, "LOGISTIC", 40.0, -1.0, False, "coarse rule") for node in range(1, count)))
    limited = "node 0 (SOFTMAX)" + (f" and {count - 1} more" if count > 1 else "")
    assert found.verdict["text"].endswith(
        f"Each node is quantized about as well as its scheme allows. The scheme limits {limited}: coarse rule. "
        "Calibrate again.")


def test_remedies_are_said_once_and_fused_names_are_cut():
    found = report(tensor(0, "CONV_2D", 20.0, 9.0, cause="range too wide"),
                   tensor(1, "MEAN", 20.0, 8.0, True, cause="range too wide"))
    found.tensors[0].name = "a/Relu;b/conv"
    lines = found.lines()
    assert lines.count("  Calibrate again.") == 1
    assert "node 0 (CONV_2D, a/Relu): range too wide: half of it is used." in lines
    assert "node 1 (MEAN, t1): range too wide: half of it is used." in lines


@pytest.mark.parametrize(("excess", "cause", "says"), [
    (0.0, None, "No node has more noise of its own than rounding explains."),
    (5.0, "range too wide", "No node diverges: that takes 6 dB more noise of its own than rounding explains."),
    (5.0, None, "No node diverges: that takes 6 dB more noise of its own than rounding explains."),
    (0.0, "coarse rule", "No node diverges: that takes 6 dB more noise of its own than rounding explains.")])
def test_the_line_below_the_causes_does_not_contradict_them(excess, cause, says):
    assert report(tensor(0, "SOFTMAX", 25.0, excess, True, cause)).lines()[-1] == says


@pytest.mark.parametrize(("local", "blamed"), [(38.2, False), (20.0, True)])
def test_a_node_that_passes_on_noise_is_not_to_blame(local, blamed):
    found = report(tensor(0, "UNIDIRECTIONAL_SEQUENCE_LSTM", 9.2, 5.0, cause="range too wide"),
                   tensor(1, "FULLY_CONNECTED", 23.0, 0.0, True))
    found.tensors[0].sqnr_local_db = local
    text = found.verdict["text"]
    assert ("Most noise comes from node 0" in text) == blamed
    assert ("has an SQNR of 38.2 dB by itself, and 9.2 dB with the noise that it reads" in text) == (not blamed)


@pytest.mark.parametrize(("regained", "cause", "says"), [
    ({0: 0.2, 1: 9.04}, None, "Most noise comes from node 1 (CONV_2D), without which the SQNR is 9.0 dB higher, 20.0"),
    ({0: 2.1, 1: 1.0}, None, "The largest part of the noise comes from node 0 (CONV_2D), without which the SQNR is"),
    ({0: 5.0, 1: 3.0}, "wrong constant", "Most noise comes from node 1 (CONV_2D), without which the SQNR is 3.0 dB "
     "higher: wrong constant"),
    ({0: 5.0, 1: 0.9}, "wrong constant", "node 1 (CONV_2D) has a fault, too: wrong constant, half of it is used."),
    ({0: 0.2, 1: 0.4}, "wrong constant", "of 2 nodes with much noise of their own, none costs the outputs 1 dB. Node 1 "
     "(CONV_2D) has a fault: wrong constant"),
    ({0: 0.2, 1: 0.4}, "range too wide", "Node 1 (CONV_2D) costs most: range too wide. Calibrate"),
    ({0: 0.0, 1: 0.0}, None, "No single node is to blame: of 2")])
def test_what_nodes_cost_decides(regained, cause, says):
    found = report(tensor(0, "CONV_2D", 10.0, 30.0), tensor(1, "CONV_2D", 10.0, 20.0, True, cause))
    found.regained = regained
    assert says.lower() in found.verdict["text"].lower()


def test_a_single_node_that_costs_little_is_not_one_of_several():
    found = report(tensor(0, "CONV_2D", 10.0, 20.0, True, "range too wide"))
    found.regained = {0: 0.4}
    assert ("No single node is to blame: node 0 (CONV_2D), which has the most noise of its own, costs the outputs "
            "less than 1 dB. Node 0 (CONV_2D): range too wide. Calibrate") in found.verdict["text"]


def test_a_node_behind_one_that_passes_on_noise_is_blamed():
    found = report(tensor(0, "MEAN", 2.5, 26.0, cause="zero point"), tensor(1, "CONV_2D", 19.0, 23.0, True, "bias"))
    found.tensors[0].sqnr_local_db = 22.3
    assert "Most noise comes from node 1 (CONV_2D): bias" in found.verdict["text"]


@pytest.mark.parametrize(("weights", "local", "says"), [
    (44.0, -8.6, "Neither its weights (SQNR: 44.0 dB) nor activations (29.5 dB) explain its noise."),
    (44.0, 29.0, "3% of its noise comes from its weights (SQNR 44.0 dB), the rest from activations (29.5 dB)."),
    (np.inf, 29.5, "3% of its noise comes from its weights (exact), the rest from activations (29.5 dB).")])
def test_the_account_of_a_nodes_noise_adds_up_or_says_so(weights, local, says):
    found = report(tensor(0, "CONV_2D", local, 30.0, True, "unknown"))
    t = found.tensors[0]
    t.sqnr_local_db, t.sqnr_weights_db, t.sqnr_activations_db, t.from_weights = local, weights, 29.5, 0.03
    assert f"  {says}" in found.lines()


@pytest.mark.parametrize("in_memory", [True, False])
def test_samples_that_do_not_fit_the_input_are_blamed_first(tmp_path, in_memory):
    samples = np.random.default_rng(0).standard_normal((8, 8, 8, 1)).astype(np.float32)
    np.save(tmp_path / "x.npy", samples)
    data = [[sample[None]] for sample in samples] if in_memory else tmp_path / "x.npy"
    found = validation.compare("digits", "digits", data)
    assert found.verdict["text"].startswith("Poor: the samples do not fit input 'image' (see the note)")
    assert "mend this first. With these samples the error of the output is" in found.verdict["text"]
    assert "node" not in found.verdict["text"]
    note, _ = found.notes       # the other one: the reference is quantized
    assert note.startswith("input 'image': in 100.0% of the samples, more than 1 % of the numbers are outside 0 to 1")


def test_stored_integers_in_place_of_real_numbers_are_noted(tmp_path):
    stored = np.random.default_rng(0).integers(-128, 128, (4, 8, 8, 1)).astype(np.int8)
    np.save(tmp_path / "x.npy", stored)
    found = validation.compare("digits", "digits", tmp_path / "x.npy")
    assert found.notes[0].startswith("input 'image': the samples are int8, as the input stores numbers, but count as "
                                     "real numbers; if they are stored numbers, save (q - zero_point) * scale")
    np.save(tmp_path / "x.npy", (stored + 128.0) / 255)
    assert len(validation.compare("digits", "digits", tmp_path / "x.npy").notes) == 1


@pytest.mark.parametrize(("shape", "taken"), [((1, 1, 16), (1, 16)), ((1, 16), (1, 16)), ((1, 1), (1,))])
def test_an_array_with_one_sample_is_not_taken_for_a_sample_alone(tmp_path, shape, taken):
    m = ModelBuilder()
    x, y = m.tensor("x", shape), m.tensor("y", shape)
    m.operator("RELU", [x], [y])
    m.inputs([x])
    m.outputs([y])
    (tmp_path / "m.tflite").write_bytes(m.build())
    np.save(tmp_path / "x.npy", np.ones(taken, np.float32))
    assert validation.compare(tmp_path / "m.tflite", tmp_path / "m.tflite", tmp_path / "x.npy").samples == 1


def test_a_mean_for_arrays_is_noted(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 8, 8, 1), np.float32))
    note, _ = validation.compare("digits", "digits", tmp_path / "x.npy", mean=127.5, std=127.5).notes
    assert note.startswith("mean and std count for pictures only, and the first sample has none")


def test_samples_beyond_the_input_are_only_noted_where_the_result_is_good():
    found = report(tensor(0, "CONV_2D", 45.0, 0.0, True))
    found.notes.append(f"input 'image': in 100.0% of the samples, {OUTSIDE} 0 to 1, what it can represent")
    assert found.verdict["text"].startswith("Good: the error of the output is")


@pytest.mark.parametrize(("p", "drop", "level"), [(1.0, 10.0, "fair"), (0.001, 10.0, "poor"), (1.0, 0.5, "good")])
def test_a_loss_that_may_be_chance_asks_for_more_samples(p, drop, level):
    found = Report("m.tflite", "f.tflite", 10, 0, [], [], None, [], Accuracy(
        "classification", 10, "top1", [], {"top1": Metric(1 - drop / 100, 1.0)}, mcnemar={"p": p}))
    assert found.verdict["level"] == level
    assert ("may be chance on 10 samples: take more" in found.verdict["text"]) == (level == "fair")


@pytest.mark.parametrize(("flipped", "samples", "level"), [(1, 20, "fair"), (1, 200, "good"), (10, 100, "poor")])
def test_without_labels_a_few_differing_samples_may_be_chance(flipped, samples, level):
    found = Report("m.tflite", "f.tflite", samples, 0, [], [], None, [], Accuracy(
        "classification", samples, "agreement", [], {"agreement": Metric(1 - flipped / samples, 1.0)},
        flipped=flipped))
    assert found.verdict["level"] == level
    assert f"both models name the same class for {1 - flipped / samples:.4g} of the samples" in found.verdict["text"]
    assert ("may be chance on 20 samples: take more" in found.verdict["text"]) == (level == "fair")


def test_a_detector_is_judged_by_what_its_boxes_are_chosen_from():
    scene = np.random.default_rng(0).uniform(0, 1, (1, 96, 96, 1))
    found = validation.compare("digit-detector", "digit-detector", [[scene]])
    judged = [t for t in found.tensors if t.judged]
    assert judged and not any(t.output for t in judged) and len(found.outputs) > 1
    assert "the error of the worst input of the detection's post-processing is " in found.verdict["text"]


@pytest.mark.parametrize(("excess", "regained", "says"), [
    ((20.0, 1.0), ((1, 9.0), (0, 2.0)), "not node 1: in float it regains 2.0 dB. Node 1 adds no more noise than"),
    ((20.0, 8.0), ((1, 9.0), (0, 2.0)), "not node 1: in float it regains 2.0 dB, because later nodes damp"),
    ((20.0, 8.0), ((1, 9.0),), "not node 1: it was not tried in float"),
    ((20.0, 8.0), ((0, 9.0), (1, 2.0)), "node 0 (CONV_2D) is the first, too"),
    ((20.0, 8.0), ((1, 0.04), (0, -1.0)), "No single node regains anything: the error comes from the inputs"),
    ((20.0, 8.0), ((0, -0.01), (1, -1.0)), "No single node regains anything: the error comes from the inputs")])
def test_why_two_orders_differ(excess, regained, says):
    found = report(*(tensor(node, "CONV_2D", 30.0, value) for node, value in enumerate(excess)))
    ranking = [Node(node, [node], "CONV_2D", [f"t{node}"], 30.0 + gain, gain, 30.0) for node, gain in regained]
    assert says in orders.explained(found, ranking, "{:.1f} dB".format)


def test_a_fault_that_floats_keep_explains_why_no_node_regains_anything():
    found = report(tensor(0, "CONCATENATION", 14.0, 41.8, True, "wrong operand"))
    ranking = [Node(0, [0], "CONCATENATION", ["t0"], 14.0, 0.0, 14.0)]
    assert "node 0 (CONCATENATION) keeps its fault in float: wrong operand, half of it is used." in orders.explained(
        found, ranking, "{:.1f} dB".format)


def test_bundled_models_are_known_by_name_everywhere(tmp_path):
    from pylite.validation.repair import repair
    part = tmp_path / "sums.npz"
    whole = validation.compare("digits", "digits", PICTURES, save=part, **SCALE)
    assert validation.merge("digits", "digits", [part]).to_json() == whole.to_json()
    assert repair("digits", "digits", PICTURES, **SCALE).before_db > 30
    found = sensitivity("digits", "digits", PICTURES, 10.0, samples=2, **SCALE)
    assert found.ok and found.order and found.order in found.lines()
