"""Derivatives of determinants of singular matrices: of any order, any rank, in stacks."""

import math

import numpy as np
import pytest
from op_rows import x
from pairwise_parameters import crossed

import tracker
from tracker import gradient

la = np.linalg
A = x(3, 3) + 2 * np.diag([1.0, 2.0, 3.0])
SINGULAR = np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])


def grad(f, a):
    return gradient(f, a)[0]


def test_gradient_of_det_is_the_matrix_of_cofactors():
    cofactors = np.array([[4.0, 4, -4], [-2, -2, 2], [0, 0, 0]])
    np.testing.assert_allclose(grad(la.det, SINGULAR), cofactors, atol=1e-13)
    np.testing.assert_allclose(grad(la.det, np.zeros((3, 3))), 0)
    np.testing.assert_allclose(grad(la.det, np.zeros((1, 1))), 1)
    both = np.stack([SINGULAR, A])
    found = grad(lambda a: np.sum(la.det(a)), both)
    np.testing.assert_allclose(found[1], la.det(A) * la.inv(A).T)


def test_second_derivative_of_det_at_a_singular_matrix():
    """To second order at 0 of a 2 x 2 matrix: ad - bc."""
    found = tracker.hessian(la.det, np.zeros((2, 2)))
    np.testing.assert_allclose(
        found, np.array([[0, 0, 0, 1], [0, 0, -1, 0], [0, -1, 0, 0], [1, 0, 0, 0]])
    )


@crossed(rank=range(5), kind=[float, complex], compiled=[False, True])
def test_all_derivatives_of_det_at_a_singular_matrix(rank, kind, compiled):
    """Compared with the polynomial det(d + t a), also where singular values coincide."""
    rng = np.random.default_rng(rank)
    d = np.diag([1.0, 1.0, 2.0, 0.5][:rank] + [0.0] * (4 - rank)).astype(kind)
    a = rng.normal(size=(4, 4)) + (1j * rng.normal(size=(4, 4)) if kind is complex else 0.0)
    places = np.linspace(-1.0, 1.0, 5)
    want = np.polyfit(places, [la.det(d + t * a).real for t in places], 4)[::-1]

    def derivative(order):
        if order == 0:
            return lambda t: np.real(la.det(d + t * a))
        return lambda t: tracker.gradient(derivative(order - 1), t)[0]

    for order in range(1, 5):
        f = tracker.jit(derivative(order)) if compiled else derivative(order)
        for _ in range(1 + compiled):
            assert f(0.0) == pytest.approx(math.factorial(order) * want[order], abs=1e-10)


def test_det_of_matrices_of_several_ranks():
    """Each matrix of a stack has the gradient and the curvature that it has alone."""
    several = np.stack(
        [SINGULAR, A, np.zeros((3, 3)), np.diag([0.0, 0.0, 3.0]), 1e-200 * np.eye(3)]
    )

    first = grad(lambda a: np.sum(la.det(a)), several)
    np.testing.assert_allclose(first, [grad(la.det, a) for a in several], atol=1e-12)
    for v in (A, np.eye(3)):
        found = tracker.hvp(lambda a: np.sum(la.det(a)), several, np.stack([v] * 5))
        alone = [tracker.hvp(la.det, a, v) for a in several]
        np.testing.assert_allclose(found, alone, atol=1e-12)
    mapped = tracker.vmap(lambda a: grad(la.det, a))(several)
    np.testing.assert_allclose(mapped, first, atol=1e-12)


def test_slogdet_of_a_singular_matrix():
    both = np.stack([SINGULAR, A])

    def masked(a):
        sign, logarithm = la.slogdet(a)
        return np.sum(np.where(sign == 0, 0.0, logarithm))

    found = grad(masked, both)
    assert np.all(found[0] == 0)
    np.testing.assert_allclose(found[1], la.inv(A).T)
    lost = gradient(lambda a: la.slogdet(a)[1], SINGULAR, check_finite=False)[0]
    assert np.isnan(lost).all()
