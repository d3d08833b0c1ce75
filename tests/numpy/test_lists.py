"""Lists, tuples and numbers beside tracked values, tracked keywords, and what NumPy refuses."""

from collections import UserList, deque
from typing import Any, NamedTuple

import numpy
import pytest

import tracker
import tracker.numpy as np
from tracker import Tracked, gradient, jit, param
from tracker.testing import gradcheck

LISTS = {
    "sqrt": lambda a, b: np.sqrt([a, b]),
    "tuple": lambda a, b: np.exp((a, b)),
    "nested": lambda a, b: np.multiply([[a, b], [b, 1.0]], [2.0, a]),
    "beside an array": lambda a, b: np.add(np.ones(2), [a, b]),
    "reduce": lambda a, b: np.multiply.reduce([a, b, 3.0]),
    "accumulate": lambda a, b: np.add.accumulate([a, b, a]),
    "outer": lambda a, b: np.multiply.outer([a, b], [b, 1.0]),
    "reduceat": lambda a, b: np.add.reduceat([a, b, a], [0, 2]),
    "matmul": lambda a, b: np.matmul([[a, b], [1.0, a]], [b, 2.0]),
    "keyword": lambda a, b: np.sin([a, b], dtype=float),
    "a question": lambda a, b: np.where(np.isfinite([a, b]), np.abs([a, b]), 0.0),
    "left of a product": lambda a, b: [a, b] @ (np.eye(2) * b),
    "right of a product": lambda a, b: np.array([[a, 2.0], [b, b]]) @ [b, a],
    "compared": lambda a, b: np.array([a, b]) * (np.array([a, b]) > [b, a]),
    "rows": lambda a, b: np.stack([[a, b], (b, 1.0)]) * np.vstack([[b, a], [1.0, a]]),
    "parts": lambda a, b: np.concatenate([[a, b], np.hstack([a, [b, 1.0]])]),
    "einsum": lambda a, b: np.einsum("i,j->ij", [a, b], [b, 1.0]),
    "where a value is": lambda a, b: np.stack([np.hypot([a, b], 1.0), [a, b]]),
}


@pytest.mark.parametrize("f", LISTS.values(), ids=LISTS)
def test_ufuncs_take_lists_of_tracked_values(f):
    want = tuple(
        (numpy.sum(f(0.7 + da, 1.3 + db)) - numpy.sum(f(0.7 - da, 1.3 - db))) / 2e-6
        for da, db in ((1e-6, 0.0), (0.0, 1e-6))
    )
    compiled = jit(lambda a, b: gradient(lambda a, b: np.sum(f(a, b)), a, b))
    found = gradient(lambda a, b: np.sum(f(a, b)), 0.7, 1.3)
    numpy.testing.assert_allclose(found, want, rtol=1e-8)
    for _ in range(2):
        numpy.testing.assert_allclose(compiled(0.7, 1.3), found, rtol=1e-14)


INTEGERS_IN_LISTS = {
    "sum": lambda a, b: np.sum([a, b, a]),
    "max": lambda a, b: np.max([a, b]) * 1.0,
    "dot": lambda a, b: np.dot([a, b], [0.5, a]),
    "mean": lambda a, b: np.mean([[a], [b]]),
    "cumsum": lambda a, b: np.sum(np.cumsum([a, b])),
    "norm": lambda a, b: np.linalg.norm([a, b]),
    "where": lambda a, b: np.sum(np.where([True, False], [a, b], 0)),
    "average": lambda a, b: np.average([1.0, 2.0], weights=[a, b]),
}


@pytest.mark.parametrize("f", INTEGERS_IN_LISTS.values(), ids=INTEGERS_IN_LISTS)
def test_integers_in_lists_keep_their_gradients(f):
    """NumPy could convert them to plain numbers, as they count and index."""
    want = gradient(f, 2.0, 5.0)
    compiled = jit(lambda a, b: gradient(f, a, b))
    for found in (gradient(f, 2, 5), compiled(2, 5), compiled(2, 5)):
        numpy.testing.assert_allclose(
            [0.0 if g is None else g for g in found], want, rtol=1e-14, err_msg=str(found)
        )


AXES_IN_TUPLES = {
    "expand_dims": lambda x, n: np.expand_dims(x, (n, 0)),
    "norm": lambda x, n: np.linalg.norm(x, None, (0, n)),
    "sum": lambda x, n: np.sum(x, (n, 0)),
    "squeeze": lambda x, n: np.squeeze(x[:1, None], (n, 0)),
}


@pytest.mark.parametrize("f", AXES_IN_TUPLES.values(), ids=AXES_IN_TUPLES)
def test_tuples_of_axes_may_be_tracked(f):
    x = numpy.arange(6.0).reshape(2, 3)
    for found in (tracker.pullback(f, x, 1)[0], jit(f)(x, 1)):
        numpy.testing.assert_allclose(found, f(x, 1), rtol=1e-15, strict=True)


BESIDE_LISTS = {
    "minus": lambda a, b: [a, b] - np.max([a, b]),
    "divided": lambda a, b: [a, [b, 1.0]][1] / np.array([b, a]),
    "power": lambda a, b: np.array([a, b]) ** (b, 2.0),
}


@pytest.mark.parametrize("f", BESIDE_LISTS.values(), ids=BESIDE_LISTS)
def test_operators_beside_lists_are_compiled(f):
    """Examining a list does not abort the trace."""
    compiled = jit(f, strict=True)
    for _ in range(2):
        numpy.testing.assert_allclose(compiled(0.7, 1.3), f(0.7, 1.3), rtol=1e-15)


def test_sinc_of_a_number_is_a_number():
    assert type(tracker.pullback(np.sinc, 0.4)[0]) is type(np.sinc(0.4)) is numpy.float64
    assert type(jit(np.sinc)(numpy.array(0.4))) is numpy.float64


def test_ufuncs_at_with_a_list_of_tracked_values():
    def f(a, b):
        y = np.zeros(3)
        np.add.at(y, [0, 2, 0], [a, b, a * b])
        return np.sum(y * np.array([1.0, 2.0, 3.0]))

    assert gradient(f, 2.0, 5.0) == (6.0, 5.0)


RAGGED = {
    "numbers": lambda m, x: m.array([[x[0], x[1]], [x[2]]]),
    "arrays": lambda m, x: m.asarray([x[:2], x]),
    "inside": lambda m, x: m.array([[[x[0]], [x[0], x[1]]], [[1.0], [2.0]]]),
    "an array and a number": lambda m, x: m.array([x, x[0]]),
}


@pytest.mark.parametrize("lists", RAGGED.values(), ids=RAGGED)
def test_lists_of_other_lengths_are_refused_in_numpys_words(lists):
    x = numpy.array([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="inhomogeneous") as plain:
        lists(numpy, x)
    for call in (jit(lambda x: lists(np, x)), lambda x: gradient(lambda x: lists(np, x).sum(), x)):
        with pytest.raises(ValueError, match="inhomogeneous") as ours:
            call(x)
        assert str(ours.value) == str(plain.value)


HELD = numpy.array([1.0, 2.5, numpy.nan, 4.0])
FULL = numpy.array([1.0, 2.0, 4.0, 7.0])
UNSEEN = {
    "nanvar mean": lambda t: np.nanvar(HELD, mean=t),
    "nanstd mean": lambda t: np.nanstd(HELD, mean=t),
    "nan_to_num nan": lambda t: np.nan_to_num(HELD, nan=t),
    "pad constant": lambda t: np.pad(FULL, 1, constant_values=t),
    "pad ends": lambda t: np.pad(FULL, 1, mode="linear_ramp", end_values=t),
    "interp right": lambda t: np.interp(9.0, FULL, FULL, right=t),
    "select default": lambda t: np.select([FULL > 2], [FULL], default=t),
    "sum initial": lambda t: np.sum(FULL, initial=t),
    "prod initial": lambda t: np.prod(FULL, initial=t),
    "max initial": lambda t: np.max(FULL, initial=t * 9),
    "nansum initial": lambda t: np.nansum(HELD, initial=t),
    "nanprod initial": lambda t: np.nanprod(HELD, initial=t),
    "nanmax initial": lambda t: np.nanmax(HELD, initial=t * 9),
    "reduce initial": lambda t: np.add.reduce(FULL, initial=t),
    "reduce to a maximum": lambda t: np.fmax.reduce(HELD, 0, initial=t * 9),
    "full_like": lambda t: np.full_like(FULL, t),
    "pinv rcond": lambda t: np.linalg.pinv(numpy.diag(FULL), rcond=t * 1e-9) * t,
}


@pytest.mark.parametrize("name", UNSEEN)
def test_tracked_keywords_that_numpys_protocol_ignores(name):
    """NumPy's protocol ignores these keywords."""

    def f(t):
        return np.sum(UNSEEN[name](t) ** 2)

    assert gradcheck(f, 3.2)
    assert gradcheck(jit(f), 3.2)
    assert isinstance(UNSEEN[name](param(3.2)), Tracked)


# Sequences of other classes ----------------------------------------------------------------------


class State(NamedTuple):
    position: Any
    speed: Any


class Path(list):
    """A list with methods of its own."""


class Triple:
    """A sequence only by its methods."""

    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return self.items[i]

    def __rmul__(self, number):
        return Triple(*(number * x for x in self.items))


SEQUENCES = {
    "array": lambda s, x: np.array(s(x, 2.0, x * x)),
    "asarray": lambda s, x: np.asarray(s(x, 2.0, np.sin(x))),
    "nested": lambda s, x: np.array([s(x, 2.0, x), [1.0, x, 3.0]]),
    "sum": lambda s, x: np.sum(s(x, 2.0, x)),
    "cumsum": lambda s, x: np.cumsum(s(x, 2.0, x)),
    "stack": lambda s, x: np.stack(s(s(x, 2.0, x), np.full(3, x), [x, x, 1.0])),
    "ufunc": lambda s, x: np.sin(s(x, 2.0, x)) + np.add(1.0, s(2.0, x, x)),
    "beside an array": lambda s, x: np.ones(3) * s(x, 2.0, x) + np.eye(3) @ s(x, x, 1.0),
    "written": lambda s, x: put(np.zeros(3), s(x, 2.0, x * x)),
}


def put(out, values):
    out[:] = values
    out += values
    return out


@pytest.mark.parametrize("f", SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("of", [lambda *x: deque(x), lambda *x: UserList(x), Triple])
def test_sequences_that_are_no_lists(of, f):
    loss = lambda x: np.sum(f(of, x) ** 2)  # noqa: E731
    (slope,) = gradient(loss, 0.7)
    assert slope == pytest.approx((loss(0.7 + 1e-6) - loss(0.7 - 1e-6)) / 2e-6, rel=1e-7)
    compiled = jit(loss, strict=True)
    for x in (0.7, 0.9, 0.7):
        assert compiled(x) == pytest.approx(loss(x), rel=1e-14)
    assert gradient(compiled, 0.7) == pytest.approx((slope,), rel=1e-14)


def test_the_operators_of_a_sequence_come_before_its_items():
    assert gradient(lambda x: (x * Triple(x, 1.0, 2.0)).items[0], 3.0) == (6.0,)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.array(State(x, 2.0)) ** 2),
        lambda x: np.sum(np.asarray(State(x, x * 2.0)) ** 2),
        lambda x: np.sum(np.array([State(x, 1.0), State(2.0, x)]) ** 2),
        lambda x: np.dot(State(x, 2.0), np.array([1.0, 3.0])),
        lambda x: np.sum(np.array([1.0, 2.0]) * State(x, 2.0)),
        lambda x: np.sum(np.array(Path([x, 2.0]))),
        lambda x: np.sum(np.stack(State(x, 2.0))),
        lambda x: np.linalg.norm(State(x, 2.0)),
    ],
)
def test_named_tuples_and_classes_of_lists(f):
    (slope,) = gradient(f, 0.7)
    assert slope == pytest.approx((f(0.7 + 1e-6) - f(0.7 - 1e-6)) / 2e-6, rel=1e-7)
    assert gradient(jit(f), 0.7) == (slope,)
