"""The host of plug-ins in C: TensorFlow Lite's own structs, filled from a subgraph and kept in step with it."""
