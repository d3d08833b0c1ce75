"""The multivariate distributions of `tracker.scipy.stats`."""

import itertools
import re

import numpy as np
import pytest
import scipy.stats as own
from scipy_cases import VERSION, since

from tracker import UnsupportedError, data, gradient, jit, param
from tracker.scipy import stats
from tracker.testing import gradcheck

ROOT = np.array([[1.0, 0.0, 0.0], [0.3, 1.2, 0.0], [-0.4, 0.1, 0.8]])
COV = ROOT @ ROOT.T
POINTS = np.array([[0.3, -0.4, 1.2], [1.0, 0.1, 0.2]])


@pytest.mark.parametrize("x, mean, cov", [
    (POINTS, np.array([0.1, 0.2, 0.3]), COV), (POINTS[0], np.zeros(3), COV),
    (POINTS, np.array([0.1, 0.2, 0.3]), np.array([0.5, 1.0, 2.0])),
    (POINTS, np.array([0.1, 0.2, 0.3]), 1.7), (np.array([0.3, 0.7]), 0.2, 1.7),
    (np.array(0.3), 0.2, 1.7),
])  # fmt: skip
def test_multivariate_normal(x, mean, cov):
    ours = stats.multivariate_normal.logpdf(param(x), mean, cov)
    np.testing.assert_allclose(data(ours), own.multivariate_normal.logpdf(x, mean, cov), rtol=1e-12)
    symmetric = (lambda c: (c + c.T) / 2) if np.ndim(cov) == 2 else (lambda c: c)
    assert gradcheck(
        lambda x, m, c: stats.multivariate_normal.logpdf(x, m, symmetric(c)), x, mean, cov
    )


def test_multivariate_densities_have_scipys_shapes():
    """A number for one point, without axes of one element, for parameters of any shape."""
    rng = np.random.default_rng(0)
    means = (None, 0.3, rng.normal(size=2))
    scales = (2.0, np.array([1.5]), np.array([1.0, 2.0]), np.eye(1), np.eye(2) + 0.2)
    points = [rng.normal(size=shape) for shape in ((), (1,), (2,), (3,), (1, 1), (4, 2), (2, 1, 2))]

    def answers(m, x, mean, scale):
        for f in (
            lambda: m.multivariate_normal.logpdf(x, mean, scale),
            lambda: m.multivariate_normal.logpdf(x, mean, scale, allow_singular=True),
            lambda: m.multivariate_normal(mean, scale, seed=1).pdf(x),
            lambda: m.multivariate_t.logpdf(x, mean, scale, None),
        ):
            try:
                yield f()
            except ValueError:
                yield ValueError

    for mean, scale, x in itertools.product(means, scales, points):
        for ours, theirs in zip(
            answers(stats, param(x), mean, scale), answers(own, x, mean, scale), strict=True
        ):
            if theirs is ValueError:
                assert ours is ValueError
                continue
            assert type(data(ours)) is type(theirs)
            np.testing.assert_allclose(data(ours), theirs, rtol=1e-9, strict=True)


def test_frozen_multivariate_distributions():
    args = (np.array([0.0, 1.0]), np.array([[2.0, 0.3], [0.3, 1.0]]))
    ours, theirs = (m.multivariate_normal(*args, seed=3) for m in (stats, own))
    np.testing.assert_array_equal(ours.rvs(3), theirs.rvs(3))
    np.testing.assert_array_equal(ours.cov, theirs.cov)
    assert ours.entropy() == theirs.entropy()
    assert data(ours.pdf(param(np.ones(2)))) == pytest.approx(theirs.pdf(np.ones(2)))
    tracked = stats.multivariate_normal(param(args[0]), args[1])
    np.testing.assert_array_equal(data(tracked.mean), args[0])
    np.testing.assert_array_equal(tracked.cov, args[1])
    assert data(stats.multivariate_t(param(0.5), df=3).loc) == 0.5
    for ask in (lambda: tracked.rvs(2), lambda: tracked.cov_object):
        with pytest.raises(UnsupportedError, match="no derivative rule"):
            ask()
    with pytest.raises(ValueError, match="'df' must be greater than zero, not -1"):
        stats.multivariate_t.logpdf(param(np.ones(2)), np.zeros(2), np.eye(2), -1.0)
    far = stats.multivariate_t.logpdf(param(np.ones(2)), np.zeros(2), np.eye(2), np.inf)
    assert data(far) == pytest.approx(own.multivariate_normal.logpdf(np.ones(2), np.zeros(2)))
    for x, scale in ((np.array([1.0, 2.0]), np.array([1.0, 3.0])), (1.5, np.eye(2))):
        density = stats.wishart.logpdf(param(x), 3.5, scale)
        assert data(density) == pytest.approx(own.wishart.logpdf(x, 3.5, scale))


def test_multivariate_densities_are_of_double_precision():
    x, mean, cov = np.float32(np.ones((2, 3))), np.float32(np.arange(3)), np.float32(2 * np.eye(3))
    for f in (
        lambda m, x: m.multivariate_normal.logpdf(x, mean, cov),
        lambda m, x: m.multivariate_t.logpdf(x, mean, cov, 3.0),
    ):
        ours, theirs = f(stats, param(x)), f(own, x)
        assert ours.dtype == theirs.dtype == np.float64
        np.testing.assert_allclose(data(ours), theirs, rtol=1e-12)


def test_a_normal_distribution_on_a_subspace():
    """SciPy's numbers, and derivatives along covariances of the same low rank."""
    root = np.array([[1.0, 0.2], [0.3, -0.7], [0.5, 0.4], [0.0, 1.1]])
    points = np.array([[0.2, -0.4], [1.0, 0.5]])

    def f(normal, x, mean, root):
        return normal.logpdf(x @ root.T, root @ mean, root @ root.T, allow_singular=True)

    args = (points, np.array([0.1, -0.3]), root)
    found = f(stats.multivariate_normal, *map(param, args))
    np.testing.assert_allclose(data(found), f(own.multivariate_normal, *args), rtol=1e-12)
    assert gradcheck(lambda *args: f(stats.multivariate_normal, *args), *args)
    beside = stats.multivariate_normal.logpdf(
        param(np.ones(4)), np.zeros(4), root @ root.T, allow_singular=True
    )
    assert data(beside) == -np.inf


def test_multivariate_others():
    alpha = np.array([1.2, 2.0, 0.7])
    p = np.array([0.2, 0.5, 0.3])
    counts = np.array([1, 3, 2])
    for ours, theirs, args in [
        (stats.dirichlet.logpdf, own.dirichlet.logpdf, (p, alpha)),
        (stats.dirichlet.pdf, own.dirichlet.pdf, (p[:2], alpha)),
        (lambda p: stats.multinomial.logpmf(counts, 6, p / np.sum(p)), None, (p,)),
        (lambda p: stats.multinomial.pmf(counts, 6, p / np.sum(p)), None, (p,)),
    ]:
        if theirs is not None:
            assert data(ours(args[0], param(args[1]))) == pytest.approx(theirs(*args))
            assert gradcheck(lambda a, ours=ours, x=args[0]: ours(x, a), args[1])
        else:
            assert gradcheck(ours, *args)
    assert data(stats.multinomial.logpmf(counts, 6, param(p))) == pytest.approx(
        own.multinomial.logpmf(counts, 6, p)
    )
    (g,) = gradient(lambda x: stats.dirichlet.logpdf(np.stack([x, 0.4, 0.6 - x]), alpha), 0.2)
    assert g == pytest.approx(0.2 / 0.2 + 0.3 / 0.4)
    assert gradcheck(lambda c: stats.multivariate_normal.entropy(np.zeros(3), (c + c.T) / 2), COV)
    with pytest.raises(ValueError, match="one entry fewer than, parameter vector"):
        stats.dirichlet.logpdf(p[:2], param(np.ones(4)))
    frozen = stats.multivariate_normal(param(np.zeros(3)), COV)
    np.testing.assert_allclose(
        data(frozen.pdf(POINTS)), own.multivariate_normal.pdf(POINTS, np.zeros(3), COV)
    )


def test_compiled_densities_of_another_rank_and_another_kind():
    """The rank of a covariance, and whether df is finite, are guarded."""
    x = np.array([[0.3, -0.2, 0.5], [0.0, 0.0, 0.0]])

    def flat(x, cov):
        return stats.multivariate_normal.logpdf(x, np.zeros(3), cov, allow_singular=True)

    compiled = jit(flat)
    for cov in (np.diag([1.0, 2, 3]), np.diag([1.0, 0, 2]), np.diag([0.5, 2, 1])):
        np.testing.assert_allclose(compiled(x, cov), flat(x, cov))

    def heavy(x, df):
        return stats.multivariate_t.logpdf(x, np.zeros(3), np.eye(3), df)

    compiled = jit(heavy)
    for df in (3.0, np.inf, 4.0) if VERSION >= (1, 17) else (3.0, 4.0):
        np.testing.assert_allclose(compiled(x, df), heavy(x, df))
    with pytest.raises(ValueError, match="'df' must be greater than zero"):
        compiled(x, -1.0)


_DEFINITE, _ONES = np.array([[1.0, 0.3], [0.3, 2.0]]), np.ones((2, 2))
_MATRICES = [
    np.eye(2), _ONES, _DEFINITE, np.diag([1.0, -1]), np.diag([1.0, 1e-11]),
    np.diag([1.0, 3e-10]), np.diag([1.0, np.nan]), _DEFINITE,
]  # fmt: skip
_AT = np.array([[0.3, 0.2], [1.0, 1.0]])
_SHARES = np.array([0.2, 0.5, 0.3])
REFUSED = {
    "normal": (lambda m, c: m.multivariate_normal.logpdf(_AT, np.zeros(2), c), _MATRICES),
    "frozen": (lambda m, c: m.multivariate_normal(np.zeros(2), c).pdf(_AT), _MATRICES),
    "entropy": (lambda m, c: m.multivariate_normal.entropy(np.zeros(2), c), _MATRICES),
    "flat": (
        lambda m, c: m.multivariate_normal.logpdf(_AT, np.zeros(2), c, allow_singular=True),
        _MATRICES),
    "t": (lambda m, c: m.multivariate_t.logpdf(_AT, np.zeros(2), c, 3.0), _MATRICES),
    "t, pdf": (lambda m, c: m.multivariate_t.pdf(_AT, np.zeros(2), c, 3.0), _MATRICES),
    **since((1, 17), {  # SciPy 1.16 fails for infinite df
        "t, inf": (lambda m, c: m.multivariate_t.logpdf(_AT, np.zeros(2), c, np.inf), _MATRICES)}),
    "wishart": (lambda m, c: m.wishart.logpdf(_DEFINITE, 3.0, c), _MATRICES[:4]),
    "wishart, x": (lambda m, c: m.wishart.logpdf(c, 3.0, _DEFINITE), _MATRICES[:4]),
    "wishart, df": (lambda m, df: m.wishart.logpdf(_DEFINITE, df, _DEFINITE), [3.0, 1.0, 4.0]),
    "invwishart": (lambda m, c: m.invwishart.logpdf(c, 3.0, _DEFINITE), _MATRICES[:4]),
    "dirichlet": (
        lambda m, x: m.dirichlet.logpdf(x, np.array([0.7, 2.0, 3.0])),
        [_SHARES, 2 * _SHARES, np.array([0, 0.5, 0.5]), np.array([-0.1, 0.6, 0.5]), _SHARES / 2]),
    "dirichlet, alpha": (
        lambda m, alpha: m.dirichlet.pdf(_SHARES[:2], alpha), [_SHARES, -_SHARES, 2 * _SHARES]),
    "multinomial": (
        lambda m, p: m.multinomial.logpmf(np.array([1, 3, 2]), 6, p),
        [_SHARES, np.array([-0.1, 0.6, 0.5]), np.array([0.7, 0.6, -0.3])]),
    "multinomial, x": (
        lambda m, x: m.multinomial.pmf(x, 6, _SHARES),
        [np.array([1.0, 3, 2]), np.array([1.5, 2.5, 2]), np.array([7.0, -1, 0])]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_multivariate_densities_refuse_what_scipy_refuses(name):
    """Also in calls of a function that was compiled for valid parameters."""
    f, values = REFUSED[name]
    compiled = jit(lambda x: f(stats, x))
    for value, call in itertools.product(values, (compiled, lambda x: data(f(stats, param(x))))):
        try:
            want = f(own, value)
        except (ValueError, np.linalg.LinAlgError) as error:
            singular = isinstance(error, np.linalg.LinAlgError)
            text = "positive definite" if singular else re.escape(str(error))
            with pytest.raises(type(error), match=text):
                call(value)
        else:
            np.testing.assert_allclose(call(value), want, rtol=1e-6)
