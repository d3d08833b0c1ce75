"""checkpoint, forwarddiff, ignore_derivatives, hooks: what is kept, what is cut, what is seen."""

import re

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tracker
from tracker import back, checkpoint, gradient, hook, ignore_derivatives, jit, jvp, param
from tracker.debug import tape

V = np.array([0.5, -1.0, 2.0])
HERE = r"test_checkpoint\.py:\d+"


# Checkpoint ---------------------------------------------------------------------------------------


def deep(x, w=1.0):
    for _ in range(20):
        x = np.sin(x * w)
    return x


def test_checkpoint_saves_memory():
    x = param(np.linspace(0.0, 1.0, 1000))
    plain = np.sum(deep(deep(x)))
    kept = np.sum(checkpoint(deep, checkpoint(deep, x)))
    assert tape(plain).live_bytes > 40 * 8000
    assert tape(kept).live_bytes < 5 * 8000
    back(plain)
    want = x.grad
    tracker.zero_grad(x)
    back(kept)
    np.testing.assert_allclose(x.grad, want)


def test_checkpoint_runs_the_function_twice():
    runs = []

    def f(x):
        runs.append(1)
        return np.sum(x**2)

    y, pull = tracker.pullback(lambda x: checkpoint(f, x), V)
    assert (len(runs), y) == (1, np.sum(V**2))
    assert pull(1.0)[0].tolist() == (2 * V).tolist()
    assert len(runs) == 2


def test_a_captured_leaf_is_no_constant_in_the_second_run():
    def f(end):
        decay = lambda a: solve_ivp(lambda t, y: -a * y, (0.0, end), [1.0], t_eval=[end])  # noqa: E731
        return checkpoint(lambda a: decay(a).y[0, 0], 0.7)

    assert gradient(f, 1.0)[0] == pytest.approx(-0.7 * np.exp(-0.7), rel=1e-3)


def test_captured_values_keep_their_gradients():
    w = param(np.array([1.0, 2.0, 3.0]))
    y = np.sum(checkpoint(lambda x: np.sin(x * w), V))
    back(y)
    np.testing.assert_allclose(w.grad, np.cos(V * w.data) * V)

    def f(x, u):
        inner = np.exp(u)
        return np.sum(checkpoint(lambda a: a * inner * u, x) ** 2)

    def plain(x, u):
        return np.sum((x * np.exp(u) * u) ** 2)

    for g in (f, jit(f)):
        for have, want in zip(gradient(g, V, 0.3), gradient(plain, V, 0.3), strict=True):
            np.testing.assert_allclose(have, want)
    assert jvp(f, (V, 0.3), (V, 1.0))[1] == pytest.approx(jvp(plain, (V, 0.3), (V, 1.0))[1])


def test_structures_and_derivatives_inside():
    def f(x):
        state = checkpoint(lambda m: {"a": m["x"] ** 2, "b": [np.sum(m["x"]), "text"]}, {"x": x})
        slope = checkpoint(lambda a: gradient(lambda b: np.sum(b**3), a)[0], x)
        return np.sum(state["a"]) * state["b"][0] + np.sum(slope)

    def plain(x):
        return np.sum(x**2) * np.sum(x) + np.sum(3 * x**2)

    np.testing.assert_allclose(gradient(f, V)[0], gradient(plain, V)[0])
    np.testing.assert_allclose(tracker.hessian(f, V), tracker.hessian(plain, V), atol=1e-12)


def test_writes_into_arguments_are_refused():
    def f(x, _=None):
        x[0] = 0.0
        return np.sum(x**2)

    def copies(x):
        return f(x.copy())

    with pytest.raises(tracker.UnsupportedError, match=rf"writes into an argument.*{HERE}"):
        gradient(lambda x: checkpoint(f, x), V)
    with pytest.raises(ValueError, match="read-only"):
        checkpoint(f, V)
    assert gradient(lambda x: checkpoint(copies, x), V)[0].tolist() == [0.0, -2.0, 4.0]


def test_checkpoint_of_integers():
    assert gradient(lambda n: checkpoint(lambda a: a * a, n), 3) == (6.0,)
    assert gradient(lambda x: np.sum(x[checkpoint(np.argsort, x)] * [1, 2, 3]), V)[0].tolist() == [
        2.0,
        1.0,
        3.0,
    ]


def test_compiled_code_recomputes_a_checkpoint():
    def f(x):
        return np.sum(checkpoint(lambda a: np.exp(np.sin(a)), x))

    g = jit(lambda x: gradient(f, x)[0], strict=True)
    np.testing.assert_allclose(g(V), np.exp(np.sin(V)) * np.cos(V))
    assert "after" in str(tracker.trace(lambda x: gradient(f, x)[0], V))


def test_a_second_run_that_differs_is_an_error():
    rng = np.random.default_rng(0)
    y = checkpoint(lambda x: np.sum(x * rng.random(3)), param(V))
    with pytest.raises(tracker.RuleError, match=rf"checkpoint.*random numbers outside.*{HERE}"):
        back(y)
    w = param(2.0)
    y = checkpoint(lambda x: np.sum(x * w), V)
    tracker.update(w, 1.0)
    with pytest.raises(tracker.RuleError, match="change nothing that it reads"):
        back(y)
    assert w.grad == 0.0


def test_checkpoint_of_plain_arguments():
    assert checkpoint(deep, 0.5) == deep(0.5)


# Forward inside reverse ---------------------------------------------------------------------------


def test_forwarddiff():
    assert tracker.forwarddiff(lambda a: a**2, 3.0) == 9.0
    w = param(2.0)
    with pytest.raises(tracker.UnsupportedError, match=r"forwarddiff.*1 tracked value.*lost"):
        gradient(lambda x: tracker.forwarddiff(lambda a: a * w, x), 3.0)
    with pytest.raises(tracker.NotTrackedError, match="forwarddiff got a dict"):
        tracker.forwarddiff(lambda a: a, {"x": 1.0})
    z = np.array([1 + 1j, 2j])
    want = gradient(lambda z: np.sum(np.abs(z * z) ** 2), z)[0]
    found = gradient(lambda z: tracker.forwarddiff(lambda a: np.sum(np.abs(a * a) ** 2), z), z)[0]
    np.testing.assert_allclose(found, want)


# Cuts ---------------------------------------------------------------------------------------------


def ignored_value(x):
    return np.sum(x * ignore_derivatives(x))


def ignored_block(x):
    with ignore_derivatives():
        y = np.sin(x) * 2
    return np.sum(x * y)


@tracker.non_differentiable
def ranks(x):
    return np.argsort(np.argsort(x)) * 1.0


@ignore_derivatives
def scale(x):
    return np.sum(x * x)


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_ignored_values_blocks_and_functions(wrap):
    assert gradient(wrap(ignored_value), V)[0].tolist() == V.tolist()
    np.testing.assert_allclose(gradient(wrap(ignored_block), V)[0], 2 * np.sin(V))
    assert gradient(wrap(lambda x: np.sum(x * ranks(x))), V)[0].tolist() == [1.0, 0.0, 2.0]
    assert gradient(wrap(lambda x: np.sum(x) * scale(x)), V)[0].tolist() == [5.25] * 3
    value, slope = jvp(lambda x: wrap(ignored_value)(x), (V,), (np.ones(3),))
    assert (value, slope) == (5.25, 1.5)
    # the numbers follow the argument
    f = wrap(ignored_block)
    assert f(V) == pytest.approx(np.sum(V * np.sin(V) * 2))
    assert f(2 * V) == pytest.approx(np.sum(2 * V * np.sin(2 * V) * 2))


def test_a_view_that_a_block_reads_first_keeps_its_derivative():
    def f(x):
        whole = np.zeros(3) + x
        part = whole[:2]
        whole[0] = x[1] ** 2
        with ignore_derivatives():
            assert np.sum(part) > 0
        return np.sum(part) * x[2]

    x = np.array([1.5, 2.0, 3.0])
    for g in (f, tracker.jit(f)):
        for _ in range(2):
            np.testing.assert_allclose(tracker.gradient(g, x)[0], [0.0, 15.0, 6.0])


def test_structures_and_plain_values_are_ignored():
    def f(x):
        parts = ignore_derivatives({"a": x, "b": (x * 2, "text")})
        return np.sum(x * parts["a"]) + np.sum(parts["b"][0])

    assert gradient(f, V)[0].tolist() == V.tolist()
    assert ignore_derivatives(2.0) == 2.0


def test_derivatives_inside_a_block_work():
    def f(x):
        with ignore_derivatives():
            (slope,) = gradient(lambda a: np.sum(a**3 * x), x)
        return np.sum(slope * x)

    assert gradient(f, V)[0].tolist() == (3 * V**3).tolist()


def test_a_block_ends_with_an_exception():
    def f(x):
        try:
            with ignore_derivatives():
                raise KeyError
        except KeyError:
            return x * x

    assert gradient(f, 3.0) == (6.0,)


def test_writes_into_outer_arrays_in_a_block_are_refused():
    def f(x):
        buffer = x * 1.0
        with ignore_derivatives():
            buffer[0] = 0.0
        return np.sum(buffer)

    with pytest.raises(tracker.UnsupportedError, match=rf"inside ignore_derivatives.*{HERE}"):
        gradient(f, V)

    def fine(x):
        with ignore_derivatives():
            scratch = np.zeros_like(x)
            scratch[1:] = x[1:]
        return np.sum(x * scratch)

    assert gradient(fine, V)[0].tolist() == [0.0, -1.0, 2.0]


def test_black_boxes_run_forward_only():
    @tracker.non_differentiable
    def count(x):
        return float(np.median(np.asarray(x)))

    assert gradient(lambda x: np.sum(x) * count(x), V)[0].tolist() == [0.5] * 3


# Hooks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_hook(wrap):
    f = wrap(lambda x: hook(lambda g: -2 * g, x) * 3 + x)
    assert gradient(f, 1.0) == (-5.0,)
    assert jvp(lambda x: hook(lambda g: -g, x) * 3, (1.0,), (1.0,)) == (3.0, 3.0)
    assert hook(lambda g: -g, 2.0) == 2.0
    seen = []
    assert gradient(wrap(lambda x: hook(seen.append, x) * 3), 1.0) == (3.0,)
    assert seen == [3.0]
    assert (
        gradient(lambda m: np.sum(hook(lambda g: 0 * g, m)["a"]), {"a": V})[0]["a"].tolist()
        == [0.0] * 3
    )
    # the outer pass meets the hook, too: 2x from the inner hook's x, 2x * x through the value
    twice = wrap(lambda x: gradient(lambda a: hook(lambda g: g * x, a) ** 2, x)[0])
    assert gradient(twice, 3.0) == (24.0,)


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_showgrad(wrap, capsys):
    f = wrap(lambda x: tracker.showgrad(x, "x") ** 2)
    for x in (3.0, 4.0):
        assert gradient(f, x) == (2 * x,)
        assert capsys.readouterr().out == f"∂(x) = {2 * x}\n"


def test_isderiving():
    assert not tracker.isderiving()
    assert gradient(lambda x: x if tracker.isderiving() else x * 100, 2.0) == (1.0,)
    assert jvp(lambda x: x if tracker.isderiving() else x * 100, (2.0,), (1.0,))[1] == 1.0
    assert not tracker.isderiving()


def test_checkpoint_saves_memory_in_compiled_code():
    turn = np.linspace(-0.1, 0.1, 10_000).reshape(100, 100)

    def layer(x):
        for _ in range(4):
            x = np.tanh(turn @ x)
        return x

    def scratch(step):
        def f(x):
            for _ in range(5):
                x = step(x)
            return np.sum(x)

        native = jit(lambda x: gradient(f, x)[0])
        text = native.explain(np.ones((100, 100)))
        (found,) = re.findall(r"([\d,]+) bytes of scratch", text)
        return int(found.replace(",", "")), native(np.ones((100, 100)))

    plain, want = scratch(layer)
    kept, have = scratch(lambda x: checkpoint(layer, x))
    np.testing.assert_allclose(have, want)
    assert kept < plain / 2


def test_a_derivative_of_a_captured_value_inside():
    """The second run keeps the history of what was captured, though its leaf is closed by then."""

    def f(a):
        return checkpoint(lambda x: x * gradient(lambda z: a * z**2 / 2, 3.0)[0], 2.0)

    assert gradient(f, 5.0) == (6.0,)
    assert jvp(f, (5.0,), (1.0,))[1] == 6.0
    assert gradient(jit(f), 5.0) == (6.0,)
