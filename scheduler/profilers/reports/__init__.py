"""Reports of profilers as stacks: what kernels, operators and functions took."""
