"""Quotients with a broadcast denominator: its cotangents are summed, then divided."""

import numpy as np
import pytest
from pairwise import crossed

import tracker

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5))
SHAPES = [(4, 1), (5,), (1, 5), (1, 1), (), (4, 5)]


def by_hand(x, b, w):
    """The cotangent of b for the cotangent w of x / b, summed over the axes that b lacks."""
    c = w * np.conjugate(-x / b**2)
    lead = c.ndim - np.ndim(b)
    axes = tuple(i for i in range(c.ndim) if i < lead or np.shape(b)[i - lead] == 1)
    return np.sum(c, axis=axes).reshape(np.shape(b))


@crossed(shape=SHAPES, kind=["f8", "f4", "c16"], mode=[lambda f: f, tracker.jit])
def test_denominators(shape, kind, mode):
    b = (2 + RNG.random(shape) + (1j if kind == "c16" else 0)).astype(kind)
    x, w = X.astype(kind), RNG.normal(size=X.shape).astype(kind)
    pull = mode(lambda b: tracker.pullback(lambda b: x / b, b)[1](w)[0])
    for _ in range(2):
        c = pull(b)
        assert c.dtype == b.dtype and c.shape == b.shape
        tolerance = 1e-5 if kind == "f4" else 1e-12
        np.testing.assert_allclose(c, by_hand(x, b, w), rtol=tolerance, atol=tolerance)


def test_a_python_number():
    g = tracker.gradient(lambda b: np.sum(X / b), 2.0)[0]
    assert type(g) is float and g == pytest.approx(-np.sum(X) / 4)


@pytest.mark.parametrize("mode", [lambda f: f, tracker.jit], ids=["eager", "jit"])
def test_rows_that_are_masked_reach_no_denominator(mode):
    b = np.array([[2.0], [0.0], [np.nan], [4.0]])
    kept = np.array([[True], [False], [False], [True]])

    gradient = mode(lambda b: tracker.gradient(lambda b: np.sum(np.where(kept, X / b, 0)), b)[0])
    with np.errstate(all="ignore"):
        expected = np.where(kept, -np.sum(X, axis=1, keepdims=True) / b**2, 0.0)
        for _ in range(2):
            np.testing.assert_allclose(gradient(b), expected)


def test_second_derivatives():
    b = 2 + RNG.random((4, 1))
    found = tracker.hessian(lambda b: np.sum(X / b), b)
    diagonal = np.diagonal(np.reshape(found, (4, 4)))
    np.testing.assert_allclose(diagonal, 2 * np.sum(X, axis=1) / b.ravel() ** 3)
