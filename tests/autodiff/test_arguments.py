"""What is differentiated: arrays of other libraries, objects of the user's classes, and what is
refused by name, in every derivative, eager and compiled."""

import array
import collections
import ctypes
import decimal
import fractions
import functools
import statistics
import types
from dataclasses import dataclass

import numpy as np
import pytest
from equality import assert_same

import tracker
from tracker import gradient, jit

same = functools.partial(assert_same, tolerance=0)
V = np.array([1.0, 2.0])


class Series:
    """As pandas, xarray, and jax have them: NumPy asks it for its array."""

    def __init__(self, values=V):
        self.values = np.array(values)
        self.name = "prices"

    dtype = property(lambda self: self.values.dtype)
    shape = property(lambda self: self.values.shape)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


class Capsule:
    """As torch has it, with DLPack alone."""

    def __init__(self):
        self.values = np.array(V)

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class Interface:
    def __init__(self):
        self.values = np.array(V)
        self.__array_interface__ = self.values.__array_interface__


class Quantity(Series):
    """As pint has it."""

    def __init__(self):
        super().__init__()
        self.magnitude, self.units = self.values, "metre"


class Elsewhere:
    """A tensor on another device."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("it is on device 1")

    def detach(self):
        """As torch has it."""


class Model:
    def __init__(self):
        self.w = np.array(V)
        self.name = "x"


ARRAYS = {
    "series": Series(), "dlpack": Capsule(), "interface": Interface(), "array": array.array("d", V),
    "memoryview": memoryview(V), "ctypes": (ctypes.c_double * 2)(*V),
}  # fmt: skip
REFUSED = {
    "decimal": (decimal.Decimal(2), r"a Decimal .*float\(x\)"),
    "fraction": (fractions.Fraction(1, 2), r"a Fraction .*float\(x\)"),
    "quantity": (Quantity(), r"a Quantity .*units.*x\.magnitude"),
    "elsewhere": (Elsewhere(), r"a Elsewhere .*device 1.*x\.detach\(\)"),
    "objects": (np.array([1.0, 2.0], object), r"a ndarray .*x\.astype\(float\)"),
    "records": (np.zeros(2, [("a", float)]), r"a ndarray .*fields"),
    "masked": (np.ma.array(V), r"a MaskedArray .*np\.asarray\(x\)"),
    "deque": (collections.deque(V), r"a deque .*list\(x\)"),
    "set": ({1.5, 2.0}, r"a set .*list\(x\)"),
    "mapping": (types.MappingProxyType({"a": 1.0}), r"a mappingproxy .*dict\(x\)"),
    "library": (statistics.NormalDist(1.0, 2.0), r"a NormalDist .*tracker\.tree\.register"),
}


def squares(a):
    return np.sum((a.w if isinstance(a, Model) else a) ** 2)


compiled = jit(squares)
DERIVATIVES = {
    "gradient": gradient,
    "withgradient": lambda f, a: tracker.withgradient(f, a).grad,
    "value_and_grad": lambda f, a: tracker.value_and_grad(f)(a),
    "pullback": lambda f, a: tracker.pullback(f, a)[1](2.0),
    "pushforward": lambda f, a: tracker.pushforward(f, a)[1](a),
    "jvp": lambda f, a: tracker.jvp(f, (a,), (a,)),
    "hvp": lambda f, a: tracker.hvp(f, a, a),
    "checkpoint": lambda f, a: gradient(lambda b: tracker.checkpoint(f, b), a),
    "gradcheck": tracker.gradcheck,
    "ngradient": lambda f, a: tracker.tree.map(
        lambda g: g if g is None else np.round(g, 6), tracker.testing.ngradient(f, a)
    ),
}
MATRICES = {
    "jacobian": tracker.jacobian,
    "withjacobian": lambda f, a: tracker.withjacobian(f, a).grad,
    "hessian": tracker.hessian,
    "hessian_reverse": tracker.hessian_reverse,
    "diaghessian": tracker.diaghessian,
}


def ways(derivative):
    return {
        "eager": lambda a: derivative(squares, a),
        "of compiled": lambda a: derivative(compiled, a),
        "compiled": jit(lambda a: derivative(squares, a)),
    }


@pytest.mark.parametrize("name", [*DERIVATIVES, *MATRICES])
def test_foreign_arrays_count_as_arrays(name):
    derivative = {**DERIVATIVES, **MATRICES}[name]
    want = derivative(squares, V)
    for way, call in ways(derivative).items():
        for kind, x in ARRAYS.items():
            same(call(x), want, f"{kind}, {way}")


@pytest.mark.parametrize("name", [*DERIVATIVES, *MATRICES])
def test_objects_with_units_or_masks_are_refused_by_name(name):
    calls = ways({**DERIVATIVES, **MATRICES}[name])
    if name in ("gradcheck", "ngradient", "checkpoint"):
        del calls["compiled"]
    for call in calls.values():
        for x, text in REFUSED.values():
            kind = "Unsupported" if isinstance(x, np.ndarray) else "NotTracked"
            with pytest.raises(getattr(tracker, f"{kind}Error"), match=rf"argument 0: {text}"):
                call(x)


@pytest.mark.parametrize("name", DERIVATIVES)
def test_objects_of_own_classes_are_structures(name):
    derivative = DERIVATIVES[name]
    want = derivative(squares, V)
    calls = ways(derivative)
    if name in ("gradcheck", "ngradient"):  # they are no derivatives that a trace follows
        del calls["compiled"]
    for way, call in calls.items():
        found = call(Model())
        shown = tracker.tree.map(lambda x: x, found)
        leaves = [x for x in tracker.tree.leaves(shown, objects=True) if x is not None]
        same(leaves, tracker.tree.leaves(want), way)


@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_needs_an_array(name):
    derivative = MATRICES[name]
    for f in (squares, compiled):
        for x in (Model(), {"w": V}, "text", None):
            kind = type(x).__name__
            with pytest.raises(tracker.NotTrackedError, match=rf"{kind}.*tracker\.tree\.ravel"):
                derivative(f, x)
    if name in ("jacobian", "withjacobian", "diaghessian"):
        several = tracker.jacobian if name == "jacobian" else tracker.diaghessian
        assert several(lambda x, text: np.sum(x), V, "text")[1] is None


@pytest.mark.parametrize("name", DERIVATIVES)
def test_arguments_without_numbers_are_refused(name):
    for call in (*ways(DERIVATIVES[name]).values(),):
        for x in ("text", None, {}, [None]):
            with pytest.raises(
                tracker.NotTrackedError, match=r"no number .*argument 0 is a .*Give numbers"
            ):
                call(x)


def test_an_array_without_numbers_is_refused_with_its_dtype():
    dates = np.array(["2020-01-01"], dtype="datetime64[D]")
    for x, dtype in ((dates, r"datetime64\[D\]"), (np.array(["a"]), "<U1")):
        with pytest.raises(tracker.NotTrackedError, match=f"argument 0 is a ndarray of {dtype}"):
            gradient(np.sum, x)


def test_other_arguments_get_none():
    passive = ["text", None, np.sum, len, np.array(["a"]), bytearray(b"a"), range(3), {1, 2}, Model]
    passive += [np.random.default_rng(0), functools.partial(np.sum, axis=0), np.dtype(float)]
    for x in passive:
        assert gradient(lambda a, b: 2 * a, 1.0, x) == (2.0, None)
        assert gradient(jit(lambda a, b: 2 * a), 1.0, x) == (2.0, None)
    f = tracker.value_and_grad(lambda a, b: 2 * a)
    assert f(1.0, decimal.Decimal(2)) == (2.0, 2.0)  # it is not differentiated
    assert gradient(lambda a, *, b: 2 * a, 1.0, b=decimal.Decimal(2)) == (2.0,)


def test_foreign_arrays_inside_structures_keep_their_dtypes():
    single, whole = Series(V.astype("f4")), array.array("i", [1, 2])
    for f in (lambda d: np.sum(d["a"] ** 2) + np.sum(d["b"][0] * 3),) * 2:
        for g in (f, jit(f)):
            (found,) = gradient(g, {"a": single, "b": (whole,)})
            assert found["a"].dtype == np.float32
            same(found, {"a": (2 * V).astype("f4"), "b": (np.array([3.0, 3.0]),)})
    assert gradient(lambda x: np.sum(x), np.float32(2.0)) == (np.float32(1.0),)


# Objects ------------------------------------------------------------------------------------------


class Slots:
    __slots__ = ("__scale", "count", "weight")

    def __init__(self, weight):
        self.weight, self.__scale, self.count = np.array(weight), 2.0, 4

    @property
    def scale(self):
        return self.__scale


class Guarded(Slots):
    """It does more than to set its attributes."""

    def __init__(self, weight):
        super().__init__(weight)
        self.__dict__["more"] = [1.5, {"k": np.ones(2)}]
        self.__dict__["text"] = "x"

    def __setattr__(self, name, value):
        if name not in ("weight", "_Slots__scale", "count"):
            raise AttributeError("it is closed")
        super().__setattr__(name, value)


@dataclass(frozen=True)
class Frozen:
    w: float = 3.0


class Nested:
    def __init__(self, weight):
        self.inner = Guarded(weight)
        self.space = types.SimpleNamespace(w=1.5)
        self.frozen = Frozen()
        self.unused = np.ones(3)

    def loss(self, x):
        inner = self.inner
        a = np.sum(inner.weight**2 * x) * inner.scale
        return a + inner.more[1]["k"][0] * self.space.w**2 * self.frozen.w


def test_gradients_of_nested_objects():
    def loss(m, x):
        assert type(m.inner) is Guarded
        return m.loss(x)

    compiled = jit(loss)
    inside = jit(lambda m, x: gradient(loss, m, x))
    calls = [
        lambda m: gradient(loss, m, V),
        lambda m: gradient(compiled, m, V),
        lambda m: inside(m, V),
    ]
    for weight in ([1.0, 2.0], [3.0, -1.0]):
        for call in calls:
            m = Nested(weight)
            g, dx = call(m)
            w, x = m.inner.weight, V
            assert (type(g), type(g.inner), type(g.frozen)) == (Nested, Guarded, Frozen)
            same(g.inner.weight, 4 * w * x)
            same(g.inner.scale, float(np.sum(w**2 * x)))
            assert g.inner.count is None
            assert g.inner.text is None
            same(g.inner.more, [0.0, {"k": np.array([6.75, 0.0])}])
            assert (g.space.w, g.frozen.w) == (9.0, 2.25)
            same(g.unused, np.zeros(3))
            same(dx, 2 * w**2)
            same(w, np.array(weight))  # as it was


def test_a_compiled_gradient_of_an_object_is_native():
    f = jit(lambda m: np.sum(m.inner.weight**2), strict=True)
    for weight in ([1.0, 2.0], [5.0, 2.0]):
        same(gradient(f, Nested(weight))[0].inner.weight, 2 * np.array(weight))
    derived = gradient.__globals__["compiled_derivative"](f, ("gradient", True), None, True)
    assert derived.cache_info().traces == 1


def test_cached_properties_are_recomputed():
    class Gram:
        def __init__(self, w):
            self.w = w

        @functools.cached_property
        def square(self):
            return self.w**2

    @dataclass
    class Data:
        w: float

        @functools.cached_property
        def square(self):
            return self.w**2

    for cls in (Gram, Data):
        for f in (lambda m: m.square * 2, jit(lambda m: m.square * 2)):
            m = cls(3.0)
            assert m.square == 9.0
            assert gradient(f, m)[0].w == 12.0


def test_an_object_without_numbers_is_a_leaf():
    class Plan:
        def __init__(self):
            self.names, self.flag = ["a"], True

    plan = Plan()

    def f(x, p):
        assert p is plan
        return 2 * x

    assert gradient(f, 1.0, plan) == (2.0, None)
    with pytest.raises(tracker.NotTrackedError, match=r"argument 0 is a Plan"):
        gradient(lambda p: 1.0, plan)


def test_steps_over_objects():
    m = Model()
    (g,) = gradient(squares, m)
    moved = tracker.tree.map(lambda w, d: w if d is None else w - 0.25 * d, m, g)
    same((moved.w, moved.name), (V / 2, "x"))
    init, update = tracker.optim.descent(0.25)
    same(update(m, g, init(m))[0].w, V / 2)
    vector, back = tracker.tree.ravel(m)
    same(vector, V)
    same(back(2 * vector).w, 2 * V)
    rows = tracker.vmap(lambda x: gradient(lambda m: np.sum(m.w**2 * x), m)[0])(np.ones((3, 2)))
    same(rows.w, np.tile(2 * V, (3, 1)))


def test_functions_of_objects_inside_others():
    f = jit(lambda m: np.sum(m.w**2))
    inner = jit(lambda m: tracker.checkpoint(lambda x: np.sum(m.w**2 * x), V))
    for _ in range(2):
        same(gradient(lambda m: 3 * f(m), Model())[0].w, 6 * V)
        same(jit(lambda m: gradient(inner, m))(Model())[0].w, 2 * V**2)
        same(gradient(lambda m: np.sum(gradient(f, m)[0].w ** 2), Model())[0].w, 8 * V)


# Structures that contain themselves, or are very deep ---------------------------------------------


def contains_itself():
    found = [V]
    found.append(found)
    return found


def deep():
    found = [V]
    for _ in range(5000):
        found = [found, 1.0]
    return found


def parent():
    found = Model()
    found.child = Model()
    found.child.parent = found
    return found


@pytest.mark.parametrize("make", [contains_itself, deep, parent])
def test_cyclic_and_very_deep_arguments_are_refused(make):
    x = make()
    for f in (lambda x: 1.0, jit(lambda x: 1.0)):
        for derivative in DERIVATIVES.values():
            with pytest.raises(tracker.UnsupportedError, match=r"contains itself, or is more than"):
                derivative(f, x)
    with pytest.raises(tracker.UnsupportedError, match=r"argument 1 \(a (list|Model)\)"):
        gradient(lambda a, b: a, 1.0, x)
    assert gradient(lambda a, *, b: 2 * a, 1.0, b=x) == (2.0,)
    assert jit(lambda a, b: 2 * a)(1.0, x) == 2.0
    if type(x) is list:
        with pytest.raises(tracker.CompileError, match="contains itself, or is too deep"):
            jit(lambda a, b: 2 * a, strict=True)(1.0, x)


@pytest.mark.parametrize("make", [contains_itself, deep])
def test_cyclic_and_very_deep_results_are_refused(make):
    f = jit(lambda a: [2 * a, make()])
    with pytest.warns(RuntimeWarning, match="contains itself, or is more than"):
        same(f(V)[0], 2 * V)
    for derivative in (tracker.pullback, tracker.pushforward):
        for g in (lambda a: [2 * a, make()], f):
            with pytest.raises(tracker.UnsupportedError, match=r"contains itself, or is more than"):
                derivative(g, V)
