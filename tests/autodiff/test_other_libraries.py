"""Habits of other libraries: they work, or the error says what to type."""

import ctypes
import ctypes.util
import functools

import numpy as np
import pytest

import tracker
from tracker import grad, gradient, jit, param, value_and_grad, withgradient

X = np.array([1.0, 2.0])


def energy(x, y=2.0):
    return np.sum(x * x) * y


def with_more(x, y=2.0):
    return energy(x, y), {"twice": 2 * x}


libm_sin = ctypes.CDLL(ctypes.util.find_library("m")).sin
libm_sin.restype, libm_sin.argtypes = ctypes.c_double, [ctypes.c_double]


class Model:
    def loss(self, x):
        return np.sum(x)


HINTS = {
    r"Use tracker\.gradient\(f, x\)": [
        lambda: grad(energy)(X),
        lambda: grad(jit(energy))(X),
        lambda: grad(functools.partial(energy, y=3.0))(X),
        lambda: grad(Model().loss)(X),
    ],
    r"Use gradient\(f, x\)": [lambda: gradient(energy)(X), lambda: gradient(jit(energy))(X)],
    r"Use jacobian\(f, x\)\.": [lambda: tracker.jacobian(energy)(X)],
    r"Use withgradient\(f, x\)": [lambda: withgradient(energy)(X)],
    r"Use value_and_grad\(f\)\(x\), or withgradient\(f, x\)": [
        lambda: value_and_grad(energy, X),
        lambda: value_and_grad(energy, 2.0),
        lambda: value_and_grad(jit(energy), [1.0, 2.0]),
    ],
    r"a dict: x\.to_dict\(\); for a table of data, .* argnums=0": [
        lambda: gradient(lambda x: x["a"] ** 2, np.ones(2)),
        lambda: gradient(lambda x: np.sum(x[["a", "b"]] ** 2), np.ones(2)),
    ],
    r"Use gradient\(f, x, argnums=0\)": [lambda: gradient(energy, X, argnums="x")],
    r"differentiates positional argument 3, and the call has 2": [
        lambda: gradient(energy, X, 2.0, argnums=3),
        lambda: withgradient(jit(energy), X, 2.0, argnums=(0, 3)),
    ],
    r"no attribute 'backward'\. Use tracker\.back\(t\)": [lambda: param(X).backward()],
    r"no attribute 'detach'\. Use tracker\.data\(t\)": [lambda: param(X).detach()],
    r"no attribute 'numpy'\. Use tracker\.data\(t\)": [lambda: param(X).numpy()],
    r"no attribute 'cpu'\. Use t itself": [lambda: param(X).cpu()],
    r"no attribute 'clone'\. Use t\.copy\(\)": [lambda: param(X).clone()],
    r"no attribute 'requires_grad'\. Use tracker\.istracked\(t\)": [lambda: param(X).requires_grad],
    r"no attribute 'requires_grad_'\. Use tracker\.param\(x\)": [lambda: param(X).requires_grad_()],
    r"no attribute 'is_leaf'\. Use tracker\.isleaf\(t\)": [lambda: param(X).is_leaf],
    r"no attribute 'zero_grad'\. Use tracker\.zero_grad\(t\)": [lambda: param(X).zero_grad()],
    r"no attribute 'iloc'\. Use t\[i\]": [lambda: param(X).iloc[0]],
    r"no attribute 'groupby'\. Use gradient\(f, x, table, argnums=0\)": [
        lambda: param(X).groupby("a")
    ],
    r"no attribute 'loc'\. Use t\[i\]": [lambda: param(X).loc[0]],
    r"no attribute 'rolling'\. Use np\.lib\.stride": [lambda: param(X).rolling(2)],
    r"no attribute 'median'\. Use np\.median\(t\)": [lambda: param(X).median()],
    r"no axis of the name 'time'\. Give its position: axis=0": [
        lambda: gradient(lambda x: x.mean("time"), X),
        lambda: gradient(lambda x: np.sum(x, axis="time"), X),
    ],
    r"custom_gradient\(host=True\)": [
        lambda: gradient(libm_sin, 1.0),
        lambda: gradient(lambda x: libm_sin(x[0]), X),
    ],
    r"no attribute 'at'\. Use t\[i\] = v": [lambda: param(X).at[0].set(1.0)],
    r"no attribute 'block_until_ready'\. Use t itself": [lambda: param(X).block_until_ready()],
}


@pytest.mark.parametrize(
    "hint, call", [(hint, call) for hint, calls in HINTS.items() for call in calls]
)
def test_an_error_says_what_to_type(hint, call):
    with pytest.raises(
        (tracker.TrackerError, IndexError, TypeError, ctypes.ArgumentError),
        match=rf"{hint}.*test_other_libraries\.py:\d+\)",
    ):
        call()


def test_what_other_libraries_ask_for_is_absent():
    for name in ("numpy", "detach", "requires_grad", "at"):
        assert not hasattr(param(X), name)
    assert tracker.istracked(param(2.0).item())


def test_grad_of_what_is_no_value_is_none():
    assert [grad(x) for x in (1.0, "text", None, np.sin, [energy])] == [None] * 5
    model = {"activation": energy, "w": param(X)}
    assert tracker.tree.map(grad, model)["activation"] is None
    assert gradient(lambda: 3.0) == () and gradient(lambda y=2.0: y) == ()


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_argnums(wrap):
    f = wrap(energy)
    np.testing.assert_array_equal(gradient(f, X, 3.0, argnums=0), 6 * X)
    np.testing.assert_array_equal(gradient(f, X, y=3.0, argnums=0), 6 * X)
    assert gradient(f, X, 3.0, argnums=1) == gradient(f, X, 3.0, argnums=-1) == 5.0
    assert gradient(f, X, 3.0, argnums=(1,)) == (5.0,)
    slope, first = gradient(f, X, 3.0, argnums=[1, 0])
    assert slope == 5.0 and first.tolist() == [6.0, 12.0]
    val, (slope, first) = withgradient(f, X, 3.0, argnums=(1, 0))
    assert (val, slope) == (15.0, 5.0) and first.tolist() == [6.0, 12.0]
    assert withgradient(f, X, 3.0, argnums=1) == (15.0, 5.0)
    scaled = wrap(lambda m, x: m["scale"] * x * m["n"])
    entry = withgradient(scaled, {"scale": 2.0, "n": 3}, 5.0, argnums=0).grad
    assert entry == {"scale": 15.0, "n": None}  # as without argnums
    with pytest.raises(tracker.NotScalarError, match="gradient needs a scalar"):
        gradient(wrap(lambda x: x * 2), X, argnums=0)


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_auxiliary_results(wrap):
    both = value_and_grad(wrap(with_more), has_aux=True)
    for _ in range(2):
        (value, more), slope = both(X, 3.0)
        assert value == 15.0 and slope.tolist() == [6.0, 12.0]
        assert more["twice"].tolist() == [2.0, 4.0] and type(more["twice"]) is np.ndarray
    with pytest.raises(tracker.NotScalarError, match="the output is a tuple"):
        value_and_grad(wrap(with_more))(X)


def test_static_arguments_by_other_names():
    def power(x, n, times=1):
        for _ in range(n):
            x = x * x
        return x * times

    for fast in (
        jit(power, static_argnums=1),
        jit(power, static_argnums=(1,), static=2),
        jit(power, static_argnames="n"),
        jit(static_argnames=["n", "times"])(power),
    ):
        assert [fast(2.0, 2), fast(2.0, 3), fast(2.0, 2)] == [16.0, 256.0, 16.0]
        assert fast.cache_info().signatures == 2
        assert gradient(fast, 2.0, 2, argnums=0) == 32.0
    with pytest.raises(tracker.UnsupportedError, match="no argument 'm' to be static"):
        jit(power, static_argnames="m")
