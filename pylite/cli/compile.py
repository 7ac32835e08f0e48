"""Fill the plan cache before a model is first run.

With a plan in the cache, even the first process that runs the model starts fast.  A plan fits one model with its input
shapes, one version of pylite and one ISA level, so compile on the machine that will run the model.
"""
import os
import sys

from pylite.cli import _common, _format, _plugins
from pylite.cli._parser import explained

EPILOG = explained(__doc__) + """
examples:
  pylite compile model.tflite
  pylite compile *.tflite --cache-dir plans
  pylite compile model.tflite --shape input=1,320,320,3
"""
USAGE = "pylite compile MODEL ... [options]"


def configure(parser):
    parser.add_argument("models", metavar="MODEL", nargs="+", help="a .tflite file, or the name of a bundled model")
    parser.add_argument("--shape", action="append", default=[], metavar="INPUT=N,N,...",
                        help="make the plan for this shape of an input")
    parser.add_argument("--preserve", action="store_true",
                        help="make plans for interpreters with experimental_preserve_all_tensors")
    _common.add_cache(parser)
    _plugins.add(parser)


def run(args):
    import warnings

    from pylite.interpreter import Interpreter
    from pylite.runtime.cache_files import Store
    from pylite.runtime.plan_cache import NOT_PLAIN, PROBLEM, plan_name
    warnings.simplefilter("ignore")         # preserving tensors is for debugging
    folder, delegates, failed = _common.cache_folder(args), _plugins.load(args) or None, 0
    with Store(folder, create=True) as store:
        for name in args.models:
            path = _common.model_path(name)
            with Interpreter(path, cache_dir=folder, experimental_preserve_all_tensors=args.preserve,
                             experimental_delegates=delegates) as interpreter:
                _common.resize(interpreter, _common.shapes(args.shape))
                interpreter.allocate_tensors()
                main = interpreter._main
                plans = main.plans
                plan = None if plans is None else plan_name(plans.key(plans.shapes(main)))
            stored = None if plan is None else store.read(plan)
            if stored is None or stored[0][PROBLEM]:
                why = plans.problem if plans else NOT_PLAIN if delegates else "pylite keeps no plans on this system"
                sys.stderr.write(f"{path}: it has no plan, since {why}\n")
                failed = 1
            else:
                nbytes = len(memoryview(stored[2]))
                sys.stdout.write(f"{path}: {os.path.join(folder, plan)}, {_format.nbytes(nbytes)}\n")
    return failed
