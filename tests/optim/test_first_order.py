"""`tracker.optim`: closed forms, published updates written out, structures, jit."""

from dataclasses import dataclass

import numpy as np
import pytest

import tracker
from tracker import jit, optim, value_and_grad

ALL = {
    "descent": optim.descent(0.1),
    "momentum": optim.momentum(0.02, 0.9),
    "nesterov": optim.momentum(0.02, 0.9, nesterov=True),
    "adam": optim.adam(0.05),
    "adamw": optim.adamw(0.05, decay=0.1),
    "rmsprop": optim.rmsprop(0.03, 0.95),
}


def written_out(name, p, gradients):
    """The updates as the papers (and PyTorch's documentation) give them."""
    v = m = buf = 0.0
    for t, gradient in enumerate(gradients, start=1):
        g = gradient(p)
        if name == "descent":
            p = p - 0.1 * g
        elif name in ("momentum", "nesterov"):
            buf = g if t == 1 else 0.9 * buf + g
            p = p - 0.02 * (g + 0.9 * buf if name == "nesterov" else buf)
        elif name == "rmsprop":
            v = 0.95 * v + 0.05 * g**2
            p = p - 0.03 * g / (v**0.5 + 1e-8)
        else:
            if name == "adamw":
                p = p - 0.05 * 0.1 * p
            m = 0.9 * m + 0.1 * g
            v = 0.999 * v + 0.001 * g**2
            p = p - 0.05 * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)) ** 0.5 + 1e-8)
    return p


@pytest.mark.parametrize("name", ALL)
def test_published_updates(name):
    init, update = ALL[name]
    gradients = [lambda p, k=k: np.sin(3 * p + k) + p for k in range(8)]
    p = start = np.array([0.7, -1.2])
    state = init(p)
    for gradient in gradients:
        p, state = update(p, gradient(p), state)
    np.testing.assert_allclose(p, written_out(name, start, gradients), rtol=1e-13)
    assert state.step == 8


def test_closed_forms():
    init, update = optim.descent(0.1)
    p, state = 1.0, init(1.0)
    for _ in range(5):
        p, state = update(p, 2 * p, state)
    assert p == pytest.approx(0.8**5, rel=1e-14)
    init, update = optim.momentum(0.1, 0.5)  # constant gradient: a geometric series
    p, state = 0.0, init(0.0)
    for _ in range(10):
        p, state = update(p, 1.0, state)
    assert p == pytest.approx(-0.1 * sum(2 * (1 - 0.5**t) for t in range(1, 11)), rel=1e-13)
    for maker in (optim.adam, optim.rmsprop):  # the first step is the sign's
        init, update = maker(0.1)
        first = -update(0.0, 123.0, init(0.0))[0]
        assert first == pytest.approx(0.1 if maker is optim.adam else 1.0, rel=1e-6)


@dataclass
class Layer:
    weight: np.ndarray
    bias: float
    name: str
    steps: int

    def trainable(self):
        return ("weight", "steps", "name")


def model():
    return {
        "first": Layer(np.array([1.0, 2.0]), 0.5, "relu", 3),
        "rest": [Layer(np.float32([1.0]), 1.5, "tanh", 4), (2.0, None)],
        "numbers": [1.0, 2.0],
        "z": np.array([1 + 1j]),
    }


def loss(m):
    a, b = m["first"], m["rest"][0]
    parts = np.sum(a.weight**2) * a.bias + np.sum(b.weight**2) * b.bias * b.steps
    return parts + m["rest"][1][0] ** 2 + np.sum(m["numbers"] ** 2) + abs(m["z"][0])


@pytest.mark.parametrize("name", ALL)
def test_structures_and_trainable(name):
    init, update = ALL[name]
    m = model()
    state = init(m)
    values = []
    for _ in range(4):
        value, gradient = value_and_grad(loss)(m)
        m, state = update(m, gradient, state)
        values.append(value)
    assert values == sorted(values, reverse=True) and values[-1] < values[0]
    first, second = m["first"], m["rest"][0]
    assert isinstance(first, Layer) and type(m["rest"][1]) is tuple and m["rest"][1][1] is None
    assert first.bias == 0.5 and first.name == "relu" and first.steps == 3  # as they were
    assert np.all(first.weight < [1.0, 2.0]) and second.weight.dtype == np.float32
    assert np.iscomplexobj(m["z"]) and isinstance(m["numbers"], np.ndarray)
    given = tracker.tree.map(lambda x: 1.0 if isinstance(x, float) else None, model())
    assert update(model(), given, init(model()))[0]["first"].bias == 0.5  # even if one is given


@pytest.mark.parametrize("name", ALL)
def test_compiled_training(name):
    init, update = ALL[name]
    target = np.array([1.0, -2.0, 0.5])

    def cost(params, x):
        return np.mean((x @ params["w"] + params["b"] - x @ target) ** 2)

    def train(params, state, x):
        value, gradient = value_and_grad(cost)(params, x)
        params, state = update(params, gradient, state)
        return params, state, value

    x = np.random.default_rng(0).normal(size=(20, 3))
    fast = jit(train)
    runs = []
    for step in (train, fast):
        params = {"w": np.zeros(3), "b": 0.1}
        state = init(params)
        for _ in range(30):
            params, state, value = step(params, state, x)
        runs.append((params["w"], params["b"], value))
        assert state.step == 30
    np.testing.assert_allclose(runs[0][0], runs[1][0], rtol=1e-11)
    np.testing.assert_allclose(runs[0][1:], runs[1][1:], rtol=1e-11)
    assert fast.cache_info().traces == 1
    assert value < cost({"w": np.zeros(3), "b": 0.1}, x)


def test_float32_stays():
    p, g = np.float32([1.0, 2.0]), np.float32([0.1, 0.2])
    for init, update in ALL.values():
        state = init(p)
        q = p
        for step in (update, jit(update)):
            q, state = step(q, g, state)
            assert q.dtype == np.float32
            assert all(m.dtype == np.float32 for m in tracker.tree.leaves(state.means))


def test_schedule():
    init, update = optim.descent(lambda step: 0.1 / (1 + step))
    p, state = 0.0, init(0.0)
    for _ in range(3):
        p, state = update(p, 1.0, state)
    assert p == pytest.approx(-0.1 * (1 + 1 / 2 + 1 / 3))


def test_refusals():
    init, update = optim.adam()
    state = init({"w": np.ones(2)})
    for call, text in (
        (lambda: update({"w": np.ones(2)}, np.ones(2), state), "the gradient is a ndarray"),
        (lambda: update({"w": np.ones(2)}, {"v": np.ones(2)}, state), "with respect to these"),
        (lambda: update({"w": np.ones(2)}, {"w": np.ones(3)}, state), "a gradient of shape"),
        (lambda: update([np.ones(2), 1.0], [None, None], state), r"Make it by init\(params\)"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match=r"a dict as the state.*update\(params, gradient, state\)"):
        update({"w": np.ones(2)}, state, {"w": np.ones(2)})
