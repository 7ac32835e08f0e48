"""What runs a model: kernels on memory, the loop over them."""
