"""The ops, one file per family. Importing this package declares them all."""

from tracker.ops import binary, contraction, index, rearrange, reduce, shape, ufuncs, unary

__all__ = [
    "binary",
    "contraction",
    "index",
    "rearrange",
    "reduce",
    "shape",
    "ufuncs",
    "unary",
]
