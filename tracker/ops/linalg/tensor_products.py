"""`tensordot`, `kron`, `cross`, `multi_dot`, and NumPy's generalised ufuncs (`vecdot`, `matvec`,
...), composed of `np.matmul` and elementwise products."""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tracker.ir.op import NUMPY
from tracker.ops.declare.casting import broadcast_to_out, store_out
from tracker.ops.declare.declare import implements
from tracker.ops.declare.dtypes import cast_to_loop
from tracker.ops.declare.numpy_code import run_as_written
from tracker.ops.declare.rule_helpers import conjugated
from tracker.ops.linalg.matmul import matmul, sum_in_dtype
from tracker.ops.linalg.triangles import as_array
from tracker.ops.shape.shape import in_memory_order
from tracker.support.numpy_version import version_of
from tracker.tape.record import apply

# Tensors ------------------------------------------------------------------------------------------


@implements(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum over axes of `a` paired with axes of `b`: one matrix product."""
    a, b = as_array(a), as_array(b)
    left, right = _paired(axes, np.ndim(a))
    left = [normalize_axis_index(int(i), np.ndim(a)) for i in left]
    right = [normalize_axis_index(int(i), np.ndim(b)) for i in right]
    if [np.shape(a)[i] for i in left] != [np.shape(b)[i] for i in right]:
        raise ValueError("shape-mismatch for sum")
    rows = [i for i in range(np.ndim(a)) if i not in left]
    columns = [i for i in range(np.ndim(b)) if i not in right]
    shape = (*(np.shape(a)[i] for i in rows), *(np.shape(b)[i] for i in columns))
    size, m = (math.prod(np.shape(a)[i] for i in some) for some in (left, rows))
    n = math.prod(np.shape(b)[i] for i in columns)
    # sorted, so that one factor may need no transpose
    pairs = sorted(zip(left, right, strict=True))
    left, right = [i for i, _ in pairs], [i for _, i in pairs]
    x, y = _as_matrix(a, rows, left, (m, size)), _as_matrix(b, right, columns, (size, n))
    return np.reshape(np.matmul(x, y), shape)


def _as_matrix(x: Any, rows: list[int], columns: list[int], shape: tuple[int, int]) -> Any:
    """An array as a matrix with these axes as rows and columns. If the columns come first in
    memory, it is the transpose of a reshape, which needs no copy."""
    if [*columns, *rows] == list(range(np.ndim(x))):
        return np.transpose(np.reshape(x, shape[::-1]))
    return np.reshape(np.transpose(x, (*rows, *columns)), shape)


def _paired(axes: Any, ndim: int) -> tuple[list[int], list[int]]:
    if np.ndim(axes) == 0 and not isinstance(axes, (list, tuple)):
        return list(range(ndim - int(axes), ndim)), list(range(int(axes)))
    left, right = axes
    return [[i] if np.ndim(i) == 0 else list(i) for i in (left, right)]  # type: ignore[return-value]


@implements(np.kron)
def kron(a: Any, b: Any) -> Any:
    """The Kronecker product: every element of `a` times all of `b`."""
    a, b = as_array(a), as_array(b)
    ndim = max(np.ndim(a), np.ndim(b))
    above, below = ((1,) * (ndim - np.ndim(x)) + np.shape(x) for x in (a, b))
    x = np.reshape(a, tuple(n for extent in above for n in (extent, 1)))
    y = np.reshape(b, tuple(n for extent in below for n in (1, extent)))
    return np.reshape(x * y, tuple(n * m for n, m in zip(above, below, strict=True)))


_SIZES_OF_CROSS = {2, 3} if version_of(np) < (2, 5) else {3}


@implements(np.cross)
def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """The cross product of vectors of 3 elements along an axis; of 2 before NumPy 2.5."""
    if axis is not None:
        axis = operator.index(axis)
        axisa = axisb = axisc = axis
    x, y = np.moveaxis(as_array(a), axisa, -1), np.moveaxis(as_array(b), axisb, -1)
    sizes = np.shape(x)[-1], np.shape(y)[-1]
    if not set(sizes) <= _SIZES_OF_CROSS:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they are "
            f"{sizes[0]} and {sizes[1]} dimensional instead."
        )
    if 3 not in sizes:
        product = x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
        return product if np.ndim(product) else np.copy(product)  # a 0-d array, not a scalar
    product = _rolled(x, 1) * _rolled(y, 2) - _rolled(x, 2) * _rolled(y, 1)
    return np.moveaxis(in_memory_order(product, "C"), -1, axisc)


def _rolled(v: Any, by: int) -> Any:
    """Vectors rolled by `by` elements; a missing third element is zero."""
    if np.shape(v)[-1] == 2:
        v = np.concatenate([v, np.zeros_like(v[..., :1])], axis=-1)
    return np.concatenate([v[..., by:], v[..., :by]], axis=-1)


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Any:
    """A chain of matrix products, in the order with the fewest multiplications."""
    chain = [as_array(a) for a in arrays]
    if len(chain) < 2:
        raise ValueError("Expecting at least two arrays.")
    if not all(np.ndim(a) == 2 for a in chain[1:-1]):
        raise np.linalg.LinAlgError("multi_dot takes matrices; only its ends may be vectors")
    first = np.shape(chain[0])[0] if np.ndim(chain[0]) == 2 else 1
    extents = [first, *(np.shape(a)[-1] if np.ndim(a) == 2 else 1 for a in chain)]
    if np.ndim(chain[0]) == 1:
        extents[1] = np.shape(chain[0])[0]
    if np.ndim(chain[-1]) == 1:
        extents[-1] = 1
    return store_out(out, _chained(chain, _splits(extents), 0, len(chain) - 1))


def _splits(extents: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to split each part (i .. j) of a chain of matrices; extents[i] is the number of rows of
    i."""
    n = len(extents) - 1
    cost = {(i, i): 0 for i in range(n)}
    split: dict[tuple[int, int], int] = {}
    for length, i in itertools.product(range(1, n), range(n)):
        j = i + length
        if j >= n:
            continue
        costs = {
            k: cost[i, k] + cost[k + 1, j] + extents[i] * extents[k + 1] * extents[j + 1]
            for k in range(i, j)
        }
        split[i, j] = min(costs, key=costs.__getitem__)
        cost[i, j] = costs[split[i, j]]
    return split


def _chained(chain: Sequence[Any], split: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return chain[i]
    k = split[i, j]
    return np.dot(_chained(chain, split, i, k), _chained(chain, split, k + 1, j))


# NumPy's generalised ufuncs -----------------------------------------------------------------------


def _check_core_dims(function: np.ufunc, operands: Sequence[Any]) -> None:
    """Raise NumPy's errors if operands lack core axes of a generalised ufunc, or if core axes of
    one name differ in extent."""
    text = cast(str, function.signature)
    sizes: dict[str, int] = {}
    for at, (x, names) in enumerate(zip(operands, re.findall(r"\((.*?)\)", text), strict=False)):
        wanted = names.split(",")
        needed = [n for n in wanted if not n.endswith("?")]
        start, shape = f"{function.__name__}: Input operand {at}", np.shape(x)
        if len(shape) < len(needed):
            raise ValueError(
                f"{start} does not have enough dimensions (has {len(shape)}, gufunc core with "
                f"signature {text} requires {len(needed)})"
            )
        taken = wanted if len(shape) >= len(wanted) else needed
        for axis, (name, size) in enumerate(zip(taken, shape[-len(taken) :], strict=True)):
            if sizes.setdefault(name, size) != size:
                raise ValueError(
                    f"{start} has a mismatch in its core dimension {axis}, with gufunc signature "
                    f"{text} (size {size} is different from {sizes[name]})"
                )


def _install_gufunc(
    function: np.ufunc, body: Callable[[Any, Any], Any], result_core_ndim: int
) -> None:
    """Enter a generalised ufunc; `result_core_ndim` is the number of core axes of its result."""

    def call(a: Any, b: Any, out: Any = None, **given: Any) -> Any:
        a, b = as_array(a), as_array(b)
        if given:
            a, b = _apply_gufunc_keywords(function, a, b, given)
        axes, axis, keepdims = (given.get(k) for k in ("axes", "axis", "keepdims"))
        if axis is not None:
            axes = [axis, axis, *([axis] if keepdims else [])]
        if axes is not None:
            a, b = (_move_to_end(x, i) for x, i in zip((a, b), axes, strict=False))
        _check_core_dims(function, (a, b))
        y = body(a, b)
        if keepdims:
            y = np.expand_dims(y, -1)
        if axes is not None and len(axes) == 3 and (result_core_ndim or keepdims):
            y = np.moveaxis(y, range(-len(_as_tuple(axes[2])), 0), _as_tuple(axes[2]))
        target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
        y = broadcast_to_out(in_memory_order(y, given.get("order")), target)
        return store_out(target, y, given.get("casting", "same_kind"))

    NUMPY[function] = call


def _apply_gufunc_keywords(
    function: np.ufunc, a: Any, b: Any, given: dict[str, Any]
) -> tuple[Any, Any]:
    """The operands in the requested dtypes. NumPy's own ufunc, called with arrays of one element,
    raises the errors of the other keywords."""
    chosen = {k: given[k] for k in ("dtype", "casting") if k in given}
    signature = given.get("signature", given.get("sig"))
    rest = {k: v for k, v in given.items() if k not in ("dtype", "casting", "signature", "sig")}
    function(*(np.ones((1,) * np.ndim(x)) for x in (a, b)), **rest)
    if not chosen and signature is None:
        return a, b
    dtype, casting = chosen.get("dtype"), chosen.get("casting", "same_kind")
    a, b = cast_to_loop(function, (a, b), dtype, signature, casting)
    return a, b


def _as_tuple(axes: Any) -> tuple[int, ...]:
    return (axes,) if np.ndim(axes) == 0 else tuple(axes)


def _move_to_end(x: Any, axes: Any) -> Any:
    axes = _as_tuple(axes)
    return np.moveaxis(x, axes, range(-len(axes), 0)) if axes else x


_install_gufunc(np.matmul, lambda a, b: apply(matmul, (a, b)), 2)
_install_gufunc(np.vecdot, lambda a, b: sum_in_dtype(conjugated(a) * b, -1), 0)
for _name, _body in (
    ("matvec", lambda a, b: np.matmul(a, np.expand_dims(b, -1))[..., 0]),
    ("vecmat", lambda a, b: np.matmul(np.expand_dims(conjugated(a), -2), b)[..., 0, :]),
):
    if hasattr(np, _name):  # since NumPy 2.2
        _install_gufunc(getattr(np, _name), _body, 1)


run_as_written(
    np.linalg.cross, np.linalg.matmul, np.linalg.outer, np.linalg.tensordot, np.linalg.vecdot
)
