"""Compiled functions draw the numbers of a plain call, in its order, on every call."""

import copy
import random
import warnings

import fresh_python
import numpy
import pytest
from tables import functions_of

import tracker
import tracker.numpy as np
from tracker import ConversionError, UnsupportedError, gradient, jit, pullback, value_and_grad

X = numpy.array([0.5, 2.0, 1.5])
LEGACY = numpy.random.RandomState(3).get_state()
STATE = numpy.random.default_rng(5).bit_generator.state


def streams(f, x, seed=3, calls=4, **kwargs):
    """The results of some calls that share a generator, and what it gives next."""
    rng = numpy.random.default_rng(seed)
    found = [f(x, rng, **kwargs) for _ in range(calls)]
    return found, rng.random()


def same(f, x=X, g=None, calls=4):
    """The jitted function draws what the plain one draws."""
    fast = jit(f)
    made, after = streams(fast if g is None else g(fast), x, calls=calls)
    want, after_plain = streams(f if g is None else g(f), x, calls=calls)
    for a, b in zip(made, want, strict=True):
        for part, plain in zip(tracker.tree.leaves(a), tracker.tree.leaves(b), strict=True):
            numpy.testing.assert_allclose(part, plain, rtol=1e-13)
    assert after == after_plain
    return fast.cache_info()


class Numbers:
    """Programs that return a number."""

    def normals(x, rng):
        a = rng.normal(size=3)
        return numpy.sum(a * x) + rng.uniform(1.0, 2.0)

    def branches(x, rng):
        """A guard on a draw: the other branch draws the same numbers again."""
        total = 0.0 * x[0]
        for _ in range(3):
            total = total + (rng.normal() * x[1] if rng.random() < 0.5 else x[2])
        return total

    def picks(x, rng):
        """A guard on nothing but a draw."""
        kind = ("sum", "product", "first")[rng.integers(3)]
        if rng.integers(2):
            x = x * 2.0
        return {"sum": x.sum(), "product": x.prod(), "first": x[0]}[kind]

    def orders(x, rng):
        i = rng.permutation(3)
        return x[i][0] * x[2] + numpy.sum(rng.permutation(x) * x) + rng.choice(x) * 3.0

    def many(x, rng):
        y = rng.choice(x, size=(2, 2), p=[0.2, 0.3, 0.5]) ** 2
        z = rng.integers(0, 5, size=3) * x + rng.poisson(3.0, 3) + rng.gamma(2.0, size=3)
        m = rng.multivariate_normal(numpy.zeros(2), numpy.eye(2))
        return numpy.sum(y) + numpy.sum(z) + numpy.sum(m * x[:2])

    def shuffled(x, rng):
        y = x * 2.0
        rng.shuffle(y)
        z = rng.permuted(y * x) + rng.permutation(3)
        m = numpy.outer(x, y)
        rng.shuffle(m, axis=1)
        return y[0] + z[1] * 3 + m[0, 1] + numpy.sum(rng.permutation(m, axis=1)[1] ** 2)


class Vectors:
    def unused(x, rng):
        rng.random(5)  # not used, but the stream advances
        y = x * rng.standard_normal(3)
        rng.exponential()
        return y

    def twice_the_same(x, rng):
        return x * rng.random() - x * rng.random()  # equal equations, other numbers


@functions_of(Numbers, Vectors)
def test_compiled_draws(f):
    info = same(f)
    assert info.eager == 0 and info.traces >= 1


@functions_of(Numbers)
def test_compiled_gradients_draw(f):
    same(f, g=value_and_grad)
    same(f, g=lambda f: lambda x, rng: tracker.jvp(f, (x, rng), (X, None)))
    same(
        f,
        g=lambda f: lambda x, rng: gradient(lambda x, rng: gradient(f, x, rng)[0] @ X, x, rng)[:1],
    )


def test_pullback_of_a_jitted_function_draws_once():
    def f(x, rng):
        return x * rng.normal(size=3)

    def both(f):
        def call(x, rng):
            y, back = pullback(f, x, rng)
            return y, back(numpy.ones(3))[0], tracker.jacobian(f, x, rng)[0]

        return call

    rng = numpy.random.default_rng(0)
    y, slope, _ = both(jit(f))(X, rng)
    numpy.testing.assert_array_equal(y, X * slope)
    same(f, g=both)


def test_captured_generators():
    class Model:
        def __init__(self, rng):
            self.rng = rng

        def noise(self, x):
            return x + self.rng.normal(size=3)

    def program():
        rng = numpy.random.default_rng(1)
        held = {"rng": numpy.random.default_rng(2), "state": numpy.random.RandomState(3)}
        model = Model(numpy.random.default_rng(4))

        def f(x):
            return model.noise(x) * rng.random() + held["rng"].normal() + held["state"].randn(3)

        return f, model, rng

    plain, *_ = program()
    inner, model, rng = program()
    fast = jit(inner)
    for _ in range(4):
        numpy.testing.assert_allclose(fast(X), plain(X), rtol=1e-14)
    assert fast.cache_info().traces == 1 and fast.cache_info().eager == 0
    assert type(model.rng) is numpy.random.Generator and type(rng) is numpy.random.Generator
    model.rng = numpy.random.default_rng(4)  # another generator is noticed
    first = fast(X)
    model.rng = numpy.random.default_rng(5)
    assert numpy.any(fast(X) != first)


@pytest.mark.parametrize("random", [numpy.random, np.random])
def test_global_functions(random):
    def f(x):
        a = random.randn(3) * x + random.rand(3) + random.normal(1.0, 2.0, 3)
        random.shuffle(x)
        return a + x * random.uniform() + random.randint(0, 9) + random.choice(x)

    def run(g):
        numpy.random.seed(7)
        return [g(X.copy()) for _ in range(4)], numpy.random.random()

    fast = jit(f)
    numpy.testing.assert_allclose(numpy.hstack(run(fast)[0]), numpy.hstack(run(f)[0]), rtol=1e-14)
    assert run(fast)[1] == run(f)[1] and fast.cache_info().eager == 0
    assert numpy.random.randn.__self__ is numpy.random.mtrand._rand


LATE = {  # a program, and how many different numbers four calls give
    "global": ("lambda x: x * np.random.rand()", 4),
    "imported inside": ("inside", 4),
    "derivative": ("lambda x: tracker.gradient(lambda y: y * np.random.rand(), x)[0]", 4),
    "library": ("lambda x: x * library.h()", 4),
    "seeded": ("lambda x: x * np.random.default_rng(3).normal()", 1),
}


@pytest.mark.parametrize("name", LATE)
def test_generators_imported_late(name):
    program, distinct = LATE[name]
    code = f"""
import sys, types, warnings
import numpy as np, tracker
assert "numpy.random" not in sys.modules

def inside(x):
    from numpy.random import rand
    return x * rand()

library = types.ModuleType("library")
installed = np.__file__.replace("numpy", "library")
text = "import numpy\\ndef h(): return numpy.random.rand()"
exec(compile(text, installed, "exec"), vars(library))
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    fast = tracker.jit({program})
    assert len({{float(fast(1.0)) for _ in range(4)}}) == {distinct}
assert not heard and fast.cache_info().traces == 1 and fast.cache_info().eager == 0
"""
    fresh_python.run(code)


ITEMS = {
    "a range": range(8), "numbers": [5, 2, 0], "bytes": numpy.arange(8, dtype=numpy.uint8),
    "truths": [True, False], "complex": [1j, 2.0], "rows": [[1, 2], [3, 4]],
}  # fmt: skip


@pytest.mark.parametrize("method", ["choice", "permutation"])
@pytest.mark.parametrize("items", ITEMS)
def test_draws_from_plain_items_are_recorded(items, method):
    def f(x, rng):
        drawn = getattr(rng, method)(ITEMS[items])
        return drawn, x * numpy.sum(drawn)

    fast = jit(f)
    plain, quick = (numpy.random.default_rng(3) for _ in range(2))
    for _ in range(6):
        want, got = f(X, plain), fast(X, quick)
        assert type(got[0]) is type(want[0]) and got[0].dtype == want[0].dtype
        assert numpy.array_equal(got[0], want[0]) and numpy.array_equal(got[1], want[1])
    assert fast.cache_info().traces == 1


def test_a_batch_that_is_drawn_from_a_range_picks_rows():
    def f(x):
        return x[numpy.random.choice(range(x.shape[0]), 4)] * 2.0

    fast, rows = jit(f), numpy.arange(16.0).reshape(8, 2)
    for seed in range(6):
        numpy.random.seed(seed)
        want = f(rows)
        numpy.random.seed(seed)
        assert numpy.array_equal(fast(rows), want)
    assert fast.cache_info().traces == 1 and fast.cache_info().eager == 0


def test_generators_of_the_namespace():
    rng, plain = np.random.default_rng(0), numpy.random.default_rng(0)
    assert isinstance(rng, numpy.random.Generator) and isinstance(rng, np.random.Generator)
    assert rng.normal() == plain.normal() and type(rng.random(2)) is numpy.ndarray
    state = plain.bit_generator.state
    first = np.random.default_rng(plain).random()  # the same stream
    plain.bit_generator.state = state
    assert first == plain.random() and np.random.default_rng(rng) is rng
    state, own = np.random.RandomState(5), numpy.random.RandomState(5)
    assert state.randn() == own.randn() and state.randint(9) == own.randint(9)
    f = jit(lambda x: x + rng.normal(size=2) + state.rand(2))
    g = lambda x: x + plain.normal(size=2) + own.rand(2)  # noqa: E731
    plain.bit_generator.state = rng.bit_generator.state
    for _ in range(3):
        numpy.testing.assert_array_equal(f(1.0), g(1.0))
    assert len(rng.spawn(2)) == 2 and len(rng.bytes(3)) == 3


def test_a_generator_made_in_the_function_starts_anew():
    for module in (numpy, np):

        @jit
        def f(x, module=module):
            rng = module.random.default_rng(4)
            return x * rng.normal(size=3) + rng.permutation(x)

        assert numpy.array_equal(f(X), f(X))
        rng = numpy.random.default_rng(4)
        numpy.testing.assert_allclose(f(X), X * rng.normal(size=3) + rng.permutation(X))


def test_what_a_trace_cannot_record_runs_in_plain_python():
    def unseeded(x):
        return x + numpy.random.default_rng().random()

    def reseeds(x):
        numpy.random.set_state(LEGACY)
        return x + numpy.random.random()

    def shuffles(x):
        order = list(range(3))
        numpy.random.shuffle(order)
        return x[order]

    with warnings.catch_warnings(action="ignore"):  # a call that imports may draw by that
        jit(lambda x: x + random.random())(X)
    for f, text in (
        (unseeded, "without a seed in a traced function"),
        (lambda x: x + random.random(), "where a trace cannot see it"),
        (reseeds, "set_state of a generator under a trace"),
        (shuffles, "Use permutation"),
    ):
        fast = jit(f)
        with pytest.warns(RuntimeWarning, match=text):
            random.seed(1)
            numpy.random.seed(1)
            first = fast(X)
        random.seed(1)
        numpy.random.seed(1)
        second, third = fast(X), fast(X)
        if f is not unseeded:
            numpy.testing.assert_array_equal(first, second)
        if f is not reseeds:
            assert numpy.any(second != third)
        with pytest.raises(tracker.CompileError, match=text):
            jit(f, strict=True)(X)


class Seeds:
    def once(x, n):
        numpy.random.seed(3)
        return x * numpy.random.randn(3)

    def by_argument(x, n):
        numpy.random.seed(n)
        return x * numpy.random.randn(3)

    def in_between(x, n):
        before = numpy.random.rand()
        numpy.random.seed([n, 2])
        if numpy.random.rand() * x[0] > 0.5:
            numpy.random.seed(7)
        return x * numpy.random.randn(3) + before

    def of_its_own(x, n):
        OWN.seed(n)
        return x * OWN.uniform(size=3) + tracker.fori_loop(0, 3, lambda k, t: t + OWN.rand(), 0.0)


OWN = numpy.random.RandomState(1)


@functions_of(Seeds)
def test_a_generator_is_seeded_at_each_call(f):
    def run(g):
        numpy.random.seed(7)
        OWN.seed(1)
        made = [(g(X * k, k % 3), numpy.random.rand(), OWN.rand()) for k in range(1, 7)]
        return [numpy.hstack(parts) for parts in made]

    fast, slope = jit(f), jit(lambda x, n: gradient(lambda x: np.sum(f(x, n)), x)[0])
    numpy.testing.assert_allclose(run(fast), run(f), rtol=1e-14)
    want = run(lambda x, n: gradient(lambda x: np.sum(f(x, n)), x)[0])
    numpy.testing.assert_allclose(run(slope), want, rtol=1e-14)
    assert fast.cache_info().eager == slope.cache_info().eager == 0


SEEDS = {
    "a list": lambda x, n: x * np.random.default_rng([n, 2]).normal(),
    "a tuple": lambda x, n: x * np.random.default_rng((7, n)).normal(),
    "an array": lambda x, n: x * np.random.default_rng(np.array([n, 2])).normal(),
    "a state": lambda x, n: x * np.random.RandomState([n, 2]).normal(),
}


@pytest.mark.parametrize("name", SEEDS)
def test_a_seed_may_have_traced_parts(name):
    fast = jit(SEEDS[name])
    for n in (1, 2, 1):
        assert fast(2.0, n) == SEEDS[name](2.0, n)
    with pytest.raises(TypeError):
        fast(2.0, 1.5)
    assert fast.cache_info().eager == 0


def test_a_seed_chosen_by_the_system_is_not_traced():
    def f(x):
        numpy.random.seed()
        return x * numpy.random.rand()

    fast = jit(f)
    with pytest.warns(RuntimeWarning, match="seed of a generator under a trace"):
        assert len({fast(1.0) for _ in range(4)}) == 4


class States:
    def resets(x, rng):
        rng.bit_generator.state = STATE  # the same numbers for each x
        return x * rng.normal(size=3)

    def looks_ahead(x, rng):
        return x * copy.deepcopy(rng).normal(size=3) + rng.random()

    def jumps(x, rng):
        return x * numpy.random.Generator(rng.bit_generator.jumped()).random() + rng.random()


@functions_of(States)
def test_the_state_of_a_generator_is_no_constant(f):
    text = "(bit_generator|copy) of a generator under a trace"
    with pytest.warns(RuntimeWarning, match=text):
        same(f)


def test_draws_as_constants_in_a_derivative():
    def f(x):
        noise = np.random.default_rng(0).normal(size=3)
        noise[0] = x[0] ** 2  # it can be filled
        return np.sum(noise * x)

    rng = numpy.random.default_rng(0).normal(size=3)
    numpy.testing.assert_allclose(gradient(f, X)[0], [3 * X[0] ** 2, rng[1], rng[2]])
    assert type(np.random.rand(2)) is numpy.ndarray


def test_derivatives_in_parameters():
    """The underlying standard draws are held fixed (reparametrisation)."""

    def f(p):
        rng = np.random.default_rng(0)
        parts = [rng.normal(p[0], p[1], 3), rng.uniform(p[0], p[1], 2), rng.exponential(p[1], 2)]
        parts += [rng.laplace(p[0], p[1], 2), rng.lognormal(p[0], p[1], 2), rng.gamma(2.0, p[1], 2)]
        parts += [rng.logistic(p[0], scale=p[1], size=2), rng.gumbel(p, 1.0), rng.rayleigh(p[1], 2)]
        parts += [rng.weibull(p, (2, 2)), rng.power(p[1], 3), rng.pareto(p[1], 2)]
        parts += [rng.multivariate_normal(p, numpy.eye(2) + 0.1, 3)]
        return np.sum([np.sum(np.sin(x)) for x in parts])

    assert tracker.gradcheck(f, numpy.array([0.3, 1.7]))

    def g(p, rng):
        return numpy.sum(numpy.sin(rng.normal(p[0], p[1], 3)))

    same(g, numpy.array([0.3, 1.7]), g=value_and_grad)
    with pytest.raises(UnsupportedError, match="a draw from beta has no derivative in a"):
        gradient(lambda p: np.random.default_rng(0).beta(p, 2.0), 1.5)
    count = numpy.random.default_rng(0).poisson(3.0)  # what is counted has no derivative
    assert gradient(lambda p: p * np.random.default_rng(0).poisson(p), 3.0)[0] == count
    with pytest.raises((ConversionError, TypeError)):
        np.random.normal(tracker.param(1.0))


def test_explain_draws_nothing():
    rng = numpy.random.default_rng(0)
    state = rng.bit_generator.state
    fast = jit(Numbers.normals)
    assert "draw" in fast.explain(X, rng) and rng.bit_generator.state == state


def test_loops_with_draws():
    def f(x, rng):
        return tracker.fori_loop(0, 4, lambda i, total: total + rng.normal() * x[1], x[0])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(f)


def test_pullback_of_a_jitted_function_that_writes():
    """Nothing drawn: the compiled pullback serves, from the first call on."""

    @jit
    def f(x, y):
        x[:] += y
        return numpy.sum(x * y)

    for _ in range(3):
        value, back = pullback(f, numpy.ones(2), 3.0)
        assert value == 24.0 and back(1.0)[1] == 14.0


OF_CONSTANTS = {
    "gradient": lambda rng: gradient(lambda x: np.sum(x * rng.normal(size=2)), np.ones(2))[0],
    "of a number": lambda rng: gradient(lambda x: x * rng.normal(), 2.0)[0],
    "of a mask": lambda rng: gradient(lambda x: np.sum(x * (rng.random(8) < 0.5)), np.ones(8))[0],
    "jvp": lambda rng: tracker.jvp(lambda x: x * rng.normal(size=2), (np.ones(2),), (np.ones(2),)),
    "pullback": lambda rng: tracker.pullback(lambda x: x * rng.normal(size=2), np.ones(2))[1](
        np.ones(2)
    ),
    "jacobian": lambda rng: tracker.jacobian(lambda x: x * rng.normal(size=2), np.ones(2)),
    "hessian": lambda rng: tracker.hessian(lambda x: np.sum(x**2 * rng.normal(size=2)), np.ones(2)),
    "global": lambda rng: gradient(lambda x: x * np.random.normal(), 2.0)[0],
    "loop": lambda rng: gradient(
        lambda x: tracker.scan(lambda c, k: (c * x + rng.normal(), None), 1.0, np.arange(3.0))[0],
        2.0,
    )[0],
}


@pytest.mark.parametrize("name", OF_CONSTANTS)
def test_derivatives_at_constants_draw_at_each_call(name):
    f = OF_CONSTANTS[name]
    fast, results = tracker.jit(f), []
    for call in (f, fast):
        rng = np.random.default_rng(3)
        np.random.seed(3)
        results.append([call(rng) for _ in range(4)])
    for want, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)
    assert fast.cache_info().eager == 0
