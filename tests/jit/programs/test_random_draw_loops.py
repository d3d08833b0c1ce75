"""Loops whose steps draw random numbers, or call Python: in the plain order."""

import numpy as np
import pytest
from equality import assert_same
from tables import functions_of

from tracker import custom_gradient, gradient, jit, ngradient
from tracker.control import scan
from tracker.jit.kernels import python_callbacks
from tracker.jit.runtime.compile_queue import drain

N = 160  # steps
X = np.array([0.3, -0.2, 0.9])


@pytest.fixture(params=["machine code", "executor"])
def by(request, monkeypatch):
    """Who makes host calls: machine code, or Python."""
    if request.param == "executor":
        monkeypatch.setattr(python_callbacks, "_MAX_BYTES", -1)
    return request.param


class Programs:
    def diffusion(x, r):
        for _ in range(N):
            x = x - 0.1 * x + 0.2 * r.normal(size=3)
        return x

    def written(x, r):
        out = np.zeros((N, 3), like=x)
        for t in range(N):
            x = x * np.exp(0.1 * r.normal(size=3) - 0.005)
            out[t] = x
        return out

    def metropolis(x, r):
        for _ in range(N):
            y = x + 0.5 * r.normal(size=3)
            accepts = np.log(r.random()) < np.sum(x * x) - np.sum(y * y)
            x = np.where(accepts, y, x)
        return x

    def around(x, r):
        first = r.normal()
        for _ in range(N):
            x = np.sin(x) + r.normal() * first
        last = r.normal(size=3)
        for _ in range(N):
            x = np.cos(x) + r.random(3) * last
        return x, r.normal(), first

    def only_drawn(x, r):
        y = np.zeros(3)
        for _ in range(3 * N):
            r.normal()
            y = y + r.normal()
        return x * 2.0

    def unread(x, r):
        for _ in range(4 * N):
            r.integers(5)
        return x + r.normal()

    def means(x, r):
        for _ in range(N):
            x = r.normal(0.9 * x, np.abs(x) + 0.1)
        return x

    def condition(x, r):
        for _ in range(N):
            x = 0.9 * x + r.normal(size=3)
        return x if x[0] > 1 else -10.0 * x + r.normal()

    def conditions(x, r):
        for _ in range(N):
            y = r.random()
            x = x + y
            if y < 0.002:
                x = -x
        return x, r.random()

    def nested(x, r):
        for _ in range(12):
            y = r.normal(size=3)
            for _ in range(20):
                x = x + 0.01 * r.normal() * y
        return x

    def by_scan(x, r):
        return scan(lambda c, _: (0.9 * c + r.normal(size=3), c[0]), x, None, length=N)

    def backwards(x, r):
        rows = [x * t for t in range(N)]
        for t in reversed(range(N)):
            x = x * 0.9 + rows[t] * r.normal()
        return x

    def shuffled(x, r):
        for _ in range(N):
            order = r.permutation(3)
            x = 0.5 * x[order] + r.normal(size=3)
        return x


PROGRAMS = {name: f for name, f in vars(Programs).items() if not name.startswith("_")}


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_are_the_plain_function_s(by, name):
    f = PROGRAMS[name]
    g = jit(f, max_traces=16)
    ours, plain = np.random.default_rng(5), np.random.default_rng(5)
    for i in range(9):
        x = X + 0.1 * i
        assert_same(g(x, ours), f(x, plain))
        assert ours.bit_generator.state == plain.bit_generator.state
        drain()


@pytest.mark.parametrize("name", sorted({*PROGRAMS} - {"conditions"}))
def test_draws_are_made_by_one_native_call(name):
    g = jit(PROGRAMS[name])
    r = np.random.default_rng(0)
    for _ in range(2):
        g(X, r)
    assert "one native call" in g.explain(X, r)


class OfTwo:
    def generators(x, r, s):
        for _ in range(N):
            x = x * 0.9 + r.normal()
        for _ in range(N):
            x = x * 0.9 + s.normal()
        for _ in range(N):
            x = x * 0.9 + s.normal() - r.normal()
        return x

    def generators_of_the_same_bits(x, r, s):
        for _ in range(N):
            x = x * 0.9 + r.normal(size=3) * s.random()
        return x


@functions_of(OfTwo)
def test_two_generators_are_not_taken_for_one(f):
    def two():
        bits = [np.random.PCG64(k) for k in (1, 2)]
        same = f is OfTwo.generators_of_the_same_bits
        return [np.random.Generator(each) for each in (bits[:1] * 2 if same else bits)]

    g, ours, plain = jit(f), two(), two()
    for _ in range(4):
        assert_same(g(X, *ours), f(X, *plain))
        drain()


@pytest.mark.parametrize("r", [np.random, np.random.RandomState(3)], ids=["global", "RandomState"])
def test_old_generators(r):
    def f(x):
        for _ in range(N):
            x = 0.9 * x + r.normal()
        return x

    g = jit(f)
    seed = r.seed
    for i in range(4):
        seed(i)
        found = g(X)
        seed(i)
        assert_same(found, f(X))
        drain()


@pytest.mark.parametrize("name", ["diffusion", "written", "means", "nested", "by_scan"])
def test_gradients_follow_the_draws(name):
    f = PROGRAMS[name]

    def loss(x, seed):
        found = f(x, np.random.default_rng(seed))
        return sum(np.sum(np.sin(part)) for part in (found if type(found) is tuple else (found,)))

    r = np.random.default_rng(7)

    def with_given(x):
        found = f(x, r)
        return sum(np.sum(np.sin(part)) for part in (found if type(found) is tuple else (found,)))

    g = jit(lambda x: gradient(with_given, x)[0])
    for i in range(4):
        r.bit_generator.state = np.random.default_rng(i).bit_generator.state
        found = g(X)
        np.testing.assert_allclose(
            found, ngradient(lambda x, i=i: loss(x, i), X)[0], rtol=1e-5, atol=1e-7
        )
        drain()


def test_draws_before_a_failing_guard_are_repeated():
    g = jit(Programs.condition)
    ours, plain = np.random.default_rng(2), np.random.default_rng(2)
    for _ in range(20):
        assert_same(g(X, ours), Programs.condition(X, plain))
        drain()
    assert "2 trace(s)" in g.explain(X, ours)


def test_a_rule_of_the_user_s_in_a_loop_may_raise():
    @custom_gradient(host=True)
    def checked(x):
        if x > 50:
            raise ValueError(f"{x} is much")
        return np.sin(x), lambda c: (c * np.cos(x),)

    def f(x):
        total = x
        for _ in range(N):
            total = total + checked(x) * 0.1 + x
        return total

    g = jit(f)
    for _ in range(3):
        assert g(0.5) == f(0.5)
        drain()
    for _ in range(3):
        with pytest.raises(ValueError, match=r"60\.0 is much"):
            g(60.0)
    assert g(0.25) == f(0.25)
    slope = jit(lambda x: gradient(f, x)[0])
    for x in (0.5, 0.6, 0.7):
        np.testing.assert_allclose(slope(x), gradient(f, x)[0], rtol=1e-12)
        drain()


def test_a_step_s_own_callable_is_called():
    """Rules of one name are not taken for one another."""

    def made(k):
        @custom_gradient(host=True)
        def rule(x):
            return k * x, lambda c: (k * c,)

        return rule

    one, two = made(1.0), made(2.0)

    def f(x):
        for _ in range(N):
            x = 0.9 * one(x) + x * 0.1
            x = np.sin(x)
        for _ in range(N):
            x = 0.9 * two(x) + x * 0.1
            x = np.sin(x)
        return x

    g = jit(f)
    for x in (0.1, 0.2, 0.3):
        np.testing.assert_allclose(g(x), f(x), rtol=1e-12)
        drain()
