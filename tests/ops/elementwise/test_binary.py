"""Rows of the elementwise ops of two operands, comparisons and `where`."""

import math

import numpy as np
import pytest
from op_rows import row, sample, x, z
from pairwise_parameters import crossed

import tracker
from tracker import gradient, hessian, hessian_reverse, jit, jvp, pullback
from tracker.testing import gradcheck

REAL = [(-2.0, 2.0), (-2.0, 2.0)]
POSITIVE = [(0.3, 3.0), (0.3, 3.0)]
HUGE = [(1e200, 1e-200), (-1e200, 1e200), (1e-300, 1e300), (0.0, 1.0), (3.0, -1e300)]
INTEGERS = sample(np.arange(4), np.array([3, 1, 0, 7]))
BOOLS = sample(np.array([True, False, True, False]), np.array([True, True, False, False]))

ROWS = [
    row("add", domain=REAL, complex=True, extremes=HUGE),
    row("subtract", domain=REAL, complex=True, extremes=HUGE),
    row("multiply", domain=REAL, complex=True, extremes=HUGE),
    row(
        "divide", domain=[(-2.0, 2.0), (0.3, 3.0)], complex=True,
        extremes=[(1e-200, 1e200), (1e200, 1e200), (0.0, 1e-100), (1e200, 1e150)]),
    row("floor_divide", domain=[(1.1, 1.9), (2.1, 2.9)], extremes=[(1e300, 7.0)]),
    row("remainder", domain=[(2.1, 2.9), (1.6, 1.9)], extremes=[(-7.0, 1e200)]),
    row("fmod", domain=[(-2.9, -2.1), (1.6, 1.9)], extremes=[(-7.0, 1e200)]),
    row(
        "power", sample(-1.5, 3), sample(x(3), 2), sample(np.abs(x(3)), 3.0),
        sample(np.array([-1.5, 0.5, 2.0]), np.array([2, 3, 4])), sample(z(3), 3),
        domain=[(0.3, 2.0), (-2.0, 2.0)], complex=True,
        extremes=[(1e-200, 0.5), (1e200, 0.5), (0.0, 2.0), (0.0, 1.0), (1.0, 1e300), (1e-300, 1.0)],
    ),
    row("float_power", domain=[(0.3, 2.0), (-2.0, 2.0)], extremes=[(1e-200, 0.5), (0.0, 2.0)]),
    row(
        "arctan2", domain=[(0.2, 2.0), (-2.0, 2.0)],
        extremes=[(1e200, 1e200), (1e-200, 1e-200), (0.0, 0.0), (0.0, 1e-200), (1e300, 0.0)]),
    row(
        "hypot", domain=[(0.2, 2.0), (-2.0, 2.0)],
        extremes=[(1e200, 1e200), (1e-200, 1e-200), (0.0, 0.0), (0.0, 1e-200), (1e300, 0.0)]),
    row(
        "cosine", domain=[(0.2, 2.0), (-2.0, 2.0)],
        extremes=[(1e200, 1e200), (1e-200, 1e-200), (0.0, 0.0), (1e300, 0.0)]),
    row(
        "logaddexp", domain=REAL,
        extremes=[(1e300, -1e300), (800.0, 801.0), (-800.0, -1e300), (0.0, 0.0), (3e15, 3e15 + 1)]),
    row(
        "logaddexp2", domain=REAL,
        extremes=[(1e300, -1e300), (1800.0, 1801.0), (-1800.0, -1e300), (0.0, 0.0)]),
    row("maximum", domain=REAL, extremes=[*HUGE, (1.0, 1.0), (np.inf, 0.0)]),
    row("minimum", domain=REAL, extremes=[*HUGE, (1.0, 1.0), (np.inf, 0.0)]),
    row("fmax", domain=REAL, extremes=[*HUGE, (1.0, 1.0), (np.nan, 0.0), (0.0, np.nan)]),
    row("fmin", domain=REAL, extremes=[*HUGE, (1.0, 1.0), (np.nan, 0.0), (0.0, np.nan)]),
    row("copysign", domain=[(0.2, 2.0), (-2.0, -0.2)], extremes=[(1e300, -1.0), (-3.0, 2.0)]),
    row("heaviside", domain=[(0.2, 2.0), (-2.0, 2.0)], extremes=HUGE),
    *(
        row(
            name, sample(np.array([0.5, 2.0]), np.array([-1.0, 3.0], np.float64)),
            domain=REAL, complex=True, extremes=HUGE)
        for name in ("strong_multiply", "finite_multiply")),
    *(
        row(name, INTEGERS, BOOLS, domain=REAL)
        for name in (
            *("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"),
            *("logical_and", "logical_or", "logical_xor"))),
    *(
        row(name, INTEGERS, BOOLS, sample(5, 3))
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    row("left_shift", INTEGERS, sample(5, 3)), row("right_shift", INTEGERS, sample(5, 3)),
    row(
        "where", sample(np.array([True, False, True]), x(3), x(3, seed=1)),
        sample(np.array([[True], [False]]), x(3), x()), sample(np.array([True, False]), 1.0, x(2)),
        sample(np.array([True, False]), z(2), x(2)), sample(True, 1.0, 2.0),
        sample(np.zeros((0, 1), bool), x(1, 3), x(3)), sample(np.arange(3), x(3), x(3, seed=1))),
]  # fmt: skip


INF = np.inf


@pytest.mark.parametrize("f, a, b, want", [
    (np.hypot, INF, 3.0, (1.0, 0.0)), (np.hypot, -INF, 3.0, (-1.0, 0.0)),
    (np.hypot, 0.0, -INF, (0.0, -1.0)), (np.hypot, INF, -INF, (0.5**0.5, -(0.5**0.5))),
    (np.arctan2, INF, 3.0, (0.0, 0.0)), (np.arctan2, 3.0, -INF, (0.0, 0.0)),
    (np.arctan2, INF, INF, (0.0, 0.0)), (np.logaddexp, INF, 0.0, (1.0, 0.0)),
    (np.logaddexp, -INF, 0.0, (0.0, 1.0)), (np.logaddexp, -INF, -INF, (0.5, 0.5)),
    (np.logaddexp, INF, INF, (0.5, 0.5)), (np.logaddexp2, INF, -INF, (1.0, 0.0)),
    (np.maximum, INF, 0.0, (1.0, 0.0)), (np.maximum, INF, INF, (0.5, 0.5)),
    (np.fmin, np.nan, -INF, (0.0, 1.0)), (np.divide, 1.0, INF, (0.0, 0.0)),
    (np.copysign, INF, -1.0, (-1.0, 0.0)), (np.power, INF, -1.0, (0.0, 0.0)),
])  # fmt: skip
def test_derivatives_at_infinity(f, a, b, want):
    """Finite, and the limit where there is one; numbers, arrays and compiled."""

    def slopes(a, b):
        return pullback(f, a, b)[1](np.ones_like(a))

    for xs in ((np.float64(a), np.float64(b)), (np.full(2, a), np.full(2, b))):
        for derive in (slopes, jit(slopes)):
            for found, wanted in zip(derive(*xs), want, strict=True):
                np.testing.assert_allclose(found, np.full(np.shape(xs[0]), wanted), rtol=1e-15)


def test_the_angle_at_the_origin_has_no_derivatives_of_any_order():
    f = jit(lambda v: np.arctan2(v[0], v[1]))
    for g in (f, lambda v: np.arctan2(v[0], v[1])):
        assert gradient(g, np.zeros(2))[0].tolist() == [0.0, 0.0]
        assert (hessian(g, np.zeros(2)) == 0).all() and (hessian_reverse(g, np.zeros(2)) == 0).all()


@pytest.mark.parametrize("f", [np.maximum, np.minimum, np.fmax, np.fmin])
def test_extrema_of_pythons_complex_numbers_go_by_numpys_order(f):
    def loss(a, b):
        return np.real(f(a, b)) * 2

    larger = f in (np.maximum, np.fmax)
    assert gradient(loss, 1 + 2j, 3 - 1j) == ((0j, 2 + 0j) if larger else (2 + 0j, 0j))
    assert gradient(lambda a: loss(a, a), 1 + 2j) == (2 + 0j,)


@pytest.mark.parametrize("f, a, b", [
    (np.logaddexp, 0.6, 0.6), (np.logaddexp2, -1.5, -1.5), (np.power, 0.7, 0.0),
    (np.float_power, 2.5, 0.0),
])  # fmt: skip
def test_second_derivatives_at_ties_and_zeros(f, a, b):
    assert gradcheck(f, a, b, order=2)
    assert gradcheck(f, np.full(2, a), np.full(2, b), order=2)


@pytest.mark.parametrize("bounds", [(-1, 1), (0, 300), (-5, None), (None, 256), (-5, 700), (3, 9)])
def test_clip_of_integers_by_numbers_that_their_dtype_has_no_room_for(bounds):
    counts = np.array([0, 1, 7, 255], np.uint8)
    want = np.clip(counts, *bounds)
    for clip in (lambda x: np.clip(x, *bounds), jit(lambda x: np.clip(x, *bounds))):
        got = clip(counts)
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


def test_second_derivatives_beside_unsigned_integers():
    def slope(x):
        return gradient(lambda x: np.sum(np.arctan2(x, np.array([1, 2], np.uint8))), x)[0]

    for slope_of in (slope, jit(slope)):
        (second,) = gradient(slope_of, 0.5)
        assert second == pytest.approx(-2 * 0.5 * (1 / 1.25**2 + 2 / 4.25**2))


ROOTS = {
    "operator": lambda x: x**0.5,
    "ufunc": lambda x: np.power(x, 0.5),
    "exponents": lambda x: np.power(x, np.full_like(x, 0.5)),
    "float_power": lambda x: np.float_power(x, 0.5),
    "scalars": lambda x: [x[i] ** 0.5 for i in range(5)],
}


@pytest.mark.parametrize("spelling", ROOTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_powers_of_a_half_are_roots_where_numpy_takes_them(spelling, dtype):
    """The root of -0.0 is -0.0 and that of -inf is NaN; their powers are 0.0 and inf."""
    f, values = ROOTS[spelling], np.array([-0.0, -math.inf, -2.0, math.inf, 4.0], dtype)
    compiled = jit(f)
    with np.errstate(all="ignore"):
        want = np.asarray(f(values))
        compiled(values)
        got = np.asarray(compiled(values))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[0]), np.signbit(want[0]))


@pytest.mark.parametrize("positive", [
    lambda v: np.maximum(v, 0.0),
    lambda v: np.clip(v, 0.0, None),
    lambda v: np.fmax(v, 0.0),
    lambda v: -np.minimum(0.0, -v),
], ids=["maximum", "clip", "fmax", "minimum"])  # fmt: skip
def test_an_operand_not_selected_gets_no_cotangent(positive):
    """A variance clipped at 0: its roots have infinite slopes of both signs."""

    def f(v):
        cut = positive(v)
        return np.sum(np.sqrt(cut) * 2.0 - np.sqrt(3.0 * cut) + cut)

    v = np.array([-0.5, 0.25, 4.0])
    want = [0.0, *(1.0 + (1.0 - np.sqrt(0.75)) / np.sqrt(v[1:]))]
    for g in (f, jit(f)):
        for _ in range(2):
            np.testing.assert_allclose(gradient(g, v)[0], want, rtol=1e-12)
    compiled = jit(lambda v: gradient(f, v)[0])
    for _ in range(2):
        np.testing.assert_allclose(compiled(v), want, rtol=1e-12)
    t = np.array([1.0, 0.5, -2.0])
    for mode in (jvp, jit(jvp, static=(0,))):
        np.testing.assert_allclose(mode(f, (v,), (t,))[1], want @ t, rtol=1e-12)
    bent = (np.sqrt(0.75) - 1.0) / 2 * v[1:] ** -1.5
    np.testing.assert_allclose(np.diag(hessian(f, v)), [0.0, *bent], rtol=1e-12)


def test_nan_to_the_power_zero_has_slope_zero():
    def f(x, n):
        return np.sum(x**n)

    def slopes(x, n):
        return gradient(f, x, n, check_finite=False)[0]

    array = np.array([math.nan, 2.0])
    for n in (0, 0.0, np.array([0.0]), np.zeros(2)):
        compiled = jit(slopes)
        for g in (slopes, compiled, compiled):
            assert g(array, n).tolist() == [0, 0]
        assert jvp(lambda x, n=n: f(x, n), (array,), (np.ones(2),)) == (2, 0)


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
