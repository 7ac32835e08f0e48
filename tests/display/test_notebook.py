"""What notebooks show of models, interpreters and their details: short, and every text from a file escaped."""
import pickle
import subprocess
import sys
from html.parser import HTMLParser

import pytest

import pylite
from pylite import Model
from pylite.display import notebook
from pylite.interpreter import Interpreter
from pylite.media import models
from pylite.schema import read, write

HOSTILE = "<script>alert(1)</script>&"


class Parsed(HTMLParser):
    """The elements and the cells of an HTML text, which must be balanced."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.cells = set(), [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag != "br":
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


@pytest.fixture(scope="module")
def hostile():
    """The digits model with hostile names."""
    model = read(models.path("digits").read_bytes())
    model.description = HOSTILE
    for tensor in model.subgraphs[0].tensors:
        tensor.name = HOSTILE
    return write(model)


def test_models_and_interpreters(hostile):
    one = Model(hostile)
    interpreter = Interpreter(model=one, num_threads=2)
    for shown in (one, interpreter):
        text = shown._repr_html_()
        found = Parsed(text)
        assert found.tags <= {"p", "b", "br", "table", "thead", "tbody", "tr", "th", "td"}
        assert found.cells.count(HOSTILE) == 2 and "[1, 10]" in found.cells and "3 CONV_2D" in text
        assert len(text) < 2000
    assert "arena: not allocated" in text and "threads: 2" in text
    interpreter.allocate_tensors()
    assert "arena: 3,136 bytes" in interpreter._repr_html_()
    interpreter.close()
    assert "arena: not allocated" in interpreter._repr_html_()


def test_details_are_lists_that_show_as_tables(hostile):
    interpreter = Interpreter(model_content=hostile)
    details = interpreter.get_tensor_details()
    assert isinstance(details, list) and details[0]["name"] == HOSTILE
    found = Parsed(details._repr_html_())
    assert found.cells.count(HOSTILE) == len(details) and "int8" in found.cells
    assert "quantization_parameters" not in found.cells
    for inputs in (interpreter.get_input_details(), interpreter.get_output_details(), interpreter._get_ops_details()):
        assert isinstance(inputs, list) and len(Parsed(inputs._repr_html_()).cells) >= 12
        assert type(pickle.loads(pickle.dumps(inputs))) is type(inputs)
    assert Parsed(type(details)()._repr_html_()).cells == []


def test_long_tables_and_texts_are_cut():
    found = Parsed(notebook.table(["x"], [("a" * 200 + str(i),) for i in range(250)]))
    assert len(found.cells) == 1 + notebook.ROWS and "and 150 more" in notebook.table(["x"], [(i,) for i in range(250)])
    assert max(map(len, found.cells)) == notebook.NAME and found.cells[-1].endswith("a99")


def test_nothing_is_imported_until_it_is_shown():
    code = ("import sys\nfrom pylite.interpreter import Interpreter\nfrom pylite.media import models\n"
            "i = Interpreter(str(models.path('digits')))\ni.allocate_tensors()\ni.get_input_details()\n"
            "assert 'pylite.display.notebook' not in sys.modules and 'html' not in sys.modules\n"
            "i._repr_html_()\nassert 'pylite.display.notebook' in sys.modules\n")
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


def test_the_text_of_an_interpreter():
    path = models.path("digits")
    text = "image int8 [1, 8, 8, 1] -> probabilities int8 [1, 10]>"
    assert repr(pylite.Interpreter(path)) == f"<Interpreter digits.tflite: {text}"
    with pylite.Interpreter(model_content=path.read_bytes()) as interpreter:
        assert repr(interpreter) == f"<Interpreter of bytes: {text}"
    assert repr(interpreter) == "<Interpreter, closed>"


def test_modules_are_imported_when_asked_for():
    assert pylite.tasks.ImageClassifier is not None
    assert "tasks" in dir(pylite)


def test_objects_say_what_they_are():
    from pylite.environment import Environment
    from pylite.tasks import TensorAudio
    environment, resolver = Environment.create(runtime_path="/opt"), pylite.MutableOpResolver()
    resolver.add_builtin("ADD")
    assert repr(pylite.Model(models.path("digits"))) == "<pylite.Model digits.tflite, 1 subgraph>"
    assert repr(TensorAudio(5)) == "<TensorAudio of 5 samples>"
    assert repr(resolver) == "<MutableOpResolver of 1 op>"
    assert repr(pylite.BuiltinOpResolver()).startswith("<BuiltinOpResolver of 1")
    assert repr(pylite.PythonDelegate()) == "<PythonDelegate PythonDelegate>"
    assert repr(environment).startswith("<Environment: EnvironmentOptions(runtime_path='/opt'")
    environment.close()
    assert repr(environment).startswith("<Environment, closed: ")
