"""Kernels written by hand: sorting, selection, searching, matrix products, calls of Python."""
