"""Host calls made by machine code: in order, with copies, with draws rolled back."""

import sys

import numpy as np
import pytest
from concurrently import at_once
from equality import assert_same

from tracker import custom_gradient, gradient, jit
from tracker.ir.lowering import Host
from tracker.ir.op import Op
from tracker.jit.api import trace
from tracker.jit.kernels import python_callbacks
from tracker.jit.pipeline.executor import CompiledLoop
from tracker.jit.runtime.compile_queue import drain
from tracker.tape.record import apply

X = np.array([0.3, 0.2, 0.9])
ARRAYS = [X, np.array([0.3, 0.2, -0.9]), X[::-1].copy()]


@pytest.fixture(params=["machine code", "executor"])
def by(request, monkeypatch):
    """Which part makes host calls."""
    if request.param == "executor":
        monkeypatch.setattr(python_callbacks, "_MAX_BYTES", -1)
    return request.param


def _is_native(f, *args):
    return "one native call" in f.explain(*args)


def _walk(x, r):
    """Metropolis: whether a step is taken depends on what was drawn before."""
    taken = 0
    for _ in range(3):
        y = x + 0.5 * r.normal(size=3)
        if np.log(r.random()) < np.sum(x * x) - np.sum(y * y):
            x, taken = y, taken + 1
    return x, taken


def _draws_of_both(x, r):
    y = r.normal(x[0], 2.0)
    if y > 0.3:
        return y * np.sin(x), r.integers(0, 5, size=2)
    np.random.seed(3)
    return y, np.random.normal(x)


def _error_later(x, r):
    y = r.normal(size=3)
    if x[2] < 0:
        raise ValueError("negative")
    return y / x


def _counts(x, r):
    return r.poisson(3.0 * np.abs(x)), r.random(3) < x, r.integers(7), r.normal() + 1j * x


def _order(x, r):
    first, second = r.normal(size=3), r.uniform(-1.0, np.exp(x))
    r.shuffle(second)
    return second, first, r.permutation(x)


PROGRAMS = {
    "walk": _walk,
    "branches": _draws_of_both,
    "an error later": _error_later,
    "dtypes": _counts,
    "order": _order,
    "unused": lambda x, r: (r.normal(size=4), x * r.normal())[1],
    "writes": lambda x, r: np.add(x, r.normal(size=3), out=x) * 2.0,
    "empty": lambda x, r: (r.normal(size=0), r.normal(size=(2, 0)) @ np.ones((0, 3)) + x),
    "bad scale": lambda x, r: r.normal(r.normal(), x),
    "Fortran": lambda x, r: np.copy(r.normal(x, size=(2, 3)), order="F"),
}


def _outcome(f, *args):
    try:
        return f(*args)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("name", PROGRAMS)
def test_draws_equal_those_of_the_plain_function(by, name):
    f = PROGRAMS[name]
    g = jit(f, max_traces=16)
    ours, plain = np.random.default_rng(5), np.random.default_rng(5)
    np.random.seed(0)
    state = np.random.get_state()
    for i in range(24):
        x = ARRAYS[i % 3]
        found, after = _outcome(g, a := x.copy(), ours), np.random.get_state()
        np.random.set_state(state)
        assert_same(found, _outcome(f, b := x.copy(), plain))
        assert_same(a, b)
        state = np.random.get_state()
        assert ours.bit_generator.state == plain.bit_generator.state
        assert np.array_equal(state[1], after[1])
        assert state[2:] == after[2:]


def test_machine_code_makes_host_calls():
    r = np.random.default_rng(0)
    for name in ("walk", "branches", "dtypes", "order", "writes"):
        g = jit(PROGRAMS[name])
        g(X.copy(), r)
        assert _is_native(g, X, r), name
        assert "host: draw" in g.explain(X, r)
    large = jit(lambda x, r: x * r.normal(size=20_000))
    large(1.0, r)
    assert "host call" in large.explain(1.0, r)
    odd = jit(lambda x, r: r.normal(x).astype(np.float16) * 2)
    assert odd(1.0, r).dtype == np.float16


def test_an_exception_of_a_host_call_reaches_the_caller(by):
    """All references of the call are released, also where draws are logged."""

    def f(x, s, r):
        y = r.normal(0.0, s)
        z = np.tile(x, 40) * y
        if y > 5.0:
            return z
        return z + r.normal(0.0, s)

    g, r = jit(f), np.random.default_rng(0)
    for _ in range(3):
        g(X, 1.0, r)
    before = r.bit_generator.state
    drain()
    references = [sys.getrefcount(x) for x in (X, r)]
    for _ in range(50):
        with pytest.raises(ValueError, match="scale < 0"):
            g(X, -1.0, r)
    assert references == [sys.getrefcount(x) for x in (X, r)]
    assert r.bit_generator.state == before
    assert g(X, 1.0, r).shape == (120,)


@custom_gradient(host=True)
def _root_of(x):
    if np.any(x < 0):
        raise ValueError("negative")
    return np.sqrt(x), lambda dy: (dy / 2 / np.sqrt(x),)


def test_the_function_can_catch_an_exception_of_a_host_call(by):
    def f(x):
        try:
            return np.sum(_root_of(x) * x)
        except ValueError:
            return np.sum(x)

    g = jit(f)
    assert [g(x) for x in ARRAYS[:1] * 3] == pytest.approx([f(X)] * 3)
    with pytest.warns(RuntimeWarning, match="goes on after an error that depends on values"):
        assert g(ARRAYS[1]) == f(ARRAYS[1])
    uncaught = jit(_root_of)
    for _ in range(5):
        assert np.array_equal(uncaught(X), np.sqrt(X))
        with pytest.raises(ValueError, match="negative"):
            uncaught(-X)


KEPT = []


@custom_gradient(host=True)
def _keeping(x, n):
    KEPT.append((x, n))
    return x * n + 1.0, lambda dy: (dy * n, np.sum(dy * x))


def test_operands_kept_by_a_host_call_do_not_change(by):
    f = jit(lambda x, n: np.sum(_keeping(np.sin(x), n) * x))
    KEPT.clear()
    for k in range(5):
        x = X + k
        want = np.sum((np.sin(x) * 2.0 + 1.0) * x)
        assert f(x, 2.0) == pytest.approx(want)
        np.testing.assert_allclose(
            gradient(f, x, 2.0)[0], np.sin(x) * 2.0 + 1.0 + x * 2.0 * np.cos(x)
        )
    firsts = [x for x, n in KEPT if n == 2.0]
    assert {type(n) for _, n in KEPT} == {float}
    for k in range(5):
        assert sum(np.allclose(x, np.sin(X + k)) for x in firsts) >= 1


def _odd(effect, results):
    """An op whose results are these, one after the other."""
    given = iter(results)
    return Op(
        "odd",
        numpy=(),
        method=None,
        entry=None,
        infer=lambda x: x,
        evaluate=lambda x: next(given),
        jvp=(None,),
        vjp=(None,),
        partials=None,
        lower=Host("a test", effect=effect),
        constant=False,
        needs_operand_values=True,
    )


@pytest.mark.parametrize("other", [np.ones(3, np.float32), np.ones(2), np.ones((3, 1)), 2.0, "x"])
def test_a_result_of_another_type_is_rejected(other):
    """Without an effect, another trace is made."""
    usual = np.array([1.0, 2.0, 3.0])
    op = _odd(False, [usual, usual, other, usual[::-1], other])
    run = CompiledLoop(trace(lambda x: apply(op, (x,)) * 2.0, X))
    np.testing.assert_array_equal(run([X])[0], usual * 2.0)
    assert run([X]) is None
    np.testing.assert_array_equal(run([X])[0], usual[::-1] * 2.0)
    op = _odd(True, [usual, usual, other])
    run = CompiledLoop(trace(lambda x: apply(op, (x,)) * 2.0, X))
    run([X])
    with pytest.raises(RuntimeError, match="another dtype or shape"):
        run([X])


@custom_gradient(host=True)
def _again(x):
    return np.array(_inner(x + 1.0)), lambda dy: (dy * 2.0,)


_inner = jit(lambda x: x * 2.0)


def test_a_host_call_may_call_jitted_functions_that_are_new():
    def f(x, n):
        return _again(x) * n

    g = jit(f)
    for shape in ((3,), (2, 2), (1,), (5,)):
        for _ in range(2):
            assert_same(g(np.ones(shape), 3.0), np.full(shape, 12.0))
    assert np.all(gradient(lambda x: np.sum(g(x, 3.0)), np.ones(3))[0] == 6.0)


def test_host_calls_of_threads_at_once_and_while_others_run():
    """Long work runs without the GIL, which a host call in the middle acquires."""
    big = np.linspace(0.0, 1.0, 100_000)

    def f(x, s, r):
        y = np.sum(np.sin(x) * s)
        return np.sum(np.cos(x * r.normal(y, 1.0))) + r.normal()

    g = jit(f)
    g(big, 0.5, np.random.default_rng(0))
    drain()
    found = {}

    def work(seed):
        ours = np.random.default_rng(seed)
        found[seed] = [g(big, 0.5, ours) for _ in range(10)]

    at_once(*(lambda seed=seed: work(seed) for seed in range(4)))
    for seed in range(4):
        plain = np.random.default_rng(seed)
        assert found[seed] == pytest.approx([f(big, 0.5, plain) for _ in range(10)], rel=1e-9)


def test_a_result_in_another_layout_is_copied():
    @custom_gradient(host=True)
    def twice(x):
        memory = np.zeros(x.nbytes + 1, np.uint8)
        found = memory[1:].view(float)
        found[:] = 2 * x
        return found, lambda dy: (2 * dy,)

    x = np.ones(20_000)
    f = jit(lambda x: np.sum(twice(x) ** 2))
    for _ in range(4):
        assert f(x) == 80_000.0
    assert f.cache_info().traces == 1
