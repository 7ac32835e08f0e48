"""Mutations that are guided by the lines of pylite's Python that they reach, where atheris is installed."""
import os
import signal
import sys
import tempfile
import types
import zlib

import numpy as np

from pylite.errors import PyliteError
from pylite.schema.reader import read
from pylite.schema.writer import write
from tests.fuzz import case, mutate
from tests.fuzz.runner import interrupt, limit, prepare
from tests.fuzz.seeds import seeds

LARGEST = 1 << 20       # bytes of a model


def mutated(content, most, seed):
    """A mutation of a model, or of its bytes where it is none."""
    import atheris
    rng = np.random.default_rng(seed)
    try:
        record = read(content)
        mutate.MUTATIONS[rng.integers(len(mutate.MUTATIONS))](record, rng)
        changed = write(record)
    except Exception:       # no model any more, or a value that the format cannot represent
        return atheris.Mutate(content, most)
    if rng.random() < 0.05:
        changed = mutate.damaged(changed, rng)
    return changed if 0 < len(changed) <= most else content[:most]


def one(content):
    """Run the calls that the contents determine; an Unexpected ends the run, and atheris stores the model."""
    if not content:         # which libFuzzer tries first: no file at all is an error of the call
        return
    signal.setitimer(signal.ITIMER_PROF, case.PATIENCE)
    case.run(0, zlib.crc32(content), content)
    signal.setitimer(signal.ITIMER_PROF, 0)


def functions():
    """The functions and methods of pylite that look at a model."""
    found = []
    for name, module in list(sys.modules.items()):
        if name.startswith(("pylite.ops", "pylite.ir", "pylite.compiler", "pylite.runtime", "pylite.schema")):
            owners = [module, *[c for c in vars(module).values() if isinstance(c, type) and c.__module__ == name]]
            found += [f for owner in owners for f in vars(owner).values()
                      if isinstance(f, types.FunctionType) and f.__module__ == name]
    return found


def run(seed, seconds, keep):
    """Run for some seconds on a corpus that begins with the seeds.  libFuzzer ends the process.

    keep: the folder for models that fail.
    """
    import atheris
    prepare()
    for function in functions():
        atheris.instrument_func(function)
    limit()
    signal.signal(signal.SIGPROF, interrupt)
    with tempfile.TemporaryDirectory() as folder:
        for number, record in enumerate(seeds()):
            try:
                content = write(record)
            except PyliteError:
                continue
            with open(os.path.join(folder, str(number)), "wb") as file:
                file.write(content)
        options = {"seed": seed, "max_total_time": seconds, "max_len": LARGEST, "rss_limit_mb": 0, "timeout": 60,
                   "artifact_prefix": os.path.join(keep, ""), "print_final_stats": 1}
        atheris.Setup([sys.argv[0], *[f"-{name}={value}" for name, value in options.items()], folder], one,
                      custom_mutator=mutated)
        atheris.Fuzz()
