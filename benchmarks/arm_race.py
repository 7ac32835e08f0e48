"""pylite against LiteRT on emulated Arm cores, by executed instructions and modelled cycles.

    ARM_CACHE=FOLDER .ci/arm prepare aarch64
    ARM_CACHE=FOLDER .ci/arm test aarch64 cortex-a72 -q tests/kernels/test_simd.py -k neon        # builds
    ARM_CACHE=FOLDER python benchmarks/arm_race.py [--cores A,B] MODEL...

QEMU records the instructions of one invoke() (armcount.c), and llvm-mca says how many cycles a core takes for samples
of them, each some thousand instructions long as they were executed; this stands in for time where there is no Arm
hardware.  Instruction counts repeat exactly.  Cycles are modelled: all loads hit the first-level cache, and all
branches are predicted.  So runtimes may be compared on one core, but not cores with each other.

--nodes lists the operators of pylite, each run by itself; --top N lists the hottest blocks of both runtimes, with
--assembly their instructions; --node I shows those of one step of pylite.  Needs qemu-user, gcc and llvm (19 or
newer).
"""
import argparse
import math
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
from _common import say

HERE = Path(__file__).resolve().parent
PEER = "ai-edge-litert==2.3.0"
# Part number, what /proc/cpuinfo adds to the features of all, llvm-mca's model.  A Cortex-A76 is a Neoverse N1.  LLVM's
# Cortex-A53 lets most vector instructions take six cycles, which makes float32 code twice as slow as others measured it
# on boards; the Cortex-A55, its successor, also works in order, and its model has the latencies of Arm's own guide.
CORES = {
    "cortex-a53": ("0xd03", "", "cortex-a55"),
    "cortex-a72": ("0xd08", "", "cortex-a72"),
    "cortex-a76": ("0xd0b", " atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp", "neoverse-n1"),
}
CPU_INFO = """processor\t: 0
BogoMIPS\t: 108.00
Features\t: fp asimd evtstrm crc32 cpuid{features}
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: {part}
CPU revision\t: 3

"""
# Regions: a whole invoke(); a step that does nothing; import beyond numpy; load and allocate; the first invoke();
# set_tensor, invoke and get_tensor for all inputs and outputs; the first step.
ALL, NOTHING, IMPORT, LOAD, FIRST, CALL, STEP = 1, 2, 3, 4, 5, 6, 10
MODEL = 1_000_000       # from the regions of one model to those of the next
GUEST = f"""
import ctypes, sys
import numpy as np
which, steps, *models = sys.argv[1:]
which, _, precision = which.partition(" ")
call = ctypes.CDLL(None).syscall
def mark(tag, end):
    call(31338, tag, end)
mark({IMPORT}, 0)
if which == "pylite":
    from pylite.interpreter import Interpreter
else:
    from ai_edge_litert.interpreter import Interpreter
mark({IMPORT}, 1)
for number, model in enumerate(models):
    base = number * {MODEL}
    rng = np.random.default_rng(0)
    mark(base + {LOAD}, 0)
    interpreter = Interpreter(model, num_threads=1, **({{"precision": precision}} if precision else {{}}))
    interpreter.allocate_tensors()
    mark(base + {LOAD}, 1)
    feeds, outputs = [], [tensor["index"] for tensor in interpreter.get_output_details()]
    for tensor in interpreter.get_input_details():
        shape, dtype = tuple(tensor["shape"]), np.dtype(tensor["dtype"])
        if dtype.kind == "f":
            value = rng.random(shape).astype(dtype)
        elif dtype.itemsize <= 2 and dtype.kind in "iu":
            value = np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)
        else:
            value = np.zeros(shape, dtype)
        feeds.append((tensor["index"], value))
        interpreter.set_tensor(*feeds[-1])
    mark(base + {FIRST}, 0)
    interpreter.invoke()
    mark(base + {FIRST}, 1)
    interpreter.get_tensor(outputs[0])
    mark(base + {CALL}, 0)
    for index, value in feeds:
        interpreter.set_tensor(index, value)
    interpreter.invoke()
    for index in outputs:
        interpreter.get_tensor(index)
    mark(base + {CALL}, 1)
    mark(base + {ALL}, 0)
    interpreter.invoke()
    mark(base + {ALL}, 1)
if which == "pylite" and steps:
    bound = next(o for o in __import__("gc").get_objects() if type(o).__name__ == "BoundProgram")
    run, calls = bound.program.run, bound.lowered.calls
    for tag, first, last in [({NOTHING}, 0, 0)] * 2 + [({STEP} + i, i, i + 1) for i in range(len(calls))]:
        mark(tag, 0)
        run(first, last)
        mark(tag, 1)
    for i, call in enumerate(calls):
        shapes = [v.shape for v in call.node.inputs[:2] if v is not None] + [v.shape for v in call.node.outputs]
        print(call.node, *shapes, bound.program.kernels[i].algorithm or "")
"""


def second_invoke(feed):
    """A guest for models that are run twice, the second time counted; feed: code that sets the inputs of `interpreter`,
    whose model is the file `model`.
    """
    return f"""
import ctypes, sys
import numpy as np
which, steps, *models = sys.argv[1:]
call = ctypes.CDLL(None).syscall
if which == "pylite":
    from pylite.interpreter import Interpreter
else:
    from ai_edge_litert.interpreter import Interpreter
for number, model in enumerate(models):
    interpreter = Interpreter(model, num_threads=1)
    interpreter.allocate_tensors()
{textwrap.indent(textwrap.dedent(feed).strip(), "    ")}
    interpreter.invoke()
    call(31338, number * {MODEL} + {ALL}, 0)
    interpreter.invoke()
    call(31338, number * {MODEL} + {ALL}, 1)
"""


class Core:
    """llvm-mca's model of a core."""

    def __init__(self, name):
        self.name, self.model = name, CORES[name][2]
        self.version = next((v for v in ("-22", "-21", "-20", "-19", "") if shutil.which("llvm-mca" + v)), None)
        if self.version is None:
            sys.exit("llvm-mca 19 or later is not installed: apt-get install llvm-19")
        self.texts = {}

    def learn(self, codes):
        """Disassemble these blocks; what LLVM does not know becomes a nop."""
        new = [code for code in dict.fromkeys(codes) if code not in self.texts]
        words = [code[i:i + 8] for code in new for i in range(0, len(code), 8)]
        lines = [" ".join("0x" + word[k:k + 2] for k in (0, 2, 4, 6)) for word in words]
        done = subprocess.run([f"llvm-mc{self.version}", "--disassemble", "--triple=aarch64", "--mattr=+all"],
                              input="\n".join(lines), capture_output=True, text=True)
        bad = {int(n) - 1 for n in re.findall(r"<stdin>:(\d+):", done.stderr)}
        known = iter(line.strip() for line in done.stdout.splitlines() if line.strip() and line.strip()[0] != ".")
        texts = iter(["nop" if i in bad else next(known) for i in range(len(words))])
        for code in new:
            self.texts[code] = [next(texts) for _ in range(len(code) // 8)]

    def cycles(self, pieces, iterations=1):
        """Cycles of each of these lists of instructions; NaN if one is not modelled."""
        text = "\n".join(f"# LLVM-MCA-BEGIN b{i}\n" + "\n".join(piece) + f"\n# LLVM-MCA-END b{i}"
                         for i, piece in enumerate(pieces))
        done = subprocess.run([f"llvm-mca{self.version}", "--mtriple=aarch64", f"-mcpu={self.model}",
                               "--mattr=+dotprod,+i8mm,+fullfp16,+lse", f"-iterations={iterations}",
                               "--skip-unsupported-instructions=lack-sched",
                               "-instruction-info=0", "-resource-pressure=0"], input=text + "\n", capture_output=True,
                              text=True)
        if done.returncode:
            sys.exit(f"llvm-mca{self.version} failed, version 19 or later is needed: {done.stderr}")
        found = [math.nan] * len(pieces)
        for match in re.finditer(r"Code Region - b(\d+).*?Total Cycles:\s+(\d+)", done.stdout, re.S):
            found[int(match[1])] = int(match[2]) / iterations
        return found


SAMPLES, SAMPLE = 30, 3000      # how many at most, and their instructions


class Region:
    """The execution between two markers: numbers of blocks, whose addresses and codes are `blocks`."""

    def __init__(self, blocks, executed, overhead=0):
        self.blocks, self.executed = blocks, executed
        self.sizes = np.array([len(code) // 8 for _, code in blocks])[executed]
        self.instructions = max(1, int(self.sizes.sum()) - overhead)

    def hot(self, top):
        """(address, code, runs) of the blocks with most instructions."""
        runs = np.bincount(self.executed, minlength=1)
        share = runs * np.array([len(code) for _, code in self.blocks[:len(runs)]])
        return [(*self.blocks[i], int(runs[i])) for i in np.argsort(-share)[:top] if runs[i]]

    def cycles(self, core, samples=SAMPLES):
        """Modelled cycles, from up to so many samples."""
        ends = np.cumsum(self.sizes)
        total = int(ends[-1]) if len(ends) else 0
        count = max(1, min(samples, total // SAMPLE))
        pieces = []
        for i in range(count):
            first, last = np.searchsorted(ends, [i * total // count, min(i * total // count + SAMPLE, total)])
            pieces.append([self.blocks[k][1] for k in self.executed[first:last + 1]])
        core.learn([code for piece in pieces for code in piece])
        texts = [[line for code in piece for line in core.texts[code]] for piece in pieces]
        rates = [c / len(text) for c, text in zip(core.cycles(texts), texts, strict=True)
                 if text and not math.isnan(c)]
        return self.instructions * sum(rates) / max(1, len(rates))


def regions(path):
    found, blocks = {}, []
    with open(path, "rb") as file:
        for line in iter(file.readline, b""):
            if not line.endswith(b"\n"):
                break       # cut off, behind the last region
            kind, number, what, *code = line.decode().split()
            if kind == "block":
                blocks.append((what, code[0]))
            else:
                found[int(number)] = np.frombuffer(file.read(4 * int(what)), np.uint32)
    overhead = Region(blocks, found[NOTHING]).instructions if NOTHING in found else 0
    return {tag: Region(blocks, executed, overhead if tag % MODEL >= STEP else 0) for tag, executed in found.items()}


def install_peer(cache):
    folder = cache / "peer-aarch64"
    if not folder.is_dir():
        minor = max(int(p.suffix[1:]) for p in (cache / "aarch64/usr/bin").glob("python3.*") if p.suffix[1:].isdigit())
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", f"{folder}.new",
                        "--only-binary=:all:", "--python-version", f"3.{minor}", "--implementation", "cp", "--abi",
                        f"cp3{minor}", "--platform", "manylinux_2_27_aarch64", "--platform", "manylinux_2_17_aarch64",
                        PEER], check=True)
        os.rename(f"{folder}.new", folder)
    return folder


def execute(cache, core, which, models, steps="", guest=GUEST, plugins=()):
    """({tag: Region}, names of the steps); steps: of the only model of pylite; plugins: more options of QEMU."""
    root, trace = root_of(cache, core), cache / f"trace-{os.getpid()}"
    path = [cache / "lib-aarch64", cache / "peer-aarch64", cache / "site-aarch64"]
    environment = os.environ | {"QEMU_CPU": core, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1",
                                "PYTHONPATH": ":".join(map(str, path))}
    try:
        command = ["qemu-aarch64", "-seed", "1", "-plugin", f"{cache}/armcount.so,out={trace}", *plugins, "-L", root,
                   root / "usr/bin/python3", "-P", "-c", guest, which, steps, *models]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            names = ", ".join(Path(model).stem for model in models)
            raise SystemExit(f"{which} fails with one of {names} on {core}:\n{done.stderr[-2000:]}")
        return regions(trace), done.stdout.splitlines()
    finally:
        trace.unlink(missing_ok=True)


def show_blocks(title, region, core, top, assembly):
    say(f"\n{title}: {region.instructions / 1e6:.3f} M instructions")
    blocks = region.hot(top)
    core.learn([code for _, code, _ in blocks])
    repeated = core.cycles([core.texts[code] for _, code, _ in blocks], 100)
    for (address, code, runs), cycles in zip(blocks, repeated, strict=True):
        size = len(code) // 8
        say(f"  {100 * runs * size / region.instructions:5.1f} %  {address:>12s}  {runs:>9d} runs of {size:3d} "
            f"instructions, {cycles:.1f} cycles when repeated")
        for line in core.texts[code] if assembly else ():
            say(f"           {line}")


def show_nodes(ours, names, core):
    total = sum(ours[STEP + i].cycles(core) for i in range(len(names)))
    for i, name in enumerate(names):
        step = ours[STEP + i]
        cycles = step.cycles(core)
        say(f"  {i:3d} {step.instructions / 1e6:9.3f} M instructions {cycles / 1e6:9.3f} M cycles "
            f"{100 * cycles / total:5.1f} %  {name}")


def race_model(options, cache, core, model):
    """The ratios of instructions and of cycles, or None where pylite runs alone."""
    stepwise = options.nodes or options.node is not None
    ours, names = execute(cache, core.name, f"pylite {options.precision}".strip(), [model], "steps" if stepwise else "")
    total, ratios, peer = ours[ALL], None, None
    cycles = total.cycles(core)
    text = f"{core.name} {Path(model).name:38s} {total.instructions / 1e6:8.2f}"
    if options.alone:
        text += f" M instructions, {cycles / 1e6:8.2f} M cycles"
    else:
        peer = execute(cache, core.name, "pylite" if options.precision else "litert", [model])[0][ALL]
        theirs = peer.cycles(core)
        ratios = total.instructions / peer.instructions, cycles / theirs
        text += f" / {peer.instructions / 1e6:8.2f} M instructions ({ratios[0]:.2f}), {cycles / 1e6:8.2f} / " \
                f"{theirs / 1e6:8.2f} M cycles ({ratios[1]:.2f})"
    say(text)
    if options.nodes:
        show_nodes(ours, names, core)
    if options.top and options.node is not None:
        show_blocks(names[options.node], ours[STEP + options.node], core, options.top, options.assembly)
    elif options.top:
        show_blocks("pylite", total, core, options.top, options.assembly)
    if options.top and peer is not None:
        show_blocks("float32" if options.precision else "LiteRT", peer, core, options.top, options.assembly)
    return ratios


def root_of(cache, name):
    """QEMU's -L folder: the target's root with that core's /proc/cpuinfo, without which LiteRT cannot tell CPUs."""
    root = cache / f"root-{name}"
    info = root / "proc/cpuinfo"
    info.parent.mkdir(parents=True, exist_ok=True)
    for path in (cache / "aarch64").iterdir():
        if path.name != "proc" and not (root / path.name).is_symlink():
            (root / path.name).symlink_to(path)
    text = CPU_INFO.format(part=CORES[name][0], features=CORES[name][1])
    if not info.exists() or info.read_text() != text:
        info.write_text(text)
    return root


def build(cache):
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", cache / "armcount.so", HERE / "armcount.c"], check=True)


def race(options, cache, name):
    core = Core(name)
    ratios = list(filter(None, [race_model(options, cache, core, model) for model in options.models]))
    if len(ratios) > 1:
        instructions, cycles = (math.exp(sum(math.log(r[k]) for r in ratios) / len(ratios)) for k in (0, 1))
        say(f"{name}: geometric means of {len(ratios)}: instructions {instructions:.3f}, cycles {cycles:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--cores", default="cortex-a53,cortex-a72,cortex-a76", help="of " + ", ".join(CORES))
    parser.add_argument("--alone", action="store_true", help="pylite only")
    parser.add_argument("--precision", default="", help="of pylite, beside its float32 instead of LiteRT")
    parser.add_argument("--nodes", action="store_true")
    parser.add_argument("--node", type=int, metavar="I")
    parser.add_argument("--top", type=int, default=0, metavar="N")
    parser.add_argument("--assembly", action="store_true")
    options = parser.parse_args()
    if "ARM_CACHE" not in os.environ:
        parser.error("ARM_CACHE is not set")
    cache = Path(os.environ["ARM_CACHE"]).resolve()
    build(cache)
    if not (options.alone or options.precision):
        install_peer(cache)
    for core in options.cores.split(","):
        race(options, cache, core)


if __name__ == "__main__":
    main()
