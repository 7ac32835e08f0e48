"""Blocks are what lies between a tensor that several nodes read and the node where their results meet."""
import pytest

from pylite import Model
from pylite.schema.builder import ModelBuilder
from pylite.validation.blocks import LARGEST, blocks
from tests.tools import resources
from tests.validation import planted


def graph(edges, outputs, inputs=1):
    """A Subgraph whose nodes add the tensors of `edges`; the first `inputs` tensors are its inputs."""
    m = ModelBuilder()
    tensors = [m.tensor(f"x{i}", (2,)) for i in range(inputs)]
    m.inputs(tensors)
    for n, (a, b) in enumerate(edges):
        tensors.append(m.tensor(f"y{n}", (2,)))
        m.operator("ADD", [tensors[a], tensors[b]], [tensors[-1]])
    m.outputs([tensors[i] for i in outputs])
    return Model(m.build()).graph.subgraphs[0]


@pytest.mark.parametrize(("edges", "outputs", "expected"), [
    ([(0, 0), (1, 1), (2, 2)], [3], [(0,), (1,), (2,)]),                            # a chain
    ([(0, 0), (1, 1), (2, 2), (1, 3), (4, 4)], [5], [(0,), (1, 2, 3), (4,)]),       # a residual block
    ([(0, 0), (1, 1), (0, 2), (3, 3), (4, 4), (3, 5)], [6], [(0, 1, 2), (3, 4, 5)]),    # one from the input on, another
    ([(0, 0), (1, 1), (1, 1), (2, 3), (1, 4)], [5], [(0,), (1, 2, 3, 4)]),          # one in another: the outer one
    ([(0, 0), (1, 1), (1, 1)], [2, 3], [(0,), (1,), (2,)]),                         # paths that do not meet
    ([(0, 0), (1, 1), (1, 2)], [2, 3], [(0,), (1,), (2,)]),                         # one that is an output, too
])
def test_blocks_are(edges, outputs, expected):
    assert blocks(graph(edges, outputs), range(len(edges))) == expected


def test_large_blocks_are_parted():
    """A skip connection over a long chain is no block, but one in it is."""
    edges = [(0, 0)] + [(i, i) for i in range(1, LARGEST)] + [(LARGEST, LARGEST), (LARGEST, LARGEST + 1)]
    long = [*edges, (1, len(edges))]
    assert blocks(graph(long, [len(long)]), range(len(long)))[-2:] == [(LARGEST, LARGEST + 1), (LARGEST + 2,)]


def test_only_candidates_count():
    edges = [(0, 0), (1, 1), (2, 2), (1, 3), (4, 4)]
    assert blocks(graph(edges, [5]), [1, 3, 4]) == [(1, 3), (4,)]
    assert blocks(graph(edges, [5]), [3, 4]) == [(3,), (4,)]


def test_blocks_of_real_models():
    resources.models()

    def found(name):
        graph = Model(planted.MODELS / f"{planted.PAIRS[name][0]}.tflite").graph.subgraphs[0]
        return [(b[0], b[-1]) for b in blocks(graph, range(len(graph.operators))) if len(b) > 1]
    assert found("resnet") == [(1, 3), (4, 7), (8, 11)]
    attention, dense = [(5, 21), (50, 66)], [(34, 37), (79, 82)]
    normalization = [(22, 33), (38, 49), (67, 78), (83, 94)]
    assert found("transformer") == sorted([(0, 2), *attention, *normalization, *dense])
