"""Rows of the ops of linear algebra, and all of `numpy.linalg` on tracked values.

A case is a function of arrays: NumPy's numbers, dtype and shape on tracked values, and `gradcheck`
to second order. Phases of complex decompositions are arbitrary, so no case depends on them.
"""

import warnings

import numpy as np
import pytest
from cases import check_numbers
from counting import peak_bytes
from op_rows import row, sample, x, z

import tracker
from tracker import gradient, param
from tracker.ops.linalg import (
    decompositions,
)
from tracker.testing import gradcheck


def square(n, *batch):
    """Well away from singular, with distinct eigenvalues."""
    return x(*batch, n, n) + 2 * np.diag(np.arange(1.0, n + 1))


def csquare(n, *batch):
    return z(*batch, n, n) + 2 * np.diag(np.arange(1.0, n + 1))


def positive(n, *batch):
    a = x(*batch, n, n)
    return a @ np.swapaxes(a, -1, -2) + n * np.eye(n)


def cpositive(n, *batch):
    a = z(*batch, n, n)
    return a @ np.conjugate(np.swapaxes(a, -1, -2)) + n * np.eye(n)


SINGULAR = np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])
LOWER = {"lower": True, "trans": "N", "unit": False}
TRIANGULAR = [
    {"lower": lower, "trans": trans, "unit": unit}
    for lower in (True, False)
    for trans in "NTC"
    for unit in (True, False)
]

ROWS = [
    row(
        "triangle",
        *(sample(x(3, 4), k=k, lower=lower) for k in (-1, 0, 2) for lower in (True, False)),
        sample(x(2, 4, 3), k=0, lower=True), sample(z(3, 3), k=1, lower=False),
        sample(x(0, 0), k=0, lower=True), sample(x(7, 9), k=-1, lower=False)),
    row(
        "diagonal", *(sample(x(3, 4), k=k) for k in (-2, 0, 1, 3, 5)), sample(x(2, 4, 3), k=-1),
        sample(x(8, 8), k=0), sample(z(3, 3), k=0)),
    row(
        "embed_diagonal", sample(x(3), k=0, shape=(3, 3)), sample(x(3), k=1, shape=(4, 4)),
        sample(x(2, 3), k=-1, shape=(4, 3)), sample(x(8), k=0, shape=(8, 8)),
        sample(z(2), k=0, shape=(2, 5))),
    row(
        "solve", sample(square(3), x(3, 2)), sample(square(1), x(1, 1)),
        sample(square(3, 2), x(2, 3, 1)), sample(square(3), x(4, 3, 2)),
        sample(square(3, 2, 1), x(4, 3, 1)), sample(csquare(3), z(3, 2)),
        sample(square(3), z(3, 2)), sample(csquare(3), x(3, 1)), sample(square(9), x(9, 2))),
    row(
        "solve_triangular", *(sample(square(3), x(3, 2), **how) for how in TRIANGULAR),
        *(sample(csquare(2), z(2, 2), **how) for how in TRIANGULAR),
        sample(square(3, 2), x(3, 2), **LOWER), sample(square(9), x(9, 1), **LOWER)),
    row(
        "inv",
        *(sample(a) for a in (square(1), square(3), square(2, 2, 3), csquare(3), square(7)))),
    row(
        "det", *(sample(a) for a in (square(1), square(3), square(2, 2, 3), csquare(3))),
        sample(SINGULAR), sample(np.stack([SINGULAR, square(3)]))),
    row("bases", *(sample(a) for a in (square(2), square(3, 2), csquare(3)))),
    row("slope_at_coinciding", sample(x(3), np.zeros((3, 3), bool), what="eigenvalues")),
    row("slope_at_zero", sample(x(3), np.zeros(3, bool))),
    row("nullity", *(sample(a) for a in (square(2), SINGULAR, csquare(3)))),
    row(
        "slogdet",
        *(sample(a) for a in (square(1), square(3), -square(3, 2), csquare(3), csquare(2, 2)))),
    row(
        "cholesky",
        *(sample(a) for a in (positive(1), positive(3), positive(2, 2), cpositive(3), positive(8))),
        sample(np.tril(positive(3)) + np.triu(x(3, 3), 1))),
    row(
        "cholesky_pull", *(sample(np.tril(square(n)), x(n, n)) for n in (1, 3)),
        sample(np.tril(square(2, 2)), x(2, 2, 2)),
        sample(np.tril(csquare(3).real + 1j * np.tril(x(3, 3), -1)), z(3, 3))),
    row(
        "qr", *(sample(x(*shape), complete=False) for shape in [(3, 3), (4, 2), (2, 4), (2, 3, 2)]),
        sample(x(4, 3), complete=True), sample(x(2, 3), complete=True),
        sample(z(3, 3), complete=False), sample(z(4, 2), complete=False),
        sample(z(2, 3), complete=False)),
    row(
        "pinv", *(sample(x(*shape), 1e-15) for shape in [(3, 3), (4, 2), (2, 4), (2, 3, 2)]),
        sample(z(3, 2), 1e-15)),
    row(
        "coupled", sample(x(3, 2), square(3) / 9, square(2) / 9),
        sample(x(2, 2, 3), square(2, 2) / 5, square(3, 2) / 9),
        sample(z(2, 2), csquare(2) / 9, csquare(2) / 9)),
    row(
        "lstsq", *(sample(x(*shape), x(shape[0], 2), 1e-15) for shape in [(3, 3), (4, 2), (2, 4)]),
        sample(z(4, 2), z(4, 1), 1e-15), sample(x(4, 2), z(4, 1), 1e-15)),
    row(
        "eigh", *(sample(a, lower=True) for a in (square(1), square(3), square(3, 2), positive(5))),
        sample(square(3), lower=False)),
    row(
        "eigvalsh", *(sample(a, lower=True) for a in (square(3), square(3, 2), csquare(3))),
        sample(csquare(3), lower=False)),
    row("eig", *(sample(a) for a in (square(3), square(3, 2), x(3, 3), csquare(3)))),
    row("eigvals", *(sample(a) for a in (square(3), x(3, 3), csquare(3, 2)))),
    row(
        "svd", *(sample(x(*shape), full=False) for shape in [(3, 3), (4, 2), (2, 4), (2, 3, 2)]),
        sample(x(3, 3), full=True), sample(x(3, 2), full=True), sample(x(3, 4), full=True)),
    row(
        "svdvals", *(sample(x(*shape)) for shape in [(3, 3), (4, 2), (2, 4), (2, 3, 2)]),
        sample(z(3, 2))),
]  # fmt: skip

A, S, P = square(3), square(3, 2), positive(3)
CA, CP, CS = csquare(3), cpositive(3), csquare(2, 3)
V, W, B = x(3), x(4), x(3, 2)
T = x(2, 3, 4)
la = np.linalg


def herm(a):
    return a + np.conjugate(np.swapaxes(a, -1, -2))


def through_vectors(w, v):
    """A function of the matrix, computed from its eigenvectors."""
    return (v * np.exp(np.expand_dims(w, -2) / 4)) @ np.conjugate(np.swapaxes(v, -1, -2))


CASES = {
    "solve": (lambda a, b: la.solve(a, b) * la.solve(a, V)[:, None], A, B),
    "solve stacks": (lambda a, b: la.solve(a, b) + la.solve(a, B[None]) + la.solve(a[0], B), S, B),
    "solve vector beside stack": (lambda a: la.solve(a, V), S),
    "solve complex": (lambda a, b: la.solve(a, b), CA, z(3)),
    "solve real by complex": (lambda a, b: la.solve(a, b), A, z(3)),
    "inv": (lambda a: la.inv(a) @ la.inv(a[0]), S),
    "inv complex": (la.inv, CA),
    "det": (lambda a: la.det(a) ** 2 + la.det(a[1]), S),
    "det complex": (la.det, CS), "det of singular": (la.det, SINGULAR),
    "slogdet": (lambda a: la.slogdet(a)[1] * la.slogdet(a).sign, S),
    "slogdet complex": (lambda a: la.slogdet(a)[0] * la.slogdet(a).logabsdet, CS),
    "cholesky": (la.cholesky, P), "cholesky stacks": (la.cholesky, positive(3, 2)),
    "cholesky upper": (lambda a: la.cholesky(a, upper=True), P),
    "cholesky complex": (lambda a: la.cholesky(a) + la.cholesky(a, upper=True), CP),
    "cholesky of a product": (lambda b: la.cholesky(b @ b.T + 3 * np.eye(3)), A),
    "eigh": (lambda a: through_vectors(*la.eigh(herm(a))), A),
    "eigh upper": (lambda a: la.eigh(a, UPLO="U")[0] + la.eigh(a, "l").eigenvalues, A),
    "eigh vectors": (lambda a: la.eigh(herm(a))[1], S),
    "eigh complex": (lambda a: through_vectors(*la.eigh(herm(a))), CA),
    "eigh complex triangle": (lambda a: through_vectors(*la.eigh(a, "U")), CA),
    "eigvalsh": (lambda a: la.eigvalsh(a) * la.eigvalsh(a, UPLO="U"), S),
    "eigvalsh complex": (lambda a: la.eigvalsh(herm(a)), CS),
    "eig": (lambda a: la.eig(a)[0] * la.eig(a).eigenvectors, A),
    "eig complex pairs": (lambda a: la.eig(a)[0] * la.eig(a)[1], x(3, 3)),
    "eig stacks": (lambda a: la.eig(a)[1], S),
    "eig complex": (lambda a: la.eig(a)[0] * la.eig(a)[1], CA),
    "eigvals": (lambda a: la.eigvals(a) ** 2, A),
    "eigvals complex": (la.eigvals, CS),
    "svd": (lambda a: la.svd(a)[0] * la.svd(a).S + la.svd(a).Vh, A),
    "svd thin": (lambda a: la.svd(a, full_matrices=False)[0] @ la.svd(a, False)[2], T),
    "svd full": (lambda a: la.svd(a)[0][:, :2], x(4, 2)),
    "svd full wide": (lambda a: la.svd(a)[2], B.T),
    "svd full tall": (lambda a: la.svd(a)[0], B),
    "svd values": (lambda a: la.svd(a, compute_uv=False) * la.svdvals(a), T),
    "svd hermitian": (
        lambda a: np.multiply(*la.svd(herm(a), hermitian=True)[:2]), A - 3 * np.eye(3)),
    "svd hermitian values": (
        lambda a: la.svd(herm(a), compute_uv=False, hermitian=True), A - 3 * np.eye(3)),
    "svd complex": (
        lambda a: (la.svd(a, False)[0] * la.svd(a, False)[1] ** 2) @ la.svd(a, False)[2], z(3, 2)),
    "svd complex full": (lambda a: np.abs(la.svd(a)[0]) ** 2, z(3, 2)),
    "qr": (lambda a: la.qr(a)[0] @ la.qr(a).R[:, ::-1], x(4, 3)),
    "qr modes": (lambda a: la.qr(a, "complete")[0][:, :3] + la.qr(a, mode="r")[:1], x(4, 3)),
    "qr complete": (lambda a: la.qr(a, "complete")[0] @ la.qr(a, "complete")[1], x(4, 3)),
    "qr wide": (lambda a: la.qr(a)[1] + la.qr(a, "complete")[0] @ a, B.T),
    "qr complex": (lambda a: la.qr(a)[0] * la.qr(a)[1][:1], z(3, 3)),
    "lstsq": (lambda a, b: np.sum(la.lstsq(a, b)[1]) * la.lstsq(a, b)[0], x(4, 2), x(4, 3)),
    "lstsq vector": (lambda a, b: la.lstsq(a, b, rcond=None)[0] * la.lstsq(a, b)[3], x(4, 2), W),
    "lstsq wide": (lambda a, b: la.lstsq(a, b)[0], x(2, 4), x(2)),
    "lstsq complex": (lambda a, b: la.lstsq(a, b)[0] * la.lstsq(a, b)[1], z(4, 2), z(4)),
    "pinv": (lambda a: la.pinv(a) + la.pinv(a, rcond=1e-10) + la.pinv(a, rtol=None), T),
    "pinv cutoffs": (lambda a: la.pinv(a, rtol=np.array([1e-9, 1e-8])), T),
    "pinv that drops": (lambda a: la.pinv(a, rcond=0.6) + la.pinv(a @ a.mT @ a, 0.4), B),
    "pinv that drops complex": (lambda a: la.pinv(a, rtol=np.array([0.7, 0.1])), z(2, 2, 3)),
    "lstsq that drops": (
        lambda a, b: np.sum(la.lstsq(a, b, rcond=0.6)[0] * la.lstsq(a, b, 0.6)[2]), x(4, 3),
        x(4, 2)),
    "pinv hermitian": (lambda a: la.pinv(a, hermitian=True), A),
    "pinv complex": (la.pinv, z(3, 2)),
    "matrix_power": (
        lambda a: la.matrix_power(a, 3) + la.matrix_power(a, 0) + la.matrix_power(a, -2) + a**0, A),
    "matrix_power one": (lambda a: la.matrix_power(a, 1) @ la.matrix_power(a, 6), S / 5),
    "norm": (lambda a: la.norm(a) * la.norm(a, keepdims=True) + la.norm(a, axis=(0, 2)).sum(), T),
    "norm of vectors": (
        lambda a: sum(la.norm(a, p) for p in (None, 2, 1, 3, 0.5, -1, -2.5, np.inf, -np.inf, 0)),
        V),
    "norm axes": (
        lambda a: la.norm(a, axis=-1, keepdims=True) + la.norm(a, 3, axis=1, keepdims=True), T),
    "norm of matrices": (
        lambda a: sum(la.norm(a, p) for p in (None, "fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf)),
        x(3, 2)),
    "norm of matrices axes": (
        lambda a: sum(
            la.norm(a, p, axis=(2, 0)) + la.norm(a, p, (0, 2), keepdims=True)[:, :, 0]
            for p in (None, "fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf)
        ),
        T,
    ),
    "norm complex": (
        lambda a: la.norm(a) + la.norm(a, 1) * la.norm(a[0], 3) + la.norm(a, 2), z(3, 2)),
    "matrix_norm": (
        lambda a: la.matrix_norm(a) + la.matrix_norm(a, ord="nuc", keepdims=True)[..., 0, 0], T),
    "vector_norm": (
        lambda a: la.vector_norm(a) + la.vector_norm(a, axis=(0, 2), ord=3, keepdims=True), T),
    "vector_norm axis": (lambda a: la.vector_norm(a, axis=-1, ord=1), T),
    "cond": (
        lambda a: sum(la.cond(a, p) for p in (None, 2, -2, "fro", 1, -1, np.inf, -np.inf, "nuc")),
        S),
    "matrix_rank": (lambda a: a * la.matrix_rank(a) * la.matrix_rank(S, rtol=1e-9)[0], A),
    "multi_dot": (lambda a, b: la.multi_dot([V, a, b, x(2, 4), W]), A, B),
    "multi_dot matrices": (lambda a, b: la.multi_dot((a, b, x(2, 4))), A, B),
    "multi_dot two": (lambda a, b: la.multi_dot([a, b]), V, B),
    "tensorsolve": (la.tensorsolve, square(6).reshape(2, 3, 6), x(2, 3)),
    "tensorsolve axes": (
        lambda a, b: la.tensorsolve(a, b, axes=(0, 2)),
        np.moveaxis(square(6).reshape(2, 3, 2, 3), (0, 1), (1, 3)), x(2, 3)),
    "tensorinv": (lambda a: la.tensorinv(a, ind=1), square(6).reshape(6, 3, 2)),
    "tensorinv two": (la.tensorinv, square(6).reshape(2, 3, 6, 1)),
    "linalg cross": (lambda a: la.cross(a, V) * la.cross(a, A, axis=0), A),
    "linalg outer": (lambda a: la.outer(a, W) ** 2, V),
    "linalg diagonal trace": (
        lambda a: la.diagonal(a, offset=1) * la.trace(a)[:, None] + la.trace(a, offset=-1)[:, None],
        S),
    "linalg matrix_transpose": (lambda a: la.matrix_transpose(a) * np.matrix_transpose(a), S),
    "linalg vecdot": (lambda a: la.vecdot(a, V) * la.vecdot(a, a, axis=1), S),
    "linalg vecdot complex": (lambda a: la.vecdot(a, z(3)), CA),
    "linalg matmul": (lambda a: la.matmul(a, B) + la.tensordot(a, B, axes=1), S),
    "diagonals": (lambda a: np.diagonal(a, 1, 0, 2) * np.trace(a, 0, 1, 2)[:1], T),
    "tri of vector": (lambda a: np.tril(a) + np.triu(a, 1), V),
    "diag rows": (
        lambda a: np.diag(a, 1)[:2, None] * np.diag(np.diag(a))[:2] + np.diag(a, -1)[1], S[0]),
    "float32": (lambda a: la.inv(a) * la.det(a) + la.cholesky(a) + la.norm(a), np.float32(P)),
    "float32 spectra": (lambda a: la.svdvals(a) * la.eigvalsh(a) + la.qr(a)[1], np.float32(P)),
    "mahalanobis": (lambda a, d: -0.5 * d @ la.solve(a, d) - 0.5 * la.slogdet(a)[1], P, V),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    f, *args = CASES[name]
    narrow = any(np.result_type(a) == np.float32 for a in args)
    check_numbers(f, args, 1e-5 if narrow else 1e-11, 1e-11)
    assert gradcheck(f, *args, order=2, **({"rtol": 2e-3, "atol": 2e-3} if narrow else {}))


# Kinks and singular points ------------------------------------------------------------------------


def grad(f, a):
    return gradient(f, a)[0]


@pytest.mark.parametrize("ord", [None, 1, 2, 3, np.inf, -np.inf, 1.5])
def test_norm_of_a_zero_vector_has_gradient_zero(ord):
    assert np.all(grad(lambda a: la.norm(a, ord), np.zeros(3)) == 0)
    assert np.all(grad(lambda a: la.norm(a, ord), np.zeros(3, complex)) == 0)
    rows = np.array([[0.0, 0.0], [3.0, 4.0]])
    found = grad(lambda a: np.sum(la.norm(a, ord, axis=1)), rows)
    assert np.all(found[0] == 0)
    assert np.all(np.isfinite(found))


@pytest.mark.parametrize("ord", [None, "fro", "nuc", 2, -2, 1, np.inf])
def test_norm_of_a_zero_matrix_has_gradient_zero(ord):
    assert np.all(grad(lambda a: la.norm(a, ord), np.zeros((3, 2))) == 0)


def test_nuclear_norm_of_a_matrix_that_lacks_rank():
    u, v = np.array([0.6, 0.8, 0]), np.array([1.0, 0.0])
    found = grad(lambda a: la.norm(a, "nuc"), np.outer(u, v))
    assert np.linalg.norm(found, 2) <= 1 + 1e-12
    np.testing.assert_allclose(u @ found @ v, 1)


@pytest.mark.parametrize("n", [2, 5])
def test_repeated_eigenvalues(n):
    """Functions of the values only: right and without a warning."""
    eye = np.eye(n)
    for f, want in (
        (lambda a: np.sum(la.eigvalsh(a)), eye),
        (lambda a: np.sum(la.eigh(a)[0]), eye),
        (lambda a: np.sum(la.eigvalsh(a) ** 3), 3 * eye),
        (lambda a: np.sum(la.eigh(a)[0] ** 3), 3 * eye),
    ):
        np.testing.assert_allclose(grad(f, eye), want, atol=1e-14)
    np.testing.assert_allclose(grad(lambda a: np.sum(la.svdvals(a)), 2 * eye), eye, atol=1e-14)
    np.testing.assert_allclose(grad(lambda a: np.sum(la.svd(a)[1] ** 2), eye), 2 * eye, atol=1e-14)
    np.testing.assert_allclose(grad(lambda a: np.sum(np.real(la.eigvals(a))), eye), eye)
    _, t = tracker.jvp(lambda a: np.sum(la.eigvalsh(a)), (eye,), (np.ones((n, n)),))
    np.testing.assert_allclose(t, n)


def test_the_polar_factor_at_repeated_singular_values():
    """U V^H does not depend on the choice of vectors; only the sum of the rotations is
    undetermined."""

    def polar(a):
        u, _, vh = la.svd(a)
        return np.sum((u @ vh) * np.array([[1.0, 2.0], [-3.0, 5.0]]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tracker.DegenerateWarning)
        found = grad(polar, 2 * np.eye(2))
    np.testing.assert_allclose(found, [[0, 1.25], [-1.25, 0]], atol=1e-12)


def test_a_result_that_depends_on_a_choice_of_vectors_warns():
    weights = np.arange(9.0).reshape(3, 3)
    for f in (
        lambda a: np.sum(la.eigh(a)[1] * weights),
        lambda a: np.sum(la.svd(a)[0] * weights),
        lambda a: np.sum(np.real(la.eig(a)[1]) * weights),
    ):
        with pytest.warns(tracker.DegenerateWarning, match="values . and . coincide.*separate"):
            found = gradient(f, np.diag([3.0, 3.0, 1.0]))[0]
        assert np.all(np.isfinite(found))
        with pytest.warns(tracker.DegenerateWarning, match="values . and . coincide"):
            tracker.jvp(f, (np.diag([3.0, 3.0, 1.0]),), (np.ones((3, 3)),))


def test_the_curvature_of_values_that_coincide_warns():
    """Sums of the values have a curvature, but it depends on how the values separate."""

    def f(a):
        return np.sum(np.real(la.eigvals(a)) ** 3)

    def twice(t):
        return tracker.gradient(lambda t: tracker.gradient(lambda t: f(np.eye(3) + t * A), t)[0], t)

    both = np.eye(3), A
    np.testing.assert_allclose(grad(f, both[0]), 3 * np.eye(3), atol=1e-12)
    ways = (lambda: twice(0.0), lambda: tracker.jvp(lambda a: grad(f, a), both[:1], both[1:]))
    compiled = tracker.jit(twice)
    for run in (*ways, lambda: compiled(0.0), lambda: compiled(0.0)):
        with pytest.warns(tracker.DegenerateWarning, match="eigenvalues . and . coincide"):
            run()
    apart = np.diag([1.0, 2.0, 4.0])
    np.testing.assert_allclose(tracker.hvp(f, apart, np.eye(3)), 6 * apart, atol=1e-12)


def test_vectors_of_a_zero_singular_value_warn():
    a = np.outer([1.0, 2, 3, 4], [1.0, -1.0])
    weights = np.arange(8.0).reshape(4, 2)
    with pytest.warns(tracker.DegenerateWarning, match="singular value is zero.*full rank"):
        found = gradient(lambda a: np.sum(la.svd(a, False)[0] * weights), a)[0]
    assert np.all(np.isfinite(found))


def test_only_one_triangle_is_read():
    for f in (la.cholesky, la.eigvalsh, lambda a: la.eigh(a)[0]):
        assert np.all(np.triu(grad(lambda a, f=f: np.sum(f(a) ** 3), P), 1) == 0)
    found = grad(lambda a: 2 * np.sum(np.log(np.diag(la.cholesky(a)))), P)
    np.testing.assert_allclose((found + found.T) / 2, la.inv(P))


def test_cond_of_a_singular_matrix_is_infinite():
    for p in (None, 1, "fro"):
        for a in (np.zeros((2, 2)), np.array([[1.0, 1.0], [1.0, 1.0]])):
            with np.errstate(divide="ignore"):
                want, found = la.cond(a, p), tracker.data(la.cond(param(a), p))
            assert found == want or min(found, want) > 1e15
    stack = np.stack([SINGULAR, A])
    np.testing.assert_array_equal(np.isinf(tracker.data(la.cond(param(stack), 1))), [True, False])
    for p in (None, "fro"):
        assert la.cond(param(np.ones((0, 3, 3))), p).shape == (0,)


def test_singular_values_of_lstsq_have_the_precision_of_both():
    single, ones = np.float32(A), np.ones(len(A))
    for a, b in ((single, ones), (single, np.float32(ones)), (A, np.float32(ones))):
        for cutoff in (None, 1e-3):
            pairs = zip(la.lstsq(a, b, cutoff), la.lstsq(param(a), b, cutoff), strict=True)
            for theirs, ours in pairs:
                dtype = np.asarray(theirs).dtype
                assert ours.dtype == dtype
                if dtype.kind == "f":
                    near = 100 * np.finfo(dtype).eps
                    np.testing.assert_allclose(tracker.data(ours), theirs, near, near)


# What NumPy refuses -------------------------------------------------------------------------------


@pytest.mark.parametrize("f, a", [
    (la.inv, SINGULAR), (la.inv, x(2, 3)), (la.inv, x(3)), (la.det, x(2, 3)), (la.cholesky, -P),
    (la.cholesky, x(2, 3)), (la.eigh, x(2, 3)), (la.eigvals, x(2, 3)), (la.svd, x(3)),
    (la.qr, x(3)),
    (lambda a: la.solve(a, V), SINGULAR),
    (lambda a: la.solve(a, V), x(2, 3)),
    (lambda a: la.lstsq(a, V), x(2, 3)),
    (lambda a: la.matrix_power(a, -1), SINGULAR),
    (lambda a: la.tensorsolve(a, V), x(3, 2)),
])  # fmt: skip
def test_errors_are_numpys(f, a):
    with pytest.raises(np.linalg.LinAlgError) as theirs:
        f(a)
    with pytest.raises(np.linalg.LinAlgError) as ours:
        f(param(a))
    assert str(ours.value).split() == str(theirs.value).split()


def test_refusals():
    with pytest.raises(ValueError, match="Unrecognized mode 'x'"):
        la.qr(param(A), mode="x")
    with pytest.raises(ValueError, match="UPLO argument must be 'L' or 'U'"):
        la.eigh(param(A), UPLO="x")
    with pytest.raises(TypeError, match="float16 is unsupported in linalg"):
        la.inv(param(np.float16(A)))
    with pytest.raises(ValueError, match="can't be both set"):
        la.pinv(param(A), 1e-3, rtol=1e-3)
    for bad in ("x", 3, 0):
        with pytest.raises(ValueError, match="Invalid norm order"):
            la.norm(param(A), bad)


@pytest.mark.parametrize("a", [np.zeros((2, 2)), np.zeros((2, 3)), np.diag([2.0, 0.0])])
def test_a_zero_singular_value_has_derivative_zero_in_both_modes(a):
    t = np.arange(1.0, 1 + a.size).reshape(a.shape)
    s, ds = tracker.jvp(la.svdvals, (a,), (t,))
    np.testing.assert_array_equal(ds[s == 0], 0)
    (g,) = tracker.pullback(la.svdvals, a)[1](np.ones_like(s))
    np.testing.assert_allclose(np.sum(g * t), np.sum(ds))


def _by_svd(full):
    def rebuilt(a):
        u, s, vh = la.svd(a, full)
        return (u[:, : len(s)] * s) @ vh[: len(s)]

    return rebuilt


def _by_eigh(a):
    w, v = la.eigh((a + np.conj(a.T)) / 2)
    return v @ np.diag(w) @ np.conj(v.T)


def _by_hermitian_svd(a):
    u, s, vh = la.svd((a + np.conj(a.T)) / 2, hermitian=True)
    return (u * s) @ vh


GENERAL = [_by_svd(True), _by_svd(False)]
HERMITIAN = [*GENERAL, _by_eigh, _by_hermitian_svd]
REBUILT = {
    "full rank": (GENERAL, x(4, 4)),
    "rank 3": (HERMITIAN, np.diag([3.0, 2, 1, 0])),
    "rank 2": (GENERAL, x(4, 2) @ x(2, 4, seed=1)),
    "rank 1": (GENERAL, np.outer(np.sqrt([2.0, 3, 5, 7]), [1.0, -1.1, 1.3, 2.1])),
    # Where entries cancel exactly, some kernels find exact zeros, and others small numbers.
    "integers": (GENERAL, np.outer([1.0, 2, 3, 4], [1.0, -1, 1, 2])),
    "ones": (GENERAL, np.ones((4, 4))),
    "ones of 5 by 3": (GENERAL, np.ones((5, 3))),
    "rank 2 of 5 by 4": (GENERAL, x(5, 2) @ x(2, 4, seed=1)),
    "rank 3 of 4 by 5": (GENERAL, x(4, 3) @ x(3, 5, seed=1)),
    "complex, rank 1": (GENERAL, z(3, 1) @ z(1, 3)),
    "symmetric, rank 2": (HERMITIAN, x(4, 2) @ x(4, 2).T),
    "Hermitian, rank 1": (HERMITIAN, z(3, 1) @ np.conj(z(3, 1).T)),
}


def _weighed(rebuilt, a):
    """A weighted sum of the rebuilt matrix, and its gradient."""
    weights = x(*a.shape, seed=2) + (1j * x(*a.shape, seed=3) if np.iscomplexobj(a) else 0)
    of_half = (weights + np.conj(weights.T)) / 2 if rebuilt in HERMITIAN[2:] else weights
    return (lambda a: np.sum(np.real(np.conj(weights) * rebuilt(a)))), of_half


@pytest.mark.parametrize("name", REBUILT)
def test_a_rebuilt_matrix_has_the_identity_as_derivative(name):
    ways, a = REBUILT[name]
    for rebuilt in ways:
        f, want = _weighed(rebuilt, a)
        np.testing.assert_allclose(gradient(f, a)[0], want, rtol=1e-9, atol=1e-9)
    compiled = tracker.jit(lambda a: gradient(f, a)[0])
    for _ in range(2):
        np.testing.assert_allclose(compiled(a), want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rebuilt", GENERAL)
@pytest.mark.parametrize("a", [np.diag([3.0, 2, 1, 0]), x(4, 3) @ x(3, 4, seed=1)])
def test_a_rebuilt_matrix_forward_and_to_second_order(rebuilt, a):
    f, want = _weighed(rebuilt, a)
    t = x(4, 4, seed=3)
    _, slope = tracker.jvp(f, (a,), (t,))
    np.testing.assert_allclose(slope, np.sum(want * t), rtol=1e-9)
    found = tracker.hvp(lambda a: np.sum(want * rebuilt(a) ** 2), a, t)
    np.testing.assert_allclose(found, 2 * want * t, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rebuilt, a", [
    (_by_svd(True), np.zeros((3, 3))), (_by_svd(False), np.diag([3.0, 0, 0])),
    (_by_svd(True), np.eye(4, 3) * [2.0, 1, 0]),
    (_by_svd(True), np.diag([2.0, 1, 0]).astype(complex)), (_by_svd(True), np.eye(3)),
    (_by_eigh, np.zeros((3, 3))), (_by_eigh, np.eye(3)), (_by_hermitian_svd, np.diag([2.0, 0, 0])),
])  # fmt: skip
def test_a_rebuilt_matrix_with_undetermined_factors_warns(rebuilt, a):
    f, _ = _weighed(rebuilt, a)
    with pytest.warns(tracker.DegenerateWarning):
        gradient(f, a)
    with pytest.warns(tracker.DegenerateWarning):
        tracker.jvp(f, (a,), (z(*a.shape) if np.iscomplexobj(a) else x(*a.shape, seed=3),))


def test_the_curvature_where_several_singular_values_vanish_warns():
    a = x(4, 2) @ x(2, 4, seed=1)
    f, _ = _weighed(_by_svd(True), a)
    with pytest.warns(tracker.DegenerateWarning, match="singular value"):
        tracker.hvp(f, a, x(4, 4, seed=3))


def test_the_pullback_of_cholesky_uses_little_memory():
    y, g = 3 * np.eye(200) + np.tri(200) / 200, np.ones((200, 200))
    assert peak_bytes(lambda: decompositions.cholesky_pull.evaluate(y, g)) < 3.3 * y.nbytes


@pytest.mark.parametrize("make", [positive, cpositive])
def test_the_pullback_of_cholesky_is_blocked(make, monkeypatch):
    y, g = np.linalg.cholesky(make(7, 2)), z(2, 7, 7) if make is cpositive else x(2, 7, 7)
    whole = decompositions._cholesky_pull(y, g)
    monkeypatch.setattr(decompositions, "_ROWS", 3)
    np.testing.assert_allclose(decompositions._cholesky_pull(y, g), whole, rtol=1e-12, atol=1e-12)
