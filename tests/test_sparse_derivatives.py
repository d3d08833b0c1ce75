"""Sparse Jacobians and Hessians equal the dense ones, and no entry is missing."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.optimize import NonlinearConstraint, least_squares, minimize
from tables import refused

import tracker
from tracker import sparse
from tracker.sparse.colouring import colour_symmetric, count_colours

N = 7
EDGES = np.array([[0, 1], [1, 2], [2, 6]])
MATRIX = sp.random_array((N, N), density=0.3, format="csr", rng=np.random.default_rng(0))
BANDED = np.diag(np.arange(1.0, N + 1)) + np.diag(np.ones(N - 1), 1)
POINTS = [np.random.default_rng(k).normal(size=N) for k in range(3)]


def check(f, n=N, points=POINTS):
    made = sparse.jacobian(f, points[0])
    for x in (*points, -points[0], points[0]):
        wanted = tracker.jacobian(f, x)[0]
        found = made(x)
        assert type(found) is sp.csr_array
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found.toarray(), wanted, rtol=1e-12, atol=1e-12)
        assert not (wanted[~made.pattern.toarray()] != 0).any()
    return made


def writes(x):
    y = np.zeros_like(x)
    for i in range(1, len(x) - 1):
        y[i] = x[i - 1] * x[i + 1]
    return y


def branch(x):
    return x * x[0] if x[0] > 0 else np.roll(x, 1) ** 2


def scatters(x):
    y = np.zeros(N)
    np.add.at(y, EDGES[:, 0], x[EDGES[:, 1]] ** 2)
    return y


def moving_position(x):
    """The position is carried by the loop."""

    def body(i, y):
        y[i] = x[i] * x[(3 * i) % N]
        return y

    return tracker.fori_loop(0, N, body, np.zeros(N) + x[0] * 0)


PROGRAMS = {
    # name: the program, how many entries its pattern has
    "stencil": (lambda x: x[2:] - 2 * x[1:-1] ** 2 + x[:-2], 15),
    "writes": (writes, 10),
    "gather": (lambda x: x[EDGES[:, 0]] * x[EDGES[:, 1]], 6),
    "scatter": (scatters, 3),
    "sparse product": (lambda x: MATRIX @ x**2, MATRIX.nnz),
    "sparse product from the left": (lambda x: x**2 @ MATRIX, MATRIX.nnz),
    "dense matrix with zeros": (lambda x: BANDED @ x**2, 2 * N - 1),
    "outer product": (lambda x: x[:, None] * np.ones(2), 2 * N),
    "rows": (lambda x: x[:6].reshape(2, 3).sum(axis=1), 6),
    "product of matrices": (lambda x: x[:6].reshape(2, 3) @ x[:6].reshape(3, 2), None),
    "scan": (lambda x: tracker.scan(lambda c, r: (c * 0.5 + r, c * r), 0.0, x)[1], 28),
    "carry": (lambda x: tracker.fori_loop(0, 5, lambda i, y: np.roll(y, 1) * x, x), None),
    "moving position": (moving_position, None),
    "while": (lambda x: tracker.while_loop(lambda y: y[0] < 9, lambda y: y + x**2 + 1, x), N),
    "cond": (lambda x: tracker.cond(x[0] > 0, np.sin, lambda y: y[::-1] * 2, x), 13),
    "convolve": (lambda x: np.convolve(x, [1.0, 2.0, 3.0], "same"), 19),
    "cumsum": (lambda x: np.cumsum(x.reshape(1, N), axis=0), N),
    "where": (lambda x: np.where(x[1:] > 0, x[1:], x[:-1] ** 2), 12),
    "branch": (branch, None),
    "dense": (lambda x: np.linalg.solve(np.eye(N) + np.outer(x, x), x), N * N),
    "sort": (lambda x: np.sort(x[2:5]) ** 2, 9),
    "data-dependent positions": (lambda x: x[np.argsort(x)][:3] ** 2, 3),
    "no derivative": (lambda x: np.sign(x) + np.floor(x), 0),
    "constant": (lambda x: np.ones(3), 0),
    "number": (lambda x: np.sum(x[:2] ** 2), 2),
    "fft": (lambda x: np.abs(np.fft.rfft(x)), 4 * N),
    "pad and repeat": (lambda x: np.repeat(np.pad(x, 1), 2)[1:], 2 * N),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f, entries = PROGRAMS[name]
    made = check(f)
    if entries is not None:
        assert made.pattern.nnz == entries


STEPS = [
    lambda x: np.sin(x),
    lambda x: np.roll(x, 2) * x,
    lambda x: np.where(x > 0.3, x, x[::-1]),
    lambda x: np.concatenate([x[3:], x[:3] ** 2]),
    lambda x: x[[0, 0, 2, 4, 6, 1, 3]],
    lambda x: MATRIX @ x,
    lambda x: BANDED @ x,
    lambda x: x + np.sum(x[:2]),
    writes,
    branch,
    scatters,
    lambda x: x.reshape(1, N).T.ravel() * x[3],
    lambda x: np.diff(x, append=0.0),
]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=4))
def test_random_programs(steps):
    def f(x):
        for step in steps:
            x = step(x)
        return x

    check(f, points=POINTS[:2])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum((x[1:] - x[:-1] ** 2) ** 2),
        lambda x: np.sum((MATRIX @ x) ** 3),
        lambda x: np.prod(x[:3]) + np.sum(np.sin(x[EDGES])),
        lambda x: np.sum(branch(x)),
        lambda x: np.sum(writes(x) ** 2),
    ],
)
def test_hessians(f):
    made = sparse.hessian(f, POINTS[0])
    for x in (POINTS[0], -POINTS[0]):
        wanted = tracker.hessian(f, x)
        np.testing.assert_allclose(made(x).toarray(), wanted, rtol=1e-10, atol=1e-12)
        assert not (wanted[~made.pattern.toarray()] != 0).any()


def test_a_hub_of_a_hessian_has_a_colour_of_its_own():
    made = sparse.hessian(lambda x: np.sum(x[0] * x[1:] ** 3), np.ones(30))
    x = np.arange(1.0, 31.0)
    np.testing.assert_allclose(
        made(x).toarray(), tracker.hessian(lambda x: np.sum(x[0] * x[1:] ** 3), x)
    )
    assert made.colours.max() == 1


def grid_energy(x):
    field = x.reshape(6, 7)
    return np.sum((field[1:] * field[:-1]) ** 2) + np.sum(np.sin(field[:, 1:] - field[:, :-1]))


def chain_with_hubs(x):
    return np.sum(x[0] * x**2 * x[1]) + np.sum((x[1:] - x[:-1]) ** 4)


def blocks(x):
    """Six cameras, and points that some of them see."""
    cameras, points = x[:6], x[6:].reshape(12, 3)
    seen = np.sin(cameras[:, None]) * np.sum(points, axis=1) * np.sum(points**2, axis=1)
    return np.sum(np.where((np.arange(6)[:, None] + np.arange(12)) % 3, seen, 0.0))


@pytest.mark.parametrize(
    ("f", "count", "size"), [(grid_energy, 5, 42), (chain_with_hubs, 5, 40), (blocks, 9, 42)]
)
def test_symmetry_saves_colours(f, count, size):
    x = np.random.default_rng(3).normal(size=size)
    made = sparse.hessian(f, x)
    np.testing.assert_allclose(made(x).toarray(), tracker.hessian(f, x), rtol=1e-10, atol=1e-12)
    plain = sparse.jacobian(lambda x: tracker.gradient(f, x)[0], x)
    assert made.colours.max() + 1 == count < plain.colours.max() + 1


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 12), st.floats(0.0, 0.6), st.booleans(), st.integers(0, 2**32 - 1))
def test_colours_tell_the_entries_of_symmetric_matrices_apart(n, density, has_diagonal, seed):
    """Also where the pattern has more places than are nonzero, and is not symmetric."""
    draw = np.random.default_rng(seed)
    half = np.triu(draw.random((n, n)) < density, 0 if has_diagonal else 1)
    dense = (half | half.T) * np.cumsum(np.ones((n, n)), axis=0)
    dense = dense + dense.T
    pattern = sp.csr_array((dense != 0) | (draw.random((n, n)) < 0.1))
    colours, where = colour_symmetric(pattern)
    seeds = np.arange(count_colours(colours))[:, None] == colours
    found = sp.csr_array((np.ravel(seeds @ dense)[where], pattern.indices, pattern.indptr), (n, n))
    np.testing.assert_array_equal(found.toarray(), dense)


def test_rows_are_coloured_where_they_need_fewer():
    made = sparse.jacobian(lambda x: np.stack([np.sum(x**2), x[3]]), np.ones(50))
    assert made.colours.shape == (2,)
    np.testing.assert_array_equal(made(np.arange(50.0)).toarray()[0], 2 * np.arange(50.0))


def test_complex_results_of_real_arguments():
    def f(x):
        return np.sum(np.exp(1j * x)) + x[:1]

    x = np.linspace(0.1, 1.0, 6)
    J = sparse.jacobian(f, x)
    np.testing.assert_allclose(J(x).toarray(), tracker.jacobian(f, x)[0], rtol=1e-12)


def test_positions_are_read_at_each_call():
    places = np.array([0, 1, 2])

    def f(x, more):
        return x[places] * x[more]

    x, more = POINTS[0], np.array([3, 4, 5])
    made = sparse.jacobian(f, x, more)
    for change in range(3):
        places[change], more[0] = 6, change
        np.testing.assert_allclose(made(x, more).toarray(), tracker.jacobian(f, x, more)[0])


def test_a_matrix_that_gains_an_entry():
    a = sp.csr_array(np.eye(3))

    def f(x):
        return a @ x**2

    made = sparse.jacobian(f, np.ones(3))
    made(np.ones(3))
    changed = sp.csr_array(np.array([[1.0, 2, 0], [0, 1, 0], [0, 3, 1]]))
    a.data, a.indices, a.indptr = changed.data, changed.indices, changed.indptr
    np.testing.assert_array_equal(made(np.ones(3)).toarray(), 2 * changed.toarray())


def test_factors_that_gain_and_lose_zeros():
    def f(x, m, v):
        return (m @ x) * np.sin(v @ x)

    sparse_m, dense_m = np.diag(np.ones(3), 1), np.arange(1.0, 17.0).reshape(4, 4)
    vectors = np.array([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 4.0], [0.0, 1.0, 0.0, 0.0]])
    x = np.linspace(0.5, 2.0, 4)
    for first in (dense_m, sparse_m):
        J = sparse.jacobian(f, x, first, vectors[0])
        for m in (sparse_m, dense_m, sparse_m.T, dense_m, sparse_m):
            for v in vectors:
                wanted = tracker.jacobian(lambda x, m=m, v=v: f(x, m, v), x)[0]
                np.testing.assert_allclose(J(x, m, v).toarray(), wanted, rtol=1e-12)


def test_arguments_shapes_and_lists():

    def f(t, y, a):
        return t * a * y**2

    y = np.arange(6.0).reshape(2, 3)
    made = sparse.jacobian(f, 1.0, y, 2.0, argnum=1)
    np.testing.assert_array_equal(made(3.0, y, 4.0).toarray(), np.diag(24 * np.arange(6.0)))
    assert sparse.jacobian(lambda x: x**2, [1, 2])([1, 2]).toarray().tolist() == [[2, 0], [0, 4]]
    assert not np.shares_memory(made(3.0, y, 4.0).indices, made(3.0, y, 4.0).indices)


def residuals(u):
    return np.concatenate([[u[0]], u[:-2] - 2 * u[1:-1] + u[2:] - np.exp(u[1:-1]), [u[-1] - 1.0]])


def test_in_stiff_solvers():
    def rhs(t, y):
        return -y + 0.1 * np.roll(y, 1)

    jac = sparse.jacobian(rhs, 0.0, np.ones(20), argnum=1)
    start = np.linspace(0.0, 1.0, 20)
    exact = expm(jac(0.0, start).toarray()) @ start
    for method in ("BDF", "Radau"):
        found = solve_ivp(rhs, (0, 1), start, method=method, jac=jac, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found.y[:, -1], exact, rtol=1e-4)


@pytest.mark.parametrize("solver", ["lsmr", None])
def test_in_least_squares(solver):
    jac = sparse.jacobian(residuals, np.zeros(20))
    found = least_squares(residuals, np.zeros(20), jac=jac, method="trf", tr_solver=solver)
    assert sp.issparse(found.jac)
    np.testing.assert_allclose(residuals(found.x), 0, atol=1e-6)


def test_in_trust_constr():
    """A chain of given length that hangs: its ends are fixed."""
    n, length = 12, 1.4

    def height(p):
        return np.sum(p.reshape(n, 2)[:, 1])

    def lengths(p):
        points = np.concatenate([[[0.0, 0.0]], p.reshape(n, 2), [[1.0, 0.0]]])
        return np.sum((points[1:] - points[:-1]) ** 2, axis=1) * (n + 1) ** 2

    def weighted(p, v):
        return v @ lengths(p)

    x = np.linspace(0.0, 1.0, n + 2)[1:-1]
    start = np.stack([x, -x * (1 - x)], axis=1).ravel()
    of_lengths = sparse.jacobian(lengths, start)
    of_weighted = sparse.hessian(weighted, start, np.ones(n + 1))
    assert of_lengths.colours.max() + 1 == 2 and of_weighted.colours.max() + 1 == 3
    found = minimize(
        tracker.value_and_grad(height),
        start,
        jac=True,
        hess=sparse.hessian(height, start),
        method="trust-constr",
        constraints=NonlinearConstraint(
            lengths, length**2, length**2, jac=of_lengths, hess=of_weighted
        ),
        options={"gtol": 1e-9, "xtol": 1e-12, "maxiter": 300},
    )
    assert found.constr_violation < 1e-8
    multipliers = found.v[0]  # the gradient of the Lagrangian is zero
    slope = tracker.gradient(height, found.x)[0] + of_lengths(found.x).T @ multipliers
    np.testing.assert_allclose(slope, 0, atol=1e-6)
    assert abs(of_weighted(found.x, multipliers).toarray()).max() > 1


def test_pickles():
    x = np.ones(5)
    made = pickle.loads(pickle.dumps(sparse.jacobian(residuals, x)))
    np.testing.assert_array_equal(made(x).toarray(), tracker.jacobian(residuals, x)[0])


test_errors = refused(
    {
        tracker.NotTrackedError: {
            "0 is float.*argnum=": lambda: sparse.jacobian(np.sin, 1.0),
            "tree.ravel": lambda: sparse.jacobian(np.sin, {"a": 1.0}),
            "complex128": lambda: sparse.jacobian(np.sin, np.ones(2) * 1j),
        },
        tracker.UnsupportedError: {
            r"shape \(2,\); the example had \(3,\)": lambda: sparse.jacobian(np.sin, np.ones(3))(
                np.ones(2)
            ),
            "argnum": lambda: sparse.jacobian(np.sin, np.ones(2), argnum=1),
            "need no matrix": lambda: sparse.jacobian(lambda x: x / np.sum(x), np.ones(20_000)),
        },
        tracker.NotScalarError: {
            "np.concatenate": lambda: sparse.jacobian(lambda x: {"a": x}, np.ones(2)),
        },
    }
)
