"""The rarer functions of `tracker.scipy.linalg`."""

import inspect

import numpy as np
import pytest
import scipy.linalg
from scipy_cases import against_scipy, since
from tables import refused

from tracker import UnsupportedError, data, jit, param
from tracker.scipy import linalg
from tracker.testing import gradcheck

RNG = np.random.default_rng(0)
A, B, V = RNG.normal(size=(4, 2)), RNG.normal(size=(4, 3)), RNG.normal(size=4)
C, W = np.array([3.0, 0.7, -0.4, 0.3]), RNG.normal(size=3)
POSITIVE = 0.3 * B.T @ B + np.eye(3)
CASES = {
    "made by position": lambda m, v=V, w=W: (
        m.companion(v) @ m.companion(v**2), m.leslie(v, w) + m.fiedler(v) * m.diagsvd(v, 4, 4),
        m.khatri_rao(m.fiedler(v), m.diagsvd(w, 3, 4)), m.diagsvd(w, 3, 5)),
    "convolution_matrix": lambda m, v=V: tuple(
        m.convolution_matrix(v, n, mode) for n in (3, 6) for mode in ("full", "same", "valid")),
    "toeplitz": (
        lambda m, c, r, b: (
            m.solve_toeplitz((c, r), b) * m.solve_toeplitz(c, b[:, 0])[:, None],
            m.matmul_toeplitz((c, r), b) + m.matmul_toeplitz(c, b)),
        C, C * np.array([1.0, 0.3, 2.0, -1.0]), A),
    "toeplitz, complex": lambda m, c=C, b=V: (
        m.solve_toeplitz(c * np.array([1, 1j, 2, 1]), b) + m.matmul_toeplitz(c, b * 1j)),
    "circulant": lambda m, c=C, b=V: (
        m.solve_circulant(c, b) * m.solve_circulant(c, V),
        m.solve_circulant(c * (1 + 1j), V, outaxis=-1)),
    "subspace_angles": lambda m, a=A, b=B: (
        m.subspace_angles(a, b[:, :2]) * m.subspace_angles(b[:, :1], a)[0]),
    "orthogonal_procrustes": lambda m, a=A, b=B: m.orthogonal_procrustes(b[:, :2], a),
    "powers": lambda m, a=POSITIVE: (
        m.fractional_matrix_power(a, 0.3) + m.fractional_matrix_power(a, 3),
        m.funm(a, np.exp) + m.expm_frechet(a, a @ a, compute_expm=False),
        *m.expm_frechet(a / 2, a)),
}  # fmt: skip


test_case = against_scipy(linalg, scipy.linalg, CASES, slack=2e-6)


SINGLE = np.array([[0.3, 0.2], [0.1, 0.4]], np.float32)
TYPED = {
    "one number": lambda m, x=2.0: (m.toeplitz(x), m.toeplitz(x, 3.0), m.circulant(x)),
    **since((1, 17), {"nothing in a row": lambda m, x=V: m.toeplitz(x, np.ones((2, 4, 0)))}),
    "fiedler of one": lambda m, x=SINGLE[0, :1]: (m.fiedler(x), m.fiedler(x[:0])),
    "expm_frechet": lambda m, x=SINGLE: m.expm_frechet(x, x),
    "expm_frechet by blocks": lambda m, x=SINGLE: m.expm_frechet(x, x, "blockEnlarge"),
    "qr raw": lambda m, x=B: m.qr(x, mode="raw")[0] + m.qr(x, mode="raw")[1:],
    "lu": lambda m, x=SINGLE * 1j: m.lu(x) + m.lu(x, p_indices=True),
    "lu of one": lambda m, x=SINGLE[:1, :1] * 1j: m.lu(x) + m.lu(x, p_indices=True),
}


@pytest.mark.parametrize("name", TYPED)
def test_shapes_and_types(name):
    f = TYPED[name]
    (x,) = f.__defaults__
    want, found = f(scipy.linalg, x), f(linalg, param(x))
    assert isinstance(found, tuple) == isinstance(want, tuple)
    pairs = zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]
    for ours, theirs in pairs:
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(data(ours), theirs, rtol=1e-6)


def test_power_in_its_exponent():
    power = linalg.fractional_matrix_power
    assert gradcheck(lambda t: power(POSITIVE, t), 0.7, order=2)
    turned = linalg.funm(param(np.array([[0.0, 1.0], [-1.0, 0.0]])), np.sqrt)
    want = scipy.linalg.funm(np.array([[0.0, 1.0], [-1.0, 0.0]]), np.sqrt)
    np.testing.assert_allclose(data(turned), want, atol=1e-14)


m, p = linalg, param(POSITIVE)
test_refused = refused(
    {
        UnsupportedError: {
            r"linalg\.schur has no .* Use eig or eigh": lambda: m.schur(p),
            "hessenberg has no derivative": lambda: m.hessenberg(p),
            "ldl has no derivative .* cholesky": lambda: m.ldl(p),
        },
        ValueError: {
            "at least 2": lambda: m.companion(param(V[:1])),
            "must not be zero": lambda: m.companion(param(0 * V)),
            "one less": lambda: m.leslie(param(V), V),
            "positive integer": lambda: m.convolution_matrix(param(V), 0),
            "'mode'": lambda: m.convolution_matrix(param(V), 2, "x"),
            "at least 1": lambda: m.convolution_matrix(param(V[:0]), 2),
            "number of columns": lambda: m.khatri_rao(p, A),
            "2-dimensional": lambda: m.khatri_rao(param(V), A),
            "M or N": lambda: m.diagsvd(param(V), 3, 5),
            "incompatible": lambda: m.solve_circulant(param(V), W),
            "same number of rows": lambda: m.subspace_angles(p, A),
            "one shape|shapes of A and B differ": lambda: m.orthogonal_procrustes(p, A),
        },
        np.linalg.LinAlgError: {"near singular": lambda: m.solve_circulant(param(np.ones(3)), W)},
    }
)


def test_plain_results_and_a_singular_circulant():
    assert linalg.issymmetric(param(POSITIVE)) is True
    zero = linalg.solve_circulant(param(np.ones(3)), W, singular="lstsq")
    np.testing.assert_allclose(data(zero), scipy.linalg.solve_circulant(np.ones(3), W, "lstsq"))


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_factors_lie_in_memory_as_scipys(lower, order):
    def both(m, a):
        return m.cholesky(a, lower=lower), m.cho_factor(a, lower=lower)[0]

    a = np.array([[4.0, 1.0], [1.0, 3.0]], order=order)
    ours = linalg
    compiled, eager = jit(lambda a: both(ours, a))(a), map(data, both(ours, param(a)))
    for have, also, want in zip(compiled, eager, both(scipy.linalg, a), strict=True):
        assert have.strides == also.strides == want.strides


@pytest.mark.parametrize("name", ["cholesky", "det", "eigh", "lu_solve", "qr", "solve_banded"])
def test_signatures_are_scipys(name):
    ours, theirs = (inspect.signature(getattr(m, name)) for m in (linalg, scipy.linalg))
    assert ours == theirs
