"""A jitted function behaves as the plain one where people least think of it."""

import copy
import functools
import logging
import math
import pickle
import sys
import types

import numpy as np
import pytest
from compiled import agree
from equality import assert_same

import tracker
import tracker as tr
from tracker import Params, back, gradient, jit, param


@jit
def decorated(x):
    return np.sum(x * x)


def plain(x):
    return np.sum(x * 2.0)


def corner(x):
    if x[0, 0] > 0:
        x[0, 0] = 5.0
    return x[0, 0] + x[1, 1]


@pytest.mark.parametrize(
    "lay_out",
    [
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: x[::-1].copy()[::-1],
        lambda x: x.astype(">f8"),
    ],
)
def test_writes_of_a_later_trace_reach_an_array_of_any_layout(lay_out):
    first, *others = ((lay_out(np.full((2, 2), k)),) for k in (-1.0, 1.0, 2.0))
    agree(corner, *first, others=others, tolerance=0)  # the first way through writes nothing


def test_a_param_that_a_jitted_function_reads_keeps_its_history():
    p = param([1.0, 2.0])
    fast = jit(lambda a: np.sum(a * p))
    for _ in range(2):
        assert gradient(lambda: fast(np.ones(2)), Params([p]))[p].tolist() == [1.0, 1.0]
    back(fast(np.array([3.0, 4.0])))
    assert p.grad.tolist() == [3.0, 4.0]
    tracker.update(p, np.ones(2))
    assert tracker.data(fast(np.ones(2))) == 5.0


def test_pickle_and_copy():
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert copy.deepcopy(decorated) is decorated
    wrapped = jit(plain, max_traces=3)
    for made in (pickle.loads(pickle.dumps(wrapped)), copy.deepcopy(wrapped)):
        assert made is not wrapped
        assert made(np.ones(3)) == 6.0
    assert pickle.loads(pickle.dumps(jit(math.hypot))) is not None
    with pytest.raises(tr.UnsupportedError, match="<jitted function> cannot be pickled"):
        pickle.dumps(jit(lambda x: x))


@pytest.mark.parametrize("kind", ["off", "corrupt"])
def test_without_blas_numpy_multiplies_and_explain_says_so(kind, monkeypatch, tmp_path):
    path = tmp_path / "libbroken.so"
    path.write_bytes(b"not a library")
    monkeypatch.setenv("TRACKER_BLAS", "off" if kind == "off" else str(path))
    rng = np.random.default_rng(0)
    a, b = rng.random((50, 40)), rng.random((40, 30))
    fast = agree(lambda a, b: np.sum(np.tanh(a @ b)), a, b, tolerance=1e-13)
    told = fast.explain(a, b)
    assert "host: matmul" in told
    assert "BLAS: none (TRACKER_BLAS=" in told


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(self.format(record))


def test_what_is_only_printed_is_printed_while_tracing(capsys):
    log, lines = logging.Logger("unusual"), Lines()
    log.addHandler(lines)

    def direct(x):
        print(x)
        return x * 2

    def formatted(x):
        if x is not None:
            print(f"x is {x:.2f}", "and", x, sep=", ")
        return x * 2

    def logged(x):
        log.warning("x is %s", x)
        return x * 2

    for f in (direct, formatted, logged):
        g = jit(f)
        for x in (1.5, 2.5, 3.5):
            assert g(x) == 2 * x
        assert g.cache_info().traces == 1 and g.cache_info().eager == 0
    assert capsys.readouterr().out == "1.5\nx is 1.50, and, 1.5\n"
    assert lines.lines == ["x is 1.5"]


def test_formatted_text_is_new_on_each_call():
    def rounded(x):
        print(x)
        return float(f"{x:.1f}") * x

    g = jit(rounded)
    with pytest.warns(RuntimeWarning, match="text is made of a value"):
        assert g(1.26) == 1.3 * 1.26
    assert g(2.26) == 2.3 * 2.26


class Holder:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    ("f", "ask"),
    [
        (lambda x: lambda y: x * y, lambda made: made(3.0)),
        (lambda x: functools.partial(np.multiply, x), lambda made: made(3.0)),
        (lambda x: Holder([x * 2]), lambda made: made.value[0]),
        (lambda x: iter([x, x * 2]), list),
        (lambda x: (v * x for v in (1.0, 2.0)), list),
        (lambda x: (x, map(x.__mul__, [1.0])), lambda made: list(made[1])),
    ],
)
def test_results_that_hold_computed_values_are_the_plain_function_s(f, ask):
    g = jit(f)
    with pytest.warns(RuntimeWarning, match="holds values it computed"):
        assert ask(g(2.0)) == ask(f(2.0))
    for x in (3.0, 4.0):
        got = ask(g(x))
        assert got == ask(f(x)) and type(got) is type(ask(f(x)))


def test_objects_that_were_there_are_returned():
    kept, model = [np.ones(3)], Holder(np.ones(3))
    g = jit(lambda x: (model, x * model.value, len, kept, Holder))
    for _ in range(3):
        got = g(2.0)
        assert got[0] is model and got[2] is len and got[4] is Holder
    assert g.cache_info().eager == 0


class Scaled:
    """A class with a jitted method."""

    def __init__(self):
        self.w = np.arange(3.0)

    @jit
    def loss(self, x, power=2):
        return np.sum(self.w * x**power)


DERIVATIVES = {
    "gradient": lambda f, x: tr.gradient(f, x),
    "withgradient": lambda f, x: tr.withgradient(f, x),
    "gradient, by keyword": lambda f, x: tr.gradient(f, x, power=3),
    "value_and_grad": lambda f, x: tr.value_and_grad(f)(x),
    "pullback": lambda f, x: tr.pullback(f, x)[1](1.0),
    "pushforward": lambda f, x: tr.pushforward(f, x)[1](x),
    "jvp": lambda f, x: tr.jvp(f, (x,), (x,)),
    "jacobian": lambda f, x: tr.jacobian(f, x),
    "hessian": lambda f, x: tr.hessian(f, x),
    "hvp": lambda f, x: tr.hvp(f, x, x),
    "vmap": lambda f, x: tr.vmap(f)(np.stack([x, x + 1])),
    "jit of gradient": lambda f, x: jit(lambda x: tr.gradient(f, x))(x),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_of_a_jitted_method(name):
    one, other = Scaled(), Scaled()
    other.w = np.full(3, 5.0)
    derive, plain = DERIVATIVES[name], Scaled.loss.__wrapped__
    for model in (one, other, one):
        for x in (np.arange(3.0), np.full(3, -1.5)):
            want = derive(types.MethodType(plain, model), x)
            for _ in range(2):
                assert_same(derive(model.loss, x), want)


def test_the_derivative_of_a_method_is_compiled():
    slope = tr.value_and_grad(Scaled().loss)
    slope(np.ones(3))
    derived = slope.func
    before = derived.cache_info()
    for _ in range(5):
        slope(np.ones(3))
    after = derived.cache_info()
    assert after.traces == before.traces >= 1 and after.eager == 0
    assert after.slow <= before.slow + 1  # the call that waited for machine code


def test_traces_exports_and_pictures_of_a_jitted_method(tmp_path):
    model, x = Scaled(), np.ones(3)
    assert len(tr.trace(model.loss, x).captures) == 1
    assert "loss_gradient" in tr.export(model.loss, x, path=tmp_path / "f")[1].read_text()
    assert tr.debug.draw(model.loss, tmp_path / "plan", x).stat().st_size > 500


def test_cloudpickle_takes_functions_of_a_script_by_value(monkeypatch):
    """A worker's `__main__` is another: joblib and Dask send what is in it as it is."""
    made = jit(plain)
    made.__module__, made.__qualname__ = "__main__", "of_the_script"
    monkeypatch.setattr(sys.modules["__main__"], "of_the_script", made, raising=False)
    space = {"__name__": "joblib.externals.cloudpickle.cloudpickle"}
    exec("def reduced(f): return f.__reduce_ex__(4)", space)
    make, (function, options) = space["reduced"](made)
    assert function is made.__wrapped__
    assert_same(make(function, options)(2.0), made(2.0))
    assert made.__reduce_ex__(4) == "of_the_script"
    assert space["reduced"](decorated) == "decorated"


def test_a_jitted_function_is_jitted_anew_with_other_options():
    again, of_method = jit(decorated, strict=True, max_traces=3), jit(Scaled().loss)
    model, x = Scaled(), np.ones(3)
    for made, plain in ((again, decorated), (of_method, model.loss)):
        for _ in range(2):
            assert made(x) == plain(x)
        assert made.cache_info().traces == 1
        assert_same(tr.value_and_grad(made)(x), tr.value_and_grad(plain)(x))
        assert_same(pickle.loads(pickle.dumps(made))(x), plain(x))
    assert decorated is not again
    for made in (again, tr.value_and_grad(again), tr.vmap(tr.value_and_grad(again))):
        options = pickle.loads(pickle.dumps(made))._jitted.options
        assert options.strict and options.max_traces == 3
    assert pickle.loads(pickle.dumps(tr.value_and_grad(decorated))) is tr.value_and_grad(decorated)


@functools.wraps(decorated)
def twice_decorated(x):
    return 2.0 * decorated(x)


def test_a_function_that_wraps_a_jitted_one_is_itself(tmp_path):
    """`functools.wraps` copies attributes."""
    x = np.ones(3)
    fast = jit(twice_decorated)
    for _ in range(2):
        assert fast(x) == twice_decorated(x) == 6.0
        assert_same(tr.value_and_grad(fast)(x), tr.value_and_grad(twice_decorated)(x))
    assert fast.cache_info().traces >= 1 and decorated._jitted is not fast._jitted
    assert "multiply" in str(tr.trace(twice_decorated, x)).splitlines()[-3]
    picture = tr.debug.draw(twice_decorated, tmp_path / "picture", x).read_text()
    assert picture == tr.debug.draw(tr.trace(fast, x), tmp_path / "other", x).read_text()
