from collections.abc import Sequence

ALIGNMENT: int

def plan(sizes: Sequence[int], firsts: Sequence[int], lasts: Sequence[int]) -> tuple[list[int], int, int]: ...
