"""Sparse arrays with tracked entries: SciPy's numbers, derivatives in the entries against
differences, and compiled."""

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from scipy_cases import against_scipy, since
from tables import refused

import tracker
from tracker import (
    ConversionError,
    UnsupportedError,
    data,
    gradient,
    jit,
    param,
    pullback,
    value_and_grad,
)
from tracker.scipy import sparse
from tracker.scipy.sparse import linalg
from tracker.testing import gradcheck

RNG = np.random.default_rng(0)
ROWS, COLUMNS = [0, 1, 2, 0, 3, 1, 2, 3, 1], [0, 1, 2, 2, 3, 3, 0, 0, 1]  # (1, 1) twice
T = RNG.uniform(0.5, 1.5, size=9) * np.array([4, 2, 4, 1, 4, 1, 1, 1, 2])
D = RNG.normal(size=(3, 4))
S, V, M = 0.7, RNG.normal(size=4), RNG.normal(size=(4, 2))
PLAIN = scipy.sparse.csr_array(RNG.normal(size=(4, 4)) * (RNG.uniform(size=(4, 4)) > 0.5))
KEEP, MASK = np.array([3, 0, 2]), np.array([True, False, True, True])
STEPS = np.arange(5.0)
INDPTR = [0, 2, 5, 7, 9]
CSR_COLUMNS = [0, 2, 1, 3, 0, 2, 0, 3, 0]


def coo(m, t, kind="coo_array"):
    return getattr(m, kind)((t, (ROWS, COLUMNS)), shape=(4, 4))


def triangle(m, t):
    return m.csr_array((t[:7], ([0, 1, 1, 2, 2, 3, 3], [0, 0, 1, 0, 2, 1, 3])), shape=(4, 4))


def topology(m, t):
    stiffness = coo(m, t, "coo_matrix").tocsr()
    u = np.zeros_like(t, shape=4)
    u[KEEP] = m.linalg.spsolve(stiffness[KEEP][:, KEEP], V[KEEP])
    return u


def factors(m, t, b):
    lu = m.linalg.splu(coo(m, t, "csc_matrix"))
    return lu.solve(b) + lu.solve(b**2, "T") + lu.solve(b, trans="H")


def changed_entries(m, t):
    a = coo(m, t).tocsr()
    a.data *= 2
    a.data = a.data**2
    return a @ V


def assembled(kind):
    """A stiffness matrix that is filled element by element."""

    def program(m, t):
        a = getattr(m, kind)((5, 5))
        for i in range(4):
            dofs = np.array([i, i + 1])
            a[np.ix_(dofs, dofs)] += t[i] * np.array([[1.0, -1.0], [-1.0, 1.0]])
            a[i, i] += 2.0
        a[0, 4] = t[5]
        a[4, :] = 0.0
        a[4, 4] = 1.0
        a.setdiag(t[6:8], 2)
        return m.linalg.spsolve(a.tocsr(), STEPS) + a @ STEPS - np.ravel((2 * a).sum(axis=0))

    return program


def changed_elements(m, t):
    a = coo(m, t).tolil()
    a[1, :] = 0.0
    a[1, 1] = t[0] ** 2
    a[[0, 2], 3] = t[:2]
    a[2:, 2:] = PLAIN[:2, :2]
    a.setdiag(2.0 * t[:4])
    return a.toarray()


def zero_entries(m, t):
    """SciPy drops the entries that are zero here; their derivatives stay."""
    a = coo(m, t - t[0])
    a.eliminate_zeros()
    return a.tocsr() @ V


PROGRAMS = {
    "zero entries": (zero_entries, T),
    "changed elements": (changed_elements, T),
    "csr, by row pointers": lambda m, t=T: m.csr_matrix((t, CSR_COLUMNS, INDPTR)).toarray(),
    "csc, by column pointers": lambda m, t=T: m.csc_array((t, CSR_COLUMNS, INDPTR), (4, 4)) @ V,
    "dia": lambda m, d=D: m.dia_array((d, [0, -1, 2]), shape=(4, 4)).toarray(),
    "of a dense array": lambda m, d=D: m.csr_array(d) @ V,
    "a dtype": lambda m, t=T: m.csr_array((t, (ROWS, COLUMNS)), dtype=complex) @ V,
    "of a sparse array": lambda m, t=T: m.csc_matrix(coo(m, t)).toarray(),
    "entries": lambda m, t=T: coo(m, t).tocsr().data ** 2,
    "changed entries": (changed_entries, T),
    "csc from csr": lambda m, t=T: coo(m, t).tocsr().tocsc().data,
    "coo of csr": lambda m, t=T: m.csr_array((t, CSR_COLUMNS, INDPTR)).tocoo().data,
    "lil": lambda m, t=T: coo(m, t).tolil()[[1, 0]].toarray(),
    "scaled": lambda m, t=T, s=S: (s * coo(m, t) * 2 / s - -coo(m, t) * s).toarray(),
    "scaled, matrix": lambda m, t=T, s=S: (s * coo(m, t, "csr_matrix") * s / 2).toarray(),
    "plain scaled": lambda m, s=S: (s * PLAIN + PLAIN * s - PLAIN / s).toarray(),
    "sum": lambda m, t=T: (coo(m, t).tocsr() + PLAIN - coo(m, t).tocsc()).toarray(),
    "plain sum": lambda m, t=T, s=S: (PLAIN + s * coo(m, t)).toarray(),
    "plain difference": lambda m, t=T: (PLAIN - coo(m, t)).toarray(),
    "sum with a dense array": lambda m, t=T: coo(m, t) + np.ones((4, 4)),
    "plain sum with a dense array": lambda m, t=T: PLAIN + np.outer(t[:4], V),
    "builtin sum": lambda m, t=T: sum([coo(m, t).tocsr(), PLAIN]).toarray(),
    "matrix @ vector": lambda m, t=T, v=V: coo(m, t) @ v,
    "matrix @ matrix": lambda m, t=T, x=M: coo(m, t).tocsc() @ x,
    "vector @ matrix": lambda m, t=T, v=V: v @ coo(m, t).tocsr(),
    "matrix * vector": lambda m, t=T, v=V: coo(m, t, "csc_matrix") * v,
    "plain vectors": lambda m, t=T: coo(m, t) @ V + V @ coo(m, t) + coo(m, t).dot(V),
    "sparse @ sparse": lambda m, t=T: (coo(m, t) @ coo(m, t).T).toarray(),
    "sparse @ plain": lambda m, t=T: (PLAIN @ coo(m, t).tocsr() @ PLAIN).toarray(),
    "power of a matrix": lambda m, t=T: (coo(m, t, "csr_matrix") ** 3).toarray(),
    "power of elements": lambda m, t=T: (coo(m, t) ** 2 + coo(m, t).power(3)).toarray(),
    "elementwise": lambda m, t=T: (coo(m, t).sin() + abs(-coo(m, t)).sqrt()).toarray(),
    "multiply": lambda m, t=T: coo(m, t).multiply(V).toarray(),
    "multiply by a column": lambda m, t=T: coo(m, t).tocsr().multiply(V[:, None]).toarray(),
    "multiply sparse": lambda m, t=T: coo(m, t).tocsr().multiply(PLAIN).toarray(),
    "plain, elementwise": lambda m, v=V: (PLAIN * v + PLAIN.multiply(v)).toarray(),
    "transposed": lambda m, t=T: coo(m, t).tocsr().T @ V + coo(m, t).transpose().toarray()[0],
    "sums": lambda m, t=T: coo(m, t).sum(axis=0) * coo(m, t).sum(1) + coo(m, t).sum(),
    "sums of a matrix": lambda m, t=T: np.ravel(coo(m, t, "csr_matrix").sum(axis=-1)),
    "mean": lambda m, t=T: coo(m, t).mean() + coo(m, t).tocsr().mean(axis=1),
    "diagonal": lambda m, t=T: coo(m, t).diagonal() + coo(m, t).trace(),
    "diagonal above": lambda m, t=T: coo(m, t).tocsr().diagonal(2),
    "element": lambda m, t=T: coo(m, t).tocsr()[1, 1] ** 2 + coo(m, t).tocsr()[0, 1],
    "row": lambda m, t=T: coo(m, t).tocsr()[2].toarray() * coo(m, t).tocsr()[1] @ V,
    "row of a matrix": lambda m, t=T: coo(m, t, "csr_matrix")[2].toarray(),
    "rows and columns": lambda m, t=T: coo(m, t).tocsr()[KEEP][:, KEEP].toarray(),
    "block": lambda m, t=T: coo(m, t).tocsc()[np.ix_(KEEP, KEEP)].toarray(),
    "slice": lambda m, t=T: coo(m, t).tocsr()[1:, ::2].toarray(),
    "mask": lambda m, t=T: coo(m, t).tocsr()[MASK][:, MASK].toarray(),
    "rows in turn": lambda m, t=T: sum(row @ V for row in coo(m, t).tocsr()),
    "reshaped": lambda m, t=T: coo(m, t).reshape(2, 8).toarray(),
    "conjugate": lambda m, t=T * (1 + 1j): coo(m, t).conj().real.toarray(),
    "diags": lambda m, v=V: m.diags([v, v[1:] ** 2, 2.0], [0, 1, -2], shape=(4, 4)).toarray(),
    "diags of one": lambda m, v=V: m.diags_array(v, format="csr") @ V,
    "diags of a scalar": lambda m, s=S: m.diags([s, 2 * s], [0, 1], shape=(3, 3)) @ V[:3],
    "spdiags": lambda m, d=D: m.spdiags(d, [0, -1, 2], 4, 4).toarray(),
    "with the identity": lambda m, s=S: (m.eye_array(4) - s * PLAIN).toarray(),
    "bmat": lambda m, t=T: m.bmat([[coo(m, t), None], [PLAIN, coo(m, t).T]]).toarray(),
    "stacks": lambda m, t=T: m.vstack([m.hstack([coo(m, t), PLAIN]).tocsr()[:2]]).toarray(),
    "block_diag": lambda m, t=T, d=D: m.block_diag([coo(m, t), d, 3.0]).toarray(),
    **since(
        (1, 17),
        {
            "axes": lambda m, t=T: (
                m.swapaxes(coo(m, t), 0, 1) @ m.permute_dims(coo(m, t))
            ).toarray()
        },
    ),
    **since((1, 18), {"transpose": lambda m, t=T: m.matrix_transpose(coo(m, t)).toarray()}),
    "block_diag of lists": lambda m, t=T: m.block_diag([[[*t], [*t]], [*t]]).toarray(),
    "triangles": lambda m, t=T: (m.tril(coo(m, t)) - m.triu(coo(m, t), k=1)).toarray(),
    "kron": lambda m, t=T: m.kron(m.eye_array(2), coo(m, t), format="csr").toarray(),
    "kron of dense": lambda m, d=D: m.kron(d, PLAIN).toarray(),
    "find": lambda m, t=T: np.sort(m.find(coo(m, t))[2]),
    "spsolve": lambda m, t=T, v=V: m.linalg.spsolve(coo(m, t).tocsr(), v),
    "spsolve, several": lambda m, t=T, x=M: m.linalg.spsolve(coo(m, t).tocsc(), x),
    "spsolve, column": lambda m, t=T: m.linalg.spsolve(coo(m, t).tocsc(), V[:, None]),
    "spsolve, complex": lambda m, t=T * (1 + 0.5j): m.linalg.spsolve(coo(m, t).tocsc(), V),
    "spsolve, complex right side": lambda m, t=T: m.linalg.spsolve(coo(m, t).tocsc(), V * 1j),
    "topology": (topology, T),
    "factorized": lambda m, t=T, v=V: m.linalg.factorized(coo(m, t).tocsc())(v),
    "splu": (factors, T, V),
    "splu, complex": (factors, T * (1 - 0.5j), V * (1 + 1j)),
    "splu, plain": lambda m, v=V: factors(m, T, v),
    "splu, plain, complex": lambda m, v=V * 1j: factors(m, T * (1 + 1j), v),
    **since(
        (1, 17),
        {  # before, SciPy refuses 64-bit indices
            "spsolve_triangular": lambda m, t=T, v=V: m.linalg.spsolve_triangular(triangle(m, t), v)
        },
    ),
}
test_programs = against_scipy(sparse, scipy.sparse, PROGRAMS, order=2, slack=1e-6)


@pytest.mark.parametrize("kind", ["lil_array", "lil_matrix", "csr_matrix"])
@pytest.mark.filterwarnings("ignore:Changing the sparsity structure:Warning")
def test_filling_under_a_derivative(kind):
    def f(t):
        return assembled(kind)(sparse, t)

    want = assembled(kind)(scipy.sparse, T)
    assert gradcheck(f, T, order=2)
    for found in (pullback(f, T)[0], jit(f)(T)):
        np.testing.assert_allclose(data(found), want)
    assert type(sparse.lil_array((2, 2))) is scipy.sparse.lil_array
    (slope,) = gradient(lambda x: filled_dictionary(x).sum(), S)
    assert slope == 2.0


def filled_dictionary(x):
    a = sparse.dok_array((2, 2))
    a[0, 1] = 2.0 * x
    assert isinstance(a, scipy.sparse.dok_array) and a.shape == (2, 2) and a.ndim == 2
    assert a.dtype == np.float64 and "entries tracked" in repr(a)
    return a


@pytest.mark.filterwarnings("ignore:splu converted its input to CSC:Warning")
@pytest.mark.parametrize("solver", ["cg", "gmres", "bicgstab"])
def test_iterative_solvers(solver):
    def solve(t):
        a = coo(sparse, t).tocsr()
        x, flag = getattr(linalg, solver)(a.T @ a, V, rtol=1e-13)
        assert flag == 0
        return np.sum(x**2)

    def direct(t):
        a = coo(sparse, t).toarray()
        return np.sum(np.linalg.solve(a.T @ a, V) ** 2)

    np.testing.assert_allclose(gradient(solve, T)[0], gradient(direct, T)[0], rtol=1e-6)
    np.testing.assert_allclose(gradient(jit(solve), T)[0], gradient(direct, T)[0], rtol=1e-6)


def test_what_it_looks_like():
    a = coo(sparse, param(T), "csr_matrix")
    plain = coo(scipy.sparse, T, "csr_matrix")
    assert sparse.issparse(a) and scipy.sparse.issparse(a) and not sparse.issparse(param(T))
    assert isinstance(a, scipy.sparse.csr_matrix)
    assert isinstance(a, sparse.csr_matrix) and not isinstance(a, sparse.csr_array)
    assert isinstance(plain, sparse.csr_matrix) and type(plain) == sparse.csr_matrix  # noqa: E721

    class Mine(sparse.csr_matrix):
        pass

    assert issubclass(Mine, scipy.sparse.csr_matrix) and issubclass(Mine, sparse.csr_matrix)
    assert (a.shape, a.nnz, a.ndim, a.format, a.dtype) == ((4, 4), 8, 2, "csr", np.float64)
    np.testing.assert_array_equal(a.indices, plain.indices)
    np.testing.assert_array_equal(a.indptr, plain.indptr)
    np.testing.assert_array_equal(data(a.data), plain.data)
    assert "csr_matrix of shape (4, 4), entries tracked" in repr(a)
    assert type(coo(sparse, T)) is scipy.sparse.coo_array


def test_products_without_an_import_of_ours():
    (found,) = gradient(lambda v: np.sum((PLAIN @ v) ** 2 + v @ PLAIN), V)
    dense = PLAIN.toarray()
    np.testing.assert_allclose(found, 2 * dense.T @ dense @ V + dense.sum(axis=1))


def test_factors_are_kept_for_the_adjoint_system(monkeypatch):
    counted, theirs = [], scipy.sparse.linalg.splu

    def splu(*args, **options):
        counted.append(1)
        return theirs(*args, **options)

    monkeypatch.setattr(scipy.sparse.linalg, "splu", splu)
    gradient(lambda t: np.sum(linalg.spsolve(coo(sparse, t).tocsc(), V)), T)
    assert len(counted) == 1


def test_singular_matrices_as_scipy():
    with pytest.warns(scipy.sparse.linalg.MatrixRankWarning):
        x = linalg.spsolve(sparse.diags(param(np.zeros(2)), format="csc"), np.ones(2))
    assert np.all(np.isnan(data(x)))


def test_compiled_code_follows_places_and_entries():
    places = [np.array([0, 1, 2]), np.array([0, 1, 2])]

    def loss(t):
        return np.sum(sparse.csr_array((t, tuple(places)), shape=(3, 3)) @ V[:3] ** 2)

    fast = value_and_grad(jit(loss))
    for change in (lambda: None, lambda: None, lambda: places[1].__setitem__(0, 2)):
        change()
        value, slope = fast(T[:3])
        np.testing.assert_allclose(value, loss(T[:3]))
        np.testing.assert_allclose(slope, (V[:3] ** 2)[places[1]])
    assert "sparse_solve" in str(tracker.trace(topology, sparse, T))


def stored_in(plain):
    plain = plain.copy()
    plain.data = param(np.ones(plain.nnz))
    return plain


def stored_element():
    a = scipy.sparse.lil_matrix((4, 4))
    a[0, 0] += param(T)[0]


A, P = coo(sparse, param(T)), param(V)
test_refused = refused(
    {
        UnsupportedError: {
            r"comparing \(__gt__\), which .* of a csr_array": lambda: A.tocsr() > 0,
            r"\.max of a coo_array .*A\.toarray": lambda: A.max(),
            r"power -1 of a coo_array": lambda: A.power(-1),
            r"power 0 of a csr_matrix": lambda: sparse.csr_matrix(A) ** 0,
            r"\.todense\(\) of a csr_matrix .*A\.toarray": lambda: sparse.csr_matrix(A).todense(),
            "a quotient of sparse arrays": lambda: A / PLAIN,
            "with a sparse right side": lambda: linalg.spsolve(A.tocsc(), PLAIN),
            r"linalg\.eigsh has no .*scipy\.linalg\.eigh\(a\.toarray": lambda: linalg.eigsh(A, 1),
            r"linalg\.lsqr has no .*lstsq\(a\.toarray\(\), b": lambda: linalg.lsqr(A, V),
            r"linalg\.qmr has no .*Use gmres": lambda: linalg.qmr(A, V),
            r"linalg\.lobpcg has no .*csr_array\(\(tracker\.data": lambda: linalg.lobpcg(A, V),
            r"linalg\.aslinearoperator of a tracked": lambda: linalg.aslinearoperator(A),
            "tracked x0= and a tracked matrix": lambda: linalg.cg(A, V, P),
        },
        ConversionError: {
            r"\.csr_array\.__matmul__ would .* csr_array\(\(t, a\.indices": lambda: (
                stored_in(PLAIN) @ V
            ),
            r"Make the array of its entries: coo_array": lambda: stored_element(),
        },
        ValueError: {
            r"dimension mismatch: \(4, 4\) and \(3,\)": lambda: A @ V[:3],
            "inconsistent shapes": lambda: A + PLAIN[:3],
            "factor square matrices": lambda: linalg.splu(sparse.csc_array(param(D))),
        },
        NotImplementedError: {"adding a nonzero scalar": lambda: A + 1.0},
        AttributeError: {"nonsense": lambda: A.nonsense},
    }
)
