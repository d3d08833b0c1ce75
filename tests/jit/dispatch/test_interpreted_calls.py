"""The first calls after a trace do not wait for machine code: NumPy interprets the trace."""

import functools
import traceback

import numpy as np
import pytest

import tracker
from tracker import tree
from tracker.control import step_runner
from tracker.jit.dispatch import interpreter
from tracker.jit.pipeline.executor import CompiledLoop
from tracker.jit.runtime.compile_queue import drain
from tracker.support.recently_used import RecentlyUsed

X = np.linspace(0.5, 2.0, 12)
COUNT = 8


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Calls are interpreted, as they are outside of tests."""
    monkeypatch.setattr(interpreter, "_MAX_CALLS", COUNT)


def _slow_calls(f):
    return f.cache_info().slow


class Counter:
    total = 0.0


def _loop(x):
    total = 0.0
    for row in x.reshape(4, 3):
        total = total + np.tanh(row @ row) * total
    return total + np.sum(x)


def _scanned(x):
    def step(carry, row):
        return np.sin(carry + row), carry

    last, states = tracker.scan(step, np.zeros(3), x.reshape(4, 3))
    return last, states


def _branches(x):
    return tracker.cond(np.sum(x) > 3, lambda y: y * 2, lambda y: -y, x)


def _newton(x):
    """Stops on a condition."""
    return tracker.while_loop(
        lambda y: np.max(np.abs(y * y - x)) > 1e-9, lambda y: 0.5 * (y + x / y), x
    )


def _relaxed(x):
    """Loops in a loop that stops on a condition."""

    def sweep(state):
        y, _ = state
        new = tracker.scan(lambda c, row: (0.5 * np.sin(c + row), c), y, x.reshape(4, 3))[0]
        small = tracker.while_loop(lambda z: np.sum(z) > 0.1, lambda z: 0.5 * z, 1.0 + new * new)
        following = 0.5 * new + 0.01 * small
        return following, np.max(np.abs(following - y))

    return tracker.while_loop(lambda state: state[1] > 1e-6, sweep, (x[:3], np.float64(1.0)))[0]


def _counted(x, n):
    return tracker.while_loop(lambda s: s[1] < n, lambda s: (np.sin(s[0]) + x, s[1] + 1), (x, 0))[0]


PROGRAMS = {
    "array": lambda x: np.exp(-x) * x,
    "NumPy number": lambda x: np.sum(x * x),
    "several": lambda x: {"a": x + 1, "b": [np.max(x), (x[2], 3)]},
    "Fortran order": lambda x: np.asfortranarray(x.reshape(3, 4)) * 2,
    "transposed": lambda x: np.exp(x.reshape(3, 4)).T,
    "views of the argument": lambda x: (x[::2], x, x.reshape(3, 4)),
    "one array twice": lambda x: [x * 2] * 2,
    "integers": lambda x: (np.argmax(x), x > 1, np.arange(5) + np.argmin(x)),
    "complex": lambda x: np.fft.fft(x) * 1j,
    "float32": lambda x: x.astype(np.float32) / 3,
    "loop": _loop,
    "scan": _scanned,
    "branches": _branches,
    "open loop": _newton,
    "loops in an open loop": _relaxed,
    "solve": lambda x: np.linalg.solve(np.outer(x, x) + np.eye(12), x),
    "no number": lambda x: np.log(x - 1.0),
}


def _leaves(result):
    return [
        (type(leaf), leaf.flags.c_contiguous, np.asarray(leaf).tobytes())
        if isinstance(leaf, np.ndarray)
        else (type(leaf), leaf)
        for leaf in tree.leaves(result)
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_interpreted_results_are_those_of_the_plain_function(name):
    program, x = PROGRAMS[name], X.copy()
    fast = tracker.jit(program)
    with np.errstate(all="ignore"):
        fast(x)
        wanted = program(x * 1.25)
    result = fast(x * 1.25)
    assert _slow_calls(fast) == 2
    assert tree.flatten(result)[1] == tree.flatten(wanted)[1]
    for (kind, *layout), (wanted_kind, *wanted_layout) in zip(
        _leaves(result), _leaves(wanted), strict=True
    ):
        assert kind is wanted_kind and layout[:-1] == wanted_layout[:-1]
    for leaf, other in zip(tree.leaves(result), tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(leaf, other, rtol=1e-13)


def test_python_numbers_stay_python_numbers():
    fast = tracker.jit(lambda x, n: (x * n, n + 1, x > 2, -x))
    for x in (2.5, 3.5, 4.5):
        result = fast(x, 3)
        assert result == (x * 3, 4, x > 2, -x)
        assert [type(part) for part in result] == [float, int, bool, float]


@pytest.mark.parametrize(
    "name", ["NumPy number", "loop", "solve", "open loop", "loops in an open loop"]
)
def test_interpreted_gradients_are_those_of_the_tape(name):
    program = PROGRAMS[name]

    def loss(x):
        return np.sum(program(x))

    fast = tracker.value_and_grad(tracker.jit(loss))
    for i in range(3):
        value, slope = fast(X + i)
        plain_value, plain_slope = tracker.value_and_grad(loss)(X + i)
        np.testing.assert_allclose(value, plain_value, rtol=1e-13)
        np.testing.assert_allclose(slope, plain_slope, rtol=1e-13)
    assert _slow_calls(fast) == 3


def test_machine_code_takes_over_after_the_same_number_of_calls():
    fast = tracker.jit(PROGRAMS["array"])
    for _ in range(30):
        fast(X)
        drain()
    assert _slow_calls(fast) == 1 + COUNT
    assert "call(s) interpreted" not in fast.explain(X)


def test_one_call_is_interpreted_if_compiling_takes_longer(monkeypatch):
    monkeypatch.setattr(interpreter, "_MAX_NS", 0)
    f = tracker.jit(_loop)
    for slow in (1, 2, 2):
        f(X)
        assert _slow_calls(f) == slow


def test_explain_says_how_many_calls_are_interpreted():
    fast = tracker.jit(PROGRAMS["array"])
    fast(X), fast(X)
    assert f"{COUNT - 1} call(s) interpreted" in fast.explain(X)


def test_results_share_no_memory_with_arguments():
    fast = tracker.jit(lambda x: (x * 1.0, np.asarray(x)))
    fast(X)
    copied, same = fast(X)
    assert same is X and not np.shares_memory(copied, X)
    captured = np.arange(3.0)
    fast = tracker.jit(lambda x: (np.add(x, 0.0), captured + 0.0))
    fast(X)
    assert not any(np.shares_memory(a, b) for a, b in zip(fast(X), (X, captured), strict=True))


def test_effects_happen_at_every_call(capsys):
    seen = []
    state = Counter()

    def f(x, out):
        out[1:] = x[1:] * 2
        state.total += np.sum(x)
        seen.append(np.max(x))
        print("traced")
        return x + state.total

    fast = tracker.jit(f)
    outs = [np.zeros(12) for _ in range(6)]
    results = [fast(X, out) for out in outs]
    assert all(np.array_equal(out[1:], X[1:] * 2) for out in outs)
    np.testing.assert_allclose([r[0] - X[0] for r in results], np.sum(X) * np.arange(1, 7))
    assert len(seen) == 6 and state.total == pytest.approx(6 * np.sum(X))
    assert capsys.readouterr().out.count("traced") <= 3  # when numbers are found to change


def test_captured_state_is_guarded():
    scale = [2.0]
    fast = tracker.jit(lambda x: x * scale[0])
    fast(X), fast(X)
    scale[0] = 3.0
    np.testing.assert_allclose(fast(X), X * 3)
    np.testing.assert_allclose(fast(X), X * 3)


def test_another_way_through_is_traced():
    fast = tracker.jit(lambda x: x * 2 if np.sum(x) > 0 else x * 3)
    for x in (X, -X, X, -X, X):
        np.testing.assert_allclose(fast(x), x * (2 if np.sum(x) > 0 else 3))
    assert fast.cache_info().traces == 2


def test_errors_are_those_of_the_plain_function():
    def inverse(x):
        return np.linalg.inv(x)

    fast = tracker.jit(inverse)
    fast(np.eye(3)), fast(np.eye(3))
    with pytest.raises(np.linalg.LinAlgError) as caught:
        fast(np.zeros((3, 3)))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert any(frame.name == "inverse" for frame in frames)
    np.testing.assert_allclose(fast(2 * np.eye(3)), 0.5 * np.eye(3))


def test_an_exception_of_a_signal_handler_reaches_the_caller(monkeypatch):
    def interrupted(function, values):
        raise TimeoutError("too late")

    fast = tracker.jit(PROGRAMS["array"])
    fast(X)
    with monkeypatch.context() as patch, pytest.raises(TimeoutError, match="too late"):
        patch.setattr(interpreter, "replay", interrupted)
        fast(X)
    np.testing.assert_allclose(fast(X), PROGRAMS["array"](X))
    assert fast.cache_info().traces == 1


def test_arrays_that_share_memory_run_the_plain_function():
    def shift(x, y):
        x[1:] = y[:-1]
        return np.sum(x)

    fast = tracker.jit(shift)
    fast(X.copy(), X.copy())
    x, wanted = X.copy(), X.copy()
    assert fast(x, x) == shift(wanted, wanted) and np.array_equal(x, wanted)


@pytest.mark.parametrize("reason", ["large", "long open loop", "strict", "one thread"])
def test_calls_that_wait_for_machine_code(reason):
    size = 1_000_000 if reason == "large" else 12
    program = (lambda x: _counted(x, 30_000)) if reason == "long open loop" else np.tanh
    fast = tracker.jit(program, strict=reason == "strict")
    x = np.ones(size)
    with tracker.config(threads=1 if reason == "one thread" else 2):
        for _ in range(3):
            fast(x)
    assert _slow_calls(fast) < 3


def _long_for_statement(x):
    for k in range(4000):
        x = x - 0.01 * np.sin(x) * (1.0 + 0.001 * k)
    return x


LONG_LOOPS = {
    "while": lambda x: _counted(x, 12_000),
    "for statement": _long_for_statement,
    "its gradient": lambda x: tracker.gradient(_long_for_statement, x)[0],
}


@pytest.mark.parametrize("loop", LONG_LOOPS)
def test_calls_with_long_loops_are_interpreted_by_the_native_code_of_these(loop):
    f = LONG_LOOPS[loop]
    fast = tracker.jit(f)
    for calls, x in enumerate((0.3, 0.4, 0.5), 1):
        np.testing.assert_allclose(fast(x), f(x), rtol=1e-11)
        assert _slow_calls(fast) == calls


def test_partial_and_method_are_interpreted():
    class Model:
        def __init__(self, w):
            self.w = w

        @tracker.jit
        def __call__(self, x):
            return np.sum(np.tanh(self.w * x))

    model = Model(np.arange(12.0))
    bound = tracker.jit(functools.partial(lambda a, x: a * x, 3.0))
    for i in range(4):
        model.w = model.w + i
        assert model(X) == pytest.approx(np.sum(np.tanh(model.w * X)))
        np.testing.assert_allclose(bound(X + i), 3 * (X + i))


@pytest.mark.parametrize("is_gradient", [False, True])
def test_a_call_with_far_more_iterations_than_the_traced_one_goes_on_in_machine_code(is_gradient):
    def of(x, n, out):
        out[0] += 1.0
        return tracker.gradient(_counted, x, n, argnums=0) if is_gradient else _counted(x, n)

    fast, out = tracker.jit(of), np.zeros(1)
    for calls, n in enumerate((10, 10, 20_000, 10), 1):
        np.testing.assert_allclose(fast(0.3, n, out), of(0.3, n, np.zeros(1)), rtol=1e-12)
        assert out[0] == calls
    assert _slow_calls(fast) == 3 and fast.cache_info().traces == 1


def test_interpreted_loops_are_not_compiled_by_themselves(monkeypatch):
    """As traced loops are after a number of steps, whose code they use: all of the call is being
    compiled."""
    compiled, used = [], []

    class Noted(CompiledLoop):
        def __init__(self, loop):
            compiled.append(loop)
            super().__init__(loop)

        def __call__(self, values):
            used.append(self)
            return super().__call__(values)

    monkeypatch.setattr(step_runner, "_compile_cost", lambda body: 50)
    monkeypatch.setattr(step_runner, "_compiled", RecentlyUsed(9))
    monkeypatch.setattr(step_runner, "_compile", Noted)
    fast = tracker.value_and_grad(tracker.jit(lambda x: np.sum(_newton(x)) + _loop(x)))
    fast(X)
    assert compiled
    del compiled[:], used[:]
    fast(X * 1.1)
    assert used and not compiled and _slow_calls(fast) == 2


def test_an_integrated_differential_equation_is_interpreted():
    integrate = pytest.importorskip("scipy.integrate")

    def loss(rate, y0):
        solution = integrate.solve_ivp(lambda t, y: -rate * y * y, (0.0, 2.0), y0, rtol=1e-6)
        return np.sum(solution.y[:, -1] ** 2)

    fast = tracker.value_and_grad(tracker.jit(loss))
    for rate in (0.5, 0.6):
        value, slope = fast(rate, X[:3])
        plain_value, plain_slope = tracker.value_and_grad(loss)(rate, X[:3])
        np.testing.assert_allclose(value, plain_value, rtol=1e-9)
        np.testing.assert_allclose(slope, plain_slope, rtol=1e-6)
    assert _slow_calls(fast) == 2


def test_interpreted_calls_draw_what_plain_ones_draw():
    """Also where a guard does not hold, or a loop takes long, after numbers were drawn."""

    def program(rng):
        def f(x, n):
            drawn = rng.normal(size=3)
            scaled = drawn * 2.0 if x > 0 else drawn / 2.0
            return _counted(np.sum(scaled) + rng.random(), n)

        return f

    fast, plain = (g(program(np.random.default_rng(3))) for g in (tracker.jit, lambda f: f))
    for x, n in ((1.0, 9), (1.0, 9), (-1.0, 9), (1.0, 9), (1.0, 20_000), (-1.0, 9), (1.0, 9)):
        np.testing.assert_allclose(fast(x, n), plain(x, n), rtol=1e-12)
    assert fast.cache_info().traces == 2


def test_a_generator_made_in_the_function_is_interpreted():
    def f(x, seed):
        rng = np.random.default_rng(seed)
        return np.sum(rng.normal(size=12) * x) + rng.random()

    fast = tracker.value_and_grad(tracker.jit(f))
    for seed in (1, 1, 1):
        value, slope = fast(X, seed)
        plain_value, plain_slope = tracker.value_and_grad(f)(X, seed)
        np.testing.assert_allclose(value, plain_value, rtol=1e-13)
        np.testing.assert_allclose(slope, plain_slope, rtol=1e-13)
    assert _slow_calls(fast) == 3


def test_a_call_with_other_effects_waits_for_machine_code():
    """A warning of a trace cannot be taken back, so it is not given before all guards hold."""
    weights = np.arange(9.0).reshape(3, 3)
    fast = tracker.value_and_grad(tracker.jit(lambda a: np.sum(np.linalg.eigh(a)[1] * weights)))
    for _ in range(3):
        with pytest.warns(tracker.DegenerateWarning, match="coincide") as given:
            fast(np.diag([3.0, 3.0, 1.0]))
        assert len(given) == 1
    assert _slow_calls(fast) < 3
