"""Python decisions that depend on values: each way through is compiled, results stay the plain
ones."""

import inspect
import warnings

import numpy as np
import pytest
from jit_programs import assert_same
from test_parity import agree, gradients_agree

from tracker import jit


def _branch(x):
    if x > 0:
        return x * 2
    return -x


def test_both_branches_are_kept():
    f = agree(_branch, 1.0, others=[(-3.0,), (2.0,), (-5.0,), (0.0,)])
    info = f.cache_info()
    assert (info.traces, info.signatures, info.slow, info.eager) == (2, 1, 2, 0)
    for x in (4.0, -4.0):
        assert f(x) == _branch(x)
    assert f.cache_info() == info


def test_branches_of_gradients():
    gradients_agree(_branch, 1.0, others=[(-3.0,), (2.0,)])


def test_nested_branches():
    def f(x, y):
        if x > 0:
            if y > x:
                return x * y
            return x - y if y < -1 else x + y
        return np.sum(np.array([1.0, 2.0])) * (y if y > 0 else x)

    points = [(a, b) for a in (1.0, -1.0, 3.0) for b in (2.0, -2.0, 0.5, -0.5)]
    assert agree(f, *points[0], others=points * 2).cache_info().traces == 5


def test_branches_on_arrays():
    def f(x):
        y = x * 2
        if np.any(y > 5):
            y = y / np.max(y)
        if np.all(x < 0):
            return -y
        return y

    x = np.linspace(0.0, 1.0, 50)
    agree(f, x, others=[(x * 5,), (x - 3,), (x,), (x * 6,)])


def test_while_until_small():
    def root(a):
        x, steps = a, 0
        while abs(x * x - a) > 1e-10:
            x = 0.5 * (x + a / x)
            steps += 1
        return x, steps

    agree(root, 2.0, others=[(2.1,), (3.0,), (1.0,), (100.0,), (2.0,)])
    gradients_agree(lambda a: root(a)[0], 2.0, others=[(1.0,), (50.0,)])


def test_branches_inside_loops():
    def f(xs):
        total = 0.0
        for x in xs:
            if x > 0.5:
                continue
            if x < -2:
                break
            total = total + x * x
        else:
            return total
        return -total

    rng = np.random.default_rng(0)
    agree(f, rng.normal(size=4), others=[(rng.normal(size=4) * 2,) for _ in range(8)])


@pytest.mark.parametrize("convert", [int, np.floor, np.ceil, round, bool, hash])
def test_conversions(convert):
    def f(x):
        n = int(convert(x))
        return x * n + 1

    agree(f, 2.7, others=[(2.2,), (-2.7,), (-0.5,), (0.5,), (1.5,), (2.5,), (2.7,)])


def test_ranges():
    agree(lambda x, n: sum(x * i for i in range(n)), 2.0, 3, others=[(1.0, 5), (1.0, 0), (3.0, 3)])
    agree(lambda x, n: sum(x * i for i in range(int(n))), 2.0, 3.5, others=[(1.0, 5.9), (1.0, 0.1)])
    agree(lambda x: [x * i for i in range(int(np.floor(x)))], 2.5, others=[(4.1,), (2.9,)])


def test_lookups():
    table, keyed = [1.0, 10.0, 100.0], {0: "a", 1: "b", 2: "c", 7: "d"}

    def f(x, n):
        return x * table[n % 3], keyed.get(n, "none"), x * n

    agree(f, 2.0, 1, others=[(2.0, 2), (3.0, 7), (3.0, 1), (1.0, 5)])


def test_integers_that_index():
    x = np.linspace(0.0, 1.0, 50)
    agree(lambda x, i: x[i] * x[i:].sum(), x, 3, others=[(x * 2, 7), (x, -1), (x, 0), (x * 3, 3)])


def test_integer_arrays_and_masks():
    x = np.linspace(-1.0, 1.0, 50)
    index = np.arange(0, 50, 7)
    agree(lambda x, i: x[i] * 2, x, index, others=[(x * 2, index[::-1].copy())])
    agree(lambda x: x[x > 0] * 2, x, others=[(x * 2,), (x - 0.5,), (x + 5,)])
    gradients_agree(lambda x: np.sum(x[x > 0] ** 2), x, others=[(x - 0.5,)])

    def clipped(x):
        t = x * 1.0
        t[t < 0] = 0.0
        return t

    agree(clipped, x, others=[(x - 0.5,)])


def test_integer_arrays_that_leave():
    agree(lambda n: [int(k) for k in n] + [len(n)], np.arange(3), others=[(np.arange(3) * 2,)])
    agree(
        lambda x, n: x * np.asarray(n).tolist()[1],
        2.0,
        np.arange(3),
        others=[(2.0, np.ones(3, int))],
    )


def test_early_returns_and_exceptions():
    def f(x):
        if x < 0:
            raise ValueError(f"negative: {x < 0}")
        if x == 0:
            return None
        return np.sqrt(x)

    g = jit(f)
    for _ in range(2):
        assert g(4.0) == 2.0
        assert g(0.0) is None
        with pytest.raises(ValueError, match="negative"):
            g(-1.0)
    assert g(9.0) == 3.0


def test_numpy_raises_only_where_the_plain_function_would():
    def f(x, a):
        if np.argmax(x) > 0:
            return np.linalg.inv(a) if np.linalg.matrix_rank(np.eye(2)) else a
        return a * 2

    singular, regular = np.ones((2, 2)), np.array([[2.0, 0.0], [1.0, 1.0]])
    up, down = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    g = jit(lambda x, a: _chosen(x, a))
    for x, a in [(up, regular), (down, singular), (up, regular), (down, singular)]:
        assert_same(g(x, a), _chosen(x, a))
    assert f is not g


def _chosen(x, a):
    order = np.argsort(a[0])
    if np.argmax(x) > 0:
        return a[order]
    return a * 2


def test_after_max_traces_plain_python_runs():
    def f(x):
        n = int(x)
        return x * n

    g = jit(f, max_traces=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (1.5, 2.5, 3.5):
            assert g(x) == f(x)
    line = inspect.getsourcelines(f)[1] + 1
    with pytest.warns(RuntimeWarning, match=rf"plain Python.*3 traces.*test_guards\.py:{line}"):
        assert g(4.5) == f(4.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (5.5, 1.5, 9.5):
            assert g(x) == f(x)
    assert g.cache_info().eager == 1
    assert_same(g(np.float64(2.5)), f(np.float64(2.5)))  # another signature is compiled


def test_guards_after_writes():
    def f(x):
        x[0] = 7.0
        if x[1] > 0:
            x[2] = x[0] + x[1]
        return np.sum(x)

    agree(f, np.array([1.0, 2.0, 3.0]), others=[(np.array([1.0, -2.0, 3.0]),)] * 2)


def test_contains_and_comparison_chains():
    def f(x):
        if 2.0 in x:
            return np.max(x)
        return x[0] if 0 < x[0] < 1 else x[1]

    agree(f, np.array([0.5, 4.0]), others=[(np.array([2.0, 4.0]),), (np.array([3.0, 4.0]),)] * 2)
