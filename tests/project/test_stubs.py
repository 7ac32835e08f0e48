"""Types: stubs agree with their modules, and programs that use pylite pass mypy."""
import ast
import os
import subprocess
import sys
from pathlib import Path

import pylite
from tests.tools import resources

HERE = Path(pylite.__file__).parent
ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "project" / "typed" / "program.py"
EXAMPLES = [ROOT / "examples" / name for name in (
    "custom_op_python/atan.py", "custom_op_python/make_model.py", "custom_op_c/run.py",
    "delegate_python/my_delegate.py", "delegate_python/make_model.py", "delegate_c/run.py")]

# Public modules, and modules with a stub, are compared.  Internal packages have no stubs.
ALLOWED = "\n".join([
    *[rf"pylite\.{folder.name}\..*" for folder in HERE.iterdir() if folder.is_dir() and folder.name != "_core"],
    r"pylite\.(__main__|clib\..*)",        # what the C library calls
    r"pylite\._core\.(clib|(kernels|product|capi)\..*)",
    r"pylite\._core(\.\w+)*\.__(test|pyx_capi)__",          # Cython's
    r"pylite\._core\.run\.memory\.Pages\.__buffer__",            # visible in Python 3.12 and later
    # Functions without arguments: Python 3.13 and later say that those in C take a `self`.
    r"pylite\._core\.(run\.memory\.(lost_pages|memory_limit)|simd\.(available|begin_packing|finish_packing))",
    r"pylite\._core\.graph\.decoder\.(Field|Layout|Table)",        # classes that only this module uses
    r"pylite\._core\.(graph\.(dimensions|tapes)|run\.rebinding)\..*",      # attributes that only these modules use
])


def mypy(*arguments, cwd):
    """Run a tool of mypy; fails if it reports anything."""
    resources.tool("mypy")
    # mypy does not find an editable install.
    environment = {} if HERE.parent.name == "site-packages" else {"MYPYPATH": str(HERE.parent)}
    done = subprocess.run([sys.executable, "-P", "-m", *map(str, arguments)], cwd=cwd, capture_output=True, text=True,
                          env={**os.environ, **environment}, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_agree(tmp_path):
    (tmp_path / "allowed").write_text(ALLOWED)
    (tmp_path / "mypy.ini").write_text("[mypy]\nignore_missing_imports = True\n[mypy-pylite.*]\nignore_errors = True\n")
    mypy("mypy.stubtest", "--concise", "--ignore-unused-allowlist", "--ignore-disjoint-bases", "--allowlist", "allowed",
         "--mypy-config-file", "mypy.ini", "pylite", cwd=tmp_path)


def test_programs_type_check(tmp_path):
    for program in (PROGRAM, *EXAMPLES):    # copied: beside the sources mypy finds these
        (tmp_path / f"{program.parent.name}_{program.name}").write_text(program.read_text())
    mypy("mypy", "--strict", "--config-file=", "--follow-imports=silent", *tmp_path.glob("*.py"), cwd=tmp_path)


def test_the_typed_program_runs():
    done = subprocess.run([sys.executable, "-P", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "[2.0, 3.3, 5.44]\n"


def test_the_stub_of_the_package_lists_its_public_names():
    """Python reads `_HOMES` of __init__.py, type checkers read __init__.pyi."""
    tree = ast.parse((HERE / "__init__.pyi").read_text())
    homes = {alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    names, = [ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign)]
    assert homes == pylite._HOMES | {"Final": "typing"} | dict.fromkeys(pylite._MODULES, "pylite")
    assert names == sorted(pylite.__all__)


def test_types_for_annotations_are_not_imported_to_run():
    code = """
import sys
import numpy as np
import pylite
from pylite.media import models
interpreter = pylite.Interpreter(str(models.path("digits")))
interpreter.allocate_tensors()
interpreter.get_input_details(), interpreter._get_ops_details(), interpreter.get_signature_runner
interpreter.invoke()
pylite.custom_op("Ignored")(np.arctan)
print([name for name in ("pylite.typing", "pylite.tflite.types", "pylite.plugins.protocols", "pylite.ir.host")
       if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_package_is_marked_as_typed():
    assert (HERE / "py.typed").exists()
