"""Pictures: reading and writing them, with or without Pillow, and converting them to a model's size and channels."""
from __future__ import annotations

import operator
import os
import struct
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import FileFormatError, TensorError
from pylite.media.files import opened

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]      # (height, width, channels)

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".pnm", ".webp", ".gif", ".tif", ".tiff")


def read(path: str | os.PathLike[str]) -> Pixels:
    """The picture in `path`: uint8 (height, width, 1 or 3).  Formats other than PNM and BMP need Pillow.

    Raises OSError, or FileFormatError (a ValueError) for another kind of file or a damaged one.
    """
    with opened(path) as file:
        data = file.read()
    try:
        if data[:2] in (b"P2", b"P3", b"P5", b"P6"):
            return _netpbm(data)
        if data[:2] == b"BM":
            pixels = _bmp(data)
            if pixels is not None:
                return pixels
    except (ValueError, IndexError, OverflowError, struct.error) as error:
        raise FileFormatError(f"{path}: damaged picture: {error}") from None
    return _pillow(path)


def read_mask(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The mask in `path`: (height, width), one number for each pixel; with a palette, the indices into it.

    Raises OSError, or FileFormatError for pixels of several colours, another kind of file or a damaged one.
    """
    if str(path).lower().endswith((".pgm", ".pnm", ".bmp")):
        pixels: NDArray[Any] = read(path)
    else:
        pixels = _pillow(path, plain=True)
    if pixels.shape[2] != 1:
        raise FileFormatError(f"{path}: a mask has one number for each pixel, and this picture has {pixels.shape[2]}")
    return pixels[:, :, 0]


def write(path: str | os.PathLike[str], pixels: Pixels) -> None:
    """Write uint8 pixels (height, width, 1 or 3) to `path`.  Formats other than PNM need Pillow.

    Raises OSError, or FileFormatError (a ValueError) if the format cannot be written.
    """
    _check_pixels(pixels)
    height, width, count = pixels.shape
    if str(path).lower().endswith((".pgm", ".ppm", ".pnm")):
        with open(path, "wb") as file:
            file.write(b"P%d\n%d %d\n255\n" % (5 if count == 1 else 6, width, height) + pixels.tobytes())
        return
    try:
        from PIL import Image
    except ImportError:
        raise FileFormatError(f"{path}: writing this kind of picture needs Pillow: pip install "
                              "'pylite-runtime[image]'; .ppm and .pgm are written without it") from None
    try:
        Image.fromarray(pixels[:, :, 0] if count == 1 else pixels).save(path)
    except ValueError as error:
        raise FileFormatError(f"{path}: {error}; give a name that ends in .png, .jpg or .ppm") from None


def _check_pixels(pixels: Pixels) -> None:
    """TensorError unless these are pixels as read() returns them, perhaps with four channels."""
    if np.ndim(pixels) != 3 or pixels.dtype != np.uint8 or pixels.shape[2] not in (1, 3, 4):
        raise TensorError("pixels are a uint8 array (height, width, channels), with 1, 3 or 4 channels, not "
                          f"{getattr(pixels, 'dtype', type(pixels).__name__)} {list(np.shape(pixels))}")


def _pillow(path: str | os.PathLike[str], plain: bool = False) -> Pixels:
    """The pixels; plain: as the file has them, in a palette's numbers and without its orientation."""
    try:
        from PIL import Image
    except ImportError:
        raise FileFormatError(f"{path}: this kind of picture needs Pillow: pip install "
                              "'pylite-runtime[image]'; .ppm, .pgm and .bmp are read without it") from None
    try:
        with Image.open(path) as picture:
            if plain:
                return np.asarray(picture.convert("L") if picture.mode == "1" else picture).reshape(
                    picture.height, picture.width, -1)
            turned = upright(picture)
            return in_bytes(turned).reshape(turned.height, turned.width, -1)
    except MemoryError:
        raise
    except TensorError as error:
        raise FileFormatError(f"{path}: {error}") from None
    except Exception as error:      # of damaged files Pillow raises many kinds
        raise FileFormatError(f"{path}: {str(error) or type(error).__name__}; expected a picture that Pillow reads, "
                              "such as .png or .jpg") from None


def upright(picture: Any) -> Any:
    """A Pillow image turned as its EXIF orientation says, as photos of phones need it."""
    from PIL import ImageOps
    return ImageOps.exif_transpose(picture)


def in_bytes(picture: Any) -> NDArray[Any]:
    """The pixels of a Pillow image of any mode: uint8 (height, width), or (height, width, 3).

    16 bits become 8.  TensorError for numbers of 32 bits, whose range the mode leaves open.
    """
    mode = picture.mode
    if mode.startswith("I;16") or (mode == "I" and picture.format == "PNG"):      # as older Pillow reads 16 bits
        return (np.asarray(picture).astype(np.float64) * (255 / 65535)).round().astype(np.uint8)
    if mode in ("I", "F"):
        raise TensorError(f"a picture of mode {mode!r}, with pixels of 32 bits; expected 8 or 16 bits. Scale the "
                          "pixels to 0..255, and pass them as a uint8 array")
    return np.asarray(picture.convert("L" if mode in ("1", "L") else "RGB"))


def _check_size(width: int, height: int, nbytes: int, data: bytes) -> None:
    """ValueError unless there are pixels, whose `nbytes` can be in the data."""
    if width < 1 or height < 1:
        raise ValueError(f"it is {width} x {height} pixels large")
    if nbytes > len(data):
        raise ValueError(f"its {width} x {height} pixels take {nbytes} bytes, and the file has {len(data)}")


def _netpbm(data: bytes) -> Pixels:
    fields: list[int] = []
    start = 2
    while len(fields) < 3:      # width, height, largest value; comments run to the end of their line
        while data[start:start + 1].isspace():
            start += 1
        if data[start:start + 1] == b"#":
            start = data.index(b"\n", start)
            continue
        end = start
        while data[end:end + 1].isdigit():
            end += 1
        if end == start:
            raise ValueError(f"its header has no number at byte {start}; expected width, height and largest value")
        fields.append(int(data[start:end]))
        start = end
    width, height, top = fields
    if not 0 < top < 65536:
        raise ValueError(f"its largest value is {top}; expected 1 to 65535")
    channels = 3 if data[1:2] in b"36" else 1
    count = width * height * channels
    _check_size(width, height, count, data)     # each takes a byte at least
    if data[1:2] in b"56":
        values = np.frombuffer(data, np.uint8 if top < 256 else ">u2", count, start + 1)
    else:
        values = np.array(data[start:].split()[:count], np.int64)
    if values.size and not 0 <= values.min() <= values.max() <= top:
        raise ValueError(f"its values are {values.min()} to {values.max()}; expected 0 to {top}, its largest value")
    if top != 255:
        values = (values.astype(np.float64) * 255 / top).round()
    return values.astype(np.uint8).reshape(height, width, channels)


def _bmp(data: bytes) -> Pixels | None:
    """The pixels of an uncompressed .bmp of 8 (with a palette), 24 or 32 bits per pixel; None for other kinds."""
    start, header, width, height, _, bits, compression = struct.unpack_from("<I I i i H H I", data, 10)
    if bits not in (8, 24, 32) or compression not in (0, 3) or header < 40:
        return None
    row = (width * bits // 8 + 3) // 4 * 4
    _check_size(width, abs(height), row * abs(height), data)
    rows = np.frombuffer(data, np.uint8, row * abs(height), start).reshape(abs(height), row)
    pixels = rows[:, :width * bits // 8].reshape(abs(height), width, bits // 8)
    if bits == 8:
        if start < 14 + header:
            raise ValueError("its pixels begin before its palette")
        colours = np.frombuffer(data, np.uint8, start - 14 - header, 14 + header).reshape(-1, 4)
        pixels = colours[pixels[:, :, 0]]
    pixels = pixels[:, :, 2::-1]            # stored blue, green, red
    return np.ascontiguousarray(pixels[::-1] if height > 0 else pixels)


def channels(pixels: Pixels, count: int) -> Pixels:
    """uint8 `pixels` (height, width, channels) with `count` channels: 1 (luma), 3 or 4 (opaque)."""
    if pixels.shape[2] == count:
        return pixels
    if count == 1:
        luma = pixels[:, :, :3] @ np.array([0.299, 0.587, 0.114], np.float32)
        return luma.round().astype(np.uint8)[:, :, None]
    colour = np.repeat(pixels, 3, 2) if pixels.shape[2] == 1 else pixels[:, :, :3]
    if count == 3:
        return colour
    return np.concatenate([colour, np.full_like(colour[:, :, :1], 255)], 2)


def resize(pixels: Pixels, height: int, width: int) -> Pixels:
    """Resize uint8 `pixels` to (height, width): bilinear between pixel centres, after averaging blocks to shrink."""
    _check_pixels(pixels)
    if pixels.shape[:2] == (height, width):
        return pixels
    if min(operator.index(height), operator.index(width)) < 1:
        raise ValueError(f"a picture cannot become {height} pixels high and {width} wide; both are at least 1")
    down, across = max(1, pixels.shape[0] // height), max(1, pixels.shape[1] // width)
    channels = pixels.shape[2]
    h, w = pixels.shape[0] // down * down, pixels.shape[1] // across * across
    exact = np.float32 if down * across <= 2**24 // 255 else np.float64
    image = np.zeros((h // down, w // across, channels), exact)
    for y in range(down):       # sums of slices, which are exact, take less time than a mean over two axes
        for x in range(across):
            image += pixels[y:h:down, x:w:across]
    image = (image / exact(down * across)).astype(np.float32, copy=False)
    low, high, weight = _bilinear(image.shape[0], height)
    image = image[low] * (1 - weight)[:, None, None] + image[high] * weight[:, None, None]
    low, high, weight = (np.repeat(part, channels) for part in _bilinear(image.shape[1], width))
    place = np.arange(width * channels) % channels
    rows = image.reshape(height, -1)
    rows = rows.take(low * channels + place, 1) * (1 - weight) + rows.take(high * channels + place, 1) * weight
    return rows.round().astype(np.uint8).reshape(height, width, channels)


def _bilinear(have: int, count: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(lower rows, upper rows, weight of the upper) that resample `have` rows to `count`."""
    position = np.clip((np.arange(count) + 0.5) * have / count - 0.5, 0, have - 1)
    low = position.astype(np.int64)
    return low, np.minimum(low + 1, have - 1), (position - low).astype(np.float32)
