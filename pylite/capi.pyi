import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

def get_include() -> str: ...
def load_custom_ops(path: str | os.PathLike[str], functions: str | Iterable[str] | Mapping[str, str] | None = None,
                    kind: Literal["classic", "value", "opaque", "registerer"] | None = None, register: bool = True
                    ) -> list[Any]: ...
