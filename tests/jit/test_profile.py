"""`f.profile`: rows of what runs, with the user's lines; no test looks at the times themselves."""

import inspect
import math

import numpy as np
import pytest

import tracker
from tracker import jit, value_and_grad
from tracker.errors import CompileError
from tracker.jit import profile as profiles

X = np.linspace(0.1, 1.0, 300)


@pytest.fixture(autouse=True)
def few_calls(monkeypatch):
    """Two rounds of three calls, however long they take."""
    monkeypatch.setattr(profiles, "_ROUNDS", 2)
    monkeypatch.setattr(profiles, "_MAX_CALLS", 3)
    monkeypatch.setattr(profiles, "_SECONDS", 1e9)


@tracker.custom_gradient(host=True)
def outside(x):
    return np.tanh(x), lambda dy: (dy * (1 - np.tanh(x) ** 2),)


def kernels(x):
    y = np.sin(x)
    return np.sum(np.outer(y, y) * np.cos(x), axis=0)


def product(x):
    a = np.outer(x, x)
    return np.sum(a @ a)


def loop(x):
    return np.sum(tracker.fori_loop(0, 30, lambda k, y: y + np.sin(y) * k, x))


def copies(x):
    for k in range(9):
        x = np.cumsum(x) * k
    return np.sum(x)


def scan(x):
    return np.sum(tracker.scan(lambda c, _: (np.sin(c), None), x, np.zeros(9))[0])


def scalars(x):
    y = x[0]
    for _ in range(800):
        y = y - (y * y - 2.0) / (2.0 * y)
    return y


def branch(x):
    return np.sum(tracker.cond(x[0] > 0.0, lambda v: np.exp(v), lambda v: v, x))


def sort(x):
    return np.sum(np.sort(np.sin(x)))


def routine(x):
    a = np.outer(x[:20], x[:20]) + np.eye(20)
    return np.sum(np.linalg.solve(a, x[:20]))


def host(x):
    y = np.sin(x)
    return np.sum(outside(y) * x)


def unrolled(x):
    return x[0] * 2.0 + x[1]


# What runs: part of a row's text, a part of the user's line, and how often.
PROGRAMS = {
    kernels: [("(sin", "y = np.sin(x)", 1), ("over 300x300", "np.outer(y, y)", 1)],
    product: [("product ", "a @ a", 1), ("over 300x300", "np.outer(x, x)", 1)],
    loop: [("sin multiply add", "y + np.sin(y) * k", 30), ("loop of 30", "fori_loop", 31)],
    copies: [("writes cumsum", "np.cumsum(x) * k", 9)],
    scan: [("(sin)", "np.sin(c)", 9), ("loop of 9", "tracker.scan", 10)],
    scalars: [("loop of 800 steps", "y = y - (y * y - 2.0)", 1)],
    branch: [("(exp", "np.exp(v)", 1)],
    sort: [("ordered", "np.sort", 1), ("(sin", "np.sin(x)", 1)],
    routine: [("solve", "np.linalg.solve", 1)],
    host: [("Python: outside", "outside(y)", 1), ("(sin", "y = np.sin(x)", 1)],
    unrolled: [("unrolled: ", "x[0] * 2.0", 1)],
}


def check(found, f):
    """What holds of every profile."""
    assert math.isclose(sum(row.share for row in found.rows), 1.0)
    assert math.isclose(sum(row.seconds for row in found.rows), found.seconds)
    assert all(row.seconds >= 0.0 for row in found.rows)
    *steps, call = found.rows
    assert call.kernel.startswith("the call itself") and call.calls == 1
    assert steps == sorted(steps, key=lambda row: -row.seconds)
    text, first = inspect.getsourcelines(f)
    for row in steps:
        assert row.lines or row.kernel.endswith(": copies"), row  # arguments have no line
        for where, source in zip(row.lines, row.source, strict=True):
            path, _, number = where.rpartition(":")
            if path == inspect.getsourcefile(f) and 0 <= int(number) - first < len(text):
                assert source == text[int(number) - first].strip()
    return found


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_rows_name_what_runs_and_the_users_lines(f):
    fast = jit(f)
    found = check(fast.profile(X), f)
    assert found.name == f.__name__ and found.calls == 3
    for words, line, count in PROGRAMS[f]:
        rows = [r for r in found.rows if words in r.kernel and any(line in s for s in r.source)]
        assert count in [row.calls for row in rows], (words, line, found)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_derivatives_are_profiled(f):
    both = value_and_grad(jit(f if f is not kernels else lambda x: np.sum(kernels(x))))
    found = check(both.profile(X), f)
    assert found.name.startswith("value_and_grad of ")
    lines = str([row.lines for row in found.rows[:-1]])
    assert f.__name__ == "kernels" or "test_profile.py" in lines


def test_numpy_between_native_parts_has_rows():
    fast = jit(lambda x: np.sum(outside(np.sin(x) ** 2) * x) * 2.0)
    large = np.linspace(0.0, 1.0, 40_000)
    assert "native segment(s)" in fast.explain(large)
    found = check(fast.profile(large), test_numpy_between_native_parts_has_rows)
    kinds = [row.kernel.partition(" ")[0] for row in found.rows]
    assert sorted(kinds[:-1]) == ["Python:", "kernel", "kernel", "unrolled:"], found


def test_what_has_effects_runs_once():
    def doubled(x):
        x *= 2.0
        return np.sum(x)

    x = X.copy()
    found = check(jit(doubled).profile(x), doubled)
    assert found.calls == 1
    np.testing.assert_array_equal(x, 2.0 * X)

    class Counter:
        count = 0.0

        @jit
        def add(self, x):
            self.count += 1.0
            return np.sum(x) * self.count

    counter = Counter()
    for k in range(1, 4):
        counter.add(X)
        assert counter.count == k
    assert Counter.add.profile(counter, X).calls == 1 and counter.count == 4
    rng = np.random.default_rng(1)
    draw = jit(lambda x, rng: np.sum(rng.normal(size=300) * x))
    one, two = np.random.default_rng(1), np.random.default_rng(1)
    assert draw(X, one) == draw(X, two)
    assert draw.profile(X, rng).calls == 1
    draw(X, two)  # `two` has drawn twice, and `rng` once
    assert rng.normal() != two.normal()


def test_each_path_is_profiled():
    fast = jit(lambda x, n=2.0: np.sum(np.exp(x)) if x[0] > n else np.sum(np.sin(x)))
    fast(X)
    assert "(sin)" in str(fast.profile(X))
    assert "(exp)" in str(fast.profile(X, n=0.0))  # it has no trace before
    assert "(sin)" in str(fast.profile(X, n=1.0))
    traces = fast.cache_info().traces
    for _ in range(2):
        assert "(exp)" in str(fast.profile(X, n=0.0)) and fast.cache_info().traces == traces


def test_results_and_ordinary_calls_are_untouched():
    fast = jit(loop)
    fast(X), fast(X)
    before, info = fast(X), fast.cache_info()
    fast.profile(X)
    assert fast(X) == before and fast.cache_info() == info


def test_profiles_are_shown():
    found = jit(kernels).profile(X)
    text = repr(found)
    assert text.startswith("kernels: ") and "a call, the mean of 3 calls" in text
    assert "test_profile.py:" in text and "y = np.sin(x)" in text and "%" in text
    assert found._repr_html_().startswith("<pre>kernels: ")
    rows = profiles.Profile("f", 1, 2e-9, (*found.rows[:1], *found.rows[-1:]))
    assert repr(rows).startswith("f: 2 ns a call\n")
    many = profiles.ProfileRow("k", ("a.py:1",) * 5, ("",) * 5, 1, 2.0, 1.0)
    assert "and 2 more lines" in repr(profiles.Profile("f", 1, 2.0, (many, found.rows[-1])))
    few = profiles.ProfileRow("tiny", ("a.py:1",), ("",), 1, 1e-9, 1e-9)
    short = repr(profiles.Profile("f", 1, 2.0, (many, few, found.rows[-1])))
    assert "tiny" not in short and short.endswith("and 1 step(s) of less than 0.1%")


def test_what_runs_in_plain_python_has_no_profile():
    import time

    fast = jit(lambda x: x * time.time())
    with pytest.warns(RuntimeWarning, match="runs in plain Python"):
        fast(1.0)
    with pytest.raises(CompileError, match=r"function runs in plain Python.*time"):
        fast.profile(1.0)


def test_arguments_that_no_trace_takes_have_no_profile():
    def written(x, y):
        x *= 2.0
        return x + y

    fast = jit(written)
    assert "multiply" in str(fast.profile(X.copy(), X))
    x = X.copy()
    with pytest.raises(CompileError, match="no machine code of written takes these arguments"):
        fast.profile(x, x)
    assert "over 300x300" in str(jit(kernels).profile(X.astype(">f8")))
