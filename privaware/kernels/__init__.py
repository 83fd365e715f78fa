"""Triton kernels for CUDA, one topic per file. Tests compare each kernel with the same computation in plain PyTorch."""
