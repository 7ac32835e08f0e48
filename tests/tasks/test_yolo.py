"""Ultralytics' heads: what tasks return equals a plain statement of the published decoding, on random outputs."""
import csv
import io
import json
import zipfile

import numpy as np
import pytest

from pylite import cli
from pylite.errors import ModelError
from pylite.media import images, yolo
from pylite.schema.builder import ModelBuilder
from pylite.tasks import FaceDetector, ImageClassifier, ImageSegmenter, ObjectDetector, PoseEstimator
from pylite.tasks.detection import face_anchors
from tests.tools import resources

SIZE = 64
NAMES = {0: "person", 1: "cat", 2: "dog"}
PICTURE = np.random.default_rng(3).integers(0, 256, (48, 96, 3), np.uint8)     # twice as wide as high
SCALE = 96 / SIZE           # pixels of the picture in one of the input; 16 rows of border above and below


def model(outputs, metadata=None, size=SIZE, dtype="float32", scale=None, zero_point=0, name="metadata.json"):
    """A model whose outputs are these arrays, whatever its input; quantized to `dtype` with the scale."""
    m = ModelBuilder()
    x = m.tensor("image", (1, size, size, 3))
    made = []
    for number, array in enumerate(outputs):
        if scale:
            span = np.iinfo(dtype)
            array = np.clip(np.round(array / scale) + zero_point, span.min, span.max).astype(dtype)
            made.append(m.constant(f"y{number}", array, scale=scale, zero_point=zero_point))
        else:
            made.append(m.constant(f"y{number}", array.astype(np.float32)))
    m.inputs([x])
    m.outputs(made)
    contents = m.build()
    if metadata is None:
        return contents
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(name, json.dumps(metadata) if name.endswith("json") else repr(metadata))
    return contents + archive.getvalue()


def described(task="detect", **more):
    return {"names": {str(k): v for k, v in NAMES.items()}, "task": task, "imgsz": [SIZE, SIZE], "stride": 32, **more}


def random_rows(rng, count=200, extra=0):
    """(count, 4 + 3 + extra): boxes as fractions, scores, further numbers."""
    boxes = np.hstack([rng.random((count, 2)), rng.uniform(0.05, 0.6, (count, 2))])
    return np.hstack([boxes, rng.random((count, 3)) ** 2, rng.normal(size=(count, extra))])


def in_picture(x, y):
    """Fractions of the square input as pixels of the picture, inside it."""
    return np.clip(x * SIZE * SCALE, 0, 96), np.clip((y * SIZE - 16) * SCALE, 0, 48)


def plainly(rows, least=0.25, overlap=0.7):
    """[(class, score, (left, top, right, bottom) as fractions, row)] after suppression class by class."""
    scores, classes = rows[:, 4:7].max(1), rows[:, 4:7].argmax(1)
    kept = []
    for i in sorted(np.flatnonzero(scores >= least), key=lambda i: (-scores[i], i)):
        x, y, w, h = rows[i, :4]
        box = x - w / 2, y - h / 2, x + w / 2, y + h / 2
        if not any(c == classes[i] and iou(box, other) > overlap for c, _, other, _ in kept):
            kept.append((classes[i], scores[i], box, rows[i]))
    return kept


def iou(a, b):
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    common = max(wide, 0) * max(high, 0)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def same(found, wanted):
    assert len(found) == len(wanted) > 3
    for detection, (kind, score, box, _) in zip(found, wanted, strict=True):
        category = detection.categories[0]
        assert (category.index, category.category_name) == (kind, NAMES[kind])
        assert category.score == pytest.approx(score, abs=1e-6)
        left, top = in_picture(box[0], box[1])
        right, bottom = in_picture(box[2], box[3])
        b = detection.bounding_box
        np.testing.assert_allclose([b.origin_x, b.origin_y, b.origin_x + b.width, b.origin_y + b.height],
                                   [left, top, right, bottom], atol=0.5 + 1e-6)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("pixels", [False, True])
@pytest.mark.parametrize("kind", ["v8", "v5", "temp_meta", "labels"])
def test_detect(kind, pixels, transposed):
    rows = random_rows(np.random.default_rng(1)).astype(np.float32).astype(np.float64)
    output = rows.copy()
    if kind == "v5":
        output = np.insert(output, 4, 0.5, 1)
        output[:, 5:] *= 2
    if pixels:
        output[:, :4] *= SIZE
    output = (output.T if transposed else output)[None]
    name = "temp_meta.txt" if kind == "temp_meta" else "metadata.json"
    metadata = None if kind == "labels" else described()
    detector = ObjectDetector(model([output], metadata, name=name), labels=list(NAMES.values()) if kind == "labels"
                              else None)
    same(detector.detect(PICTURE), plainly(rows))


@pytest.mark.parametrize(("dtype", "zero_point"), [("int8", -128), ("uint8", 0), ("int16", 0)])
def test_quantized_outputs(dtype, zero_point):
    scale = np.float32(1 / 255 if dtype != "int16" else 1 / 32767)
    rows = random_rows(np.random.default_rng(2)).clip(0, 1)
    rows = (np.round(rows / scale) * scale).astype(np.float32).astype(np.float64)
    detector = ObjectDetector(model([rows.T[None]], described(), dtype=dtype, scale=scale, zero_point=zero_point))
    same(detector.detect(PICTURE), plainly(rows))


@pytest.mark.parametrize("names", [{}, {"0": "a", "2": "b"}, {"-1": "a"}, {"999999999999": "a"}, []])
def test_names_that_are_no_list_of_classes(names):
    with pytest.raises(ModelError, match="expected names for 0, 1, 2 and so on"):
        ObjectDetector(model([np.zeros((1, 5, 3))], described() | {"names": names}))


@pytest.mark.parametrize("points", [[float("inf"), 3], [1e400, 3], {}, "ab"])
def test_key_points_that_are_no_numbers(points):
    with pytest.raises(ModelError, match=r"is damaged|says task"):
        ObjectDetector(model([np.zeros((1, 5, 3))], described("pose", kpt_shape=points or [0])))


def test_a_segmenter_without_prototypes():
    rows = random_rows(np.random.default_rng(1), extra=32)
    segmenter = ImageSegmenter(model([rows.T[None]], described("segment")))
    with pytest.raises(ModelError, match="it has one output; expected a second one of prototypes"):
        segmenter.segment(PICTURE)


def test_choices():
    rows = random_rows(np.random.default_rng(4))
    file = model([rows.T[None]], described())
    strict = ObjectDetector(file, score_threshold=0.6, iou_threshold=0.2)
    same(strict.detect(PICTURE), plainly(rows, 0.6, 0.2))
    assert len(ObjectDetector(file, max_results=2).detect(PICTURE)) == 2
    cats = ObjectDetector(file, category_allowlist=["cat"]).detect(PICTURE)
    assert {detection.categories[0].category_name for detection in cats} == {"cat"}
    with pytest.raises(ValueError, match=r"iou_threshold is 7; expected a number from 0 to 1"):
        ObjectDetector(file, iou_threshold=7)
    with pytest.raises(ValueError, match=r"score_threshold is 7; expected a number from 0 to 1"):
        ObjectDetector(file, score_threshold=7)
    with pytest.raises(ValueError, match=r"5 names, and the model 3 classes"):
        ObjectDetector(file, labels=list("abcde"))


def test_end_to_end():
    rows = np.array([[0.1, 0.3, 0.5, 0.6, 0.9, 2], [0.1, 0.3, 0.5, 0.61, 0.8, 2], [0, 0, 0, 0, 0, 0]])
    found = ObjectDetector(model([rows[None]], described(end2end=True))).detect(PICTURE)
    assert [(d.categories[0].category_name, round(d.categories[0].score, 3)) for d in found] == [("dog", 0.9),
                                                                                                ("dog", 0.8)]
    assert found[0].bounding_box.origin_x == round(0.1 * 96)


def test_pose():
    rows = random_rows(np.random.default_rng(5), 60, 51)
    rows[:, 7:] = np.random.default_rng(6).random((60, 51))
    metadata = described("pose", kpt_shape=[17, 3])
    file = model([rows.T[None]], metadata)
    wanted = plainly(rows)
    same(ObjectDetector(file).detect(PICTURE), wanted)
    poses = PoseEstimator(file, score_threshold=0.5).estimate_all(PICTURE)
    assert len(poses) == len(wanted)
    for pose, (_, score, _, row) in zip(poses, wanted, strict=True):
        assert pose.score == pytest.approx(score)
        points = row[7:].reshape(17, 3)
        assert len(pose.keypoints) == (points[:, 2] >= 0.5).sum()
        x, y = in_picture(*points[points[:, 2] >= 0.5, :2].T)
        np.testing.assert_allclose([[p.x, p.y] for p in pose.keypoints], np.stack([x, y], 1), atol=1e-4)
    assert PoseEstimator(file).estimate(PICTURE) == PoseEstimator(file).estimate_all(PICTURE)[0]


@pytest.mark.parametrize("planar", [False, True])
def test_masks(planar):
    rng = np.random.default_rng(7)
    rows = random_rows(rng, 40, 32)
    basis = rng.normal(size=(1, 16, 16, 32))
    file = model([rows.T[None], basis.transpose(0, 3, 1, 2) if planar else basis], described("segment"))
    detections, wanted = ObjectDetector(file).detect(PICTURE), plainly(rows)
    same(detections, wanted)
    for detection, (_, _, box, row) in zip(detections, wanted, strict=True):
        logits = basis[0] @ row[7:]
        left, top = in_picture(box[0], box[1])
        right, bottom = in_picture(box[2], box[3])
        for y in range(0, 48, 5):
            for x in range(0, 96, 7):
                if not (np.floor(left) <= x < np.ceil(right) and np.floor(top) <= y < np.ceil(bottom)):
                    assert not detection.mask[y, x]
                    continue
                at = np.array([((y + 0.5) / SCALE + 16) / 4 - 0.5, (x + 0.5) / SCALE / 4 - 0.5]).clip(0, 15)
                low = at.astype(int)
                high, part = np.minimum(low + 1, 15), at - low
                value = sum(logits[i, j] * a * b for i, a in ((low[0], 1 - part[0]), (high[0], part[0]))
                            for j, b in ((low[1], 1 - part[1]), (high[1], part[1])))
                assert abs(value) < 1e-3 or detection.mask[y, x] == (value > 0)
    found = ImageSegmenter(file).segment(PICTURE)
    assert found.category_mask.shape == (48, 96) and found.labels[3] == "background"
    best = detections[0]
    assert (found.category_mask[best.mask] == best.categories[0].index).all()


def test_rotated_boxes():
    rng = np.random.default_rng(8)
    rows = random_rows(rng, 80, 1)
    rows[:, 7] = rng.uniform(0, np.pi, 80)
    found = ObjectDetector(model([rows.T[None]], described("obb")), iou_threshold=0.3).detect(PICTURE)
    assert 3 < len(found) < 80
    scores = [d.categories[0].score for d in found]
    assert scores == sorted(scores, reverse=True)
    best = rows[rows[:, 4:7].max(1).argmax()]
    corners = found[0].corners
    np.testing.assert_allclose(corners.mean(0), np.stack(in_picture(best[0], best[1])), atol=1e-3)
    sides = np.linalg.norm(np.diff(corners, axis=0), axis=1)
    np.testing.assert_allclose(sides[:2], best[2:4] * SIZE * SCALE, rtol=1e-5)
    assert np.tan(np.arctan2(*(corners[1] - corners[0])[::-1])) == pytest.approx(np.tan(best[7]), rel=1e-3)


def test_the_overlap_of_rotated_boxes():
    boxes = np.array([[0.5, 0.5, 0.4, 0.2]] * 3 + [[0.9, 0.9, 0.01, 0.01]])
    angles = np.array([0.0, 0.0, np.pi / 2, 0.0])
    found = yolo.Candidates(boxes, np.ones(4), np.zeros(4, np.int64), angles)
    same_box, crossed, far = yolo._rotated_overlaps(found, 0, np.arange(1, 4))
    assert same_box > 0.99 and 0.3 < crossed < 0.8 and far < 0.01
    assert len(yolo.suppressed(found, 0.9, 10).scores) == 3


def test_the_command_decodes_and_draws(tmp_path, capsys):
    rows = random_rows(np.random.default_rng(1))
    (tmp_path / "yolo.tflite").write_bytes(model([rows.T[None]], described()))
    images.write(tmp_path / "picture.ppm", PICTURE)
    assert cli.main(["run", str(tmp_path / "yolo.tflite"), "--input", str(tmp_path / "picture.ppm"), "--json", "--top",
                     "3", "--save", str(tmp_path / "drawn.ppm")]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)["outputs"][0]["detections"]
    assert [(one["class"], one["label"]) for one in found] == [
        (kind, NAMES[kind]) for kind, *_ in plainly(rows, 0.3)[:3]]
    assert "wrote" in printed.err and "drawn.ppm" in printed.err
    assert (images.read(tmp_path / "drawn.ppm") != PICTURE).any()


def shown(capsys, tmp_path, contents, *options):
    """What `pylite run` prints for a model and PICTURE."""
    (tmp_path / "model.tflite").write_bytes(contents)
    images.write(tmp_path / "picture.ppm", PICTURE)
    assert cli.main(["run", str(tmp_path / "model.tflite"), "--input", str(tmp_path / "picture.ppm"), *options]) == 0
    return capsys.readouterr().out


def test_the_command_names_the_points_of_a_body(tmp_path, capsys):
    points = np.random.default_rng(2).random((1, 1, 17, 3))
    points[0, 0, :, 2] = np.arange(17) / 17
    text = shown(capsys, tmp_path, model([points]), "--threshold", "0.5", "--save", str(tmp_path / "drawn.ppm"))
    pose = PoseEstimator(model([points]), score_threshold=0.5).estimate(PICTURE)
    assert [line.rsplit(None, 2)[0].split(None, 1) + line.rsplit(None, 2)[1:] for line in text.splitlines()[2:-1]] == [
        [f"{p.score:.4f}", p.name, str(round(p.x)), str(round(p.y))] for p in pose.keypoints]
    assert len(pose.keypoints) == 8 and pose.keypoints[0].name == "left wrist"
    drawn = images.read(tmp_path / "drawn.ppm")
    assert all((drawn[round(p.y) - 1, round(p.x) - 1] == (230, 25, 75)).all() for p in pose.keypoints)
    found = json.loads(shown(capsys, tmp_path, model([points]), "--json", "--threshold", "0"))["outputs"][0]
    assert found["kind"] == "points" and [p["label"] for p in found["points"]][::16] == ["nose", "right ankle"]
    np.testing.assert_allclose([(p["place"]["y"], p["place"]["x"], p["score"]) for p in found["points"]],
                               points.astype(np.float32)[0, 0], rtol=1e-6)
    assert "no point with a score of 1.0 or more" in shown(capsys, tmp_path, model([points]), "--threshold", "1")


def test_the_command_lists_the_points_of_many_files(tmp_path, capsys):
    points = np.full((1, 1, 17, 3), 0.5)
    points[0, 0, :4, 2] = 0.1
    (tmp_path / "model.tflite").write_bytes(model([points]))
    images.write(tmp_path / "picture.ppm", PICTURE)
    command = ["run", str(tmp_path / "model.tflite"), str(tmp_path / "picture.ppm")]
    assert cli.main(command) == 0
    assert capsys.readouterr().out.endswith("picture.ppm: 13 of 17 points with a score of 0.3 or more\n")
    assert cli.main([*command, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [rows[0][key] for key in ("label", "score", "x", "y")] == ["right ear", "0.5", "48", "24"]
    assert len(rows) == 13


def test_the_command_shows_the_points_of_each_object(tmp_path, capsys):
    rows = np.zeros((3, 7 + 51))
    rows[1] = [0.5, 0.5, 0.2, 0.2, 0.9, 0, 0, *np.tile([0.25, 0.5, 0.8], 17)]
    text = shown(capsys, tmp_path, model([rows.T[None]], described("pose", kpt_shape=[17, 3])))
    assert "points of person 1:" in text and "0.8000  left wrist " in text
    x, y = in_picture(0.25, 0.5)
    assert text.splitlines()[5].split() == ["0.8000", "nose", str(round(x)), str(round(y))]


def test_the_command_finds_faces(tmp_path, capsys):
    rows, scores = np.zeros((1, 896, 16)), np.full((1, 896, 1), -9.0)
    rows[0, 300, :4], scores[0, 300] = [0, 0, 30, 30], 2.0
    contents = model([rows, scores], size=128)
    [face] = FaceDetector(contents).detect(PICTURE)
    text = shown(capsys, tmp_path, contents)
    box = face.bounding_box
    assert text.splitlines()[1].split() == ["0.8808", "0", "face", *map(str, (
        box.origin_y, box.origin_x, box.origin_y + box.height, box.origin_x + box.width))]
    assert "points of face 1:\npoint " in text and "left eye" in text


def test_classify():
    file = model([np.array([[0.1, 0.7, 0.2]])], described("classify"))
    assert str(ImageClassifier(file, max_results=1).classify(PICTURE)) == "cat 0.700"


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("wide", [True, False])
def test_what_a_classifier_sees(wide, dtype, tmp_path, capsys):
    """The middle of the picture, its pixels as 0..1; in a task and in `pylite run`, with the names of the metadata."""
    m = ModelBuilder()
    kind = {"scale": 1 / 255, "zero_point": -128} if dtype == "int8" else {}
    x, y = m.tensor("image", (1, 2, 2, 1), dtype, **kind), m.tensor("y", (1, 4), dtype, **kind)
    m.operator("RESHAPE", [x, m.constant("shape", np.int32([1, 4]))], [y], new_shape=(1, 4))
    m.inputs([x])
    m.outputs([y])
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("metadata.json", json.dumps({"names": list("abcd"), "task": "classify"}))
    content = m.build() + archive.getvalue()
    pixels = np.uint8([[255, 51, 102, 255], [255, 153, 204, 255]])
    picture = pixels if wide else pixels.T[:, ::-1]
    want = {"abcd"[i]: value for i, value in enumerate([0.2, 0.4, 0.6, 0.8] if wide else [0.6, 0.2, 0.8, 0.4])}
    found = ImageClassifier(content).classify(picture).classifications[0].categories
    assert {one.category_name: pytest.approx(one.score, abs=1e-6) for one in found} == want
    (tmp_path / "m.tflite").write_bytes(content)
    (tmp_path / "picture.pgm").write_bytes(b"P5 %d %d 255\n" % picture.shape[::-1] + picture.tobytes())
    assert cli.main(["run", str(tmp_path / "m.tflite"), "--input", str(tmp_path / "picture.pgm"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["outputs"][0]["classes"]
    assert {one["label"]: pytest.approx(one["score"], abs=1e-6) for one in found} == want


@pytest.mark.parametrize(("metadata", "text"), [
    ({"names": 3}, "damaged"), ({"names": {"0": "a"}, "task": "dance"}, "says task 'dance'"),
    ({"names": {"0": "a"}, "task": "pose", "kpt_shape": [0, 3]}, "key points"), ("text", "damaged"),
])
def test_damaged_metadata(metadata, text):
    with pytest.raises(ModelError, match=text):
        ObjectDetector(model([np.zeros((1, 7, 20))], metadata))


def test_other_outputs():
    with pytest.raises(ModelError, match=r"shape \[1, 9, 20\].*7 \(v8, 11\), 8 \(v5\) or 6"):
        ObjectDetector(model([np.zeros((1, 9, 20))], described())).detect(PICTURE)
    with pytest.raises(ModelError, match=r"give labels with the name of each class"):
        ObjectDetector(model([np.zeros((1, 7, 20))]))
    with pytest.raises(ModelError, match=r"gives \(1, classes\); ObjectDetector takes it"):
        ImageClassifier(model([np.zeros((1, 7, 20))], described()))
    with pytest.raises(ModelError, match=r"ImageClassifier takes"):
        ImageSegmenter(model([np.zeros((1, 3))]))
    with pytest.raises(ModelError, match=r"expected \[1, 1, 17, 3\]"):
        PoseEstimator(model([np.zeros((1, 3))]))


def test_reported_heads():
    names = ["person", "cat", "dog"]
    for file, options in (("yolo_head_metadata", {}), ("yolo_head_int8", {"labels": names})):
        path = resources.models() / "reports" / f"{file}.tflite"
        with pytest.raises(ModelError, match="does not take a picture"):      # the head of a network, without its body
            ObjectDetector(path, **options).detect(PICTURE)


def test_faces():
    rng = np.random.default_rng(9)
    rows, scores = rng.normal(0, 1, (1, 896, 16)), np.full((1, 896, 1), -9.0)
    anchors = face_anchors(128)
    assert anchors.shape == (896, 2)
    assert anchors[[0, 512]].tolist() == [[0.5 / 16] * 2, [0.5 / 8] * 2]
    for place, score in ((300, 2.0), (301, 1.5), (700, 1.0)):
        rows[0, place, :4] = [0, 0, 30, 30]
        scores[0, place] = score
    rows[0, 301, :4] = rows[0, 300, :4]
    detector = FaceDetector(model([rows, scores], size=128))
    faces = detector.detect(np.zeros((128, 128, 3), np.uint8))
    assert [round(f.categories[0].score, 4) for f in faces] == [round(1 / (1 + np.exp(-s)), 4) for s in (2.0, 1.0)]
    x, y = anchors[300] * 128
    b = faces[0].bounding_box
    np.testing.assert_allclose([b.origin_x, b.origin_y, b.width, b.height], [x - 15, y - 15, 30, 30], atol=1)
    assert [p.name for p in faces[0].keypoints][:2] == ["left eye", "right eye"]
    assert faces[0].keypoints[2].x == pytest.approx(np.clip(x + rows[0, 300, 8], 0, 128), abs=1e-3)
    with pytest.raises(ModelError, match="expected a BlazeFace"):
        FaceDetector(model([rows[:, :10], scores], size=128))


def test_a_real_face_model_runs():
    path = resources.models() / "go-tflite/_example/blazeface/face_detection_front.tflite"
    assert FaceDetector(path, score_threshold=0.99).detect(PICTURE) == []
