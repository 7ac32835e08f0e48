"""Typical mistakes: each gets a sentence that says what was got, what was expected, and what to do.

The tables of mistakes are read as one, so the file is longer than others.
"""
import ctypes
import os
import pickle
import wave

import numpy as np
import pytest

import pylite
from pylite import cli, flex, tasks, validation
from pylite.compiled_model import CompiledModel, CpuOptions, Options
from pylite.interpreter import Interpreter
from pylite.media import audio, images, labels, models
from pylite.schema.builder import ModelBuilder
from pylite.tasks.audio import samples_of
from pylite.validation import agreement
from pylite.validation.repair import repair
from pylite.validation.sensitivity import sensitivity
from tests.tools import small_models

DIGITS, DETECTOR, SEVEN = (str(path) for path in (models.path("digits"), models.path("digit-detector"),
                                                  models.sample("seven")))
LONG = "/no" * 500      # a path
PICTURE = np.zeros((1, 8, 8, 1), np.int8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The working folder of all mistakes: models, samples and damaged files."""
    place = tmp_path_factory.mktemp("mistakes")
    arrays = {"x": np.zeros((3, 1, 8, 8, 1), np.float32), "one": np.zeros((1, 8, 8, 1), np.float32),
              "bad": np.zeros((2, 5), np.float32), "four": np.zeros((4, 8, 8, 1), np.float32),
              "nan": np.full((1, 8, 8, 1), np.nan, np.float32),
              "alone": np.zeros((8, 8, 1), np.float32)}
    for name, array in arrays.items():
        np.save(place / f"{name}.npy", array)
    np.savez(place / "two.npz", a=np.zeros(3), b=np.zeros(3))
    np.savez(place / "labelled.npz", image=arrays["x"][:, 0], labels=np.arange(3))
    texts = {"text.txt": "hello", "labels.txt": "a\nb\n", "page.tflite": "<!DOCTYPE html><html>404</html>" * 9,
             "lfs.tflite": "version https://git-lfs.github.com/spec/v1\noid sha256:aaaa\nsize 12\n", "bad.json": "{",
             "bad.csv": "a,b\n1,2\n", "bad.jsonl": "3\n", "bad.png": "not a picture", "bad.wav": "RIFFxxxx",
             "empty.tflite": "",
             "kernel.py": "import pylite\nclass Kernel:\n    def __init__(self, part):\n        pass\n"
                          "class Mine(pylite.PythonDelegate):\n    pass\n"
                          "def failing():\n    raise ValueError('no device')\ndef none():\n    pass\n",
             "several.py": "import pylite\nclass A(pylite.PythonDelegate):\n    pass\nclass B(A):\n    pass\nx = 1\n",
             "plain.py": "class Kernel:\n    pass\n", "noop.py": "",
             "idle.py": "import pylite\nclass Idle(pylite.PythonDelegate):\n    supports = lambda self, node: False\n"}
    for name, text in texts.items():
        (place / name).write_text(text)
    (place / "empty").mkdir()
    (place / "pictures" / "cat").mkdir(parents=True)
    np.save(place / "pictures" / "cat" / "a.npy", arrays["one"])
    (place / "cut.tflite").write_bytes(models.path("digits").read_bytes()[:3000])
    for name, count in ("sound", 1600), ("silent", 0):
        with wave.open(str(place / f"{name}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(bytes(count))
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 3), "string"), m.tensor("y", (1, 3), "string")
    m.operator("RESHAPE", [x, m.constant("shape", np.array([1, 3], np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    (place / "words.tflite").write_bytes(m.build())
    m = ModelBuilder()
    x, y = m.tensor("x", (40,), "int32"), m.tensor("y", (40, 2))
    m.operator("GATHER", [m.constant("table", np.zeros((1, 2), np.float32)), x], [y])
    m.inputs([x])
    m.outputs([y])
    (place / "gather.tflite").write_bytes(m.build())
    m = ModelBuilder()
    x, y = m.tensor("x", PICTURE.shape), m.tensor("y", PICTURE.shape)
    m.operator("RELU", [x], [y])
    m.inputs([x])
    m.outputs([y])
    (place / "nameless.tflite").write_bytes(m.build())
    return place


# ---- the command line: arguments, and what the line on the standard error stream says, in this order -----------------
VALIDATE = "validate digits --reference digits --data x.npy"
COMMANDS = [
    ("rnu digits", "no command 'rnu'", "did you mean run?"),
    ("help rnu", "no command 'rnu'", "did you mean run?"),
    ("frobnicate", "no command 'frobnicate'", "the commands are run, inspect, bench"),
    ("run", "MODEL is missing; the usage is pylite run MODEL --input FILE"),
    ("run digits", "input 'image' (int8[1, 8, 8, 1])", "give --input FILE (a picture, .npy or .npz)",
     "--random SEED"),
    ("run words.tflite", "input 'x' (string[1, 3])", "give --input TEXT"),
    ("run words.tflite --input hello", "takes 3 strings, and 1 was given", "give a .txt file with a line for each"),
    ("run digits --input bad.npy", "bad.npy: input 'image' takes [1, 8, 8, 1], and the file has [2, 5]"),
    ("run digits --input four.npy", "four.npy: input 'image' takes", "it has 4 samples, and a run takes one, such as "
     "array[0]; `pylite validate --data` takes all of them"),
    ("run digits --input foo=one.npy", "no input is called 'foo'; the model has 'image' (its signature calls it "
     "'input')"),
    ("run nowhere.tflite --zeros", "'nowhere.tflite'", "No such file", "it was looked for in /"),
    ("run pag.tflite --zeros", "'pag.tflite'", "No such file", "did you mean page.tflite?"),
    ("run gone/m.tflite --zeros", "'gone/m.tflite'", "there is no folder gone"),
    ("run https://x.org/m.tflite --zeros", "'https://x.org/m.tflite'", "pylite downloads nothing: save the file"),
    ("run digits --input https://x.org/a.png", "https://x.org/a.png", "pylite downloads nothing: save the file"),
    ("run digit --zeros", "no file 'digit'", "no bundled model is called 'digit'",
     "did you mean 'digits'? The bundled models are digit-detector, digits, sounds"),
    ("run empty --zeros", "'empty'", "a folder; give the path of a model in it"),
    ("run empty.tflite --zeros", "0 bytes, too few for a model", "empty.tflite"),
    ("run page.tflite --zeros", "it is a web page", "page.tflite"),
    ("run lfs.tflite --zeros", "Git LFS pointer", "`git lfs pull`"),
    ("run cut.tflite --zeros", "lies outside the file (3000 bytes)", "may be cut off", "cut.tflite"),
    ("run digits --inptu seven", "--inptu", "did you mean --input?"),
    ("run digits --input sevn", "no bundled sample is called 'sevn'",
     "did you mean 'seven'? The bundled samples are eight"),
    ("run digits --input nowhere.png", "nowhere.png: No such file", "it was looked for in /"),
    ("run digits --input bda.png", "bda.png: No such file", "did you mean bad.png?"),
    ("run digits --input bad.png", "bad.png: cannot identify", "expected a picture that Pillow reads"),
    ("run digits --input bad.wav", "bad.wav: not a WAVE file", "expected an uncompressed .wav"),
    ("run digits --input sound.wav", "'image' of shape [1, 8, 8, 1] does not take sound", "give it an .npy"),
    ("run sounds --input sound.wav", "'features' of shape [1, 49, 40, 1] does not take sound", "give it an .npy",
     "the model is described as", "log-mel features"),
    ("run digits --input silent.wav", "silent.wav: has no sound (0 samples)"),
    ("run digits --input seven --delegate idle.py", "idle.py: write idle.py:NAME; it defines Idle"),
    ("run digits --input seven --delegate idle.py:M", "idle.py: has no M; it defines Idle"),
    ("validate words.tflite --reference words.tflite --data x.npy --repair ./words.tflite",
     "--repair ./words.tflite would overwrite a file that the command reads; give another name"),
    ("validate words.tflite --reference words.tflite --data x.npy --junit x.npy", "--junit x.npy would overwrite"),
    ("validate words.tflite --reference words.tflite --data x.npy --html words.tflite", "--html words.tflite would"),
    ("bench words.tflite --trace ./words.tflite", "--trace ./words.tflite would overwrite a file"),
    ("report words.tflite --explorer words.tflite", "--explorer words.tflite would overwrite a file"),
    ("report words.tflite --html p.html --explorer ./p.html", "--html and --explorer would write the same file",
     "./p.html; give one of them another name"),
    ("resolver words.tflite --output words.tflite", "--output words.tflite would overwrite a file"),
    ("resolver words.tflite --ops idle.py:M --output idle.py", "--output idle.py would overwrite a file"),
    ("run digits --input image=two.npz --output two.npz", "--output two.npz would overwrite a file"),
    ("inspect /dev/zero", "Could not open '/dev/zero'. It is not a regular file"),
    ("run digits --input bad.npy", "input 'image' takes [1, 8, 8, 1], and the file has [2, 5]", "of this shape"),
    ("run digits --input nan.npy", "64 numbers that are NaN", "fix the program"),
    ("run digits --input two.npz", "no input is called 'a'", "the model has 'image'"),
    ("run digits --input y=one.npy", "no input is called 'y'", "the model has 'image'"),
    ("run digits --input text.txt", "text.txt: unknown kind of file", ".npy, .npz, .wav and pictures"),
    ("run digits --input empty/", "empty/: is a folder", "takes one file", "without --input"),
    ("run digits empty", "empty: the folder has no file of a known kind", "(.npy, .npz"),
    ("run digits none/*.png", "none/*.png: no file matches"),
    ("run digits --input seven --input two", "the model has 1 input, and more", "without --input"),
    ("run digits --input seven --labels labels.txt", "labels.txt: has 2 names", "10 classes", "give a name for each"),
    ("run digits --input seven --labels gone.txt", "gone.txt: No such file", "it was looked for in"),
    ("run digits --input seven --top 0", "--top: '0' is not a whole number of at least 1"),
    ("run digits --input seven --top many", "--top: 'many' is not a whole number"),
    ("run digits --input seven --threshold x", "--threshold: 'x' is not a score from 0 to 1"),
    ("run digits --input seven --threshold 7", "--threshold: '7' is not a score from 0 to 1"),
    ("run digits --input seven --top", "--top needs a value: --top N"),
    ("run digits seven --csv --jsonl", "--jsonl and --csv exclude each other", "give one of them"),
    ("run digits --input seven --json=yes", "--json takes no value, and 'yes' was given"),
    ("run digits --input seven --output o.csv", "--output: 'o.csv' is not the name of an .npz file"),
    ("config --cflags digits", "'digits' is one argument too many"),
    ("validate digits --s 3", "--s may be short for --samples, --std", "write the whole name"),
    ("run digits --input seven --mean a", "--mean: 'a' is not a finite number, or one for each channel"),
    ("run digits --input seven --mean 1,2", "the mean has 2 numbers", "has 1 channel",
     "give one number, or one for each"),
    ("run digits --input seven --std 0", "--std: '0' is not a finite number other than 0"),
    ("run digits --input seven --threads 1025", "--threads: '1025' is not a whole number from 1 to 1024"),
    ("report digits --threads 1025", "--threads: '1025' is not a whole number from 1 to 1024"),
    ("run digits --input seven --threads 0", "--threads: '0' is not a whole number from 1 to 1024"),
    ("run digits --input seven --random -1", "--random: '-1' is not a whole number of at least 0"),
    ("run digits --input seven --output gone/o.npz", "gone/o.npz: No such file", "there is no folder gone"),
    ("run digits --input seven --save o.pgm", "--save draws boxes and key points", "gives none"),
    ("run digit-detector --input seven --save o.xyz", "o.xyz: unknown file extension", "ends in .png, .jpg or .ppm"),
    ("run digits seven --json", "--json, --output and --save are for one run", "give --jsonl or --csv"),
    ("run digits --input seven --csv", "--csv is for many files", "give FILE ... after the model"),
    ("run digits --camera seven", "--camera: 'seven' is not a whole number"),
    ("run digits --frames 3 --zeros", "--frames is for --camera and --microphone"),
    ("run digits --input seven --delegate gone.so", "Failed to load delegate from gone.so: gone.so: cannot open",
     "install the library, or give its full path"),
    ("bench digits --seconds 0", "--seconds: '0' is not a number of seconds above 0"),
    ("bench digits --against gone.json", "gone.json: No such file", "it was looked for in"),
    ("bench digits --compare one.tflite", "--compare: 'one.tflite' is not litert", "to compare two models",
     "--against"),
    ("bench digits --against text.txt", "text.txt: not a report of pylite bench --json"),
    ("bench digits --shape y=1,8,8,1", "no input is called 'y'", "the model has 'image'"),
    ("bench digits --shape image=a", "image=a", "expected INPUT=N,N,..."),
    ("bench digits --shape image=1", "tensor 0 'image' (int8 [1])", "must have 4 dimensions"),
    ("bench digits --shape image=1,9,9,1", "node 7 RESHAPE", "288 elements", "the shape was fixed when",
     "; input 'image' was resized from [1, 8, 8, 1] to [1, 9, 9, 1]"),
    ("inspect digits --node 99", "no node 99", "its nodes are 0 to 9"),
    ("inspect digits --tensor 3", "--tensors takes no value, and '3' is one argument too many"),
    ("inspect digits --node a", "--node: 'a' is not a whole number"),
    ("inspect digits --diff gone.tflite", "'gone.tflite'", "No such file"),
    ("inspect digits --graph g.xyz", "g.xyz", "ends in .svg or .mmd"),
    ("ops nothing_like_it", "no op nothing_like_it", "`pylite ops` lists all"),
    ("ops conv2d", "no op conv2d", "did you mean CONV_2D?"),
    ("ops Conv", "no op Conv", "these have it in their names: ", "CONV_2D", "CONV_3D"),
    ("completion tcsh", "'tcsh' is not bash, zsh or fish"),
    ("run digits --zeros --delegate kernel.py:Kernel", "kernel.py: Kernel is not a delegate; it defines the delegate "
     "Mine"),
    ("bench digits --delegate kernel.py:failing", "kernel.py: failing() failed: ValueError: no device"),
    ("inspect digits --delegate kernel.py:none", "kernel.py: none is not a delegate", "Mine"),
    ("run digits --zeros --delegate plain.py:Kernel", "plain.py: Kernel is not a delegate", "pylite.PythonDelegate"),
    ("inspect digits --delegate kernel.py", "write kernel.py:NAME; it defines Mine, failing, none"),
    ("run digits --zeros --delegate several.py:x", "several.py: x is not a delegate; it defines the delegates A, B"),
    ("run digits --zeros --ops flx", "--ops flx: expected FILE.py, LIBRARY.so:FUNCTION or flex", "did you mean flex?"),
    ("run digits --zeros --ops text.txt", "text.txt is not a shared library; compile its source with"),
    ("run digits --zeros --ops noop.py:Scale", "--ops noop.py:Scale: give noop.py alone", "@pylite.custom_op"),
    ("run digits --zeros --precision bf16", "--precision: 'bf16' is not float32, float16, prefer_float16 or emulate_"),
    ("bench digits --shape image=-1,8,8,1", "--shape image=-1,8,8,1: expected INPUT=N,N,..."),
    ("inspect digits --shape y=1", "no input is called 'y'"),
    ("run gather.tflite --random 1", "GATHER failed", "give it --zeros or a file"),
    ("run digits pictures", "pictures: the folder has no file of a known kind, but its subfolders have: "
     "'pictures/*/*.npy' names them"),
    (f"{VALIDATE} --repair better.foo", "'better.foo' is not the name of a .tflite file"),
    ("validate digits --data x.npy --record desk.csv", "'desk.csv' is not the name of an .npz file"),
    ("cache lst", "'lst' is not list or clear", "did you mean list?"),
    ("resolver digits --output gone/r.py", "gone/r.py: No such file", "there is no folder gone"),
    ("validate digits", "there are no samples", "give --data PATH, or --merge"),
    ("validate digits --data missing.npz", "missing.npz: there is no such file", "it was looked for in"),
    ("validate digits --data x.npy", "x.npy has no labels", "give a folder for each class"),
    ("validate digits --reference digits --data bad.npy", "takes [1, 8, 8, 1], and the sample has [5]"),
    ("validate digits --reference digits --data empty", "empty: has no samples", "there is no .png"),
    ("validate digits --reference digits --data text.txt", "unknown kind of data", "a folder, .npz, .npy"),
    ("validate digits --reference digits --data bad.csv", "bad.csv, line 2: has no image", "it has a, b"),
    ("validate digits --reference digits --data bad.json", "bad.json: not valid JSON", "COCO's annotations"),
    ("validate digits --reference digits --data bad.jsonl", "bad.jsonl, line 1: is not an object", "such as {"),
    ("validate digits --reference digits --data nan.npy", "64 numbers that are not finite", "leave the sample out"),
    ("validate digits --reference sounds --data x.npy", "[1, 8, 8, 1]", "[1, 49, 40, 1]",
     "is it the same model in float?"),
    (f"{VALIDATE} --task detect", "'detect'", "the tasks are classification, detection"),
    (f"{VALIDATE} --sensitivity", "--sensitivity needs more: --target 40dB"),
    (f"{VALIDATE} --sensitivity --target high", "'high' is not decibels, as 20dB"),
    (f"{VALIDATE} --target 3dB", "--target", "need --sensitivity"),
    (f"{VALIDATE} --sensitivity --target 45", "--target 45: an accuracy is at most 1; for an SQNR write 45dB"),
    (f"{VALIDATE} --repair gone/r.tflite", "gone/r.tflite: No such file", "there is no folder gone"),
    (f"{VALIDATE} --repair r.tflite --accuracy", "x.npy has no labels for classification", "give a folder"),
    (f"{VALIDATE} --shard 3/2", "shard 3/2 of 3 samples", "expected 1/N to N/N"),
    (f"{VALIDATE} --shard a", "'a' is not a part of parts, as 1/2"),
    ("validate digits --reference digits --merge x.npy", "x.npy: holds no sums", "`pylite validate --save` writes"),
    ("validate digits --data x.npy --check two.npz", "two.npz: is not a recording", "`pylite validate --record` "
     "writes"),
    ("validate digits --data x.npy --against tflite", "'tflite'", "is not litert, litert:ref", "did you mean litert?"),
    ("validate digits --data x.npy --isolate 90", "no nodes 90 to 90", "the model has nodes 0 to 9"),
    ("validate digits --data x.npy --isolate a", "'a' is not a node, as 4"),
    (f"{VALIDATE} --fail-on noise=3", "'noise=3' is not saturation=5%"),
    (f"{VALIDATE} --min-sqnr loud", "--min-sqnr: 'loud' is not a number"),
    (f"run {LONG}.tflite --zeros", "Could not open '/no", "No such file", "there is no folder"),
    (f"run digits --input {LONG}.npy", "No such file", "there is no folder"),
    (f"run digits --{LONG}", "there is no option --/no"),
    (f"run digits --top {LONG}", "is not a whole number"),
    (f"{LONG}", "there is no command"),
    (f"validate digits --reference digits --data {LONG}", "there is no such file or folder"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=[command[0][:60] for command in COMMANDS])
def test_the_command_line(command, folder, monkeypatch, capsys):
    arguments, *pieces = command
    monkeypatch.chdir(folder)
    try:
        code = cli.main(arguments.split())
    except SystemExit as ended:
        code = ended.code
    sentence, *more = capsys.readouterr().err.splitlines()
    assert code in (1, 2)
    assert more in ([], [f"`pylite {arguments.split()[0]} --help` shows how to use it"],
                    ["`pylite --help` shows how to use it"])
    says(sentence, *pieces)


@pytest.mark.parametrize("command", ["run digits --foo", "bench digits --verify"])
def test_nothing_is_suggested_for_a_word_like_no_other(command, capsys):
    with pytest.raises(SystemExit):
        cli.main(command.split())
    assert "did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize(("module", "name", "meant"), [
    (pylite, "Interpretr", "Interpreter"), (tasks, "ImageClasifier", "ImageClassifier")])
def test_python_knows_where_to_look_for_a_name_that_was_meant(module, name, meant):
    """Its traceback then suggests the name."""
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert caught.value.name == name and meant in dir(caught.value.obj)


@pytest.mark.parametrize("module", [validation, pylite.flex])
def test_completion_in_a_shell_offers_what_is_for_users(module):
    assert dir(module) == sorted(module.__all__)


def says(text, *pieces):
    """The text has the pieces in their order, and no word of more than 200 characters beside its quotes."""
    start = 0
    for piece in pieces:
        start = text.find(piece, start)
        assert start >= 0, f"{piece!r} is missing: {text}"
    assert max(map(len, text.split())) <= 210, text


# ---- Python: a call, its exception, and what this says --------------------------------------------------------------
def interpreter():
    found = Interpreter(DIGITS)
    found.allocate_tensors()
    return found


def of_type(dtype):
    found = Interpreter(model_content=small_models.reshape(dtype))
    found.allocate_tensors()
    return found


def buffer(contents):
    CompiledModel.from_file(DIGITS).create_input_buffers(0)[0].write(contents)


def opened(model):
    Interpreter(model_content=model).allocate_tensors()


def classify(picture, **options):
    tasks.ImageClassifier(DIGITS).classify(picture, **options)


CALLS = [
    (lambda: Interpreter(models.path("digits").read_bytes()), ValueError, "bytes", "model_content="),
    (lambda: Interpreter("gone.tflite"), ValueError, "'gone.tflite'", "No such file", "it was looked for in /"),
    (lambda: Interpreter("digits"), ValueError, "'digits'", "No such file", "pylite.media.models.path('digits')"),
    (lambda: Interpreter("Digit-detecter.tflite"), ValueError, "pylite.media.models.path('digit-detector')"),
    (lambda: CompiledModel.from_file("digts"), RuntimeError, "pylite.media.models.path('digits')"),
    (lambda: Interpreter(DIGITS).get_signature_runner(["serve"]), TypeError, "key must be a string, not ['serve']"),
    (lambda: Interpreter(DIGITS).get_signature_runner((["x"],)), TypeError, "key must be a string, not (['x'],)"),
    (lambda: Interpreter(DIGITS).get_signature_runner({1: {}}), TypeError, "key must be a string, not {1: {}}"),
    (lambda: Interpreter(DIGITS).get_signature_runner(PICTURE), TypeError, "key must be a string, not array("),
    (lambda: Interpreter(DIGITS).get_signature_runner((1, 2)), ValueError, 'signature_key provided: "(1, 2)"'),
    (lambda: CompiledModel.from_file(DIGITS).get_signature_index((["x"],)), TypeError, "string, not (['x'],)"),
    (lambda: Interpreter(DIGITS).get_signature_runner(3), ValueError, 'signature_key provided: "3"', "serving_default"),
    (lambda: CompiledModel.from_file(DIGITS).run_by_name(["serve"], {}, {}), TypeError, "string, not ['serve']"),
    (lambda: CompiledModel.from_file(DIGITS).run_by_name(3, {}, {}), TypeError, "key must be a string, not 3"),
    (lambda: CompiledModel.from_file(DIGITS).run_by_name("serving_default", [], []), TypeError,
     "takes dictionaries {name: buffer}", "run_by_index() takes lists"),
    (lambda: CompiledModel.from_file(DIGITS).resize_input_tensor(1, [1, 8, 8, 1]), RuntimeError, "has 1 input"),
    (lambda: CompiledModel.from_file(DIGITS).resize_input_tensor(0, [None, 8, 8, 1]), TypeError,
     "a dimension must be a whole number, not None"),
    (lambda: CompiledModel.from_file(DIGITS).create_input_buffers("0"), TypeError,
     "signature_index must be a whole number, not '0'"),
    (lambda: CompiledModel.from_file(DIGITS).get_output_buffer_requirements(None), TypeError,
     "output_index must be a whole number, not None"),
    (lambda: CompiledModel.from_file(DIGITS, options=Options(cpu_options=CpuOptions(num_threads="2"))), TypeError,
     "num_threads must be a whole number, not '2'"),
    (lambda: Interpreter(f"{LONG}.tflite"), ValueError, "Could not open", "No such file"),
    (lambda: Interpreter(3), TypeError, "int"),
    (lambda: pylite.Model([3]), TypeError, "a model is the path of a file or its bytes, not list"),
    (lambda: Interpreter(model_content=b""), ValueError, "must be specified.", "; model_content is empty"),
    (lambda: Interpreter(model_content=small_models.reshape(), member="x"), ValueError,
     "model_content is a model, not a bundle", "leave out the member 'x'"),
    (lambda: Interpreter(DIGITS).invoke_nodes(0), RuntimeError, "experimental_preserve_all_tensors=True"),
    (lambda: flex.ops("Erf"), ValueError, "pylite.flex has no Erf; did you mean FlexErf"),
    (lambda: tasks.TextEmbedder(small_models.int16_window(), vocabulary={"a": 1}), TypeError,
     "vocabulary is the path of a file", "a list of the words, not dict"),
    (lambda: tasks.TextEmbedder(small_models.int16_window(), vocabulary=[b"[UNK]"]), TypeError,
     "vocabulary holds b'[UNK]'", "must be strings"),
    (lambda: tasks.TextEmbedder(small_models.int16_window(), vocabulary=["[UNK]"], lower_case="no"), TypeError,
     "lower_case must be True or False, not 'no'"),
    (lambda: tasks.ImageEmbedder(DIGITS, quantize="no"), TypeError, "quantize must be True or False, not 'no'"),
    (lambda: Interpreter(pylite.Model(DIGITS)), TypeError, "not a pylite.Model; pass model="),
    (lambda: interpreter().set_tensor(0, type("Tensor", (), {"__dlpack__": 1})()), ValueError, "OBJECT (of Tensor)",
     "pass numpy.from_dlpack(value)"),
    (lambda: interpreter().set_tensor(0, b"\0" * 64), ValueError, "STRING",
     "numpy.frombuffer(value, numpy.int8) makes an array"),
    (lambda: interpreter().set_tensor(0, iter([1])), ValueError, "OBJECT", "numpy.array(list(value), numpy.int8)"),
    (lambda: interpreter().set_tensor(0, "seven"), ValueError, "STRING", "it takes an array of numpy.int8"),
    (lambda: Interpreter(DIGITS, experimental_delegates=[pylite.PythonDelegate]), AttributeError,
     "pass PythonDelegate()"),
    (lambda: Interpreter(model_content=3), TypeError, "must be the bytes of a model, not int"),
    (lambda: Interpreter(DIGITS, num_threads=2**40), ValueError, "num_threads should be 1024 or less"),
    (lambda: Interpreter(DIGITS, max_memory=-1), ValueError, "max_memory", "at least 0", "not -1"),
    (lambda: Interpreter(DIGITS, max_memory="1k"), TypeError, "max_memory", "not '1k'"),
    (lambda: Interpreter(DIGITS, num_threads="2"), ValueError, "num_threads should be int", "not str"),
    (lambda: Interpreter(DIGITS, experimental_delegates="libedgetpu.so.1"), AttributeError,
     "load_delegate('libedgetpu.so.1')"),
    (lambda: Interpreter(DIGITS, experimental_delegates=[3]), AttributeError, "load_delegate()", "not 3"),
    (lambda: Interpreter(DIGITS, experimental_delegates=3), TypeError, "int"),
    (lambda: Interpreter(DIGITS, experimental_delegates=[type("D", (pylite.PythonDelegate,), {"flags": "ALLOW"})()]),
     ValueError, "the flags of <PythonDelegate D> are 'ALLOW'", "DelegateFlags.ALLOW_DYNAMIC_TENSORS"),
    (lambda: Interpreter(DIGITS, experimental_delegates=pylite.PythonDelegate()), TypeError, "pass [delegate]"),
    (lambda: Interpreter(DIGITS, max_memory=100).allocate_tensors(), RuntimeError, "node 0", "max_memory is 100",
     "Make the inputs smaller or raise max_memory"),
    (lambda: Interpreter(DIGITS).invoke(), RuntimeError, "not ready"),
    (lambda: Interpreter(DIGITS).get_tensor(0), ValueError, "allocate_tensors()"),
    (lambda: interpreter().set_tensor(0, PICTURE.astype(np.float32)), ValueError, "FLOAT32", "INT8",
     "numpy.rint(value / 0.00392156886 - 128).clip(-128, 127).astype(numpy.int8)"),
    (lambda: interpreter().set_tensor(0, PICTURE.astype(np.int32)), ValueError, "INT32",
     "convert it with numpy.asarray(value, numpy.int8)"),
    (lambda: interpreter().set_tensor(0, PICTURE.astype(np.int32) + 300), ValueError, "INT32",
     "it holds 300 to 300, and INT8 only -128 to 127; scale or clip it"),
    (lambda: interpreter().set_tensor(0, PICTURE.tolist()), ValueError, "INT64", "numpy.asarray(value, numpy.int8)"),
    (lambda: of_type("float32").set_tensor(0, np.zeros((2, 3), np.uint8)), ValueError, "UINT8", "FLOAT32",
     "numpy.asarray(value, numpy.float32). A picture also needs the normalization", "(value - 127.5) / 127.5"),
    (lambda: of_type("float32").set_tensor(0, [[1]]), ValueError, "INT64", "with numpy.asarray(value, numpy.float32)"),
    (lambda: of_type("int32").set_tensor(0, np.zeros((2, 3))), ValueError, "FLOAT64", "if its values are whole"),
    (lambda: of_type("string").set_tensor(0, np.zeros((2, 3))), ValueError, "expected type STRING",
     "it takes str or bytes"),
    (lambda: interpreter().set_tensor(0, PICTURE.view(np.uint8)), ValueError, "(value ^ 0x80).view(numpy.int8)"),
    (lambda: interpreter().set_tensor(0, PICTURE[0, :, :, 0]), ValueError, "Got 2 but expected 4",
     "[1, 8, 8, 1], the value [8, 8]", "value.reshape((1, 8, 8, 1))"),
    (lambda: interpreter().set_tensor(0, PICTURE[0, :, :4, 0]), ValueError, "the value [8, 4]",
     "resize_tensor_input()"),
    (lambda: interpreter().set_tensor(0, PICTURE[0]), ValueError, "value [8, 8, 1]", "value[numpy.newaxis]"),
    (lambda: interpreter().set_tensor(0, PICTURE.transpose(0, 3, 1, 2)), ValueError, "channels last",
     "value.transpose(0, 2, 3, 1)"),
    (lambda: interpreter().set_tensor(0, PICTURE[0].transpose(2, 0, 1)), ValueError, "channels last",
     "value.transpose(1, 2, 0)[numpy.newaxis]"),
    (lambda: interpreter().set_tensor(0, None), ValueError, "Got None", "INT8 [1, 8, 8, 1]"),
    (lambda: interpreter().set_tensor(0, "x" * 500), ValueError, "STRING", "INT8"),
    (lambda: interpreter().set_tensor(interpreter().get_input_details()[0], PICTURE), TypeError, "not dict",
     "details['index']"),
    (lambda: interpreter().set_tensor("image", PICTURE), TypeError, "not str", "get_signature_runner"),
    (lambda: interpreter().set_tensor(-1, PICTURE), ValueError, "-1 is negative", "0 to "),
    (lambda: interpreter().set_tensor(999, PICTURE), ValueError, "999", "exceeds"),
    (lambda: interpreter().set_tensor(8, PICTURE), ValueError, "tensor 8", "is a constant", "overrides"),
    (lambda: Interpreter(DIGITS).resize_tensor_input(0, [-1, 8, 8, 1]), ValueError, "negative"),
    (lambda: Interpreter(DIGITS).get_signature_runner("gone"), ValueError, '"gone"', '"serving_default"'),
    (lambda: Interpreter(DIGITS).get_signature_runner()(y=PICTURE), ValueError, "(y)"),
    (lambda: opened(small_models.custom_op()), RuntimeError,
     "Encountered unresolved custom op: Mystery (node 0). Register it with pylite.custom_op('Mystery')"),
    (lambda: opened(small_models.custom_op("edgetpu-custom-op")), RuntimeError, "Edge TPU", "libedgetpu",
     "without _edgetpu"),
    (lambda: opened(small_models.mixed_types()), RuntimeError, "(float32, int64)", "input 1 must be float32",
     "tensor 1 'b'"),
    (lambda: opened(small_models.unknown_ops()), RuntimeError, "'RESHAPE' version '99'", "versions 1 to 1"),
    (lambda: pylite.Model("gone.tflite"), ValueError, "'gone.tflite'", "No such file"),
    (lambda: CompiledModel.from_file("gone.tflite"), Exception, "'gone.tflite'", "No such file"),
    (lambda: buffer(np.zeros(65, np.int8)), Exception, "65 bytes", "[1, 8, 8, 1]"),
    (lambda: buffer("text"), ValueError, "must be a NumPy array", "not str"),
    (lambda: tasks.ImageClassifier(DIGITS, labels=["a", "b"]), ValueError, "2 names", "10 classes",
     "give a name for each"),
    (lambda: tasks.ImageClassifier(DIGITS, labels="labels.txt"), ValueError, "2 names", "10 classes"),
    (lambda: tasks.ImageClassifier(DIGITS, score_threshold=7), ValueError, "score_threshold is 7", "from 0 to 1"),
    (lambda: tasks.ImageClassifier(DIGITS, max_results=0), ValueError, "max_results is 0", "at least 1"),
    (lambda: tasks.ImageClassifier(DIGITS, max_result=3), TypeError, "max_result"),
    (lambda: tasks.ImageClassifier(DIGITS, std=0), ValueError, "std is 0"),
    (lambda: tasks.ImageClassifier(DIGITS, category_allowlist=["a"], category_denylist=["b"]), ValueError,
     "exclude each other",
     "give one"),
    (lambda: tasks.ImageClassifier(DIGITS, category_allowlist=["cat"]), ValueError, "'cat'",
     "the labels are zero, one"),
    (lambda: tasks.ImageClassifier(DETECTOR), ValueError, "[1, 10, 4]", "(1, classes)", "ObjectDetector"),
    (lambda: tasks.ImageSegmenter(DIGITS), ValueError, "[1, 10]", "expected (1, height, width)", "ImageClassifier"),
    (lambda: tasks.PoseEstimator(DIGITS), ValueError, "[1, 10]", "expected [1, 1, 17, 3]"),
    (lambda: tasks.FaceDetector(DIGITS), ValueError, "8 x 8 pixels", "expected a BlazeFace"),
    (lambda: tasks.FaceDetector(DIGITS, score_threshold=7), ValueError, "score_threshold is 7", "from 0 to 1"),
    (lambda: tasks.ObjectDetector(DIGITS), ValueError, "[1, 10]", "TFLite_Detection_PostProcess", "give labels"),
    (lambda: tasks.ObjectDetector(DETECTOR, iou_threshold=7), ValueError, "iou_threshold is 7", "from 0 to 1"),
    (lambda: tasks.AudioClassifier(DIGITS), ValueError, "[1, 8, 8, 1]", "expected one input for a window of samples"),
    (lambda: tasks.TextClassifier(DIGITS), ValueError, "'image'", "expected a text"),
    (lambda: classify(np.zeros((8, 8), np.float32)), ValueError, "[8, 8] and type float32", "expected uint8"),
    (lambda: classify(np.zeros((1, 8, 8, 1), np.uint8)), ValueError, "[1, 8, 8, 1]", "expected uint8 (height, width)"),
    (lambda: classify(SEVEN, channel_order="rgb"), ValueError, "'rgb'", "'RGB' or 'BGR'"),
    (lambda: classify(np.zeros((8, 8), int)), ValueError, "type int64", "give picture.astype(numpy.uint8)"),
    (lambda: classify([np.zeros((8, 8)), np.zeros((9, 9))]), ValueError, "not a list of 2", "takes one picture"),
    (lambda: classify(b"\xff\xd8"), ValueError, "not bytes", "PIL.Image.open(io.BytesIO(data))"),
    (lambda: tasks.ImageClassifier(None), TypeError, "ImageClassifier takes a model", "a pylite.Model", "not NoneType"),
    (lambda: tasks.ImageClassifier(interpreter()), TypeError, "takes a model", "not Interpreter"),
    (lambda: images.resize(np.zeros((8, 8, 1), np.uint8), 0, 4), ValueError, "0 pixels high and 4 wide", "at least 1"),
    (lambda: samples_of((np.zeros(9), 16000)), ValueError, "not a tuple", "give its samples, and sample_rate="),
    (lambda: classify(["a.png", "b.png"]), ValueError, "not a list of 2", "one picture, so call it for each"),
    (lambda: classify("gone/a.png"), OSError, "No such file or directory: \'", "; there is no folder gone"),
    (lambda: images.read("gone/b/c/a.pgm"), OSError, "No such file or directory: \'", "; there is no folder gone"),
    (lambda: classify("https://x.org/a.png"), OSError, "pylite downloads nothing: save the file, and give its path"),
    (lambda: Interpreter("https://x.org/m.tflite"), ValueError, "pylite downloads nothing: save the file"),
    (lambda: classify("gone.png"), OSError, "No such file or directory: \'", "; it was looked for in /"),
    (lambda: images.read("gone.pgm"), OSError, "No such file or directory: \'", "; it was looked for in /"),
    (lambda: audio.read("gone.wav"), OSError, "No such file or directory: \'", "; it was looked for in /"),
    (lambda: labels.read("gone.txt"), OSError, "No such file or directory: \'", "; it was looked for in /"),
    (lambda: classify("text.txt"), ValueError, "text.txt", "expected a picture"),
    (lambda: images.read("bad.png"), ValueError, "bad.png", "expected a picture"),
    (lambda: audio.read("bad.wav"), ValueError, "bad.wav", "expected an uncompressed .wav"),
    (lambda: labels.read(DIGITS), ValueError, "digits.tflite", "not UTF-8 text"),
    (lambda: models.path("digit"), ValueError, "'digit'", "did you mean 'digits'? The bundled models are"),
    (lambda: models.sample("sevn"), ValueError, "'sevn'", "did you mean 'seven'? The bundled samples are eight"),
    (lambda: validation.compare("digits", "gone.tflite", "x.npy"), ValueError, "'gone.tflite'", "No such file"),
    (lambda: validation.compare("digits", "digits", f"{LONG}.npz"), ValueError, "there is no such file or folder"),
    (lambda: tasks.ImageClassifier("digts"), ValueError, "Could not open 'digts'", "did you mean 'digits'?"),
    (lambda: validation.compare("digits", "digits", None), ValueError, "the data is None", "a file, a folder, or"),
    (lambda: validation.compare("digits", "digits", 7), ValueError, "of type int", "a file, a folder, or"),
    (lambda: validation.compare("digits", "digits", []), ValueError, "there are no samples"),
    (lambda: validation.compare("digits", "digits", [{"image": PICTURE}]), ValueError, "sample 0 is of type dict",
     "a list with an array for each input"),
    (lambda: validation.compare(pylite.Model(DIGITS), DIGITS, []), TypeError, "expected the path of a model", "Model"),
    (lambda: validation.compare(models.path("digits").read_bytes(), DIGITS, []), TypeError, "the path of a model",
     "not bytes"),
    (lambda: validation.compare("digits", "digits", [[np.zeros((1, 9, 9, 1))]]), ValueError, "sample 0: input",
     "takes [1, 8, 8, 1], and the sample has [1, 9, 9, 1]", "give an array of this shape"),
    (lambda: validation.compare("digits", "digits", [[PICTURE, PICTURE]]), ValueError, "2 arrays", "'image'",
     "for each input"),
    (lambda: validation.accuracy("digits", "x.npy"), ValueError, "x.npy has no labels",
     "give a folder for each class"),
    (lambda: validation.accuracy("nameless.tflite", "x.npy"), ValueError, "x.npy has no labels for an accuracy",
     "without labels, compare with a reference model (--reference)"),
    (lambda: validation.compare("digits", "digits", "alone.npy"), ValueError, "alone.npy: an array of shape [8, 8, 1] "
     "is one sample of input 'image'", "save array[numpy.newaxis]"),
    (lambda: repair("digits", "digits", [[PICTURE]]), ValueError, "at least two samples", "there are 1"),
    (lambda: repair("digits", "digits", [[PICTURE, PICTURE]] * 2), ValueError, "2 arrays", "'image'"),
    (lambda: sensitivity("digits", "digits", "missing.npz", 30.0), ValueError, "missing.npz: there is no such file"),
    (lambda: agreement.check(pylite.Model(DIGITS), [], "two.npz", DIGITS), ValueError, "two.npz: is not a recording"),
    (lambda: pylite.custom_op("X")(3), TypeError, "3 is neither a class nor a function"),
    (lambda: pylite.custom_op(np.arctan), TypeError, "not <ufunc 'arctan'>", '@custom_op("Name")'),
    (lambda: pylite.load_custom_ops(os.path.abspath("text.txt")), Exception, "text.txt",
     "is not a shared library; compile its source"),
    (lambda: pylite.load_delegate("gone.so"), ValueError, "gone.so", "cannot open",
     "install the library, or give its full path"),
    (lambda: pylite.load_custom_ops("./gone.so", ["f"]), OSError, "gone.so", "cannot open",
     "install the library, or give its full path"),
    (lambda: pylite.load_custom_ops("./text.txt", ["f"]), OSError, "text.txt is not a shared library",
     "compile its source with cc -shared -fPIC"),
    (lambda: pylite.load_delegate(os.path.abspath("text.txt")), ValueError, "text.txt"),
    (lambda: pylite.load_delegate(f"{LONG}.so"), ValueError, "Failed to load delegate"),
    (lambda: pylite.load_delegate("gone.so", 3), TypeError, "options of a delegate must be a dictionary", "not 3"),
    (lambda: pylite.MutableOpResolver().add_custom("X", ctypes), TypeError, "X"),
    (lambda: pylite.MutableOpResolver().add_builtin("ADDD", np.add), ValueError, "'ADDD'", "did you mean 'ADD'?"),
    (lambda: pylite.MutableOpResolver().add_builtin("zzzzzz", np.add), ValueError, "'zzzzzz'", "add_custom()"),
    (lambda: pylite.load_delegate(""), ValueError, "the path is empty", "a shared library"),
    (lambda: pylite.load_custom_ops("", ["f"]), Exception, "the path is empty", "a shared library"),
    (lambda: pylite.install_as("tensorflo"), ValueError, "'tensorflo'", "tflite_runtime, ai_edge_litert"),
    (lambda: pylite.install_as(3), TypeError, "'tflite_runtime', not 3"),
    (lambda: Interpreter(DIGITS, max_memory="1G"), TypeError, "max_memory must be a whole number, not '1G'"),
    (lambda: Interpreter(DIGITS, cached_shapes="2"), TypeError, "cached_shapes must be a whole number, not '2'"),
    (lambda: Interpreter(DIGITS, cache_dir=3), TypeError, "cache_dir", "path of a folder", "not 3"),
    (lambda: Interpreter(DIGITS, op_resolver=3), TypeError, "op_resolver must be an OpResolver, not 3"),
    (lambda: Interpreter(model=DIGITS), TypeError, "must be a pylite.Model", "pass model_path=, or pylite.Model(PATH)"),
    (lambda: Interpreter(model=models.path("digits").read_bytes()), TypeError, "must be a pylite.Model, not bytes"),
    (lambda: Interpreter(model_content="text"), TypeError, "bytes of a model, not str", "model_path"),
    (lambda: Interpreter(model_content=np.zeros(50, np.uint8)), ValueError, "model"),
    (lambda: Interpreter(DIGITS, overrides=[1]), TypeError, "overrides is a dictionary", "not list"),
    (lambda: interpreter().invoke_nodes("a"), TypeError, "start must be a whole number, not 'a'"),
    (lambda: interpreter().invoke_nodes(0, 1.5), TypeError, "stop must be a whole number, not 1.5"),
    (lambda: interpreter().resize_tensor_input(0, "abc"), ValueError, "input 0 ('image')", "such as [1,", "not 'abc'"),
    (lambda: interpreter().resize_tensor_input(0, [1, 8.5, 8, 1]), RuntimeError, "8.5", "whole numbers"),
    (lambda: interpreter().get_signature_runner()(PICTURE), TypeError, "inputs by name: pass input=..."),
    (lambda: CompiledModel.from_file(DIGITS).run_by_index(0, [PICTURE], [PICTURE]), TypeError,
     "Input buffers must be TensorBuffers, as create_input_buffers() makes them, not ndarray"),
    (lambda: CompiledModel.from_file(DIGITS).run_by_index(0, [], []), RuntimeError, "inputs: 1 vs buffers: 0"),
    (lambda: CompiledModel.from_file(DIGITS).run_by_index(0, 3, []), TypeError,
     "Input buffers must be a list of Tensor"),
    (lambda: CompiledModel.from_file(DIGITS, options="x"), AttributeError, "options must be Options, not str"),
    (lambda: pickle.dumps(CompiledModel.from_file(DIGITS)), TypeError, "make one in each process, with from_file()"),
    (lambda: images.write("y.png", np.zeros((4, 4, 3), np.float32)), ValueError,
     "uint8 array (height, width, channels)",
     "not float32 [4, 4, 3]"),
    (lambda: images.resize(np.zeros((4, 4), np.uint8), 2, 2), ValueError, "not uint8 [4, 4]"),
    (lambda: images.read(b"P5"), TypeError, "expected the path of a file, not bytes"),
    (lambda: pylite.unregister("Nothing"), KeyError, "no op 'Nothing' is registered"),
    (lambda: Interpreter(DIGITS, overrides={np.int32(23): PICTURE}), ValueError, "tensor 23 is computed"),
    (lambda: interpreter().set_tensor(0, PICTURE.view(np.uint8)), ValueError, "zero point 128 higher"),
    (lambda: CompiledModel.from_buffer("x"), TypeError, "bytes of a model, not str", "from_file()"),
    (lambda: tasks.ImageClassifier(DIGITS, mean=(1, 2, 3)), ValueError, "mean has 3 numbers", "each of the 1 channels"),
    (lambda: validation.compare(DIGITS, DIGITS, "x.npy", workers=0), ValueError, "workers is 0", "at least 1"),
    (lambda: validation.accuracy(DIGITS, "labelled.npz", workers="2"), ValueError, "workers is '2'"),
    (lambda: interpreter().set_tensor(0, [[1, 2], [3]]), ValueError, "the value for tensor 0, name: image",
     "lists of different lengths"),
    (lambda: tasks.ImageClassifier(DIGITS, labels=3), TypeError, "labels is 3", "a list of names"),
    (lambda: tasks.ImageClassifier(DIGITS, labels=[*range(10)]), TypeError, "labels holds 0", "strings"),
    (lambda: tasks.ImageClassifier(DIGITS, max_results="3"), TypeError, "max_results is '3'", "whole number"),
    (lambda: tasks.ImageClassifier(DIGITS, max_results=2.5), TypeError, "max_results is 2.5", "whole number"),
    (lambda: tasks.ImageClassifier(DIGITS, score_threshold="high"), TypeError, "score_threshold is 'high'", "a number"),
    (lambda: tasks.ImageClassifier(DIGITS, score_threshold=float("nan")), ValueError, "score_threshold is nan"),
    (lambda: tasks.ImageClassifier(DIGITS, mean="x"), TypeError, "mean is 'x'", "one for each channel"),
    (lambda: tasks.ImageClassifier(DIGITS, category_allowlist="seven"), TypeError, "such as ['seven'], not a string"),
    (lambda: tasks.ImageClassifier(DIGITS, num_threads=0), ValueError, "num_threads"),
    (lambda: classify(None), ValueError, "a path, a Pillow image or an array, not NoneType", "imread() and a camera's"),
    (lambda: classify(np.full((8, 8, 3), -0.5, np.float32)), ValueError, "type float32; expected uint8",
     "a task normalizes the pixels itself: give them as 0 to 255"),
    (lambda: classify(b"abc"), ValueError, "a path, a Pillow image or an array, not bytes"),
    (lambda: classify("gone/a.png"), OSError, "No such file or directory: \'", "; there is no folder gone"),
    (lambda: classify("https://x.org/a.png"), OSError, "pylite downloads nothing: save the file, and give its path"),
    (lambda: Interpreter("https://x.org/m.tflite"), ValueError, "pylite downloads nothing: save the file"),
    (lambda: classify("gone.png"), FileNotFoundError, "gone.png"),
    (lambda: tasks.TensorAudio(0), ValueError, "size is 0", "at least 1"),
    (lambda: tasks.TensorAudio("x"), ValueError, "size is 'x'", "number of samples"),
    (lambda: images.read(3), TypeError, "os.PathLike", "not int"),
    (lambda: audio.read(3), TypeError, "os.PathLike", "not int"),
    (lambda: labels.read(3), TypeError, "os.PathLike", "not int"),
    (lambda: models.sample(3), ValueError, "called 3", "the bundled samples are eight"),
    (lambda: models.path(None), ValueError, "called None", "the bundled models are digit-detector"),
    (lambda: validation.accuracy("digits", [3]), ValueError, "sample 0 is 3", "a pair (sample, label)"),
    (lambda: validation.accuracy("digits", [(PICTURE, "eleven")]), ValueError, "no class 'eleven'", "it has zero"),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_python(number, folder, monkeypatch):
    call, kind, *pieces = CALLS[number]
    monkeypatch.chdir(folder)
    with pytest.raises(kind) as caught:
        call()
    says(" ".join(str(caught.value).split()), *pieces)
