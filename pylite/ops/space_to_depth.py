"""SPACE_TO_DEPTH and DEPTH_TO_SPACE: blocks of space become channels, or channels blocks; one strided copy."""
from pylite.ir.registry import register
from pylite.ir.shapes import contiguous_strides
from pylite.ops.moves import copy, movable


def infer_space_to_depth(node):
    x, block = node.inputs[0], node.options.block_size
    if len(x.shape) != 4 or block < 1 or x.shape[1] % block or x.shape[2] % block:
        raise node.error(f"of shape {list(x.shape)} cannot be cut in blocks of {block} x {block}", x)
    n, h, w, c = x.shape
    return [(n, h // block, w // block, c * block * block)]


def infer_depth_to_space(node):
    x, block = node.inputs[0], node.options.block_size
    if len(x.shape) != 4 or block < 1 or x.shape[3] % (block * block):
        raise node.error(f"of shape {list(x.shape)} has no blocks of {block} x {block} in its channels", x)
    n, h, w, c = x.shape
    return [(n, h * block, w * block, c // (block * block))]


def depth_and_space(depth, space, block):
    """Views of both values with the axes (n, h, w, block row, block column, channel)."""
    n, h, w, _ = depth.shape
    sn, sh, sw, sc = contiguous_strides(space.shape)
    shape = (n, h, w, block, block, space.shape[3])
    return depth.view(shape), space.view(shape, (sn, block * sh, block * sw, sh, sw, sc))


def lower_space_to_depth(node):
    depth, space = depth_and_space(node.outputs[0], node.inputs[0], node.options.block_size)
    return copy(space, depth)


def lower_depth_to_space(node):
    depth, space = depth_and_space(node.inputs[0], node.outputs[0], node.options.block_size)
    return copy(depth, space)


def reference_space_to_depth(x, options):
    n, h, w, c = x.shape
    b = options.block_size
    return x.reshape(n, h // b, b, w // b, b, c).swapaxes(2, 3).reshape(n, h // b, w // b, c * b * b)


def reference_depth_to_space(x, options):
    n, h, w, c = x.shape
    b = options.block_size
    return x.reshape(n, h, w, b, b, c // (b * b)).swapaxes(2, 3).reshape(n, h * b, w * b, c // (b * b))


register("SPACE_TO_DEPTH", versions=(1, 2), types=movable("T -> T"), infer=infer_space_to_depth,
         lower=lower_space_to_depth, reference=reference_space_to_depth)
register("DEPTH_TO_SPACE", versions=(1, 2), types=movable("T -> T"), infer=infer_depth_to_space,
         lower=lower_depth_to_space, reference=reference_depth_to_space)
