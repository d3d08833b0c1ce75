"""`gradcheck` and `ngradient`: what they find, how often they call, and what they leave alone."""

import numpy as np
import pytest

import tracker
from tracker.testing import gradcheck, ngradient

V = np.array([1.0, 2.0, 3.0])


def test_gradcheck_names_the_first_bad_entry():
    def half_wrong(d):
        return d["w"] * tracker.data(d["w"])

    with pytest.raises(AssertionError, match=r"argument 0\['w'\]\[1\]"):
        gradcheck(lambda d: half_wrong({"w": d["w"][1:]}), {"w": V})
    with pytest.raises(AssertionError, match="imaginary part"):
        gradcheck(lambda z: np.real(z) + 2 * tracker.data(z).imag, 1 + 2j)
    with pytest.raises(AssertionError, match=r"gradient \(vjp\) of argument 0\[1\]"):
        gradcheck(tracker.custom_gradient(lambda x: (x * x, lambda g: (2 * g * x * [1, 2, 1],))), V)
    with pytest.raises(tracker.NotScalarError, match=r"no float or complex number.*2\.0, not 2"):
        gradcheck(lambda n: n, 3)
    assert gradcheck(half_wrong_at_second_order, V)
    with pytest.raises(AssertionError, match="jvp of operand 0"):
        gradcheck(half_wrong_at_second_order, V, order=2)


def half_wrong_at_second_order(x):
    """The first derivative is right, and treats a part of itself as constant."""
    c = tracker.data(x)
    return np.sum(x * c * c * 3 - 2 * c**3)


def test_gradcheck_does_not_touch_its_inputs():
    def f(x, d):
        x[0] = d["w"][0] * 2
        d["w"][:] = 0.0
        return np.sum(x)

    x, w = V.copy(), V.copy()
    assert gradcheck(f, x, {"w": w})
    assert x.tolist() == V.tolist()
    assert w.tolist() == V.tolist()


def test_ngradient():
    found, structure = ngradient(lambda x, d: np.sum(x**2) * d["s"], V, {"s": 2.0, "n": "x"})
    np.testing.assert_allclose(found, 4 * V)
    assert structure == {"s": pytest.approx(14.0), "n": None}
    z = 1 + 2j
    assert ngradient(lambda z: abs(z) ** 2, z)[0] == pytest.approx(2 * z)
    with pytest.raises(tracker.NotScalarError, match=r"ngradient needs a scalar.*\(3,\)"):
        ngradient(lambda x: x, V)


@pytest.mark.parametrize("f", [np.max, lambda x: np.sum(np.sort(x) * [1, 2, 3]), lambda x: x % 0.5])
def test_gradcheck_looks_nearer_where_a_kink_or_a_jump_is_close(f):
    x = np.array([0.7, 0.7 + 2e-5, 0.5 + 2e-5])
    assert gradcheck(f, x)
    assert gradcheck(f, x, order=2)


def test_gradcheck_calls_a_smooth_function_four_times_for_an_entry():
    plain = []

    def f(x):
        if not tracker.istracked(x):
            plain.append(x)
        return np.sum(np.sin(x) * x[0])

    assert gradcheck(f, np.array([0.3, -2.0, 1.1]))
    assert len(plain) == 4 * 3


def test_gradcheck_takes_no_wrong_derivative_for_a_kink():
    @tracker.custom_gradient
    def wrong(x):
        return np.sin(x), lambda dy: (1.0001 * dy * np.cos(x),)

    with pytest.raises(AssertionError, match="gradient"):
        gradcheck(wrong, 0.3)
