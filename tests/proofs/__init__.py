"""Proofs that the integer rules of docs/numerics.md equal their definitions for all inputs: `pytest tests/proofs`.

c_source.py reads the C functions that kernels use and states them as formulas of bit vectors, which z3 compares with
definitions (`pip install z3-solver pycparser`).  What has few inputs is compared one by one, in C or numpy.
"""
