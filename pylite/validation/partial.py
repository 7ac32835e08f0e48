"""The sums over some of the samples, which processes return, files keep between runs, and machines share.

Sums are exact, so it does not matter who has measured which samples, or in what order sums are merged.
"""
from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ComparisonError
from pylite.validation.agreement import digest
from pylite.validation.files import replacing
from pylite.validation.histograms import Histograms
from pylite.validation.statistics import ErrorSums
from pylite.validation.tally import Tally

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence
    from typing import Any

    from pylite.runtime.model import Model

    Sums = ErrorSums | Histograms | Tally

FORMAT = "pylite partial validation"
VERSION = 3
TALLY = "accuracy 0"        # the name of the Tally


def identity(models: Sequence[Model], total: int, settings: dict[str, Any]) -> dict[str, Any]:
    """What must agree for sums to be merged: the models, the number of samples, and settings that change the sums."""
    digests = [digest(np.frombuffer(model.graph.contents, np.uint8)) for model in models]
    return {"format": FORMAT, "version": VERSION, "samples": total, "settings": settings,
            **dict(zip(("model", "reference"), digests, strict=False))}


class Partial:
    """Sums of the samples whose numbers are `done`.

    header: the identity; shapes: of the inputs; sums: as Comparison.sums() has them,
    and a Tally under TALLY where accuracy is measured.
    """

    def __init__(self, header: dict[str, Any], shapes: list[list[int]], done: Iterable[int],
                 sums: dict[str, Sums]) -> None:
        self.header, self.shapes, self.done, self.sums = header, shapes, set(done), sums

    def merge(self, other: Partial) -> None:
        """Add the sums of other samples.

        ComparisonError if they belong to other models, data or settings, or to samples that are counted already.
        """
        if self.header != other.header:
            raise ComparisonError("sums of other models, data or settings cannot be merged: "
                                  + ", ".join(k for k in self.header if self.header[k] != other.header.get(k)))
        twice = self.done & other.done
        if twice:
            raise ComparisonError(f"sample {min(twice)} has been measured twice ({len(twice)} samples in all)")
        for name, sums in other.sums.items():
            if name in self.sums:
                self.sums[name].merge(sums)     # type: ignore[arg-type] # which is of the same class
            else:
                self.sums[name] = sums
        self.done |= other.done

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file, which is replaced at once or not at all."""
        arrays: dict[str, Any] = {"header": np.array(json.dumps({**self.header, "shapes": self.shapes})),
                                  "done": np.array(sorted(self.done), np.int64)}
        for name, sums in self.sums.items():
            arrays |= {f"{name} {key}": value for key, value in sums.state().items()}
        with replacing(path) as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Partial:
        """Read a file that `save` wrote; ComparisonError for any other file."""
        try:
            with np.load(path, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            header = json.loads(str(arrays.pop("header")))
            if header["format"] != FORMAT or header["version"] != VERSION:
                raise KeyError("format")
            shapes, done = header.pop("shapes"), arrays.pop("done").tolist()
            states: dict[str, dict[str, Any]] = {}
            for name, value in arrays.items():
                what, _, key = name.rpartition(" ")
                states.setdefault(what, {})[key] = value
            return cls(header, shapes, done, {name: _kind(state).restored(state) for name, state in states.items()})
        except Exception as error:      # of damaged files numpy raises many kinds
            if isinstance(error, OSError) and error.filename is not None:
                raise
            raise ComparisonError(f"{path}: holds no sums of version {VERSION}, as `pylite validate --save` writes "
                                  "them") from None


def _kind(state: dict[str, Any]) -> type[Sums]:
    """The class whose state() this is."""
    return Tally if "tally" in state else ErrorSums if "limbs" in state else Histograms
