"""Rewrites that make a graph or a lowered graph cheaper to run, one a module; `pipeline` runs them in order."""
