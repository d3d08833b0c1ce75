"""Functions of bits, compiled: neighbours, exponents, divisors, counts, powers; NumPy's numbers."""

import numpy as np
import pytest
from test_integers import exactly, numbers

from tracker import gradient, jit

pytestmark = pytest.mark.optimised

FLOATS = ["f4", "f8"]
WHOLE = ["i1", "u1", "i2", "i4", "u4", "i8", "u8"]


def everywhere(kind):
    """Numbers of every size, both signs, subnormal ones, and the ends of the range."""
    info, rng = np.finfo(kind), np.random.default_rng(3)
    low = np.log2(float(info.smallest_subnormal))
    sizes = np.ldexp(rng.uniform(0.5, 1, 200), rng.integers(low, info.maxexp, 200))
    edges = [0.0, info.max, info.smallest_normal, info.smallest_subnormal, 1.0, np.inf]
    x = np.concatenate([sizes, edges]).astype(kind)
    return np.concatenate([x, -x, np.array([np.nan, np.nextafter(info.smallest_normal, 0)], kind)])


@pytest.mark.parametrize("kind", FLOATS)
def test_parts_of_floats(kind):
    x = everywhere(kind)
    exactly(np.spacing, x)
    exactly(np.frexp, x)
    exactly(np.modf, x)
    for y in (np.roll(x, 1), x, np.zeros_like(x), np.full_like(x, -np.inf), -x):
        exactly(np.nextafter, x, y)


@pytest.mark.parametrize("kind", [*WHOLE, "?"])
def test_parts_of_integers_are_floats(kind):
    exactly(np.modf, numbers(kind, 50))
    exactly(np.frexp, numbers(kind, 50))


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("steps", ["i4", "i8"])
def test_scaling_by_powers_of_two_rounds_once(kind, steps):
    x = everywhere(kind)
    for n in (0, 1, -1, 30, -100, 150, -149, 1023, -1074, 2097, -2200, 2**31 - 1, -(2**31)):
        exactly(np.ldexp, x, np.full(len(x), n, steps))
    exactly(np.ldexp, x, np.random.default_rng(0).integers(-2100, 2100, len(x)).astype(steps))


def test_scaling_is_differentiated():
    x, n = np.array([0.5, -3.0]), np.array([3, -2])
    slopes = jit(lambda x, n: gradient(lambda x: np.sum(np.ldexp(x, n) ** 2), x)[0])
    for _ in range(2):
        np.testing.assert_array_equal(slopes(x, n), 2 * np.ldexp(x, 2 * n))


@pytest.mark.parametrize("kind", [*WHOLE, "?"])
def test_divisors_and_counts(kind):
    a, b = numbers(kind, 200), numbers(kind, 200, 1)
    exactly(np.gcd, a, b)
    exactly(np.lcm, a, b)
    exactly(np.bitwise_count, a)
    if kind != "?":
        exactly(np.reciprocal, a)


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("exponents", ["u1", "i8"])
def test_integer_powers_with_array_exponents(kind, exponents):
    x = numbers(kind, 200)
    n = np.random.default_rng(0).integers(0, 127, 200).astype(exponents)
    exactly(np.power, x, n)
    exactly(lambda x, n: x**n + n[0] ** x[1].astype(np.uint8), x, n)


def test_a_negative_integer_power_raises():
    f = jit(lambda x, n: x**n)
    x = np.arange(5)
    for _ in range(2):
        np.testing.assert_array_equal(f(x, np.full(5, 3)), x**3)
    with pytest.raises(ValueError, match="negative integer powers"):
        f(x, np.array([1, 2, -1, 0, 0]))
    np.testing.assert_array_equal(f(x, np.full(5, 300)), x**300)
