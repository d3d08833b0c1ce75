"""Integer arithmetic, bit operations, casts and divisions, compiled: NumPy's numbers, bit by bit.

Every dtype meets every other, with the numbers at which C leaves the result open: zero divisors,
the least integer by -1, shifts by too many bits, powers and sums that wrap.
"""

import operator
import warnings

import numpy as np
import pytest
from compiled import agree, assert_native, quiet
from equality import assert_same
from pairwise_parameters import crossed

from tracker import gradient, jit

KINDS = ["?", "i1", "u1", "i2", "i4", "u4", "i8", "u8", "f4", "f8"]
SIGNS = [np.sign, np.floor, np.isnan, np.isfinite, np.signbit, np.abs, np.invert, np.negative]
PAIRS = [
    np.floor_divide,
    np.remainder,
    np.fmod,
    np.divmod,
    np.left_shift,
    np.right_shift,
    np.heaviside,
    np.fmax,
    np.add,
    np.multiply,
    np.bitwise_xor,
    np.greater,
    np.less_equal,
    np.not_equal,
]


def numbers(kind, n, seed=0):
    """Small numbers, and the outermost ones."""
    dtype, rng = np.dtype(kind), np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, n).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        x = rng.integers(-6, 7, n).astype(dtype)
        x[:6] = [limits.min, limits.max, 0, 1, limits.max, limits.min]
    else:
        x = (5 * rng.normal(size=n)).astype(dtype)
        x[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, 1e-30, -3.0]
    return rng.permutation(x)


def same_bits(got, want):
    assert_same(got, want, "result", 0.0 if np.result_type(want).kind in "biu" else 1e-15)
    if np.result_type(want).kind == "f":
        compared = ~np.isnan(want) & (want != 0)
        np.testing.assert_array_equal(np.signbit(got)[compared], np.signbit(want)[compared])


def beside_numpy(compiled, f, *arguments):
    """Both results, twice: traced and as machine code; none where NumPy's types refuse."""
    try:
        want = f(*arguments)
    except TypeError:
        return
    for _ in range(2):
        yield compiled(*arguments), want


def exactly(f, *arguments):
    compiled, wants = jit(f), []
    with quiet():
        for got, want in beside_numpy(compiled, f, *arguments):
            wants = _parts(want)
            for a, b in zip(_parts(got), wants, strict=True):
                same_bits(a, b)
        # Booleans and bytes become float16 in float functions, which is left to NumPy.
        are_halves = any(np.result_type(y) == np.float16 for y in wants)
        if wants and not are_halves and not _is_halved(f, *arguments):
            assert_native(compiled, *arguments)


def _parts(y):
    return y if isinstance(y, tuple) else (y,)


def _is_halved(f, *arguments):
    return f is np.signbit and np.result_type(*arguments).itemsize == 1


@pytest.mark.parametrize("f", PAIRS, ids=lambda f: f.__name__)
def test_of_two(f):
    for left in ("i4", "u8", "f8"):
        for right in ("i4", "u8", "f8"):
            exactly(lambda x, y: f(x, y), numbers(left, 60), numbers(right, 60, seed=1))


@pytest.mark.parametrize("f", PAIRS, ids=lambda f: f.__name__)
def test_of_all_pairs(f):
    """The pairs with one dtype on the left are one program, those with float16 results others."""
    size = 60 if f is np.divmod else 12  # of which twelve, unrolled, take LLVM ten seconds
    for left in KINDS:
        x, together = numbers(left, size), []
        for right in KINDS:
            y = numbers(right, size, seed=1)
            if _gives_half(f, x, y):
                exactly(lambda x, y: f(x, y), x, y)
            else:
                together.append(y)
        exactly(lambda x, *ys: tuple(part for y in ys for part in _parts(f(x, y))), x, *together)


def _gives_half(f, *arguments):
    """Whether the result is float16, or the ufunc refuses the dtypes."""
    types = [np.result_type(a) for a in arguments]
    try:
        return np.float16 in f.resolve_dtypes((*types, *[None] * f.nout))[f.nin :]
    except TypeError:
        return True


@pytest.mark.parametrize("f", SIGNS, ids=lambda f: f.__name__)
def test_of_one(f):
    for kind in KINDS:
        for n in (12, 60):
            exactly(f, numbers(kind, n))


@pytest.mark.parametrize("to", KINDS)
def test_casts(to):
    for kind in KINDS:
        for n in (12, 60):
            x = numbers(kind, n)
            if np.dtype(kind).kind == "f" and np.dtype(to).kind in "iu":
                x = np.nan_to_num(x, posinf=1, neginf=1).clip(0, 100)  # undefined in C elsewhere
            exactly(lambda x: x.astype(to), x)


@crossed(kind=["f4", "f8"], to=["u1", "u2", "u4", "u8", "i4", "i8"], n=[1, 2, 12, 60])
def test_negative_floats_as_unsigned_integers(kind, to, n):
    """They wrap around, as NumPy's do on this machine, element by element or many at once."""
    x = (-300 * np.random.default_rng(n).random(n) + 20).astype(kind)
    exactly(lambda x: x.astype(to), x)
    exactly(lambda x: (x * 2**55).astype("u8"), np.abs(x))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 64])
def test_powers_wrap_around(n):
    for kind in ("i1", "u2", "i4", "i8", "u8"):
        for size in (12, 60):
            exactly(lambda x: x**n, numbers(kind, size))


PYTHON = [(7, 3), (-7, 3), (7, -3), (7.5, -2.0), (-7.5, 2.0), (5, 0), (5.0, 0.0), (1, 70), (3, -1)]


@pytest.mark.parametrize("a, b", PYTHON)
@pytest.mark.parametrize(
    "f", [operator.floordiv, operator.mod, divmod, operator.lshift, operator.rshift, operator.pow]
)
def test_python_numbers_keep_their_arithmetic(f, a, b):
    def outcome(g):
        try:
            return g(a, b)
        except (TypeError, ValueError, ZeroDivisionError) as error:
            return type(error)

    compiled = jit(lambda a, b: f(a, b))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an int to a negative power is a float: not compiled
        for _ in range(2):
            got, want = outcome(compiled), outcome(f)
            assert got == want and type(got) is type(want)


@pytest.mark.parametrize("f", [np.fmod, np.remainder, np.floor_divide], ids=lambda f: f.__name__)
def test_remainders_of_large_quotients_are_exact(f):
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        x = (rng.normal(size=300) * 10.0 ** rng.integers(-30, 30, 300)).astype(dtype)
        y = (rng.normal(size=300) * 10.0 ** rng.integers(-30, 30, 300)).astype(dtype)
        with quiet():
            agree(f, x, y, others=[(x, x[::-1].copy() * dtype(0.25))], tolerance=0)


def test_gradients_go_through_remainders():
    def f(x, y):
        return np.sum((x % y) * np.sin(x) + np.fmod(x, y) * (x // y))

    x, y = np.linspace(-9.1, 9.3, 50), np.linspace(0.7, 2.1, 50)
    agree(lambda x, y: gradient(f, x, y), x, y, native=True)


NEGATIVES = [
    lambda x, w: (-x) * 0.5,
    lambda x, w: -x / 2.0,
    lambda x, w: w + -x,
    lambda x, w: w - -x,
    lambda x, w: -w * -x,
    lambda x, w: np.abs(-x),
    lambda x, w: np.square(-x),
    lambda x, w: np.negative(-x) + 0.5,
    lambda x, w: x + -x[::-1],
    lambda x, w: (x * -1 if x.dtype.kind == "i" else x) * w,
]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[0] in "iu"])
def test_negatives_that_wrap_around(kind):
    """The negatives of the least integer and of unsigned integers wrap around."""
    x, w = numbers(kind, 40), np.linspace(-2, 2, 40)
    exactly(lambda x, w: tuple(f(x, w) for f in NEGATIVES), x, w)


def agree_where_numpy_has_it(f, rtol, *args):
    """In NumPy's dtype and shape."""
    with quiet():
        for got, want in beside_numpy(jit(f), f, *args):
            assert got.dtype == want.dtype and got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=rtol)


@pytest.mark.parametrize("ufunc", [np.add, np.subtract], ids=lambda f: f.__name__)
@pytest.mark.parametrize("values", [*KINDS, 0.7, True, 1])
def test_sums_by_index_have_the_common_dtype(ufunc, values):
    """Not in that of the values, where they may wrap; and each is cut short, not the last one."""
    places = np.arange(20) % 3
    given = values
    if isinstance(values, str):  # eight bits do not hold the sums of integers
        given = (np.arange(20) % 3 * 0.8 if values[0] == "f" else np.full(20, 40)).astype(values)
    for kind in KINDS:

        def f(x, given):
            x = x.copy()
            ufunc.at(x, places, given)
            return x

        x = np.array([99, 100, 90] if np.dtype(kind).itemsize == 1 else [900, 1000, 800])
        x = x.astype(kind)
        agree_where_numpy_has_it(f, 1e-6, x, given)


@pytest.mark.parametrize("length", [0, 1, 3])
def test_reductions_of_few_elements_have_the_ufuncs_dtype(length):
    folds = [
        lambda x: np.logaddexp.accumulate(x),
        lambda x: np.true_divide.accumulate(x),
        lambda x: np.logical_and.accumulate(x),
        lambda x: np.logical_or.accumulate(x),
        lambda x: np.subtract.accumulate(x),
        lambda x: np.maximum.accumulate(x),
        lambda x: np.logical_and.reduceat(x, [0]) if len(x) else x,
        lambda x: np.hypot.reduceat(x, [0]) if len(x) else x,
        lambda x: np.logical_xor.reduce(x),
        lambda x: np.power.reduce(x) if len(x) else x,
    ]
    for kind in KINDS:
        x = np.array([3, 1, 2])[:length].astype(kind)
        for fold in folds:
            agree_where_numpy_has_it(fold, 2e-3, x)


@pytest.mark.parametrize("ufunc", [np.hypot, np.gcd, np.bitwise_xor, np.logaddexp])
def test_a_reduction_of_one_element_starts_from_the_identity(ufunc):
    """hypot(0, -3) is 3."""
    x = np.array([[-3], [2]])
    agree(lambda x: (ufunc.reduce(x, axis=1), ufunc.reduce(x[0])), x)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[0] in "iu"])
def test_means_of_masked_integers_are_computed_in_floats(kind):
    """Their sum may be more than an integer holds."""
    x = np.full(6, np.iinfo(kind).max, kind)
    x[2] = 3
    mask = np.array([True, False, True, True, True, True])

    def means(x):
        return np.mean(x, where=mask), np.var(x, where=mask), np.nanmean(x), np.nanstd(x, ddof=1)

    agree(means, x)


@pytest.mark.parametrize("kind", KINDS)
def test_emath_has_numpys_dtypes(kind):
    x = np.array([3, 1, 2]).astype(kind)
    tolerance = 2e-3 if np.dtype(kind).itemsize == 1 else 1e-6  # they become float16
    with quiet():
        for y in (x, -x if kind != "?" else x):
            for f in (
                lambda x: (np.emath.sqrt(x), np.emath.power(x, 2), np.emath.logn(3, x)),
                lambda x: (np.emath.log(x), np.emath.arcsin(x), np.emath.power(x, -1)),
            ):
                agree(f, y, tolerance=tolerance)


@pytest.mark.parametrize(
    "f",
    [
        lambda a, n: a**-2 * 1.5,
        lambda a, n: 2**n,
        lambda a, n: a**n,
        lambda a, n: (a * 1.0) ** (n / 3),
        lambda a, n: (-3) ** (n * 0.5),
        lambda a, n: pow(n, 2, 7) * a,
    ],
)
def test_powers_of_python_numbers(f):
    compiled = jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for a, n in [(3, 2), (3, -2), (-3, 1), (3, -1), (-4, -1), (True, -2), (3, 2), (-3, 2)]:
            want = f(a, n)
            for _ in range(2):
                got = compiled(a, n)
                assert got == pytest.approx(want, rel=1e-14) and type(got) is type(want)
    assert gradient(jit(lambda a: a**-2), 2) == gradient(lambda a: a**-2, 2) == (-0.25,)


@pytest.mark.parametrize("value", [3, 2.5, np.float32(0.5)])
def test_append_promotes_like_numpy(value):
    for kind in KINDS:
        agree_where_numpy_has_it(np.append, 1e-6, np.ones(2, kind), value)
