"""Delegates in shared libraries for TensorFlow Lite's C API, and applying delegates of any kind to executors."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pylite.errors import DelegateError, DelegateLibraryError, NoDelegateError, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from pylite.plugins.delegation import Delegation
    from pylite.runtime.executor import Executor

ENTRY_POINTS = ("tflite_plugin_create_delegate", "tflite_plugin_destroy_delegate")


class Delegate:
    """A delegate from a shared library that exports ENTRY_POINTS.

    library: file name or path; options: dict whose keys and values are passed as strings.
    Raises DelegateLibraryError (an OSError and a ValueError) if the library cannot be loaded, NoDelegateError (an
    AttributeError and a ValueError) if it has no such entry points, and DelegateError (a ValueError) if it refuses the
    options.
    """

    def __init__(self, library: str | os.PathLike[str], options: Mapping[Any, Any] | None = None) -> None:
        from pylite.plugins.host import delegates as native
        from pylite.plugins.host import libraries
        self._library: Any = None
        if options is not None and not hasattr(options, "items"):
            raise TypeError(f"the options of a delegate must be a dictionary, not {options!r}")
        self._options = {str(key): str(value) for key, value in (options or {}).items()}
        try:
            loaded = libraries.load(library)
        except OSError as error:
            raise DelegateLibraryError(f"Failed to load delegate from {library}\n{error}") from None
        for name in ENTRY_POINTS:
            if not hasattr(loaded, name):
                stable = ": it is a stable delegate, which is another protocol and not supported" if hasattr(
                    loaded, "TFL_TheStableDelegate") else ""
                raise NoDelegateError(f"Failed to load delegate from {library}\nit is not a delegate: it does not "
                                      f"export {name}{stable}")
        self._library = loaded
        self._native = native
        self._handle = native.create(loaded, library, self._options)      # destroys the delegate with its last user
        self.name = os.path.basename(os.fspath(library))

    def __repr__(self) -> str:
        return f"<delegate {self.name}>"

    @property
    def flags(self) -> int:
        """Its DelegateFlags, as a number."""
        return self._native.flags(self._handle.address)

    def modify(self, delegation: Delegation) -> None:
        """Called by the runtime: let the delegate take nodes of a Delegation."""
        self._native.modify(self, delegation)

    def _get_native_delegate_pointer(self) -> int:
        """The address of the TfLiteDelegate."""
        return self._handle.address


def load_delegate(library: str | os.PathLike[str], options: Mapping[Any, Any] | None = None) -> Delegate:
    """Load the Delegate in the shared library `library`.

    Raises OSError (also a ValueError) if it cannot be loaded, ValueError if it is no delegate or refuses the options.
    """
    return Delegate(library, options)


def apply(executors: Sequence[Executor], delegates: Iterable[Any], greedy: bool = True, fuse: bool = True) -> None:
    """Let `delegates` replace nodes in the subgraphs of `executors`.

    greedy, fuse: see `partition`.  Raises NoDelegateError for an object that is not a delegate; DelegateError for
    flags that are no integer; DelegationError (a RuntimeError) if a delegate fails, and the graphs are as they were.
    """
    from pylite.plugins.delegation import Delegation
    from pylite.runtime.subgraph_calls import relink
    for delegate in delegates:
        if isinstance(delegate, type) or not hasattr(delegate, "modify"):
            made = isinstance(delegate, type) and hasattr(delegate, "modify")
            raise NoDelegateError("delegates come from load_delegate(), or are PythonDelegate objects, not "
                                  f"{delegate!r}{f'; pass {delegate.__name__}()' if made else ''}")
        flags = delegate.flags
        if not hasattr(flags, "__index__"):
            raise DelegateError(f"the flags of {delegate!r} are {shortened(repr(flags))}; expected a member of "
                                "pylite.DelegateFlags, such as DelegateFlags.ALLOW_DYNAMIC_TENSORS, or several joined "
                                "by |")
    for executor in executors:
        if executor.plugin_structs is not None and executor.plugin_structs.host.skippable:
            continue        # a delegate has marked it: it runs this subgraph as part of another
        if executor.delegation is None:
            executor.delegate(Delegation(executor, delegates, greedy, fuse))
        else:
            executor.delegation.add(delegates)
    for executor in executors:
        relink(executor)
