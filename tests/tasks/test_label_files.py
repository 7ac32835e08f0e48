"""Files of labels as other systems and programs write them."""
import pytest

from pylite.errors import FileFormatError
from pylite.media import labels
from pylite.tasks import ImageClassifier
from tests.tasks.test_tasks_metadata import scores_model


@pytest.mark.parametrize(("content", "names"), [
    (b"\xef\xbb\xbfant\r\nbee\r\n", {0: "ant", 1: "bee"}), (b"ant\rbee\r", {0: "ant", 1: "bee"}),
    ("ant\u2028s\nbee".encode(), {0: "ant\u2028s", 1: "bee"})])
def test_files_of_labels_from_other_systems(tmp_path, content, names):
    (tmp_path / "labels.txt").write_bytes(content)
    assert labels.read(tmp_path / "labels.txt") == names


@pytest.mark.parametrize("text", [
    '["ant", "bee, wild"]', '{"0": "ant", "1": "bee, wild"}', '{"ant": 0, "bee, wild": 1}',
    '{"1": ["n02206856", "bee, wild"],\n "0": ["n02219486", "ant"]}', "{0: 'ant',\n 1: 'bee, wild'}\n",
    'index,mid,display_name\n0,/m/0,ant\n1,/m/1,"bee, wild"\n', "id,name\n\n0,ant\n1,\"bee, wild\"\n"])
def test_lists_of_labels_of_other_programs(text):
    """Of JSON, Keras' ImageNet, Python and YAMNet."""
    assert labels.parse(text) == {0: "ant", 1: "bee, wild"}


@pytest.mark.parametrize("text", [
    "item {\n  id: 1\n  name: 'ant'\n}\nitem {\n  id: 2\n  name: 'bee, wild'\n}\n",
    'item{name:"/m/0" id:1 display_name:"ant"} item {\n name: "/m/1" id: 2 display_name: "bee, wild" }',
    '# of insects\nitem { id: 2, name: "bee, wild", keypoints { id: 7 label: "sting" name: "x" } }\n'
    'item { id: 1, name: "ant" }', 'item { id: 0 name: "ant" }\nitem { id: 1 name: "bee, wild" }',
    "item { id: 1 # item {\n name: 'ant' } item { id: 2 keypoints { id: 3 } name: \"bee\\, wild\" }"])
def test_label_maps_of_the_object_detection_api(text):
    """Their ids begin at 1, for the class 0 of a detector, since 0 is the background."""
    assert labels.parse(text) == {0: "ant", 1: "bee, wild"}


@pytest.mark.parametrize("text", ["", "\n", "\n\n"])
def test_a_file_without_labels(text, tmp_path):
    assert labels.parse(text) == {}
    (tmp_path / "labels.txt").write_text(text)
    with pytest.raises(ValueError, match=r"labels\.txt has 0 names, and the model 4 classes"):
        ImageClassifier(scores_model().build(), labels=tmp_path / "labels.txt")


@pytest.mark.parametrize("text", [
    "item { id: 1 }", "item { id: x name: 'ant' }", "item { name: 'ant' }",
    "[unused]\nant", "{ant}", '["ant", 3]', '{"0": {}}', '{"x": "ant"}', '{"12345678": "ant"}', "[" * 5000,
    "class,name\nx,ant", "class,name\n1,ant,bee", "class,name\n12345678,ant", "class,name\n1," + "a" * 200_000 + '"'])
def test_what_is_no_list_of_labels_has_a_name_on_each_line(text):
    assert labels.parse(text) == dict(enumerate(text.split("\n")))


def test_the_file_of_labels_that_do_not_fit_is_named(tmp_path):
    (tmp_path / "labels.txt").write_text("ant\n")
    with pytest.raises(ValueError, match=r"labels\.txt has 1 name, and the model 4 classes"):
        ImageClassifier(scores_model().build(), labels=tmp_path / "labels.txt")


def test_labels_in_another_encoding(tmp_path):
    (tmp_path / "labels.txt").write_bytes("ant\nB\u00e4r\n".encode("latin-1"))
    with pytest.raises(FileFormatError, match=r"labels.txt: not UTF-8 text, since byte 5 is 0xe4; .* save it as UTF-8"):
        labels.read(tmp_path / "labels.txt")
