"""`tracker.scipy.linalg` of arrays with more axes in front: as SciPy's, one matrix at a time."""

import numpy as np
import pytest
import scipy.linalg
from scipy_cases import VERSION, since

from tracker import gradient, jit, pullback
from tracker.scipy import linalg

RNG = np.random.default_rng(7)
A = RNG.random((2, 3, 3)) + 2 * np.eye(3)
S = A @ np.swapaxes(A, -1, -2)
B = RNG.random((2, 3, 2))
BANDS = np.stack([S[:, 0] * 0.1, S[:, 1] + 9], axis=1)
CALLS = {
    "lu_factor": (lambda m, a: m.lu_factor(a), A),
    "lu_solve": (lambda m, a, b: m.lu_solve(m.lu_factor(a), b), A, B),
    "lu_solve, one matrix": (lambda m, a, b: m.lu_solve(m.lu_factor(a), b), A[0], B),
    "lu": (lambda m, a: m.lu(a), A),
    "lu, axes": (lambda m, a: m.lu(np.reshape(a, (2, 1, 3, 3)), permute_l=True), A),
    "qr": (lambda m, a: m.qr(a, mode="economic"), B),
    "qr, pivoting": (lambda m, a: m.qr(a, pivoting=True), A),
    "rq": (lambda m, a: m.rq(a, mode="r"), A),
    "polar": (lambda m, a: m.polar(a), A),
    "orth": (lambda m, a: np.abs(m.orth(a)), B),
    "null_space": (lambda m, a: np.abs(m.null_space(np.swapaxes(a, 1, 2))), B),
    "lstsq": (lambda m, a, b: m.lstsq(a, b)[:2], B, A[..., :1]),
    "procrustes": (lambda m, a, b: m.orthogonal_procrustes(a, b), A, S),
    "angles": (lambda m, a, b: m.subspace_angles(a, b), B, A[..., :1]),
    "discrete Lyapunov": (lambda m, a, q: m.solve_discrete_lyapunov(a / 9, q), A, S),
    "cholesky_banded": (lambda m, a: m.cholesky_banded(a), BANDS),
    "solveh_banded": (lambda m, a, b: m.solveh_banded(a, b), BANDS, B),
    **since(
        (1, 17), {"toeplitz": (lambda m, c, r: m.toeplitz(c, r), A[0], B[:, :, 0][:, None][0])}
    ),
    "block_diag": (lambda m, a, b: m.block_diag(a, b[:1], 2.0), A, B),
    "eigh, one": (lambda m, s: m.eigh(s, subset_by_index=[1, 1], eigvals_only=True), S),
    "eigh, some": (lambda m, s: m.eigh(s, s + 9 * np.eye(3), subset_by_value=[-1, 9])[0], S),
    "khatri_rao": (lambda m, a, b: m.khatri_rao(a, b), B, B),
    "pinv, bound": (lambda m, a: m.pinv(a, atol=1.5), A),
    "funm": (lambda m, a: m.funm(a, np.exp), S / 9),
}


def _parts(y):
    return y if isinstance(y, (tuple, list)) else (y,)


@pytest.mark.parametrize("name", CALLS)
def test_values(name):
    f, *args = CALLS[name]
    wanted = _parts(f(scipy.linalg, *args))
    found = pullback(lambda *xs: f(linalg, *xs), *args)[0]
    fast = jit(lambda *xs: f(linalg, *xs))
    for got in (found, fast(*args), fast(*args)):
        assert isinstance(got, list) == isinstance(f(scipy.linalg, *args), list)
        for ours, theirs in zip(_parts(got), wanted, strict=True):
            assert ours.shape == theirs.shape
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["lu", "qr", "polar", "lstsq", "discrete Lyapunov", "funm", "pinv, bound", "eigh, one"]
)
def test_gradients_are_those_of_each_matrix(name):
    f, *args = CALLS[name]

    def total(*xs):
        return sum(np.sum(np.sin(y)) for y in _parts(f(linalg, *xs)) if y.dtype.kind == "f")

    together = gradient(total, *args)
    for i in range(2):
        alone = gradient(total, *(x[i] for x in args))
        for whole, part in zip(together, alone, strict=True):
            np.testing.assert_allclose(whole[i], part, rtol=1e-9, atol=1e-12)


@pytest.mark.skipif(VERSION < (1, 17), reason="SciPy 1.16 takes them for one matrix")
def test_no_matrices_are_refused():
    for m in (scipy.linalg, linalg):
        with pytest.raises(ValueError, match="zero-size batches"):
            pullback(lambda a, m=m: m.polar(a), A[:0]) if m is linalg else m.polar(A[:0])
