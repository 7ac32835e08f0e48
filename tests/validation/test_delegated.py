"""A delegate beside pylite's own kernels: what it claims, which nodes differ, and by how much."""
import json
import runpy
import shutil

import numpy as np
import pytest

import pylite
from pylite import cli
from pylite.errors import ComparisonError, DelegationError
from pylite.media import models
from pylite.validation import delegated
from tests.project.pages import ROOT

EXAMPLE = ROOT / "examples" / "delegate_python"
MODEL = EXAMPLE / "two_convolutions.tflite"


def pictures(count=3):
    return [[x] for x in np.random.default_rng(0).normal(0, 1, (count, 1, 8, 8, 3)).astype(np.float32)]


def digits(count=4):
    return [[x] for x in np.random.default_rng(0).random((count, 1, 8, 8, 1), np.float32)]


class Moving(pylite.PythonDelegate):
    """Takes RESHAPE and MAX_POOL_2D of 2 x 2, and adds `error` to the results of some nodes."""

    def __init__(self, error=0, nodes=(), pairs=False):
        self.error, self.nodes, self.pairs = error, nodes, pairs

    def supports(self, node):
        return node.name in ("RESHAPE", "MAX_POOL_2D")

    def prepare(self, graph):
        claimed = [node.index for node in graph.nodes if self.supports(node)]
        if self.pairs:      # only together with the node before
            claimed = [i for i in claimed if {i - 1, i + 1} & set(claimed)]
        graph.replace(claimed)

    def compile(self, part):
        return Kernel(self, part)


class Kernel:
    def __init__(self, delegate, part):
        self.delegate, self.part = delegate, part

    def invoke(self, *arrays):
        x = arrays[0]
        for node in self.part.nodes:
            if node.name == "MAX_POOL_2D":
                n, h, w, c = x.shape
                x = x.reshape(n, h // 2, 2, w // 2, 2, c).max((2, 4))
            name = node.outputs[0].name
            x = np.clip(x.astype(np.int32) + self.delegate.error * (name in self.delegate.nodes), -128, 127)
        arrays[-1][...] = x.reshape(arrays[-1].shape)


def names():
    return {o.index: t.name for o, t in ((o, graph().tensors[o.outputs[0]]) for o in graph().operators)}


def graph():
    return pylite.Model(models.path("digits")).graph.subgraphs[0]


def test_a_delegate_that_computes_the_same():
    """Real numbers may differ in their last bits; nodes and partitions are counted."""
    my = runpy.run_path(str(EXAMPLE / "my_delegate.py"))["MyDelegate"]()
    found = delegated.compare(MODEL, my, pictures())
    assert found.equal and found.ops == {"CONV_2D": 2, "MEAN": 1} and found.nodes == 4
    assert sorted(claim.nodes for claim in found.claims) == [[0], [2, 3]]
    assert found.alone["compared"] == 3 and not found.alone["left_out"] and found.samples == 3
    assert found.lines()[0].startswith("MyDelegate claims 3 of 4 nodes of two_convolutions.tflite, in 2 partitions: ")
    found = delegated.compare("digits", Moving(), digits())
    assert found.equal and sum(found.ops.values()) == 3


@pytest.mark.parametrize("error", [1, -5])
def test_a_node_that_differs_is_named_with_its_difference(error):
    """By itself; the nodes after it compute the same of the same operands, though in the model they differ, too."""
    pool = next(o for o in graph().operators if o.name == "MAX_POOL_2D")
    found = delegated.compare("digits", Moving(error, [names()[pool.index]]), digits())
    only, = found.alone["differences"]
    assert (only.node, only.op, only.largest, only.samples) == (pool.index, "MAX_POOL_2D", abs(error), 4)
    assert set(only.histogram) <= set(range(min(error, 0), max(error, 0) + 1)) and only.histogram[error] > 0
    assert not found.equal and found.differences[0].node == pool.index and len(found.differences) > 1
    assert {d.node for d in found.differences} <= set(range(pool.index, len(graph().operators)))
    assert json.loads(found.to_json())["first_difference"] == pool.index
    text = "\n".join(found.lines())
    assert f"differs: 1 of 3 nodes one at a time, on the CPU's operands; most node {pool.index} (MAX_POOL_2D" in text
    assert f"by up to {abs(error)} step{'s' * (abs(error) != 1)}" in text


def test_nodes_that_are_only_claimed_together_are_compared_in_the_model():
    last = max(names())
    first = next(i for i in names() if graph().operators[i].name == "RESHAPE")
    found = delegated.compare("digits", Moving(3, [names()[first]], pairs=True), digits())
    assert found.claims[0].nodes == [first - 1, first] and found.alone["compared"] == 0
    assert set(found.alone["left_out"]) == {first - 1, first} and "only together" in found.alone["left_out"][first]
    assert found.differences[0].node == first and found.differences[-1].node == last and not found.equal
    assert f"node {first} was not compared by itself" in found.lines()[-1]


def test_a_delegate_without_nodes_is_no_success():
    class Nothing(pylite.PythonDelegate):
        def supports(self, node):
            return False
    found = delegated.compare("digits", Nothing(), digits())
    assert not found.equal and found.lines() == ["Nothing claims none of the 10 nodes of digits.tflite, so nothing was "
                                                 "compared"]


def test_several_delegates_and_failing_ones():
    class Broken(Moving):
        def compile(self, part):
            raise ValueError("no memory")
    my = runpy.run_path(str(EXAMPLE / "my_delegate.py"))["MyDelegate"]()
    found = delegated.compare(MODEL, [Moving(), my], pictures())
    assert {claim.delegate for claim in found.claims} == {"MyDelegate"} and found.other == "Moving, MyDelegate"
    with pytest.raises(DelegationError, match=r"Broken failed: compile\(\) failed for node 3 MAX_POOL_2D: .*no memory"):
        delegated.compare("digits", Broken(), digits())
    with pytest.raises(ComparisonError, match="sample 0 has 2 arrays"):
        delegated.compare("digits", Moving(), [[1, 2]])


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLE / "my_delegate.py", "mine.py")
    (tmp_path / "wrong.py").write_text("from mine import *\nimport mine\n\ndef make():\n"
                                       "    mine.RUN['MEAN'] = lambda *a: 2 * plain(*a)\n    return mine.MyDelegate()\n"
                                       "plain = mine.RUN['MEAN']\n")
    monkeypatch.syspath_prepend(tmp_path)
    np.save("d.npy", np.concatenate([x for x, in pictures()]))
    arguments = ["validate", str(MODEL), "--data", "d.npy", "--delegate"]
    assert cli.main([*arguments, "mine.py:MyDelegate", "--junit", "j.xml"]) == 0
    text = capsys.readouterr().out
    assert "claims 3 of 4 nodes" in text and "equal: 3 nodes one at a time" in text
    assert 'name="comparison with the CPU"' in (tmp_path / "j.xml").read_text()
    assert cli.main([*arguments, "wrong.py:make", "--json"]) == 1
    said = capsys.readouterr()
    found = json.loads(said.out)
    only, = found["alone"]["differences"]
    assert only["node"] == 3 and only["largest"] > 0.1
    assert "differs: 1 of 3 nodes one at a time" in said.err
    assert cli.main([*arguments, "mine.py:Nobody"]) == 2 and "has no Nobody" in capsys.readouterr().err
    assert cli.main([*arguments, "mine.py:MyDelegate", "--html", "x.html"]) == 2
