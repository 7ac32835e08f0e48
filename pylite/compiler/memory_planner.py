"""The arena of a lowered graph: lifetimes, copies that are not made, placement."""
from pylite.compiler import placement


def plan(lowered, preserve=False, guard=False):
    """The Plan for `lowered`.  preserve: every tensor keeps its own place; guard: leave bands in between."""
    lives = placement.lifetimes(lowered, preserve)
    if lives.copies and not preserve and not guard:
        from pylite.compiler.passes import copy_elision  # imported for graphs that copy
        return copy_elision.plan(lowered, lives)
    return placement.place(lives, guard)
