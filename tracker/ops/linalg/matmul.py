"""Matrix products: the op `matmul`, and `dot`, `inner`, `outer`, `vdot`. More are in
`tensor_products.py` and `einsum.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracker.ir.lowering import Contract
from tracker.ir.op import METHODS, UFUNCS
from tracker.ir.types import Type
from tracker.ops.declare.arguments import as_array, as_strong_array
from tracker.ops.declare.casting import store_out
from tracker.ops.declare.declare import declare, implements
from tracker.ops.declare.dtypes import cached_broadcast_shapes
from tracker.ops.declare.operators import binary_operator, reflected_operator
from tracker.ops.declare.rule_helpers import conjugated, project
from tracker.ops.shape.create import identity
from tracker.ops.shape.shape import adjoint, reshaped, swap_last_axes
from tracker.tape.labels import LABELS
from tracker.tape.record import apply, aval_of, shape_of
from tracker.tape.tracing.loop_index import grows
from tracker.tape.tracked import Tracked, install

_COPY_COST = 4  # to transpose a number, in units of writing one of a product and adding it up


def _infer(a: Type, b: Type) -> Type:
    if not a.ndim or not b.ndim:
        raise ValueError("matmul: operands need at least one dimension; use * for scalars")
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ValueError(f"matmul: shapes {a.shape} and {b.shape} do not match")
    batch = cached_broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows = a.shape[-2:-1]
    columns = b.shape[-1:] if b.ndim > 1 else ()
    return Type((*batch, *rows, *columns), np.result_type(a.dtype, b.dtype))


def _as_matrices(a: Any, b: Any, g: Any) -> tuple[Any, Any, Any]:
    """Operands and cotangent, with the axes that matmul drops for vectors restored."""
    left, right = shape_of(a), shape_of(b)
    if len(right) == 1:
        b = reshaped(b, (*right, 1))
        g = reshaped(g, (*shape_of(g), 1))
    if len(left) == 1:
        a = reshaped(a, (1, *left))
        *others, n = shape_of(g)
        g = reshaped(g, (*others, 1, n))
    return a, b, g


def _rows(x: Any) -> Any:
    """The rows of all matrices of a batch, as one matrix."""
    *batch, n = shape_of(x)
    return reshaped(x, (math.prod(batch), n)) if len(batch) > 1 else x


def _vjp_left(g: Any, y: Any, a: Any, b: Any) -> Any:
    shape = shape_of(a)
    if len(shape) == 1 and len(shape_of(b)) == 1:
        return project(g * conjugated(b), a)
    matrix, right, g = _as_matrices(a, b, g)
    (*batch, m, k), n = shape_of(matrix), shape_of(g)[-1]
    batch_of_right = shape_of(right)[:-2]
    if batch and not batch_of_right:
        c = reshaped(np.matmul(_rows(g), adjoint(right)), (*batch, m, k))
    elif batch_of_right and not batch and _COPY_COST * n * (m + k) < m * k:
        c = np.matmul(swap_last_axes(_rows(swap_last_axes(g))), _rows(adjoint(right)))
    else:
        c = np.matmul(g, adjoint(right))
    c = project(c, matrix)
    return c if len(shape) > 1 else reshaped(c, shape)


def _vjp_right(g: Any, y: Any, a: Any, b: Any) -> Any:
    shape = shape_of(b)
    if len(shape) == 1 and len(shape_of(a)) == 1:
        return project(g * conjugated(a), b)
    left, matrix, g = _as_matrices(a, b, g)
    if len(shape) <= 2:  # one product of all rows, not a sum of products
        left, g = _rows(left), _rows(g)
    c = project(np.matmul(adjoint(left), g), matrix)
    return c if len(shape) > 1 else reshaped(c, shape)


matmul = declare(
    "matmul",
    infer=_infer,
    evaluate=np.matmul,
    jvp=[lambda t, y, a, b: np.matmul(t, b), lambda t, y, a, b: np.matmul(a, t)],
    vjp=[_vjp_left, _vjp_right],
    lower=Contract(),
)
UFUNCS[np.matmul] = matmul
install("__matmul__")(binary_operator(matmul, "__rmatmul__"))
install("__rmatmul__")(reflected_operator(matmul))


@implements(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    found = _dot(a, b, out)
    if LABELS and out is None and type(found) is Tracked:  # pandas has an array from `np.dot`
        return apply(identity, (found,))
    return found


def _dot(a: Any, b: Any, out: Any = None) -> Any:
    a, b = as_strong_array(a), as_strong_array(b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return _store_dot(a * b, out)
    left, right = np.shape(a), np.shape(b)
    at = max(len(right) - 2, 0)
    if left[-1] != right[at]:
        shapes = " and ".join(str(shape).replace(" ", "") for shape in (left, right))
        unlike = f"{left[-1]} (dim {len(left) - 1}) != {right[at]} (dim {at})"
        raise ValueError(f"shapes {shapes} not aligned: {unlike}")
    if len(right) <= 2:
        return _store_dot(np.matmul(a, b), out)
    flat = np.reshape(np.moveaxis(b, -2, 0), (right[-2], math.prod((*right[:-2], right[-1]))))
    product = np.matmul(a, flat)
    return _store_dot(np.reshape(product, (*left[:-1], *right[:-2], right[-1])), out)


def _store_dot(product: Any, out: Any) -> Any:
    """`dot(out=)` does not cast, unlike ufuncs."""
    like = (np.shape(product), np.result_type(aval_of(product)))
    if out is not None and (np.shape(out), np.result_type(aval_of(out))) != like:
        raise ValueError(
            "output array is not acceptable (must have the right datatype, number of dimensions, "
            "and be a C-Array)"
        )
    return store_out(out, product)


@implements(np.inner)
def inner(a: Any, b: Any) -> Any:
    a, b = as_strong_array(a), as_strong_array(b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return a * b
    return dot(a, np.swapaxes(b, -1, -2) if np.ndim(b) > 1 else b)


@implements(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    if np.ndim(a) == np.ndim(b) == 1 and (grows(a) or grows(b)):
        # The extents are those of one iteration of a loop, which a reshape would tell.
        return store_out(out, as_array(a)[:, None] * as_array(b)[None, :])
    return store_out(out, np.reshape(a, (-1, 1)) * np.reshape(b, (1, -1)))


@implements(np.vdot)
def vdot(a: Any, b: Any) -> Any:
    return np.matmul(np.ravel(conjugated(a)), np.ravel(b))


def sum_in_dtype(terms: Any, axis: Any) -> Any:
    """A sum in the dtype of its terms: products do not widen small integers, unlike np.sum."""
    dtype = terms.dtype
    return np.sum(terms, axis=axis, dtype=dtype if dtype.kind in "biu" else None)


METHODS["dot"] = _dot
