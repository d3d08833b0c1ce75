"""`np.errstate` around a compiled function does what it does around the plain one."""

import contextvars

import numpy as np
import pytest

import tracker
from tracker import gradient, jit, value_and_grad


def f(x):
    return np.sum(np.log(x) * np.exp(x))


BAD = {
    "divide": np.zeros(3),
    "over": np.full(3, 1e3),
    "under": np.full(3, -800.0),
    "invalid": np.full(3, -1.0),
}
ROUTES = {
    "jit": lambda fast: fast,
    "jit of gradient": lambda fast: jit(lambda x: gradient(f, x, check_finite=False)),
    "gradient of jit": lambda fast: lambda x: gradient(fast, x, check_finite=False),
    "value_and_grad of jit": lambda fast: value_and_grad(fast),
    "jvp of jit": lambda fast: lambda x: tracker.jvp(fast, (x,), (np.ones(3),)),
}


@pytest.fixture(params=ROUTES)
def fast(request):
    """A compiled function that has been called outside of any setting."""
    made = ROUTES[request.param](jit(f))
    for _ in range(3):
        made(np.ones(3))
    return made


@pytest.mark.parametrize("kind", BAD)
def test_errors_are_raised(fast, kind):
    with np.errstate(all="ignore"):
        for _ in range(2):
            with np.errstate(**{kind: "raise"}), pytest.raises(FloatingPointError):
                fast(BAD[kind])
    with np.errstate(all="raise"):
        fast(np.ones(3))


def test_settings_of_the_whole_thread():
    fast = jit(f)
    fast(np.ones(3)), fast(np.ones(3))
    before = np.seterr(divide="raise")
    try:
        with pytest.raises(FloatingPointError):
            fast(BAD["divide"])
    finally:
        np.seterr(**before)


def test_errors_are_handed_to_a_function():
    fast, seen = jit(f), []
    for _ in range(3):
        fast(np.ones(3))
    with np.errstate(divide="call", call=lambda kind, flag: seen.append(kind)):
        fast(BAD["divide"])
    assert seen == ["divide by zero"]


def test_written_arguments_are_written_once():
    """The plain function runs alone, and stops at its line."""

    @jit
    def g(x):
        x += 1.0
        return 1.0 / x

    x = np.zeros(3)
    g(x), g(x)
    x[:] = -1.0
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        g(x)
    np.testing.assert_array_equal(x, 0.0)


def test_reported_errors_suspend_tracing():
    fast = jit(f)
    with np.errstate(all="raise"):
        for _ in range(3):
            assert fast(np.ones(3)) == f(np.ones(3))
    assert fast.cache_info().traces == 0
    for _ in range(4):
        fast(np.ones(3))
    slow = fast.cache_info().slow
    with np.errstate(all="ignore"):
        fast(np.ones(3))
        fast(BAD["divide"])
    assert (fast.cache_info().traces, fast.cache_info().slow) == (1, slow)


@pytest.mark.parametrize("other", [contextvars.Context, contextvars.copy_context])
def test_settings_of_another_context_are_not_looked_at(other):
    """Whatever NumPy's context variable remembers of the other context: a value, or none."""
    fast = jit(f)
    for _ in range(3):
        fast(np.ones(3))
    reporting = contextvars.copy_context()
    reporting.run(np.seterr, divide="raise")

    def silent():
        with np.errstate(divide="ignore", invalid="ignore"):
            fast(BAD["divide"])

    other().run(silent)
    with pytest.raises(FloatingPointError):
        reporting.run(fast, BAD["divide"])
