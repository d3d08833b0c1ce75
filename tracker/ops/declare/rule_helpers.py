"""What derivative rules share: products with partials, and projections to the right shape and
dtype.

`vjp_from` and `jvp_from` derive the rules of an elementwise op from a partial derivative.

Invariant: rules are plain NumPy on the values they get; zeros and ones come from `*_like` or
`broadcast_to` of an operand, so that a trace records them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tracker.ir.op import LINEAR, Op, Rule
from tracker.tape.record import aval_of, shape_of
from tracker.tape.tracked import Tracked


class TwoTerms(NamedTuple):
    """A cotangent or tangent as an unevaluated sum of two terms.

    Where one element has nearly all of the weight of a `logsumexp`, its derivative is 1 minus a
    small number, and `x[k] - logsumexp(x)` consists of that small number after the 1 has cancelled.
    A pass sums heads and tails separately, through linear ops, and adds them at the end.
    """

    head: Any
    tail: Any

    def total(self) -> Any:
        return self.head + self.tail

    def plus(self, other: Any) -> TwoTerms:
        """The sum with another cotangent."""
        if type(other) is TwoTerms:
            return TwoTerms(self.head + other.head, self.tail + other.tail)
        return TwoTerms(self.head + other, self.tail)


def as_one_term(c: Any) -> Any:
    """A cotangent or tangent, with `TwoTerms` summed."""
    return c.total() if type(c) is TwoTerms else c


def is_additive(op: Op) -> bool:
    """Whether an op's derivative is the op itself, or has partials of 1 and -1 only."""
    if op.partials is None:
        return op.jvp == LINEAR
    return all(type(partial) is int for partial in op.partials)


def sum_to(g: Any, shape: tuple[int, ...]) -> Any:
    """Sum a cotangent over the axes along which its operand was broadcast."""
    have = np.shape(g)
    if have == shape:
        return g
    if not shape:
        return np.sum(g)
    lead = len(have) - len(shape)
    axes = (*range(lead), *(lead + i for i, n in enumerate(shape) if n == 1 != have[lead + i]))
    return np.reshape(np.sum(g, axis=axes), shape) if axes else np.reshape(g, shape)


def project(c: Any, x: Any) -> Any:
    """A cotangent in the shape and precision of its operand; real for a real operand."""
    aval, given = aval_of(x), aval_of(c)
    shape = aval.shape if type(aval) is np.ndarray else np.shape(aval)
    if (given.shape if type(given) is np.ndarray else np.shape(given)) != shape:
        c = sum_to(c, shape)
    want, have = _dtype(aval), _dtype(given)
    if have == want or want.kind not in "fc":
        return np.real(c) if have.kind == "c" and want.kind != "c" else c
    if have.kind == "c" and want.kind == "f":
        c = np.real(c)
    if type(x) is float or type(x) is complex:
        return c
    return c.astype(want) if hasattr(c, "astype") else want.type(c)


def _dtype(aval: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] | None = getattr(aval, "dtype", None)
    return np.result_type(aval) if dtype is None else dtype


def _is_complex(aval: Any) -> bool:
    """`np.iscomplexobj`, which costs more than the product that depends on it."""
    dtype = getattr(aval, "dtype", None)
    return type(aval) is complex if dtype is None else dtype.kind == "c"


def match_tangent(t: Any, y: Any) -> Any:
    """A tangent in the shape and dtype of the result."""
    shape = np.shape(y)
    if np.shape(t) != shape:
        t = np.broadcast_to(t, shape)
    if not hasattr(y, "dtype") or not hasattr(t, "dtype"):
        return np.real(t) if type(y) is float and np.iscomplexobj(t) else t
    want = y.dtype
    if t.dtype == want or want.kind not in "fc":
        return t
    if want.kind == "f" and t.dtype.kind == "c":
        t = np.real(t)
    return np.astype(t, want) if np.ndim(t) or isinstance(t, Tracked) else want.type(t)


def as_numpy_scalar(x: Any) -> Any:
    """A Python number as NumPy's, whose arithmetic gives inf and NaN instead of raising."""
    aval = aval_of(x)
    if not isinstance(aval, (int, float, complex)):
        return x
    kind = np.result_type(aval, 0.0)
    return np.astype(x, kind) if isinstance(x, Tracked) else kind.type(x)


def conjugated(x: Any) -> Any:
    """The complex conjugate; a real array unchanged."""
    return np.conjugate(x) if np.iscomplexobj(x) else x


_STRUCTURAL_ZERO_PARTIALS: set[Rule] = set()


def with_structural_zeros(partial: Rule) -> Rule:
    """Mark a partial derivative whose zeros are structural (`maximum`: the other operand was
    selected): there the cotangent is exactly 0, even if the incoming one is NaN."""
    _STRUCTURAL_ZERO_PARTIALS.add(partial)
    return partial


def _apply_structural_zeros(product: Any, partial: Any, d: Any) -> Any:
    return np.where(d == 0, 0.0, product)[()] if partial in _STRUCTURAL_ZERO_PARTIALS else product


def partial_product(times: Callable[[Any, Any], Any], g: Any, partial: Any, y: Any, xs: Any) -> Any:
    """g times a partial derivative, conjugated if complex (docs/explanation/conventions.md)."""
    if not callable(partial):
        return g if partial == 1 else -g if partial == -1 else times(g, partial)
    d = partial(y, *xs)
    product = times(g, np.conjugate(d) if _is_complex(aval_of(d)) else d)
    return product if times is np.multiply else _apply_structural_zeros(product, partial, d)


FACTORED_PARTIALS: dict[Rule, tuple[Rule, Rule]] = {}


def factored_partial(partial: Rule, full: Rule, own: Rule) -> Rule:
    """Declare that a partial derivative is full(y, *xs) * own(x), where x is the operand itself.
    Where x was broadcast, cotangents are summed before they are multiplied by `own`."""
    FACTORED_PARTIALS[partial] = full, own
    return partial


def contribution(
    times: Callable[[Any, Any], Any], g: Any, partial: Any, y: Any, xs: Sequence[Any], at: int
) -> Any:
    """The cotangent of operand number `at`, whose partial derivative is given."""
    x = xs[at]
    factors = FACTORED_PARTIALS.get(partial)
    if factors is None or shape_of(x) == shape_of(g):
        return project(partial_product(times, g, partial, y, xs), x)
    full, own = factors
    c, d = project(partial_product(times, g, full, y, xs), x), own(x)
    return times(c, np.conjugate(d) if _is_complex(aval_of(d)) else d)


def vjp_from(partial: Any, at: int) -> Rule:
    """The vjp of operand number `at`, from its partial derivative."""

    def rule(g: Any, y: Any, *xs: Any) -> Any:
        return contribution(np.multiply, g, partial, y, xs, at)

    return rule


def tangent_product(times: Callable[[Any, Any], Any], t: Any, partial: Any, y: Any, xs: Any) -> Any:
    """A partial derivative times a tangent, in the type of the result."""
    d = partial(y, *xs) if callable(partial) else partial
    product = times(t, d)
    return match_tangent(
        product if times is np.multiply else _apply_structural_zeros(product, partial, d), y
    )


def jvp_from(partial: Any) -> Rule:
    """The jvp of an operand, from its partial derivative."""

    def rule(t: Any, y: Any, *xs: Any) -> Any:
        return tangent_product(np.multiply, t, partial, y, xs)

    return rule
