"""What an Executor does where one subgraph calls another."""
from pylite.allocation import raw

KEPT = 512          # sets of input shapes, and parts that follow on what was found at run time, to remember


class Calls:
    """The part of an Executor that is about calling others and being called."""

    def callee(self, index):
        """The Executor of another subgraph, for an operator of this one that calls it."""
        others = self.shared.setdefault("executors", {})
        others.setdefault(self.subgraph.index, self)
        found = others.get(index)
        if found is None:
            found = others[index] = type(self)(self.model, self.model.graph.subgraphs[index], self.pool, self.preserve,
                                               self.guard, self.max_memory, self._resolver, self.shared)
        if found not in self.callees:
            self.callees.add(found)
            found._called()
        return found

    def _called(self):
        """Be ready for inputs whose shapes change from call to call."""
        self.kept = KEPT
        if not (self.preserve or self.plugins or self.delegation):
            from pylite import fusion  # seldom wanted
            fused = fusion.array_writes(self.subgraph)
            if all(self.find(operator) for operator in fused.operators):
                self.substitute(fused)

    def prepared(self, shapes, given):
        """The Allocation for these input shapes; for callers, whose variables stay.

        given: {position of an input: its contents, which the caller does not copy there}.
        """
        for position, shape in enumerate(shapes):
            self.resize(position, shape)
        now = self.given
        if given.keys() != now.keys() or any(data is not now[i] for i, data in given.items()):
            self.given = given
            self._suspend()
        if not self.ready:
            self._renew()
            self.callees.update(*[other.callees for other in self.callees])
        return self.current

    def entry(self, whole=False):
        """`current` for a kernel that calls it: (Program, failure(step, status), inputs, outputs); see control.pyx.

        whole: with the inputs that nothing reads, but not with those that are given.
        """
        part = self.current
        read = {i for operator in self.subgraph.operators for i in operator.inputs}.union(self.subgraph.outputs)
        ins = [raw(part.array(i)) if position not in self.given and (whole or i in read) else None
               for position, i in enumerate(self.subgraph.inputs)]
        outs = [raw(part.array(i)) for i in self.subgraph.outputs]
        return part.program, part.failure, ins, outs

    def call(self, arrays):
        """Run once on `arrays`; copies of the outputs."""
        part = self.prepared([a.shape for a in arrays], {})
        for index, array in zip(self.subgraph.inputs, arrays, strict=True):
            part.array(index)[...] = array
        self.invoke()
        return [self.array(i).copy() for i in self.subgraph.outputs]

    def _calls_plugins(self):
        """Has any subgraph that runs for an operator of this one a plug-in?"""
        found, fresh = set(), self.callees
        while fresh:
            found |= fresh
            fresh = set().union(*[other.callees for other in fresh]) - found
        return any(other.plugins for other in found)

    def relink(self):
        """Subgraphs that this one calls have other programs now, because of delegates."""
        if self.ready and self.callees and self._calls_plugins():
            self._suspend()
            self.take_up()
