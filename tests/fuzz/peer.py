"""python -m tests.fuzz.peer --seconds 60 --seed 1: the fuzzer's models in the peer, each in a process of its own."""
import argparse
import collections
import os
import resource
import signal
import sys
import time

import numpy as np

from tests.fuzz import case
from tests.fuzz.runner import ADDRESSES, prepare


def use(module, model, rng):
    """Load, allocate, set, run twice and read `model` with the reference kernels."""
    interpreter = module.Interpreter(model_content=model,
                                     experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], case.value(rng, detail["shape"], detail["dtype"]))
    for _ in range(2):
        interpreter.invoke()
    for detail in interpreter.get_output_details():
        interpreter.get_tensor(detail["index"])


def ended(module, seed, number):
    """How a case ends in a child process: "run", "refused", "hang" or the name of a signal."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, case.SECONDS)
        try:
            use(module, case.content(seed, number), np.random.default_rng([seed, number, 1]))
        except Exception:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code >= 0:
        return "refused" if code else "run"
    name = signal.Signals(-code).name
    return "hang" if name == "SIGPROF" else name


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.peer", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20_000, help="models at most")
    options = parser.parse_args()
    from ai_edge_litert import interpreter as module  # the peer is optional
    prepare()
    found, end, number = collections.Counter(), time.monotonic() + options.seconds, 0
    while number < options.count and time.monotonic() < end:
        found[ended(module, options.seed, number)] += 1
        number += 1
    sys.stdout.write(f"{number} models of seed {options.seed} in the peer: "
                     f"{', '.join(f'{count} {how}' for how, count in found.most_common())}\n")


if __name__ == "__main__":
    main()
