#!/usr/bin/env python3
"""Build a wheel from a source distribution as piwheels does, on one core, and print the time and the peak memory.

    python .ci/source_build.py dist/pylite_runtime-0.1.0.tar.gz [--limit MB] [--output FOLDER]

The compiler is CC, by default the one that meson finds.  Memory is that of the build's processes together (PSS), and of
the largest one (RSS), sampled every 20 ms.  With --limit no process may map more.
"""
import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def processes(root):
    """The ids of `root` and of all processes that it started."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):       # it has ended
                continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def memory(pid, file, key):
    """A figure in bytes of a file in /proc, 0 if the process has ended."""
    try:
        with open(f"/proc/{pid}/{file}") as lines:
            return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), 0)
    except OSError:
        return 0


def source(pid):
    """The last C or Cython source among the arguments of a process, or its program."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    return next((word for word in reversed(words) if word.endswith((".c", ".pyx")) and word != ".c"), words[0])


def limited(limit):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if limit:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sdist", type=Path)
    parser.add_argument("--limit", type=int, default=0, metavar="MB", help="address space of each process")
    parser.add_argument("--output", type=Path, help="folder for the wheel")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        started = time.monotonic()
        build = subprocess.Popen(
            [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-cache-dir", "-Ccompile-args=-j1",
             "-w", str(args.output or scratch), str(args.sdist.resolve())],
            preexec_fn=lambda: limited(args.limit << 20))
        total, largest, unit = 0, 0, ""
        while build.poll() is None:
            alive = processes(build.pid)
            total = max(total, sum(memory(pid, "smaps_rollup", "Pss:") for pid in alive))
            for pid in alive:
                size = memory(pid, "status", "VmHWM:")
                if size > largest:
                    largest, unit = size, source(pid)
            time.sleep(0.02)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    sys.stdout.write(f"{time.monotonic() - started:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU, "
                     f"peak {total / 1e6:.0f} MB together, largest process {largest / 1e6:.0f} MB ({unit})\n")
    return build.returncode


if __name__ == "__main__":
    sys.exit(main())
