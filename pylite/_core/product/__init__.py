"""The product engine: rows of windows or matrices times panels, finished to the type of the output.

Every convolution, fully connected layer, batch product and recurrent gate is a Product: a source of rows, packed
weights (panels) and a finish.  Read product.pxd first; it describes a Product and its life.

    bytes, floats, words        the loop over pieces, for rows of 8 bits, float32 and int16
    window, lines, quantized    where rows come from: gathered, from image lines, quantized on the way
    division                    how threads share a product
    columns                     how sums of 8-bit products are requantized
    images                      the base of convolutions and fully connected layers
    layouts                     how weights of each op become the filters of a plain convolution
"""
from pylite import _core

__path__.append(_core.LIBRARY)
