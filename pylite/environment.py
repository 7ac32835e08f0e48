"""Environment: in LiteRT, CompiledModels share one; in pylite it has no effect."""
from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Environment", "EnvironmentOptions"]


@dataclasses.dataclass(frozen=True)
class EnvironmentOptions:
    """Folders of LiteRT's libraries, which pylite does not load."""
    runtime_path: str | None = None
    compiler_plugin_path: str = ""
    dispatch_library_path: str = ""


class Environment:
    """Makes CompiledModels until it is closed; models made before keep working."""

    def __init__(self, capsule: Any, options: EnvironmentOptions) -> None:
        self._capsule = capsule
        self._options = options

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{', closed' if self._capsule is None else ''}: {self._options}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Make no more models."""
        self._capsule = None

    @classmethod
    def create(cls, *, options: EnvironmentOptions | str | None = None, runtime_path: str | None = None,
               compiler_plugin_path: str = "", dispatch_library_path: str = "") -> Self:
        """A new Environment.

        options: EnvironmentOptions, or the runtime path.  ValueError if a path is given twice, or both options and
        a path; TypeError if a path is not a string.
        """
        if isinstance(options, str):
            if runtime_path is not None:
                raise ValueError("runtime_path was provided twice.")
            runtime_path, options = options, None
        if options is None:
            options = EnvironmentOptions(runtime_path, compiler_plugin_path, dispatch_library_path)
        elif runtime_path is not None or compiler_plugin_path or dispatch_library_path:
            raise ValueError("Pass either options or environment path shortcuts.")
        for name, path in dataclasses.asdict(options).items():
            if not isinstance(path, str) and (path is not None or name != "runtime_path"):
                raise TypeError(f"{name} must be a string, not {path!r}")
        options = dataclasses.replace(options, runtime_path=options.runtime_path or str(Path(__file__).parent))
        return cls(options, options)

    @property
    def options(self) -> EnvironmentOptions:
        """The options that the environment was made with."""
        return self._options

    @property
    def capsule(self) -> Any:
        """Something while the environment is open.  ValueError afterwards."""
        if self._capsule is None:
            raise ValueError("Environment is no longer valid")
        return self._capsule
