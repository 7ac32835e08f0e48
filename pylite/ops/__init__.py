"""The ops: one module per family, each entering its own in the registry."""
