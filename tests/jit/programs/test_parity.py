"""A compiled function gives what the plain function gives: values, dtypes, shapes, classes.

Programs are drawn by `jit_programs`; the rest of the file visits, at sizes that loop, every kind of
view, reduction and product.
"""

from __future__ import annotations

import enum
import itertools
import operator

import numpy as np
import pytest
from compiled import agree, gradients_agree
from equality import assert_same
from tables import functions_of

from tracker import jit, withgradient

pytestmark = pytest.mark.filterwarnings("ignore")

# Views at sizes that loop
# ---------------------------------------------------------------------------

X = np.linspace(-1.0, 2.0, 45 * 12).reshape(45, 12)
V = np.linspace(0.5, 3.0, 12)

VIEWS = {
    "steps": lambda x, v: x[3:40:7, ::2] * 2,
    "flips": lambda x, v: x[::-1, ::-3] + 1,
    "flip and add": lambda x, v: x + x[::-1] * x[:, ::-1],
    "row": lambda x, v: np.sin(x)[7] * v,
    "column": lambda x, v: np.sin(x)[:, -2] + x[:, 0],
    "new axes": lambda x, v: x[:, None, :3] * x[None, :3, :3],
    "transpose": lambda x, v: np.cos(x).T * 2 + x.T,
    "split axis": lambda x, v: np.reshape(np.sin(x), (9, 5, 4, 3)) * 3,
    "merge axes": lambda x, v: np.ravel(np.sin(x)) + np.ravel(x),
    "merge transposed": lambda x, v: np.ravel(np.sin(x).T) + np.ravel(x.T),
    "regroup": lambda x, v: np.reshape(x, (12, 45)) + np.reshape(np.sin(x).T, (12, 45)),
    "regroup steps": lambda x, v: np.reshape(x[::3, ::2] * 2, (45, 2)) + 1,
    "broadcast": lambda x, v: np.broadcast_to(np.sin(v), (45, 12)) * x,
    "broadcast column": lambda x, v: np.broadcast_to(x[:, :1] * 2, (45, 12)) + x,
    "concatenate": lambda x, v: np.concatenate([x, x[::2] * 2, np.sin(x[:1])]),
    "concatenate columns": lambda x, v: np.concatenate([x, x[:, ::2] * 2, x[:, :0]], axis=1),
    "concatenate many": lambda x, v: np.concatenate([x[i : i + 3] * i for i in range(40)]),
    "stack": lambda x, v: np.stack([x, 2 * x, np.sin(x)], axis=1),
    "stack rows": lambda x, v: np.stack([np.sin(x[i]) * v for i in range(45)]),
    "write rows": lambda x, v: _written(x, (slice(3, 40, 4),), v),
    "write columns backwards": lambda x, v: _written(x, (slice(None), slice(10, 2, -2)), 1.5),
    "write one": lambda x, v: _written(x, (7, 3), v[2]),
    "write block": lambda x, v: _written(x, (slice(5, 17), slice(2, 9)), np.sin(x[5:17, 2:9])),
    "write through a view": lambda x, v: _written_through(x, v),
    "pad by hand": lambda x, v: _padded(x),
    "tile": lambda x, v: np.tile(x * 2, (2, 3)),
    "roll": lambda x, v: np.roll(x * 2, 5, axis=0) - np.roll(x, -3, axis=1),
    "diagonal blocks": lambda x, v: _blocks(x),
    "tiny of big": lambda x, v: np.sin(x)[::20, ::6] + np.cos(x)[2, 3],
    "scalar of big": lambda x, v: (x * x)[4, 4] + np.sin(x[1, 1]),
}


def _written(x, index, value):
    t = np.sin(x)
    t[index] = value
    return t * 2


def _written_through(x, v):
    t = np.copy(x)
    rows = t[::2]
    rows[:, 3:6] = 0.0
    rows += v
    flat = t.reshape(-1)
    flat[5:50:3] *= 3.0
    return t, rows


def _padded(x):
    out = np.zeros_like(x, shape=(47, 16))
    out[1:-1, 2:-2] = x * 2
    return out[:-2] + out[2:]


def _blocks(x):
    out = np.zeros_like(x, shape=(90, 24))
    out[:45, :12] = x
    out[45:, 12:] = np.sin(x)
    return out


@pytest.mark.parametrize("name", VIEWS)
def test_views(name):
    f = VIEWS[name]
    agree(f, X, V, others=[(X * -0.5 + 0.1, V * 2)])

    def loss(x, v):
        y = f(x, v)
        return sum(np.sum(np.sin(part)) for part in (y if isinstance(y, tuple) else (y,)))

    gradients_agree(loss, X, V, others=[(X * -0.5 + 0.1, V * 2)])


# Long chains ------------------------------------------------------------------------------------

LONG = np.linspace(0.0, 1.0, 500)


class Chains:
    def fill(x):
        t = np.zeros_like(x)
        for i in range(200):
            t[i] = x[i] * 2 + x[i + 1]
        return t

    def recurrence(x):
        t = np.zeros_like(x)
        t[0] = x[0]
        for i in range(1, 200):
            t[i] = 0.5 * t[i - 1] + x[i] * t[0]
        return t

    def fill_rows(x):
        m = np.zeros_like(x, shape=(40, 50))
        for i in range(40):
            m[i] = np.sin(x[i * 10 : i * 10 + 50])
        return m

    def overlapping(x):
        t = x * 2.0
        for i in range(0, 300, 9):
            t[i : i + 50] = x[i : i + 50] * i
            t[i + 3 : i + 200 : 4] -= 1.0
        return t

    def accumulated(x):
        t = np.zeros_like(x)
        for i in range(40):
            t[i : i + 50] += x[i * 9 : i * 9 + 50]
        return t

    def stencil(x):
        u = x * 1.0
        for _ in range(12):
            u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        return u

    def many_cheap_steps(x):
        for _ in range(1500):
            x = x * 0.999 + 0.01
        return x

    def many_steps_of_numbers(x):
        total = x[0]
        for i in range(1000):
            total = total * 0.9 + x[i % 100] * 0.1
        return total

    def many_terms(x):
        total = 0.0
        for i in range(60):
            total = total + np.sin(x[i : i + 100]) * x[i]
        return total


@functions_of(Chains)
def test_long_chains(f):
    agree(f, LONG, others=[(LONG - 2.0,)])
    gradients_agree(lambda x: np.sum(np.sin(f(x))), LONG, others=[(LONG - 2.0,)], tolerance=1e-11)


# Reductions ---------------------------------------------------------------------------------------

CUBE = np.linspace(-2.0, 1.0, 5 * 7 * 11).reshape(5, 7, 11)[:, ::-1].copy()
AXES = [axes for n in range(4) for axes in itertools.combinations(range(3), n)]


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_reductions_over_every_set_of_axes(name, axes):
    function = getattr(np, name)

    def reduce(x):
        y = np.sin(x) + x * 0.1
        return function(y, axis=axes), function(y, axis=axes, keepdims=True) * x

    agree(reduce, CUBE, others=[(CUBE * 0.5,)])
    gradients_agree(lambda x: np.sum(reduce(x)[1]), CUBE, others=[(CUBE * 0.5,)])


@pytest.mark.parametrize("shape", [(40,), (3,), (5, 40), (40, 1), (1, 40)])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "u1", "?"])
def test_reductions_of_every_dtype(shape, dtype):
    x = (np.arange(np.prod(shape)) % 5).reshape(shape).astype(dtype)

    def reduce(x):
        return np.sum(x), np.max(x, axis=0), np.min(x, axis=-1), np.mean(x), np.sum(x, axis=0)

    agree(reduce, x, others=[(x[::-1].copy(),)], tolerance=1e-5 if dtype == "f4" else 1e-12)


@pytest.mark.parametrize("size", [4, 100])
def test_nan_and_infinity_go_through(size):
    x = np.linspace(0.0, 1.0, size)
    bad, worse = x.copy(), x.copy()
    bad[size // 2] = np.nan
    worse[1] = -np.inf

    def f(x):
        y = np.maximum(x, 0.5) - np.minimum(x, x[::-1])
        return np.max(x), np.min(x), np.sum(x), y, np.where(x > 0.3, x, -x), x != x

    agree(f, x, others=[(bad,), (worse,)])


# Products -----------------------------------------------------------------------------------------

PRODUCTS = [
    ((3,), (3,)),
    ((50,), (50,)),
    ((6, 50), (50,)),
    ((50,), (50, 6)),
    ((6, 50), (50, 9)),
    ((2, 3), (3, 2)),
    ((1, 50), (50, 1)),
    ((50, 1), (1, 50)),
    ((1, 50), (50, 40)),
    ((40, 50), (50, 1)),
    ((4, 6, 7), (7, 5)),
    ((4, 6, 7), (4, 7, 5)),
    ((6, 7), (4, 7, 5)),
    ((1, 6, 7), (4, 7, 5)),
    ((3, 1, 6, 7), (4, 7, 5)),
    ((4, 6, 7), (7,)),
    ((7,), (4, 7, 5)),
    ((2, 2, 2), (2, 2, 2)),
    ((50, 0), (0, 40)),
    ((0, 50), (50, 40)),
    ((0,), (0,)),
]


def _swap(x):
    return np.swapaxes(x, -1, -2) if np.ndim(x) > 1 else x


LAYOUTS = {
    "as it is": lambda x: x,
    "computed": lambda x: np.sin(x),
    "transposed": lambda x: _swap(np.copy(_swap(x))),
    "given transposed": lambda x: _swap(_swap(x) * 1.0),
    "every second": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "backwards": lambda x: x[..., ::-1],
    "rows backwards": lambda x: x[::-1],
    "part": lambda x: np.concatenate([x, x], axis=-1)[..., : np.shape(x)[-1]],
    "rows of more": lambda x: np.concatenate([x, x], axis=0)[1 : np.shape(x)[0] + 1],
}


@pytest.mark.parametrize("shapes", PRODUCTS, ids=str)
def test_products(shapes):
    a, b = (np.linspace(-1.0, 1.5, int(np.prod(s))).reshape(s) for s in shapes)
    agree(np.matmul, a, b, others=[(a * 2, b - 1)])
    gradients_agree(lambda a, b: np.sum(np.sin(a @ b)), a, b, others=[(a * 2, b - 1)])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_of_every_layout(layout):
    lay = LAYOUTS[layout]

    def f(a, b, v, w):
        return lay(a) @ b, a @ lay(b), lay(v) @ b, a @ lay(v), lay(w) @ lay(b), lay(a) @ lay(v)

    rng = np.random.default_rng(0)
    args = rng.normal(size=(9, 40)), rng.normal(size=(40, 6)), rng.normal(size=40)
    args = *args, rng.normal(size=(3, 8, 40))
    agree(f, *args, others=[tuple(x * 2 - 0.5 for x in args)])
    gradients_agree(
        lambda *xs: sum(np.sum(np.sin(y * 0.1)) for y in f(*xs)), *args, tolerance=1e-11
    )


# Numbers ------------------------------------------------------------------------------------------


def test_python_ints_that_outgrow_64_bits():
    agree(lambda n: n * n + 1, 3, others=[(2**40,), (-(2**62),), (2**31,)])
    agree(lambda n, m: n + m, 1, 2, others=[(2**62, 2**62), (-(2**63), -1)])
    agree(lambda n: -n, 1, others=[(-(2**63),)])


def test_python_integer_operators():
    agree(lambda n, m: (n & m, n | m, n ^ m, n - m, n * m, ~n), 5, 3, others=[(-7, 12)])
    agree(lambda n, m: (n // m, n % m, n / m, n < m, n == m), 17, 5, others=[(-17, 5), (17, -5)])
    agree(lambda n, b: (n + b, b * 1.5, n * True), 5, True, others=[(7, False)])


BOTH = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv]
BOTH += [operator.mod, operator.lt, operator.eq]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
ONE = [operator.neg, operator.pos, operator.abs, operator.invert]


@pytest.mark.parametrize("op", [*BOTH, *BITS], ids=lambda op: op.__name__)
def test_python_bools_are_ints_in_arithmetic(op):
    f = agree(lambda x: op(x > 1, x > 0), 2.0, others=[(1.5,), (3.0,)])
    g = agree(lambda x: (op(x > 1, 3), op(4, x > 1)), 2.0, others=[(1.5,), (3.0,)])
    assert f.cache_info()[2:] == g.cache_info()[2:] == (1, 0)
    if op in BOTH:
        agree(lambda x: (op(x > 1, 3.0), op(2.5, x > 1)), 2.0, others=[(1.5,)])


def test_python_bools_alone_and_summed():
    for op in ONE:
        assert agree(lambda x, op=op: op(x > 1), 2.0, others=[(0.5,)]).cache_info().eager == 0
    agree(lambda x: sum([x > 1, x > 0, x > 5]) * x, 2.0, others=[(0.5,), (7.0,)])
    agree(lambda x: (np.add(x > 1, x > 0), np.multiply(x > 1, 2)), 2.0, others=[(0.5,)])


def test_division_by_zero_of_python_floats():
    f = jit(lambda x, y: x / y)
    assert f(1.0, 2.0) == f(2.0, 4.0) == 0.5
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            f(1.0, 0.0)
    assert f(3.0, 2.0) == 1.5
    with np.errstate(all="ignore"):
        assert jit(lambda x, y: x / y)(np.float64(1.0), np.float64(0.0)) == np.inf


class _Float(float):
    pass


_CLASSED = [enum.IntEnum("Level", {"TWO": 2}).TWO, _Float(2), type("_Complex", (complex,), {})(2)]


@pytest.mark.parametrize("number", _CLASSED, ids=lambda number: type(number).__name__)
def test_numbers_of_classes_of_their_own_are_not_weak_to_numpy(number):
    for f in (
        lambda x: x * number,
        lambda x: number - x,
        lambda x: np.add(x, number),
        lambda x: np.where(np.equal(x, 1), x, number),
    ):
        for x in (np.ones(2, "f4"), np.float32(1), np.array(1, "i1"), np.int8(1), 1.5, 1):
            agree(f, x)
            if np.result_type(x).kind != "i":
                eager, _ = withgradient(lambda x, f=f: np.sum(np.real(f(x))), x)
                assert np.result_type(eager) == np.result_type(np.sum(np.real(f(x))))


def test_python_ints_beside_small_dtypes():
    f = jit(lambda x, n: x + n)
    small = np.arange(40, dtype=np.int8)
    for _ in range(2):
        assert_same(f(small, 3), small + 3)
    with pytest.raises(OverflowError):
        f(small, 1000)


def test_numbers_among_choices_are_weak():
    a = np.array([0.5, 2.0, -1.0], np.float16)
    for s in (3, 3.5, 2j, np.float32(1), np.array(2)):
        agree(lambda a, s: np.select([a > 1, a < 0], [a, s], 2), a, s)
        agree(lambda a, s: np.select([a > 1, a < 0], [s, 2], a), a, s)
        agree(lambda a, s: np.select([a > 1, a < 0], [s, 1], s), a, s)


def test_comparisons_of_mixed_signs():
    a, b = np.arange(-3, 40), np.arange(43, dtype=np.uint64)
    agree(lambda a, b: (a < b, a == b, b >= a), a, b)
    agree(lambda x: (x < 1000, x > -5, x == 300), np.arange(40, dtype=np.uint8))


def test_casts():
    x = np.linspace(-3.7, 200.2, 50)
    agree(lambda x: (x.astype("i8"), x.astype("f4"), x.astype(bool), x.astype("i4") * 2), x)
    agree(lambda x: (x.astype("u1"), x.astype("f8"), x.astype("i2")), np.arange(-5, 60))


# Classes and dtypes -------------------------------------------------------------------------------

SQUARE = np.eye(3) * 2.0 + 0.25
WHOLE = np.array([15, 25, 35, -4])


@pytest.mark.parametrize(
    "f, x",
    [
        (np.median, CUBE),
        (lambda x: np.median(x, axis=0), CUBE[0, 0]),
        (lambda x: np.percentile(x, 30), CUBE),
        (lambda x: np.quantile(x, [0.3, 0.4], axis=-1), CUBE),
        (lambda x: np.median(x, keepdims=True), CUBE),
        (lambda x: tuple(np.linalg.slogdet(x)), SQUARE),
        (lambda x: tuple(np.linalg.slogdet(x)), np.stack([SQUARE, 2 * SQUARE])),
        *((lambda x, n=n: np.round(x, n), WHOLE.astype(kind)) for n in (-1, 0, 1) for kind in "df"),
        *((lambda x, n=n: np.round(x, n), WHOLE.astype(kind)) for n in (-1, 0, 1) for kind in "bl"),
        *((lambda x, n=n: np.round(x, n), np.int64(25)) for n in (-1, 0, 1)),
        *((lambda x, n=n: np.sum(x, 0, dtype=n), CUBE * 90) for n in ("u1", "i4", "?", "f4")),
        *((lambda x, n=n: np.prod(x, dtype=n), WHOLE) for n in ("u1", "i4", "?", "f4")),
        *((lambda x, n=n: np.cumsum(x, dtype=n), WHOLE * 9) for n in ("u1", "i4", "f4")),
        *((np.logaddexp.reduce, WHOLE[:n].astype("i4")) for n in (0, 1, 3)),
        (lambda x: np.round(x, -1), np.array([1155.0, 1145.0, 35.0, 25.0, 17.5])),
    ],
)
def test_results_are_of_numpys_class_and_dtype(f, x):
    agree(f, x)


EMPTY = np.zeros(0)


@pytest.mark.parametrize("f", [np.median, np.nanmedian, np.unique, np.sort, np.mean, np.prod])
@pytest.mark.parametrize(
    "x", [EMPTY, np.zeros((0, 3)), np.zeros((3, 0))], ids=lambda x: str(x.shape)
)
def test_of_nothing(f, x):
    agree(f, x)
    if f is not np.unique:
        agree(lambda x: f(x, axis=0), x)


def test_python_numbers_have_no_parts():
    for x in (2.5, 3, 1j):
        with pytest.raises(TypeError, match="not subscriptable"):
            jit(lambda x: x[0])(x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.repeat(x, 2, axis=1),
        lambda x: np.take(x, [0, -1, 0], axis=1),
        lambda x: np.delete(x, 1, axis=1),
        lambda x: np.pad(x, 1, mode="reflect"),
        lambda x: x.T.copy(),
        lambda x: np.copy(x.T),
        lambda x: np.sort(x, axis=1),
        lambda x: x[:, [0, 2, 1]],
    ],
)
def test_a_reshape_is_a_view_where_numpys_is(f):
    def written(x):
        y = f(x) * 0.5
        y.reshape(-1)[::3] = 7.0
        z = f(x)
        z.reshape(-1)[1::4] = x[0, 0, 0]
        return y, z

    x = CUBE[:, :4]
    agree(written, x)
    gradients_agree(lambda x: sum(np.sum(np.sin(y)) for y in written(x)), x)


def test_gradients_in_numpy_scalars_are_numpy_scalars():
    f = lambda x, b: np.sum(np.where(b, x, 0.5)) + np.sin(np.where(b, 0.5, x))  # noqa: E731
    gradients_agree(f, np.float64(0.3), np.True_)


def test_gradients_go_around_absolute_values_of_bools():
    def loss(x):
        b = (x <= x).reshape(-1)[0].item()
        return np.sum(np.sin(b / (abs(b) + 1))) + np.sum(np.abs(x > 0) * x)

    gradients_agree(loss, np.array([0.3, -1.0]))
