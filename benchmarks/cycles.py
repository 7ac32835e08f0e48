"""Products per cycle in the hot loops of Arm's micro-kernels, computed by llvm-mca: the table in docs/arm-loops.md.

Compiles the micro-kernels with cross compilers (gcc-aarch64-linux-gnu, gcc-arm-linux-gnueabihf), finds the innermost
loop with the most products per instruction in the object code, and lets llvm-mca compute its cycles on a core.  The
peak is the same figure for the multiply instruction alone.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import arm_race

ROOT = Path(__file__).resolve().parents[1]
SIMD = ROOT / "pylite" / "_core" / "simd"
PAGE = ROOT / "docs" / "arm-loops.md"
BEGIN, END = "<!-- cycles: begin -->\n", "<!-- cycles: end -->\n"

# As in meson.build and pylite/_core/simd/meson.build.
FLAGS = ["-std=c11", "-DNDEBUG", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv", "-fno-math-errno",
         "-fno-trapping-math", "-fno-tree-loop-distribute-patterns", "-w"]
HAND_WRITTEN = ["-O3", "-fno-schedule-insns"]
ARRANGED = ["-O3", "-mtune=cortex-a53"]
PORTABLE = ["-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic", "-funswitch-loops", "-fpeel-loops",
        "--param=max-completely-peeled-insns=100", "--param=max-completely-peel-times=16", "-DPL_ISA_LEVEL=neon"]
TARGETS = {"aarch64": ("aarch64-linux-gnu", []),
           "armv7": ("arm-linux-gnueabihf", ["-march=armv7-a", "-mfpu=neon-vfpv4"])}
# llvm-mca's models of the cores.
MODELS = {core.title(): model for core, (_, _, model) in arm_race.CORES.items()} | {"Neoverse N2": "neoverse-n2"}
# Instructions that multiply: pattern, number of products (or results).
PRODUCTS = [(r"smmla\s", 32), (r"[su]dot\s", 16), (r"s?m(ul|la)l2?\s+v\d+\.8h", 8), (r"sm(ul|la)l2?\s+v\d+\.4s", 4),
            (r"sm(ul|la)l2?\s+v\d+\.2d", 2), (r"f?m(la|ul)\s+v\d+\.4s", 4), (r"s?f?madd[lw]?\s", 1),
            (r"vm(ul|la)l\.s8\s", 8), (r"vm(ul|la)l\.s16\s", 4), (r"vm(ul|la)l\.s32\s", 2),
            (r"v(fma|mla)\.[fi]32\s+q", 4), (r"v(fma|mla)\.f32\s+s", 1), (r"(smla..|mla|smlal)\s+r", 1)]
RESULTS = [(r"sqrdmulh\s+v\d+\.4s", 4), (r"vqrdmulh\.s32\s+q", 4)]
REQUANTIZE = """#include "arm/neon.h"
void requantize_lines(int lines, const int32_t *from, const pl_columns *q, uint8_t *y) {
  const scaling c[2] = {scaling_of(q, 0), scaling_of(q, 4)};
  const ends e = ends_of(q);
  for (int i = 0; i < lines; i++, from += 32, y += 32) {
    int32x4_t acc[4][4];
    uint8x16_t bytes[2];
    for (int r = 0; r < 4; r++) acc[r][0] = vld1q_s32(from + 8 * r), acc[r][1] = vld1q_s32(from + 8 * r + 4);
    requantize(4, 2, acc, c, 0, NULL);
    narrow(4, 2, acc, &e, bytes);
    for (int r = 0; r < 4; r++) store_half(y + 8 * r, bytes, r);
  }
}
"""
DOTPROD, I8MM = [*HAND_WRITTEN, "-march=armv8.2-a+dotprod"], [*HAND_WRITTEN, "-march=armv8.2-a+dotprod+i8mm"]
DOT, MATRIX = "sdot v{}.4s, v30.16b, v31.4b[0]", "smmla v{}.4s, v30.16b, v31.16b"
BYTES, WORDS, LANES = "smull v{}.8h, v30.8b, v31.8b", "smlal v{}.4s, v30.4h, v31.4h", "fmla v{}.4s, v30.4s, v31.4s"
BYTES7 = "vmull.s8 q{}, d30, d31"
LANES7 = "vfma.f32 q{}, q14, q15"
# Loop, ISA level, target, source, flags, functions, the multiply instruction, cores
LOOPS = [
    ("8-bit product", "neon", "aarch64", "arm/gemm_neon.c", HAND_WRITTEN, "q8_small", BYTES,
     ["Cortex-A53", "Cortex-A72"]),
    ("8-bit product", "dotprod", "aarch64", "arm/gemm_dotprod.c", DOTPROD, "q8_wide", DOT,
     ["Cortex-A76"]),
    ("8-bit product", "i8mm", "aarch64", "arm/gemm_i8mm.c", I8MM, "q8_wide", MATRIX,
     ["Neoverse N2"]),
    ("8-bit product", "neon", "armv7", "arm/gemm_neon.c", HAND_WRITTEN, "q8_small", BYTES7, ["Cortex-A72"]),
    ("8-bit depthwise 5x5", "neon", "aarch64", "arm/depthwise_neon.c", ARRANGED, "block_5_1", BYTES,
     ["Cortex-A53", "Cortex-A72"]),
    ("8-bit depthwise, stride 1", "dotprod", "aarch64", "arm/depthwise_dotprod.c", DOTPROD, "block_1", DOT,
     ["Cortex-A76"]),
    ("8-bit depthwise 3x3 to bytes", "dotprod", "aarch64", "arm/depthwise_dotprod.c", DOTPROD,
     "filter3x3_1_relu", DOT, ["Cortex-A76"]),
    ("8-bit depthwise 3x3 to bytes", "neon", "aarch64", "arm/depthwise_neon.c", ARRANGED, "filter3x3_1_relu", BYTES,
     ["Cortex-A53", "Cortex-A72"]),
    ("8-bit depthwise 5x5", "neon", "armv7", "arm/depthwise_neon.c", HAND_WRITTEN, "block_5_1", BYTES7,
     ["Cortex-A72"]),
    ("float product", "neon", "aarch64", "arm/gemm_neon.c", HAND_WRITTEN, "rows_wide", LANES,
     ["Cortex-A53", "Cortex-A72", "Cortex-A76"]),
    ("float depthwise 5x5", "neon", "aarch64", "arm/depthwise_f32_neon.c", ARRANGED, "block_5_1", LANES,
     ["Cortex-A53", "Cortex-A72", "Cortex-A76"]),
    ("float product", "neon", "armv7", "arm/gemm_neon.c", HAND_WRITTEN, "rows_wide", LANES7, ["Cortex-A72"]),
    ("float depthwise 5x5", "neon", "armv7", "arm/depthwise_f32_neon.c", HAND_WRITTEN, "block_5_1", LANES7,
     ["Cortex-A72"]),
    ("int16 product", "neon", "aarch64", "portable/portable.c", PORTABLE, "gemm_s64", WORDS,
     ["Cortex-A53", "Cortex-A72", "Cortex-A76"]),
    ("requantization", "neon", "aarch64", REQUANTIZE, HAND_WRITTEN, "requantize_lines", None,
     ["Cortex-A53", "Cortex-A72", "Cortex-A76"]),
]


def find_mca():
    names = sorted((path for folder in ("/usr/bin", "/usr/local/bin") for path in Path(folder).glob("llvm-mca-*")),
                   key=lambda path: int(re.sub(r"\D", "", path.name) or 0))
    found = str(names[-1]) if names else shutil.which("llvm-mca")
    if found is None:
        raise SystemExit("llvm-mca is not installed: apt-get install llvm")
    return found


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def functions(target, source, flags, folder):
    """{function: [(address, instruction)]}"""
    triple, machine = TARGETS[target]
    if shutil.which(f"{triple}-gcc") is None:
        raise SystemExit(f"{triple}-gcc is not installed: apt-get install gcc-{triple}")
    if "\n" in source:
        path = Path(folder, "snippet.c")
        path.write_text(source)
    else:
        path = SIMD / source
    command = [f"{triple}-gcc", *FLAGS, *machine, *flags, f"-I{SIMD}", "-c", str(path), "-o", f"{folder}/o"]
    subprocess.run(command, check=True)
    text = output(f"{triple}-objdump", "-d", "--no-show-raw-insn", f"{folder}/o")
    found, current = {}, None
    for line in text.splitlines():
        if head := re.match(r"[0-9a-f]+ <([\w.]+)>:", line):
            current = found.setdefault(head[1], [])
        elif body := re.match(r"\s+([0-9a-f]+):\s+(\S.*)", line):
            line = re.split(r"\s*(?://|;|@)", body[2])[0].strip()
            line = re.sub(r"^(\w+)\.w\b", r"\1", line)       # LLVM's spelling
            line = re.sub(r"^movs?(\s+\w+, \w+), (ls[lr]|asr) (#\d+)$", r"\2\1, \3", line)
            current.append((int(body[1], 16), line))
    return found


def products(code, table):
    """Number of products (or results) of these instructions."""
    return sum(next((n for pattern, n in table if re.match(pattern, line)), 0) for line in code)


def least_instructions(what):
    """The least instructions of a loop that also finishes its results; of any other loop, 1."""
    return 100 if "to bytes" in what else 1


def hot_loop(found, names, table, least):
    """The instructions of the innermost loop of at least `least` with the most products per instruction."""
    def score(lines):
        return products(lines, table) / max(len(lines), 1) if len(lines) >= least else 0
    loops = [loop for name, code in found.items() if re.match(names, name) for loop in innermost_loops(code)]
    best = max(loops, key=score, default=[])
    if not score(best):
        raise SystemExit(f"no loop with products in {names}")
    return best


def innermost_loops(code):
    """The instructions of each loop that has no other loop inside."""
    places = {address: i for i, (address, _) in enumerate(code)}
    loops = []
    for i, (address, line) in enumerate(code):
        branch = re.match(r"(?:b|cb|tb)\S*\s+(?:\S+, )*([0-9a-f]+) <", line)
        target = int(branch[1], 16) if branch else None
        if target in places and target <= address:
            loops.append((places[target], i))
    for first, last in loops:
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in loops):
            yield [line for _, line in code[first:last + 1]]


def cycles(mca, target, core, lines):
    """Cycles of one iteration of these instructions in the steady state, or None if llvm-mca has no such core."""
    branch = r"^((?:b|cb|tb)\S*?)(?:\.[nw])?(\s+(?:\S+, )*)[0-9a-f]+ <.*"
    text = "again:\n" + "".join(re.sub(branch, r"\1\2again", line) + "\n" for line in lines)
    triple = {"aarch64": "aarch64-linux-gnu", "armv7": "thumbv7-linux-gnueabihf"}[target]
    attributes = {"aarch64": "+dotprod,+i8mm", "armv7": "+neon,+vfp4"}[target]
    total = []
    for count in (100, 200):
        done = subprocess.run([mca, f"-mtriple={triple}", f"-mattr={attributes}", f"-mcpu={MODELS[core]}",
                               f"-iterations={count}"], input=text, capture_output=True, text=True)
        if done.returncode:
            sys.stderr.write(f"{core}, {target}: {done.stderr.splitlines()[0]}\n")
            return None
        total.append(int(re.search(r"Total Cycles:\s+(\d+)", done.stdout)[1]))
    return (total[1] - total[0]) / 100


def table(mca):
    version = re.search(r"LLVM version (\S+)", output(mca, "--version"))
    gcc = output("aarch64-linux-gnu-gcc", "-dumpfullversion").strip()
    lines = [f"llvm-mca {version[1]}, gcc {gcc}. \"Instructions\": of one pass through the loop, and how many of them "
             "multiply.", "", "| loop | ISA level | core | instructions | per cycle | peak | share |",
             "| --- | --- | --- | ---: | ---: | ---: | ---: |"]
    with tempfile.TemporaryDirectory() as folder:
        for what, isa_level, target, source, flags, names, peak, cores in LOOPS:
            kinds = PRODUCTS if peak else RESULTS
            loop = hot_loop(functions(target, source, flags, folder), names, kinds, least_instructions(what))
            multiplying = sum(products([line], kinds) > 0 for line in loop)
            for core in cores:
                time = cycles(mca, target, core, loop)
                if time is None:
                    continue
                rate, most, share = products(loop, kinds) / time, "", ""
                if peak:
                    alone = [peak.format(i) for i in range(14 if target == "aarch64" else 8)]
                    top = products(alone, kinds) / cycles(mca, target, core, alone)
                    most, share = f"{top:.1f}", f"{100 * rate / top:.0f}%"
                name = core if target == "aarch64" else f"{core} (32 bit)"
                size = f"{len(loop)}, {multiplying}"
                lines.append(f"| {what} | {isa_level} | {name} | {size} | {rate:.2f} | {most} | {share} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into docs/arm-loops.md, do not print it")
    parser.add_argument("--loop", metavar="TEXT", help="print the loops whose name or ISA level contains TEXT instead")
    options = parser.parse_args()
    mca = find_mca()
    if options.loop:
        with tempfile.TemporaryDirectory() as folder:
            for what, isa_level, target, source, flags, names, peak, _ in LOOPS:
                if options.loop in f"{what} {isa_level} {target}":
                    kinds = PRODUCTS if peak else RESULTS
                    loop = hot_loop(functions(target, source, flags, folder), names, kinds, least_instructions(what))
                    sys.stdout.write(f"# {what}, {isa_level}, {target}\n" + "\n".join(loop) + "\n")
        return
    made = table(mca)
    if options.write:
        page = PAGE.read_text()
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + made + END + rest.split(END)[1])
    else:
        sys.stdout.write(made)


if __name__ == "__main__":
    main()
