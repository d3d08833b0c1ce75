"""Functions in JAX have tracker's values and derivatives, and say where a trace does not hold."""

import gc
import re

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

import tracker
from tracker import UnsupportedError, nn
from tracker.tape.value import Value

jax = pytest.importorskip("jax")
jnp = jax.numpy
checkify = pytest.importorskip("jax.experimental.checkify")


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


rng = np.random.default_rng(0)


def writes(x):
    y = np.zeros_like(x)
    y[1:] = x[:-1] ** 2
    y[:, 0] += np.sin(x[:, 1])
    return np.sum(y * x)


def branches(x):
    if x[0] > 100:
        return np.sum(x)
    return np.sum(np.where(x > 0, np.log1p(np.abs(x)), x**3))


def gaussian(a, y):
    factor = np.linalg.cholesky(a @ a.T + np.eye(4))
    z = np.linalg.solve(factor, y)
    return 0.5 * z @ z + np.sum(np.log(np.diag(factor)))


def network(w, x, y):
    hidden = np.tanh(x @ w["a"] + w["c"])
    return np.mean(np.logaddexp(0, hidden @ w["b"]) - y * (hidden @ w["b"]))


def recurrent(w, xs):
    return np.sum(tracker.scan(lambda h, x: (np.tanh(w @ h + x), None), np.zeros(3), xs)[0])


def unrolled(w, xs):
    h = np.zeros(3)
    for x in xs:
        h = np.tanh(w @ h + x)
    return np.sum(h)


def doubling(x):
    return tracker.while_loop(lambda c: c < 10, lambda c: c * 2 + x, 1.0)


def chosen(x):
    return tracker.cond(x[0] > 0, lambda x: np.sum(x**2), lambda x: np.prod(x), x)


def backwards(x):
    return np.sum(tracker.scan(lambda c, r: (c * 0.5 + r, c * r), 0.0, x, reverse=True)[1] ** 2)


def counted(x):
    def body(i, y):
        y[i] = x[i] * y[i - 1] + 1.0
        return y

    return np.sum(tracker.fori_loop(1, len(x), body, np.ones(5) * x[0]))


def sorted_and_ranked(x):
    return np.sum(np.sort(x) * np.arange(5)) + np.median(x) + np.percentile(x, 30) + np.max(x)


def image(x, w):
    return np.sum(nn.maxpool(nn.relu(nn.conv(x, w)), 2) ** 2)


def kinks(x):
    return np.sum(np.abs(x) + np.sqrt(x * x) + np.maximum(x, 0) + np.where(x > 0, np.sqrt(x), 0))


def spectrum(x):
    return np.sum(np.abs(np.fft.rfft(x)) ** 2 * np.arange(3)) + np.sum(np.cumsum(x) ** 2)


def special(x):
    return np.sum(scipy.special.gammaln(np.abs(x) + 1) + scipy.special.erf(x))


@tracker.custom_gradient
def rounded(x):
    return np.round(x), lambda dy: (dy,)


def held(x):
    return np.sum(rounded(x) ** 2 * x) * tracker.ignore_derivatives(np.sum(x))


POINT = np.array([0.3, -1.2, 0.0, 2.1, 1.7])
PROGRAMS = {
    "writes": (writes, rng.normal(size=(3, 4))),
    "branches": (branches, POINT),
    "gaussian": (gaussian, rng.normal(size=(4, 4)), rng.normal(size=4)),
    "network": (
        network,
        {"a": rng.normal(size=(4, 3)), "b": rng.normal(size=3), "c": np.zeros(3)},
        rng.normal(size=(5, 4)),
        np.ones(5),
    ),
    "recurrent": (recurrent, np.eye(3) * 0.3, rng.normal(size=(6, 3))),
    "unrolled": (unrolled, np.eye(3) * 0.3, rng.normal(size=(6, 3))),
    "while": (doubling, 0.25),
    "cond": (chosen, POINT + 1.0),
    "scan backwards": (backwards, POINT),
    "fori_loop": (counted, POINT),
    "sorts": (sorted_and_ranked, POINT),
    "convolution": (image, rng.normal(size=(2, 3, 6, 6)), rng.normal(size=(4, 3, 3, 3))),
    "kinks": (kinks, POINT),
    "spectrum": (spectrum, POINT),
    "special": (special, POINT),
    "custom rules": (held, POINT),
    "rows": (lambda x: np.sum(np.array([[x[0], 1.0], [x[1] * 2, x[2]]]) ** 2), POINT),
    "jitted": (tracker.jit(lambda x: np.sum(np.exp(x))), POINT),
    "list of numbers": (lambda x: np.sum(np.asarray(x) ** 2), [1.0, 2.0]),
}


def assert_same(found, wanted):
    found, wanted = tracker.tree.leaves(found), tracker.tree.leaves(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
@np.errstate(invalid="ignore")
def test_values_and_gradients(name):
    f, *args = PROGRAMS[name]
    arrays = jax.tree.map(jnp.asarray, args, is_leaf=tracker.tree.is_number_list)
    g = tracker.to_jax(f, *args)
    argnums = tuple(range(len(args)))
    assert_same(g(*args), f(*args))
    found = jax.jit(jax.value_and_grad(g, argnums))(*arrays)
    assert_same(found, (f(*args), tracker.gradient(f, *args)))
    derivative = tracker.to_jax(lambda *xs: tracker.gradient(f, *xs), *args)
    assert_same(jax.jit(derivative)(*arrays), tracker.gradient(f, *args))


OF_ONE_ARRAY = [name for name, (_, *args) in PROGRAMS.items() if args[0] is POINT]


@pytest.mark.parametrize("name", OF_ONE_ARRAY)
@np.errstate(invalid="ignore")
def test_second_derivatives_and_forward_mode(name):
    f, x = PROGRAMS[name]
    g, forward = tracker.to_jax(f, x), tracker.to_jax(f, x, derivative="forward")
    assert_same(jax.hessian(g)(x), tracker.hessian(f, x))
    assert_same(jax.jacrev(jax.grad(g))(x), tracker.hessian(f, x))
    assert_same(jax.jacfwd(forward)(x), tracker.gradient(f, x)[0])
    assert_same(jax.jacfwd(jax.jacfwd(forward))(x), tracker.hessian(f, x))


@settings(max_examples=20)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**31))
def test_mapped_over_rows(rows, columns, seed):
    xs = np.random.default_rng(seed).normal(size=(rows, columns))
    f = lambda x: np.sum(np.sort(x)[::-1].cumsum() * x) * np.prod(x)  # noqa: E731
    g = jax.vmap(jax.grad(tracker.to_jax(f, xs[0])))
    assert_same(g(xs), np.array([tracker.gradient(f, x)[0] for x in xs]))


def test_complex_cotangents_are_jaxs():
    z, seed = np.array([1 + 2j, 0.5 - 1j]), jnp.array([1j, 2.0 + 0j])
    found = jax.vjp(tracker.to_jax(lambda z: z**2 * np.exp(z), z), z)[1](seed)
    assert_same(found, jax.vjp(lambda z: z**2 * jnp.exp(z), z)[1](seed))


def test_structures_go_in_and_come_out():
    def f(p, text, y):
        return {"a": p["a"] * p["b"][0] + y, "b": [y, np.argmax(p["a"])], "c": 1.0}

    args = {"a": np.ones(2), "b": (2.0, None)}, "text", np.float64(1.0)
    assert_same(jax.jit(tracker.to_jax(f, *args), static_argnums=1)(*args), f(*args))


def test_the_program_is_exported():
    g = tracker.to_jax(tracker.value_and_grad(branches), POINT)
    exported = jax.export.export(jax.jit(g))(jax.ShapeDtypeStruct(POINT.shape, POINT.dtype))
    assert_same(exported.call(POINT), tracker.value_and_grad(branches)(POINT))


def test_stablehlo():
    text = tracker.stablehlo(tracker.value_and_grad(writes), np.ones((3, 4)))
    assert "stablehlo.cosine" in text
    assert "tensor<3x4xf64>" in text
    assert "f64" not in tracker.stablehlo(writes, np.ones((3, 4)), dtype=np.float32)


# Conditions ---------------------------------------------------------------------------------------


def reads(x, i):
    return x[i] * 2.0


def stores(x, i, v):
    y = x * 1.0
    y[i] = v
    return y


def scanned(x, ks):
    return tracker.scan(lambda c, k: (c + x[k], None), 0.0, ks)[0]


def repeated(x, k):
    return tracker.while_loop(lambda c: c < 2.0, lambda c: c + x[k] ** 2, 0.0)


def masked(x):
    return x[x > 0] * 2.0


LONG = (lambda x: tracker.while_loop(lambda c: c[0] < 1e6, lambda c: c + x, np.zeros(2000))[1], 1e5)
BROKEN = {
    # name: the function, its examples, arguments for which its trace does not hold
    "branch": ((branches, POINT), (POINT + 200,)),
    "read after the end": ((reads, POINT, np.array([1, -2])), (POINT, np.array([1, 5]))),
    "read before the start": ((reads, POINT, np.array([1, -2])), (POINT, np.array([1, -6]))),
    "write after the end": (
        (stores, POINT, np.array([1, 2]), np.ones(2)), (POINT, np.array([1, 7]), np.ones(2)),
    ),
    "mask": ((masked, POINT), (-POINT,)),
    "singular": ((np.linalg.inv, np.eye(2)), (np.zeros((2, 2)),)),
    "not positive": ((np.linalg.cholesky, np.eye(2)), (-np.eye(2),)),
    "range of a loop": ((lambda x, n: sum(x * k for k in range(n)), POINT, 3), (POINT, 4)),
    "inside a scan": ((scanned, POINT, np.arange(3)), (POINT, np.array([0, 9, 1]))),
    "inside a while": ((repeated, POINT, 3), (POINT, -6)),
    "inside a cond": (
        (lambda x, k: tracker.cond(x[0] > 0, lambda x, k: x[k], lambda x, k: x[0], x, k), POINT, 1),
        (POINT, 5),
    ),
    "float as integer": ((lambda x: x.astype(int) * 1.0, POINT), (POINT * 1e30,)),
    "Python's integers": ((lambda n: n * n * 0.5, 3), (2**40,)),
    "Python's division": ((lambda x: 1.0 / x, 2.0), (0.0,)),
    "Python's power": ((lambda x: x**200.0, 2.0), (1e10,)),
    "loss": ((tracker.value_and_grad(np.sum), POINT), (np.full(5, np.inf),)),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_results_and_gradients_are_nan_where_a_trace_does_not_hold(name):
    (f, *examples), args = BROKEN[name]
    g = tracker.to_jax(f, *examples)
    assert_same(g(*examples), f(*examples))
    for run in (g, jax.jit(g)):
        assert all(np.isnan(y).all() for y in jax.tree.leaves(run(*args)))
    if not isinstance(args[0], int) and name != "loss":  # else there is nothing to differentiate
        g = tracker.to_jax(lambda *xs: np.sum(f(*xs)), *examples)
        assert np.isnan(jax.jit(jax.grad(g))(*args)).all()


def test_a_gradient_that_outgrows_a_while_loop_is_nan():
    f, x = LONG
    g = jax.jit(jax.value_and_grad(tracker.to_jax(f, x)))
    assert_same(g(x), tracker.value_and_grad(f)(x))
    assert np.isnan(g(x / 100)).all()


def test_one_row_of_many_is_nan():
    rows = np.array([[1.0, 2.0], [200.0, 1.0]])
    found = jax.vmap(jax.grad(tracker.to_jax(branches, rows[0])))(rows)
    assert np.isnan(found).any(axis=1).tolist() == [False, True]


def test_checkify_has_the_line():
    g = tracker.to_jax(reads, np.arange(3), np.array([0, 1]), checks="checkify")
    checked = jax.jit(checkify.checkify(g))
    error, found = checked(np.arange(3), np.array([-1, 2]))
    assert error.get() is None
    assert_same(found, np.array([4.0, 4.0]))
    error, _ = checked(np.arange(3), np.array([0, 3]))
    assert re.search(r"out of range of an axis of 3 \(at .*test_to_jax.py:\d+\)", error.get())
    with pytest.raises(Exception, match="does not hold"):
        g(np.arange(3), np.array([0, 3]))


def test_negative_positions_count_from_the_end():
    g = tracker.to_jax(reads, POINT, np.array([1, 2]))
    assert_same(g(POINT, np.array([-1, -5])), POINT[[-1, -5]] * 2)


def test_the_last_of_several_writes_stays():
    g = tracker.to_jax(stores, POINT, np.array([1, 2, 3]), np.ones(3))
    args = POINT, np.array([4, 4, 4]), np.arange(3.0)
    assert_same(g(*args), stores(*args))
    found = jax.vjp(g, *map(jnp.asarray, args))[1](jnp.ones(5))
    assert_same(found[2], np.array([0.0, 0.0, 1.0]))


# Refusals -----------------------------------------------------------------------------------------


class Counter:
    total = 0.0


def counts(x):
    Counter.total = Counter.total + x
    return x


def fills(x):
    x[0] = 1.0
    return x


def noise(x):
    return x + np.random.normal()


LINE = r".*\(at .*test_to_jax.py:\d+\)"
CALLED = np.arange(3)
REFUSED = {
    "integers": (lambda x, i: x[i], (CALLED, np.array([0])), {}, "returns integers or bools"),
    "an op": (lambda x: scipy.special.jv(1.5, x), (1.0,), {}, "no rule for jv of float" + LINE),
    "a draw": (noise, (1.0,), {}, "no rule for draw" + LINE),
    "argument": (fills, (POINT,), {}, "fills writes into its arguments. Return the new values"),
    "state": (counts, (POINT,), {}, "counts writes into what it captures"),
    "long double": (np.sin, (np.ones(2, np.longdouble),), {}, "JAX has no .*astype"),
    "checks": (np.sin, (POINT,), {"checks": "no"}, "checks='no'. Give one of"),
    "derivative": (np.sin, (POINT,), {"derivative": "both"}, "derivative='both'"),
    "dtype": (np.sin, (POINT,), {"dtype": np.float16}, "dtype=float16. Give np.float32"),
    "text": (lambda x: (x, "text"), (POINT,), {}, "returns a str. Return numbers"),
    "complex order": (np.argmax, (POINT * 1j,), {"checks": "checkify"}, "does not compare complex"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_jax_cannot_do_is_refused(name):
    f, args, options, match = REFUSED[name]
    with pytest.raises(UnsupportedError, match=match):
        tracker.to_jax(f, *args, **options)


def test_what_cannot_be_traced_is_refused():
    with pytest.raises(tracker.CompileError, match=r"reads_clock cannot be converted: .*time"):
        tracker.to_jax(reads_clock, POINT)


def reads_clock(x):
    import time

    return x + time.time()


@pytest.mark.parametrize("args, match", [
    ((np.ones(4),), r"float64\[4\]; the function was converted for float64\[5\]"),
    ((np.arange(5),), r"int64\[5\]; the function was converted for float64"),
    ((np.ones(5), 1.0), "1 arguments were converted; 2 were given"),
    (((1.0, 2.0),), "converted for float64"),
])  # fmt: skip
def test_other_arguments_than_the_examples_are_refused(args, match):
    with pytest.raises(UnsupportedError, match=match):
        tracker.to_jax(branches, POINT)(*args)


def test_another_structure_is_refused():
    g = tracker.to_jax(lambda p, mode: p["a"] * 2, {"a": 1.0}, "sum")
    with pytest.raises(UnsupportedError, match="another structure"):
        g({"b": 1.0}, "sum")
    with pytest.raises(UnsupportedError, match=r"an argument is 'mean'; .* for 'sum'"):
        g({"a": 1.0}, "mean")


def test_captured_arrays_are_constants_and_may_not_change_before_the_derivative():
    data = np.arange(3.0)
    g = tracker.to_jax(lambda x: np.sum(x * data), np.ones(3))
    data[0] = 5.0
    assert g(np.ones(3)) == 3.0
    with pytest.raises(UnsupportedError, match="has changed since it was converted"):
        jax.grad(g)(np.ones(3))


def test_forward_mode_of_a_function_converted_for_reverse_mode_is_jaxs_error():
    with pytest.raises(TypeError, match="custom_vjp"):
        jax.jvp(tracker.to_jax(branches, POINT), (POINT,), (POINT,))


# Narrow dtypes ------------------------------------------------------------------------------------


def test_without_64_bits_wide_dtypes_are_refused():
    with jax.enable_x64(False):
        with pytest.raises(UnsupportedError, match=r"float64 with 32 bits.*jax_enable_x64"):
            tracker.to_jax(branches, POINT)
        narrow = POINT.astype(np.float32)
        found = tracker.to_jax(lambda x: np.sum(np.sin(x) * 2.0), narrow)(narrow)
        assert found.dtype == np.float32


def test_the_setting_must_stay():
    g = tracker.to_jax(branches, POINT)
    with jax.enable_x64(False), pytest.raises(UnsupportedError, match="has changed since"):
        g(POINT)


@pytest.mark.parametrize("has_64_bits", [False, True])
def test_float32(has_64_bits):
    with jax.enable_x64(has_64_bits):
        w = rng.normal(size=(5, 5))
        g = tracker.to_jax(lambda x: np.sum(np.tanh(w @ x) ** 2), POINT, dtype=np.float32)
        found = jax.value_and_grad(g)(jnp.asarray(POINT, np.float32))
        assert {y.dtype for y in found} == {np.dtype(np.float32)}
        wanted = tracker.value_and_grad(lambda x: np.sum(np.tanh(w @ x) ** 2))(POINT)
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-5)


def test_integers_that_do_not_fit_32_bits():
    far = np.array([2**40])
    f = lambda i, x: x * (i * 1000)  # noqa: E731
    with jax.enable_x64(False):
        g = tracker.to_jax(f, np.array([2]), np.ones(1), dtype=np.float32)
        assert g(np.array([2]), np.ones(1)) == 2000.0
        assert np.isnan(g(np.array([2 * 10**9]), np.ones(1))).all()
        with pytest.raises(UnsupportedError, match="int64 do not fit int32"):
            g(far, np.ones(1))
        with pytest.raises(UnsupportedError, match="do not fit int32"):
            tracker.to_jax(
                lambda x, i: x * (i + far), np.ones(1), np.ones(1, int), dtype=np.float32
            )
        with pytest.raises(UnsupportedError, match="out of bounds for int32"):
            tracker.to_jax(lambda x, i: x * (i + 2**40), np.ones(1), far * 0, dtype=np.float32)
    g = tracker.to_jax(f, np.array([2]), np.ones(1), dtype=np.float32)
    assert g(far, np.ones(1)) == np.float32(2**40 * 1000)


def test_products_have_all_digits_unless_told_otherwise():
    precise = tracker.stablehlo(np.matmul, np.eye(3), np.eye(3))
    default = tracker.stablehlo(np.matmul, np.eye(3), np.eye(3), precision=None)
    assert "HIGHEST" in precise
    assert "HIGHEST" not in default


def test_the_tape_of_the_examples_is_not_kept():
    def arrays():
        gc.collect()
        return sum(type(x) is Value and np.shape(x.aval) == (77, 3) for x in gc.get_objects())

    g = tracker.to_jax(lambda x: np.sum(np.sin(x) * x), np.ones((77, 3)))
    assert arrays() == 0
    jax.grad(g)(np.ones((77, 3)))
    assert arrays() == 0


def test_a_rolled_loop_is_rolled_in_the_derivative_too():
    def f(x):
        states = np.empty(1500)
        states[0] = x
        for t in range(1, 1500):
            states[t] = 0.5 * np.sin(states[t - 1]) + x
        return np.sum(states**2)

    g = tracker.to_jax(f, 0.3)
    assert str(jax.make_jaxpr(jax.grad(g))(0.3)).count("scan[") == 2
    np.testing.assert_allclose(jax.grad(g)(0.3), tracker.gradient(f, 0.3)[0], rtol=1e-12)


def test_repetition_becomes_a_loop():
    """XLA would need minutes for some thousand equations."""
    x = rng.normal(size=200)
    w = rng.normal(size=(200, 200)) / 15

    def f(x):
        for k in range(120):
            x = x + 0.1 * np.tanh(w @ x) * np.cos(0.1 * k)
        return {"end": x, "energy": np.sum(x**2)}, np.sum(x**2)

    g = tracker.to_jax(f, x)
    energy = lambda x: g(x)[1]  # noqa: E731
    text = str(jax.make_jaxpr(jax.grad(energy))(x))
    assert text.count("scan[") == 2 and text.count("tanh") < 5
    found, wanted = g(x), f(x)
    np.testing.assert_allclose(found[0]["end"], wanted[0]["end"], rtol=1e-12)
    assert found[0]["energy"] == found[1] == pytest.approx(wanted[1], rel=1e-12)
    wanted = tracker.gradient(lambda x: f(x)[1], x)[0]
    np.testing.assert_allclose(jax.grad(energy)(x), wanted, rtol=1e-12)
