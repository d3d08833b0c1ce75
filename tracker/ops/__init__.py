"""The ops, one file per family. Importing this package declares them all."""

from tracker.ops import binary, contraction, create, index, rearrange, reduce, shape, ufuncs, unary

__all__ = [
    "binary",
    "contraction",
    "create",
    "index",
    "rearrange",
    "reduce",
    "shape",
    "ufuncs",
    "unary",
]
