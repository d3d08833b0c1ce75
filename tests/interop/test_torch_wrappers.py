"""Functions of PyTorch here, and ours there, by torch.autograd.gradcheck."""

import numpy as np
import pytest

import tracker
from tracker import gradient, interop

torch = pytest.importorskip("torch")
pytest.importorskip("sympy")  # torch imports it late, and it changes warning filters

X = np.array([0.3, -1.2, 2.1])


def smooth(x, y):
    return np.sum(np.sin(x) * y) + np.tanh(y[0])


def several(x, y):
    return {"a": x * y, "b": [np.sum(x) * y[0]]}


def tensors(*xs):
    return tuple(torch.tensor(x, requires_grad=True) for x in xs)


def test_from_torch():
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    f = interop.from_torch(network.double())
    assert tracker.gradcheck(lambda x: np.sum(f(x) ** 2), X, order=1)
    found = tracker.jit(lambda x: gradient(lambda x: np.sum(f(x)), x)[0])(X)
    np.testing.assert_allclose(found, gradient(lambda x: np.sum(f(x)), X)[0])


def test_structures_from_torch():
    f = interop.from_torch(lambda p, k: {"y": p["x"][k] * 2.0, "unused": p["z"] * 0 + 1})
    p = {"x": X, "z": X + 1j}
    (found, _) = gradient(lambda p, k: np.sum(f(p, k)["y"]), p, np.array([0, 0]))
    np.testing.assert_allclose(found["x"], [4.0, 0.0, 0.0])
    assert f(p, np.array([1]))["unused"].dtype == complex


def test_as_torch():
    g = interop.as_torch(tracker.jit(smooth))
    assert torch.autograd.gradcheck(g, tensors(X, X + 1))
    assert g(torch.tensor(X), torch.tensor(X)).requires_grad is False


def test_as_torch_of_structures_and_complex_numbers():
    g = interop.as_torch(several)
    assert set(g(*tensors(X, X))) == {"a", "b"}
    assert torch.autograd.gradcheck(lambda x, y: g(x, y)["a"], tensors(X + 1j, X - 2j))
    assert torch.autograd.gradcheck(lambda x: interop.as_torch(lambda x, n: x**n)(x, 3), tensors(X))


@pytest.mark.parametrize("wrap", [lambda f: f, tracker.jit])
def test_as_torch_of_structures_of_arguments(wrap):
    def f(p, x, n):
        return np.sum(p["w"] * x[0] ** n) + p["b"] * x[1]

    g = interop.as_torch(wrap(f))
    w, b, x, y = (torch.tensor(v, requires_grad=True) for v in (X, np.array(0.5), X + 3, X[0]))
    g({"w": w, "b": b}, [x, y], 2).backward()
    np.testing.assert_allclose(w.grad, (X + 3) ** 2)
    np.testing.assert_allclose(x.grad, 2 * X * (X + 3))
    assert b.grad == y.detach() and y.grad == b.detach()
    (first,) = torch.autograd.grad(g({"w": w, "b": b}, [x, y], 2), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(second, 2 * X)


@pytest.mark.parametrize("call", [
    lambda t: torch.sum(t),
    lambda t: torch.stack([t[0], t[1]]),
    lambda t: torch.nn.functional.relu(input=t),
    lambda t: torch.tensor(t),
])  # fmt: skip
def test_a_function_of_torch_says_what_to_type(call):
    with pytest.raises(tracker.ConversionError, match=r"torch.*interop\.from_torch\(f\)"):
        gradient(call, X)


def test_higher_derivatives_as_torch():
    assert torch.autograd.gradgradcheck(interop.as_torch(smooth), tensors(X, X + 1))
    scaled = interop.as_torch(lambda x, n: np.sum(x**3) * n)
    (x,) = tensors(X)
    (first,) = torch.autograd.grad(scaled(x, 2), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), x)
    assert third.tolist() == [12.0, 12.0, 12.0]
