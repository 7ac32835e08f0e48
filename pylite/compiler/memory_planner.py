"""Plans the arena of a lowered graph: computes lifetimes, elides copies, places blocks."""
from pylite._core.graph.dimensions import estimate
from pylite.compiler import placement


def placement_of(lowered, preserve=False, guard=False, access=None):
    """The Placement for `lowered`.

    preserve: every tensor keeps its own place; guard: leave guard bands between blocks; access: the caller's Access, or
    None; with an Access, every tensor stays a single run of bytes.
    """
    lifetimes = placement.lifetimes(lowered, preserve, access)
    if lifetimes.copies and not preserve and not guard and access is None:
        from pylite.compiler.passes import copy_elision  # imported for graphs that copy
        return copy_elision.run(lowered, lifetimes)[1]
    return placement.place(lifetimes, guard)


def lifetimes(lowered, preserve=False):
    """The Lifetimes of a Lowered with Dims.  The current shapes decide which copies are worth eliding."""
    result = placement.lifetimes(lowered, preserve)
    if result.copies and not preserve:
        from pylite.compiler.passes import copy_elision
        sizes = result.sizes
        result.sizes = {owner: estimate(size) for owner, size in sizes.items()}
        result = copy_elision.run(lowered, result)[0]
        result.sizes = sizes
    return result
