"""TRANSPOSE and the SPACE_TO and TO_SPACE ops against the peer."""
import numpy as np
import pytest

from pylite.errors import OpError
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.moving import WIDTHS, one_op, random_array, random_shape
from tests.tools.oneop import differential

QUANTIZED = ("int8", "uint8", "int16")


@differential(*WIDTHS, "int4", count=20)
def test_transpose(m, rng, dtype):
    shape = random_shape(rng, 1, 6, empty=False, largest=40 if rng.random() < 0.2 else 6)
    shape = shape[:3] if max(shape) > 8 else shape
    axes = rng.permutation(len(shape)).astype(np.int32)
    axes -= (rng.random(len(axes)) < 0.3) * np.int32(len(axes))
    return one_op(m, "TRANSPOSE", dtype, [random_array(rng, shape, dtype)], [axes], version=4)


@differential("int8", "uint8", "float32", "int64", count=8)
def test_space_to_depth(m, rng, dtype):
    n, h, w, c, block = (int(v) for v in rng.integers(1, 5, 5))
    x = random_array(rng, (n, h * block, w * block, c), dtype)
    return one_op(m, "SPACE_TO_DEPTH", dtype, [x], block_size=block)


@differential("int8", "uint8", "float32", "int64", count=8)
def test_depth_to_space(m, rng, dtype):
    n, h, w, c, block = (int(v) for v in rng.integers(1, 5, 5))
    x = random_array(rng, (n, h, w, c * block * block), dtype)
    return one_op(m, "DEPTH_TO_SPACE", dtype, [x], block_size=block)


@differential("int8", "uint8", "int16", "float32", "int64", "bool", count=20)
def test_space_to_batch(m, rng, dtype):
    spatial = int(rng.integers(1, 3))
    blocks = rng.integers(1, 5, spatial)
    paddings = rng.integers(0, 5, (spatial, 2)) * (rng.random((spatial, 1)) < 0.7)
    wide = (rng.integers(1, 5, spatial) * blocks).tolist()
    space = []
    for axis, block in enumerate(blocks.tolist()):
        size = wide[axis] - int(paddings[axis].sum())
        while size < 1:
            size += block
        space.append(size)
    x = random_array(rng, (int(rng.integers(1, 4)), *space, int(rng.integers(1, 4))), dtype)
    zero = {"int8": -7, "uint8": 120}.get(dtype, 0)
    return one_op(m, "SPACE_TO_BATCH_ND", dtype, [x], [blocks.astype(np.int32), paddings.astype(np.int32)],
                  quantization=(0.5, zero) if dtype in QUANTIZED else (), version=3)


@differential("int8", "uint8", "int16", "float32", "int64", "bool", count=20)
def test_batch_to_space(m, rng, dtype):
    spatial = int(rng.integers(1, 3))
    blocks = rng.integers(1, 5, spatial)
    small = rng.integers(1, 5, spatial)
    room = small * blocks - 1
    before = rng.integers(0, room // 2 + 1)
    crops = np.stack([before, rng.integers(0, room - before + 1)], 1)
    x = random_array(rng, (int(np.prod(blocks) * rng.integers(1, 4)), *small.tolist(), int(rng.integers(1, 4))), dtype)
    return one_op(m, "BATCH_TO_SPACE_ND", dtype, [x], [blocks.astype(np.int32), crops.astype(np.int32)],
                  quantization=(0.5, 0) if dtype in QUANTIZED else (), version=3)


@pytest.mark.parametrize("axes", [(0, 0), (0, 2), (0,)])
def test_invalid_permutations_are_refused(axes):
    m = ModelBuilder()
    one_op(m, "TRANSPOSE", "float32", [np.zeros((2, 3), np.float32)], [np.array(axes, np.int32)])
    with pytest.raises(OpError, match=r"TRANSPOSE.*x0.*does not permute"):
        Interpreter(model_content=m.build()).allocate_tensors()
