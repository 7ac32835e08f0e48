"""Limits for a report, and their results for continuous integration: lines, an exit code, JUnit's XML."""
from xml.sax.saxutils import quoteattr

from pylite.cli import _common, _outputs
from pylite.cli._terminal import complain, printable

MEASURES = {     # the measures that --fail-on can limit
    "saturation": lambda t: None if t.saturated_low is None else t.saturated_low + t.saturated_high,
    "excess": lambda t: t.excess_db,
    "rmse": lambda t: t.rmse_over_scale,
}


def add(parser):
    parser.add_argument("--min-sqnr", type=_common.real, metavar="DB",
                        help="with --reference: fail if the SQNR of an output is below this")
    parser.add_argument("--max-drop", type=_points, metavar="POINTS",
                        help="fail if the accuracy (top-1, or the task's first metric) drops by more than this many "
                             "percentage points below the reference's, as 1 or 1%%; implies --accuracy")
    parser.add_argument("--fail-on", type=_limit, action="append", default=[], metavar="WHAT[=LIMIT]",
                        help="with --reference: fail if a node exceeds saturation=5%%, excess=DB or rmse=STEPS, has "
                             "any `cause` or that of cause=NAME, or if there is a `divergence`; may be repeated")
    parser.add_argument("--junit", metavar="FILE",
                        help="write a JUnit report with one test per tensor, and one for the accuracy")


@_common.written_as("a number of percentage points, as 1 or 1%")
def _points(text):
    return _common.number(text.removesuffix("%"))


@_common.written_as("saturation=5%, excess=DB, rmse=STEPS, cause, cause=NAME or divergence")
def _limit(text):
    what, given, limit = text.partition("=")
    if what == "saturation":        # a share; 5 would be 500 %, which no node reaches
        share = _common.number(limit[:-1]) / 100 if limit.endswith("%") else _common.number(limit)
        if 0 <= share <= 1:
            return what, share
    elif what in MEASURES and given:
        return what, _common.number(limit)
    if (what == "cause" and (limit or not given)) or text == "divergence":
        return what, limit
    raise ValueError


def check(args):
    """UsageError if a limit is for a figure that is not measured."""
    if args.max_drop is not None and not args.reference:
        raise _common.UsageError("--max-drop needs --reference, the model to compare with")
    if (args.min_sqnr is not None or args.fail_on or args.explorer) and (
            not (args.reference or args.golden) or args.tensors == 0):
        raise _common.UsageError("--min-sqnr, --fail-on and --explorer need --reference or --golden, and --tensors "
                                 "above 0")
    if args.fail_on and args.local_samples == 0:
        raise _common.UsageError("--fail-on needs nodes measured by themselves, and --local-samples 0 leaves that "
                                 "out; --min-sqnr works without")
    from pylite.validation.causes import NAMES  # not before a report is wanted
    for what, limit in args.fail_on:
        if what == "cause" and limit and limit not in NAMES:
            raise _common.UsageError(f"--fail-on cause={limit}: there is no such cause; the causes are "
                                     f"{', '.join(NAMES)}")


def note(report, args):
    """Add a note to a report if a limit means something else than its name says."""
    if args.max_drop is not None and report.accuracy and report.accuracy.main == "agreement":
        report.accuracy.notes.append("the data have no labels, so --max-drop limits how often the models disagree: the "
                                     "agreement of the reference is 1 by definition")


def result(report, args):
    """The exit code; writes a line for each limit that is exceeded, and JUnit's report."""
    cases = {_name(t, part): [] for part, part_report in report.parts() for t in part_report.tensors}
    for name, message in _failures(report, args):
        cases.setdefault(name, []).append(message)
    if args.max_drop is not None:
        cases.setdefault("accuracy", [])
    return finish(args, report.model, cases)


def finish(args, model, cases):
    """The exit code for tests, {name: messages of failures}; writes the messages, and JUnit's report."""
    for name, messages in cases.items():
        for message in messages:
            complain(printable(f"pylite validate: {name}: {message}"))
    failed = sum(map(bool, cases.values()))
    if args.junit:
        lines = ['<?xml version="1.0" encoding="UTF-8"?>',
                 f'<testsuites><testsuite name="pylite validate" tests="{len(cases)}" failures="{failed}">']
        for name, messages in cases.items():
            body = "".join(f"<failure message={_attribute(message)}/>" for message in messages)
            lines.append(f"<testcase classname={_attribute(str(model))} name={_attribute(name)}>{body}</testcase>")
        _outputs.write(args.junit, "\n".join([*lines, "</testsuite></testsuites>\n"]))
    return 1 if failed else 0


def _attribute(text):
    return quoteattr(printable(text))


def _name(t, part=""):
    """part: the title of the called subgraph that it is in."""
    return f"{part}{': ' if part else ''}node {t.node} ({t.op}, {t.name!r})"


def _failures(report, args):
    """(name of the test, message) for each limit that is exceeded."""
    if args.max_drop is not None:
        drop = report.accuracy and report.accuracy.drop
        if drop is None:
            raise _common.UsageError("--max-drop needs the accuracy of both models, which the merged files or the "
                                     "data do not have")
        if not drop <= args.max_drop:
            yield "accuracy", (f"{report.accuracy.main} dropped by {drop:.2f} points, more than --max-drop "
                               f"{args.max_drop:g}")
    for t in report.outputs if args.min_sqnr is not None else ():
        if not t.sqnr_db >= args.min_sqnr:
            yield _name(t), f"the output's SQNR is {t.sqnr_db:.1f} dB, below --min-sqnr {args.min_sqnr:g}"
    if args.fail_on and not report.local_samples:
        raise _common.UsageError("--fail-on needs nodes measured by themselves, and none was: raise --local-samples")
    for what, limit in args.fail_on:
        for part, part_report in report.parts():
            for t in part_report.tensors:
                message = _exceeded(t, what, limit, part_report.first_divergence)
                if message:
                    yield _name(t, part), message


def _exceeded(t, what, limit, first):
    """How tensor `t` exceeds the limit on measure `what`, or None.  first: the node of the first divergence."""
    if what == "cause":
        return f"{t.cause}: {t.detail}" if t.cause and limit in ("", t.cause) else None
    if what == "divergence":
        return f"diverges: {t.excess_db:.1f} dB more noise than rounding makes" if t.node == first else None
    value = MEASURES[what](t)
    if value is None or value <= limit:
        return None
    return f"{what} is {value:.4g}, more than --fail-on {what}={limit:g}"
