"""TFLite_Detection_PostProcess against the peer: the same boxes in the same order, with ties; non-max suppression."""
import numpy as np
import pytest
from flatbuffers import flexbuffers

from pylite.errors import OpError
from pylite.interpreter import Interpreter
from pylite.schema import flex, load
from pylite.schema.builder import ModelBuilder
from tests.tools.oneop import differential, run_peer, run_pylite

NAME = "TFLite_Detection_PostProcess"


def flexbuffer(options):
    """A dict as a FlexBuffer, as written by converters."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for key, value in options.items():
            builder.Key(key)
            add = {bool: builder.Bool, int: builder.Int, float: builder.Float, str: builder.String}[type(value)]
            add(value)
    return bytes(builder.Finish())


def found(inputs, model):
    """The peer's results, with zeros for the elements that it does not write."""
    options = flex.decode(load(model).subgraphs[0].operators[0].custom_options, NAME)
    boxes, labels, scores, count = run_peer(model, inputs)
    per_box, regular = options["max_classes_per_detection"], options["use_regular_nms"]
    for array in (boxes, labels, scores):
        if regular:
            array[:, int(count[0]):] = 0
        else:
            groups = array.reshape(options["max_detections"], per_box, -1)
            groups[int(count[0]):] = 0
            groups[:, options["num_classes"]:] = 0
    return [boxes, labels, scores, count]


def draw_detection(m, rng, dtype, regular, per_box):
    n, classes = int(rng.integers(1, 120)), int(rng.integers(1, 9))
    background = int(rng.integers(0, 2))
    levels = int(rng.choice([4, 50, 5000]))             # few levels give many ties
    quantization = {"scale": 0.05, "zero_point": 118} if dtype == "uint8" else {}
    encodings = rng.normal(0, 1.5, (1, n, 4 + int(rng.integers(0, 2)))).astype(np.float32)
    scores = (rng.integers(0, levels, (1, n, classes + background)) / levels).astype(np.float32)
    centres = rng.uniform(0, 1, (n, 2))
    anchors = np.concatenate([centres, rng.uniform(0.05, 0.5, (n, 2))], 1).astype(np.float32)
    if dtype == "uint8":
        encodings = np.clip(np.round(encodings / 0.05) + 118, 0, 255).astype(np.uint8)
        scores = np.round(scores * 255).astype(np.uint8)
        anchors = np.round(anchors * 200).astype(np.uint8)
    tensors = [m.tensor("encodings", encodings.shape, dtype, **quantization),
               m.tensor("scores", scores.shape, dtype, **({"scale": 1 / 255, "zero_point": 0} if quantization else {})),
               m.constant("anchors", anchors, **({"scale": 1 / 200, "zero_point": 0} if quantization else {}))]
    most = int(rng.integers(1, 30))
    options = {"max_detections": most, "max_classes_per_detection": per_box, "num_classes": classes,
               "nms_score_threshold": float(rng.choice([1e-8, 0.3])), "nms_iou_threshold": float(rng.uniform(0.2, 1)),
               "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0, "use_regular_nms": regular}
    if rng.random() < 0.5:
        options["detections_per_class"] = int(rng.integers(1, 40))
    outputs = [m.tensor("boxes", (1, most * per_box, 4)), m.tensor("labels", (1, most * per_box)),
               m.tensor("confidences", (1, most * per_box)), m.tensor("count", (1,))]
    m.operator(NAME, tensors, outputs, custom_options=flexbuffer(options))
    m.inputs(tensors[:2])
    m.outputs(outputs)
    return [encodings, scores]


@differential("float32", "uint8", count=40, tolerance=0, reference=found)
def test_all_classes_at_once(m, rng, dtype):
    return draw_detection(m, rng, dtype, regular=False, per_box=1)


@differential("float32", "uint8", count=40, tolerance=0, reference=found)
def test_several_classes_a_box(m, rng, dtype):
    return draw_detection(m, rng, dtype, regular=False, per_box=int(rng.integers(2, 6)))


@differential("float32", "uint8", count=40, tolerance=0, reference=found)
def test_class_by_class(m, rng, dtype):
    return draw_detection(m, rng, dtype, regular=True, per_box=int(rng.integers(1, 3)))


def small_model(anchor_height=0.5, **options):
    m = ModelBuilder()
    anchors = np.array([[0.5, 0.5, anchor_height, 0.5]] * 3, np.float32)
    tensors = [m.tensor("encodings", (1, 3, 4)), m.tensor("scores", (1, 3, 2)), m.constant("anchors", anchors)]
    outputs = [m.tensor(name, (1,)) for name in ("boxes", "labels", "confidences", "count")]
    given = {"max_detections": 2, "max_classes_per_detection": 1, "num_classes": 2, "nms_score_threshold": 0.0,
             "nms_iou_threshold": 0.5, "y_scale": 1.0, "x_scale": 1.0, "h_scale": 1.0, "w_scale": 1.0}
    m.operator(NAME, tensors, outputs, custom_options=flexbuffer(given | options))
    m.inputs(tensors[:2])
    m.outputs(outputs)
    return Interpreter(model_content=m.build())


def test_a_box_of_negative_size_is_refused_in_invoke():
    interpreter = small_model(anchor_height=-0.5)
    interpreter.allocate_tensors()
    with pytest.raises(RuntimeError, match=f"{NAME}.*minimum above its maximum"):
        interpreter.invoke()


@pytest.mark.parametrize(("options", "text"), [({"nms_iou_threshold": 0.0}, "nms_iou_threshold"),
                                               ({"max_detections": 0}, "max_detections is 0, not a number of at least"),
                                               ({"max_detections": "x"}, "max_detections is 'x', not a number"),
                                               ({"num_classes": 2.0**31}, "num_classes is .* and below 2"),
                                               ({"num_classes": 0}, "num_classes is 0"),
                                               ({"y_scale": float("nan")}, "y_scale is nan, not a number"),
                                               ({"num_classes": float("inf")}, "num_classes is inf, not a number of"),
                                               ({"num_classes": 4}, "scores")])
def test_invalid_options_are_refused(options, text):
    with pytest.raises(OpError, match=text):
        small_model(**options).allocate_tensors()


def test_a_threshold_may_be_infinite():
    interpreter = small_model(nms_score_threshold=float("-inf"))
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert interpreter.get_tensor(interpreter.get_output_details()[3]["index"]).tolist() == [1]


def non_max_suppression(m, rng, name, sigma=()):
    n, most = int(rng.integers(0 if rng.random() < 0.1 else 1, 60)), int(rng.integers(1, 30))
    boxes = np.concatenate([rng.random((n, 2)) * 3, rng.random((n, 2)) * 3], 1).astype(np.float32)
    scores = rng.integers(0, 20, n).astype(np.float32) / 20 if rng.random() < 0.5 else rng.random(n, np.float32)
    numbers = [np.array(v, np.float32) for v in (rng.choice([0.3, 0.5, 0.8]), rng.choice([0, 0.2]), *sigma)]
    inputs = [m.tensor("boxes", boxes.shape), m.tensor("scores", scores.shape)]
    inputs.append(m.constant("most", np.array(most, np.int32)))
    inputs += [m.constant(f"limit{i}", v) for i, v in enumerate(numbers)]
    outputs = [m.tensor("chosen", (), "int32")]
    if sigma:
        outputs.append(m.tensor("scores", ()))
    outputs.append(m.tensor("count", (), "int32"))
    m.operator(name, inputs, outputs)
    m.inputs(inputs[:2])
    m.outputs(outputs)
    return [boxes, scores]


def test_more_boxes_are_chosen_than_are_kept_in_order():
    """200 boxes apart from each other, each twice: the ones with the lower scores are suppressed."""
    places, order = np.arange(200, dtype=np.float32)[:, None], np.random.default_rng(0).permutation(400)
    boxes = np.tile(np.concatenate([places + 0.5, places, places, places + 0.5], 1), (2, 1))[order]
    scores = np.linspace(1, 0.1, 400, dtype=np.float32)[order]
    m = ModelBuilder()
    inputs = [m.tensor("boxes", boxes.shape), m.tensor("scores", scores.shape), m.constant("most", np.int32(300)),
              m.constant("overlap", np.float32(0.5)), m.constant("least", np.float32(0))]
    outputs = [m.tensor("chosen", (300,), "int32"), m.tensor("count", (), "int32")]
    m.operator("NON_MAX_SUPPRESSION_V4", inputs, outputs)
    m.inputs(inputs[:2])
    m.outputs(outputs)
    chosen, count = run_pylite(m.build(), [boxes, scores])
    assert count == 200
    np.testing.assert_array_equal(order[chosen[:200]], np.arange(200))


@differential("float32", count=40)
def test_non_max_suppression_v4(m, rng, dtype):
    return non_max_suppression(m, rng, "NON_MAX_SUPPRESSION_V4")


@differential("float32", count=40)
def test_non_max_suppression_v5(m, rng, dtype):
    return non_max_suppression(m, rng, "NON_MAX_SUPPRESSION_V5", (rng.choice([0, 0.1, 0.5, 2]),))


def test_a_box_without_area_is_chosen_once_for_each_candidate():
    """It does not suppress itself, so the reference chooses it again, up to the number of candidates."""
    m = ModelBuilder()
    fed = non_max_suppression(m, np.random.default_rng(0), "NON_MAX_SUPPRESSION_V4")
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    boxes, scores = np.zeros_like(fed[0]), np.zeros_like(fed[1])
    scores[:3] = 0.9, 0.5, 0.4
    boxes[1] = boxes[2] = 1, 1, 2, 2
    interpreter.set_tensor(0, boxes)
    interpreter.set_tensor(1, scores)
    interpreter.invoke()
    chosen, count = (interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details())
    assert count == 3 and chosen[:4].tolist() == [0, 0, 0, 0]
