"""One sentence that says whether a model is good, which node is to blame, and what to do."""
from __future__ import annotations

import math
from typing import Any

from pylite.media.outputs import PASS_THROUGH
from pylite.validation.accuracy_report import OWN
from pylite.validation.causes import NOTABLE_DB, SHOWN, STALE, SUSPICIOUS_DB
from pylite.validation.ranking import FIXED_GRIDS

# SQNR of an output, and the error at this SQNR as a share of the output's root mean square:
GOOD_DB = 30.0      # from here on (3 %) the error rarely changes an answer
TINY_DB = 40.0      # from here on (1 %) no node needs a closer look
POOR_DB = 20.0      # below (10 %) the error often changes an answer
LOSS = 1.0          # percentage points of the main metric that a good quantization may lose
CHANCE = 0.05       # p of McNemar's test; with a larger one a difference may be chance
LIMITS = {"good": GOOD_DB, "tiny": TINY_DB, "poor": POOR_DB, "notable": NOTABLE_DB, "suspicious": SUSPICIOUS_DB,
          "loss": LOSS}
GOOD, FAIR, POOR, PLAIN = "good", "fair", "poor", "plain"       # plain: there is nothing to compare with
INHERITED_DB = 15.0     # a node passes on the noise that it reads if its SQNR by itself is this much better
# Gains in the SQNR of the outputs without the noise of one node:
LEAST_DB = 1.0      # the node causes a fifth of the noise: it is to blame
MOST_DB = 3.0       # it causes half of the noise
SOME_DB = 0.1       # smaller gains are chance
NAMED = 3           # most other faulty nodes that the verdict names
OUTSIDE = "more than 1 % of the numbers are outside"        # in the note about samples that an input cannot represent
SWAPPED = "the reference has quantized tensors, and the model has none; are they swapped?"
_BEGINNINGS = {GOOD: "Good: ", FAIR: "Look closer: ", POOR: "Poor: ", PLAIN: ""}


def verdict(report: Any) -> dict[str, str]:
    """{"level": "good", "fair", "poor" or "plain", "text": sentences} for a Report, which has this as `verdict`."""
    if SWAPPED in report.notes:
        return {"level": POOR, "text": f"Poor: {SWAPPED} The results below would mean little."}
    least = worst_output(report)
    lowest = math.inf if least is None else float(least.sqnr_db)
    worst = report.by_node(report.ranking[0]) if report.ranking else None
    level = _level(report, worst, lowest)
    facts = ", and ".join([*_outputs(report, lowest), *_accuracy(report)])
    facts += f", which may be chance on {report.accuracy.samples} samples: take more" if _chance(report) else ""
    hidden = level == FAIR and lowest >= GOOD_DB and _hidden(report)
    outside = "" if level in (GOOD, PLAIN) else _outside(report)
    text = (f"{_BEGINNINGS[level]}{outside}{facts}. "
            f"{'The last node has few levels, which hide errors. ' if hidden else ''}"
            f"{'' if worst is None or outside else _blame(report, worst, level)}")
    return {"level": level, "text": text.strip()}


def _outside(report: Any) -> str:
    """A sentence if an input cannot represent the samples: then they explain more than any node does."""
    notes = report.notes + (report.accuracy.notes if report.accuracy else [])
    unfit = " and ".join(note.rpartition(": in ")[0] for note in notes if OUTSIDE in note)
    return unfit and f"the samples do not fit {unfit} (see the note); mend this first. With these samples "


def _level(report: Any, worst: Any, lowest: float) -> str:
    if not report.tensors and (report.accuracy is None or report.accuracy.drop is None):
        return PLAIN
    if (_loss(report) > LOSS and not _chance(report)) or lowest < POOR_DB:
        return POOR
    suspicious = worst is not None and report.suspicion(worst) >= SUSPICIOUS_DB
    tiny = lowest >= TINY_DB and not _hidden(report)
    fair = _chance(report) or (suspicious and not tiny) or lowest < GOOD_DB or not (_judged(report) or report.accuracy)
    return FAIR if fair else GOOD


def _judged(report: Any) -> list[Any]:
    return [t for t in report.tensors if t.judged]


def worst_output(report: Any) -> Any:
    """The TensorReport of the output with the most error, or None."""
    return min((t for t in _judged(report) if t.sqnr_db is not None), key=lambda t: t.sqnr_db, default=None)


def _hidden(report: Any) -> bool:
    """Does a model end in a softmax or the like, whose few levels hide errors?"""
    last = [t for t in report.tensors if t.op not in PASS_THROUGH][-len(_judged(report)):]
    return any(t.op in FIXED_GRIDS for t in last)


def _loss(report: Any) -> float:
    """Percentage points of the main metric that the model loses."""
    return 0.0 if report.accuracy is None or report.accuracy.drop is None else float(report.accuracy.drop)


def _chance(report: Any) -> bool:
    """Does the model lose more than it may, on so few samples that this may be chance?"""
    if _loss(report) <= LOSS:
        return False
    if report.accuracy.main == "agreement":     # without labels: would LOSS percent of all samples differ as often?
        return _at_least(report.accuracy.flipped, report.accuracy.samples, LOSS / 100) >= CHANCE
    test = report.accuracy.mcnemar
    return test is not None and test["p"] is not None and test["p"] >= CHANCE


def _at_least(count: int, trials: int, p: float) -> float:
    """The probability of `count` or more hits of probability p."""
    return 1.0 - sum(math.comb(trials, i) * p**i * (1 - p)**(trials - i) for i in range(count))


def _outputs(report: Any, lowest: float) -> list[str]:
    if not report.tensors:
        return []
    judged = _judged(report)
    if not judged:
        return ["no output could be compared"]
    if lowest == math.inf:
        return ["the outputs equal the reference's"]
    subject = ("the output" if len(judged) == 1 else "the worst output" if all(t.output for t in judged) else
               "the worst input of the detection's post-processing")
    return [f"the error of {subject} is {10 ** (-lowest / 20):.2%} of its signal (SQNR {lowest:.1f} dB)"]


def _accuracy(report: Any) -> list[str]:
    if report.accuracy is None:
        return []
    name, value, drop = report.accuracy.main, report.accuracy.metrics[report.accuracy.main].model, report.accuracy.drop
    statement = f"{name} is {'not known' if value is None else format(value, '.4g')}"
    if drop is not None and report.accuracy.task == OWN:
        main = report.accuracy.metrics[name]
        return [f"{statement}, the reference's {main.reference:.4g} ({main.better} is better)"]
    if drop is None:
        return [f"{statement} on {report.accuracy.samples} samples"]
    if name == "agreement":
        return [f"both models name the same class for {f'{value:.4g} of the samples' if drop else 'every sample'}"]
    return [f"{statement}, {abs(drop):.3g} points {'below' if drop > 0 else 'above'} the reference's" if drop else
            f"{statement}, as the reference's"]


def _blame(report: Any, worst: Any, level: str) -> str:
    """Which node costs the outputs most, why, and what to do."""
    if report.suspicion(worst) < NOTABLE_DB:
        coarse = [t for t in map(report.by_node, report.ranking) if t.cause]
        if coarse:
            first = coarse[0]
            others = f" and {len(coarse) - 1} more" if len(coarse) > 1 else ""
            return (f"Each node is quantized about as well as its scheme allows. The scheme limits node {first.node} "
                    f"({first.op}){others}: {first.cause}. {first.remedy}")
        if level in (GOOD, PLAIN):
            return "No node adds more noise than rounding explains."
        return ("No single node is to blame: each adds what rounding explains, and the errors add up. --sensitivity "
                "finds the nodes that are worth keeping in float.")
    if level == GOOD:
        return (f"It could be better still: {_where(worst)} has the most noise of its own"
                f"{f': {worst.cause}' if worst.cause else ''}.")
    blamed, begin = _costliest(report)
    if blamed is None:
        return f"{begin}{_others(report, None)}"
    if blamed.cause:
        return f"{begin}: {blamed.cause}, {blamed.detail}. {blamed.remedy}{_others(report, blamed)}"
    advice = (" No single fault explains it: --repair may mend it, and --sensitivity finds the nodes that are worth "
              "keeping in float." if report.local_samples else
              " Measure nodes by themselves (--local-samples 64) for the cause.")
    return (f"{begin}, {report.suspicion(blamed):.1f} dB above that of a good quantization.{advice}"
            f"{_others(report, blamed)}")


def _where(t: Any) -> str:
    return f"node {t.node} ({t.op})"


def _costliest(report: Any) -> tuple[Any, str]:
    """(the TensorReport to blame, the beginning of the sentence), or (None, the whole sentence) if none is."""
    noisy = [t for t in map(report.by_node, report.ranking) if report.suspicion(t) >= NOTABLE_DB]
    tried = [(report.by_node(node), gain) for node, gain in report.regained.items()]
    # A few samples may mislead about what a node costs.  A fault that the graphs show is certain, so it counts double.
    most, gain = max(tried, key=lambda pair: pair[1] * (1 + (pair[0].cause in SHOWN and pair[1] >= LEAST_DB)),
                     default=(None, 0.0))
    if gain >= LEAST_DB:
        part = "Most" if gain >= MOST_DB else "The largest part of the"
        return most, (f"{part} noise comes from {_where(most)}, without which the SQNR {_end(report)}is {gain:.1f} dB "
                      "higher")
    own = [t for t in noisy if not _inherits(t)]
    if own and noisy[0].node not in report.regained:
        return own[0], f"Most noise comes from {_where(own[0])}"
    if not tried:
        t = noisy[0]
        return None, (f"No node is to blame: the worst, {_where(t)}, has an SQNR of {t.sqnr_local_db:.1f} dB by "
                      f"itself, and {t.sqnr_db:.1f} dB with the noise that it reads.")
    first, word = (most, "costs") if most is not None and gain >= SOME_DB else (noisy[0], "has")
    return None, _no_single_node(report, len(tried), first, word)


def _no_single_node(report: Any, tried: int, first: Any, word: str) -> str:
    """The verdict if none of the nodes that were tried costs much; first: the one that costs or has most (`word`)."""
    advice = "" if _faults(report, None) else _advice(first, f" {word} most" if tried > 1 else "")
    if tried == 1:
        return (f"No single node is to blame: {_where(first)}, which has the most noise of its own, costs the "
                f"outputs less than {LEAST_DB:g} dB.{advice}")
    return (f"No single node is to blame: of {tried} nodes with much noise of their own, none costs the outputs "
            f"{LEAST_DB:g} dB.{advice}")


def _advice(t: Any, claim: str) -> str:
    return f" Node {t.node} ({t.op}){claim}: {t.cause}. {t.remedy}" if t.cause else ""


def _end(report: Any) -> str:
    """The tensor whose SQNR rises, as words for the sentence; "" if it is the output.

    If the output is good but hides errors, trials.py measures the tensor before it.
    """
    good = worst_output(report) is not None and worst_output(report).sqnr_db >= GOOD_DB
    return "of the last node or its input " if good and _hidden(report) else ""


def _inherits(t: Any) -> bool:
    return (t.sqnr_db is not None and t.sqnr_local_db is not None
            and bool(t.sqnr_local_db >= t.sqnr_db + INHERITED_DB))


def _faults(report: Any, blamed: Any) -> list[Any]:
    """Other nodes with faults that the graphs show; a small effect does not excuse them."""
    return [t for t in map(report.by_node, report.ranking) if t is not blamed and t.cause in SHOWN
            and t.cause not in STALE and report.suspicion(t) >= SUSPICIOUS_DB][:NAMED]


def _others(report: Any, blamed: Any) -> str:
    too = ", too" if blamed else ""
    return "".join(f" Node {t.node} ({t.op}) has a fault{too}: {t.cause}, {t.detail}." for t in _faults(report, blamed))
