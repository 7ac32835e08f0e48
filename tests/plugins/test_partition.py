"""The partitioner gives the same partitions, inputs, outputs and plans as TensorFlow Lite."""
import random

import pytest

from pylite.ir.graph import Operator, Subgraph, Tensor
from pylite.plugins.partition import Partition, partition, replaced, side_effects


def chain(*kinds):
    """A sequence of nodes, tensor i -> tensor i + 1; the nodes of kind "d" are claimed."""
    nodes = {i: ((i,), (i + 1,)) for i in range(len(kinds))}
    return nodes, list(nodes), {i for i, kind in enumerate(kinds) if kind == "d"}, [len(kinds)]


def test_two_branches_that_join():
    """The delegate claims all nodes but two in the middle."""
    nodes = {0: ((0, 1), (3,)), 1: ((3, 2), (4,)), 2: ((4,), (5,)), 3: ((5, 10), (9,)), 4: ((5, 1), (6,)),
             5: ((6, 10), (8,)), 6: ((3, 3), (7,)), 7: ((7, 4), (10,)), 8: ((8, 8), (11,))}
    parts = partition(nodes, range(9), {0, 1, 4, 5, 6, 7, 8}, [11, 9])
    assert parts == [Partition(True, (0, 1, 6, 7), (0, 1, 2), (4, 10)),
                     Partition(False, (2, 3), (4, 10), (5, 9)),
                     Partition(True, (4, 5, 8), (1, 5, 10), (11,))]
    plan, added = replaced(parts, 9)
    assert plan == [9, 2, 3, 10]
    assert added == {9: parts[0], 10: parts[2]}


@pytest.mark.parametrize(("kinds", "expected"), [
    ("", []),
    ("c", [(False, (0,))]),
    ("d", [(True, (0,))]),
    ("dd", [(True, (0, 1))]),
    ("dcd", [(True, (0,)), (False, (1,)), (True, (2,))]),
    ("cddc", [(False, (0,)), (True, (1, 2)), (False, (3,))]),
])
def test_chains(kinds, expected):
    assert [(p.claimed, p.nodes) for p in partition(*chain(*kinds))] == expected


def test_inputs_and_outputs_of_a_chain():
    assert [(p.inputs, p.outputs) for p in partition(*chain(*"ddc"))] == [((0,), (2,)), ((2,), (3,))]


def test_independent_nodes_join_across_an_unclaimed_one():
    """Independent claimed nodes form one partition, even with another node between them."""
    nodes = {0: ((0,), (1,)), 1: ((0,), (2,)), 2: ((0,), (3,)), 3: ((1, 2, 3), (4,))}
    assert [p.nodes for p in partition(nodes, range(4), {0, 2}, [4])] == [(0, 2), (1, 3)]
    runs = partition(nodes, range(4), {0, 2}, [4], greedy=False)
    assert [(p.claimed, p.nodes) for p in runs] == [(True, (0,)), (False, (1,)), (True, (2,)), (False, (3,))]


def test_without_fusion_every_claimed_node_is_a_partition():
    parts = partition(*chain(*"ddccd"), fuse=False)
    assert [p.nodes for p in parts] == [(0,), (1,), (2, 3), (4,)]


def test_later_nodes_may_move_before_earlier_ones():
    """The second pass of an epoch takes the nodes that became ready in the first."""
    nodes = {0: ((2,), (3,)), 1: ((1,), (2,)), 2: ((0,), (1,))}
    assert partition(nodes, range(3), {0, 1, 2}, [3]) == [Partition(True, (2, 1, 0), (0,), (3,))]


def test_absent_operands_and_inputs_that_are_outputs():
    nodes = {5: ((0, -1), (1, -1))}
    assert partition(nodes, [5], {5}, [0, 1]) == [Partition(True, (5,), (0,), (1,))]


def test_nodes_with_side_effects_keep_their_order():
    nodes = {0: ((0,), (1,)), 1: ((0,), (2,)), 2: ((0,), (3,))}
    free = partition(nodes, range(3), {0, 2}, [1, 2, 3])
    assert [p.nodes for p in free] == [(0, 2), (1,)]
    ordered = partition(nodes, range(3), {0, 2}, [1, 2, 3], ordered={0, 1, 2})
    assert [p.nodes for p in ordered] == [(0,), (1,), (2,)]


def test_side_effects():
    tensors = tuple(Tensor(i, str(i), dtype, (), ()) for i, dtype in enumerate(("resource", "float32")))
    operators = [Operator(i, name, 0, False, 1, inputs, (1,), None) for i, (name, inputs) in enumerate(
        [("READ_VARIABLE", (0,)), ("ADD", (1, -1)), ("WHILE", (1,)), ("CALL_ONCE", ())])]
    assert side_effects(Subgraph(0, "", tensors, (), (), tuple(operators)), operators) == {0, 2, 3}


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("fuse", [True, False])
def test_partitions_of_random_graphs_can_run_in_order(seed, greedy, fuse):
    rng = random.Random(seed)
    count = rng.randrange(1, 30)
    nodes = {i: (tuple(rng.randrange(i + 2) for _ in range(rng.randrange(1, 4))), (i + 2,)) for i in range(count)}
    claimed = {i for i in nodes if rng.random() < 0.6}
    outputs = rng.sample(range(2, count + 2), rng.randrange(1, count + 1))
    parts = partition(nodes, range(count), claimed, outputs, greedy=greedy, fuse=fuse)
    assert sorted(n for p in parts for n in p.nodes) == list(range(count))
    assert all((n in claimed) is p.claimed for p in parts for n in p.nodes)
    check_order(nodes, parts, {0, 1})
    for part in parts:
        check_ends(nodes, part, outputs)


def check_order(nodes, parts, known):
    """Every node runs after those that compute its inputs; known: the graph's inputs."""
    for part in parts:
        for n in part.nodes:
            assert known.issuperset(nodes[n][0])
            known.update(nodes[n][1])


def check_ends(nodes, part, outputs):
    """A partition has the inputs that it does not compute, and the outputs that are read outside of it."""
    computed = {t for n in part.nodes for t in nodes[n][1]}
    read = {t for n in part.nodes for t in nodes[n][0]}
    read_by_others = {t for n in nodes if n not in part.nodes for t in nodes[n][0]}
    assert part.inputs == tuple(sorted(read - computed))
    assert part.outputs == tuple(sorted(computed & (read_by_others | set(outputs))))
