"""Elementwise ops: NumPy's ufuncs, one row each."""
