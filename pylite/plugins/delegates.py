"""Delegates: shared libraries, made for the C API of TensorFlow Lite, that take over parts of a graph."""
import os

from pylite.errors import DelegateError, DelegateLibraryError

ENTRY_POINTS = ("tflite_plugin_create_delegate", "tflite_plugin_destroy_delegate")


class Delegate:
    """A delegate from a shared library that exports ENTRY_POINTS.

    library: file name or path; options: dict whose keys and values are handed over as strings.
    Raises DelegateLibraryError (an OSError and a ValueError) when the library cannot be loaded, and DelegateError (a
    ValueError) when it has no such entry points or refuses.
    """

    def __init__(self, library, options=None):
        from pylite.plugins.host import external, libraries
        self._library = None
        self._options = {str(key): str(value) for key, value in (options or {}).items()}
        try:
            loaded = libraries.load(library)
        except OSError as error:
            raise DelegateLibraryError(f"Failed to load delegate from {library}\n{error}") from None
        for name in ENTRY_POINTS:
            if not hasattr(loaded, name):
                stable = ": it is a stable delegate, which is another protocol and not hosted" if hasattr(
                    loaded, "TFL_TheStableDelegate") else ""
                raise DelegateError(f"Failed to load delegate from {library}\nit is no delegate: it does not export "
                                    f"{name}{stable}")
        self._library = loaded
        self._native = external
        self._handle = external.create(loaded, library, self._options)      # ends the delegate when nothing uses it
        self.name = os.path.basename(os.fspath(library))

    def __repr__(self):
        return f"<delegate {self.name}>"

    @property
    def flags(self):
        """Its DelegateFlags, as a number."""
        return self._native.flags(self._handle.address)

    def modify(self, delegation):
        """Called by the runtime: let it look at a graph and take nodes."""
        self._native.modify(self, delegation)

    def _get_native_delegate_pointer(self):
        """Address of the TfLiteDelegate."""
        return self._handle.address


def load_delegate(library, options=None):
    """The Delegate in the shared library `library`.

    Raises OSError (also a ValueError) when it cannot be loaded, ValueError when it is no delegate or refuses.
    """
    return Delegate(library, options)


def apply(executors, delegates, greedy=True, fuse=True):
    """Give parts of the graphs of `executors` to `delegates`.

    greedy, fuse: see `partition`.  DelegateError names one that is none; DelegationError (a RuntimeError) one that
    fails, and the graphs are as they were before.
    """
    from pylite.plugins.delegation import Delegation
    from pylite.runtime.subgraph_calls import relink
    for delegate in delegates:
        if isinstance(delegate, type) or not hasattr(delegate, "modify"):
            raise DelegateError("experimental_delegates must hold what load_delegate() returns, or objects of a "
                                f"PythonDelegate, not {delegate!r}")
    for executor in executors:
        if executor.tables is not None and executor.tables.host.skippable:
            continue        # a delegate that runs this subgraph as part of another said so
        executor.delegate(Delegation(executor, delegates, greedy, fuse))
    for executor in executors:
        relink(executor)
