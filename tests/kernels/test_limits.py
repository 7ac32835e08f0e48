"""Sizes of the kernels' local buffers: lowering plans scratch memory above the same limits."""
import importlib
import re
from pathlib import Path

import pytest

KERNELS = Path(__file__).resolve().parents[2] / "pylite" / "_core" / "kernels"


@pytest.mark.parametrize(("kernels", "constant", "ops", "name"), [
    ("batch_matmul.pyx", "LOCAL", "batch_matmul", "_LOCAL"),
    ("batch_matmul.pyx", "LOCAL_SUMS", "batch_matmul", "_LOCAL_SUMS"),
    ("batch_matmul.pyx", "ROUND", "batch_matmul", "_ROUND"),
    ("fourier.pyx", "LOCAL", "complex", "LOCAL"),
    ("recurrent.pyx", "LOCAL", "recurrent_layer", "LOCAL"),
    ("recurrent_integer.pyx", "LOCAL", "recurrent_layer", "LOCAL"),
])
def test_limits_of_lowering_equal_those_of_kernels(kernels, constant, ops, name):
    found = re.search(rf"^    {constant} = (\d+)", (KERNELS / kernels).read_text(), re.M)
    assert int(found[1]) == getattr(importlib.import_module(f"pylite.ops.{ops}"), name)
