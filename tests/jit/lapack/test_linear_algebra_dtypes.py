"""Linear algebra of matrices of every dtype compiles whole, and gives NumPy's values and dtypes."""

import numpy as np
import pytest
from compiled import agree
from pairwise_parameters import crossed

import tracker
from tracker import gradient, jit

la = np.linalg
KINDS = ["f4", "c8", "c16", "i8"]


def matrix(kind, *shape):
    rng = np.random.default_rng(sum(shape))
    a = rng.normal(size=shape)
    if np.dtype(kind).kind == "c":
        a = a + 1j * rng.normal(size=shape)
    return (np.round(4 * a) if np.dtype(kind).kind == "i" else a).astype(kind)


def positive(a):
    return a @ np.conjugate(a).mT + a.shape[-2] * np.eye(a.shape[-2], dtype=a.dtype)


def of_values(w, v):
    """A function of a matrix: no phases, no signs."""
    return (v * np.expand_dims(w, -2) ** 2) @ np.conjugate(v).mT


def spectra(a):
    s = positive(a)
    values = la.eigvalsh(a), la.eigvalsh(a, "U"), la.eigh(a, "U")[0], la.eigh(s)[0]
    return (*values, of_values(*la.eigh(a)), of_values(*la.eigh(s, "U")))


def singular(a):
    u, s, vh = la.svd(a)
    thin, turned = la.svd(a, full_matrices=False), la.svd(a.mT)
    k = s.shape[-1]
    back = [
        (x[..., :k] * y[..., None, :]) @ z[..., :k, :] for x, y, z in ((u, s, vh), thin, turned)
    ]
    whole = la.svd(positive(a), hermitian=True)
    norms = la.norm(a, 2, (-2, -1)), la.norm(a, "nuc", (-2, -1)), la.cond(a), whole[1]
    return (*back, s, thin[1], la.svdvals(a), np.abs(u[..., :k]), np.abs(vh), *norms)


def triangular_factors(a):
    wide = a.mT
    parts = (*la.qr(a), *la.qr(wide), la.qr(a, "r"), la.qr(a, "complete")[1])
    return (*parts, np.abs(la.qr(a, "complete")[0][..., -1:]))


def general(a):
    w, v = la.eig(a)
    return (w, np.abs(v), a @ v - v * w[..., None, :], la.eigvals(a), la.eigvals(a.mT) ** 2)


CASES = {
    "general": (general, True),
    "solve": (lambda a, b: (la.solve(a, b), la.solve(a.mT, b), la.solve(a, b[..., :1])), True),
    "inv": (lambda a: (la.inv(a), la.inv(a.mT), la.matrix_power(a, -2)), True),
    "det": (lambda a: (la.det(a / 4), *la.slogdet(a), la.det(a.mT / 3)), True),
    "cholesky": (
        lambda a: (la.cholesky(positive(a)), la.cholesky(positive(a.mT), upper=True)),
        True,
    ),
    "spectra": (spectra, True),
    "singular": (singular, False),
    "qr": (triangular_factors, False),
    "pinv": (lambda a: (la.pinv(a), la.pinv(a.mT, rtol=1e-3)), False),
    "ranks": (lambda a: (la.matrix_rank(a), la.matrix_rank(a, tol=2.0)), False),
    "lstsq": (lambda a, b: (*la.lstsq(a, b), la.lstsq(a.mT, b[:-2], rcond=0.1)[0]), False),
}


def arguments(name, kind, n, batch):
    f, is_square = CASES[name]
    a = matrix(kind, *batch, n + (0 if is_square else 2), n)
    rest = (matrix(kind, *batch, a.shape[-2], 2),) if f.__code__.co_argcount > 1 else ()
    return f, (a, *rest)


def tolerance(kind):
    return 3e-4 if kind in ("f4", "c8") else 1e-8


def close(found, want, kind):
    found, want = np.asarray(found), np.asarray(want)
    assert (found.dtype, found.shape) == (want.dtype, want.shape)
    near = tolerance(kind)
    scale = np.abs(want).max(initial=1)
    np.testing.assert_allclose(found, want, rtol=near, atol=near * scale)


def is_taken(name, kind, size):
    """NumPy's least squares take one matrix."""
    return name != "lstsq" or not size[1]


@crossed(name=CASES, kind=KINDS, size=[(3, ()), (3, (2,)), (26, ())], where=is_taken)
def test_values(name, kind, size):
    f, args = arguments(name, kind, *size)
    with np.errstate(all="ignore"):
        agree(f, *args, tolerance=tolerance(kind), strict=True)


def loss(parts):
    return sum(np.sum(np.real(x * np.conjugate(x))) for x in parts if x.dtype.kind in "fc")


@crossed(name=[name for name in CASES if name != "ranks"], kind=["f4", "c8", "c16"], n=[3, 26])
def test_gradients(name, kind, n):
    f, args = arguments(name, kind, n, ())
    drops = name == "lstsq" and n == 26  # singular values above 0: NumPy sums what that adds

    def slopes(*xs):
        return gradient(lambda *ys: loss(f(*ys)), *xs)

    agree(slopes, *args, tolerance=tolerance(kind), strict=not drops)


@pytest.mark.optimised
@pytest.mark.parametrize("kind", ["f4", "c16"])
def test_a_matrix_of_any_dtype_is_factored_once(kind):
    a, b = matrix(kind, 25, 25), matrix(kind, 25)

    def f(a, b):
        return np.sum(np.real(la.solve(a, b))) + la.slogdet(a)[1] + np.sum(np.real(la.inv(a.T)))

    compiled = jit(lambda a, b: gradient(f, a, b), strict=True)
    close(compiled(a, b)[0], gradient(f, a, b)[0], kind)
    letter = "z" if kind == "c16" else "d"
    assert compiled.llvm(a, b).count(f"call i64 @tk.{letter}lu(") == 1


def test_cutoffs_of_a_stack():
    a, cutoffs = matrix("f8", 3, 5, 4), np.array([1e-9, 0.3, 0.6])
    compiled = jit(lambda a, c: la.pinv(a, rtol=c), strict=True)
    close(compiled(a, cutoffs), la.pinv(a, rtol=cutoffs), "f8")
    close(jit(lambda a: la.pinv(a, rtol=cutoffs))(a), la.pinv(a, rtol=cutoffs), "f8")


A = matrix("f8", 3, 3)
SINGULAR = np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])


@pytest.mark.parametrize("kind", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(
    "f, good, bad",
    [
        (la.inv, np.eye(3) + np.tri(3), np.ones((3, 3))),
        (la.inv, A, SINGULAR),
        (lambda a: la.solve(a, a[0]), np.eye(3) + np.tri(3).T, np.zeros((3, 3))),
        (lambda a: la.solve(a, np.ones(3)), A, SINGULAR),
        (lambda a: la.solve(np.tril(a), np.ones(3)), A, np.zeros((3, 3))),
        (la.cholesky, positive(A), -np.eye(3)),
        (la.cholesky, np.eye(30), -np.eye(30)),
        (la.svd, np.eye(3), np.full((3, 3), np.nan)),
        (la.eigvalsh, positive(A), np.full((3, 3), np.nan)),
        (la.eigh, np.eye(3), np.full((3, 3), np.nan)),
        (la.eig, np.eye(3), np.full((3, 3), np.nan)),
        (la.eig, np.eye(3), np.diag([1.0, np.inf, 2.0])),
    ],
)
def test_what_numpy_raises_is_raised(f, good, bad, kind):
    compiled, want = jit(f), f(good.astype(kind))
    parts = (lambda y: y) if isinstance(want, tuple) else lambda y: (y,)
    good, bad = good.astype(kind), bad.astype(kind)

    def check_good():
        for x, y in zip(parts(compiled(good)), parts(want), strict=True):
            close(x, y, kind)

    check_good()
    for _ in range(2):
        try:
            expected = f(bad)
        except la.LinAlgError as error:
            with pytest.raises(la.LinAlgError, match=str(error)):
                compiled(bad)
        else:
            for x, y in zip(parts(compiled(bad)), parts(expected), strict=True):
                np.testing.assert_array_equal(x, y)
    check_good()


def test_bools_are_numbers():
    a = np.tri(3, dtype=bool)
    agree(lambda a: (la.inv(a), la.solve(a, a), la.eigvalsh(a)), a, tolerance=1e-8, strict=True)


def test_singular_determinants_are_zero():
    for kind in ("f4", "c8", "c16"):
        a = np.array([[1, 2, 3], [2, 4, 6], [1, 0, 1]]).astype(kind)
        found = jit(lambda a: (la.det(a), *la.slogdet(a)), strict=True)(a)
        assert found == (0, 0, -np.inf)
        assert [x.dtype for x in found] == [kind, kind, a.real.dtype]


@pytest.mark.optimised
@pytest.mark.parametrize("kind, letter", [("f4", "s"), ("f8", "d"), ("c8", "c"), ("c16", "z")])
@pytest.mark.parametrize("shape", [(60, 50), (48, 30), (60, 100), (2, 50, 20)])
def test_half_of_a_gram_matrix_is_computed(kind, letter, shape):
    def f(a):
        return (a @ a.mT, a.mT @ a, a[..., ::2, :] @ a[..., ::2, :].mT, a @ (a + 1).mT)

    a = matrix(kind, *shape)
    compiled = agree(f, a, tolerance=tolerance(kind), strict=True)
    assert f"@tk.{letter}gram(" in compiled.llvm(a)


@pytest.mark.parametrize("kind", ["f4", "c16"])
def test_coinciding_values(kind):
    """Functions of the values alone are right, others warn, on each call."""
    a = np.eye(3, dtype=kind)
    for f in (lambda a: np.sum(la.eigvalsh(a) ** 2), lambda a: np.sum(la.svdvals(a) ** 2)):
        close(jit(lambda x, f=f: gradient(f, x)[0])(a), 2 * a, kind)

    def vectors(a):
        return np.sum(np.real(la.eigh(a)[1]))

    compiled = jit(lambda x: gradient(vectors, x)[0])
    for _ in range(3):
        with pytest.warns(tracker.DegenerateWarning, match="eigenvalues 0 and 1 coincide"):
            found = compiled(a)
        assert np.all(np.isfinite(found))
    assert compiled.cache_info().traces == 1
    with pytest.warns(tracker.DegenerateWarning, match="eigenvalues 1 and 2 coincide"):
        compiled(np.diag([1, 2, 2]).astype(kind))  # another pair, the same trace
    assert compiled.cache_info().traces == 1


def test_vanishing_values():
    weights = np.arange(8.0).reshape(4, 2)
    compiled = jit(lambda x: gradient(lambda a: np.sum(la.svd(a, False)[0] * weights), x)[0])
    for _ in range(3):
        with pytest.warns(tracker.DegenerateWarning, match="singular value is zero"):
            compiled(np.outer([1.0, 2, 3, 4], [1.0, -1.0]))
