"""Structured control flow: the plain loop's results, eagerly and traced, and all derivatives."""

import gc
import importlib
from functools import partial

import numpy as np
import pytest
from tables import functions_of

import tracker
from tracker import cond, fori_loop, gradcheck, gradient, hessian, jit, jvp, scan, trace, while_loop
from tracker.control import step_runner
from tracker.support.recently_used import RecentlyUsed

RNG = np.random.default_rng(0)
W, XS, H0 = 0.3 * RNG.normal(size=(4, 4)), RNG.normal(size=(7, 4)), RNG.normal(size=4)


def rnn(w, xs, h0, reverse=False):
    def step(h, x):
        h = np.tanh(w @ h + x)
        return h, {"norm": np.sum(h**2), "h": h}

    last, ys = scan(step, h0, xs, reverse=reverse)
    return np.sum(last) + np.sum(np.arange(len(xs)) * ys["norm"]) + np.sum(ys["h"][2])


def rnn_plain(w, xs, h0):
    h, total = h0, 0.0
    for i in range(len(xs)):
        h = np.tanh(w @ h + xs[i])
        total = total + i * np.sum(h**2)
        if i == 2:
            total = total + np.sum(h)
    return total + np.sum(h)


def newton(a, x):
    return while_loop(lambda s: np.abs(s * s - a) > 1e-10, lambda s: 0.5 * (s + a / s), x)


def cumulative(x):
    return fori_loop(0, len(x), lambda i, t: t * 0.5 + x[i] ** 2 * i, 0.0)


def split(x):
    return cond(np.sum(x) > 0, lambda x: np.sum(np.sin(x)), lambda x: np.sum(x**3), x)


def indexed(x):
    def body(i, out):
        out = np.copy(out)
        out[i] = x[i] * out[i - 1]
        return out

    return np.sum(fori_loop(1, len(x), body, np.ones_like(x)))


def in_loops(a):
    def outer(c, x):
        inner = fori_loop(0, 5, lambda i, v: v * a + x, c)
        return while_loop(lambda v: np.abs(v) > 1.0, lambda v: v * 0.5, inner), inner

    last, ys = scan(outer, 1.0, np.arange(1.0, 7.0))
    return last + np.sum(ys)


def ops_of(f, *args):
    return [eqn.op.name for eqn in trace(f, *args).eqns]


PROGRAMS = {
    "scan": (rnn, (W, XS, H0), "loop"),
    "scan, reversed": (lambda *a: rnn(*a, reverse=True), (W, XS, H0), "loop"),
    "while": (newton, (2.0, 1.0), "while"),
    "fori": (cumulative, (np.linspace(-1, 1, 6),), "loop"),
    "fori, by an index": (indexed, (np.linspace(0.5, 1.5, 6),), "loop"),
    "loops in loops": (in_loops, (0.9,), "loop"),
    "cond, true": (split, (np.array([1.0, 2.0]),), "branch"),
    "cond of two types": (lambda x: cond(x < 2, lambda x: 3.0 * x, np.sin, x), (1.7,), "branch"),
    "cond, false": (split, (np.array([-1.0, -2.0]),), "branch"),
}


@pytest.mark.parametrize("f, args, op", PROGRAMS.values(), ids=PROGRAMS)
def test_compiled_is_plain_to_second_order(f, args, op):
    assert op in ops_of(f, *args)
    fast = jit(f)
    np.testing.assert_allclose(fast(*args), f(*args), rtol=1e-13)
    assert gradcheck(f, *args)
    for ours, plain in zip(gradient(fast, *args), gradient(f, *args), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-9, atol=1e-12)
    tangents = tuple(np.cos(np.arange(np.size(x))).reshape(np.shape(x))[()] for x in args)
    np.testing.assert_allclose(jvp(fast, args, tangents)[1], jvp(f, args, tangents)[1], rtol=1e-9)
    first = (lambda x: f(x, *args[1:]), jit(lambda x: f(x, *args[1:])))
    np.testing.assert_allclose(
        hessian(first[1], args[0]), hessian(first[0], args[0]), rtol=1e-7, atol=1e-10
    )


@pytest.mark.parametrize("steps", [2, 6])
@pytest.mark.parametrize("init, dtype", [(0.0, "f4"), (0, "f4"), (0, "f8"), (0, "i1"), (1j, "c8")])
def test_python_numbers_take_the_dtype_of_the_rows(steps, init, dtype):
    def running(xs):
        return scan(lambda total, x: (total + x, (total, 1.5, x)), init, xs)

    xs = np.arange(steps).astype(dtype)
    total, (before, same, rows) = running(xs)
    assert before.dtype == total.dtype == rows.dtype == dtype
    assert same.dtype == np.float64
    compiled = jit(running)
    for _ in range(2):
        again, stacks = compiled(xs)
        assert again.dtype == dtype
        for got, want in zip(stacks, (before, same, rows), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


def test_scan_equals_a_python_loop():
    for ours, plain in zip(gradient(rnn, W, XS, H0), gradient(rnn_plain, W, XS, H0), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-12)


def last(step, init, xs):
    return scan(step, init, xs)[0]


N = [1, 2, 3, 4, 5]
INTEGERS = {  # name: a function of a float and of integers, these
    "rows": (lambda w, n: scan(lambda c, t: (c * t * w, c), 0.1, n)[0], N),
    "what is reached": (lambda w, n: fori_loop(0, 5, lambda i, v: v * w + n[i] * n[-1], 0.1), N),
    "and something else": (lambda w, n: 2.0 * n + fori_loop(0, 6, lambda i, v: v * n * w, 0.1), 3),
    "first carry": (lambda w, n: scan(lambda c, t: (c * t, None), n, np.arange(1, 7))[0] * w, 3),
    "integers of integers": (
        lambda w, n: last(lambda c, t: ((c[1], t * c[0], c[2] + w * c[1]), None), (1, 2, 0.0), n)[
            2
        ],
        N,
    ),
    "what the steps give": (lambda w, n: np.sum(scan(lambda c, t: (c + t, c * t), 0, n)[1] * w), N),
    "while": (lambda w, n: while_loop(lambda v: v < 90.0, lambda v: v * n + w, 1.5), 3),
    "branch": (lambda w, n: cond(w > 0, lambda v: v * v * w, lambda v: v * 0.1, n), 3),
    "loop in a loop": (
        lambda w, n: last(lambda c, t: (fori_loop(0, 4, lambda i, v: v * t * w, c), None), 0.1, n),
        N,
    ),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_differentiated(name):
    f, n = INTEGERS[name]
    n = np.array(n) if isinstance(n, list) else n
    floats = np.asarray(n, float) if np.ndim(n) else float(n)
    want = gradient(f, 1.1, floats)
    for run in (
        lambda: gradient(f, 1.1, n),
        partial(jit(lambda w, n: gradient(f, w, n)), 1.1, n),
        lambda: gradient(jit(f), 1.1, n),
    ):
        for got, slope in zip(run(), want, strict=True):
            np.testing.assert_allclose(got, slope, rtol=1e-12)
    second = hessian(lambda n: f(1.1, n), floats)
    np.testing.assert_allclose(
        jit(lambda n: hessian(lambda n: f(1.1, n), n))(n), second, rtol=1e-12
    )
    _, along = jvp(lambda n: f(1.1, n), (floats,), (np.ones_like(floats),))
    _, got = jit(lambda n: jvp(lambda n: f(1.1, n), (n,), (np.ones_like(floats),)))(n)
    np.testing.assert_allclose(got, along, rtol=1e-12)


def test_integers_that_index_have_no_gradient():
    def f(w, labels, n):
        last, _ = scan(lambda c, t: (c * w[t], None), 1.0, labels)
        return while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * last), (0, 1.0))[1]

    args = np.array([0.5, 1.5, 2.0]), np.array([0, 2, 2, 1, 0, 1]), 4
    want = gradient(f, *args)[0]
    for g in (jit(lambda *args: gradient(f, *args)), lambda *args: gradient(jit(f), *args)):
        got, *rest = g(*args)
        np.testing.assert_allclose(got, want, rtol=1e-12)
        assert rest == [None, None]


class Writes:
    """Bodies that write into what they are given."""

    def into_the_argument(x):
        def body(i, v):
            v[i] = v[i - 1] * 0.5
            return v

        return fori_loop(1, len(x), body, x)

    def into_a_view(x):
        def body(i, v):
            v[0] = v[0] * 0.5 + i
            return v

        return fori_loop(1, len(x), body, x[1:]), x

    def into_a_buffer(x):
        total = np.zeros_like(x)

        def body(i, v):
            v[i % 3] += x[i]
            return v

        fori_loop(0, len(x), body, total)
        return total

    def into_what_it_reads(x):
        row = x[:2]

        def body(i, v):
            v[i % 2] = row.sum() * 0.3 + x[i]
            return v

        return fori_loop(1, len(x), body, x), row

    def into_what_it_stacks(x):
        def step(c, t):
            c[:] = c * 0.5 + t
            return c, c[1:]

        return scan(step, x[:3] * 1.0, x)

    def into_rows(x):
        def step(c, t):
            t[0] = c
            return c + t[1], None

        rows = x.reshape(-1, 1) * np.ones(2)
        last, _ = scan(step, 0.1, rows)
        return last, rows

    def into_one_of_two(x):
        def body(i, s):
            a, b = s
            a[i] += 1.0
            return b, a

        return fori_loop(0, len(x), body, (x, x * 2.0))

    def into_an_operand(x):
        def yes(v):
            v[0] = 3.0
            return v * 2.0

        return cond(x[1] > 0.0, yes, lambda v: v, x)

    def into_a_dict(x):
        def body(state):
            state["a"][state["i"]] *= 2.0
            return {"i": state["i"] + 1, "a": state["a"]}

        return while_loop(lambda state: state["i"] < len(x), body, {"i": 0, "a": x})["a"]


@functions_of(Writes)
def test_bodies_that_write_into_what_they_are_given(f):
    compiled = jit(f)
    for n in (7, 7, 9):
        x = np.linspace(0.4, 1.3, n)
        mine = x.copy()
        want, got = f(x), compiled(mine)
        np.testing.assert_array_equal(mine, x)
        for a, b in zip(tracker.tree.leaves(got), tracker.tree.leaves(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-14)

    def loss(x):
        leaves = tracker.tree.leaves(f(x * 1.0))
        return sum(
            np.sum(leaf * np.arange(1.0, np.size(leaf) + 1).reshape(np.shape(leaf)))
            for leaf in leaves
        )

    assert gradcheck(loss, x)
    np.testing.assert_allclose(
        jit(lambda x: gradient(loss, x))(x)[0], gradient(loss, x)[0], rtol=1e-12
    )


def test_structures_of_carries_and_outputs():
    def step(carry, x):
        a, b = carry
        return (a + x["u"], b * x["v"]), (a, None)

    xs = {"u": np.arange(5.0), "v": np.full((5, 2), 2.0)}
    for run in (
        lambda xs: scan(step, (0, np.ones(2)), xs),
        jit(lambda xs: scan(step, (0, np.ones(2)), xs)),
    ):
        (a, b), (ys, nothing) = run(xs)
        assert a == 10 and nothing is None
        np.testing.assert_array_equal(b, [32.0, 32.0])
        np.testing.assert_array_equal(ys, [0, 0, 1, 3, 6])


def test_no_steps():
    carry, ys = scan(lambda c, x: (c + x, c * np.ones(3)), 1.0, np.zeros(0))
    assert carry == 1.0 and ys.shape == (0, 3)
    assert fori_loop(3, 3, lambda i, v: v + i, 7) == 7


def test_a_carry_may_change_its_type():
    def f(x):
        return scan(lambda c, v: (c + v, c), 0, x)[0]

    x = np.arange(6.0, dtype=np.float32)
    assert "loop" in ops_of(f, x)
    assert jit(f)(x).dtype == f(x).dtype == np.float32
    assert gradient(jit(f), x)[0].dtype == np.float32


def test_traced_bounds_are_not_guards():
    f = jit(lambda n, x: fori_loop(0, n, lambda i, v: v * x, 1.0))
    for n in (3, 0, 10):
        assert f(n, 2.0) == 2.0**n
        assert gradient(f, n, 2.0)[1] == n * 2.0 ** max(n - 1, 0) * (n > 0)
    assert f.cache_info().traces == 2  # one of them of the gradient


def test_a_branch_not_taken_contributes_nothing():
    def f(x):
        return scan(lambda c, v: (c + cond(v > 0, np.log, lambda v: v * 0.0, v), None), 0.0, x)[0]

    x = np.array([1.0, -1.0, 0.0, 2.0, 3.0])
    np.testing.assert_allclose(gradient(jit(f), x)[0], [1.0, 0.0, 0.0, 0.5, 1 / 3])
    np.testing.assert_allclose(gradient(f, x)[0], [1.0, 0.0, 0.0, 0.5, 1 / 3])


@pytest.mark.parametrize("i", [-3, 0, 1, 2, 9])
def test_switch(i):
    f = lambda i, x: tracker.switch(i, [np.sin, np.exp, lambda x: x**3], x)  # noqa: E731
    assert jit(f)(i, 0.7) == pytest.approx(f(i, 0.7), rel=1e-15)
    assert gradient(jit(f), i, 0.7)[1] == pytest.approx(gradient(f, i, 0.7)[1], rel=1e-12)
    assert "branch" in ops_of(f, i, 0.7)


def test_untraceable_bodies_run_as_plain_loops():
    def branching(x):
        return scan(lambda c, v: (c + (v if v > 0 else 2 * v), None), 0.0, x)[0]

    def growing(x):
        return np.sum(fori_loop(0, 5, lambda i, v: np.concatenate([v, 0.1 * v[:1]]), x))

    def writing(x):
        out = np.zeros_like(x)

        def body(c, i):
            out[int(i)] = c
            return c + x[int(i)], None

        last, _ = scan(body, 0.0, np.arange(len(x)))
        return last + np.sum(out)

    x = np.array([1.0, -2.0, 3.0, -4.0, 5.0])
    for f in (branching, growing, writing):
        assert "loop" not in ops_of(f, x)
        np.testing.assert_allclose(jit(f)(x), f(x))
        np.testing.assert_allclose(gradient(jit(f), x)[0], gradient(f, x)[0])


def test_values_that_escape_by_a_list_make_a_plain_loop():
    def f(x):
        seen = []
        scan(lambda c, v: (c, seen.append(v * x)), x, np.arange(6.0))
        return seen[-1] * sum(seen)

    g = jit(f)
    assert [g(x) for x in (2.0, 3.0, 5.0)] == [f(x) for x in (2.0, 3.0, 5.0)]


def test_values_that_escape_by_a_generator_are_refused():
    def first():
        found = yield
        while True:
            yield found

    def f(x):
        seen = first()
        next(seen)

        def body(c, v):
            seen.send(v * 2.0)
            return c, None

        scan(body, x, np.arange(6.0))
        return next(seen) * x

    assert f(2.0) == 0.0
    with pytest.raises(tracker.UnsupportedError, match="used outside of it"):
        trace(f, 2.0)


@pytest.mark.parametrize("call, text", [
    (lambda: scan(lambda c, x: (c, x), 0.0), "neither xs nor length"),
    (lambda: scan(lambda c, x: (c, x), 0.0, (np.ones(2), np.ones(3))), r"arrays of \[2, 3\] rows"),
    (lambda: scan(lambda c, x: (c, x), 0.0, 3.0), "rows of arrays"),
    (lambda: cond(np.ones(2) > 0, np.sin, np.cos, 0.0), r"shape \(2,\)"),
    (lambda: cond((True, False), np.sin, np.cos, 0.0), "gave a tuple"),
    (lambda: while_loop(lambda s: (s < 3.0,), lambda s: s + 1, 0.0), "gave a tuple"),
    (lambda: trace(lambda x: while_loop(lambda s: [s < 3], abs, x), 0.0), "gave a list"),
    (lambda: tracker.switch(0, [], 0.0), "no branches"),
])  # fmt: skip
def test_errors(call, text):
    with pytest.raises(tracker.UnsupportedError, match=text):
        call()


def test_trace_size_does_not_depend_on_the_steps():
    def f(x):
        return scan(lambda c, v: (np.sin(c) + v, c), 0.0, x)[0]

    sizes = {n: len(list(trace(f, np.ones(n)).eqns)) for n in (10, 1000)}
    assert sizes[10] == sizes[1000]
    assert tracker.gradient(jit(f), np.ones(1000))[0].shape == (1000,)


def test_explain_looks_into_bodies():
    def f(w, x):
        return np.sum(scan(lambda h, v: (np.tanh(w @ h + v), None), np.zeros(40), x)[0])

    fast = jit(lambda w, x: gradient(f, w, x)[0])
    text = fast.explain(np.eye(40), np.ones((9, 40)))
    assert "loop of 9 steps, keeps 2,880 bytes for the pullback" in text
    assert "loop of 9 steps, backwards" in text
    assert "      body: 0 unrolled equation(s), 1 kernel(s), 1 product(s)" in text
    assert "while, native" in jit(newton).explain(2.0, 1.0)


@pytest.mark.parametrize("loop", [
    lambda w: while_loop(
        lambda s: s[0] < 3.0, lambda s: (s[0] + w, s[1] * w), (0.0, np.ones(2))
    )[1],
    lambda w: fori_loop(0, 6, lambda i, s: s * w + i, np.ones(2)),
    lambda w: scan(lambda s, x: (s * w + x, s), np.ones(2), np.arange(12.0).reshape(6, 2))[1],
])  # fmt: skip
def test_a_pushforward_from_plain_carries_stays_a_loop(loop):
    def slope(w):
        return jvp(loop, (w,), (1.0,))[1]

    assert "multiply" not in ops_of(slope, 0.7)
    np.testing.assert_allclose(jit(slope)(0.7), slope(0.7))
    np.testing.assert_allclose(jvp(jit(slope), (0.7,), (1.0,))[1], jvp(slope, (0.7,), (1.0,))[1])


def nested_loops(x):
    def outer(total, row):
        last = fori_loop(0, 9, lambda i, t: np.sin(t) * row + 0.1 * i, total)
        return np.sin(last), last

    return np.sum(scan(outer, 0.3, x)[1])


@pytest.fixture
def impatient(monkeypatch):
    """Loops are compiled by themselves after a few steps: those that are."""
    compiled, compile_loop = [], step_runner._compile

    def noted(function):
        compiled.append(function)
        return compile_loop(function)

    monkeypatch.setattr(step_runner, "_compile", noted)
    monkeypatch.setattr(step_runner, "_SHARED_AFTER", 10)
    monkeypatch.setattr(step_runner, "_compile_cost", lambda body: 50)
    monkeypatch.setattr(step_runner, "_compiled", RecentlyUsed(9))
    return compiled


def test_long_loops_run_natively_while_they_are_traced(impatient):
    x = np.linspace(0.5, 1.5, 12)
    fast = jit(lambda x: gradient(nested_loops, x)[0])
    first = fast(x)
    assert len(impatient) >= 2
    np.testing.assert_allclose(first, gradient(nested_loops, x)[0], rtol=1e-12)
    np.testing.assert_allclose(fast(x), first, rtol=1e-14)


def test_guards_of_native_steps(impatient):
    def f(x):
        return fori_loop(0, 90, lambda i, t: t + x if t < 80.0 else t - x, 0.0)

    assert jit(f)(1.0) == f(1.0) == 80.0
    assert impatient


@pytest.mark.usefixtures("impatient")
def test_exceptions_of_native_steps():
    def f(x):
        return fori_loop(0, 90, lambda i, a: np.linalg.inv(a) * (1.0 if i < 80 else 0.0), x)

    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        jit(f)(np.eye(2))


def test_equal_loops_share_their_code(impatient):
    x = np.linspace(0.5, 1.5, 12)
    first = trace(nested_loops, x)
    compiled = len(impatient)
    second = trace(nested_loops, x)
    assert first.functions.keys().isdisjoint(second.functions)
    assert compiled and len(impatient) == compiled


def test_the_code_of_a_loop_dies_with_its_traces(impatient):
    gc.collect()
    before = len(step_runner._loops)
    for k in range(20):  # nine are kept for equal loops
        trace(lambda x, k=k: fori_loop(0, 300, lambda i, c: c * 0.9 + k * np.sin(c), x), 0.5)
    assert len(impatient) == 20
    impatient.clear()
    gc.collect()
    assert len(step_runner._loops) <= before


def decay(x, n=200.0):
    """How often numbers shrink, and what is left of them: the numbers of each step are saved."""

    def step(state):
        x, steps = state
        return x * 0.9 + 0.01 * np.sin(x), steps + 1.0

    return while_loop(lambda state: (state[0].max() > 0.1) & (state[1] < n), step, (x, 0.0))


@pytest.mark.parametrize("n", [1.0, 3.0, 4.0, 20.0, 200.0])
def test_a_while_loop_that_ends_natively_gives_what_its_steps_would(impatient, n):
    x = np.linspace(0.5, 1.5, 4)

    def f(x):
        y, steps = decay(x, n)
        return np.sum(y) * steps

    want = gradient(f, x)[0]
    for fast in (jit(lambda x: gradient(f, x)[0]), jit(f)):
        for at in (x, x):
            found = fast(at)
        np.testing.assert_allclose(found, want if np.ndim(found) else f(x), rtol=1e-13)
    ran_natively = any(eqn.op.name == "while" for loop in impatient for eqn in loop.eqns)
    assert ran_natively == (n > 9.0)


def test_a_loop_is_optimised_once_it_has_run_many_steps(impatient, monkeypatch):
    executor = importlib.import_module("tracker.jit.pipeline.executor")
    levels, bind_frame = [], executor.bind_frame

    def noted(*given):
        levels.append(given[-1])
        return bind_frame(*given)

    monkeypatch.setattr(executor, "bind_frame", noted)
    monkeypatch.setattr(executor, "_MAX_QUICK_OPERATIONS", 3000)
    x = np.linspace(0.5, 1.5, 4)
    for _ in range(12):
        trace(lambda x: decay(x, 40.0), x)
    assert levels == [executor.QUICK, executor.OPTIMISED]
    assert len(impatient) == 1


def test_a_while_loop_takes_more_steps_natively_than_were_foreseen(impatient, monkeypatch):
    while_module = importlib.import_module("tracker.control.while_loop")
    monkeypatch.setattr(while_module, "_INITIAL_STACK_STEPS", 1)
    x = np.linspace(0.5, 1.5, 4)
    f = jit(lambda x: gradient(lambda x: np.sum(decay(x)[0]), x)[0])
    np.testing.assert_allclose(f(x), gradient(lambda x: np.sum(decay(x)[0]), x)[0], rtol=1e-13)


def test_more_than_a_hundred_loops_in_one_function():
    """Each is a loop of the compiled code, of its own: constants differ from one to the next."""

    def f(x):
        for k in range(110):
            x = fori_loop(0, 6, partial(lambda k, i, c: 1.1 / (1.0 + c * c) + 0.01 * k, k), x)
        return x

    fast = jit(f)
    assert [fast(x) for x in (0.3, 0.3, 0.7)] == pytest.approx([f(x) for x in (0.3, 0.3, 0.7)])


MIXED = {
    "integer or float": lambda x: cond(x > 0, lambda x: 1, lambda x: 2.5, x),
    "single or double": lambda x: cond(x > 0, lambda x: x * 2, lambda x: np.float64(0.1), x),
    "single or Python's": lambda x: cond(x > 0, lambda x: x * 2, lambda x: 0.1, x),
    "number or array": lambda x: cond(x > 0, lambda x: x * 2, lambda x: np.zeros((), x.dtype), x),
    "one of three": lambda x: tracker.switch(
        np.astype(x, int), [lambda x: x, lambda x: np.astype(x, float) / 3, lambda x: 2], x
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_branches_of_different_types(name):
    f, fast = MIXED[name], jit(MIXED[name])
    for value in (1.0, -1.0, 2.0, 0.0, 1.0, -2.0):
        x = np.float32(value)
        for _ in range(2):
            want, got = f(x), fast(x)
            assert (type(got), np.result_type(got)) == (type(want), np.result_type(want))
            assert got == want


UNTAKEN = {
    "a branch": lambda x: cond(x[0] > 0, np.sqrt, lambda x: x * 2, x),
    "a branch of a branch": lambda x: cond(
        x[0] < 0, lambda x: cond(x[0] > 0, np.log, lambda x: x * 3, x), np.sqrt, x
    ),
    "a branch in a loop": lambda x: scan(
        lambda c, u: (c, cond(u > 0, np.sqrt, lambda u: u * 2, u)), 0.0, x
    )[1],
    "a loop's body": lambda x: while_loop(lambda x: x[0] > 0, np.sqrt, x),
    "a counted loop's body": lambda x: fori_loop(0, np.sum(x > 0), lambda i, x: np.log(x), x),
}


@pytest.mark.parametrize("name", UNTAKEN)
def test_untaken_code_does_not_warn(name):
    def loss(x):
        return np.sum(UNTAKEN[name](x) ** 2)

    value, slope = jit(loss), jit(lambda x: gradient(loss, x)[0])
    curvature = jit(lambda x: hessian(loss, x))
    for x in (np.array([-1.0, -2.0, -3.0]), np.array([-1.5, -2.5, -0.5])):
        assert value(x) == pytest.approx(loss(x))
        assert slope(x) == pytest.approx(gradient(loss, x)[0])
        assert curvature(x) == pytest.approx(hessian(loss, x))


def test_untaken_code_does_not_raise():
    def body(x):
        if x < 0:
            raise ValueError("there is no root")
        return np.sqrt(x)

    def f(x):
        return while_loop(lambda x: x < -100.0, body, x)

    for g in (jit(f), lambda x: gradient(jit(f), x)[0] * x):
        assert [g(x) for x in (-1.0, -2.0, -3.0)] == [-1.0, -2.0, -3.0]
        with pytest.raises(ValueError, match="there is no root"):
            g(-101.0)


def test_a_body_that_ignores_derivatives_stays_a_loop():
    def f(a):
        def step(state):
            t, x = state
            return t + tracker.ignore_derivatives(x), x * a

        return while_loop(lambda s: s[0] < 5.0, step, (a, a))

    def total(a):
        return sum(f(a))

    assert "while" in str(trace(f, 1.1))
    steps = 4  # 1.1 + 1.1 + 1.21 + 1.331 < 5
    for fast in (total, jit(total)):
        assert gradient(fast, 1.1)[0] == pytest.approx(1.0 + (steps + 1) * 1.1**steps)
        assert jvp(fast, (1.1,), (1.0,))[1] == pytest.approx(1.0 + (steps + 1) * 1.1**steps)
