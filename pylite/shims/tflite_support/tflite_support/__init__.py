"""Stands in for the package tflite_support, of which it has only `task`: pylite.tasks under its names."""
import sys
import types

from pylite import tasks

__version__ = "0.4.4"       # whose interface it has; programs compare it

task = types.ModuleType(f"{__name__}.task")
for _part in ("audio", "core", "processor", "text", "vision"):
    setattr(task, _part, tasks)
    sys.modules[f"{task.__name__}.{_part}"] = tasks
sys.modules[task.__name__] = task


def __getattr__(name):
    raise AttributeError(f"pylite's stand-in for tflite_support has only tflite_support.task, and no {name!r}")
