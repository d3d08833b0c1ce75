"""Structures: whatever holds numbers is differentiated as it is, eager and compiled."""

import collections
import functools
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest
from equality import assert_same

import tracker
from tracker import gradient, jit, pullback, tree, withgradient
from tracker.scipy import stats

same = functools.partial(assert_same, tolerance=0)
V = np.array([1.0, 2.0])


@dataclass(frozen=True, slots=True)
class Frozen:
    w: np.ndarray
    b: float = 1.0


@dataclass(slots=True)
class Slots:
    w: np.ndarray
    n: int = 3
    name: str = "x"


@dataclass
class Base:
    a: float


@dataclass
class Child(Base):
    b: np.ndarray = field(default_factory=lambda: np.ones(2))
    cache: dict = field(default_factory=dict)


@dataclass
class Partly:
    w: np.ndarray
    fixed: np.ndarray
    inner: object = None
    trainable = ("w", "inner")


@dataclass
class Chosen:
    w: np.ndarray
    k: np.ndarray

    def trainable(self):
        return ("k",)


class Pair(NamedTuple):
    x: np.ndarray
    y: float


class Registered:
    def __init__(self, a, meta):
        self.a, self.meta = a, meta


tree.register(Registered, lambda r: ((r.a,), r.meta), lambda meta, kids: Registered(*kids, meta))


CASES = {
    "frozen": (lambda m: np.sum(m.w**2) * m.b, Frozen(V), Frozen(2 * V, 5.0)),
    "slots": (lambda m: np.sum(m.w) * m.n, Slots(V), Slots(3 * np.ones(2), 3.0, None)),
    "inheritance": (lambda m: np.sum(m.b) * m.a, Child(2.0), Child(2.0, 2 * np.ones(2), None)),
    "trainable": (
        lambda m: np.sum(m.w * m.fixed) + m.inner["s"] ** 2, Partly(V, 2 * V, {"s": 3.0}),
        Partly(2 * V, None, {"s": 6.0})),
    "a method says what is trained": (
        lambda m: np.sum(m.w * m.k), Chosen(V, 2 * V), Chosen(None, V)),
    "a class in a class": (
        lambda m: np.sum(m.w * m.fixed) * m.inner.w, Partly(V, V, Frozen(2.0, 1.0)),
        Partly(2 * V, None, Frozen(5.0, 0.0))),
    "text beside numbers": (lambda t: t[0] * t[1][0] * 2, (2.0, [3.0, "x"]), (6.0, [4.0, None])),
    "ordered": (
        lambda d: d["a"]["b"] * 2, collections.OrderedDict(a={"b": 2.0, "c": {}}, d=()),
        collections.OrderedDict(a={"b": 2.0, "c": None}, d=None)),
    "a list of lists": (
        lambda xs: xs[0][1] * xs[1], [[1.0, 2.0], 3.0], [np.array([0.0, 3.0]), 2.0]),
    "named tuple": (lambda p: np.sum(p.x) * p.y, Pair(V, 3.0), Pair(3 * np.ones(2), 3.0)),
    "mixture": (
        lambda m: m[0]["a"][0] * np.sum(m[1].x) + m[2][0].w[1],
        ({"a": [1.0, "s"]}, Pair(V, 2.0), [Frozen(V)]),
        ({"a": [3.0, None]}, Pair(np.ones(2), 0.0), [Frozen(np.array([0.0, 1.0]), 0.0)])),
    "empty": (
        lambda d: np.sum(d["x"]), {"x": V, "e": (), "l": [], "d": {}, "n": None, "s": "t"},
        {"x": np.ones(2), "e": None, "l": None, "d": None, "n": None, "s": None}),
    "unused": (
        lambda m: 1.0 + 0.0 * m["u"],
        {"u": 1.0, "w": V, "f": 2.0, "i": 3, "z": 1j, "a": np.arange(2), "f4": np.float32(2)},
        {"u": 0.0, "w": 0 * V, "f": 0.0, "i": None, "z": 0j, "a": None, "f4": np.float32(0)}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gradients_have_the_structure(name):
    f, x, want = CASES[name]
    same(gradient(f, x), (want,))
    compiled = jit(f)
    for _ in range(2):
        same(gradient(compiled, x), (want,))


def test_registered_classes():
    for f in (lambda r: np.sum(r.a**2), jit(lambda r: np.sum(r.a**2))):
        (found,) = gradient(f, Registered(V, "meta"))
        assert (type(found), found.meta) == (Registered, "meta")
        assert found.a.tolist() == [2.0, 4.0]


def test_functions_inside_a_class():
    @dataclass
    class Layer:
        w: np.ndarray
        f: object = np.tanh
        rest: list = field(default_factory=list)

        def __post_init__(self):
            self.calls = 0

    rng = np.random.default_rng(0)
    model = Layer(rng.normal(size=(2, 3)), rest=[Layer(rng.normal(size=(1, 2)))])

    def loss(m, x):
        assert (type(m), m.calls) == (Layer, 0)
        for layer in (m, *m.rest):
            x = layer.f(layer.w @ x)
        return np.sum(x**2)

    x = np.array([1.0, 2.0, 3.0])
    g, _ = gradient(loss, model, x)
    assert (type(g), g.f) == (Layer, None)
    (want,) = tracker.testing.ngradient(lambda w: loss(Layer(w, rest=model.rest), x), model.w)
    np.testing.assert_allclose(g.w, want, rtol=1e-6)
    assert type(model.w) is np.ndarray


def test_attributes_that_are_no_fields():
    """Each has its own gradient, as a field has; what a property has cached is computed anew."""

    @dataclass
    class Oscillator:
        mass: float
        stiffness: float

        def __post_init__(self):
            self.frequency = (self.stiffness / self.mass) ** 0.5

        @functools.cached_property
        def energy(self):
            return self.stiffness**2 / 2

    def loss(s):
        return s.mass * s.frequency**2 + s.energy

    for f in (loss, jit(loss)):
        for mass in (1.0, 4.0, 16.0):
            given = Oscillator(mass, 16.0)
            given.energy  # noqa: B018
            (found,) = gradient(f, given)
            assert (found.mass, found.stiffness) == (16.0 / mass, 16.0)
            assert found.frequency == 2.0 * mass * given.frequency
            assert "energy" not in vars(found)


def test_a_descent_step():
    model = {"w": V, "b": [1.0, (2.0,)], "f": None, "e": ()}
    (g,) = gradient(lambda m: np.sum(m["w"]) * m["b"][0] + m["b"][1][0], model)
    moved = tree.map(lambda p, d: p if d is None else p - 0.5 * d, model, g)
    same(moved, {"w": V - 0.5, "b": [-0.5, (1.5,)], "f": None, "e": ()})


def test_empty_arguments_and_shared_arrays():
    assert gradient(lambda a, b, c, x: x * x, (), [], {}, 3.0) == (None, None, None, 6.0)
    same(gradient(lambda a, b: np.sum(a * b[0] ** 2), V, (V, V)), (V**2, (2 * V**2, 0 * V)))


def test_integers_inside_structures():
    def f(a, t):
        return np.sum(a * t[0]) + t[1]

    same(gradient(f, [1, 2, 3], (4, 5)), (np.full(3, 4.0), (6.0, 1.0)))
    same(withgradient(f, [1, 2, 3], (4, 5)).grad, (np.full(3, 4.0), (None, None)))


def test_values_keep_their_structure():
    val = withgradient(lambda x: {"loss": np.sum(x), "aux": [x * 2, "text"]}, V).val
    same(val, {"loss": np.float64(3.0), "aux": [2 * V, "text"]})
    assert type(withgradient(lambda x: Pair(np.sum(x), x[0]), V).val) is Pair


def test_map():
    same(tree.map(lambda a, b: a + b, {"a": 1, "b": 2}, {"b": 20, "a": 10}), {"a": 11, "b": 22})
    for other in ({"a": 1, "c": 2}, {"a": 1}, [1, 2, 3], 3.0):
        with pytest.raises(ValueError, match=r"structures differ.*dict\(a=\*, b=\*\)"):
            tree.map(lambda a, b: a, {"a": 1, "b": 2}, other)


@pytest.mark.parametrize("given", [[], [1.0], iter([1.0]), [1.0, 2.0, 3.0]])
def test_unflatten_needs_as_many_leaves_as_the_structure_has(given):
    structure = tree.flatten({"w": (1.0, 2.0)})[1]
    text = r"dict\(w=tuple\(\*, \*\)\) has 2 leaves; [013] were given\. Give as many .*\(at .*\.py:"
    with pytest.raises(ValueError, match=text):
        tree.unflatten(structure, given)


def test_ravel():
    model = {"a": np.ones((2, 2), np.float32), "b": (1.0, None, "s"), "c": 2, "z": V}
    vector, restore = tree.ravel(model)
    assert vector.tolist() == [1, 1, 1, 1, 1, 1, 2]
    found = restore(vector * 2)
    assert (found["a"].dtype, found["a"].shape) == (np.float32, (2, 2))
    assert (type(found["b"][0]), found["b"]) == (float, (2.0, None, "s"))
    assert found["c"] == 2
    assert found["z"].tolist() == [2, 4]
    same(
        gradient(lambda v: np.sum(restore(v)["z"] ** 2) + restore(v)["b"][0], vector)[0],
        np.array([0.0, 0, 0, 0, 1, 2, 4]),
    )
    same(gradient(lambda m: np.sum(tree.ravel(m)[0] ** 2), {"a": V, "b": 3.0})[0]["a"], 2 * V)
    assert tree.ravel([])[0].shape == (0,)


def test_ravel_restores_python_numbers_everywhere():
    def doubled(p):
        vector, restore = tree.ravel(p)
        return restore(vector * 2)

    given = {"a": 1.5, "b": np.float64(0.5), "c": V}
    for found in (doubled(given), jit(doubled)(given), pullback(doubled, given)[0]):
        assert (type(found["a"]), type(found["b"])) == (float, np.float64)
        assert (found["a"], found["b"], found["c"].tolist()) == (3.0, 1.0, [2.0, 4.0])


def test_results_of_scipy():
    """Named tuples without `_make`, and attributes beside their elements."""
    x = np.array([1.0, 3.0, 2.0, 5.0, 4.0])
    calls = {
        "linregress": (lambda x: stats.linregress(x, x**2), "intercept_stderr"),
        "ttest_rel": (lambda x: stats.ttest_rel(x, x**2), "df"),
    }
    for call, beside in calls.values():
        want, compiled = call(x), jit(call)
        for found in (compiled(x), compiled(x), pullback(call, x)[0]):
            np.testing.assert_allclose(found, want, rtol=1e-12)
            assert getattr(found, beside) == pytest.approx(getattr(want, beside))
    line = calls["linregress"][0](x)
    (g,) = gradient(lambda r: r.slope * r.intercept_stderr, line)
    assert type(g) is type(line)
    assert (g.slope, g.intercept, g.intercept_stderr) == (line.intercept_stderr, 0.0, line.slope)


def test_a_counter_is_a_structure_of_its_counts():
    def f(counts):
        return counts["a"] * 2.5 + counts["b"] ** 2 + counts["none"]

    given = collections.Counter(a=1.5, b=2.0)
    want = collections.Counter(a=2.5, b=4.0)
    for g in (f, tracker.jit(f), tracker.jit(f)):
        assert g(given) == f(given)
        assert tracker.gradient(g, given)[0] == want
        assert type(tracker.gradient(g, given)[0]) is collections.Counter
    assert tracker.jit(f)(collections.Counter("aab")) == 6.0
