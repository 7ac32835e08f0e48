"""What the subgraphs of one interpreter share."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


class InterpreterState:
    """What the Executors of one interpreter share: `host.shared` for ops.

    executors               {subgraph: Executor}: the Interpreter's, and the executors that operators call
    planned                 {subgraph: PlannedMemory}, of subgraphs that only a plan has called (runtime/plan_state.py)
    recording               {Executor: [CalledProgram]}, or None while none is recorded (runtime/recorded_program.py)
    externals               what plug-ins in C share (plugins/host/plugin_structs.py), or None
    resources               [resource], of ops, by number (ops/state.py)
    resource_numbers        {(kind, key): number}
    generators              {(subgraph, operator): (state, initial state or None)} of random numbers
                            (ops/random_numbers.py)
    once                    {subgraph: flag}: has CALL_ONCE run it? (ops/call_once.py)
    """
    __slots__ = ("executors", "planned", "recording", "externals", "resources", "resource_numbers", "generators",
                 "once")

    def __init__(self) -> None:
        self.executors: dict[int, Any] = {}
        self.planned: dict[int, Any] = {}
        self.recording: dict[Any, list[Any]] | None = None
        self.externals: Any = None
        self.resources: list[Any] = []
        self.resource_numbers: dict[tuple[str, Any], int] = {}
        self.generators: dict[tuple[int, int], Any] = {}
        self.once: dict[int, Any] = {}

    def may_record(self) -> bool:
        """May a lowering be recorded?  Not if ops keep a state here that it may depend on."""
        return not (self.externals or self.resources or self.generators or self.once)

    def may_share_blueprints(self) -> bool:
        """May interpreters share lowered graphs?  Not if these may refer to this state, nor without an Interpreter."""
        return bool(self.executors) and self.recording is None and not self.planned and self.may_record()
