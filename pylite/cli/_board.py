"""The machine that a measurement ran on, and reasons to doubt the measurement: load, clock, heat, throttling."""
import os
import platform
from typing import NamedTuple

from pylite.cli import _format

_THROTTLED = {0: "the supply voltage is too low", 1: "the clock is capped", 2: "the CPU is throttled",
              3: "the CPU has reached its temperature limit"}      # bits of the Raspberry Pi's firmware


class State(NamedTuple):
    """Properties of the machine that may change: load, clock in kHz, degrees Celsius, bits of throttling.

    clock, temperature: None if the system does not tell.
    """
    load: float
    clock: int | None
    temperature: float | None
    throttled: int


def machine():
    """Properties that do not change between runs: CPU, cores, ISA level, governor."""
    from pylite._core import simd
    return {"cpu": _cpu(), "cores": _cores(), "architecture": platform.machine(),
            "instruction_set": simd.current, "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")}


def state():
    """The State of the machine now."""
    heat = _read("/sys/class/thermal/thermal_zone0/temp")
    clock = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
    bits = _read("/sys/devices/platform/soc/soc:firmware/get_throttled")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return State(load, int(clock) if clock else None, int(heat) / 1000 if heat else None, int(bits, 16) if bits else 0)


def doubts(before, after, threads):
    """Reasons, as sentences, why times measured between two States may be unreliable."""
    cores = _cores()
    reasons = []
    if threads > cores:
        reasons.append(f"{threads} threads share {_format.counted(cores, 'core')}")
    if before.load > 0.5 * cores:
        reasons.append(f"other programs ran just before (load {before.load:.1f} on "
                       f"{_format.counted(cores, 'core')})")
    governor = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor in ("powersave", "conservative"):
        reasons.append(f"the CPU frequency governor is {governor!r}; choose 'performance'")
    if before.clock and after.clock and after.clock < 0.9 * before.clock:
        reasons.append(f"the clock fell from {before.clock // 1000} to {after.clock // 1000} MHz")
    reasons += [f"{text} (at {after.temperature} degrees)" if after.temperature else text
                for bit, text in _THROTTLED.items() if after.throttled >> bit & 1]
    return reasons


def _cores():
    """The cores that this process may use; all of them if the system does not tell (macOS, Windows)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu():
    """The CPU's or the board's name."""
    board = _read("/proc/device-tree/model")
    if board:
        return board.rstrip("\0")
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Hardware"):
            return value.strip()
    return platform.processor() or None


def _read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None
