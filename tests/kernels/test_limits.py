"""Sizes of scratch that kernels hold themselves: lowering decides by the same numbers whether to plan any."""
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
def test_ops_know_the_kernels_limits(kernels, constant, ops, name):
    found = re.search(rf"^    {constant} = (\d+)", (KERNELS / kernels).read_text(), re.M)
    assert int(found[1]) == getattr(importlib.import_module(f"pylite.ops.{ops}"), name)
