"""Complex arithmetic, compiled: NumPy's numbers, also at zeros and infinities, and gradients."""

import operator

import numpy as np
import pytest
from compiled import agree, quiet
from pairwise_parameters import crossed

from tracker import fori_loop, gradient, jit

UNARY = {
    **{f.__name__: f for f in (np.exp, np.log, np.sqrt, np.sin, np.cos, np.sinh, np.cosh)},
    **{f.__name__: f for f in (np.abs, np.conj, np.real, np.imag, np.square, np.reciprocal)},
    **{f.__name__: f for f in (np.negative, np.isnan, np.isinf, np.isfinite, np.logical_not)},
    **{f.__name__: f for f in (np.tan, np.tanh, np.log2, np.log10, np.log1p, np.expm1, np.exp2)},
    **{f.__name__: f for f in (np.arcsin, np.arccos, np.arctan)},
    **{f.__name__: f for f in (np.arcsinh, np.arccosh, np.arctanh)},
    "logic": lambda z: np.logical_xor(np.logical_and(z, z.imag), np.logical_or(z.real, z)),
    "cube": lambda z: z**3,
    "inverse square": lambda z: z**-2,
    "eleventh": lambda z: z**11,
}
SHAPED = {
    "sum": np.sum,
    "mean": lambda z: np.mean(z, axis=0),
    "product": lambda z: np.prod(z[:6], axis=0),
    "cumsum": lambda z: np.cumsum(z, axis=-1),
    "any": lambda z: np.any(z),
    "where": lambda z: np.where(z.real > 0.0, z, 1.0),
    "narrow": lambda z: z.astype(np.complex64),
    "wide": lambda z: z.astype(complex),
    "view": lambda z: z.T[..., ::-1] * 2j + 1,
    "gather": lambda z: z[np.array([0, -1, 2])] + z[:3],
    "join": lambda z: np.concatenate([z, z * 1j]),
    "power": lambda z: np.sum(np.abs(z) ** 2) + z.reshape(-1)[0],
    "equal": lambda z: (z == z.conj()) | (z != z * 1),
}
BINARY = {f.__name__: f for f in (operator.add, operator.sub, operator.mul, operator.truediv)}
PARTS = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 700.0, 1e-200)
SPECIAL = np.array([complex(a, b) for a in PARTS for b in PARTS])


def numbers(shape, kind="D", seed=0):
    rng = np.random.default_rng(seed)
    return (2 * rng.normal(size=shape) + 2j * rng.normal(size=shape)).astype(kind)


ROUNDING = {"D": 1e-12, "F": 1e-4}


@crossed(name=UNARY, kind=["D", "F"], shape=[(), (5,), (40,), (7, 9)])
def test_of_one(name, kind, shape):
    agree(UNARY[name], numbers(shape, kind)[()], tolerance=ROUNDING[kind], native=True)


@crossed(name=SHAPED, kind=["D", "F"], shape=[(5,), (40,), (7, 9)])
def test_shapes_and_folds(name, kind, shape):
    agree(SHAPED[name], numbers(shape, kind), tolerance=ROUNDING[kind], native=True)


@pytest.mark.parametrize("name", ["sin", "cos", "sinh", "cosh"])
def test_products_with_large_hyperbolic_functions(name):
    """Where sinh and cosh alone overflow, their products with a sine or cosine may not."""
    sizes = [688.0, 700.0, 708.9, 709.1, 710.4, 711.0, 730.0, 900.0, 1300.0]
    small = [1e-300, -1e-120, np.pi / 2, -1.5 * np.pi, 0.3, 0.0]
    z = np.array([complex(s * a, b) for a in (1, -1) for s in sizes for b in small])
    z = np.concatenate([z, 1j * z])
    sizes = [74.0, 80.0, 87.9, 88.1, 89.0, 100.0, 160.0]
    narrow = [complex(a * s, b) for a in (1, -1) for s in sizes for b in (1e-38, 1e-20, 0.3, 0.0)]
    narrow = np.array([*narrow, *(1j * np.array(narrow))], dtype="F")
    with quiet():
        for x, tolerance in ((z, 1e-12), (narrow, 1e-4)):
            compiled, want = jit(getattr(np, name)), getattr(np, name)(x)
            for _ in range(2):
                found = compiled(x)
                np.testing.assert_allclose(found.real, want.real, rtol=tolerance)
                np.testing.assert_allclose(found.imag, want.imag, rtol=tolerance)


@pytest.mark.parametrize("other", [(40,), (), "real", 2.5, 1 - 2j])
@pytest.mark.parametrize("name", BINARY)
def test_of_two(name, other):
    y = numbers((40,)).real.copy() if other == "real" else other
    y = numbers(y, seed=1)[()] if isinstance(y, tuple) else y
    agree(BINARY[name], numbers((40,)), y, native=True)
    agree(BINARY[name], y, numbers((40,)), native=True)


def same(a, b):
    """Equal; where both are finite, nearly."""
    near = np.isclose(a, b, rtol=1e-12, atol=0.0) & np.isfinite(a) & np.isfinite(b)
    return (np.isnan(a) & np.isnan(b)) | (a == b) | near


@pytest.mark.parametrize("name", [name for name in UNARY if name not in ("cube", "eleventh")])
def test_zeros_and_infinities(name):
    f, compiled = UNARY[name], jit(UNARY[name])
    with quiet():
        want = np.asarray(f(SPECIAL))
        compiled(SPECIAL)
        got = np.asarray(compiled(SPECIAL))
    bad = ~(same(got.real, want.real) & same(got.imag, want.imag))
    assert not bad.any(), (SPECIAL[bad], got[bad], want[bad])


@pytest.mark.parametrize("name", BINARY)
def test_zeros_and_infinities_of_two(name):
    x, y = (v.ravel() for v in np.meshgrid(SPECIAL, SPECIAL))
    f, compiled = BINARY[name], jit(BINARY[name])
    with quiet():
        want = f(x, y)
        compiled(x, y)
        got = compiled(x, y)
        # NumPy's loop may round a product and a sum once, which shows in a part that cancels
        size = np.abs(want.real) + np.abs(want.imag)
        near = (np.abs(got - want) <= 1e-12 * size) & np.isfinite(size)
    bad = ~(near | same(got.real, want.real) & same(got.imag, want.imag))
    assert not bad.any(), (x[bad], y[bad], got[bad], want[bad])


@pytest.mark.parametrize("m, k, n", [(2, 3, 2), (20, 30, 10), (20, 30, 1), (1, 40, 1)])
@pytest.mark.parametrize("kind", ["D", "F"])
def test_products(m, k, n, kind):
    a, b = numbers((m, k), kind), numbers((k, n), kind, 1)

    def products(a, b):
        return a @ b, b.T @ a.conj().T + 1j, a @ b[:, 0]

    agree(products, a, b, tolerance=ROUNDING[kind], native=True)


@pytest.mark.parametrize("n", [5, 60])
def test_gradients(n):
    def loss(z, w):
        y = np.exp(1j * z * w) + z**2 / w - np.conj(z) * np.sin(w) + np.sqrt(w) * np.log(z)
        return np.sum(np.abs(y) ** 2) + np.sum(np.real(y * z[::-1]))

    z, w = numbers(n) * 0.2, numbers(n, seed=1) * 0.2 + 1.0
    agree(lambda z, w: gradient(loss, z, w), z, w, tolerance=1e-11, native=True)


def test_python_numbers_keep_their_arithmetic():
    f = agree(lambda a, b: (a * b + 1j) / (a - b), 1 + 2j, 3.5, others=[(2j, -1.0)])
    with pytest.raises(ZeroDivisionError):
        f(complex(2.0), 2.0)


def test_a_complex_number_that_a_loop_carries():
    agree(lambda z: fori_loop(0, 10, lambda i, c: c * z + i, z), np.complex128(0.5 + 0.25j))


def test_branches_on_complex_numbers():
    agree(lambda z: z * 2 if z else z + 1, 1j, others=[(0j,), (2.0 + 1j,), (0j,)])


def _bits(z):
    """Parts of a complex array as integers, a NaN like another."""
    parts = np.stack([z.real, z.imag])
    return np.where(np.isnan(parts), 7.0, parts).view(f"u{parts.itemsize}").astype(np.int64)


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
@pytest.mark.parametrize("n", [0, 1, 2, 0.5, -1])
def test_small_complex_powers(n, kind):
    z = np.array(
        [-1e-3 - 1e-9j, -1e-3 + 1e-9j, -2, complex(-2, -0.0), 3 + 4j, 0, -3j, complex(np.inf, 0)],
        kind,
    )
    f, fast = lambda z: z**n, jit(lambda z: z**n)
    with np.errstate(all="ignore"):
        want = f(z)
        for _ in range(3):
            assert fast(z).dtype == want.dtype
            near = np.abs(_bits(fast(z)) - _bits(want)) <= 2  # so zeros have the same sign
            assert near.all()
            np.testing.assert_array_equal(np.signbit(fast(z).real), np.signbit(want.real))
        slope = lambda z: gradient(lambda z: np.sum(np.imag(f(z)) * 2 + np.real(f(z))), z)[0]  # noqa: E731
        rtol = 1e-5 if kind is np.complex64 else 1e-12
        np.testing.assert_allclose(jit(slope)(z[:5]), slope(z[:5]), rtol)
