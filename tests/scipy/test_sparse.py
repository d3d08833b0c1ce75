"""`tracker.scipy.sparse`: products of plain sparse arrays with tracked dense ones, and solutions of
sparse systems; SciPy's values, derivatives against differences or dense solutions, and compiled."""

import numpy as np
import pytest
import scipy.sparse
from exact_derivatives import check_exact
from tables import refused

import tracker
from tracker import UnsupportedError, data, gradient, jit, param
from tracker.scipy import sparse
from tracker.scipy.sparse import linalg
from tracker.testing import gradcheck

RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=(4, 3)) * (RNG.uniform(size=(4, 3)) > 0.4)
SQUARE = scipy.sparse.csr_array(
    np.eye(4) * 3 + RNG.normal(size=(4, 4)) * (RNG.uniform(size=(4, 4)) > 0.4)
)
SYMMETRIC = (SQUARE @ SQUARE.T + scipy.sparse.eye_array(4)).tocsr()
V, W, M = RNG.normal(size=3), RNG.normal(size=4), RNG.normal(size=(3, 2))
FORMATS = ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"]
KINDS = [f"{name}_{kind}" for name in FORMATS for kind in ("array", "matrix")]


@pytest.mark.parametrize("kind", KINDS)
def test_products(kind):
    a = getattr(sparse, kind)(DENSE)
    np.testing.assert_allclose(data(a @ param(V)), DENSE @ V)
    np.testing.assert_allclose(data(a.dot(param(M))), DENSE @ M)
    np.testing.assert_allclose(data(param(W) @ a), W @ DENSE)
    np.testing.assert_allclose(data(param(M).T @ a.T), M.T @ DENSE.T)
    assert gradcheck(lambda v: (a @ v) ** 2, V, order=2)
    assert gradcheck(lambda m: m.T @ a.T, M)
    if kind.endswith("matrix"):
        np.testing.assert_allclose(data(a * param(V)), DENSE @ V)
        np.testing.assert_allclose(data(param(W) * a), W @ DENSE)
    else:
        np.testing.assert_allclose(data((param(V) * a).toarray()), V * DENSE)
    np.testing.assert_array_equal(a @ V, DENSE @ V)


def test_products_of_other_dtypes_and_shapes():
    narrow = sparse.csr_array(DENSE.astype("f"))
    assert data(narrow @ param(V.astype("f"))).dtype == np.float32
    assert gradient(lambda v: np.sum(narrow @ v), V.astype("f"))[0].dtype == np.float32
    assert gradcheck(lambda v: sparse.csr_array(DENSE * (1 + 2j)) @ v, V)
    assert gradcheck(lambda v: sparse.csr_array(DENSE) @ v, V * (1 - 0.5j))
    row = sparse.coo_array(DENSE[1])
    assert data(row @ param(V)) == pytest.approx(DENSE[1] @ V)
    assert data(param(V) @ row) == pytest.approx(DENSE[1] @ V)
    assert (scipy.sparse.csr_array(DENSE) @ scipy.sparse.csr_array(DENSE.T)).shape == (4, 4)


def test_products_compiled():
    a = sparse.csr_array(DENSE)
    fast = jit(lambda v: gradient(lambda v: np.sum((a @ v) ** 2), v)[0])
    for v in (V, V, 2 * V):
        np.testing.assert_allclose(fast(v), 2 * DENSE.T @ (DENSE @ v))
    a.data *= 2  # what was compiled looks at the array anew
    np.testing.assert_allclose(fast(V), 8 * DENSE.T @ (DENSE @ V))
    assert "linear_map" in str(tracker.trace(lambda v: a @ v, V))


SYSTEMS = {
    "spsolve": lambda m, b: m.spsolve(SQUARE, b),
    "spsolve, complex": lambda m, b: m.spsolve(SQUARE * (1 + 2j), b),
    "spsolve, several": lambda m, b: m.spsolve(SQUARE, np.stack([b, b**2], axis=1)),
    "spsolve, one column": lambda m, b: m.spsolve(SQUARE, np.expand_dims(b, 1)),
    "spsolve_triangular": lambda m, b: m.spsolve_triangular(scipy.sparse.tril(SQUARE).tocsr(), b),
    "factorized": lambda m, b: m.factorized(SQUARE.tocsc())(b),
    "LinearOperator": lambda m, b: m.aslinearoperator(SQUARE) @ b,
    "LinearOperator of functions": lambda m, b: m.LinearOperator(
        (4, 4), matvec=lambda x: 2 * x[::-1], rmatvec=lambda x: 2 * x[::-1], dtype=float
    ).matvec(b),
    "LinearOperator of matrices": lambda m, b: m.aslinearoperator(SQUARE).matmat(
        np.stack([b, b**2], axis=1)
    ),
    "rmatvec": lambda m, b: m.aslinearoperator(SQUARE).rmatvec(b),
}
SOLVERS = ("cg", "minres", "bicg", "bicgstab", "gmres", "lgmres", "cgs")
for _name in SOLVERS:
    SYSTEMS[_name] = lambda m, b, name=_name: getattr(m, name)(SYMMETRIC, b, rtol=1e-13)[0]


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems(name):
    f = SYSTEMS[name]
    want, found = f(scipy.sparse.linalg, W), data(f(linalg, param(W)))
    assert (found.dtype, found.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(found, want, rtol=1e-8)
    np.testing.assert_allclose(f(linalg, W), want, rtol=1e-8)
    if name in SOLVERS:  # differences through which depend on where they stop
        dense = SYMMETRIC.toarray()
        check_exact(lambda b: f(linalg, b), lambda b: np.linalg.solve(dense, b), W, order=2)
    else:
        assert gradcheck(lambda b: f(linalg, b), W, order=2, rtol=1e-6)
    fast = jit(lambda b: f(linalg, b))
    for b in (W, W, 2 * W):
        np.testing.assert_allclose(fast(b), f(scipy.sparse.linalg, b), rtol=1e-8)


def test_an_unfinished_solver_returns_its_flag():
    assert linalg.cg(SYMMETRIC, param(W), maxiter=1, rtol=1e-13)[1] > 0


SPARSE, UNIT, P = sparse.csr_array(DENSE), param(np.eye(4)), param(W)
test_refused = refused(
    {
        UnsupportedError: {
            "with a tracked M=": lambda: linalg.cg(SYMMETRIC, P, M=UNIT),
            r"sparse\.linalg\.eigsh has no derivative rule": lambda: linalg.eigsh(UNIT, 1),
        },
        ValueError: {
            "dimension mismatch: ": lambda: linalg.aslinearoperator(SQUARE) @ param(V),
            r"csr_array of shape \(4, 3\) and a tracked value .*\(4,\)": lambda: SPARSE @ P,
        },
    }
)


@pytest.mark.parametrize("name", SOLVERS)
def test_starting_points_are_those_of_the_call(name):
    def f(m, b, x0):
        return getattr(m, name)(SYMMETRIC, b, x0, maxiter=1, rtol=1e-12)

    fast = jit(lambda b, x0: f(linalg, b, x0))
    there = np.linalg.solve(SYMMETRIC.toarray(), W)
    for b, x0 in ((W, 0 * W), (W, W), (W, there), (0 * W, W), (2 * W, 2 * there)):
        (want, code), (found, told) = f(scipy.sparse.linalg, b, x0), fast(b, x0)
        np.testing.assert_array_equal(found, want)
        assert (told, type(told)) == (code, type(code))
    np.testing.assert_array_equal(data(f(linalg, W, param(W))[0]), f(scipy.sparse.linalg, W, W)[0])


# Operators whose functions use tracked values -----------------------------------------------------


def ring(d):
    """Products with a symmetric matrix: d on the diagonal, and neighbours in a ring."""
    return lambda v: (d * v.T + 0.2 * np.roll(v, 1, axis=0).T + 0.2 * np.roll(v, -1, axis=0).T).T


def ring_matrix(d):
    eye = np.eye(np.size(d))
    return d * eye + 0.2 * np.roll(eye, 1, axis=0) + 0.2 * np.roll(eye, -1, axis=0)


class Ring(scipy.sparse.linalg.LinearOperator):
    """An operator class of the user's."""

    def __init__(self, d):
        self.d = d
        super().__init__(np.float64, (np.size(d),) * 2)

    def _matvec(self, v):
        return ring(self.d)(v)


def operator(m, d, **options):
    return m.LinearOperator((np.size(d),) * 2, matvec=ring(d), rmatvec=ring(d), **options)


OF_TRACKED = {
    name: lambda m, p, name=name: getattr(m, name)(operator(m, 3 + p**2), p * 2.0, rtol=1e-13)[0]
    for name in SOLVERS
} | {
    "of the user's class": lambda m, p: m.cg(Ring(3 + p**2), p * 2.0, rtol=1e-13)[0],
    "with a dtype": lambda m, p: m.cg(operator(m, 3 + p**2, dtype=float), p * 2.0, rtol=1e-13)[0],
    "a preconditioner": lambda m, p: m.cg(
        operator(m, 3 + p**2),
        p * 2.0,
        M=m.LinearOperator((np.size(p),) * 2, matvec=lambda v: v / (3 + p**2)),
        rtol=1e-13,
    )[0],
    "a plain right side": lambda m, p: p * m.gmres(operator(m, 3 + p**2), W * 2.0, rtol=1e-13)[0],
}
EXACT_SOLUTIONS = {
    "a plain right side": lambda p: p * np.linalg.solve(ring_matrix(3 + p**2), W * 2.0)
}


@pytest.mark.parametrize("name", OF_TRACKED)
def test_systems_of_operators_that_use_tracked_values(name):
    f = OF_TRACKED[name]
    exact = EXACT_SOLUTIONS.get(name, lambda p: np.linalg.solve(ring_matrix(3 + p**2), p * 2.0))
    check_exact(lambda p: f(linalg, p), exact, W, order=2)
    fast = jit(lambda p: f(linalg, p))
    for p in (W, W, 0.5 * W):
        np.testing.assert_allclose(fast(p), exact(p), rtol=1e-8)
        slope = gradient(lambda p: np.sum(exact(p) ** 2), p)[0]
        found = gradient(lambda p: np.sum(fast(p) ** 2), p)[0]
        np.testing.assert_allclose(found, slope, rtol=1e-7)
    assert fast.cache_info().eager == 0


@pytest.mark.parametrize("name", ["cg", "gmres"])
def test_large_systems_of_operators_that_use_tracked_values(name):
    def f(p):
        d = 3 + np.tile(p, 60) ** 2
        return getattr(linalg, name)(operator(linalg, d), np.tile(p, 60), rtol=1e-13)[0]

    def exact(p):
        return np.linalg.solve(ring_matrix(3 + np.tile(p, 60) ** 2), np.tile(p, 60))

    check_exact(f, exact, W)


def test_products_of_operators_that_use_tracked_values():
    def f(m, p):
        a = operator(m, 3 + p**2)
        columns = np.stack([W, p], axis=1)
        return a @ W + a.matvec(p) * a.rmatvec(W) + np.sum(a @ columns, axis=1) + a * p + a.dot(W)

    np.testing.assert_allclose(f(linalg, W), f(scipy.sparse.linalg, W))
    assert gradcheck(lambda p: f(linalg, p), W, order=2)
    fast = jit(lambda p: f(linalg, p))
    for p in (W, W, 0.5 * W):
        np.testing.assert_allclose(fast(p), f(scipy.sparse.linalg, p))


def test_a_preconditioner_alone_that_uses_tracked_values_is_refused():
    with pytest.raises(UnsupportedError, match="with a tracked M="):
        linalg.cg(SYMMETRIC, P, M=operator(linalg, 3 + P**2))
