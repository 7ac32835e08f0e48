"""The arena of a lowered graph: lifetimes, copies that are left out, placement."""
from pylite.compiler import placement


def plan(lowered, preserve=False, guard=False, access=None):
    """The Plan for `lowered`.

    preserve: every tensor keeps its own place; guard: leave guard bands between blocks; access: the caller's Access, or
    None: with one, every tensor stays a single run of bytes.
    """
    lifetimes = placement.lifetimes(lowered, preserve, access)
    if lifetimes.copies and not preserve and not guard and access is None:
        from pylite.compiler.passes import copy_elision  # imported for graphs that copy
        return copy_elision.run(lowered, lifetimes)
    return placement.place(lifetimes, guard)
