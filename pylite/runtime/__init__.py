"""Models that run: memory, programs bound to it, and one Executor for each subgraph."""
