from typing import Any

from pylite._core.graph.tapes import Tape
from pylite._core.run.parts import BindingContext

class BoundCall: ...

class Rebinder(BindingContext):
    def __init__(self, tape: Tape, calls: list[Any], io_views: list[Any], instance: Any, blocks: Any) -> None: ...
