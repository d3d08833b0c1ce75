"""Within `strong_zeros_at_once` the trace of a derivative has no guards, and the same numbers."""

import numpy as np
import pytest

import tracker
from tracker.autodiff.reverse import strong_zeros_at_once
from tracker.ir.graph import Guard
from tracker.ir.passes.dead_code import dead_code


def kink(x):
    return np.sum(np.where(x > 0, np.sqrt(np.abs(x)), 0.0))


STRONG = "strong_multiply"
DERIVATIVES = {
    "reverse": lambda x: tracker.gradient(kink, x, check_finite=False)[0],
    "forward": lambda x: tracker.jvp(kink, (x,), (np.ones(3),))[1],
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_the_trace_of_a_derivative_has_no_guard(name):
    f, x = DERIVATIVES[name], np.array([1.0, 0.0, -1.0])
    wanted = f(x)
    assert any(isinstance(step, Guard) for step in tracker.trace(f, np.ones(3)).body)
    with strong_zeros_at_once():
        function = tracker.trace(f, np.ones(3))
        np.testing.assert_array_equal(f(x), wanted)
    assert not any(isinstance(step, Guard) for step in function.body)
    assert function.has_op(STRONG)


def kinks(x, y):
    roots = np.where(x > 0, np.sqrt(np.abs(x)), 0.0) * np.exp(x * y)
    return np.sum(roots * np.where(y > 0, np.log(np.abs(y)), y) * np.cos(x) * np.sin(y))


def of_kinks(*xs):
    return tracker.gradient(kinks, *xs, check_finite=False)


SMOOTH, KINKED = np.array([1.0, 2.0, -1.0]), np.array([0.5, 0.0, -1.0])


def count_products(*xs):
    function = dead_code(tracker.trace(of_kinks, *xs))
    names = [eqn.op.name for eqn in function.eqns]
    return names.count("multiply") + names.count("finite_multiply"), names.count(STRONG)


def test_a_trace_has_strong_zeros_only_where_the_numbers_need_them():
    products, none = count_products(SMOOTH, SMOOTH)
    others, one = count_products(KINKED, SMOOTH)
    assert (none, one) == (0, 1)
    assert others == products - 1  # nothing is left of the first pass


def test_other_numbers_need_other_strong_zeros():
    fast = tracker.jit(of_kinks, strict=True)
    orders = [(KINKED, SMOOTH), (SMOOTH, KINKED), (KINKED, KINKED), (SMOOTH, SMOOTH)]
    with np.errstate(all="ignore"):
        for xs in [*orders, *orders]:
            for got, want in zip(fast(*xs), of_kinks(*xs), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-13)
    assert fast.cache_info().traces == 2  # the second trace serves all numbers


def test_a_trace_with_nans_serves_no_finite_numbers():
    """Their products would be strong for nothing."""
    nan = SMOOTH * np.nan
    function = tracker.trace(of_kinks, nan, SMOOTH)
    assert function.has_op(STRONG)
    assert any(isinstance(step, Guard) for step in function.body)


def roots(x):
    return np.sum(np.where(x > 0, np.sqrt(np.arctan2(x, np.arcsin(x))), 0.0))


# The products of a pass with few strong zeros are multiplied by other numbers then, which may be
# infinite or NaN.
AT_ROOTS = np.array([0.5, 0.0, -1.0, 0.0])


@pytest.mark.parametrize("derivative", [tracker.hessian, tracker.jacobian])
def test_derivatives_of_a_pass_with_few_strong_zeros(derivative):
    with np.errstate(all="ignore"):
        want = derivative(roots, AT_ROOTS)
        assert np.isfinite(want).all()
        fast = tracker.jit(lambda x: derivative(roots, x))
        np.testing.assert_allclose(fast(AT_ROOTS), want)


def test_gradients_of_a_compiled_pass_with_few_strong_zeros():
    def total_slope(x):
        return np.sum(tracker.gradient(roots, x)[0])

    fast = tracker.jit(total_slope)
    with np.errstate(all="ignore"):
        (want,) = tracker.gradient(total_slope, AT_ROOTS)
        for _ in range(3):
            np.testing.assert_allclose(tracker.gradient(fast, AT_ROOTS)[0], want)
