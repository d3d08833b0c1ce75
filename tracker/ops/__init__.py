"""The ops, one file per family. Importing this package declares them all."""

from tracker.ops import (
    binary,
    bundle,
    contraction,
    create,
    einsum,
    index,
    linalg,
    products,
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
    "einsum",
    "index",
    "linalg",
    "products",
    "rearrange",
    "reduce",
    "shape",
    "truths",
    "ufuncs",
    "unary",
]
