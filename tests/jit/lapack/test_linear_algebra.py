"""Linear algebra without returning to Python: LAPACK's routines, and loops for small matrices."""

import numpy as np
import pytest
from compiled import agree

import tracker
from tracker import gradient, jit

la = np.linalg
SIZES = [1, 2, 3, 6, 19, 20, 21, 45]  # loops below, LAPACK above


def given(n):
    rng = np.random.default_rng(n)
    a = rng.normal(size=(n, n))
    return a, a @ a.T + n * np.eye(n), rng.normal(size=n), rng.normal(size=(n, 3))


@pytest.mark.parametrize("n", SIZES)
def test_solving(n):
    a, _, b, several = given(n)
    lower = np.tril(a) + 3 * n * np.eye(n)

    def f(a, b, several):
        both = (la.solve(a, b), la.solve(a, several), la.solve(a.T, b), la.solve(a.T, several))
        return (*both, la.inv(a), la.inv(a.T), la.det(a / np.sqrt(n)), *la.slogdet(a))

    agree(f, a, b, several, tolerance=1e-8, strict=True)
    agree(f, lower, b, several, tolerance=1e-8, strict=True)
    agree(f, lower.T.copy(), b, several, tolerance=1e-8, strict=True)


@pytest.mark.parametrize("n", SIZES)
def test_decompositions(n):
    a, s, _, _ = given(n)
    tall = np.vstack([a, a[:1] + 1, a[:1] - 2])

    def f(s, tall):
        values = (la.eigvalsh(s), la.svdvals(tall))
        return (
            *(la.cholesky(s), la.cholesky(s, upper=True)),
            *(*la.eigh(s), *la.eigh(s, "U"), *values),
            *(*la.svd(tall), *la.svd(tall.T, full_matrices=False)),
            *(*la.qr(tall), *la.qr(tall, "complete"), *la.qr(tall.T)),
        )

    agree(f, s, tall, tolerance=1e-8, strict=True)


@pytest.mark.parametrize("n", [2, 6, 30])
def test_least_squares(n):
    a, _, _, several = given(n)
    tall = np.vstack([a, a[:1] + 1, a[:1] - 2])
    right = np.vstack([several, several[:2]])

    def f(tall, right, several):
        return (
            *(*la.lstsq(tall, right)[:2], la.lstsq(tall.T, several, rcond=1e-3)[0]),
            *(la.pinv(tall), la.pinv(tall.T), la.pinv(np.stack([tall, tall[::-1]]), rtol=1e-2)),
        )

    agree(f, tall, right, several, tolerance=1e-8, strict=True)
    lacking = np.outer(np.arange(n) + 1.0, np.ones(n))
    agree(lambda a: (la.pinv(a),), lacking, tolerance=1e-8, strict=True)

    def slopes(a, b):
        return gradient(lambda *ab: np.sum(la.lstsq(*ab)[0]), a, b)

    slope = agree(slopes, tall, right, tolerance=1e-8, strict=True)
    assert "host" not in slope.explain(tall, right).replace("0 host", "")


@pytest.mark.parametrize("n", [2, 7, 25])
def test_stacks(n):
    a, s, b, several = given(n)
    x = np.stack([[a, a.T, s]] * 2)

    def f(x, b, several):
        return (
            *(la.solve(x, several), la.solve(x[0, 0], x), la.solve(x.mT, np.stack([several] * 3))),
            *(la.inv(x), la.det(x / np.sqrt(n)), la.slogdet(x)[1], la.solve(x, b[:, None])),
            *(la.cholesky(x[:, 2]), la.eigh(x)[1], la.svd(x)[0], la.qr(x)[1]),
        )

    agree(f, x, b, several, tolerance=1e-8, strict=True)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.complex128])
def test_stacks_of_products(kind):
    rng = np.random.default_rng(0)

    def array(*shape):
        numbers = rng.normal(size=shape).astype(kind)
        return numbers * (1 + 2j) if kind == np.complex128 else numbers

    def f(a, b, c, d):
        small = (a @ b, a @ b[0], a[:, :1] @ b, a.mT @ c[..., None], a.mT @ c[0, 0])
        rows = (c[:, :, None] @ a, c[0, 0] @ a)
        large = (d @ d.mT, d @ d[0, 0].T, d.mT @ d, d[..., ::2] @ d[..., ::2].mT, d @ d[0, 0, 0])
        return (*small, *rows, *large)

    args = array(4, 5, 3, 2), array(4, 5, 2, 3), array(4, 5, 3), array(2, 2, 11, 9)
    tolerance = 1e-4 if kind == np.float32 else 1e-11
    agree(f, *args, tolerance=tolerance, strict=True)


@pytest.mark.optimised
def test_a_matrix_is_factored_once():
    a, _, b, _ = given(25)

    def loss(a, b):
        return b @ la.solve(a, b) + la.slogdet(a)[1] + np.sum(la.inv(a.T))

    compiled = jit(lambda a, b: gradient(loss, a, b), strict=True)
    np.testing.assert_allclose(compiled(a, b)[0], gradient(loss, a, b)[0], rtol=1e-8)
    text = compiled.llvm(a, b)
    assert text.count("call i64 @tk.dlu(") == 1
    assert text.count("call i64 @tk.dsolve(") == 2
    assert "routine: lu of f64[25,25]" in compiled.explain(a, b)


@pytest.mark.parametrize("n", [1, 2, 24, 31, 32, 33, 64, 70])
def test_the_pullback_of_cholesky(n):
    _, s, _, _ = given(n)
    weights = np.random.default_rng(0).normal(size=(n, n))
    stack = np.stack([s, s + 1])

    def f(a):
        return np.sum(la.cholesky(a) * weights)

    compiled = agree(
        lambda a: gradient(f, a)[0], s, others=[(stack,)], tolerance=1e-11, strict=True
    )
    assert np.all(np.triu(compiled(s), 1) == 0)


SINGULAR = np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])


def test_determinants_of_singular_matrices():
    compiled = jit(lambda a: (la.det(a), *la.slogdet(a)), strict=True)
    assert compiled(np.eye(3)) == (1, 1, 0)
    assert compiled(SINGULAR) == (0, 0, -np.inf)
    scales = np.diag([1e200, 1e200, 1e-300])
    np.testing.assert_allclose(compiled(scales)[0], la.det(scales), rtol=1e-12)
    swapped = np.array([[0.0, 2], [3, 0]])
    np.testing.assert_allclose(
        jit(lambda a: (la.det(a), *la.slogdet(a)))(swapped), (-6, -1, np.log(6)), rtol=1e-15
    )


@pytest.mark.parametrize("n", [1, 4, 10, 30])
@pytest.mark.parametrize("form", ["cholesky", "slogdet"])
def test_the_log_density_of_a_gaussian(n, form):
    a, _, mean, _ = given(n)
    x = np.linspace(-1, 1, n)

    def density(mean, b):
        s = b @ b.T + n * np.eye(n)
        d = x - mean
        if form == "slogdet":
            return -0.5 * d @ la.solve(s, d) - 0.5 * la.slogdet(s)[1]
        factor = la.cholesky(s)
        return -0.5 * np.sum(la.solve(factor, d) ** 2) - np.sum(np.log(np.diag(factor)))

    compiled = jit(lambda *args: tracker.withgradient(density, *args), strict=True)
    want = tracker.withgradient(density, mean, a)
    for _ in range(2):
        found = compiled(mean, a)
        np.testing.assert_allclose(found.val, want.val, rtol=1e-12)
        for x_, y_ in zip(found.grad, want.grad, strict=True):
            np.testing.assert_allclose(x_, y_, rtol=1e-9, atol=1e-12)


NOTHING = {
    "det": la.det,
    "slogdet": la.slogdet,
    "inv": la.inv,
    "cholesky": la.cholesky,
    "eigh": la.eigh,
    "eigvals": la.eigvals,
    "svd": la.svd,
    "qr": la.qr,
    "pinv": la.pinv,
    "solve": lambda a: la.solve(a, np.zeros((0, 2)) if a.ndim == 2 else a),
    "a fold of it": lambda a: np.sum(la.det(a)),
}


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3)])
@pytest.mark.parametrize("name", NOTHING)
def test_empty_matrices(name, shape):
    """What NumPy says of them is known when they are compiled."""
    f, a = NOTHING[name], np.zeros(shape)
    want, compiled = f(a), jit(f, strict=True)
    for _ in range(2):
        found = compiled(a)
        assert type(found) is type(want)
        pairs = zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]
        for x, y in pairs:
            np.testing.assert_array_equal(x, y, strict=True)


@pytest.mark.parametrize("shape", [(2, 40, 40), (40, 40)])
def test_matrices_with_gaps_are_copied_and_factored_once(shape):
    """The pullback asks for their transposes."""
    rng = np.random.default_rng(0)
    whole = np.zeros((*shape[:-2], 45, 80))
    whole[..., :40, ::2] = rng.normal(size=shape) + 20 * np.eye(40)
    a, b = whole[..., :40, ::2], rng.normal(size=(40, 3))

    def loss(a):
        return np.sum(np.linalg.solve(a, b) ** 2) + np.sum(np.linalg.inv(a) ** 3)

    fast = agree(lambda a: tracker.gradient(loss, a)[0], a)
    assert fast.explain(a).count("routine: lu of") == 1
