"""Rewrites of matrix products: which products are left, and the same values."""

import numpy as np
import pytest
from compare import compiled

import tracker
from tracker.ir.passes.common_subexpressions import common_subexpressions
from tracker.ir.passes.dead_code import dead_code
from tracker.ir.passes.linalg_dtypes import legalize_linalg_dtypes
from tracker.ir.passes.manager import run
from tracker.ir.passes.matmul_rewrites import rewrite_products
from tracker.ir.passes.simplify import simplify

PASSES = [
    *(legalize_linalg_dtypes, common_subexpressions, simplify, common_subexpressions),
    *(rewrite_products, common_subexpressions, dead_code),
]
RNG = np.random.default_rng(0)


def products(f, *args):
    """The shapes of the products that are left."""
    function = run(tracker.trace(f, *args), PASSES, check=True)
    return [eqn.out.type.shape for eqn in function.eqns if eqn.op.name == "matmul"]


def normal(*shape):
    return RNG.standard_normal(shape)


# Equal rows, or columns ---------------------------------------------------------------------------

A, B, C = (RNG.standard_normal(shape) for shape in ((20, 30), (30, 40), (40, 50)))
STACK, ROW = RNG.standard_normal((3, 30, 40)), RNG.standard_normal(30)


def squared(a):
    return a @ a


def chain(a, b, c):
    return np.sum(0.5 * a @ b @ c)


@pytest.mark.parametrize(
    ("f", "args", "count", "slim"),
    [
        (lambda a, b, c: tracker.gradient(chain, a, b, c), (A, B, C), 6, 3),
        (lambda b: np.broadcast_to(b[0, 0], (20, 30)) @ b, (B,), 1, 1),
        (lambda r, b: np.broadcast_to(r, (20, 30)) @ b, (ROW, B), 1, 1),
        (lambda r, x: np.broadcast_to(r, (3, 20, 30)) @ x, (ROW, STACK), 1, 1),
        (lambda r, x: np.broadcast_to(r[:1], (30,)) @ x[0], (ROW, STACK), 1, 0),
        (lambda r, b: np.broadcast_to(r, (20, 30)) @ b[:, 0], (ROW, B), 0, 0),  # an inner product
        (lambda r, a: np.broadcast_to(r[:20, None], (20, 30)) @ a.T, (ROW, A), 1, 0),
        (lambda r: squared(np.broadcast_to(r[:, None], (30, 30))), (ROW,), 1, 1),
        (
            lambda r: np.broadcast_to(r, (9, 30)) @ np.broadcast_to(r[:, None], (30, 8)),
            (ROW,),
            0,
            0,
        ),
    ],
)
def test_one_of_several_equal_rows_is_multiplied(f, args, count, slim):
    found = products(f, *args)
    assert len(found) == count
    assert sum(1 in shape[-2:] for shape in found if len(shape) > 1) == slim
    compiled(f, *args)


def test_infinite_numbers_and_nans_stay_in_their_rows():
    b = B.copy()
    b[3, 4], b[5, 6] = np.inf, np.nan
    compiled(lambda b: np.broadcast_to(b[0, 0], (20, 30)) @ b, b)


# Rows of one matrix -------------------------------------------------------------------------------

X, W, V, H = normal(8, 6), normal(6, 7), normal(7, 6), normal(6, 6)


def each_row(product, rows=range(8)):
    return lambda x, w: sum(np.sum(np.tanh(product(x, i, w))) for i in rows)


@pytest.mark.parametrize(
    ("f", "args", "left"),
    [
        (each_row(lambda x, i, w: x[i] @ w), (X, W), [(8, 7)]),
        (each_row(lambda x, i, v: v @ x[i]), (X, V), [(8, 7)]),
        (each_row(lambda x, i, w: x[i] @ w, (6, 2, 4, 1, 5)), (X, W), [(6, 7)]),
        (each_row(lambda x, i, w: x[i : i + 1] @ w), (X, W), [(8, 7)]),
        (each_row(lambda x, i, v: v @ x[i].reshape(6, 1)), (X, V), [(8, 7)]),
        (each_row(lambda x, i, w: x[i] @ w, range(3)), (X, W), [(7,)] * 3),
        (each_row(lambda x, i, w: x[i] @ w, range(0, 60, 12)), (normal(60, 6), W), [(7,)] * 5),
        (each_row(lambda x, i, w: w.T[2:] @ x[i, 1:4], range(7)), (X, W[:3]), [(7, 5)]),
        (each_row(lambda x, i, w: x[i] @ w[:, i:], range(3)), (X, W), [(7,), (6,), (5,)]),
        (each_row(lambda x, i, w: x[i] @ w[:, i : i + 1], range(7)), (X, W), []),  # inner products
    ],
)
def test_products_of_rows_with_one_factor_are_one_product(f, args, left):
    assert products(f, *args) == left
    compiled(f, *args)


# Sums of products ---------------------------------------------------------------------------------


def outer(x, y, pairs):
    total = 0.0
    for i, j in pairs:
        total = total + x[i].reshape(-1, 1) @ np.tanh(y[j]).reshape(1, -1)
    return total


def with_other_terms(x, y, z):
    early = outer(x, y, EQUAL[:4]) + z
    return np.exp(z) + (early + outer(x, y, EQUAL[4:])) * 2.0 + z


def with_partial_sums(x, y):
    half = outer(x, y, EQUAL[:4])
    return np.sum(np.cos(half)) + (half + outer(x, y, EQUAL[4:]))


def powers(a, b):
    return sum(np.tanh(a * k) @ np.sin(b * k) for k in range(1, 7))


Y, EQUAL = normal(8, 9), [(i, i) for i in range(8)]
SHUFFLED, REPEATED = (
    [(3, 2), (1, 7), (2, 0), (5, 5), (4, 1)],
    [(0, 2), (0, 7), (2, 0), (7, 5), (4, 5)],
)


@pytest.mark.parametrize(
    ("f", "args", "left"),
    [
        (lambda x, y: outer(x, y, EQUAL), (X, Y), [(6, 9)]),
        (lambda x, y: outer(x, y, SHUFFLED), (X, Y), [(6, 9)]),
        (lambda x, y: outer(x, y, REPEATED), (X, Y), []),  # two pairs with a factor in common
        (with_other_terms, (X, Y, normal(6, 9)), [(6, 9)]),
        (with_partial_sums, (X, Y), []),
        (powers, (normal(20, 3), normal(3, 30)), [(20, 30)]),
        (lambda a, b: powers(a.T, b.T), (normal(3, 20), normal(30, 3)), [(20, 30)]),
        (powers, (normal(4, 50), normal(50, 4)), [(4, 4)] * 6),  # large factors are not copied
    ],
)
def test_many_products_that_are_added_are_one(f, args, left):
    assert products(f, *args) == left
    compiled(f, *args)


def test_rows_in_any_order_are_a_slice():
    function = run(tracker.trace(lambda x, y: outer(x, y, SHUFFLED), X, Y), PASSES, check=True)
    assert "f64[5,6]" in str(function)


P, Q, R = normal(7, 7), normal(7, 7), normal(7, 7)
SIX = normal(4, 5), normal(4, 5), normal(5, 6)


def read_elsewhere(a, b, c):
    p = a @ c
    return np.sin(p) + (p + b @ c)


@pytest.mark.parametrize(
    ("f", "args", "count"),
    [
        *[
            (f, (P, Q, R), 1)
            for f in [
                lambda a, b, c: a @ c + b @ c,
                lambda a, b, c: c @ a + c @ b,
                lambda a, b, c: a @ c.T + (c @ b).T,
                lambda a, b, c: (c.T @ a).T + b @ c,
                lambda a, b, c: (a @ c).T + (b @ c).T,
                lambda a, b, c: c @ a.T + (b @ c.T).T,
                lambda a, b, c: (a @ c).T + c.T @ b,
                lambda a, b, c: a @ c + (b @ c + (a * b) @ c),
            ]
        ],
        (lambda a, b, c: a @ c + c @ b, (P, Q, R), 2),
        (lambda a, b, c: a @ c + b @ c.T, (P, Q, R), 2),
        (lambda a, b, c: a @ c - b @ c, (P, Q, R), 2),
        (lambda a, b, c: (a @ c).T + b @ c, (P, Q, R), 2),
        (read_elsewhere, (P, Q, R), 2),
        (lambda a, b, c: a @ c + b @ c, (P, Q, R[:, :2]), 2),  # adding takes as long
        (lambda a, b, c: a @ c + b @ c, (P[:2], Q[:2], R), 1),
        (lambda a, b, c: (a @ c).reshape(6, 4).T + b @ c, SIX, 2),
        (lambda a, b, c: (a @ c).reshape(24) + (b @ c).reshape(24, 1), SIX, 2),
        (lambda a, b, c: (a @ c).reshape(24) + (b @ c).reshape(24), SIX, 1),
    ],
)
def test_products_with_a_factor_in_common_are_one(f, args, count):
    assert len(products(f, *args)) == count
    compiled(f, *args)


# Batches of rows ----------------------------------------------------------------------------------


def layer(x, w):
    return np.sum(np.tanh(x @ w) ** 2)


@pytest.mark.parametrize(
    ("f", "args", "left"),
    [
        (lambda x, w: x @ w, (STACK, C), [(90, 50)]),
        (lambda x, w: x[:, :, None] @ w, (STACK, C), [(90, 50)]),
        (lambda x, w: x @ w, (STACK, STACK[0].T), [(90, 30)]),
        (lambda x, w: np.swapaxes(x, 1, 2) @ w, (STACK, B), [(3, 40, 40)]),
        (lambda x, w: x @ w, (STACK, np.stack([C] * 3)), [(3, 30, 50)]),
        (lambda x, w: x @ w, (A, np.stack([B] * 3)), [(3, 20, 40)]),
        (lambda x, w: x @ w, (A, np.stack([B[:, :1]] * 3)), [(3, 20)]),
        (lambda x, w: x @ w, (STACK[..., :0], C[:0]), []),
        (lambda x, w: tracker.gradient(layer, x, w), (STACK, C), [(90, 50), (90, 40), (40, 50)]),
        (
            lambda x, w: tracker.gradient(lambda w: layer(w, x[..., None]), w),
            (STACK[..., 0], normal(20, 30)),
            [(3, 20), (20, 30)],
        ),
    ],
)
def test_batches_times_a_matrix_are_one_product(f, args, left):
    assert products(f, *args) == left
    compiled(f, *args)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(7, 7), (5, 30), (30, 5)])
def test_the_gradient_of_a_gram_matrix_is_one_product(dtype, shape):
    f = lambda b: tracker.gradient(lambda b: np.sum(np.sin(b @ b.T) ** 2), b)  # noqa: E731
    b = normal(*shape).astype(dtype)
    assert len(products(f, b)) == 2
    compiled(f, b, rtol=1e-3 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("axes", [([0, 1], [0, 1]), ([1, 0], [1, 0])])
def test_the_gradient_of_a_gram_matrix_of_a_tensor(axes):
    f = lambda x: tracker.gradient(lambda x: np.sum(np.tensordot(x, x, axes) ** 2), x)  # noqa: E731
    x = normal(5, 6, 7)
    assert len(products(f, x)) == 2
    compiled(f, x)


def recurrent(w, h, x):
    state = np.zeros(6)
    loss = 0.0
    w = w[:, :6]
    for t in range(8):
        state = np.tanh(x[t] @ w + state @ h)
        loss = loss + np.sum(state**2)
    return np.real(loss)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_the_gradient_of_a_recurrent_network(dtype):
    """x @ w at once, a step each, the two gradients, and a step back each but for the first."""
    args = [a.astype(dtype) for a in (W, H, X)]
    if dtype is np.float64:
        f = lambda w, h, x: tracker.gradient(lambda w, h: recurrent(w, h, x), w, h)  # noqa: E731
        assert len(products(f, *args)) == 1 + 8 + 2 + 7
    tolerance = 2e-5 if dtype is np.float32 else 1e-11
    compiled(lambda *a: tracker.gradient(recurrent, *a), *args, rtol=tolerance)


# Outer and inner products -------------------------------------------------------------------------

COLUMN, LINE = normal(40, 1), normal(1, 50)
MATRIX, VECTOR = normal(40, 50), normal(50)


@pytest.mark.parametrize(
    ("f", "args", "count"),
    [
        (lambda a, b: a @ b, (COLUMN, LINE), 0),
        (lambda a, b: 1j * a @ b, (COLUMN, LINE), 0),
        (lambda a, b: np.stack([a, 2 * a]) @ b, (COLUMN, LINE), 0),
        (lambda a, b: tracker.gradient(lambda a: np.sum(np.sin(a @ b)), a)[0], (MATRIX, VECTOR), 1),
        (lambda a, b: a @ b, (np.arange(40)[:, None], np.arange(50)[None]), 1),  # exact as it is
    ],
)
def test_a_column_times_a_row_is_no_product(f, args, count):
    assert len(products(f, *args)) == count
    compiled(f, *args, rtol=1e-14)


@pytest.mark.parametrize("length", [3, 70, 3000])
@pytest.mark.parametrize(
    ("f", "dtype", "count"),
    [
        (lambda a, b: a @ b, np.float64, 0),
        (lambda a, b: a @ b, np.float32, 0),
        (lambda a, b: np.dot(a, a + b), np.float64, 0),
        (lambda a, b: a[None] @ b[:, None], np.float64, 0),
        (lambda a, b: a @ b[:, None], np.float64, 0),
        (lambda a, b: a.T @ b.astype(np.float32), np.float64, 0),
        (lambda a, b: a @ b, np.complex128, 1),
        (lambda a, b: a @ b, np.int64, 1),
    ],
)
def test_an_inner_product_is_a_sum(f, dtype, count, length):
    a, b = normal(2, length) * 8
    assert len(products(f, a.astype(dtype), b.astype(dtype))) == count
    compiled(f, a.astype(dtype), b.astype(dtype), rtol=1e-3 if dtype == np.float32 else 1e-9)


def test_zeros_have_the_signs_of_numpys_product():
    a, b = np.array([[-0.0], [0.0], [1.0]] * 20), np.array([[1.0, -1.0, 0.0, -0.0] * 20])
    compiled(lambda a, b: np.copysign(1.0, a @ b), a, b, rtol=0)


def test_outer_products_that_are_added_stay_one_product():
    def f(w, x):
        loss = lambda w: sum(np.sum(np.tanh(w @ x[i])) for i in range(12))  # noqa: E731
        return tracker.gradient(loss, w)[0]

    w, x = normal(20, 30), normal(12, 30)
    assert len(products(f, w, x)) <= 2
    compiled(f, w, x, rtol=1e-11)
