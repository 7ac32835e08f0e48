"""Write an op resolver with exactly the ops of your models."""
import os
import sys

from pylite.cli import _common

EPILOG = """
The file defines resolver(), for Interpreter(op_resolver=resolver()): this interpreter refuses models that need other
ops or versions.  Custom ops that pylite does not have must be registered before resolver() is called.

examples:
  pylite resolver detector.tflite classifier.tflite -o my_ops.py
  pylite resolver --ops atan.py model.tflite
"""
USAGE = "pylite resolver MODEL ... [options]"


def configure(parser):
    from pylite.cli import _plugins
    parser.add_argument("models", metavar="MODEL", nargs="+", help="a .tflite file, or the name of a bundled model")
    parser.add_argument("--output", "-o", metavar="FILE.py", help="file to write (default: standard output)")
    _plugins.add_ops(parser)


def run(args):
    from pylite.cli import _plugins
    from pylite.runtime.model import Model
    _plugins.register(args.ops)
    needed, missing = {}, []
    for name in args.models:
        path = _common.model_path(name)
        for operator, reason in _operators(Model(path)):
            low, high, custom = needed.get(operator.name, (operator.version, operator.version, operator.custom))
            needed[operator.name] = min(low, operator.version), max(high, operator.version), custom
            if reason and not operator.custom:
                missing.append(f"{path}: {reason}")
    if missing:
        raise _common.UsageError(" | ".join(dict.fromkeys(missing)))
    text = _source([os.path.basename(m) for m in args.models], needed)
    if args.output is None:
        sys.stdout.write(text)
    else:
        from pylite.cli import _outputs
        _outputs.write(args.output, text)


def _operators(model):
    """(Operator, why pylite cannot run it or None) of every subgraph."""
    from pylite.compiler.check import Operands, unsupported
    graphs = [(Operands(subgraph), subgraph) for subgraph in model.graph.subgraphs]
    return [(o, unsupported(operands, o)) for operands, subgraph in graphs for o in subgraph.operators]


def _source(models, needed):
    lines = [f"# Exactly the ops of {', '.join(models)}.  Written by `pylite resolver`.", "import pylite",
             "", "", "def resolver():", "    ops = pylite.MutableOpResolver()"]
    for name, (low, high, custom) in sorted(needed.items()):
        method = "add_custom" if custom else "add_builtin"
        lines.append(f"    ops.{method}({name!r}, min_version={low}, max_version={high})")
    return "\n".join([*lines, "    return ops", ""])
