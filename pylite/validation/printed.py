"""Results that print() shows as the command line does."""
from __future__ import annotations

from typing import Any


class Printed:
    """A result whose lines() are its text."""

    def lines(self, *arguments: Any, **options: Any) -> list[str]:
        """The result as text."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.lines()[0]}; print() shows all>"
