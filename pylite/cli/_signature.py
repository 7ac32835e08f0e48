"""Models with several signatures: which one a command runs, and which others there are."""
from pylite.cli._common import UsageError
from pylite.cli._parser import meant
from pylite.interpreter import Interpreter


class OfSignature(Interpreter):
    """An Interpreter whose inputs, outputs and runs are those of a signature's subgraph."""

    def __init__(self, key, **options):
        super().__init__(**options)
        self._main = self._executor(subgraph_of(self._model, key))
        self._use_fast_path(self._lock, self._main, self._views)

    def _details(self, indices, subgraph_index=None):
        return super()._details(indices, self._main.subgraph.index if subgraph_index is None else subgraph_index)


def subgraph_of(model, key):
    """The index of the subgraph that a signature of a Model runs, of the first for None; UsageError for another key."""
    if key is None:
        return 0
    known = {signature.key: signature.subgraph for signature in model.signatures}
    if key not in known:
        listed = f"; its signatures are {', '.join(map(repr, known))}" if known else "; it has none"
        raise UsageError(f"the model has no signature {key!r}{meant(key, known) or listed}")
    return known[key]


def opened(key, **options):
    """An Interpreter of a model's first subgraph, or, if `key` is not None, of a signature's."""
    return Interpreter(**options) if key is None else OfSignature(key, **options)


def notes(model, subgraph=0):
    """[a sentence about the signatures of a Model that a run of this subgraph leaves out], or []."""
    own = [repr(signature.key) for signature in model.signatures if signature.subgraph == subgraph]
    others = dict.fromkeys(repr(signature.key) for signature in model.signatures if signature.subgraph != subgraph)
    ran = f"signature {' or '.join(own)}" if own else f"subgraph {subgraph}"
    return [f"only {ran} ran; the model also has {', '.join(others)}"] if others else []
