"""Vectors and classes of texts."""
from __future__ import annotations

import os
import re
import unicodedata
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import FileFormatError, ModelError, shortened
from pylite.media.files import lines_of, text_of
from pylite.tasks.results import ClassificationResult, Classifications, Embedding
from pylite.tasks.task import ClassOptions, Task
from pylite.tflite.arguments import flag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.tasks.task import Labels, ModelSource
    from pylite.tflite.types import Precision

UNKNOWN, BEGIN, END, PADDING = "[UNK]", "[CLS]", "[SEP]", "[PAD]"
IDS, MASK, SEGMENTS = "ids", "mask", "segments"         # what inputs take, in the order in which models need them
LONGEST = 100       # most letters of a word that is split into pieces
# Characters that separate words, one kind of them and perhaps +: of other expressions, some take forever.
SEPARATORS = re.compile(r"(\[\^?\]?(\\.|[^\\\]])*\]|\\.|[^\\\[\](){}.*+?|^$])\+?", re.DOTALL)


class WordPieces:
    """BERT's tokenizer: it splits a text into words and punctuation, and each word into the longest known pieces.

    vocabulary: the pieces; pieces that continue a word begin with "##".  lower_case: remove capitals and accents first.
    """

    def __init__(self, vocabulary: Sequence[str], lower_case: bool = True) -> None:
        wrong = next((piece for piece in vocabulary if not isinstance(piece, str)), "")
        if wrong != "":
            raise TypeError(f"vocabulary holds {shortened(repr(wrong))}; words must be strings")
        self.numbers = {piece: i for i, piece in enumerate(vocabulary)}
        self.lower_case = lower_case
        if UNKNOWN not in self.numbers:
            raise FileFormatError(f"the vocabulary of {len(vocabulary)} words lacks {UNKNOWN}, which stands for "
                                  "unknown words; expected the vocab.txt of BERT's WordPiece tokenizer")

    def __call__(self, text: str) -> list[str]:
        """The pieces of a text."""
        if self.lower_case:
            text = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
        spaced = "".join(f" {c} " if _alone(c) else "" if _control(c) else c for c in text)
        return [piece for word in spaced.split() for piece in self._pieces(word)]

    def _pieces(self, word: str) -> list[str]:
        pieces, start = [], 0
        while start < len(word) <= LONGEST:
            mark = "##" if start else ""
            end = next((end for end in range(len(word), start, -1) if mark + word[start:end] in self.numbers), None)
            if end is None:
                return [UNKNOWN]
            pieces.append(mark + word[start:end])
            start = end
        return pieces or [UNKNOWN]


def _alone(c: str) -> bool:
    """Is this a word of its own: punctuation, any sign of ASCII, or a Chinese character?"""
    return ((c.isascii() and c.isprintable() and not c.isalnum() and c != " ")
            or unicodedata.category(c).startswith("P") or "\u3400" <= c <= "\u9fff" or "\uf900" <= c <= "\ufaff"
            or "\U00020000" <= c <= "\U0002fa1f")


def _control(c: str) -> bool:
    return c in "\0\ufffd" or (unicodedata.category(c) in ("Cc", "Cf") and c not in "\t\n\r")


class Words:
    """The tokenizer of average-word-embedding models: it splits a text at separators.

    vocabulary: lines of a word and its number; separators: a regular expression, as RE2 reads it.
    """

    def __init__(self, vocabulary: Sequence[str], separators: str) -> None:
        try:
            if not SEPARATORS.fullmatch(separators):
                raise re.error("")
            self._separators = re.compile(separators, re.ASCII)
        except re.error:
            raise ModelError(f"the model's metadata split texts at {shortened(repr(separators))}; expected a set of "
                             r"characters, such as [^\w\']+") from None
        self.numbers: dict[str, int] = {}
        for line in vocabulary:
            word, _, number = line.rpartition(" ")
            if not (number.isdecimal() and len(number) < 10):
                raise ModelError(f"the line {shortened(repr(line))} of the model's vocabulary is not a word, a space "
                                 "and its number")
            self.numbers[word] = int(number)
        if missing := [word for word in ("<PAD>", "<UNKNOWN>") if word not in self.numbers]:
            raise ModelError(f"the model's vocabulary of {len(vocabulary)} words lacks {missing[0]}")

    def ids(self, text: str, size: int) -> NDArray[Any]:
        """The numbers of the text's words, (1, size)."""
        numbers = self.numbers
        found = [numbers["<START>"]] if "<START>" in numbers else []
        found += [numbers.get(word, numbers["<UNKNOWN>"]) for word in self._separators.split(text) if word]
        ids = np.full((1, size), numbers["<PAD>"])
        ids[0, :len(found)] = found[:size]
        return ids


class TextTask(Task):
    """A model that takes the text itself, the numbers of its words, or the numbers of BERT's tokens.

    Of several inputs, the one with "mask" in its name gets the mask, and the one with "segment" or "type" the segments.
    vocabulary: the tokenizer's words or a file with a word on each line, by default the model's; lower_case: is the
    vocabulary in lower case?  The other arguments are those of Task.  ModelError for a model that takes something else,
    or has no vocabulary.
    """

    def __init__(self, model: ModelSource, *, vocabulary: Sequence[str] | str | os.PathLike[str] | None = None,
                 lower_case: bool = True, num_threads: int = 1,
                 experimental_delegates: Sequence[Any] | None = None, precision: Precision | None = None) -> None:
        super().__init__(model, num_threads=num_threads, experimental_delegates=experimental_delegates,
                         precision=precision)
        details = self.interpreter.get_input_details()
        self._text = len(details) == 1 and np.dtype(details[0]["dtype"]).kind in "OS"
        self._words = None if self._text or vocabulary is not None else self._words_of(details)
        if not self._text and self._words is None:
            self._take_tokens(details, vocabulary, lower_case)

    def _words_of(self, details: Sequence[Mapping[str, Any]]) -> Words | None:
        """The tokenizer of a model that takes numbers of words; None for another model."""
        info = self._inputs[0]
        if (info.separators is None or len(details) > 1 or details[0]["dtype"] != np.int32
                or len(details[0]["shape"]) != 2):
            return None
        return Words(info.vocabulary or (), info.separators)

    def _take_tokens(self, details: Sequence[Mapping[str, Any]],
                     vocabulary: Sequence[str] | str | os.PathLike[str] | None, lower_case: bool) -> None:
        """Set up BERT's tokenizer and the roles of the inputs; ModelError if the model takes something else."""
        self._roles = self._roles_of(details)
        if (sorted(self._roles) != sorted([IDS, MASK, SEGMENTS][:len(details)])
                or any(np.dtype(d["dtype"]).kind != "i" or len(d["shape"]) != 2 for d in details)):
            names = ", ".join(f"{d['name']!r} ({np.dtype(d['dtype'])} {list(map(int, d['shape']))})" for d in details)
            raise ModelError(f"the model takes {names}; expected a text, or token ids (1, n), alone or with a mask, "
                             'with "mask" in its name, and segments, with "segment" or "type" in theirs'
                             f"{self._hint()}")
        path = ""
        if vocabulary is None:
            vocabulary = next((info.vocabulary for info in self._inputs if info.vocabulary), None)
        elif not isinstance(vocabulary, (list, tuple)):
            if not isinstance(vocabulary, (str, os.PathLike)):
                raise TypeError("vocabulary is the path of a file with a word on each line, or a list of the words, "
                                f"not {type(vocabulary).__name__}")
            path, vocabulary = f"{os.fspath(vocabulary)}: ", lines_of(text_of(vocabulary))
        if vocabulary is None:
            raise ModelError(
                "the model takes token ids, and its metadata have no vocabulary; give vocabulary: the path of the "
                "vocab.txt that the model was trained with (one word per line), or a list of the words")
        try:
            self._pieces = WordPieces(vocabulary, flag("lower_case", lower_case))
        except FileFormatError as error:
            raise FileFormatError(f"{path}{error}") from None

    def _roles_of(self, details: Sequence[Mapping[str, Any]]) -> list[str]:
        """The role of each input, by its names in the file, its metadata and its signatures."""
        signed = [(index, name) for signature in self.model.graph.signatures if signature.subgraph == 0
                  for name, index in signature.inputs.items()]
        roles = []
        for detail, info in zip(details, self._inputs, strict=True):
            names = " ".join([detail["name"], info.name, *(name for i, name in signed if i == detail["index"])]).lower()
            roles.append(MASK if "mask" in names else SEGMENTS if "segment" in names or "type" in names else IDS)
        return roles if len(roles) > 1 else [IDS]

    def inputs(self, text: str) -> list[NDArray[Any]]:
        """The model's input arrays for a text; tokens that do not fit are cut off."""
        if not isinstance(text, str):
            raise TypeError(f"a text is a str, not {type(text).__name__}; a call takes one text")
        details = self.interpreter.get_input_details()
        if self._text:
            return [np.full(details[0]["shape"], text.encode(), object)]
        if self._words is not None:
            return [self._words.ids(text, int(details[0]["shape"][1])).astype(details[0]["dtype"])]
        pieces, numbers = self._pieces(text), self._pieces.numbers
        marked = BEGIN in numbers and END in numbers
        size = int(details[0]["shape"][1])
        if details[0]["shape_signature"][1] < 0:        # any length
            size = max(len(pieces), 1) + 2 * marked
        if size < 1 + 2 * marked:
            raise ModelError(f"the model's input for tokens has the shape [1, {size}], with no room for a piece of the "
                             f"text{f' between {BEGIN} and {END}' if marked else ''}")
        pieces = [BEGIN, *pieces[:size - 2], END] if marked else pieces[:size]
        ids = np.full((1, size), numbers.get(PADDING, 0))
        ids[0, :len(pieces)] = [numbers.get(piece, numbers[UNKNOWN]) for piece in pieces]
        values: dict[str, NDArray[Any]] = {
            IDS: ids, MASK: (np.arange(size) < len(pieces))[None], SEGMENTS: np.zeros((1, size))}
        return [values[role].astype(detail["dtype"]) for role, detail in zip(self._roles, details, strict=True)]


class TextEmbedder(TextTask):
    """Turns texts into vectors, by a model that takes the text itself, or the numbers of BERT's tokens.

    Raises ModelError for a model that takes something else, or has no vocabulary.
    """

    cosine_similarity = staticmethod(Embedding.cosine_similarity)

    def __init__(self, model: ModelSource, *, l2_normalize: bool = False, quantize: bool = False,
                 vocabulary: Sequence[str] | str | os.PathLike[str] | None = None, lower_case: bool = True,
                 num_threads: int = 1, experimental_delegates: Sequence[Any] | None = None,
                 precision: Precision | None = None) -> None:
        super().__init__(model, vocabulary=vocabulary, lower_case=lower_case, num_threads=num_threads,
                         experimental_delegates=experimental_delegates, precision=precision)
        self._check_numbers(self.interpreter.get_output_details()[:1])
        self._normalized = flag("l2_normalize", l2_normalize)
        self._quantized = flag("quantize", quantize)

    def embed(self, text: str) -> Embedding:
        """The vector of a text: float32 (n,), or int8."""
        return Embedding.of(self._run(*self.inputs(text))[0], self._normalized, self._quantized)


class TextClassifier(TextTask):
    """Classifies texts by a model whose outputs have a score for each class.

    The model takes the text itself, or the numbers of BERT's tokens; raises ModelError for a model that takes something
    else, or has no vocabulary.
    """

    def __init__(self, model: ModelSource, *, max_results: int | None = None, score_threshold: float | None = None,
                 category_allowlist: Iterable[str] = (), category_denylist: Iterable[str] = (),
                 display_names_locale: str | None = None, labels: Labels | None = None,
                 vocabulary: Sequence[str] | str | os.PathLike[str] | None = None, lower_case: bool = True,
                 num_threads: int = 1, experimental_delegates: Sequence[Any] | None = None,
                 precision: Precision | None = None) -> None:
        super().__init__(model, vocabulary=vocabulary, lower_case=lower_case, num_threads=num_threads,
                         experimental_delegates=experimental_delegates, precision=precision)
        self._check_numbers(self.interpreter.get_output_details())
        counts = [int(np.prod(detail["shape"])) for detail in self.interpreter.get_output_details()]
        options = ClassOptions(labels, max_results, score_threshold, category_allowlist, category_denylist,
                               display_names_locale)
        self._heads = self._filters(options, counts)

    def classify(self, text: str) -> ClassificationResult:
        """The classes of a text, for each output of the model."""
        return ClassificationResult([
            Classifications([category for _, category in head.categories(scores)], index, head.info.name)
            for index, (head, scores) in enumerate(zip(self._heads, self._run(*self.inputs(text)), strict=True))])
