"""Loop-carried arrays updated in place: random bodies that read neighbours, write slices, swap."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st
from tables import functions

import tracker as tr
from tracker import gradient, jit

SMALL, LARGE = 41, 4200  # elements; the latter are written in place where a loop carries them
STEPS = 14


class Acts:
    def neighbours(s, a, b, t, idx):
        s[a] = s[a] + 0.1 * (np.roll(s[b], 1) - s[a])

    def inner(s, a, b, t, idx):
        s[a][1:-1] += 0.1 * (s[b][2:] - s[b][:-2])

    def after(s, a, b, t, idx):
        s[a][1:] = 0.5 * s[a][:-1] + 0.3 * s[b][1:]

    def edge(s, a, b, t, idx):
        s[a][0] = s[b][-1] * 0.5

    def at(s, a, b, t, idx):
        s[a][idx[t]] = 0.9 * s[b][idx[t]] + 0.1 * s[a][idx[t] - 1]

    def added(s, a, b, t, idx):
        s[a][idx[t]] += 0.1 * s[b][idx[t]]

    def swap(s, a, b, t, idx):
        s[a], s[b] = s[b], s[a]

    def sine(s, a, b, t, idx):
        s[a] = np.sin(s[b]) + 0.5 * s[a]

    def choice(s, a, b, t, idx):
        s[a] = np.where(s[b] > 0.0, s[a], 0.5 * s[b])

    def scaled(s, a, b, t, idx):
        s[a] = s[a] * (1.0 + 0.01 * np.sum(s[b]))

    def backwards(s, a, b, t, idx):
        s[a] = 0.5 * (s[a] + s[b][::-1])

    def copied(s, a, b, t, idx):
        s[a] = s[b].copy()

    def chain(s, a, b, t, idx):
        s[a] = np.tanh(np.exp(-(np.tanh(s[b]) ** 2)) * s[a])

    def shared(s, a, b, t, idx):
        step = 0.1 * (s[b][1:] - s[b][:-1])
        s[a][1:] += step
        s[b][:-1] -= 0.5 * step

    def late(s, a, b, t, idx):
        mean = 0.5 * (s[a][2:] + s[a][:-2])
        s[b][1:-1] = mean - 0.1 * s[b][1:-1]
        s[a][1:-1] += 0.2 * (s[b][2:] - mean)
        s[a][0] = mean[1]

    def pulled(s, a, b, t, idx):
        s[a][:-1] -= 0.1 * s[b][1:]
        s[a][1:] += 0.1 * s[a][:-1]

    def mirrored(s, a, b, t, idx):
        s[a][1:-1] = 0.7 * s[a][1:-1][::-1] + 0.2 * s[b][1:-1]

    def again(s, a, b, t, idx):
        for _ in range(3):
            s[a] = s[a] + 0.01 * (np.roll(s[b], -1) - s[b])
            s[b] = s[b] + 0.01 * s[a]

    def swept(s, a, b, t, idx):
        for i in range(1, SMALL):
            s[a][i] = 0.6 * s[a][i] + 0.3 * s[a][i - 1] + 0.1 * s[b][i]

    def crossed(s, a, b, t, idx):
        for i in range(SMALL):
            s[a][i], s[b][i] = 0.9 * s[a][i] + 0.1 * s[b][-i], 0.2 * s[a][idx[t]] * s[b][i]


ACTS = functions(Acts)
acts = st.tuples(st.sampled_from(sorted(ACTS)), st.integers(0, 2), st.integers(0, 2))


def program(body):
    def run(u, v, w, idx):
        s = [u.copy(), v.copy(), w.copy()]
        for t in range(STEPS):
            for name, a, b in body:
                ACTS[name](s, a, b, t, idx)
        return tuple(s)

    return run


def arguments(seed=0, n=SMALL):
    rng = np.random.default_rng(seed)
    return (*(0.5 * rng.normal(size=n) for _ in range(3)), rng.integers(0, n, STEPS))


@example(body=[("pulled", 0, 1)], n=LARGE)
@given(body=st.lists(acts, min_size=1, max_size=5), n=st.sampled_from([SMALL, LARGE]))
def test_any_body(body, n):
    run = program(body)

    def loss(*given_):
        return sum(np.sum(x * x * (k + 1.0)) for k, x in enumerate(run(*given_)))

    def slopes(*given_):
        return gradient(loss, *given_)[:3]

    try:
        with np.errstate(over="raise", invalid="raise"):
            slopes(*arguments(0, n)), slopes(*arguments(1, n))
    except FloatingPointError:
        reject()  # numbers that grow at each step
    fast, steep, whole = jit(run), jit(loss), jit(slopes)
    for seed in (0, 0, 1):
        given_ = arguments(seed, n)
        for got, want in zip(fast(*given_), run(*given_), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
        want = slopes(*given_)
        for way in (gradient(steep, *given_)[:3], whole(*given_)):
            for g, w in zip(way, want, strict=True):
                np.testing.assert_allclose(g, w, rtol=1e-8, atol=1e-8)
        for x, y in zip(given_, arguments(seed, n), strict=True):
            np.testing.assert_array_equal(x, y)  # a loop does not write into its arguments


def scratch(f, *args):
    f(*args), f(*args)
    return int(re.search(r"at most ([\d,]+) of scratch", f.explain(*args))[1].replace(",", ""))


@pytest.mark.parametrize("n", [100, 5000])
def test_a_leapfrog_updates_one_array_in_place(n):
    """One loop computes both; neighbours of the other one are read, so that alternates."""

    @jit
    def wave(u, v):
        for _ in range(50):
            v = v + 0.1 * (np.roll(u, 1) - u)
            u = u + 0.1 * v
        return u, v

    u = np.linspace(-1.0, 1.0, n)
    assert scratch(wave, u, u) <= u.nbytes + 128
    assert "1 of 2 arrays stay" in wave.explain(u, u)


@pytest.mark.parametrize("shape", [(90, 60), (9, 6)])
def test_fields_that_are_written_by_slices_stay_where_they_are(shape):
    """Each is made of the others: what is written is read from where it was written."""

    @jit
    def waves(e, h):
        e, h = e.copy(), h.copy()
        for t in range(50):
            e[0, :] = 0.01 * t
            e[1:, :] -= 0.5 * (h[1:, :] - h[:-1, :])
            h[:-1, :-1] -= 0.7 * (e[1:, :-1] - e[:-1, :-1])
        return np.sum(e * h)

    e = np.random.default_rng(0).normal(size=shape)
    for _ in range(3):
        np.testing.assert_allclose(waves(e, e), waves.__wrapped__(e, e), rtol=1e-12)
    assert "2 of 2 arrays stay" in waves.explain(e, e)


def test_arrays_that_inner_loops_update_stay_where_they_are():
    """Before and after the inner loop, too, where elements are scattered."""

    def factorised(a):
        a = a.copy()
        for i in range(1, 30):
            for j in range(i):
                a[i, j] = (a[i, j] - a[i, :j] @ a[j, :j]) / a[j, j]
            a[i, i] = np.sqrt(a[i, i] - a[i, :i] @ a[i, :i])
        return np.sum(np.tril(a))

    slope = jit(lambda a: gradient(factorised, a)[0])
    a = np.eye(30) * 40.0 + 1.0
    for scale in (1.0, 1.0, 0.9):
        want = gradient(factorised, scale * a)[0]
        np.testing.assert_allclose(slope(scale * a), want, rtol=1e-10, atol=1e-12)
    loops = re.findall(r"(\d of \d) arrays stay", slope.explain(a))
    assert loops == ["1 of 1", "1 of 1", "2 of 2", "2 of 2"]


SLICES = {
    text: eval(f"np.s_[{text}]")
    for text in (
        *("1:, :", ":-1, :", "1:, 1:", ":, 1:", ":, :-1", "1:-1, 1:-1", "2:, 1:-1", "1:-1, 2:"),
        *("::-1, :", "0, :", "-1, :", ":, 0", ":, -1", "3, 4", "1, 1"),
    )
}
WRITES = {
    "copied": lambda x, y: y,
    "added": lambda x, y: x + 0.1 * y,
    "sine": lambda x, y: x - 0.1 * np.sin(y),
    "mixed": lambda x, y: 0.25 * (y + 0.54),
    "raised": lambda x, y: x + 0.03,
}


def are_alike(target, source):
    x = np.zeros((90, 50))
    return x[SLICES[target]].shape == x[SLICES[source]].shape


PAIRS = [pair for pair in itertools.product(SLICES, SLICES) if are_alike(*pair)]
which = st.integers(0, 2)
writes = st.tuples(st.sampled_from(sorted(WRITES)), which, which, st.sampled_from(PAIRS))


@example(
    body=[
        ("raised", 0, 0, ("-1, :", "-1, :")),
        ("copied", 0, 2, (":, 1:", ":, 1:")),
        ("sine", 0, 0, (":, -1", ":, 0")),
        ("mixed", 2, 2, ("2:, 1:-1", "1:-1, 1:-1")),
    ],
    shape=(90, 50),
)
@given(body=st.lists(writes, min_size=1, max_size=5), shape=st.sampled_from([(90, 50), (9, 7)]))
def test_any_writes_of_slices(body, shape):
    def loss(*arrays):
        a, b, c = x = [x.copy() for x in arrays]
        s = 0.0
        for _ in range(STEPS):
            for way, to, of, (target, source) in body:
                x[to][SLICES[target]] = WRITES[way](x[to][SLICES[target]], x[of][SLICES[source]])
            s += a[1, 1] * b[2, 0]
        return np.sum(a * 1.1) + np.sum(b * b) + np.sum(np.sin(c)) + s

    arrays = [0.3 * np.random.default_rng(k).normal(size=shape) for k in range(3)]
    value, whole = jit(loss), jit(lambda *x: gradient(loss, *x))
    wanted = gradient(loss, *arrays)
    for _ in range(2):
        np.testing.assert_allclose(value(*arrays), loss(*arrays), rtol=1e-9)
        for got, want in zip(whole(*arrays), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)


def test_neighbours_of_the_written_array_need_a_copy():
    @jit
    def heat(u):
        for _ in range(200):
            u = u + 0.1 * (np.roll(u, 1) - u)
        return u

    u = np.linspace(-1.0, 1.0, 500)
    assert scratch(heat, u) >= u.nbytes
    assert "0 of 1 arrays stay" in heat.explain(u)


def test_a_write_at_each_step_copies_nothing():
    """The written array is not copied; neither is its cotangent in the pullback."""

    @jit
    def held(h, idx, y):
        h = h.copy()
        for t in range(100):
            h[idx[t]] = h[idx[t]] * 0.5 + y[t]
        return np.sum(h * h)

    h, idx = np.ones(1000), np.random.default_rng(0).integers(0, 1000, 100)
    y = np.linspace(0.0, 1.0, 100)
    both = jit(lambda h: tr.withgradient(lambda h: held(h, idx, y), h))
    both(h), both(h)
    words = both.explain(h)
    assert words.count("1 of 1 arrays stay") == 2  # forward and back
    loops = re.findall(r"kernel over 1000\b.*", words)
    assert len(loops) <= 3, loops


def test_while_loops_update_arrays_in_place():
    @jit
    def shrink(x, y):
        def cond(s):
            return np.sum(s[0] * s[0]) > 1e-3

        return tr.while_loop(cond, lambda s: (s[0] * 0.5, s[1] + s[0]), (x, y))

    x = np.linspace(-1.0, 1.0, 300)
    want_x, want_y = x, 2.0 * x
    while np.sum(want_x * want_x) > 1e-3:
        want_x, want_y = want_x * 0.5, want_y + want_x
    for _ in range(3):
        got = shrink(x, 2.0 * x)
        np.testing.assert_allclose(got[0], want_x)
        np.testing.assert_allclose(got[1], want_y)
    none = shrink(x * 0.0, x)  # no step at all
    np.testing.assert_array_equal(none[1], x)


def test_nested_loops_update_shared_carries_in_place():
    @jit
    def nested(x):
        def outer(state, _):
            def inner(x, _):
                return x + 0.01 * np.tanh(x), None

            x, _ = tr.scan(inner, state[0], None, length=5)
            return (x, state[1] + x[0]), None

        return tr.scan(outer, (x, 0.0), None, length=7)[0]

    def plain(x):
        total = 0.0
        for _ in range(7):
            for _ in range(5):
                x = x + 0.01 * np.tanh(x)
            total += x[0]
        return x, total

    x = np.linspace(-2.0, 2.0, 200)
    for _ in range(3):
        for got, want in zip(nested(x), plain(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)
    assert nested.explain(x).count("1 of 1 arrays stay") == 2
    assert scratch(nested, x) < x.nbytes
