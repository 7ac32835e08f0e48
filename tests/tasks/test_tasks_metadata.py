"""What pylite.tasks take from a model's metadata: labels, thresholds, calibration, outputs, vocabularies; damage."""
import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pylite
from pylite import tasks
from pylite.errors import ModelError
from pylite.media import labels, metadata
from pylite.schema import tables
from pylite.schema.builder import ModelBuilder
from pylite.tasks import AudioClassifier, BoundingBox, ImageClassifier, ImageSegmenter, ObjectDetector, TextEmbedder
from pylite.tasks.text import WordPieces
from tests.tools.model_metadata import file, unit, with_metadata

PICTURE = np.zeros((60, 80, 3), np.uint8)


def scores_model(shape=(1, 1, 1, 4)):
    """Its output is its input, the pixels of one picture."""
    m = ModelBuilder()
    x, y = m.tensor("x", shape), m.tensor("y", (1, 4))
    m.operator("RESHAPE", [x, m.constant("s", np.array([1, 4], np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    return m


LABELS = {"labels.txt": "cat\ndog\nbird\nfish\n", "labels_de.txt": "Katze\nHund\nVogel\nFisch\n"}


def classifier_of(units=(), **arguments):
    content = with_metadata(
        scores_model(), inputs=[{"process_units": [unit("NormalizationOptions", mean=(0.0,), std=(255.0,))]}],
        outputs=[{"name": "score", "process_units": list(units), "associated_files": [
            file("labels.txt", metadata.AXIS_LABELS), file("labels_de.txt", metadata.AXIS_LABELS, "de"),
            file("calibration.csv", metadata.CALIBRATION)]}],
        files=LABELS | {"calibration.csv": "2,3,-1\n\n1,-2,0.5,0.4\n"})
    return ImageClassifier(content, **arguments)


RGBA = np.array([[[51, 204, 102, 255]]], np.uint8)      # scores 0.2, 0.8, 0.4 and 1


def test_labels_of_the_metadata_and_their_translation():
    found = classifier_of(display_names_locale="de").classify(RGBA)
    assert [(c.category_name, c.display_name) for c in found.categories] == [
        ("fish", "Fisch"), ("dog", "Hund"), ("bird", "Vogel"), ("cat", "Katze")]
    assert [c.score for c in found.categories] == pytest.approx([1, 0.8, 0.4, 0.2])
    assert found.classifications[0].head_name == "score"


@pytest.mark.parametrize(("arguments", "names"), [
    ({"max_results": 2}, ["fish", "dog"]), ({"score_threshold": 0.5}, ["fish", "dog"]),
    ({"score_threshold": 2.0}, []), ({"category_allowlist": ["cat", "bird"]}, ["bird", "cat"]),
    ({"category_denylist": ["fish"], "max_results": 1}, ["dog"]), ({"labels": ["a", "b", "c", "d"]}, list("dbca")),
    ({"labels": {1: "only"}}, ["", "only", "", ""])])
def test_which_classes_are_returned(arguments, names):
    assert [c.category_name for c in classifier_of(**arguments).classify(RGBA).categories] == names


def test_the_threshold_of_the_metadata_and_the_callers():
    threshold = unit("ScoreThresholdingOptions", global_score_threshold=0.5)
    assert len(classifier_of([threshold]).classify(RGBA).categories) == 2
    assert len(classifier_of([threshold], score_threshold=0.0).classify(RGBA).categories) == 4


@pytest.mark.parametrize(("transformation", "g"), [
    (0, lambda x: x), (metadata.LOG, np.log), (metadata.INVERSE_LOGISTIC, lambda x: np.log(x / (1 - x)))])
def test_score_calibration(transformation, g):
    """By its definition; a class without parameters, and one below its least score, have the default."""
    options = unit("ScoreCalibrationOptions", score_transformation=transformation, default_score=0.125)
    found = {c.index: c.score for c in classifier_of([options]).classify(RGBA).categories}
    assert found[0] == pytest.approx(2 / (1 + np.exp(-(3 * g(0.2) - 1))), rel=1e-6)
    assert found[2] == pytest.approx(1 / (1 + np.exp(-(-2 * g(0.4000001) + 0.5))), rel=1e-5)
    assert found[1] == found[3] == 0.125
    low = RGBA.copy()
    low[..., 2] = 101
    assert {c.index: c.score for c in classifier_of([options]).classify(low).categories}[2] == 0.125


def detector_of(properties, names=("location", "category", "score", "number of detections"), changed=None,
                **arguments):
    """A detector whose outputs are constants, in the order of `names`; changed: other ones."""
    values = {"location": np.array([[[0.1, 0.2, 0.5, 0.9], [0, 0, 2, 1]]], np.float32),
              "category": np.array([[1, 0]], np.float32), "score": np.array([[0.5, 0.75]], np.float32),
              "number of detections": np.array([2], np.float32)} | {
        name: np.array(value, np.float32) for name, value in (changed or {}).items()}
    m = ModelBuilder()
    x, outputs = m.tensor("x", (1, 2, 2, 3)), []
    for name in names:
        y = m.tensor(name, values[name].shape)
        m.operator("NEG", [m.constant(f"{name} value", -values[name])], [y])
        outputs.append(y)
    m.inputs([x])
    m.outputs(outputs)
    content = tables.table("Content")(content_properties=tables.table("BoundingBoxProperties")(**properties))
    described = [{"name": name} | ({"content": content} if name == "location" else {"associated_files": [
        file("labels.txt", metadata.VALUE_LABELS)]} if name == "category" else {}) for name in names]
    return ObjectDetector(with_metadata(m, outputs=described, files={"labels.txt": "cat\ndog\n"}), **arguments)


def test_a_detector_whose_metadata_name_its_outputs():
    """In another order than the op's, and with boxes as left, top, right, bottom; these are clipped to the picture."""
    detector = detector_of({"type": metadata.BOUNDARIES}, ("score", "location", "number of detections", "category"))
    found = detector.detect(PICTURE)
    assert [(d.categories[0].category_name, d.categories[0].score, d.bounding_box) for d in found] == [
        ("cat", 0.75, BoundingBox(0, 0, 80, 60)), ("dog", 0.5, BoundingBox(8, 12, 32, 42))]
    rows_first = detector_of({"type": metadata.BOUNDARIES, "index": (1, 0, 3, 2)}, category_allowlist=["dog"])
    assert [d.bounding_box for d in rows_first.detect(PICTURE)] == [BoundingBox(16, 6, 56, 24)]


def test_boxes_by_their_centres_are_refused():
    with pytest.raises(ModelError, match="'location' by their centres"):
        detector_of({"type": 3})


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(("changed", "found"), [
    ({"location": [[[NAN] * 4, [0, 0, 1, 1]]]}, ["cat"]),
    ({"location": [[[0, 0, INFINITY, 1], [0, 0, 1, 1]]]}, ["cat"]),
    ({"category": [[NAN, 0]]}, ["cat"]), ({"category": [[1e30, 0]]}, ["cat"]), ({"category": [[-7, 0]]}, ["cat", ""]),
    ({"score": [[NAN, 0.5]]}, ["cat"]), ({"number of detections": [0]}, []),
    ({"number of detections": [INFINITY]}, ["cat", "dog"])])
def test_objects_without_a_box_a_class_or_a_score_are_left_out(changed, found):
    detections = detector_of({"type": metadata.BOUNDARIES}, changed=changed).detect(PICTURE)
    assert [d.categories[0].category_name for d in detections] == found


@pytest.mark.parametrize(("changed", "words"), [
    ({"number of detections": [NAN]}, r"objects is \[nan\]"),
    ({"number of detections": [-1]}, r"objects is \[-1\.0\]"),
    ({"number of detections": []}, r"objects is \[\]"),
    ({"number of detections": [1, 2]}, r"objects is \[1\.0, 2\.0\]"),
    ({"location": [[[0, 0, 1, 1]]]}, "4 numbers for the boxes and 2 classes of 2 objects"),
    ({"location": [[[0, 0, 1, 1, 1]] * 2]}, "10 numbers"),
    ({"category": [[1]]}, "8 numbers for the boxes and 1 classes")])
def test_outputs_of_a_detector_that_do_not_fit_together(changed, words):
    detector = detector_of({"type": metadata.BOUNDARIES}, changed=changed)
    with pytest.raises(ModelError, match=words):
        detector.detect(PICTURE)


@pytest.mark.parametrize("order", [(9, 9, 9, 9), (0, 1, 2), (0, 0, 0, 0), (0, 1, 2, 3, 0), (2**32 - 1, 1, 2, 3)])
def test_edges_of_boxes_in_an_order_that_cannot_be(order):
    with pytest.raises(ModelError, match=r"'location' in the order .* each of 0 to 3 once"):
        detector_of({"type": metadata.BOUNDARIES, "index": order})


@pytest.mark.parametrize(("mean", "std"), [((0.0,), (0.0,)), ((NAN,), (1.0,)), ((0.0,), (INFINITY,))])
def test_pixels_that_cannot_be_normalized(mean, std):
    options = unit("NormalizationOptions", mean=mean, std=std)
    with pytest.raises(ModelError, match=r"normalize input 'x' by the mean .* no deviation of 0"):
        ImageClassifier(with_metadata(scores_model(), inputs=[{"name": "x", "process_units": [options]}]))


@pytest.mark.parametrize("rate", [metadata.HIGHEST_RATE + 1, 2**32 - 1])
def test_sound_of_a_rate_that_no_microphone_has(rate):
    content = with_metadata(scores_model(), inputs=[{"name": "x", "content": tables.table("Content")(
        content_properties=tables.table("AudioProperties")(sample_rate=rate, channels=1))}])
    with pytest.raises(ModelError, match=f"input 'x' a sample rate of {rate} Hz; expected at most 1000000"):
        AudioClassifier(content)


def test_a_million_labels_and_more_than_there_are_classes():
    names = "".join(f"{'word' if i % 2 else 'x'} {i}\n" for i in range(1_000_000))
    found = labels.parse(names)
    assert len(found) == 1_000_000 and found[999_999] == "word 999999"
    content = with_metadata(scores_model(), outputs=[{"associated_files": [file("a.txt", metadata.AXIS_LABELS)]}],
                            files={"a.txt": names})
    assert [c.category_name for c in ImageClassifier(content).classify(RGBA).categories] == [
        "word 3", "word 1", "x 2", "x 0"]


def constant_output(value, shape, dtype):
    """A model of a picture whose output is constant."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 2, 2, 3)), m.tensor("y", shape, dtype)
    m.operator("RESHAPE", [m.constant("c", np.array(value, dtype).reshape(-1)),
                           m.constant("s", np.array(shape, np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build()


@pytest.mark.parametrize(("dtype", "order"), [("uint8", [2, 1, 0]), ("int8", [2, 1, 0]), ("bool", [1, 2, 0])])
def test_scores_of_every_type_are_ranked(dtype, order):
    """0 is the least score without a sign, although its negative is, too."""
    model = constant_output([-128 if dtype == "int8" else 0, 3, 7], (1, 3), dtype)
    assert [c.index for c in ImageClassifier(model).classify(PICTURE).categories] == order


def test_complex_scores_are_refused():
    with pytest.raises(ModelError, match="output 'y' is of complex numbers; expected real numbers"):
        ImageClassifier(constant_output([1, 2], (1, 2), "complex64")).classify(PICTURE)


def test_a_score_that_is_no_number_reaches_no_threshold():
    model = constant_output([0.5, NAN, 0.25], (1, 3), "float32")
    assert [c.index for c in ImageClassifier(model, score_threshold=0.1).classify(PICTURE).categories] == [0, 2]


@pytest.mark.parametrize(("value", "shape", "dtype", "mask"), [
    ([-5, 300], (1, 1, 2), "int64", [[-5, 300]]), ([0, 255], (1, 1, 2), "int64", [[0, 255]]),
    (np.arange(600) == 299, (1, 1, 2, 300), "float32", [[299, 0]])])
def test_classes_of_pixels_beyond_a_byte_are_kept(value, shape, dtype, mask):
    assert ImageSegmenter(constant_output(value, shape, dtype)).segment(PICTURE).category_mask.tolist() == mask


@pytest.mark.parametrize("shape", [(1, 0, 0, 0), (1, 2, 2, 0), (1, 0, 3)])
def test_pixels_without_classes_are_refused(shape):
    with pytest.raises(ModelError, match=r"expected .1, height, width. of classes"):
        ImageSegmenter(constant_output([], shape, "int64")).segment(PICTURE)


def test_vocabulary_mask_and_segments():
    m = ModelBuilder()
    names = ["ids", "mask", "segment_ids"]
    xs = [m.tensor(name, (1, 6), "int32") for name in names]
    ys = [m.tensor(f"{name} out", (1, 6), "float32") for name in names]
    joined = m.tensor("joined", (1, 18))
    for x, y in zip(xs, ys, strict=True):
        m.operator("CAST", [x], [y])
    m.operator("CONCATENATION", ys, [joined], axis=1)
    m.inputs(xs)
    m.outputs([joined])
    vocabulary = unit("BertTokenizerOptions", vocab_file=[file("vocab.txt", metadata.VOCABULARY)])
    content = with_metadata(m, inputs=[{"name": name} for name in names], units=[vocabulary],
                            files={"vocab.txt": "[PAD]\n[CLS]\n[SEP]\n[UNK]\nyes\n"})
    vector = TextEmbedder(content).embed("Yes no").feature_vector
    assert vector.tolist() == [1, 4, 3, 2, 0, 0] + [1, 1, 1, 1, 0, 0] + [0] * 6


def words_model(separators="[^\\w\\']+", words="<PAD> 0\n<START> 1\n<UNKNOWN> 2\ngood 7\ndon't 8\n"):
    """Its output is its input, the numbers of words, as in the movie review model of TensorFlow."""
    m = ModelBuilder()
    x, y = m.tensor("ids", (1, 6), "int32"), m.tensor("y", (1, 6))
    m.operator("CAST", [x], [y])
    m.inputs([x])
    m.outputs([y])
    words_of = unit("RegexTokenizerOptions", delim_regex_pattern=separators, vocab_file=[
        file("vocab.txt", metadata.VOCABULARY)])
    return with_metadata(m, inputs=[{"name": "input_text", "process_units": [words_of]}], files={"vocab.txt": words})


def test_numbers_of_words():
    """NLClassifier's tokenizer keeps capitals, and drops words that do not fit."""
    classifier = tasks.NLClassifier.create_from_options(tasks.NLClassifierOptions(
        base_options=tasks.BaseOptions(file_content=words_model())))
    scores = [c.score for c in sorted(classifier.classify("  good, don't Good!").categories, key=lambda c: c.index)]
    assert scores == [1, 7, 8, 2, 0, 0]
    for text, ids in ("good " * 9, [1, 7, 7, 7, 7, 7]), ("", [1, 0, 0, 0, 0, 0]):
        assert TextEmbedder(words_model()).embed(text).feature_vector.tolist() == ids


@pytest.mark.parametrize(("arguments", "says"), [
    ({"separators": "(a+)+$"}, r"split texts at '\(a\+\)\+\$'; expected a set of characters"),
    ({"separators": "[z-a]"}, "expected a set of characters"), ({"separators": ""}, "expected a set of characters"),
    ({"words": "<PAD> 0\ngood\n"}, "the line 'good' of the model's vocabulary is not a word, a space and its number"),
    ({"words": "<PAD> " + "9" * 5000}, "is not a word, a space and its number"),
    ({"words": "<PAD> 0\n"}, "the model's vocabulary of 1 words lacks <UNKNOWN>")])
def test_damaged_tokenizers_of_words(arguments, says):
    with pytest.raises(ModelError, match=says):
        TextEmbedder(words_model(**arguments))


def token_ids(*names, signature=(1, 6)):
    """A model that gives what its inputs of token ids get."""
    m = ModelBuilder()
    xs = [m.tensor(name, (1, max(signature[1], 1)), "int32", shape_signature=signature) for name in names]
    ys = [m.tensor(f"{name} out", (1, max(signature[1], 1)), shape_signature=signature) for name in names]
    joined = m.tensor("joined", (1, len(names) * max(signature[1], 1)), shape_signature=(1, -1))
    for x, y in zip(xs, ys, strict=True):
        m.operator("CAST", [x], [y])
    m.operator("CONCATENATION", ys, [joined], axis=1)
    m.inputs(xs)
    m.outputs([joined])
    return m.build()


WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "yes"]


def test_a_mask_without_segments():
    """DistilBERT's inputs."""
    embedder = TextEmbedder(token_ids("attention_mask", "input_ids"), vocabulary=WORDS)
    assert embedder.embed("yes").feature_vector.tolist() == [1, 1, 1, 0, 0, 0] + [1, 4, 2, 0, 0, 0]


def test_texts_of_any_length():
    embedder = TextEmbedder(token_ids("ids", "mask", signature=(1, -1)), vocabulary=WORDS)
    for count in 1, 3, 2:
        assert embedder.embed("yes " * count).feature_vector.tolist() == [1, *[4] * count, 2] + [1] * (count + 2)


@pytest.mark.parametrize("names", [("a", "b"), ("ids", "mask", "more"), ("ids", "types")])
def test_inputs_whose_names_do_not_tell_what_they_take(names):
    with pytest.raises(ModelError, match='with "mask" in its name'):
        TextEmbedder(token_ids(*names), vocabulary=WORDS)


def test_lines_of_vocabularies_end_with_line_feeds_alone(tmp_path):
    """Chinese vocabularies have a line with U+2028, which str.splitlines() splits: later words had other numbers."""
    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "\u2028", "\x85", "yes"]
    for end, mark in ("\n", ""), ("\r\n", "\ufeff"):
        text = mark + end.join(words) + end
        (tmp_path / "vocab.txt").write_bytes(text.encode())
        embedder = TextEmbedder(token_ids("ids"), vocabulary=tmp_path / "vocab.txt")
        assert embedder.embed("yes").feature_vector.tolist() == [1, 6, 2, 0, 0, 0]
        m = ModelBuilder()
        x, y = m.tensor("ids", (1, 6), "int32"), m.tensor("y", (1, 6))
        m.operator("CAST", [x], [y])
        m.inputs([x])
        m.outputs([y])
        vocabulary = unit("BertTokenizerOptions", vocab_file=[file("vocab.txt", metadata.VOCABULARY)])
        content = with_metadata(m, inputs=[{"name": "ids"}], units=[vocabulary], files={"vocab.txt": text})
        assert TextEmbedder(content).embed("yes").feature_vector.tolist() == [1, 6, 2, 0, 0, 0]


def test_a_text_goes_to_a_model_that_takes_it():
    m = ModelBuilder()
    x, y, z = m.tensor("text", (1,), "string"), m.tensor("y", (1,), "bool"), m.tensor("z", (1,))
    m.operator("EQUAL", [x, m.constant("hello", np.array([b"hello"], object))], [y])
    m.operator("CAST", [y], [z])
    m.inputs([x])
    m.outputs([z])
    embedder = TextEmbedder(m.build())
    assert embedder.embed("hello").feature_vector.tolist() == [1]
    assert embedder.embed("bye").feature_vector.tolist() == [0]
    for other in b"hello", ["hello"], None:
        with pytest.raises(TypeError, match=f"a text is a str, not {type(other).__name__}; a call takes one text"):
            embedder.embed(other)


@given(st.text(max_size=40))
def test_pieces_of_words_put_together_are_the_words(text):
    letters = "abc"
    pieces = WordPieces(["[UNK]", *letters, *("##" + c for c in letters), "ab", "##bc"])
    words = "".join(c if c in letters else " " for c in text).split()
    found = pieces(" ".join(words))
    assert "".join(p[2:] if p.startswith("##") else " " + p for p in found).split() == words
    assert all(p in pieces.numbers for p in pieces(text))


def test_words_too_long_or_unknown():
    pieces = WordPieces(["[UNK]", "a", "##a", "?", "中"])
    assert pieces("a" * 100) == ["a"] + ["##a"] * 99
    assert pieces("a" * 101) == pieces("ab") == ["[UNK]"]
    assert pieces("a?a中a\0") == ["a", "?", "a", "中", "a"]
    assert WordPieces(["[UNK]", "a"], lower_case=False)("A a") == ["[UNK]", "a"]


def test_damaged_metadata():
    """Files that are missing, and every kind of damage in the flatbuffer, are errors of the model."""
    content = with_metadata(scores_model(), outputs=[{"associated_files": [file("no.txt", metadata.AXIS_LABELS)]}],
                            files={"other.txt": "a"})
    with pytest.raises(ModelError, match=r"'no.txt'.*has other.txt"):
        ImageClassifier(content)
    bad = with_metadata(scores_model(), outputs=[{
        "process_units": [unit("ScoreCalibrationOptions")], "associated_files": [file("c", metadata.CALIBRATION)]}],
        files={"c": "1,2\n"})
    with pytest.raises(ModelError, match=r"line 1 .* '1,2'"):
        ImageClassifier(bad)
    empty = with_metadata(scores_model(), outputs=[{
        "process_units": [unit("ScoreCalibrationOptions", default_score=0.5)],
        "associated_files": [file("c", metadata.CALIBRATION)]}], files={"c": ""})
    assert {c.score for c in ImageClassifier(empty).classify(RGBA).categories} == {0.5}
    model = pylite.Model(with_metadata(scores_model(), outputs=[{"name": "score"}]))
    data = bytes(model.graph.metadata["TFLITE_METADATA"])
    for i in range(0, len(data), 3):
        for value in (0, 255):
            m = scores_model()
            m.metadata("TFLITE_METADATA", data[:i] + bytes([value]) + data[i + 1:])
            with contextlib.suppress(ModelError):
                metadata.read(pylite.Model(m.build()))


@pytest.mark.parametrize("damage", [{8: 1}, {8: 32}, {10: 99}, {10: 12}, {16: 1, 17: 1}, {23: 127, 27: 127}, {45: 127}])
def test_damaged_archives(damage):
    """A file that is encrypted, patched, of an unknown or another method, of another checksum or length, elsewhere."""
    content = bytearray(with_metadata(scores_model(), outputs=[{"associated_files": [
        file("labels.txt", metadata.AXIS_LABELS)]}], files={"labels.txt": "cat\n"}))
    for place, byte in damage.items():
        content[content.rfind(b"PK\1\2") + place] = byte
    with pytest.raises(ModelError, match=r"'labels.txt' in the archive .* cannot be read: \w"):
        ImageClassifier(bytes(content))


def test_files_in_archives_that_are_too_long(monkeypatch):
    monkeypatch.setattr(labels, "LARGEST", 100)
    for length in 100, 101:
        content = with_metadata(scores_model(), outputs=[{"associated_files": [file("a.txt", metadata.AXIS_LABELS)]}],
                                files={"a.txt": "x" * length})
        with contextlib.nullcontext() if length == 100 else pytest.raises(ModelError, match=r"a\.txt.* than 100 bytes"):
            ImageClassifier(content)
