"""Make the folder of headers for plug-ins, when pylite is built.

    python make_tree.py OUTPUT DEPFILE HEADER ...

TensorFlow Lite's headers are there under every name that sources include them by: as they are in tensorflow/lite, and
under the other names as a line that includes them.  pylite/ has the HEADERs: those of micro-kernels, for kernels in
Cython, and custom_options.h.
"""
import shutil
import sys
from os.path import dirname, relpath
from pathlib import Path

HERE = Path(__file__).resolve().parent


def other_names(header: str) -> list[str]:
    """The names of tensorflow/lite/`header` under which a line includes it."""
    prefixes = ["tflite", "third_party/tensorflow/lite"]
    if header.startswith("c/") or header == "builtin_ops.h":
        prefixes += ["tflite/core", "tensorflow/lite/core", "third_party/tensorflow/lite/core"]
    return [f"{prefix}/{header}" for prefix in prefixes]


def make(output: Path, headers: list[Path]) -> list[Path]:
    """Make the folder; returns the files and folders of TensorFlow Lite's headers, which it depends on."""
    for folder in "tensorflow", "tflite", "third_party", "pylite":
        shutil.rmtree(output / folder, ignore_errors=True)
    sources = [HERE / "tensorflow", *sorted((HERE / "tensorflow").rglob("*"))]
    for source in sources:
        name = source.relative_to(HERE).as_posix()
        if source.is_dir():
            (output / name).mkdir(parents=True, exist_ok=True)
            continue
        shutil.copyfile(source, output / name)
        for other in other_names(name.removeprefix("tensorflow/lite/")):
            (output / other).parent.mkdir(parents=True, exist_ok=True)
            (output / other).write_text(f'#include "{relpath(name, dirname(other))}"\n')
    (output / "pylite").mkdir(exist_ok=True)
    for header in headers:
        shutil.copy(header, output / "pylite")
    return sources


if __name__ == "__main__":
    output, depfile, *headers = map(Path, sys.argv[1:])
    inputs = " ".join(str(path).replace(" ", r"\ ") for path in make(output, headers))
    depfile.write_text(f"{output}/tensorflow: {inputs}\n")
