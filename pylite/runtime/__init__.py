"""Models at work: memory, programs bound to it, and the loop over them for each subgraph."""
