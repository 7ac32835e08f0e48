"""Vectors for texts."""
from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ModelError
from pylite.tasks.results import Embedding
from pylite.tasks.task import Task

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

UNKNOWN, BEGIN, END, PADDING = "[UNK]", "[CLS]", "[SEP]", "[PAD]"
LONGEST = 100       # letters of a word that is taken apart


class WordPieces:
    """BERT's tokenizer: words, punctuation by itself, and each word in the longest pieces of the vocabulary.

    vocabulary: the pieces, those that continue a word with "##" before them; lower_case: without capitals and accents.
    """

    def __init__(self, vocabulary: Sequence[str], lower_case: bool = True) -> None:
        self.numbers = {piece: i for i, piece in enumerate(vocabulary)}
        self.lower_case = lower_case
        if UNKNOWN not in self.numbers:
            raise ValueError(f"a vocabulary of {len(vocabulary)} words has no {UNKNOWN}")

    def __call__(self, text: str) -> list[str]:
        """The pieces of a text."""
        if self.lower_case:
            text = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
        spaced = "".join(f" {c} " if _alone(c) else "" if _control(c) else c for c in text)
        return [piece for word in spaced.split() for piece in self._pieces(word)]

    def _pieces(self, word: str) -> list[str]:
        found, start = [], 0
        while start < len(word) <= LONGEST:
            mark = "##" if start else ""
            end = next((end for end in range(len(word), start, -1) if mark + word[start:end] in self.numbers), None)
            if end is None:
                return [UNKNOWN]
            found.append(mark + word[start:end])
            start = end
        return found or [UNKNOWN]


def _alone(c: str) -> bool:
    """Is this a word of its own: punctuation, any sign of ASCII, or a Chinese character?"""
    return ((c.isascii() and c.isprintable() and not c.isalnum() and c != " ")
            or unicodedata.category(c).startswith("P") or "\u3400" <= c <= "\u9fff" or "\uf900" <= c <= "\ufaff"
            or "\U00020000" <= c <= "\U0002fa1f")


def _control(c: str) -> bool:
    return c in "\0\ufffd" or (unicodedata.category(c) in ("Cc", "Cf") and c not in "\t\n\r")


class TextEmbedder(Task):
    """Makes vectors of texts by a model that takes the text itself, or the numbers of BERT's tokens.

    Of three inputs those whose names have "mask" and "segment" or "type" get the mask and the segments.
    l2_normalize: scale vectors to the length 1; quantize: return int8, 127 for 1 (of the normalized vector).
    vocabulary: the tokenizer's words or a file with a word on each line, by default the model's; lower_case: as the
    vocabulary is.
    The other arguments are those of Task.  ModelError for a model that takes something else, or has no vocabulary.
    """

    def __init__(self, model: Any, *, l2_normalize: bool = False, quantize: bool = False,
                 vocabulary: Sequence[str] | str | os.PathLike[str] | None = None, lower_case: bool = True,
                 **options: Any) -> None:
        super().__init__(model, **options)
        self._normalized, self._quantized = l2_normalize or quantize, quantize
        details = self.interpreter.get_input_details()
        self._text = len(details) == 1 and np.dtype(details[0]["dtype"]).kind in "OS"
        if self._text:
            return
        if len(details) not in (1, 3) or any(np.dtype(d["dtype"]).kind != "i" or len(d["shape"]) != 2 for d in details):
            names = ", ".join(repr(d["name"]) for d in details)
            raise ModelError(f"the model takes {names}; expected a text, or numbers of tokens (1, n), alone or with a "
                             "mask and segments")
        if vocabulary is None:
            vocabulary = next((info.vocabulary for info in self._inputs if info.vocabulary), None)
        elif not isinstance(vocabulary, (list, tuple)):
            with open(vocabulary, encoding="utf-8") as file:  # type: ignore[arg-type]
                vocabulary = file.read().splitlines()
        if vocabulary is None:
            raise ModelError("the model's metadata have no vocabulary; give vocabulary")
        self._pieces = WordPieces(vocabulary, lower_case)

    def embed(self, text: str) -> Embedding:
        """The vector of a text: float32 (n,), or int8.  Beyond the model's number of tokens the text is cut."""
        outputs = self._run(*self._arrays(text))
        vector = outputs[0].reshape(-1).astype(np.float32)
        if self._normalized:
            vector = vector / max(float(np.linalg.norm(vector)), 1e-12)
        if self._quantized:
            return Embedding((vector * 127).round().clip(-128, 127).astype(np.int8))
        return Embedding(vector)

    @staticmethod
    def cosine_similarity(u: Embedding, v: Embedding) -> float:
        """The cosine of the angle between two vectors; ValueError if one has no length, or their lengths differ."""
        a, b = u.feature_vector.astype(np.float64), v.feature_vector.astype(np.float64)
        if a.shape != b.shape:
            raise ValueError(f"vectors of {a.size} and {b.size} numbers; expected as many")
        lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
        if not lengths:
            raise ValueError("a vector of zeros has no direction")
        return float(a @ b) / lengths

    def _arrays(self, text: str) -> list[NDArray[Any]]:
        details = self.interpreter.get_input_details()
        if self._text:
            return [np.full(details[0]["shape"], text.encode(), object)]
        size, numbers = int(details[0]["shape"][1]), self._pieces.numbers
        pieces = [BEGIN, *self._pieces(text)[:size - 2], END] if BEGIN in numbers and END in numbers \
            else self._pieces(text)[:size]
        ids = np.full((1, size), numbers.get(PADDING, 0))
        ids[0, :len(pieces)] = [numbers.get(piece, numbers[UNKNOWN]) for piece in pieces]
        found: list[NDArray[Any]] = []
        values: NDArray[Any]
        for detail in details:
            name = detail["name"].lower()
            if len(details) == 3 and "mask" in name:
                values = (np.arange(size) < len(pieces))[None]
            elif len(details) == 3 and ("segment" in name or "type" in name):
                values = np.zeros((1, size))
            else:
                values = ids
            found.append(values.astype(detail["dtype"]))
        return found
