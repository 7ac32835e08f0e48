"""Products of float32 rows and weights of few bits, or with a scale for each block of the depth."""
from pylite.ir.values import Call, Packed, Scratch
from pylite.ops import products

_FEW = "int4", "int2"
_DEEPEST = 1 << 15      # depth of weights of few bits whose sums fit in 32 bits, see pack_blocks


def has_few_bits(w):
    """Are these weights that kernels take two to a byte?"""
    return w.dtype in _FEW and w.shape[1] % 16 == 0 and w.shape[1] <= _DEEPEST


def block_product(node, x, w, bias, y):
    """The Call for rows x times weights w (columns, depth); x, y: Views of 2 dimensions.

    Without blocks, a whole column is one.  With them, rows are quantized with a zero point whatever the option says, as
    by the reference kernel for blocks.
    """
    rows, depth = x.shape
    columns = w.shape[0]
    products.contents(node, w, "weights")
    if w.block_size:
        blocks, scales, asymmetric = depth // w.block_size, w.scales, True
        if depth % w.block_size or len(scales) != columns * blocks:
            raise node.error(f"has {len(scales)} scales for blocks of {w.block_size} in rows of {depth}", w)
    else:
        products.check_scales(node, w, columns, 0)
        blocks, scales = 1, products.per_channel(w.scales, columns)
        asymmetric = node.options.asymmetric_quantize_inputs
    return Call("blockwise.BlockwiseHybrid", x, y,
                Packed("blockwise.pack_blocks", w, scales, blocks, w.dtype in _FEW), bias,
                q=Scratch((rows, depth), "uint8"), row_scales=Scratch((rows,), "float32"),
                zero_points=Scratch((rows,), "int32"), blocks=blocks, asymmetric=asymmetric,
                limits=products.float_range(node))
