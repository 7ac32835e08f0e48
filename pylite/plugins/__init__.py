"""Ops and delegates from outside: registration in Python, pointers, shared libraries, and the graph they change."""
