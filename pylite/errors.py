"""The exceptions of pylite: each is also the built-in exception that tf.lite raises in the same place.

Modules that every model needs say `pylite.OpError`, which imports this one when the first is raised.
"""


class PyliteError(Exception):
    """Anything that pylite raises on purpose."""


class ModelError(PyliteError, ValueError):
    """The file is not a model, or is damaged."""


class FileFormatError(PyliteError, ValueError):
    """A picture or a list of labels cannot be read."""


class UnsupportedOpError(PyliteError, RuntimeError, ValueError):
    """The model needs operators, versions or types that are not registered."""


class OpError(PyliteError, RuntimeError):
    """An operator cannot be prepared for its inputs: names the node and the tensor."""


class DataDependentError(OpError):
    """A shape depends on data: on the contents of the Value, or the results of the Node, that is the `cause`."""

    def __init__(self, text, cause):
        super().__init__(text)
        self.cause = cause


class ExecutionError(PyliteError, RuntimeError):
    """An operator failed while running, or the interpreter was not ready to run."""


class MemoryLimitError(PyliteError, RuntimeError, MemoryError):
    """The model needs more memory than `max_memory` allows."""


class TensorError(PyliteError, ValueError):
    """A tensor index, an array's type or its shape does not fit."""


class NotAllocatedError(PyliteError, ValueError):
    """The tensor has no memory to read or write at this time."""


class ResizeError(PyliteError, RuntimeError, ValueError):
    """An input cannot take the new shape."""


class ViewError(PyliteError, RuntimeError):
    """Arrays from tensor() are alive while the memory behind them would change."""


class DelegateError(PyliteError, ValueError):
    """A delegate refuses, or what was given is none."""


class DelegationError(DelegateError, RuntimeError):
    """A delegate failed to take over its part of the graph, which is as it was before."""


class DelegateLibraryError(DelegateError, OSError):
    """The shared library of a delegate cannot be loaded."""


class PluginError(PyliteError, ValueError):
    """A shared library is no plug-in of the kind that it was taken for."""
