"""Results that print() and notebooks show as the command line does."""
from __future__ import annotations

from typing import Any

from pylite.display import notebook


def pandas() -> Any:
    """The package pandas; ImportError says how to install it."""
    try:
        import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore] # an optional dependency
    except ImportError as error:
        raise ImportError(f"to_pandas() needs pandas: pip install pandas ({error})", name="pandas") from None
    return pandas


class Printed:
    """A result whose lines() are its text."""

    def lines(self, *arguments: Any, **options: Any) -> list[str]:
        """The result as text."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        """The same for notebooks, with tables."""
        return notebook.text(self.lines(table=notebook.rows))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.lines()[0]}; print() shows all>"
