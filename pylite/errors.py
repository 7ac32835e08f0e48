"""The exceptions of pylite: each is also the built-in exception that tf.lite raises in the same place."""
TYPE_CHECKING = False       # typing takes longer to import than this module
if TYPE_CHECKING:
    from typing import Any

LONGEST = 200       # most characters of a path or a value in a message
MARKS = 10          # characters next to it in the same word, such as quotes


def shortened(value: "Any", most: int = LONGEST) -> str:
    """A path or another value as text for a message: the middle of a long one is left out."""
    text = str(value)
    return text if len(text) <= most else f"{text[:most // 2 - 2]}...{text[1 - most // 2:]}"


def clipped(text: str) -> str:
    """`text` with the middle of its long words, such as paths, left out."""
    words = text.split(" ")
    return text if all(len(word) <= LONGEST + MARKS for word in words) else " ".join(map(shortened, words))


def counted(count: int, noun: str) -> str:
    """1 -> "1 thread", 2 -> "2 threads"; a noun in -s has its plural."""
    return f"{count} {noun}{'s' * (count != 1)}"


def looked_for(path: str) -> str:
    """The end of an error about the missing file `path`: where it was looked for, or why it cannot be there."""
    import os  # for this message
    if "://" in path:
        return "; pylite downloads nothing: save the file, and give its path"
    if path[:1] == "~":
        return "; only a shell replaces ~, so pass os.path.expanduser(path)"
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        while (above := os.path.dirname(folder)) not in ("", folder) and not os.path.isdir(above):
            folder = above      # the first one that is missing
        return f"; there is no folder {shortened(folder)}"
    if os.path.isabs(path):
        return ""
    try:
        return f"; it was looked for in {shortened(os.path.abspath(folder))}"
    except OSError:
        return "; the working folder has been removed"


class PyliteError(Exception):
    """The base of all exceptions of pylite."""

    def __str__(self) -> str:
        return clipped(super().__str__())


class ModelError(PyliteError, ValueError):
    """The file is not a model, or it is damaged."""


class FileFormatError(PyliteError, ValueError):
    """A picture, a list of labels or a vocabulary cannot be read."""


class UnsupportedOpError(PyliteError, RuntimeError, ValueError):
    """The model needs operators, versions or types that are not supported."""


class OpError(PyliteError, RuntimeError):
    """An operator cannot be prepared for its inputs.  The message names the node and the tensor."""


class DataDependentError(OpError):
    """A shape depends on data.

    cause: the Value whose contents it depends on, or the Node whose results it depends on.
    """

    def __init__(self, text: str, cause: "Any") -> None:
        super().__init__(text)
        self.cause = cause


class ExecutionError(PyliteError, RuntimeError):
    """An operator failed during invoke(), or the interpreter was not ready to run."""


class MemoryLimitError(PyliteError, RuntimeError, MemoryError):
    """The model needs more memory than `max_memory` allows."""


class TensorError(PyliteError, ValueError):
    """A tensor index, an array's type or its shape does not fit."""


class NotAllocatedError(PyliteError, ValueError):
    """The tensor has no memory to read or write, or another tensor overwrote its contents."""


class ResizeError(PyliteError, RuntimeError, ValueError):
    """An input cannot take the new shape."""


class CompiledModelError(ModelError, RuntimeError):
    """A CompiledModel cannot be made from the file."""


class SignatureError(PyliteError, RuntimeError):
    """A model has no such signature, input or output."""


class TensorBufferError(PyliteError, RuntimeError):
    """A TensorBuffer does not fit a tensor or an array, or it was destroyed."""


class BufferTypeError(PyliteError, AttributeError, TypeError):
    """An object is not a TensorBuffer, or not the Options of a CompiledModel."""


class AcceleratorError(PyliteError, RuntimeError):
    """There is no such processor to run a model on."""


class ComparisonError(PyliteError, ValueError):
    """Two models, or a model and data, cannot be compared."""


class ViewError(PyliteError, RuntimeError):
    """An operation would move or change memory that arrays from tensor() still refer to."""


class DelegateError(PyliteError, ValueError):
    """A delegate refuses its options; the base of other errors of delegates."""


class NoDelegateError(DelegateError, AttributeError):
    """An object is not a delegate, or a shared library lacks the functions of one."""


class DelegationError(DelegateError, RuntimeError):
    """A delegate failed to take over nodes; the graph is as it was before."""


class DelegateLibraryError(DelegateError, OSError):
    """The shared library of a delegate cannot be loaded."""


class PluginError(PyliteError, ValueError):
    """A shared library is not a plug-in of the expected kind."""
