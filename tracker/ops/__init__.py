"""The ops, one file per family. Importing this package declares them all."""

from tracker.ops import (
    binary,
    bundle,
    contraction,
    create,
    index,
    rearrange,
    reduce,
    shape,
    truths,
    ufuncs,
    unary,
)

__all__ = [
    "binary",
    "bundle",
    "contraction",
    "create",
    "index",
    "rearrange",
    "reduce",
    "shape",
    "truths",
    "ufuncs",
    "unary",
]
