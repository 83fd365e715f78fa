"""Triton kernels, one subject a file; tests compare each with the same computation in plain PyTorch."""
