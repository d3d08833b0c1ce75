"""Captured state saved for a pullback that runs later."""

import types

import numpy as np
import pytest

import tracker as tr
from tracker import UnsupportedError, gradient, jit, pullback, pushforward
from tracker.jit.dispatch import captured_state_snapshot

X = np.array([0.5, -1.0, 2.0])


def _state():
    return types.SimpleNamespace(
        w=np.array([1.0, 2.0, 3.0]),
        k=2.0,
        f=np.sin,
        layers=[np.ones(3), (np.array([2.0, 0.5, 1.0]), 3.0)],
    )


def _model(s):
    def f(x):
        a, (b, c) = s.layers
        return s.f(x * s.w) * s.k + a * x**2 + b * c * x

    return f


CHANGES = {
    "in place": lambda s: s.w.__imul__(5.0),
    "rebound": lambda s: setattr(s, "w", np.zeros(3)),
    "of another shape": lambda s: setattr(s, "w", np.ones((2, 3))),
    "a number": lambda s: setattr(s, "k", 7.0),
    "a function": lambda s: setattr(s, "f", np.cos),
    "in a list": lambda s: s.layers[0].fill(9.0),
    "in a tuple": lambda s: s.layers[1][0].fill(9.0),
    "a tuple": lambda s: s.layers.__setitem__(1, (np.ones(3), 1.0)),
    "all": lambda s: (s.w.fill(2.0), setattr(s, "k", 1.0), s.layers[0].fill(4.0)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_a_function_reads_may_change_before_its_pullback_runs(change):
    s, seed = _state(), np.array([1.0, -2.0, 0.5])
    plain, fast = _model(s), jit(_model(s))
    y, back = pullback(fast, X)
    _, push = pushforward(fast, X)
    want = pullback(plain, X)[1](seed)[0]
    pushed = pushforward(plain, X)[1](seed)
    np.testing.assert_allclose(back(seed)[0], want, rtol=1e-13)
    change(s)
    changed = plain(X)
    for _ in range(2):
        np.testing.assert_allclose(back(seed)[0], want, rtol=1e-13)
        np.testing.assert_allclose(push(seed), pushed, rtol=1e-13)
        np.testing.assert_allclose(plain(X), changed, rtol=1e-13)  # it stands there again
        np.testing.assert_allclose(fast(X), changed, rtol=1e-13)
    np.testing.assert_allclose(y, _model(_state())(X), rtol=1e-13)


def test_another_structure_is_refused():
    s = _state()
    _, back = pullback(jit(_model(s)), X)
    s.layers = [np.ones(3)]
    with pytest.raises(UnsupportedError, match=r"another structure.*layers.*pullback again"):
        back(X)


def test_a_param_made_of_an_argument_runs_plain():
    def f(x):
        p = tr.param(x)
        tr.back(np.sum(p**3))
        return p.grad * 2

    fast = jit(f)
    with pytest.warns(RuntimeWarning, match="a param is made of a value"):
        np.testing.assert_array_equal(fast(X), f(X))
    np.testing.assert_array_equal(fast(X), f(X))
    loss = jit(lambda x: np.sum(tr.param(x) ** 2))  # a derivative follows it
    np.testing.assert_array_equal(gradient(loss, X)[0], 2 * X)


def test_nothing_is_put_back_where_nothing_has_changed(monkeypatch):
    """Also where the state holds the names of a library, which are read anew."""
    s = _state()
    _, back = pullback(jit(_model(s)), X)
    wanted = back(np.ones(3))
    monkeypatch.setattr(captured_state_snapshot, "_SavedStateSwap", None)
    np.testing.assert_array_equal(back(np.ones(3)), wanted)
    s.k = 7.0
    with pytest.raises(TypeError, match="not callable"):
        back(np.ones(3))
