"""Fuzzing: mutated models are loaded, allocated, run, resized and read, each in a process that may crash."""
