"""`tracker.scipy.linalg`: SciPy's values on tracked arrays, and derivatives to second order."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg  # logm imports it when first called, and that adds a warning filter
from op_rows import row, sample, x, z
from test_linalg import cpositive, csquare, herm, positive, square

import tracker
import tracker.scipy.linalg as sl
from tracker import data, gradient, jit, param, pullback
from tracker.testing import gradcheck

A, P, CA, CP = square(3), positive(3), csquare(3), cpositive(3)
B, V = x(3, 2), x(3)
BAND = x(3, 5) + np.array([[0.0], [4.0], [0.0]])

ROWS = [
    row("lu", *(sample(a) for a in (A, x(4, 2), x(2, 4), x(3, 3), CA, z(3, 2)))),
    row("permutation", sample(np.array([2, 1, 2]), rows=4), sample(np.array([2.0]), rows=3)),
    row("column_order", sample(x(3, 4)), sample(z(4, 3))),
    row(
        "solve_banded", sample(BAND, x(5, 2), lower=1, upper=1),
        sample(x(4, 5) + np.array([[0.0], [0], [5], [0]]), x(5, 1), lower=1, upper=2),
        sample(BAND[:2], x(5, 2), lower=0, upper=1),
        sample(BAND + 1j * x(3, 5), z(5, 2), lower=1, upper=1)),
    row("solve_sylvester", sample(A, square(2), x(3, 2)), sample(CA, csquare(2), z(3, 2))),
    row("expm", sample(A / 4), sample(np.stack([A, -A]) / 4), sample(CA / 4)),
    row("logm", sample(P), sample(np.stack([P, P + A / 9])), sample(CP)),
    row("sqrtm", sample(P), sample(np.stack([P, P + A / 9])), sample(CP)),
]  # fmt: skip


def rotated(m, lu, piv):
    return m.lu_solve((lu, piv), V) + m.lu_solve((lu, piv), B, trans=1)[:, 0]


TALL, LOW = x(4, 2), x(4, 2) @ x(2, 4)  # of rank 2
HALF = np.array([[0.0, 0.3, 0.2, 0.4], [9.0, 8.0, 7.0, 6.0]])  # the upper band of a matrix
STABLE = A / 4 - 2 * np.eye(3)

CASES = {
    "cholesky_banded": (
        lambda m, ab: (
            m.cholesky_banded(ab) * m.cholesky_banded(ab[::-1] * [[1], [0.1]], lower=True)),
        HALF),
    "cho_solve_banded": (
        lambda m, ab, b: (
            m.cho_solve_banded((m.cholesky_banded(ab), False), b)
            + m.cho_solve_banded((m.cholesky_banded(ab[::-1], lower=True), True), b[:, :1])),
        HALF, x(4, 2)),
    "eig_banded": (
        lambda m, ab: (
            m.eig_banded(ab)[0] * m.eigvals_banded(ab[::-1] * [[1], [0.1]], lower=True)
            + np.sum(np.abs(m.eig_banded(ab, select="i", select_range=(1, 2))[1]))),
        HALF),
    "eigh_tridiagonal": (
        lambda m, d, e: (
            m.eigvalsh_tridiagonal(d, e) + np.sum(np.abs(m.eigh_tridiagonal(d, e)[1]), axis=0)),
        np.array([1.0, 3.0, 5.0]), np.array([0.3, -0.4])),
    "eigh_tridiagonal of a range": (
        lambda m, d, e: m.eigvalsh_tridiagonal(d, e, "v", (2.0, 9.0)), np.array([1.0, 3.0, 5.0]),
        np.array([0.3, -0.4])),
    "rq": (lambda m, a: m.rq(a)[0] + m.rq(a)[1] * m.rq(a, mode="r"), A),
    "rq wide": (lambda m, a: m.rq(a, mode="economic")[0] * m.rq(a)[0][:, 1:], x(2, 3)),
    "polar": (
        lambda m, a: m.polar(a)[0] @ m.polar(a)[1] + m.polar(a)[0] + m.polar(a, "left")[1], A),
    "orth": (lambda m, a: m.orth(a) @ m.orth(a).T, TALL),
    "orth of low rank": (lambda m, a: m.orth(a @ a.T) @ m.orth(a @ a.T).T, TALL),
    "null_space": (lambda m, a: m.null_space(a.T) @ m.null_space(a.T).T, TALL),
    "pinv bounds": (lambda m, a: m.pinv(a, atol=1e-3) + m.pinv(a, atol=0.01, rtol=1e-3), A),
    "lyapunov": (
        lambda m, a, q: (
            m.solve_continuous_lyapunov(a, q) * m.solve_lyapunov(a, q)
            + m.solve_discrete_lyapunov(a / 9, q)),
        STABLE, P),
    "cholesky": (lambda m, a: m.cholesky(a) + m.cholesky(a, lower=True, check_finite=False), P),
    "cholesky complex": (lambda m, a: m.cholesky(a) @ m.cholesky(a, lower=True), CP),
    "cho": (
        lambda m, a, v: m.cho_solve(m.cho_factor(a), v) * m.cho_solve((m.cholesky(a), False), v), P,
        V),
    "cho lower": (lambda m, a, b: m.cho_solve(m.cho_factor(a, lower=True), b), CP, z(3, 2)),
    "solve_triangular": (
        lambda m, a, b: m.solve_triangular(a, b) + m.solve_triangular(a, b, trans="T", lower=True),
        A, B),
    "solve_triangular unit": (
        lambda m, a, b: m.solve_triangular(a, b, 2, unit_diagonal=True, lower=True), CA, z(3)),
    "solve": (lambda m, a, b: m.solve(a, b) + m.solve(a, b, transposed=True), A, V),
    "solve sym": (
        lambda m, a, b: m.solve(a, b, assume_a="sym") + m.solve(a, b, lower=True, assume_a="pos"),
        P, B),
    "solve her": (lambda m, a, b: m.solve(a, b, assume_a="her"), CP, z(3)),
    "solve triangular": (
        lambda m, a, b: (
            m.solve(a, b, assume_a="upper triangular")
            + m.solve(a, b, assume_a="lower triangular", transposed=True)),
        A, B),
    "solve diagonal": (lambda m, a: m.solve(a, V, assume_a="diagonal"), np.diag(V)),
    "solve tridiagonal": (
        lambda m, a, b: (
            m.solve(a, b, assume_a="tridiagonal")
            + m.solve(a, b, assume_a="tridiagonal", transposed=True)),
        square(4), x(4)),
    "solve pos": (
        lambda m, a, b: m.solve(a, b, assume_a="pos") + m.solve(a, b, lower=True, assume_a="pos"),
        CP, z(3, 2)),
    "solveh_banded": (
        lambda m, ab, b: (
            m.solveh_banded(ab, b)
            * m.solveh_banded(np.abs(ab[::-1]) + np.array([[7.0], [0], [0]]), b[:, 0], lower=True)[
                :, None]),
        z(3, 5) + np.array([[0.0], [0.0], [9.0]]), z(5, 2)),
    "inv read": (
        lambda m, a: sum(
            m.inv(a, assume_a=kind, lower=lower)
            for kind in ("sym", "her", "pos")
            for lower in (False, True)),
        P),
    "inv her": (lambda m, a: m.inv(a, assume_a="her") + m.inv(a, assume_a="pos", lower=True), CP),
    "lstsq parts": (
        lambda m, a, b: m.lstsq(a, b)[0] * m.lstsq(a, b)[1] + m.lstsq(a, b)[3], x(5, 3), x(5)),
    "inv det": (lambda m, a: m.inv(a) * m.det(a), A),
    "lu": (lambda m, a: sum(np.prod(f[:2], axis=0).sum() for f in m.lu(a)) * m.lu(a)[2], A),
    "lu tall": (lambda m, a: m.lu(a, permute_l=True)[0] @ m.lu(a)[2][:, ::-1], x(4, 3)),
    "lu wide": (lambda m, a: m.lu(a)[2] + (m.lu(a, p_indices=True)[1] ** 2)[:, :1], x(2, 4)),
    "lu_factor": (lambda m, a: m.lu_factor(a)[0] * m.lu_factor(a)[1][:, None], A),
    "lu_solve": (lambda m, a: rotated(m, *m.lu_factor(a)), x(3, 3)),
    "lu_solve complex": (lambda m, a, b: m.lu_solve(m.lu_factor(a), b, trans=2), z(3, 3), z(3, 2)),
    "qr": (lambda m, a: m.qr(a, mode="economic")[0] @ m.qr(a, mode="r")[0][:2], x(4, 2)),
    "qr full": (lambda m, a: m.qr(a)[0] @ m.qr(a)[1], x(4, 2)),
    "qr pivots": (
        lambda m, a: m.qr(a, pivoting=True)[1] * (1 + m.qr(a, mode="r", pivoting=True)[1]),
        x(4, 3)),
    "svd": (lambda m, a: m.svd(a)[0] * m.svd(a, compute_uv=False) + m.svd(a)[2], A),
    "svdvals": (lambda m, a: m.svdvals(a), B),
    "eigh": (lambda m, a: np.abs(m.eigh(herm(a))[1]) * m.eigvalsh(herm(a), lower=False), A),
    "eigh only": (
        lambda m, a: m.eigh(a, eigvals_only=True, subset_by_index=[1, 2]) + m.eigvalsh(a)[:2], A),
    "eigh subset": (lambda m, a: m.eigh(a, subset_by_value=(0, 50))[0] ** 2, A),
    "eigh pair": (lambda m, a, b: np.abs(m.eigh(a, b)[1]) * m.eigh(a, b, lower=False)[0], A, P),
    "eigh pair 2": (lambda m, *ab: np.abs(m.eigh(*ab, type=2)[1]) + m.eigvalsh(*ab, type=2), A, P),
    "eigh pair 3": (lambda m, a, b: np.abs(m.eigh(a, b, type=3)[1]), A, P),
    "eig": (lambda m, a: m.eig(a)[0] * np.abs(m.eig(a)[1]), A),
    "eigvals": (lambda m, a, b: np.sort(m.eigvals(a).real) + np.sort(m.eigvals(a, b).real), A, P),
    "norm": (lambda m, a: m.norm(a) + m.norm(a, "nuc") + m.norm(a, 1, axis=0), A),
    "lstsq": (lambda m, *ab: m.lstsq(*ab)[0] * m.lstsq(*ab)[1] * m.lstsq(*ab)[2], x(4, 2), x(4)),
    "pinv": (lambda m, a: m.pinv(a) + m.pinv(a, return_rank=True)[0], B),
    "pinvh": (lambda m, a: m.pinvh(a, lower=False), A),
    "expm": (lambda m, a: m.expm(a), A / 4),
    "expm complex": (lambda m, a: m.expm(a), CA / 4),
    "logm": (lambda m, a: m.logm(a), P),
    "logm of a turn": (lambda m, a: m.logm(a), np.array([[-0.9, 0.8], [-0.9, -0.7]])),
    "sqrtm": (lambda m, a: m.sqrtm(a) @ a, P),
    "trigonometric": (lambda m, a: m.sinm(a) + m.cosm(a) + m.tanm(a / 9), A / 4),
    "hyperbolic": (lambda m, a: m.sinhm(a) + m.coshm(a) + m.tanhm(a), A / 4),
    "block_diag": (lambda m, a, v: m.block_diag(a, v, 2.0 * a[:1]) ** 2, A, V),
    "toeplitz": (lambda m, c, r: m.toeplitz(c, r) * m.toeplitz(c)[:, :2].sum(), V, x(4)),
    "toeplitz complex": (lambda m, c: m.toeplitz(c), z(3)),
    "circulant": (lambda m, c: m.circulant(c) ** 2, x(4)),
    "hankel": (lambda m, c, r: m.hankel(c, r).sum(0) + m.hankel(c)[0, 1], V, x(4)),
    "solve_banded": (lambda m, ab, b: m.solve_banded((1, 1), ab, b), BAND, x(5)),
    "solve_sylvester": (lambda m, a, q: m.solve_sylvester(a, A.T, q), A, x(3, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    f, *args = CASES[name]
    want = f(scipy.linalg, *args)
    found = tracker.data(f(sl, *map(param, args)))
    assert np.shape(found) == np.shape(want)
    assert np.result_type(found) == np.result_type(want)
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-11)
    assert gradcheck(lambda *xs: f(sl, *xs), *args, order=2)


HOSTED = ("lyapunov", "logm", "logm of a turn", "sqrtm", "solve_sylvester")
COMPILED = [name for name in CASES if name not in HOSTED]


@pytest.mark.parametrize("name", COMPILED)
def test_compiled(name):
    """Compiled without NumPy calls, also with derivatives, and for float32."""
    f, *args = CASES[name]
    want, compiled = f(scipy.linalg, *args), jit(lambda *xs: f(sl, *xs), strict=True)
    for _ in range(2):
        found = compiled(*args)
        assert (found.dtype, found.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-11)

    def loss(*xs):
        y = f(sl, *xs)
        return np.sum(np.real(y * np.conjugate(y)))

    slopes = jit(lambda *xs: gradient(loss, *xs), strict=True)
    for ours, theirs in zip(slopes(*args), gradient(loss, *args), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10 * np.abs(theirs).max())
    narrow = [v.astype("F" if np.iscomplexobj(v) else "f") for v in args]
    for ours, theirs in zip(slopes(*narrow), gradient(loss, *narrow), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-4 * np.abs(theirs).max())


@pytest.mark.parametrize("n", [1, 2, 7, 40])
@pytest.mark.parametrize("size", [1e-3, 0.2, 0.8, 1.9, 4.0, 30.0])
def test_the_exponential_at_every_degree(n, size):
    rng = np.random.default_rng(n)
    a = rng.normal(size=(n, n)) + 1j * rng.normal(size=(n, n))
    a *= size / np.abs(a).sum(axis=0).max()
    compiled = jit(sl.expm, strict=True)
    for matrix in (a.real.copy(), a, np.stack([a, a.T])):
        want = scipy.linalg.expm(matrix)
        np.testing.assert_allclose(
            compiled(matrix), want, rtol=1e-12, atol=1e-12 * np.abs(want).max()
        )


def test_what_scipy_raises_or_warns_of():
    compiled = jit(lambda a: sl.lu_factor(a)[0])
    np.testing.assert_allclose(compiled(A), scipy.linalg.lu_factor(A)[0])
    with pytest.warns(scipy.linalg.LinAlgWarning):
        compiled(np.ones((3, 3)))
    banded = jit(lambda ab: sl.solve_banded((1, 1), ab, x(5)))
    np.testing.assert_allclose(banded(BAND), scipy.linalg.solve_banded((1, 1), BAND, x(5)))
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        banded(np.zeros((3, 5)))
    back = jit(lambda a, piv: sl.lu_solve((a, piv), V))
    packed, pivots = scipy.linalg.lu_factor(A)
    np.testing.assert_allclose(back(packed, pivots), scipy.linalg.solve(A, V))
    with pytest.warns(np.exceptions.ComplexWarning):  # by NumPy, while it is traced
        back(packed, pivots + 0j)
    np.testing.assert_allclose(back(packed, pivots + 0j), scipy.linalg.solve(A, V))
    with pytest.raises(IndexError):
        back(packed, pivots + 3)
    exponential = jit(sl.expm)
    np.testing.assert_allclose(exponential(A), scipy.linalg.expm(A))


def test_types_of_results():
    narrow = A.astype("f")
    assert tracker.data(sl.det(param(narrow))).dtype == scipy.linalg.det(narrow).dtype == "f8"
    assert tracker.data(sl.solve(param(narrow), V > 0)).dtype == "f4"
    for driver in ("gelsd", "gelsy"):
        for a, b in ((CA, V), (z(4, 3), z(4)), (x(4, 3), x(4, 2))):
            theirs = scipy.linalg.lstsq(a, b, lapack_driver=driver)
            ours = sl.lstsq(param(a), b, lapack_driver=driver)
            for o, t in zip(map(tracker.data, ours), theirs, strict=True):
                assert type(o) is type(t)
                assert np.shape(o) == np.shape(t)
                assert t is None or np.result_type(o) == np.result_type(t)


def test_plain_arguments_are_scipys():
    assert type(sl.lu(A)[0]) is np.ndarray
    np.testing.assert_array_equal(sl.cho_factor(P)[0], scipy.linalg.cho_factor(P)[0])
    np.testing.assert_array_equal(sl.hilbert(3), scipy.linalg.hilbert(3))
    assert set(sl.__all__) <= set(dir(scipy.linalg))


def test_refusals():
    with pytest.raises(tracker.UnsupportedError, match=r"with left=True.*Use eig"):
        sl.eig(param(A), left=True)
    for f in (sl.eig, sl.eigvals):
        with pytest.raises(tracker.UnsupportedError, match="homogeneous_eigvals=True"):
            f(param(A), homogeneous_eigvals=True)
    for f in (sl.logm, sl.sqrtm):
        with pytest.raises(tracker.UnsupportedError, match="disp=False"):
            f(param(P), disp=False)
    for solver in (sl.solve_continuous_are, sl.solve_discrete_are):
        with pytest.raises(tracker.UnsupportedError, match="with e= or s= has no derivative"):
            solver(param(A), np.eye(3), P, P, e=np.eye(3))
    with pytest.raises(ValueError, match="`side` must be"):
        sl.polar(param(A), "both")
    with pytest.raises(ValueError, match="Mode argument should be one of"):
        sl.rq(param(A), mode="x")
    with pytest.raises(ValueError, match="x is not a recognized matrix structure"):
        sl.solve(param(A), V, assume_a="x")
    with pytest.raises(ValueError, match="Mode argument should be one of"):
        sl.qr(param(A), mode="x")
    for f in (sl.logm, sl.sqrtm):
        with pytest.raises(tracker.UnsupportedError, match=r"negative real axis.*Move"):
            f(param(-P))
    with pytest.raises(ValueError, match="not compatible"):
        sl.solveh_banded(param(BAND), x(3))
    with pytest.raises(np.linalg.LinAlgError):
        sl.cholesky(param(-P))
    with pytest.raises(np.linalg.LinAlgError):
        sl.inv(param(-P), assume_a="pos")
    with pytest.raises(tracker.UnsupportedError):
        sl.hessenberg(param(A))


@pytest.mark.parametrize("name", ["solve_continuous_are", "solve_discrete_are"])
def test_riccati(name):
    ours, theirs = getattr(sl, name), getattr(scipy.linalg, name)
    given, weights = (A / 4, x(3, 2)), (P, positive(2))
    want = theirs(*given, *weights)
    np.testing.assert_allclose(tracker.data(ours(*map(param, given), *weights)), want, rtol=1e-9)
    assert gradcheck(lambda a, b, s: ours(a, b, P * s, weights[1] / s), *given, 1.1)
    assert gradcheck(
        lambda a: gradient(lambda a: np.sum(ours(a, given[1], *weights)), a)[0], given[0]
    )
    fast = jit(lambda a: ours(a, given[1], *weights))
    for scale in (1.0, 0.9, 1.1):
        want = theirs(scale * given[0], given[1], *weights)
        np.testing.assert_allclose(fast(scale * given[0]), want, rtol=1e-9)


def test_random_draws_inside_an_op_are_not_guarded():
    """SciPy's logarithm of a matrix estimates norms with random vectors."""
    matrix = np.random.RandomState(0).normal(size=(4, 4))
    f = jit(lambda x: sl.logm(x @ x.T + np.eye(4)))
    for _ in range(4):
        np.testing.assert_allclose(f(matrix), sl.logm(matrix @ matrix.T + np.eye(4)))
    assert f.cache_info().traces == 1


def test_draws_beside_those_of_an_op_are_still_noticed():

    def f(x):
        vars(np.random.mtrand)["_rand"].random_sample()  # no name that a trace listens to
        return sl.logm(x @ x.T + np.eye(4))

    fast = jit(f)
    with pytest.warns(RuntimeWarning, match="random numbers were drawn"):
        for _ in range(2):  # a call that imports may have drawn them itself
            fast(np.ones((4, 4)))


@pytest.mark.parametrize("name, args", [
    ("norm", (np.array([1e200, 2e200]),)), ("norm", (np.array([1e20, 1e-20], "f"),)),
    ("norm", (np.array([3e-200j, 4e-200]), 2)), ("norm", (np.zeros(3),)),
    ("norm", (np.array([3, 4]),)), ("norm", (np.array([3.0, 4.0]), None, 0)),
    ("pinv", (np.array([[1, 2], [3, 4], [5, 8]]),)), ("pinvh", ([[3, 1], [1, 2]],)),
    ("cholesky_banded", (HALF.astype("f"),)), ("eigvals_banded", (HALF.astype("f"),)),
    ("cholesky_banded", (np.where(HALF == 0, np.nan, HALF), False, False, False)),
])  # fmt: skip
def test_values_and_types(name, args):
    """Overflowing squares, integers, float32, and parts of the argument that are not read."""
    want = getattr(scipy.linalg, name)(*args)
    for got in (jit(getattr(sl, name))(*args), data(pullback(getattr(sl, name), *args)[0])):
        assert (type(got), np.result_type(got)) == (type(want), np.result_type(want))
        single = np.result_type(want) == np.float32
        np.testing.assert_allclose(got, want, rtol=1e-6 if single else 1e-12)
