"""From a graph to kernels on memory: lowering, passes, placement, binding."""
