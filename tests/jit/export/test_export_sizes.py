"""Exported functions whose sizes are parameters: one object file computes what Python does for
each."""

import ctypes
import os

import numpy as np
import pytest
from exported_library import assert_same_as_jitted, call, library, needs_cc

import tracker
from tracker import CompileError, export


def draw(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def spd(n):
    a = draw(n, n)
    return a @ a.T + n * np.eye(n)


def smooth(x):
    """What it does depends on the size, and so do the arrays that it makes."""
    weights = np.linspace(0.0, 1.0, len(x))
    if len(x) % 2:
        return np.sum(np.tanh(x) * weights)
    return np.sum(np.sort(x)[: len(x) // 2] ** 2)


def product(x):
    total = x[0]
    for i in range(1, len(x)):
        total = np.sin(total * x[i]) + x[i]
    return total


# Rows: a function, its arguments for sizes, and the values of the sizes.
MANY = [2, 3, 4, 7, 9, 10, 11, 16, 31, 32, 33, 40, 64, 100, 301]
PROGRAMS = {
    "layers": (
        lambda w, b, x: np.mean(np.tanh(x @ w + b) ** 2),
        lambda n, k: (draw(3, k), draw(k), draw(n, 3)),
        {"n": [2, 12, 60, 301], "k": [1, 20, 33]},
    ),
    "differences": (
        lambda x: np.sum((x[1:] - x[:-1]) ** 2) + np.mean(x) + np.max(x),
        lambda n: draw(n),
        {"n": MANY},
    ),
    "another path for each": (smooth, lambda n: (draw(n),), {"n": MANY}),
    "a loop": (product, lambda n: (draw(n),), {"n": [3, 11, 12, 120, 250]}),
    "scan": (
        lambda w, xs: np.sum(
            tracker.scan(lambda h, x: (np.tanh(w @ h + x), None), np.zeros(4), xs)[0]
        ),
        lambda steps: (draw(4, 4), draw(steps, 4)),
        {"steps": MANY},
    ),
    "LAPACK and loops": (
        lambda a, b: b @ np.linalg.solve(a, b) + np.sum(np.log(np.diag(np.linalg.cholesky(a)))),
        lambda n: (spd(n), draw(n)),
        {"n": [2, 10, 24, 25, 26, 70]},
    ),
    "a matrix": (lambda x, s: np.cumsum(x * s, axis=0).T, lambda n: (draw(n, 4), 2.5), {"n": MANY}),
    "complex": (
        lambda z: np.sum(np.abs(z @ z.T)),
        lambda n: (draw(n, n) + 1j * draw(n, 1),),
        {"n": [2, 12, 40, 41]},
    ),
    "nothing": (lambda x: np.sum(x) + 1.0, lambda n: (draw(n),), {"n": [0, 1]}),
}


@needs_cc
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_object_for_all_sizes(tmp_path, name):
    f, arguments, sizes = PROGRAMS[name]
    c = library(tmp_path, f, arguments, name="f", sizes=sizes)
    for choice in np.stack(np.meshgrid(*sizes.values()), -1).reshape(-1, len(sizes)).tolist():
        made = arguments(*choice)
        made = made if isinstance(made, tuple) else (made,)
        assert_same_as_jitted(c, "f", f, made, choice)


@needs_cc
def test_another_size_is_refused(tmp_path):
    """And nothing is written."""
    sizes = {"n": range(2, 6), "k": [3, 30]}
    c = library(tmp_path, lambda x: np.sum(x), lambda n, k: draw(n, k), name="f", sizes=sizes)
    for choice in ((1, 3), (6, 3), (-1, 3), (2, 4), (2**40, 3)):
        assert call(c.f, (draw(2, 3),), [0.0], choice) == (2, [7.0])
        assert call(c.f_gradient, (draw(2, 3),), [0.0, draw(2, 3)], choice)[0] == 2
    assert call(c.f, (draw(5, 30),), [0.0], (5, 30))[0] == 0


@needs_cc
def test_another_branch_is_told_at_each_size(tmp_path):
    sizes = {"n": [2, 20, 30]}
    f = lambda x: np.sum(x**2) if x[-1] > 0 else np.sum(x)  # noqa: E731
    c = library(tmp_path, f, lambda n: np.ones(n), name="f", sizes=sizes)
    for n in sizes["n"]:
        assert call(c.f, (np.ones(n),), [0.0], (n,)) == (0, [float(n)])
        assert call(c.f, (-np.ones(n),), [0.0], (n,))[0] == 1


def test_sizes_share_their_code(tmp_path):
    """Twenty further sizes add tables, not machine code."""

    def exported(sizes):
        made, _ = export(
            lambda x: np.sum(np.exp(x[1:]) * np.tanh(x[:-1])),
            lambda n: np.ones(n),
            path=tmp_path / "f",
            sizes={"n": sizes},
        )
        return os.path.getsize(made)

    one = exported([50])
    assert exported(range(50, 70)) < 2 * one + 20 * 1000


def test_the_header_says_extents_in_sizes(tmp_path):
    def f(x, y, short):
        return x[:-1], np.append(y, y), y[: len(y) // 2], np.outer(x, y).ravel()

    _, header = export(
        f,
        lambda n, k: (draw(n), draw(k, 3)[:, 0], draw(2)),
        path=tmp_path / "f",
        sizes={"n": range(4, 9), "k": [3, 5]},
    )
    text = header.read_text()
    assert " * n: 4 to 8; for others, a function returns 2.\n" in text
    assert " * k: 3 or 5; for others, a function returns 2. */\n" in text
    assert "/* x[n], y[k], short_[2], value0[n - 1], value1[2 * k], value2[1 to 2], " in text
    assert "value3[n * k] */" in text
    assert "int f(int64_t n, int64_t k, const double *x, const double *y" in text


def test_a_size_keeps_its_name(tmp_path):
    _, header = export(
        lambda n, k: np.sum(n) * k,
        lambda n: (np.ones(n), 2.0),
        path=tmp_path / "f",
        sizes={"n": [3]},
    )
    assert "int function(int64_t n, const double *n_, double k, double *value);" in (
        header.read_text()
    )


@pytest.mark.parametrize(
    "args, sizes, text",
    [
        ((np.ones(3),), {"n": [3]}, r"takes a function of the sizes.*Write lambda n: \(np.ones"),
        ((), {"n": [3]}, "takes a function of the sizes"),
        ((lambda m: np.ones(m),), {"n": [3]}, "does not take n by name"),
        ((lambda n: np.ones(n),), {"n": []}, r"the size n has the values \[\].*range\(2, 101\)"),
        ((lambda n: np.ones(n),), {"n": 5}, r"the size n has the values 5"),
        ((lambda n: np.ones(n),), {"n": [2.5]}, r"the size n has the values \[2.5\]"),
        ((lambda n: np.ones(n),), {"n": [-1, 2]}, r"the size n has the values \[-1, 2\]"),
        *(
            ((lambda n: np.ones(n),), {name: [2]}, f"'{name}' is no name that a size can have")
            for name in ("long", "a b", "value", "value1", "d_x")
        ),
        (
            (lambda n: np.ones([2] * n),),
            {"n": [1, 2]},
            r"at n = 2, f takes x \(float64, 2 axes\), but else x \(float64, 1 axes\)",
        ),
        ((lambda n: np.ones(3) if n > 1 else 1,), {"n": [1, 2]}, r"x \(float64, 1 axes\), but"),
    ],
)
def test_errors(tmp_path, args, sizes, text):
    with pytest.raises(CompileError, match=text):
        export(lambda x: np.sum(x), *args, path=tmp_path / "f", name="f", sizes=sizes)


def test_results_of_other_types(tmp_path):
    with pytest.raises(CompileError, match=r"at n = 2, f gives .* Let only extents depend"):
        export(
            lambda x: x * 2 if len(x) > 1 else x[0] * 2,
            lambda n: np.ones(n),
            path=tmp_path / "f",
            name="f",
            sizes={"n": [1, 2]},
        )


def test_gradients_of_other_arguments(tmp_path):
    """An integer has a gradient only where a result depends on its value."""
    with pytest.raises(CompileError, match=r"at n = 2, f gives .*d_k.*, but else"):
        export(
            lambda x, k: np.sum(x) * (k if len(x) > 1 else 1),
            lambda n: (np.ones(n), 3),
            path=tmp_path / "f",
            name="f",
            sizes={"n": [1, 2]},
        )


@needs_cc
def test_calls_from_two_threads(tmp_path):
    """C code may call one function for two sizes at once: it keeps nothing between calls."""
    from concurrent.futures import ThreadPoolExecutor

    f = lambda x: np.sum(np.sin(x))  # noqa: E731
    c = library(tmp_path, f, lambda n: np.ones(n), name="f", sizes={"n": [40, 2000]})
    c.f.restype = ctypes.c_int

    def run(n):
        return [call(c.f, (np.ones(n),), [0.0], (n,))[1][0] for _ in range(200)]

    with ThreadPoolExecutor(2) as pool:
        for n, found in zip((40, 2000), pool.map(run, (40, 2000)), strict=True):
            np.testing.assert_allclose(found, n * np.sin(1.0), rtol=1e-12)
