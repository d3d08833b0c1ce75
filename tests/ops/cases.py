"""Cases: functions of arrays, as users write them, with one check of everything.

A case is (f, *args), or `case(f, *args, ...)` for more. `check` compares NumPy's numbers, dtype and
shape on tracked values; vjp and jvp with central differences, to second order; and the compiled
function and its gradient with the eager ones, also for other arguments than were traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tracker
from tracker import gradient, jit, param
from tracker.testing import gradcheck


@dataclass(frozen=True)
class Case:
    """`others`: arguments for a second call of the compiled function (None: the first ones,
    reversed); `order`: the highest derivative."""

    f: Callable[..., Any]
    args: tuple[Any, ...]
    others: tuple[Any, ...] | None
    order: int
    tolerance: float


def case(
    f: Callable[..., Any],
    *args: Any,
    others: tuple[Any, ...] | None = None,
    order: int = 2,
    tolerance: float = 1e-13,
) -> Case:
    return Case(f, args, others, order, tolerance)


def ordered(f: Callable[..., Any], *args: Any, **rest: Any) -> Case:
    """A case whose arguments must stay sorted: the others are the same, scaled."""
    return case(f, *args, others=tuple(np.asarray(a) * 1.25 for a in args), **rest)


def check(given: Any) -> None:
    c = given if isinstance(given, Case) else case(*given)
    narrow = any(np.result_type(a).itemsize // (1 + np.iscomplexobj(a)) < 8 for a in c.args)
    loose = {"rtol": 2e-3, "atol": 2e-3} if narrow else {}
    check_numbers(c.f, c.args, 1e-5 if narrow else c.tolerance)
    with np.errstate(all="ignore"):
        assert gradcheck(c.f, *c.args, order=c.order, **loose)
    check_compiled(c, 1e-5 if narrow else 1e-11)


def pieces(y: Any) -> list[Any]:
    """The arrays of a result that may be a tuple."""
    return [tracker.data(e) for e in (y if isinstance(y, (tuple, list)) else [y])]


def check_numbers(
    f: Callable[..., Any], args: Sequence[Any], rtol: float = 1e-13, atol: float | None = None
) -> None:
    """The same numbers, dtypes and shapes as NumPy's."""
    with np.errstate(all="ignore"):
        want = pieces(f(*(np.copy(a)[()] if np.ndim(a) == 0 else np.copy(a) for a in args)))
        found = pieces(f(*map(param, args)))
    assert len(found) == len(want)
    for ours, theirs in zip(found, want, strict=True):
        assert np.result_type(ours) == np.result_type(theirs)
        assert np.shape(ours) == np.shape(theirs)
        np.testing.assert_allclose(ours, theirs, rtol, rtol if atol is None else atol)


def _turned(a: Any) -> Any:
    a = np.asarray(a)
    return (np.flip(a) if a.ndim else a * 1.25)[()]


def check_compiled(c: Case, tolerance: float) -> None:
    def loss(*xs: Any) -> Any:
        total: Any = 0.0
        for k, y in enumerate(_tracked_pieces(c.f(*xs))):
            weights = np.cos(np.arange(np.size(y)) + k).reshape(np.shape(y))
            total = total + np.sum(np.real(y) * weights) + np.sum(np.imag(y) * weights)
        return total

    others = tuple(map(_turned, c.args)) if c.others is None else c.others
    compiled, slope = jit(c.f), jit(lambda *xs: gradient(loss, *xs))
    for xs in (c.args, others):
        with np.errstate(all="ignore"):
            for ours, theirs in zip(
                pieces(compiled(*map(np.copy, xs))), pieces(c.f(*map(np.copy, xs))), strict=True
            ):
                np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
            for ours, theirs in zip(
                slope(*map(np.copy, xs)), gradient(loss, *map(np.copy, xs)), strict=True
            ):
                assert np.result_type(ours) == np.result_type(theirs)
                np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def _tracked_pieces(y: Any) -> list[Any]:
    parts = y if isinstance(y, (tuple, list)) else [y]
    return [p for p in parts if np.result_type(tracker.data(p)).kind in "fc"]
