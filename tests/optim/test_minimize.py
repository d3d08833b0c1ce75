"""`tree.ravel` of parameters and gradients, and SciPy's optimisers over structures."""

import sys
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import Bounds

import tracker
from tracker import jit, tree, value_and_grad, withgradient
from tracker.optim import minimize


@dataclass
class Network:
    """Two numbers and an array to train, and settings."""

    weights: np.ndarray
    offset: float
    n_layers: int = 2
    with_offset: bool = True
    name: str = "tanh"
    sizes: tuple = (3, 4)
    mask: np.ndarray = field(default_factory=lambda: np.array([True, False]))
    scale: np.float32 = field(default_factory=lambda: np.float32(2.0))
    extra: object = None


START = Network(np.array([0.5, -0.25]), 2.0)


def loss(network, target=1.0):
    y = network.weights
    for _ in range(network.n_layers):
        y = y + (network.weights - target) / network.n_layers
    offset = network.offset if network.with_offset else 0.0
    return np.sum(y**2) + (offset - target) ** 2 + (network.scale - 1.0) ** 2


class Pair(NamedTuple):
    first: object
    count: int


@dataclass
class Partly:
    kept: float
    moved: np.ndarray
    trainable = ("moved",)


STRUCTURES = {
    "dataclass": START,
    "dict": {
        "w": [1.0, 2.0],
        "i": 3,
        "l": [1, 2],
        "s": "x",
        "n": None,
        "b": True,
        "mixed": [1, 2.5],
    },
    "nested": {"a": (Pair(np.ones((2, 2)), 3), [np.arange(3), 2.0]), "e": {}, "t": ()},
    "trainable": Partly(2.0, np.ones(3)),
    "array": np.ones((2, 3)),
    "integers": np.arange(3),
    "list": [1, 2, 3],
    "number": 2.0,
    "integer": 2,
}


def sum_of_squares(x):
    """Of all numbers in a structure, whatever they are."""
    return sum(np.sum(leaf**2.0) for leaf in tree.leaves(x, objects=True) if tree.is_numeric(leaf))


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize(
    "gradient_of",
    [
        lambda x: value_and_grad(sum_of_squares)(x)[1],
        lambda x: withgradient(sum_of_squares, x).grad[0],
    ],
)
def test_parameters_and_their_gradient_have_vectors_of_one_size(name, gradient_of):
    x = STRUCTURES[name]
    vector, restore = tree.ravel(x)
    slope, _ = tree.ravel(gradient_of(x))
    assert slope.shape == vector.shape and vector.size
    np.testing.assert_allclose(slope, 2 * vector)
    again, _ = tree.ravel(restore(2.0 * vector))
    np.testing.assert_array_equal(again, 2.0 * vector)


def test_settings_stay_as_they_are():
    vector, restore = tree.ravel(START)
    assert vector.tolist() == [0.5, -0.25, 2.0, 2.0]
    moved = restore(vector + 1.0)
    assert isinstance(moved, Network) and moved.weights.tolist() == [1.5, 0.75]
    assert (moved.offset, type(moved.offset)) == (3.0, float)
    assert (moved.scale, type(moved.scale)) == (3.0, np.float32)
    assert (moved.n_layers, moved.with_offset, moved.name) == (2, True, "tanh")
    assert moved.sizes == (3, 4) and moved.mask is START.mask and moved.extra is None
    assert tree.ravel({"n": 3, "s": "x"})[0].size == 0 and tree.ravel("x")[0].size == 0
    assert tree.ravel(True)[0].size == 0


METHODS = [
    *(None, "BFGS", "bfgs", "L-BFGS-B", "CG", "TNC", "SLSQP", "Nelder-Mead", "Powell", "COBYLA"),
    *("Newton-CG", "trust-ncg", "trust-krylov", "trust-constr", "dogleg", "trust-exact"),
]


@pytest.mark.filterwarnings("ignore:.*delta_grad == 0.0")
@pytest.mark.parametrize("wrap", [lambda f: f, jit])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_scipy(method, wrap):
    f = wrap(loss)
    result = minimize(f, START, method, tol=1e-4)
    assert isinstance(result, scipy.optimize.OptimizeResult)
    found = result.x
    assert isinstance(found, Network)
    np.testing.assert_allclose(found.weights, 0.5, atol=1e-2)
    np.testing.assert_allclose([found.offset, found.scale], 1.0, atol=1e-2)
    assert (found.n_layers, found.with_offset, found.name, found.extra) == (2, True, "tanh", None)
    assert START.offset == 2.0 and START.weights.tolist() == [0.5, -0.25]
    assert type(found.offset) is float and found.weights.dtype == np.float64


def test_the_two_lines_that_use_scipy_alone():
    x0, restore = tree.ravel(START)
    result = scipy.optimize.minimize(value_and_grad(lambda x: loss(restore(x))), x0, jac=True)
    np.testing.assert_allclose(restore(result.x).weights, 0.5, atol=1e-5)


def test_hessian_products_of_functions_with_arguments():
    matrix = np.array([[3.0, 1.0], [1.0, 2.0]])

    def f(p, a, b):
        return 0.5 * p["x"] @ a @ p["x"] - b @ p["x"] + (p["y"] - 1.0) ** 2 * p["n"]

    b = np.array([1.0, 2.0])
    for g in (f, jit(f)):
        found = minimize(
            g,
            {"x": np.zeros(2), "y": 0.0, "n": 3},
            "trust-ncg",
            args=(matrix, b),
            tol=1e-10,
            options={"initial_trust_radius": 10.0, "max_trust_radius": 100.0},
        )
        np.testing.assert_allclose(found.x["x"], np.linalg.solve(matrix, b), atol=1e-6)
        assert abs(found.x["y"] - 1.0) < 1e-6 and found.x["n"] == 3


def filled(model, t):
    path = np.zeros(len(t))
    for i in range(len(t)):
        path[i] = model["height"] * t[i] - model["rate"]
    return np.mean(path**2)


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
@pytest.mark.parametrize("method", ["Newton-CG", "trust-exact"])
def test_arrays_that_are_made_and_filled_have_hessians(method, wrap):
    start = {"height": 1.0, "rate": 1.0}
    found = minimize(wrap(filled), start, method, args=(np.array([0.0, 1.0, 2.0]),)).x
    np.testing.assert_allclose([found["height"], found["rate"]], 0.0, atol=1e-6)


def rosenbrock(x):
    return 100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2


@pytest.mark.parametrize("start", [[0, 0], (0.0, 0.0), np.zeros(2), np.zeros(2, int)])
def test_single_arrays(start):
    found = minimize(rosenbrock, start).x
    np.testing.assert_allclose(found, [1.0, 1.0], atol=1e-4)
    assert type(found) is (tuple if type(start) is tuple else np.ndarray)
    assert np.shape(minimize(lambda x: np.sum((x - 1.0) ** 2), np.zeros((2, 3))).x) == (2, 3)
    assert minimize(lambda x: (x - 3.0) ** 2, 0).x == pytest.approx(3.0)
    single = minimize(lambda x: np.sum((x - 3) ** 2), np.zeros(2, np.float32)).x
    assert single.dtype == np.float32 and np.allclose(single, 3.0, atol=1e-3)


@pytest.mark.parametrize(
    "bounds, want",
    [
        (None, (0.5, 0.5, 1.0)),
        ({"w": (0.75, None), "b": None, "n": None}, (0.75, 0.75, 1.0)),
        ({"w": [(None, 0.25), (0.75, 2)], "b": (None, 0.0), "n": None}, (0.25, 0.75, 0.0)),
        ({"w": np.array([[-1, 0.25], [0.75, 2]]), "b": [2.0, None], "n": 7}, (0.25, 0.75, 2.0)),
        ({"w": None, "b": (0, 0.5), "n": None}, (0.5, 0.5, 0.5)),
    ],
)
def test_bounds_in_the_structure_of_the_parameters(bounds, want):
    def f(p):
        return np.sum((p["w"] - 0.5) ** 2) + (p["b"] - 1.0) ** 2 * p["n"]

    found = minimize(f, {"w": np.full(2, 1.0), "b": 0.2, "n": 2}, bounds=bounds).x
    np.testing.assert_allclose([*found["w"], found["b"]], want, atol=1e-6)


def test_bounds_of_an_array_are_scipys():
    for bounds in (
        [(2.0, 3.0), (None, 0.5)],
        np.array([[2.0, 3.0], [-9.0, 0.5]]),
        Bounds([2.0, -np.inf], [3.0, 0.5]),
    ):
        found = minimize(lambda x: np.sum((x - 1.0) ** 2), np.zeros(2), bounds=bounds).x
        np.testing.assert_allclose(found, [2.0, 0.5], atol=1e-6)


def test_bounds_of_scipy_in_a_structure():
    def f(p):
        return np.sum((p["w"] - 2.0) ** 2) + (p["b"] + 2.0) ** 2

    start = {"w": np.zeros((2, 2)), "b": 0.0}
    found = minimize(f, start, bounds={"w": Bounds(0, [0.5, 1.0]), "b": Bounds(-1, 1)}).x
    np.testing.assert_allclose(found["w"], [[0.5, 1.0], [0.5, 1.0]])
    assert found["b"] == -1.0


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "Nelder-Mead", "trust-constr"])
def test_a_function_that_returns_its_gradient(method):
    def f(p, shift):
        return (p["a"] - shift) ** 2 + p["b"] ** 2, {"a": 2 * (p["a"] - shift), "b": 2 * p["b"]}

    found = minimize(f, {"a": 0.5, "b": 1.0}, method, jac=True, args=(2.0,)).x
    assert found == pytest.approx({"a": 2.0, "b": 0.0}, abs=1e-3)


def test_a_hessian_of_ones_own():
    calls = []

    def hess(x):
        calls.append(x)
        return 2.0 * np.eye(2)

    found = minimize(lambda x: np.sum((x - 1) ** 2), np.zeros(2), "trust-exact", hess=hess).x
    np.testing.assert_allclose(found, 1.0)
    assert calls


def test_a_search_may_meet_infinity():
    found = minimize(lambda x: x - np.log(x) if x > 0 else np.inf * x**2, 3.0, "BFGS")
    assert found.x == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: minimize(loss, {"z": 1j}), tracker.UnsupportedError, r"Give their real and imag"),
        (lambda: minimize(loss, {"n": 1}), tracker.NotTrackedError, r"got a dict without floats"),
        (lambda: minimize(rosenbrock, [0, 0], jac=rosenbrock), TypeError, r"got another as jac="),
        (
            lambda: tracker.gradient(lambda a: minimize(lambda x: (x - a) ** 2, 0.0).x, 1.0),
            tracker.ConversionError,
            r"Use scipy\.optimize\.minimize or tracker\.optim\.lbfgs",
        ),
        (lambda: minimize(loss, "x"), tracker.NotTrackedError, r"got a str without floats"),
        (
            lambda: minimize(rosenbrock, np.zeros(2), bounds=np.zeros((3, 2))),
            ValueError,
            r"bounds of shape \(3, 2\) for parameters of shape \(2,\)\. Give a pair",
        ),
        (
            lambda: minimize(loss, START, bounds=(0, 1)),
            ValueError,
            "the structure of the bounds is a tuple, that of the parameters a Network. Give the "
            "bounds with respect",
        ),
        (
            lambda: minimize(lambda p: p["a"] ** 2, {"a": 1.0}, bounds={"b": (0, 1)}),
            ValueError,
            "of the bounds is a dict with the keys 'b', that of the parameters a dict with the "
            "keys 'a'",
        ),
        (
            lambda: minimize(lambda x: x * 2, np.zeros(2)),
            tracker.NotScalarError,
            "value_and_grad needs a scalar",
        ),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text + r".*test_minimize\.py:\d+\)"):
        call()


def test_scipy_is_needed_by_minimize_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(ImportError, match=r"needs SciPy.*pip install 'tracker-grad\[scipy\]'"):
        minimize(rosenbrock, np.zeros(2))
