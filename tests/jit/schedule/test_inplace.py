"""Compiled in-place updates: values and gradients of the plain programs, whichever old versions are
still read; and work and code proportional to the slices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from compiled import agree
from equality import assert_same
from hypothesis import given
from hypothesis import strategies as st

from tracker import gradient, jit
from tracker.jit.schedule import plan
from tracker.jit.schedule.plan_data import UNROLL_LIMIT, Kernel

# Programs -----------------------------------------------------------------------------------------


@dataclass
class Program:
    """Statements on a list of arrays of one shape and on a list of the values read so far."""

    arrays: list[Any]
    lines: list[tuple[str, Any]] = field(default_factory=list)

    def __call__(self, *arrays: Any) -> Any:
        arrays_, kept = [a.copy() for a in arrays], [1.5]
        for _, run in self.lines:
            run(arrays_, kept)
        return (*arrays_, *kept[-6:])

    def loss(self, *arrays: Any) -> Any:
        total = 0.5
        for k, y in enumerate(self(*arrays)):
            total = total + np.sum(np.sin(y) * (1.0 + 0.1 * k))
        return total

    def __repr__(self) -> str:
        return "\n".join(["", str(self.arrays[0].shape), *(text for text, _ in self.lines)])


def _index(draw: Any, shape: tuple[int, ...]) -> Any:
    """Elements, rows, columns, blocks, the same backwards or in steps."""
    parts = []
    for n in shape:
        kind = draw(st.sampled_from(["int", "int", "all", "range", "step", "back"]))
        a, b = sorted((draw(st.integers(0, n)), draw(st.integers(0, n))))
        parts.append(
            {
                "int": min(a, n - 1),
                "all": slice(None),
                "range": slice(a, b),
                "step": slice(a, b, 2),
                "back": slice(b, a, -1),
            }[kind]
        )
    return tuple(parts)


def _write(draw: Any, count: int, shape: tuple[int, ...]) -> tuple[str, Any]:
    """t[i] = a value read before, a number, elements of another (or the same) array, or a sum."""
    t, s, k = (draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1)), _back(draw))
    i, shift = _index(draw, shape), draw(st.integers(0, 2))
    kind = draw(st.sampled_from(["number", "kept", "elements", "shifted", "adds", "scales"]))

    def run(arrays: Any, kept: Any) -> None:
        x = kept[-1 - k % len(kept)]
        target = arrays[t]
        if kind == "number":
            target[i] = 0.25 * (k + 1)
        elif kind == "kept":
            target[i] = np.tanh(np.sum(x))
        elif kind == "elements":
            target[i] = np.sin(arrays[s][i])
        elif kind == "shifted":
            target[i] = np.roll(arrays[s], shift)[i] * 0.5 + arrays[s][i] * np.cos(np.sum(x))
        elif kind == "adds":
            target[i] += 0.5 * np.tanh(np.sum(x)) * arrays[s][i]
        else:
            target[i] *= 0.9

    return f"{kind} a{t}[{i}] from a{s}, kept {k}, shift {shift}", run


def _copy(draw: Any, count: int, shape: tuple[int, ...]) -> tuple[str, Any]:
    """t[i] = s[j], of equal shapes; s may be t."""
    t, s = draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))
    i, j = _index(draw, shape), _index(draw, shape)
    if np.zeros(shape)[i].shape != np.zeros(shape)[j].shape:
        j = tuple(0 if isinstance(part, int) else part for part in i)

    def run(arrays: Any, kept: Any) -> None:
        arrays[t][i] = arrays[s][j]

    return f"a{t}[{i}] = a{s}[{j}]", run


def _read(draw: Any, count: int, shape: tuple[int, ...]) -> tuple[str, Any]:
    """Read elements now, keep a view that sees later writes, or compute with elements."""
    t, i = draw(st.integers(0, count - 1)), _index(draw, shape)
    kind = draw(st.sampled_from(["copy", "view", "sum", "square", "flip", "whole", "dot", "scan"]))

    def run(arrays: Any, kept: Any) -> None:
        a = arrays[t]
        made = {
            "copy": lambda: a[i] * 1.0,
            "view": lambda: a[i],
            "sum": lambda: np.sum(a[i]),
            "square": lambda: a[i] * a[i],
            "flip": lambda: np.flip(a).reshape(-1)[3:],
            "whole": lambda: a * 0.5 + 1,
            "dot": lambda: np.dot(np.ravel(a[0]), np.ravel(np.copy(a)[-1])) * 0.1,
            "scan": lambda: np.cumsum(a.T, axis=0) * 0.1,
        }[kind]()
        kept.append(made)

    return f"keep {kind} a{t}[{i}]", run


def _whole(draw: Any, count: int, shape: tuple[int, ...]) -> tuple[str, Any]:
    """A new array, an old version of an array, or a write through a view."""
    t, s, k = draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1)), _back(draw)
    i = _index(draw, shape)
    kind = draw(st.sampled_from(["new", "old", "by view", "kept view", "scatter", "flat"]))

    def run(arrays: Any, kept: Any) -> None:
        if kind == "new":
            arrays[t] = np.tanh(arrays[s] + 0.1)
        elif kind == "old":
            arrays[t] = np.copy(arrays[s])
        elif kind == "by view":
            arrays[t].T[i[::-1]] = 0.75
        elif kind == "kept view" and np.ndim(kept[-1]):
            arrays[t].reshape(-1)[1] = kept[-1].reshape(-1)[:1].sum()
        elif kind == "scatter":
            arrays[t][np.array([k % 3, 1])] = arrays[s][0] * 0.5
        else:
            arrays[t].reshape(-1)[k] += 0.5

    return f"{kind} a{t} from a{s} {i} {k}", run


def _back(draw: Any) -> int:
    return draw(st.integers(0, 5))


@st.composite
def programs(draw: Any) -> Program:
    shape = draw(st.sampled_from([(40,), (6, 7), (3, 5, 4), (33, 2)]))
    count = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    program = Program([rng.normal(size=shape) for _ in range(count)])
    kinds = [_write, _write, _write, _copy, _read, _read, _whole]
    for _ in range(draw(st.integers(5, 24))):
        program.lines.append(draw(st.sampled_from(kinds))(draw, count, shape))
    return program


def _copies(arrays: Any) -> list[Any]:
    return [np.copy(a) for a in arrays]


@given(program=programs(), unrolled=st.sampled_from([UNROLL_LIMIT, 4]))
def test_programs(program, unrolled):
    compiled = jit(program)
    for scale in (1.0, 1.0, 0.5):
        arrays = [a * scale for a in program.arrays]
        want = program(*_copies(arrays))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plan, "UNROLL_LIMIT", unrolled)  # long programs unroll less
            assert_same(compiled(*_copies(arrays)), want, "result", 1e-12)


@given(program=programs())
def test_gradients_of_programs(program):
    compiled, whole = jit(program.loss), jit(lambda *xs: gradient(program.loss, *xs))
    for scale in (1.0, 0.5):
        arrays = [a * scale for a in program.arrays]
        want = gradient(program.loss, *_copies(arrays))
        assert_same(gradient(compiled, *_copies(arrays)), want, "gradient of jit", 1e-11)
        assert_same(whole(*_copies(arrays)), want, "jit of gradient", 1e-11)


# What is planned ----------------------------------------------------------------------------------


def _sweep(x: Any) -> Any:
    y = x.copy()
    for k in range(1, len(y) - 1):
        y[k] = (y[k - 1] + y[k + 1] + np.sum(y[k : k + 3])) / 4
    return y


def _triangular(x: Any) -> Any:
    """Reads rows that are final, and others that are not."""
    a = x.reshape(7, 7).copy()
    for i in range(7):
        for j in range(i):
            a[i, j] = (a[i, j] - a[i, :j] @ a[j, :j]) / (2 + a[j, j])
    return a


def _wholes(compiled: Any, size: int) -> list[Any]:
    """The loops over a whole array that a compiled function's writes need."""
    (family,) = compiled._jitted.groups.values()
    plans = [piece.plan for piece in family.specializations[0].compiled.pieces]
    steps = [step for plan in plans for level in plan.writes.values() for step in level]
    return [s for s in steps if isinstance(s, Kernel) and math.prod(s.space) == size]


@pytest.mark.parametrize("f", [_sweep, _triangular])
def test_an_array_is_copied_once_for_all_writes(f):
    x = np.linspace(-1.0, 1.0, 49)
    compiled = agree(f, x, others=[(x + 0.5,)])
    assert len(_wholes(compiled, 49)) <= 1  # the triangular loop is rolled


@pytest.mark.parametrize("f", [_sweep, _triangular])
def test_cotangents_are_updated_in_place(f):
    def slope(x: Any) -> Any:
        return gradient(lambda y: np.sum(np.sin(f(y))), x)

    x = np.linspace(-1.0, 1.0, 49)
    compiled = agree(slope, x, others=[(x + 0.5,)], tolerance=1e-10)
    assert len(_wholes(compiled, 49)) <= 2  # the array's own, and the cotangent's


def test_a_later_read_of_the_old_array_needs_a_copy():
    def f(x: Any) -> Any:
        y, olds = x.copy(), []
        for k in range(8):
            if k in (2, 5):
                olds.append(y.copy())
            y[k] = np.sum(y[k : k + 3]) * 0.5
        return y, olds[0] * y, olds[1] - olds[0]

    x = np.linspace(-1.0, 1.0, 49)
    compiled = agree(f, x, others=[(x + 0.5,)])
    assert len(_wholes(compiled, 49)) == 3


@pytest.mark.parametrize("turned", [False, True])
def test_expressions_of_old_contents_do_not_read_new_ones(turned):
    """The cotangent is read at the rows, then cleared there; a sum of the read values
    comes later."""

    def loss(x: Any) -> Any:
        x[[0, -1]] += np.sum(x) * 0.01
        return np.sum(np.sin((x.T @ x if turned else x @ x.T) * 0.1))

    x = np.random.default_rng(0).normal(size=(5, 40))
    agree(lambda x: gradient(loss, x), x.copy(), tolerance=1e-10)


def test_a_product_reads_the_view_although_it_is_copied():
    def f(x: Any, y: Any) -> Any:
        turned = (x * 1.0).T
        return turned @ y, turned.reshape(-1) * 2.0

    rng = np.random.default_rng(0)
    agree(f, rng.normal(size=(60, 50)), rng.normal(size=60))


@pytest.mark.parametrize("n", [9, 12, 20])
def test_edges_are_copied_from_adjacent_rows(n, monkeypatch):
    """The slices read and written begin within one pointer's reach of each other."""
    monkeypatch.setattr(plan, "UNROLL_LIMIT", 8)  # as in a long program

    def halo(x, y):
        x = x.copy()
        x[1:-1, 1:-1] = 2.0 * y
        x[0, 1:-1] = x[1, 1:-1]
        x[-1, 1:-1] = x[n, 1:-1]
        x[1:-1, 0] = x[1:-1, 1]
        x[1:-1, -1] = -x[1:-1, n]
        x[0, 0] = 0.5 * (x[0, 1] + x[1, 0])
        return x

    rng = np.random.default_rng(n)
    x, y = rng.random((n + 2, n + 2)), rng.random((n, n))
    agree(halo, x, y, tolerance=0, strict=True)


def windows(k):
    def f(x, w):
        n = len(x) - k + 1
        return np.sum(
            sum(w[i, j] * x[i : i + n, j : j + n] for i in range(k) for j in range(k)) ** 2
        )

    return f


@pytest.mark.parametrize("n, k, pieces", [(40, 3, True), (80, 3, False), (80, 8, True)])
def test_slices_that_are_most_of_an_array(n, k, pieces):
    """A few of them are one loop over the array, unless it is small."""
    x, w = (np.random.default_rng(0).standard_normal(shape) for shape in ((n, n), (k, k)))
    slope = agree(lambda x, w: gradient(windows(k), x, w), x, w, tolerance=1e-11)
    assert ("piece by piece" in slope.explain(x, w)) == pieces


@pytest.mark.parametrize("shape", [(77,), (7, 11)])
def test_a_result_is_not_a_view_of_a_later_update(shape):
    def halved_twice(x):
        x[x < 0.1] = x[x < 0.1] * 0.5
        y = x.copy()
        y[y < 0.1] = y[y < 0.1] * 0.5
        return x * 1, y

    agree(halved_twice, np.linspace(-1.0, 1.0, 77).reshape(shape), tolerance=0)


def smoothed(x, axis):
    rows, s = [], x[0]
    for row in [*x]:  # which is not rolled
        s = 0.9 * s + 0.1 * row
        rows.append(s)
    return np.stack(rows, axis)


STACKS = {
    "rows of a loop": lambda x: smoothed(x, 0),
    "columns of a loop": lambda x: smoothed(x, -1),
    "numbers": lambda x: np.stack([x[i, i % 4] * i for i in range(len(x))]),
    "both ways": lambda x: (
        np.stack([x[:, i % 4] * (i + 1) for i in range(20)], 1) + smoothed(x, 0)[:, :1]
    ),
    "kinds": lambda x: np.stack([row if i % 3 else row > 0 for i, row in enumerate(x)], 1),
    "parts of one": lambda x: np.stack([np.ravel(x)[i : i + 9] for i in range(0, 60, 2)]),
    "one many times": lambda x: np.stack([x[0], x[1]] * 12, 1) * x[:2].T[:, :1],
}


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("n", [40, 300])
def test_many_stacked_rows_are_written_one_by_one(name, n):
    """Selecting among n rows for each element would take n times as long."""
    f = STACKS[name]
    x = np.random.default_rng(0).normal(size=(n, 4))
    weights = np.random.default_rng(1).normal(size=f(x).shape)
    fast = agree(f, x, tolerance=1e-13)
    agree(lambda x: gradient(lambda x: np.sum(f(x) * weights), x)[0], x, tolerance=1e-13)
    assert "written piece by piece" in fast.explain(x)


def test_rows_of_a_stored_value_stay_where_they_are():
    """Products read them in place, before and after what the value was made of is overwritten."""

    rows = [[*range(j)] for j in range(9)]

    def f(x, y, z, u, v):
        x, y, u = x.copy(), y.copy(), u.copy()
        for i in [0, 1, 2]:
            z = z + y.T
            for j in [1, 2, 3, 4, 5, 6, 7, 8]:
                for k in rows[j]:
                    x[k, k] = 0.5 * v[i] + 0.3 * x[j, 0]
                    u[...] = np.tanh(x @ z[j])
                y[j] = 0.5 * x[i] + 0.2 * u
        return np.sum(x * y)

    rng = np.random.default_rng(0)
    agree(lambda *a: gradient(f, *a), *rng.normal(size=(3, 9, 9)), *rng.normal(size=(2, 9)))
