"""NumPy's functions, methods and operators on tracked values, beyond the ops themselves.

A case is a function of arrays: NumPy's numbers, dtype and shape on tracked values, and `gradcheck`
to second order.
"""

import operator
import warnings

import numpy as np
import pytest
from cases import check
from op_rows import x, z

import tracker
from tracker import gradient, param

A, B, C = x(2, 3), x(2, 3, seed=1), x(2, 3, 4)
V, W = x(3), x(4)
M = np.array([[True, False, True], [False, False, True]])
I = np.array([2, 0, 2])  # noqa: E741

CASES = {
    # elementwise
    "round": (lambda a: np.round(a, 1) + a, A),
    "method round": (lambda a: a.round() * a, A),
    "sinc": (np.sinc, np.array([-1.3, -0.1, -1e-9, 0.0, 1e-5, 0.14, 0.16, 2.5])),
    "nan_to_num": (np.nan_to_num, A), "nan_to_num complex": (np.nan_to_num, z(3)),
    "angle": (np.angle, z(3)),
    "real imag": (lambda a: a.real * a.imag, z(3)),
    "imag of reals": (lambda a: a.imag + a.real, A),
    "conj": (lambda a: a.conj() * np.conjugate(a) * np.conj(a), z(3)),
    "abs of complex": (lambda a: abs(a) + np.abs(a) ** 2, z(3)),
    "sign of complex": (lambda a: np.sign(a), z(3)),
    "divmod": (lambda a, b: divmod(a, b)[1] + np.divmod(a, b)[0], A, np.abs(B) + 3),
    "reflected": (lambda a: 2 - a + 3 / (a + 4) + 2.0**a + 7 // (a + 9) + 7 % (a + 9), A),
    "array op tracked": (lambda a: B + a + B * a - B / (a + 5), A),
    "clip": (lambda a: np.clip(a, -1, 1) + a.clip(max=0.5) + np.clip(a, min=-0.5), A),
    "clip dtype": (lambda a: np.clip(a, -1, 1, dtype=np.float64) * a, A),
    "item is a Python number": (
        lambda a: a * a[0, 1].item() + np.array([1, 2, 3], np.float32) * a.tolist()[1][2],
        A.astype(np.float32)),
    "where": (lambda a, b: np.where(a > b, a * b, b), A, B),
    "where broadcast": (lambda a: np.where(M, a, 2.0), V),
    "power": (lambda a: a**2 + a**3 + a**4 + a**0 + a**1 + a**-1 + a**-2, A),
    "power of 2.0": (lambda a: a**2.0 + np.power(a, 3.0) + np.square(a), A),
    "sqrt power": (lambda a: a**0.5, np.abs(A)),
    # ufunc methods and keywords
    "add.reduce": (lambda a: np.add.reduce(a) + np.add.reduce(a, axis=None), A),
    "multiply.reduce": (lambda a: np.multiply.reduce(a, axis=1, keepdims=True), A),
    "maximum.reduce": (lambda a: np.maximum.reduce(a, axis=(0, 1)), A),
    "subtract.outer": (lambda a, b: np.subtract.outer(a, b) ** 2, A, V),
    "ufunc dtype": (lambda a: np.multiply(a, 2, dtype=np.float32), A.astype(np.float32)),
    "where without out": (
        lambda a: np.log(a, where=a > 0, out=None)[a > 0], np.array([-1.0, -0.5, 3.0])),
    "where of two": (lambda a, b: np.divide(a, b, where=b > 0, out=None)[b > 0], A, B),
    "where of several results": (lambda a: np.divmod(a, 0.7, where=M, out=(None, None))[1][M], A),
    "reduce where": (lambda a: np.logaddexp.reduce(a, axis=1, where=M, initial=0.5), A),
    "reduce where keepdims": (lambda a: np.logaddexp.reduce(a, None, where=M, keepdims=True), A),
    "reduce to a number": (lambda a: np.hypot.reduce(a, axis=None, initial=1.0), A),
    # reductions
    "sum": (lambda a: np.sum(a) + a.sum(0) + a.sum(axis=1, keepdims=True) + np.sum(a, (0, 1)), A),
    "sum where": (lambda a: np.sum(a, where=M, initial=2.0) + a.sum(axis=0, where=M), A),
    "sum dtype": (lambda a: np.sum(a, dtype=np.float64), A.astype(np.float32)),
    "mean": (lambda a: np.mean(a) * a.mean(-1, keepdims=True) + a.mean(0), A),
    "mean where": (lambda a: np.mean(a, where=M) + a.mean(axis=1, where=M, keepdims=True), A),
    "prod": (lambda a: np.prod(a) + a.prod(1, keepdims=True) + np.prod(a, where=M), A),
    "prod of zeros": (lambda a: np.prod(a, axis=1), np.array([[0.0, 2, 3], [0, 0, 2], [0, 0, 0]])),
    "max min": (lambda a: a.max() * np.min(a, axis=1) + np.amax(a, 1) - np.amin(a), A),
    "max where": (lambda a: np.max(a, axis=0, where=M, initial=-9.0), A),
    "var": (lambda a: np.var(a) + a.var(axis=0) + np.var(a, 1, ddof=1, keepdims=True), A),
    "var of complex": (np.var, z(4)),
    "std": (lambda a: np.std(a) + a.std(axis=0) + np.std(a, axis=1, ddof=1, keepdims=True), A),
    "std where": (lambda a: np.std(a, where=M), A),
    "cumsum": (
        lambda a: np.cumsum(a) ** 2 + a.cumsum(axis=1).sum() + np.add.accumulate(a)[0, 0], A),
    "ptp": (lambda a: np.ptp(a) + np.ptp(a, axis=0), A),
    "arg": (lambda a: a.ravel()[np.argmax(a)] * a[np.argmin(a, axis=0)[0]] + a.argsort() * a, A),
    "count": (lambda a: np.count_nonzero(a > 0) * a + np.any(a > 0) + a.all(), A),
    # shape
    "reshape": (lambda a: a.reshape(3, -1) * np.reshape(a, (3, 2)) + a.reshape((3, 2)), A),
    "reshape F": (lambda a: a.reshape(3, 2, order="F") * np.arange(6).reshape(3, 2), A),
    "ravel": (lambda a: np.ravel(a) * a.ravel() * a.flatten(), A),
    "reshape a vector F": (
        lambda a: a.ravel().reshape((3, -1), order="F") * np.arange(6).reshape(3, 2), A),
    "ravel F": (lambda a: a.ravel(order="F") * np.arange(6) + a.T.flatten("F"), A),
    "T": (lambda a: a.T * np.transpose(a) * a.transpose(1, 0) + a.transpose().mT.mT, A),
    "transpose": (lambda a: np.transpose(a, (2, 0, 1)) * a.transpose((2, 0, 1)), C),
    "negative axes": (lambda a: np.transpose(a, (-1, 0, 1)) + a.swapaxes(0, -1).swapaxes(1, 2), C),
    "moveaxis": (lambda a: np.moveaxis(a, 0, -1) * np.moveaxis(a, [0, 1], [2, 0]).sum(), C),
    "expand squeeze": (lambda a: np.squeeze(np.expand_dims(a, (0, 2))) + a[None].squeeze(0), A),
    "atleast": (lambda a: np.atleast_2d(a) + np.atleast_1d(a.sum()), V),
    "broadcast": (lambda a: np.broadcast_to(a, (4, 3)) * np.broadcast_arrays(a, W[:, None])[1], V),
    "concatenate": (lambda a, b: np.concatenate([a, b, np.ones((1, 3))]) ** 2, A, B),
    "concatenate axis": (lambda a, b: np.concatenate((a, b), axis=-1) ** 2, A, B),
    "concatenate flat": (lambda a, b: np.concatenate((a, b), axis=None) ** 2, A, V),
    "stack": (lambda a, b: np.stack([a, b], axis=-1) * np.stack([b, B], axis=2), A, B),
    "stacks": (lambda a: np.vstack([a, a]).sum(0) + np.hstack([a, V]).sum(), V),
    "column_stack": (lambda a, b: np.column_stack([a, b]) ** 2, V, x(3, seed=1)),
    "astype": (
        lambda a: a.astype(np.float32).astype(complex) * np.astype(a, complex),
        V.astype(np.float32)),
    "copy": (lambda a: a.copy() * np.copy(a), V),
    "likes": (lambda a: np.ones_like(a) + np.zeros_like(a) + np.full_like(a, 3) * a, A),
    "full_like of tracked": (lambda a, s: np.full_like(a, s) * a, A, 2.5),
    "zeros like": (lambda a: np.zeros(3, like=a) + a * np.ones((2, 3), like=a), V),
    "constructors like": (
        lambda a: (
            np.asanyarray([1, 2, 3.0], like=a) * np.array([a[0], 2, 3], like=a)
            + np.asarray([1, 2.0, 3], like=a) * np.ascontiguousarray([1, 2, 3.0], like=a)
            + np.full(3, 2.0, like=a) * np.arange(3.0, like=a) * np.empty(3, like=a).size
            + np.eye(3, like=a)[0] * np.identity(3, like=a)[1] * a
        ),
        V,
    ),
    "item": (lambda a: a.item(2) * a.item(-1) + a[:1].item(), V),
    "tolist": (lambda a: a.tolist()[1][2] * a, A),
    # indexing
    "slices": (lambda a: a[1] * a[:, ::2].sum() + a[..., None][0, :, 0] + a[-1, ::-1], A),
    "integer arrays": (lambda a: a[:, I] * a[np.array([[0], [1]]), I] + a[[1, 0]][:, [0, 0, 1]], A),
    "masks": (lambda a: a[M] * 2 + a[a > -9][:3] + a[np.array([True, False])].sum(), A),
    "take": (lambda a: a.take(I) * np.take(a, [0, -1, 5]) + np.take(a, I, axis=1)[1], A),
    "take modes": (
        lambda a: np.take(a, [7, -9], mode="wrap") * np.take(a, [7, -9], mode="clip"), A),
    "take_along_axis": (lambda a: np.take_along_axis(a, np.argsort(-a, axis=1), 1) * a, A),
    "sort": (lambda a: np.sort(a) * np.sort(a, axis=0) + np.sort(a, axis=None)[:3], A),
    "flip": (lambda a: np.flip(a) * a + np.flip(a, 1) * np.flipud(a) + np.fliplr(a), A),
    "roll": (lambda a: np.roll(a, 2) * a + np.roll(a, -1, axis=1) + np.roll(a, (1, 2), (0, 1)), A),
    "repeat": (lambda a: np.repeat(a, 2) ** 2 * a.repeat([2] * 6) + 1, A),
    "repeat axis": (lambda a: np.repeat(a, [1, 3], axis=0) ** 2, A),
    "tile": (lambda a: np.tile(a, 2) * np.tile(a, (1, 2)) + np.tile(a, (2, 1, 1))[1, :, :1], A),
    "split": (lambda a: np.multiply(*np.split(a, 2)) + np.hsplit(a, 3)[1] + np.vsplit(a, 2)[0], A),
    "array_split": (lambda a: np.array_split(a, 2)[1] + np.array_split(a, [1, 3])[0], V),
    "dsplit": (lambda a: np.dsplit(a, 2)[0] * np.dsplit(a, [1, 3])[1], C),
    "reduce with amax": (lambda a: np.amax(a) * np.amin(a), A),
    "nonzero": (
        lambda a: a[np.nonzero(a > 0)] * a[a.nonzero()][:3] if np.sum(a > 0) == 3 else a, A),
    "diagonals": (lambda a: np.diagonal(a) * a.diagonal(1) + np.diag(a, -1)[:1], A),
    "diagonal of many": (lambda a: np.diagonal(a, 1, 1, 2) * np.trace(a, -1, 0, 2)[0], C),
    "diag": (lambda a: np.diag(a, 1) @ np.diag(a, -1) + np.trace(np.diag(a)), V),
    "triangles": (lambda a: np.tril(a) * np.triu(a, -1) + np.triu(a) + np.tril(a, 1), A),
    "resize": (lambda a: np.resize(a, (2, 4)) ** 2, V),
    "closeness": (lambda a: a * np.allclose(a, a) + np.isclose(a, a + 1) + np.array_equal(a, B), A),
    # products
    "matmul": (lambda a, b: a @ b.T + np.matmul(a, b.T) + B @ a.T + a @ B.T, A, B),
    "dot": (lambda a, b: np.dot(a, b) + a.dot(b) + a.dot(V), A, V),
    "dot of many": (lambda a, b: np.dot(a, b), A, x(2, 3, 2)),
    "dot of scalars": (lambda a, b: np.dot(a, b), 2.0, V),
    "inner outer": (lambda a, b: np.inner(a, b) * np.outer(a, b), V, x(3, seed=2)),
    "inner of matrices": (np.inner, A, B), "vdot": (np.vdot, z(3), z(3) * (1 + 2j)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    check(CASES[name])


def same(found, want):
    """Equal numbers, dtypes and kinds; NaN equals NaN."""
    assert type(found) is type(want), (found, want)
    np.testing.assert_array_equal(found, want)


# Python numbers and NumPy's -----------------------------------------------------------------------

OPERATORS = [
    *(operator.add, operator.sub, operator.mul, operator.truediv),
    *(operator.floordiv, operator.mod, operator.pow, divmod),
]


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("a, b", [(2.5, -1.5), (2.5, 2), (3, 2.5), (7.0, np.float64(3))])
def test_operators_on_numbers_give_what_python_gives(op, a, b):
    for left, right in [(param(float(a)), b), (a, param(float(b)))]:
        found = op(left, right)
        want = op(tracker.data(left), tracker.data(right))
        if op is divmod:
            same(tuple(map(tracker.data, found)), want)
        else:
            same(tracker.data(found), want)


def test_python_integers_stay_python_integers():
    seen = []

    def f(n):
        seen.extend(tracker.data(v) for v in (n + 1, n // 2, n % 3, n**2, n**-2, n / 2, -n, abs(n)))
        return n**-2

    assert gradient(f, 4) == (pytest.approx(-2 / 64),)
    assert [(v, type(v)) for v in seen] == [(v, type(v)) for v in (5, 2, 1, 16, 4**-2, 2.0, -4, 4)]


def test_python_floats_keep_raising():
    for f in (lambda t: t / 0, lambda t: 1 / (t - t), lambda t: t % 0.0, lambda t: 0.0 ** (-t)):
        with pytest.raises(ZeroDivisionError):
            f(param(2.0))
    with pytest.raises(OverflowError):
        param(10.0) ** 400


def test_numpy_functions_of_python_numbers_give_numpy_numbers():
    t = param(2.0)
    for found, want in [
        (np.add(t, 2.0), np.float64(4.0)),
        (np.multiply(3, t), np.float64(6.0)),
        (np.negative(t), np.float64(-2.0)),
        (np.power(t, 3), np.float64(8.0)),
        (np.greater(t, 1.0), np.True_),
    ]:
        same(tracker.data(found), want)
    with np.errstate(divide="ignore"):
        same(tracker.data(np.divide(t, 0.0)), np.float64(np.inf))
        assert gradient(lambda a: np.divide(1.0, np.divide(a, 0.0)), 2.0) is not None


def test_comparisons_reflect():
    t = param(np.array([1.0, 2.0, 3.0]))
    for found, want in [
        (operator.gt(2, t), [True, False, False]),
        (operator.ge(2, t), [True, True, False]),
        (operator.lt(2, t), [False, False, True]),
        (np.array([2, 2, 2]) == t, [False, True, False]),
        (np.float64(2) != t, [True, False, True]),
    ]:
        assert type(found) is np.ndarray
        assert found.tolist() == want
    assert (param(2.0) > 1) is True
    assert operator.lt(1, param(2.0)) is True


# Kinks and singular points ------------------------------------------------------------------------


@pytest.mark.parametrize("f, x, want", [
    (lambda x: abs(x), 0.0, 0.0),
    (lambda x: abs(x), 0j, 0j),
    (lambda x: np.sign(x), 0.0, 0.0),
    (lambda x: np.real(np.sign(x)), 0j, 0j),
    (lambda x: np.imag(np.sign(x)), 0j, 0j),
    (lambda x: x**0, 0.0, 0.0),
    (lambda x: 0.0**x, 0.0, 0.0),
    (lambda x: x**0.5, 0.0, np.inf),
    (lambda x: (-2.0) ** x, 2.0, 0.0),
    (lambda x: np.arctan2(x, x), 0.0, 0.0),
    (lambda x: np.hypot(x, x), 0.0, 0.0),
    (lambda x: np.sqrt(x * x), 0.0, 0.0),
    (lambda x: np.maximum(x, 0.0), 0.0, 0.5),
    (lambda x: np.minimum(x, 0.0), 0.0, 0.5),
    (lambda x: np.maximum(x, x), 1.0, 1.0),
    (lambda x: np.fmax(x, np.nan), 1.0, 1.0),
    (lambda x: np.heaviside(0.0, x), 0.5, 1.0),
    (lambda x: np.sinc(x), 0.0, 0.0),
    (lambda x: x % 1.0, 0.25, 1.0),
    (lambda x: np.floor(x) + np.rint(x), 0.5, 0.0),
])  # fmt: skip
def test_kink(f, x, want):
    assert gradient(f, x) == (want,)
    array = np.full(2, x)
    (found,) = gradient(lambda a: np.sum(f(a)), array)
    assert found.tolist() == [want] * 2


def test_ties_share_equally():
    ties = np.array([3.0, 1.0, 3.0, 3.0])
    assert gradient(np.max, ties)[0].tolist() == [1 / 3, 0, 1 / 3, 1 / 3]
    assert gradient(lambda a: np.min(-a), ties)[0].tolist() == [-1 / 3, 0, -1 / 3, -1 / 3]
    rows = np.array([[1.0, 1.0], [0.0, 2.0]])
    assert gradient(lambda a: np.sum(np.max(a, axis=1)), rows)[0].tolist() == [[0.5, 0.5], [0, 1]]
    assert sorted(gradient(lambda a: np.sum(np.sort(a) * [1, 2, 3, 4]), ties)[0]) == [1, 2, 3, 4]


def test_std_of_constant_data_has_gradient_zero():
    for data in (np.full(4, 2.5), np.zeros((2, 3))):
        assert gradient(np.std, data)[0].tolist() == np.zeros_like(data).tolist()
        (found,) = gradient(lambda a: np.sum(np.std(a, axis=0) ** 2), data)
        assert np.all(found == 0)


SIZES = {
    "norm": np.linalg.norm,
    "norm over an axis": lambda x: np.sum(np.linalg.norm(x[None], axis=1)),
    "Frobenius": lambda x: np.linalg.norm(x[None], "fro"),
    "norm of order 3": lambda x: np.linalg.norm(x, 3),
    "norm of order 1.5": lambda x: np.linalg.norm(x, 1.5),
    "vector_norm": np.linalg.vector_norm,
    "std": np.std,
    "root of squares": lambda x: np.sqrt(np.sum(x**2)),
    "root of a product": lambda x: np.sqrt(x @ x),
    "power of squares": lambda x: np.sum(x * x) ** 0.5,
    "root of the mean": lambda x: np.sqrt(np.mean((x - np.mean(x)) ** 2)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", SIZES)
def test_underflow_in_a_root_has_gradient_zero(name):
    f = SIZES[name]
    for tiny in (np.array([3e-230, 4e-230]), np.array([3e-35, 4e-35], np.float32), np.zeros(2)):
        assert f(tiny) == 0
        for g in (f, tracker.jit(f)):
            assert gradient(g, tiny)[0].tolist() == [0, 0]
        assert tracker.jvp(f, (tiny,), (np.array([1, 2], tiny.dtype),))[1] == 0
        p = tracker.param(tiny)
        tracker.back(f(p))
        assert p.grad.tolist() == [0, 0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_infinite_derivatives_stay_infinite():
    """A root at 0, and underflow in a logarithm or a denominator."""
    for f, at, want in (
        (np.sqrt, 0.0, np.inf),
        (lambda x: np.sqrt(2 * x), 0.0, np.inf),
        (lambda x: 1 / x**2, 1e-200, -np.inf),
        (lambda x: np.log(x**2), 1e-200, np.inf),
    ):
        for g in (f, tracker.jit(f)):
            assert gradient(g, np.float64(at), check_finite=False) == (want,)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int16, np.int32, np.uint32])
def test_prod_of_small_integers_is_differentiated_in_the_wide_dtype(dtype):
    x = np.array([1, 1, 1] if dtype is bool else [100, 90, 120], dtype)
    want = (np.prod(x, dtype=float) / x).tolist()
    for f in (np.prod, np.nanprod, np.multiply.reduce, lambda x: np.sum(x[None].prod(axis=1))):
        assert gradient(f, x)[0].tolist() == want
        assert tracker.jit(lambda x, f=f: gradient(f, x)[0])(x).tolist() == want


@pytest.mark.parametrize("n", [8, 9, 12, 13, 21, 100])
def test_prod_of_rows_of_any_length(n):
    """One level of blocks, several levels, and remainders."""
    x = np.random.default_rng(n).uniform(0.5, 1.5, (4, n))
    x[1, n // 2] = x[2, 0] = x[2, n - 1] = 0.0
    by_hand = [[np.prod(np.delete(r, i)) for i in range(n)] for r in x]
    for axis, data, expected in ((1, x, by_hand), (0, x.T.copy(), np.transpose(by_hand))):
        (found,) = gradient(lambda a, axis=axis: np.sum(np.prod(a, axis=axis)), data)
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("f, x", [
    (lambda x: np.where(x > 0, np.log(x), 0.0), 0.0),
    (lambda x: np.where(x > 0, np.log(x), 0.0), np.zeros(())),
    (lambda x: np.where(x > 0, np.log(-x / x), 0.0), np.zeros(())),
    (lambda x: np.where(x > 0, np.sqrt(x), 0.0), -1.0),
    (lambda x: np.where(x > 0, x**0.5, 0.0), 0.0),
    (lambda x: np.where(x < 1, 0.0, np.exp(x * x)), 1e200),
    (lambda x: np.where(x < 1, 0.0, 1.0 / (x - x)), np.ones(())),
])  # fmt: skip
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_branch_not_taken_contributes_exactly_nothing(f, x, order):
    g = f if x != 1e200 and x != 1 else lambda x: np.where(x == 0, f(x), 0.0)
    for _ in range(order - 1):
        g = derivative(g)
    assert gradient(g, x)[0] == 0


def derivative(g):
    return lambda x: gradient(g, x)[0]


def test_second_derivative_of_sinc_at_zero():
    assert gradient(lambda a: gradient(np.sinc, a)[0], 0.0)[0] == pytest.approx(-(np.pi**2) / 3)
    third = gradient(lambda c: gradient(lambda b: gradient(np.sinc, b)[0], c)[0], 1e-9)[0]
    assert third == pytest.approx(np.pi**4 / 5 * 1e-9, rel=1e-6)


def test_derivatives_of_python_floats_divide_as_numpy():
    with np.errstate(divide="ignore"):
        found = gradient(np.log, 0.0, check_finite=False)
    assert found == (np.inf,)


# Writing through ufuncs ---------------------------------------------------------------------------


def test_elements_excluded_by_where_are_zero():
    """Undefined in NumPy; here the same on each call, eager and compiled."""
    x = np.array([-1.0, 0.0, 3.0])
    for f in (lambda a: np.log(a, where=a > 0), lambda a: np.divmod(a, a, where=a > 0)[0]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = f(param(x)).data
            assert (found[:2] == 0).all() and found[2] > 0
            assert (tracker.jit(f)(x) == found).all()
            assert (gradient(lambda a, f=f: np.sum(f(a)), x)[0][:2] == 0).all()


def test_a_reduction_without_an_identity_needs_initial_for_where():
    with pytest.raises(ValueError, match="to use a where mask one has to specify 'initial'"):
        np.arctan2.reduce(param(A), where=M)


@pytest.mark.parametrize("number", [np.array(0.5), np.array(3), np.float64(0.5), np.int64(3)])
def test_results_are_scalars_where_numpys_are(number):
    def converted(v):
        part = v.astype("f4")
        if isinstance(number, np.ndarray):
            part[...] = part * 2  # NumPy writes into an array without axes
        return part, np.astype(v, np.dtype(float)), np.choose(0, [v, v])

    expected, function = converted(number), tracker.jit(converted)
    for y in (tracker.pullback(converted, number)[0], function(number), function(number)):
        assert list(map(type, y)) == list(map(type, expected))
        assert y == expected


def test_nan_to_num_of_a_whole_number_is_a_number():
    function, number = tracker.jit(lambda n: np.nan_to_num(n)), np.array(5)
    for y in (function(number), tracker.pullback(np.nan_to_num, number)[0]):
        assert type(y) is np.int64


MASK = np.array([[True, False, True], [True, True, True]])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("function", [np.std, np.var, np.mean])
@pytest.mark.parametrize(
    "keywords", [{}, {"axis": 0}, {"axis": 1, "keepdims": True}, {"axis": 1, "where": MASK}]
)
def test_moments_keep_the_dtype(function, keywords, dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    ours, numpys = function(tracker.param(x), **keywords).data, function(x, **keywords)
    assert ours.dtype == numpys.dtype
    np.testing.assert_allclose(ours, numpys, rtol=2e-3)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("into", ["f4", "f8", "c16"])
@pytest.mark.parametrize("function", [np.std, np.var, np.mean])
def test_moments_computed_in_another_dtype(function, into, dtype):
    x = (np.arange(6).reshape(2, 3) * (1 + 0.5j if dtype[0] == "c" else 1)).astype(dtype)
    ours, numpys = function(param(x), axis=1, dtype=into).data, function(x, axis=1, dtype=into)
    assert ours.dtype == numpys.dtype
    np.testing.assert_allclose(ours, numpys, rtol=2e-3)


def test_ravel_in_the_order_of_memory():
    a = np.arange(6.0).reshape(2, 3)
    for view in (lambda t: t, lambda t: t.T, lambda t: t[::-1], lambda t: t[:, ::-1].T):
        assert (view(tracker.param(a)).ravel("K").data == view(a).ravel("K")).all()
