"""What loading and lowering make of a model: records of its file, calls of kernels."""
