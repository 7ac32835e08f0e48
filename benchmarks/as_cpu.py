"""Run a benchmark as on a CPU with fewer instructions: pylite and its peers alike choose kernels for that CPU.

    python benchmarks/as_cpu.py ISA_LEVEL one_op.py --spots

ISA_LEVEL: avx2, avxvnni or avx512vnni (without VBMI, and without AMX), as pylite calls them.  Clock and caches stay
the CPU's own.  Needs Linux on an Intel CPU, whose instruction cpuid can fault, and a C compiler.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Bits of cpuid's leaf 7, for subleaf 0 and 1: of eax, ebx, ecx, edx.  Intel's manual, volume 2, "CPUID".
AMX = (0, 0, 0, 1 << 22 | 1 << 24 | 1 << 25), (1 << 21, 0, 0, 1 << 8)
VBMI = (0, 0, 1 << 1 | 1 << 6, 0), (0, 0, 0, 0)
AVX512 = ((0, 1 << 16 | 1 << 17 | 1 << 21 | 0xd << 28 | 1 << 26 | 1 << 27, 1 << 11 | 1 << 12 | 1 << 14,
           1 << 2 | 1 << 3 | 1 << 8 | 1 << 23), (1 << 5, 0, 0, 1 << 19))
AVX_VNNI = (0, 0, 0, 0), (1 << 4 | 1 << 23, 0, 0, 1 << 4 | 1 << 5 | 1 << 10)
HIDDEN = {"avx512vnni": (AMX, VBMI), "avxvnni": (AMX, VBMI, AVX512), "avx2": (AMX, VBMI, AVX512, AVX_VNNI)}


def define(features):
    """The macro of as_cpu.c that hides `features`."""
    rows = [f"{{7, {subleaf}, {', '.join(f'{bits:#x}u' for bits in one[subleaf])}}}"
            for one in features for subleaf in (0, 1)]
    return f"-DHIDDEN={', '.join(rows)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("isa_level", choices=HIDDEN)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="a benchmark and its arguments")
    args = parser.parse_args()
    if not args.command:
        parser.error("which benchmark?")
    script, *rest = args.command
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "as_cpu.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-Wall", define(HIDDEN[args.isa_level]), "-o", library,
                        HERE / "as_cpu.c"], check=True)
        return subprocess.run([sys.executable, HERE / script, *rest],
                              env=os.environ | {"LD_PRELOAD": str(library)}).returncode


if __name__ == "__main__":
    sys.exit(main())
