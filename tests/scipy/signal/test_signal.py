"""`tracker.scipy.signal` and `tracker.scipy.interpolate`: SciPy's numbers, and derivatives."""

import numpy as np
import pytest
import scipy.interpolate
import scipy.signal
from pairwise import crossed

from tracker import UnsupportedError, data, jit, param
from tracker.scipy import interpolate, signal
from tracker.testing import gradcheck

RNG = np.random.default_rng(0)
LONG, SHORT = RNG.normal(size=9), RNG.normal(size=4)
WIDE, SMALL = RNG.normal(size=(5, 4)), RNG.normal(size=(2, 3))


def agree(ours, theirs, *xs, order=1):
    want = theirs(*xs)
    np.testing.assert_allclose(data(ours(*map(param, xs))), want, rtol=1e-11, atol=1e-12)
    assert gradcheck(ours, *xs, order=order)
    compiled = jit(ours)
    for _ in range(2):
        np.testing.assert_allclose(compiled(*xs), want, rtol=1e-11, atol=1e-12)


@crossed(
    name=["convolve", "correlate", "fftconvolve", "oaconvolve"],
    mode=["full", "same", "valid"],
    operands=[(LONG, SHORT), (SHORT, LONG), (WIDE, SMALL)],
)
def test_convolutions(name, mode, operands):
    ours, theirs = getattr(signal, name), getattr(scipy.signal, name)
    agree(lambda a, b: ours(a, b, mode), lambda a, b: theirs(a, b, mode), *operands)


@pytest.mark.parametrize("kinds", ["ll", "bB", "ld"])
@pytest.mark.parametrize("method", ["auto", "direct", "fft"])
def test_convolutions_of_integers_are_integers(kinds, method):
    a, b = (np.array(x, kind) for x, kind in zip(([3, 1, 2, 4], [2, 0, 5]), kinds, strict=True))
    for name in ("convolve", "correlate"):
        want = getattr(scipy.signal, name)(a, b, "same", method)
        compiled = jit(lambda a, b, name=name: getattr(signal, name)(a, b, "same", method))
        for _ in range(2):
            np.testing.assert_allclose(compiled(a, b), want, rtol=1e-14, strict=True)
    assert signal.convolve(param(np.zeros(0)), b).shape == (0,)


def test_correlations_of_complex_matrices():
    """SciPy exchanges the operands where only the second leaves room; the result is conjugate."""
    z, w = WIDE + 1j * WIDE[::-1], SMALL - 2j * SMALL
    for a, b in ((z, w), (w, z)):
        for mode in ("full", "same", "valid"):
            want = scipy.signal.correlate2d(a, b, mode)
            np.testing.assert_allclose(
                data(signal.correlate2d(param(a), b, mode)), want, atol=1e-12
            )


def test_convolutions_of_other_kinds():
    z = LONG + 1j * LONG[::-1]
    for name in ("convolve", "correlate", "fftconvolve"):
        ours, theirs = getattr(signal, name), getattr(scipy.signal, name)
        np.testing.assert_allclose(data(ours(param(z), SHORT)), theirs(z, SHORT), atol=1e-12)
        np.testing.assert_allclose(data(ours(SHORT, param(z))), theirs(SHORT, z), atol=1e-12)
        assert gradcheck(lambda z, ours=ours: ours(z, SHORT), z)
    long = RNG.normal(size=200)
    agree(lambda a: signal.convolve(a, long[:70]), lambda a: np.convolve(a, long[:70]), long[:90])
    agree(
        lambda a, b: signal.fftconvolve(a, b, axes=1),
        lambda a, b: scipy.signal.fftconvolve(a, b, axes=1),
        WIDE,
        WIDE[:, :2],
    )
    assert data(signal.convolve(param(2.0), 3.0)) == 6.0


@pytest.mark.parametrize(
    "b, a", [([0.5, 0.2], [1.3, -0.4, 0.2]), ([0.5], [2.0, 0.3]), ([0.5, 0.2, 0.1], [2.0])]
)
def test_lfilter(b, a):
    agree(signal.lfilter, scipy.signal.lfilter, np.array(b), np.array(a), LONG, order=2)
    agree(
        lambda x: signal.lfilter(b, a, x, axis=0),
        lambda x: scipy.signal.lfilter(b, a, x, axis=0),
        WIDE,
    )


@pytest.mark.parametrize(
    "b, a, n",
    [
        ([0.5, 0.2, 0.1], [1.3, -0.4, 0.2], 7),
        ([0.5, 0.2, 0.1, 0.4], [1.0], 2),  # a state that outlasts the signal
        ([0.5], [2.0, 0.3, 0.3, 0.1], 2),
    ],
)
def test_lfilter_with_a_state(b, a, n):
    state = np.linspace(-1.0, 1.0, max(len(a), len(b)) - 1)
    args = (np.array(b), np.array(a), LONG[:n], state)
    agree(
        lambda b, a, x, zi: np.concatenate(signal.lfilter(b, a, x, zi=zi)),
        lambda b, a, x, zi: np.concatenate(scipy.signal.lfilter(b, a, x, zi=zi)),
        *args,
        order=2,
    )
    agree(
        lambda x, zi: signal.lfilter(b, a, x, axis=0, zi=zi)[1],
        lambda x, zi: scipy.signal.lfilter(b, a, x, axis=0, zi=zi)[1],
        WIDE,
        np.multiply.outer(state, np.arange(np.shape(WIDE)[1]) + 1.0),
    )
    halves = signal.lfilter(b, a, param(LONG[:4]), zi=state)
    whole = scipy.signal.lfilter(b, a, LONG, zi=state)[0]
    rest = signal.lfilter(b, a, LONG[4:], zi=halves[1])[0]
    np.testing.assert_allclose(data(np.concatenate([halves[0], rest])), whole)


def test_refusals_of_signal():
    with pytest.raises(ValueError, match=r"Unexpected shape for zi: \(1,\) is needed"):
        signal.lfilter([1.0], [1.0, 0.5], param(LONG), zi=[0.0, 1.0])
    with pytest.raises(ValueError, match=r"in1 has 1 dimensions, in2 has 2"):
        signal.convolve(param(LONG), WIDE)
    with pytest.raises(ValueError, match=r"acceptable modes are full, same, valid; not 'half'"):
        signal.convolve(param(LONG), SHORT, "half")
    with pytest.raises(ValueError, match=r"needs one operand at least as large"):
        signal.convolve(param(np.ones((3, 1))), np.ones((1, 3)), "valid")
    np.testing.assert_array_equal(signal.butter(2, 0.3), scipy.signal.butter(2, 0.3))


# Interpolation ------------------------------------------------------------------------------------

X = np.array([0.0, 0.7, 1.5, 2.0, 3.1])
Y = RNG.normal(size=5)
Y2 = RNG.normal(size=(5, 2))
POINTS = np.array([0.3, 1.7, 2.9])


@pytest.mark.parametrize("bc", ["not-a-knot", "natural", "clamped", ((1, 0.3), (2, -0.2))])
def test_cubic_spline(bc):
    def ours(x, y, q):
        return interpolate.CubicSpline(x, y, bc_type=bc)(q)

    def theirs(x, y, q):
        return scipy.interpolate.CubicSpline(x, y, bc_type=bc)(q)

    agree(ours, theirs, X, Y, POINTS)
    if isinstance(bc, str):
        agree(ours, theirs, X, Y2, POINTS)
    agree(ours, theirs, X, Y, np.array([[-1.0, 4.0]]))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_cubic_spline_through_few_points(count):
    agree(
        lambda x, y, q: interpolate.CubicSpline(x, y)(q),
        lambda x, y, q: scipy.interpolate.CubicSpline(x, y)(q),
        *(X[:count], Y[:count], POINTS),
    )


@pytest.mark.parametrize("nu", [1, 2, 3, 4])
def test_derivatives_of_a_spline(nu):
    agree(
        lambda y, q: interpolate.CubicSpline(X, y.T, axis=1)(q, nu),
        lambda y, q: scipy.interpolate.CubicSpline(X, y.T, axis=1)(q, nu),
        *(Y2, POINTS),
    )


def test_outside_of_a_spline():
    spline = interpolate.CubicSpline(X, param(Y), extrapolate=False)
    assert np.isnan(data(spline(np.array([-1.0, 1.0, 9.0])))).tolist() == [True, False, True]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_closed_splines(count):
    """Their value at the end is that at the beginning, and so on, round and round."""

    def spline(module, x, y, **options):
        return module.CubicSpline(x, np.concatenate([y, y[:1]]), bc_type="periodic", **options)

    x, y = X[:count], Y[: count - 1]
    points = np.array([-5.1, -0.3, 0.4, 1.1, 7.7])
    for nu in (0, 1):
        agree(
            lambda x, y, q, nu=nu: spline(interpolate, x, y)(q, nu),
            lambda x, y, q, nu=nu: spline(scipy.interpolate, x, y)(q, nu),
            *(x, y, points),
        )
    with pytest.raises(ValueError, match=r"must be identical .* when bc_type='periodic'"):
        interpolate.CubicSpline(X, param(Y), bc_type="periodic")


def test_other_ways_to_a_closed_spline():
    y = np.concatenate([Y[:-1], Y[:1]])
    points = np.array([-5.1, 0.4, 7.7])
    for form in (
        lambda module, y: module.make_interp_spline(X, y, bc_type="periodic")(points),
        lambda module, y: module.CubicSpline(X, y, extrapolate="periodic")(points),
        lambda module, y: module.CubicSpline(X, y)(points, extrapolate="periodic"),
    ):
        np.testing.assert_allclose(
            data(form(interpolate, param(y))), form(scipy.interpolate, y), rtol=1e-12
        )


@pytest.mark.parametrize("kind", ["linear", "cubic"])
def test_interp1d(kind):
    agree(
        lambda x, y, q: interpolate.interp1d(x, y, kind=kind)(q),
        lambda x, y, q: scipy.interpolate.interp1d(x, y, kind=kind)(q),
        *(X, Y, POINTS),
    )
    options = {"axis": 0, "fill_value": (-1.0, 1.0), "bounds_error": False}
    agree(
        lambda y, q: interpolate.interp1d(X, y, kind, **options)(q),
        lambda y, q: scipy.interpolate.interp1d(X, y, kind, **options)(q),
        *(Y2, np.array([-1.0, 0.4, 9.0])),
    )
    order = np.array([3, 0, 4, 1, 2])
    agree(
        lambda y: interpolate.interp1d(X[order], y, kind, fill_value="extrapolate")(4.0),
        lambda y: scipy.interpolate.interp1d(X[order], y, kind, fill_value="extrapolate")(4.0),
        Y[order],
    )


def test_refusals_of_interpolation():
    with pytest.raises(ValueError, match="above the interpolation range"):
        interpolate.interp1d(X, param(Y))(9.0)
    with pytest.raises(UnsupportedError, match=r"interp1d with kind='nearest' has no derivative"):
        interpolate.interp1d(X, param(Y), kind="nearest")
    with pytest.raises(UnsupportedError, match=r"k=2 and bc_type='natural' has no derivative"):
        interpolate.make_interp_spline(X, param(Y), k=2, bc_type="natural")
    assert interpolate.interp1d(X, Y, kind="nearest")(0.1) == Y[0]
    assert interpolate.make_interp_spline(X, Y, k=2)(X[1]) == pytest.approx(Y[1])


@pytest.mark.parametrize("k", [1, 3])
def test_make_interp_spline(k):
    agree(
        lambda y, q: interpolate.make_interp_spline(X, y, k)(q),
        lambda y, q: scipy.interpolate.make_interp_spline(X, y, k)(q),
        *(Y2, POINTS),
    )
