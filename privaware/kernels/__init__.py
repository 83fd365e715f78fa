"""Triton kernels, one subject a file; each has a twin in plain PyTorch that tests hold it against."""
