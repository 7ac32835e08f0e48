"""Optional resources of tests: the peer, tools, and real models and documents beside the checkout.

A test without its resource is skipped; with PYLITE_REQUIRE=1 (as in continuous integration) it fails.
"""
import importlib.util
import os
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"
MODELS = SHARED / "models"


def lack(reason):
    """Skip the running test, or fail it if PYLITE_REQUIRE is set."""
    if os.environ.get("PYLITE_REQUIRE"):
        pytest.fail(f"PYLITE_REQUIRE is set, and {reason}")
    pytest.skip(reason)


def peer(module="interpreter"):
    """The module ai_edge_litert.interpreter, the live oracle, or another of the package."""
    try:
        return importlib.import_module("ai_edge_litert." + module)
    except ImportError:
        return lack("the peer (ai-edge-litert) is not installed")


def tool(package):
    """Skip the test unless `package` is installed: of the extra `test`, or one that only `.ci/run` installs."""
    if importlib.util.find_spec(package) is None:
        lack(f"{package} is not installed")


def models():
    """The folder of real models."""
    if not MODELS.is_dir():
        lack("../shared/models is not beside the checkout")
    return MODELS


def document(number):
    """The text of one of the documents on TensorFlow Lite's C interface."""
    files = sorted((SHARED / "seeds").glob(f"{number:03}_*.txt"))
    if not files:
        lack("../shared/seeds is not beside the checkout")
    return files[0].read_text()
