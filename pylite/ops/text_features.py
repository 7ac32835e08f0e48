"""LSH_PROJECTION and SKIP_GRAM: features of texts."""
import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Call
from pylite.schema.encodings import pack_strings

_SPACES = b" \t\n\v\f\r"


# ---- LSH_PROJECTION: bits that are the signs of sums of hashes --------------------------------------------------
def infer_projection(node):
    functions, x = node.inputs[:2]
    if len(functions.shape) != 2 or functions.shape[1] > 32:
        raise node.error("the hash functions must have 2 dimensions, the second at most 32", functions)
    if not x.shape or x.shape[0] < 1:
        raise node.error("has no elements to hash", x)
    weights = node.input(2)
    if weights is not None and weights.shape != x.shape[:1]:
        raise node.error(f"must have {x.shape[0]} elements, one for each of {x!r}", weights)
    count, bits = functions.shape
    if node.options.type not in ("SPARSE", "DENSE"):
        raise node.error(f"has the type {node.options.type}, which is unknown; SPARSE and DENSE are defined")
    return [(count if node.options.type == "SPARSE" else count * bits,)]


def lower_projection(node):
    sparse = node.options.type == "SPARSE"
    inputs = [value for value in node.inputs if value is not None]

    def run(functions, x, *rest):
        *weights, y = rest
        bits = project(functions, x, *weights)
        if sparse:
            count, width = bits.shape
            bits = (bits << np.arange(width - 1, -1, -1)).sum(1) + (np.arange(count) << width)
        y[...] = bits.reshape(-1).astype(np.uint64).astype(np.uint32).view(np.int32)
    return Call("python_op.PythonOp", run, len(inputs), 1, *inputs, node.outputs[0])


def project(functions, x, weights=None):
    """The bit (int64) of each seed in functions (count, bits): is the sum over x's elements of their hashes above 0?"""
    raw = pack_strings(x) if x.dtype.hasobject else np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    count = len(x)
    items = raw[:raw.size // count * count].reshape(count, -1)
    seeds = np.ascontiguousarray(functions).reshape(-1, 1).view(np.uint8)
    keys = np.concatenate([np.repeat(seeds, count, 0), np.tile(items, (len(seeds), 1))], 1)
    hashes = fingerprint(keys).view(np.int64).astype(np.float64).reshape(len(seeds), count)
    if weights is not None:
        hashes = hashes * weights
    score = np.cumsum(hashes, 1)[:, -1]                 # one after the other
    return (score > 0).astype(np.int64).reshape(functions.shape)


_K0, _K1, _K2 = (np.uint64(k) for k in (0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F))


def fingerprint(keys):
    """FarmHash's Fingerprint64 of each row of bytes (uint8, all equally long): uint64."""
    with np.errstate(over="ignore"):
        return _fingerprint(np.ascontiguousarray(keys), keys.shape[1])


def _word(keys, at, size=8):
    return np.ascontiguousarray(keys[:, at:at + size]).view(f"<u{size}")[:, 0].astype(np.uint64)


def _turn(v, by):
    return (v >> np.uint64(by)) | (v << np.uint64(64 - by))


def _mix(v):
    return v ^ (v >> np.uint64(47))


def _join(u, v, m):
    return _mix((v ^ _mix((u ^ v) * m)) * m) * m


def _fingerprint(keys, n):
    m = _K2 + np.uint64(2 * n)
    if n < 8:
        if n >= 4:
            return _join(np.uint64(n) + (_word(keys, 0, 4) << np.uint64(3)), _word(keys, n - 4, 4), m)
        first, middle, last = (keys[:, i].astype(np.uint64) for i in (0, n >> 1, n - 1))
        return _mix((first + (middle << np.uint64(8))) * _K2 ^ (np.uint64(n) + (last << np.uint64(2))) * _K0) * _K2
    if n <= 16:
        a, b = _word(keys, 0) + _K2, _word(keys, n - 8)
        return _join(_turn(b, 37) * m + a, (_turn(a, 25) + b) * m, m)
    if n > 64:
        return _long(keys, n)
    a, b = _word(keys, 0) * (_K1 if n <= 32 else _K2), _word(keys, 8)
    c, d = _word(keys, n - 8) * m, _word(keys, n - 16) * _K2
    y, second = _turn(a + b, 43) + _turn(c, 30) + d, a + _turn(b + _K2, 18) + c
    if n <= 32:
        return _join(y, second, m)
    z = _join(y, second, m)
    e, f = _word(keys, 16) * m, _word(keys, 24)
    g, h = (y + _word(keys, n - 32)) * m, (z + _word(keys, n - 24)) * m
    return _join(_turn(e + f, 43) + _turn(g, 30) + h, e + _turn(f + a, 18) + g, m)


def _weak(keys, at, a, b):
    w, x, y, z = (_word(keys, at + i) for i in (0, 8, 16, 24))
    a = a + w
    b, c = _turn(b + a + z, 21), a
    a = a + x + y
    return a + z, b + _turn(a, 44) + c


def _round(keys, at, state, m, last):
    x, y, z, v0, v1, w0, w1 = state
    nine = np.uint64(9 if last else 1)
    x = _turn(x + y + v0 + _word(keys, at + 8), 37) * m ^ w1 * nine
    y = _turn(y + v1 + _word(keys, at + 48), 42) * m + v0 * nine + _word(keys, at + 40)
    z = _turn(z + w0, 33) * m
    v0, v1 = _weak(keys, at, v1 * m, x + w0)
    w0, w1 = _weak(keys, at + 32, z + w1, y + _word(keys, at + 16))
    return z, y, x, v0, v1, w0, w1


def _long(keys, n):
    zero = np.zeros(len(keys), np.uint64)
    y = zero + np.uint64(81) * _K1 + np.uint64(113)
    z = _mix(y * _K2 + np.uint64(113)) * _K2
    state = np.uint64(81) * _K2 + _word(keys, 0), y, z, zero, zero, zero, zero
    end = (n - 1) // 64 * 64
    for at in range(0, end, 64):
        state = _round(keys, at, state, _K1, False)
    x, y, z, v0, v1, w0, w1 = state
    m = _K1 + ((z & np.uint64(0xFF)) << np.uint64(1))
    w0 = w0 + np.uint64(n - 1 & 63)
    v0 = v0 + w0
    w0 = w0 + v0
    x, y, z, v0, v1, w0, w1 = _round(keys, end + (n - 1 & 63) - 63, (x, y, z, v0, v1, w0, w1), m, True)
    return _join(_join(v0, w0, m) + _mix(y) * _K0 + z, _join(v1, w1, m) + x, m)


register("LSH_PROJECTION", types=["float32 any float32? -> int32"], infer=infer_projection, lower=lower_projection)


# ---- SKIP_GRAM ----------------------------------------------------------------------------------------------
OBJECT = 48         # bytes of an empty string and of the references to it


def evaluate_skip_gram(node, x):
    """All sequences of words in their order that leave out few enough in between."""
    o = node.options
    text = x.reshape(-1)[0] if x.size else b""
    words = split(text.encode() if isinstance(text, str) else text)
    selected, taken = [], 0
    if len(words) >= o.ngram_size > 0:
        for gram in grams(words, o.ngram_size, o.max_skip_size, o.include_all_ngrams):
            selected.append(gram)
            taken += len(gram) + OBJECT
            if len(selected) % 1000 == 0:
                node.check_memory(taken)
    y = np.empty(len(selected), object)
    y[:] = selected
    return [y]


def split(text):
    """Words between spaces; a space at the very beginning belongs to the first one, as the reference has it."""
    words, begin = [], 0
    for i in range(1, len(text)):
        if text[i] in _SPACES:
            if i > begin and text[begin] not in _SPACES:
                words.append(text[begin:i])
            begin = i + 1
    if len(text) > begin:
        words.append(text[begin:])
    return words


def grams(words, size, skip, shorter):
    chosen = [0]
    while chosen:
        # Take one word more where the next one is near enough, else note the sequence and take another last word.
        last = chosen[-1]
        if len(chosen) < size and last + 1 < len(words):
            chosen.append(last + 1)
            continue
        while chosen:
            if len(chosen) == size or (shorter and chosen):
                yield b" ".join(words[i] for i in chosen)
            following = chosen.pop() + 1
            if following < len(words) and (not chosen or following - chosen[-1] <= skip + 1):
                chosen.append(following)
                break


register("SKIP_GRAM", types=["string -> string"], infer=lambda node: None, evaluate=evaluate_skip_gram)
