"""Products of integers, booleans and mixed dtypes compile completely, in every layout."""

import re

import numpy as np
import pytest
from compiled import agree
from pairwise_parameters import crossed

from tracker import gradient, jit

KINDS = ["?", "i1", "u1", "i2", "i4", "u4", "i8", "u8"]


def whole(kind, *shape):
    info = np.iinfo(kind) if kind != "?" else None
    rng = np.random.default_rng(len(shape))
    if info is None:
        return rng.random(shape) < 0.1
    return rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)


def products(a, b, c, v):
    """a (5, 7), b (3, 7, 6), c (4, 1, 5, 9), v (7,)."""
    return (
        *(a @ b, a @ b[0], v @ b, a @ v, v @ v, b.mT @ v, b.mT @ a.T, a.T @ a, a @ a.T),
        *(a.T @ c, c.mT @ a[:, ::2], c[..., ::-2].mT @ a, a[::-1] @ v[::-1], c @ c[..., :5, :].mT),
        *(np.dot(a, b), np.inner(a, v), np.tensordot(a, b, axes=[[1], [1]]), np.outer(v, v)),
        *(np.einsum("ij,kjl->kil", a, b), np.einsum("ij,ij->i", a, a), np.vecdot(a, v)),
        *(np.kron(a, a[:2]), np.matvec(b.mT, v), np.vecmat(v, b), np.linalg.multi_dot([a, b[0]])),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_integers_and_bools(kind):
    args = whole(kind, 5, 7), whole(kind, 3, 7, 6), whole(kind, 4, 1, 5, 9), whole(kind, 7)
    agree(products, *args, tolerance=0, strict=True)


@pytest.mark.parametrize(
    "left, right", [("f4", "f8"), ("i4", "f4"), ("f8", "c8"), ("i8", "u1"), ("?", "f8")]
)
def test_mixed_dtypes(left, right):
    a, b = np.arange(42).reshape(6, 7).astype(left), np.arange(63).reshape(7, 9).astype(right)

    def f(a, b):
        return a @ b, b.T @ a.T, a[0] @ b, np.einsum("ij,jk->k", a, b)

    for found, want in zip(jit(f, strict=True)(a, b), f(a, b), strict=True):
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=1e-6)


def test_gradients_of_mixed_dtypes():
    a, b = np.linspace(0, 1, 48).reshape(6, 8), np.linspace(-1, 2, 48, dtype="f4").reshape(8, 6)
    n = np.arange(64).reshape(8, 8)

    def f(a, b):
        return np.sum((a @ n @ b) ** 2)

    found = jit(lambda *ab: gradient(f, *ab), strict=True)(a, b)
    for x, y in zip(found, gradient(f, a, b), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-5)


def test_sums_of_products_keep_the_dtype_of_their_terms():
    small, wide = np.full(9, 100, "i1"), np.linspace(0, 1, 4)

    def f(a, b):
        return (
            *(np.einsum("i->", a), np.einsum("i,i", a, a), np.vecdot(a, a), np.vdot(a > 0, a > 9)),
            *(np.sum(a, dtype="i1"), np.prod(a, dtype="i2"), np.einsum("i,j->j", a, b)),
        )

    want = f(small, wide)
    for x, y in zip(jit(f, strict=True)(small, wide), want, strict=True):
        assert np.result_type(x) == np.result_type(y)
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("kind", [*KINDS, "f4", "f8", "c8", "c16"])
def test_convolutions(kind):
    if np.dtype(kind).kind in "fc":
        turn = 1 + 2j if kind[0] == "c" else 1
        a, v = ((np.linspace(-1, 2, n) * turn).astype(kind) for n in (40, 7))
    else:
        a, v = whole(kind, 40), whole(kind, 7)

    def f(a, v):
        parts = [g(*xs, mode) for mode in ("full", "same", "valid") for xs in ((a, v), (v, a))
                 for g in (np.convolve, np.correlate)]  # fmt: skip
        return (*parts, np.convolve(a, v[:1]), np.convolve(a[::-2], v))

    for found, want in zip(jit(f, strict=True)(a, v), f(a, v), strict=True):
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("m", [3, 30])
def test_nans_stay_within_the_reach_of_a_convolution(m):
    a, v = np.cos(np.arange(40.0)), np.linspace(-1, 2, m)
    v[1], v[-1] = np.nan, np.inf
    agree(
        lambda a, v: np.convolve(a, v),
        a,
        v,
        others=[(v, a), (a, v[::-1])],
        tolerance=1e-10,
        strict=True,
    )


@pytest.mark.parametrize("m", [5, 30])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_the_gradient_of_a_convolution_takes_no_more_work(m, mode):
    a, v = np.cos(np.arange(3000.0)), np.linspace(-1, 2, m)

    def slopes(a, v):
        return gradient(lambda a, v: np.sum(np.convolve(a, v, mode) ** 2), a, v)

    fast = agree(slopes, a, v, tolerance=1e-10, strict=True)
    counts = re.findall(r"([0-9,]+) operations", fast.explain(a, v))
    assert 4 * m * a.size < sum(int(n.replace(",", "")) for n in counts) < 20 * m * a.size


VECTORS = {
    "plain": lambda v: v,
    "strided": lambda v: np.repeat(v, 3)[::3],
    "backwards": lambda v: v[::-1].copy()[::-1],
}
MATRICES = {
    "C": lambda x: x,
    "Fortran": np.asfortranarray,
    "part": lambda x: np.pad(x, ((2, 1), (3, 4)))[2:-1, 3:-4],
}


@crossed(
    size=[(700, 30), (9001, 1), (9100, 2), (31, 700), (4, 2250), (5, 2251)],
    matrix=MATRICES,
    vector=VECTORS,
    dtype=[np.float64, np.float32],
)
def test_a_matrix_times_a_vector(size, matrix, vector, dtype):
    """From 9000 elements on, a part of the rows at a time."""
    m, k = size
    rng = np.random.default_rng(0)
    x = MATRICES[matrix](rng.normal(size=(m, k)).astype(dtype))
    v, w = (VECTORS[vector](rng.normal(size=n).astype(dtype)) for n in (k, m))

    def f(x, v, w):
        return x @ v, x.T @ w, w @ x

    compiled, rtol = jit(f), 1e-3 if dtype == np.float32 else 1e-11
    for _ in range(2):
        for found, want in zip(compiled(x, v, w), f(x, v, w), strict=True):
            assert found.dtype == dtype
            np.testing.assert_allclose(found, want, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_matrices_of_middling_size_are_split(dtype):
    """BLAS takes one thread for a smaller matrix, and a larger one is worth several. The size is
    compared at run time: the text is the same for all sizes, and so is the result."""
    rng = np.random.default_rng(0)
    compiled = jit(lambda x, v, w: (x @ v, x.T @ w, w @ x), strict=True)
    for m, k in ((100, 50), (179, 50), (181, 50), (300, 50), (360, 50), (30_000, 50), (60, 3000)):
        x, v, w = (rng.normal(size=s).astype(dtype) for s in ((m, k), k, m))
        for _ in range(2):
            got = compiled(x, v, w)
        x, v, w = (a.astype(np.float64) for a in (x, v, w))
        for found, want in zip(got, (x @ v, x.T @ w, w @ x), strict=True):
            assert found.dtype == dtype
            np.testing.assert_allclose(found, want, rtol=1e-3, atol=np.finfo(dtype).eps * 4000)
        calls = re.findall(r"call .*@tk\.dgemv\(", compiled.llvm(x, v, w))
        assert len(calls) == 3


@pytest.mark.parametrize("turned", [False, True])
def test_a_product_with_its_own_transpose_is_made_of_one_array(turned):
    """Half of it is computed, so that it is as symmetric as NumPy's."""
    x = np.random.default_rng(0).normal(size=(300, 60))

    def f(x):
        d = x - np.mean(x, axis=0)
        return d @ d.T if turned else d.T @ d

    fast = jit(f, strict=True)
    for _ in range(2):
        found = fast(x)
        np.testing.assert_allclose(found, f(x), rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(found, found.T)
    assert fast.explain(x).count("kept: ") == 1
