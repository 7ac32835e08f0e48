"""The arena of a lowered graph: lifetimes, copies that are left out, placement."""
from pylite._core.graph.dimensions import estimate
from pylite.compiler import placement


def plan(lowered, preserve=False, guard=False, access=None):
    """The Plan for `lowered`.

    preserve: every tensor keeps its own place; guard: leave guard bands between blocks; access: the caller's Access, or
    None: with one, every tensor stays a single run of bytes.
    """
    found = placement.lifetimes(lowered, preserve, access)
    if found.copies and not preserve and not guard and access is None:
        from pylite.compiler.passes import copy_elision  # imported for graphs that copy
        return copy_elision.run(lowered, found)[1]
    return placement.place(found, guard)


def lifetimes(lowered, preserve=False):
    """The Lifetimes of a Lowered with Dims.  Which copies pay to be left out is found for the shapes at hand."""
    found = placement.lifetimes(lowered, preserve)
    if found.copies and not preserve:
        from pylite.compiler.passes import copy_elision
        sizes = found.sizes
        found.sizes = {owner: estimate(size) for owner, size in sizes.items()}
        found = copy_elision.run(lowered, found)[0]
        found.sizes = sizes
    return found
