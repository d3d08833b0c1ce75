"""Tracked values: param, data, grad, back, update, and the class as an ndarray."""

import copy
import functools
import math
import operator
import pickle
from collections.abc import Collection, Container, Hashable, Iterable, Sized
from concurrent.futures import ThreadPoolExecutor
from numbers import Number

import numpy as np
import pytest

import tracker
from tracker import Tracked, back, data, grad, isleaf, istracked, jit, param, update, withgradient
from tracker.ops.elementwise.unary import sin
from tracker.support.structs import replace
from tracker.tape.record import apply

V = np.array([1.0, 2.0, 3.0])


# param, data, grad --------------------------------------------------------------------------------


@pytest.mark.parametrize("x, want", [
    (2, 2.0), (True, 1.0), (2.5, 2.5), (1 + 2j, 1 + 2j), (np.float32(2), np.float32(2)),
    (np.int64(3), np.float64(3)), ([1, 2, 3], V),
    ([[1, 2], [3, 4]], np.array([[1.0, 2.0], [3.0, 4.0]])), (np.arange(3), np.arange(3.0)),
    (np.array([True, False]), np.array([1.0, 0.0])),
    (np.array([1, 2], np.float16), np.array([1, 2], np.float16)),
    (np.array([1, 2], np.longdouble), np.array([1, 2], np.longdouble)),
    (np.array([1, 2], np.complex64), np.array([1, 2], np.complex64)),
])  # fmt: skip
def test_param_keeps_floats_and_makes_integers_float64(x, want):
    p = param(x)
    assert istracked(p)
    assert isleaf(p)
    assert type(data(p)) is type(want)
    assert np.result_type(data(p)) == np.result_type(want)
    np.testing.assert_array_equal(data(p), want)
    assert np.result_type(grad(p)) == np.result_type(want)
    assert np.shape(grad(p)) == np.shape(want)
    assert np.all(grad(p) == 0)


def test_param_copies():
    x = V.copy()
    p = param(x)
    x[0] = 9.0
    assert p.data[0] == 1.0


def test_param_of_a_tracked_value_is_an_identity_node():
    p = param(2.0)
    q = param(p)
    assert not isleaf(q)
    back(q * q)
    assert grad(p) == 4.0


def test_untracked_values():
    for x in (V, 2.0, "text", None, [1]):
        assert data(x) is x
        assert grad(x) is None
        assert not istracked(x)
        assert isleaf(x)


def test_an_interior_value_has_a_gradient_once_back_has_reached_it():
    p = param(2.0)
    y = p * 3
    z = y * y
    assert grad(y) is None
    assert y.grad is None
    back(z)
    assert y.grad == 12.0
    assert z.grad == 1.0
    assert p.grad == 36.0


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "g", "c8", "c16"])
def test_gradients_keep_the_dtype(kind):
    p = param(np.array([1, 2], kind))
    back(np.sum(np.abs(p * p * 1.5)))
    assert p.grad.dtype == np.dtype(kind)
    np.testing.assert_allclose(p.grad, [3, 6])


# back ---------------------------------------------------------------------------------------------


def test_gradients_add_up_over_calls():
    p, q = param(V), param(2.0)
    back(np.sum(p * q))
    back(np.sum(p * p))
    assert p.grad.tolist() == [4, 6, 8]
    assert q.grad == 6.0
    tracker.zero_grad(p)
    assert p.grad.tolist() == [0, 0, 0]
    assert q.grad == 6.0


def test_once():
    p = param(2.0)
    y = p * p
    z = y * 3
    back(z, once=False)
    back(z)
    assert p.grad == 24.0
    with pytest.raises(tracker.GraphUsedError, match=r"already used on this value.*once=False"):
        back(z)
    for used in (z, y, z + 1):
        with pytest.raises(tracker.GraphUsedError, match="Pass once=False"):
            back(used)
    assert p.grad == 24.0
    back(p * p)
    assert p.grad == 28.0


def test_seed():
    p = param(V)
    y = p * p
    back(y, np.array([1, 0, 2]), once=False)
    assert p.grad.tolist() == [2, 0, 12]
    back(y, [1.0, 1.0, 1.0])
    assert p.grad.tolist() == [4, 4, 18]
    q = param(1 + 2j)
    back(q * q, 1.0)
    assert q.grad == np.conj(2 * (1 + 2j))


def test_the_given_seed_and_the_returned_gradient_belong_to_the_caller():
    p, seed = param(V), np.ones(3)
    back(p * 1.0, seed)
    seed[:] = 5.0
    assert p.grad.tolist() == [1, 1, 1]
    q = param(V)
    back(np.sum(p + q))
    p.grad[:] = 7.0
    assert q.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize("slot", ["partials", "vjp"])
def test_an_exception_in_a_rule_leaves_gradients_as_they_were(slot):
    works = True

    def rule(*_):
        if not works:
            raise RuntimeError("a rule broke")
        return 5.0

    slots = {"partials": (rule,)} if slot == "partials" else {"partials": None, "vjp": (rule,)}
    fragile = replace(sin, name="fragile", **slots)
    p, q = param(2.0), param(3.0)
    back(p * q)
    y = apply(fragile, (p,)) * q * q
    works = False
    with pytest.raises(RuntimeError, match="a rule broke") as caught:
        back(y)
    assert "in the derivative rule of fragile, operand 0" in caught.value.__notes__
    assert (p.grad, q.grad, y.grad) == (3.0, 2.0, None)
    works = True
    back(y)
    assert p.grad == 3 + (45.0 if slot == "partials" else 5.0)


def test_deep_graphs_do_not_recurse():
    p = param(1.0)
    y = p
    for _ in range(20_000):
        y = y + 1e-9
    back(y)
    assert p.grad == 1.0
    del y


# update -------------------------------------------------------------------------------------------


def test_update():
    p = param(V)
    y = p * p
    back(np.sum(y), once=False)
    assert update(p, -0.5 * p.grad) is p
    assert p.data.tolist() == [0, 0, 0]
    assert p.grad.tolist() == [0, 0, 0]
    assert isleaf(p)
    assert y.data.tolist() == [1, 4, 9]
    s = update(param(2.0), 1)
    assert s.data == 3.0
    plain = V.copy()
    assert update(plain, np.ones(3)) is plain
    assert plain.tolist() == [2, 3, 4]
    half = update(param(np.float32(1)), 0.5)
    assert type(half.data) is np.float32


# As an ndarray ------------------------------------------------------------------------------------


ATTRIBUTES = ["T", "mT", "shape", "ndim", "size", "dtype", "real", "imag", "itemsize", "nbytes"]


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes(name):
    for x in (np.arange(6.0).reshape(2, 3), np.array([[1 + 2j, 3.0]])):
        found, want = getattr(param(x), name), getattr(x, name)
        assert type(data(found)) is type(want)
        np.testing.assert_array_equal(data(found), want)


METHOD_CALLS = {
    "sum": (), "mean": (0,), "prod": (), "max": (), "min": (1,), "argmax": (), "argmin": (0,),
    "all": (), "any": (), "std": (), "var": (), "clip": (0.1, 0.5), "round": (1,), "dot": (V,),
    "reshape": (3, 2), "ravel": (), "flatten": (), "transpose": (), "swapaxes": (0, 1),
    "squeeze": (), "copy": (), "astype": (np.float32,), "conj": (), "conjugate": (),
    "repeat": (2,), "take": ([0, 2],), "argsort": (), "diagonal": (), "trace": (), "item": (2,),
}  # fmt: skip


@pytest.mark.parametrize("name", METHOD_CALLS)
def test_methods(name):
    x = np.linspace(-1, 1, 6).reshape(2, 3)
    found = getattr(param(x), name)(*METHOD_CALLS[name])
    want = getattr(x, name)(*METHOD_CALLS[name])
    np.testing.assert_allclose(data(found), want)
    assert np.result_type(data(found)) == np.result_type(want)


def test_len_iteration_and_in():
    p = param(V)
    assert len(p) == 3
    assert [data(v) for v in p] == [1.0, 2.0, 3.0]
    assert 2.0 in p
    assert 9.0 not in p
    assert [data(v) for v in reversed(p)] == [3.0, 2.0, 1.0]
    a, *rest = p
    assert data(a) == 1.0
    assert len(rest) == 2
    back(sum(v * v for v in p))
    assert p.grad.tolist() == [2, 4, 6]
    assert [row.shape for row in param(np.ones((2, 3)))] == [(3,), (3,)]
    assert data(max(p)) == 3.0
    assert [data(v) for v in sorted(p, reverse=True)] == [3, 2, 1]
    assert [data(v) for v in p.flat] == [1, 2, 3]
    for scalar in (param(2.0), param(np.float64(2.0))):
        with pytest.raises(TypeError, match="iteration over a 0-d tracked value"):
            iter(scalar)
        with pytest.raises(TypeError, match="len"):
            len(scalar)


def test_repr_and_format():
    assert repr(param([1, 2, 3])) == "tracked(array([1., 2., 3.]))"
    assert repr(param(2.5)) == "tracked(2.5)"
    assert repr(param(np.float32(2))) == "tracked(2.0)"
    for x in (2.5, 1j, np.float32(2), V, V.reshape(1, 3)):  # as text, its numbers
        assert str(param(x)) == f"{param(x)}" == "%s" % param(x) == "{}".format(param(x)) == str(x)  # noqa: UP031, UP032
    assert f"{param(2.5):.3f} {param(2)!r} {[param(2)]}" == "2.500 tracked(2.0) [tracked(2.0)]"
    assert f"{np.sum(param(V)):6.2f}" == "  6.00"
    assert "%.3f, %g" % (param(2.5), np.sum(param(V))) == "2.500, 6"  # noqa: UP031


@pytest.mark.filterwarnings("ignore:function runs in plain Python.*text is made:RuntimeWarning")
@pytest.mark.parametrize("wrap", [lambda g: g, tracker.jit])
def test_text_within_a_derivative(wrap):
    said = []

    def loss(x):
        said.append((str(x), f"{x}", "%s" % x, f"{x:.1f}"))  # noqa: UP031
        return x * x

    def function(x):
        return tracker.gradient(loss, x)[0]

    call = wrap(function)
    assert [call(2.5), call(1.5)] == [5.0, 3.0]
    assert said == [("2.5", "2.5", "2.5", "2.5"), ("1.5", "1.5", "1.5", "1.5")]


def test_tests_of_math_keep_the_gradient():
    def f(x):
        loss = np.sum(x) ** 2
        if math.isinf(loss):
            return x[0] * 3
        return loss if math.isfinite(loss) and not math.isnan(loss) else x[1] * 5

    fast = tracker.jit(f)
    for x, slope in (([1.0, 2.0], [6, 6]), ([2.0, np.inf], [3, 0]), ([np.nan, 2.0], [0, 5])):
        for g in (f, fast, fast):
            np.testing.assert_array_equal(tracker.gradient(g, np.array(x))[0], slope)
    for refused in (math.frexp, math.ulp, lambda x: math.isnan(float(x))):
        with pytest.raises(tracker.ConversionError):
            tracker.gradient(lambda x, refused=refused: x * refused(x), 1.0)


def test_truth_hash_and_conversions_to_int():
    p = param(2.0)
    assert bool(p)
    assert not param(0.0)
    assert (int(p), np.int64(p), round(p), np.int32(param(3.7))) == (2, 2, 2, 3)
    assert tracker.gradient(lambda x, n: x * {1: 3.0, 2: 5.0}[n] * (n in {2}), 2.0, 2)[0] == 5.0
    with pytest.raises(ValueError, match="ambiguous"):
        bool(param(V))
    with pytest.raises(TypeError, match=r"unhashable.*id\(x\)"):
        hash(param(V))
    with pytest.raises(ValueError, match="array of size 1"):
        param(V).item()
    with pytest.raises(TypeError, match="'float' object does not support item assignment"):
        param(2.0)[0] = 1.0
    counted = tracker.gradient(lambda x, n: x * sum(range(n)) * [1, 2, 3][n - 2], 2.0, 4)
    assert counted == (18.0, None)
    with pytest.raises(TypeError, match="integer"):
        operator.index(p)


def _pickled(x):
    return pickle.loads(pickle.dumps(x))


def test_copies_and_pickles():
    p = param(V)
    back(np.sum(p * p))
    for clone in (copy.deepcopy, _pickled):
        twin = clone(p)
        assert isleaf(twin)
        assert (twin.data.tolist(), twin.grad.tolist()) == ([1, 2, 3], [2, 4, 6])
        back(np.sum(twin))
        update(twin, 1.0)
        assert (p.data.tolist(), p.grad.tolist()) == ([1, 2, 3], [2, 4, 6])
        model = clone({"w": p, "b": [p, param(1.0)]})
        assert model["w"] is model["b"][0] and model["w"] is not p
    y = p * 2
    for twin in (copy.copy(y), copy.deepcopy(y)):  # interior values stay on the tape
        back(np.sum(twin), once=False)
    assert p.grad.tolist() == [6, 8, 10]
    assert (_pickled(y).data.tolist(), isleaf(_pickled(y))) == ([2, 4, 6], True)


def _pickled_by_another_thread(x):  # as multiprocessing does
    with ThreadPoolExecutor(1) as pool:
        return pickle.loads(pool.submit(pickle.dumps, x).result())


@pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")
@pytest.mark.parametrize("clone", [_pickled, _pickled_by_another_thread])
def test_what_a_derivative_needs_is_not_pickled(clone):
    """The copy would not follow the argument: its gradient would be zero in silence."""
    p = param(V)
    for f in (lambda x: clone(x)[0], lambda x: clone([x * 2])[0][0], lambda x: clone(x[0] * p)[0]):
        for made in (f, jit(f)):
            with pytest.raises(tracker.ConversionError, match=r"pickling .*another process, gives"):
                tracker.gradient(made, V)
    with pytest.raises(tracker.ConversionError, match=r"Copy it with copy\.deepcopy, or pickle"):
        tracker.gradient(lambda: np.sum(_pickled(p * 2)), tracker.Params([p]))
    constants = tracker.gradient(lambda x: x @ clone(np.zeros_like(x)) + x @ clone(p).data, V)
    assert constants[0].tolist() == V.tolist()
    kept = []
    tracker.gradient(lambda x: np.sum(x * (kept.append(x * 2) or 1.0)), V)
    assert _pickled(kept)[0].data.tolist() == [2, 4, 6]  # its derivative has run


def test_attributes_that_do_not_exist():
    p = param(V)
    with pytest.raises(AttributeError, match="no attribute 'foo'"):
        p.foo  # noqa: B018
    assert not hasattr(p, "bar")
    assert not hasattr(p, "__array_interface__")
    with pytest.raises(TypeError, match=r"Tracked is not called directly.*tracker\.param"):
        Tracked(3)
    assert isinstance(p, np.ndarray) and type(p) is Tracked  # code written for NumPy asks


def test_a_param_keeps_its_gradient_after_being_written_into():
    w = param(np.ones(3))
    before = np.sum(w * 3.0)
    w[0] = 5.0
    back(before + np.sum(w * w))
    assert w.grad.tolist() == [3.0, 5.0, 5.0]
    assert tracker.grad(w).tolist() == [3.0, 5.0, 5.0]
    assert not tracker.isleaf(w)
    with pytest.raises(tracker.NotTrackedError, match="give a param a history"):
        tracker.update(w, 1.0)
    tracker.zero_grad(w)
    assert w.grad.tolist() == [0.0, 0.0, 0.0]


def test_numpy_testing_accepts_tracked_values():
    t, plain = param(np.array([1.0, 2.0])), np.array([1.0, 2.0])
    np.testing.assert_allclose(t, plain)
    np.testing.assert_allclose(plain, t * 1.0, rtol=1e-3)
    np.testing.assert_array_equal(t, plain)
    np.testing.assert_array_almost_equal(t, plain)
    np.testing.assert_almost_equal(t, plain)
    np.testing.assert_equal(t, plain)
    np.testing.assert_array_less(t, plain + 1)
    np.testing.assert_allclose(param(2.0), 2.0)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(t, plain + 1)
    with pytest.raises(tracker.ConversionError, match="lose its gradient"):
        np.asarray(t)
    checked = tracker.jit(lambda a: np.testing.assert_allclose(a, plain))
    with pytest.warns(RuntimeWarning, match="plain Python"):  # a trace would check only once
        checked(plain)
    with pytest.raises(AssertionError):
        checked(plain + 1)


def test_python_floats_round_as_in_python():
    """NumPy rounds 0.15 to 0.2."""

    def f(x):
        return x * round(x, 1)

    for g in (f, tracker.jit(f)):
        for x in (0.15, 0.25, 2.675, 0.15):
            y = g(x)
            assert type(y) is float and y == f(x)
            assert tracker.gradient(g, x) == (round(x, 1),)


@pytest.mark.parametrize("kind", [Iterable, Sized, Container, Collection, Hashable, Number])
@pytest.mark.parametrize("x", [1.5, np.float64(1.5), np.ones(2), 2, 1j], ids=repr)
def test_abstract_classes_see_the_class_of_the_data(x, kind):
    def f(x):
        y = x * 3.0 if isinstance(x, kind) else x * 2.0
        return np.sum(y.real)

    assert isinstance(param(x), kind) == isinstance(x, kind)
    for g in (f, jit(f)):
        val, (slope,) = withgradient(g, x)
        assert val == f(x)
        assert np.all(slope == (3.0 if isinstance(x, kind) else 2.0))


@pytest.mark.parametrize("x", [1.5, np.float64(1.5), np.array(1.5), np.ones(2), 1j], ids=repr)
def test_a_number_has_no_length_as_hasattr_says(x):
    def f(x):
        y = sum(3.0 * v for v in x) if hasattr(x, "__len__") and np.ndim(x) else x * 2.0
        return np.sum(y.real) + hasattr(x, "__contains__")

    for name in ("__len__", "__contains__"):
        assert hasattr(param(x), name) == hasattr(x, name)
    for g in (f, jit(f)):
        val, (slope,) = withgradient(g, x)
        assert val == f(x)
        assert np.all(slope == (3.0 if np.ndim(x) else 2.0))
    if not isinstance(x, np.ndarray):
        for question in (len, lambda x: 1.0 in x):
            said = []
            for value in (x, param(x)):
                with pytest.raises(TypeError) as caught:
                    question(value)
                said.append(str(caught.value))
            assert said[0] == said[1]


def test_round_raises_the_error_of_python():
    for x in (np.array(1.5), np.array([1.5]), np.complex64(1), 2j, np.bool_(True)):
        with pytest.raises(TypeError) as plain:
            round(x, 1)
        for f in (tracker.jit(lambda x: round(x, 1)), tracker.jit(lambda x: round(x))):
            with pytest.raises(TypeError, match=str(plain.value)):
                f(x)


@pytest.mark.filterwarnings("ignore:.*plain Python")
def test_a_tracked_number_is_no_key():
    """A dict would take it for an equal number with another history."""

    @functools.lru_cache
    def cached(x):
        return x * x

    def f(x, y):
        return cached(x) * cached(y) * 3.0

    for g in (f, jit(f)):
        for _ in range(2):
            with pytest.raises(tracker.ConversionError, match=r"as a key.*__wrapped__") as caught:
                tracker.gradient(g, 2.0, 2.0)
    assert "test_tracked.py" in str(caught.value)
    assert jit(f)(2.0, 2.0) == 48.0
    for make in (lambda p: {p: 1}, lambda p: {p}, lambda p: p in {1.0, 2.0}, hash):
        with pytest.raises(TypeError, match="unhashable"):
            make(param(2.0))


def test_a_number_that_no_derivative_follows_is_a_key():
    table, stations = {1.0: 5.0, 3.0: 2.0}, np.array([1.0, 3.0])

    def f(v, times):
        return sum(table[x] * table[t] * v * v for x, t in zip(stations, times, strict=True))

    compiled, times = jit(f, strict=True), np.array([3.0, 1.0])
    for first in (1.0, 3.0):
        stations[0] = first
        for g in (f, compiled):
            wanted = 4.0 * (2.0 * table[first] + 10.0)
            assert tracker.gradient(g, 2.0, times, argnums=0) == wanted
