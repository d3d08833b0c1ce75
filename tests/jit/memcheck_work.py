"""The workload of `memcheck.py`: every kind of native call, on arrays of many lengths.

Lengths lie around the widths of vectors, so that a loop that reads or writes a whole vector too
many leaves its block; results are compared with NumPy's, so that unset values show, too.
"""

from __future__ import annotations

import threading
from typing import Any

import jit_programs
import numpy as np
import smoke_jit
import smoke_native
from compiled import agree
from hypothesis import HealthCheck, Phase, given, seed, settings
from side_by_side import program, rows
from stateful_objects import MACHINES, Adam
from test_branch_guards import Ways
from test_container_writes import Containers
from test_raised_errors import Written
from test_state_writes import Programs

import tracker as tr
from tracker import gradient, jit

RNG = np.random.default_rng(0)
LENGTHS = (1, 2, 3, 5, 7, 9, 17, 31, 33, 67, 131)
DTYPES = ("f8", "f4", "c16", "i8", "i4", "u1", "?")


def run(programs: int) -> None:
    """All of it; prints its progress."""
    parts = (native, lengths, matrices, structures, tables, loops, threads)
    for part in (*parts, callbacks):
        part()
        print(part.__name__, flush=True)
    random_programs(programs)


def native() -> None:
    left = {smoke_native.check_references, smoke_native.check_threads}  # many calls, for counts
    left |= {smoke_native.check_static_objects_are_not_kept}  # waits for an address to come again
    for check in smoke_native.CHECKS:
        if check not in left:
            check()
    smoke_jit.check_values_and_gradients()
    smoke_jit.check_branches()
    smoke_jit.check_structures_and_products()


def _array(n: int, dtype: str) -> Any:
    x = RNG.normal(size=n)
    return x + 1j * x[::-1] if dtype == "c16" else (3 * x).astype(dtype)


def _elementwise(x: Any) -> Any:
    return x * 2 + x[::-1], x[1:] * x[:-1], np.sum(x), np.cumsum(x), np.where(x != 0, x, 1)


def _transcendental(x: Any) -> Any:
    y = np.sin(x) * np.exp(-x * x) + np.tanh(x) + np.log1p(np.abs(x)) + np.arctan2(x, 1.5)
    return y, np.max(y), np.sort(y), np.argsort(y), y[y > 0.3], y[::-2] * x[::2]


def _scatters(x: Any, at: Any) -> Any:
    y = x * 1.5
    y[at] = x[at] * 2
    np.add.at(y, at, 0.5)
    y[x > 0.5] *= 0.5
    x[1:] = x[:-1] * 0.5
    return y, np.concatenate([x, y[:1]]), np.repeat(y, 3), np.roll(y, 1)


def lengths() -> None:
    for n in LENGTHS:
        for dtype in DTYPES:
            if dtype in ("f8", "f4") or n in (3, 33):
                agree(_elementwise, _array(n, dtype))
        for dtype in ("f8", "f4"):
            x = _array(n, dtype)
            agree(_transcendental, x)
            if n in (1, 5, 33, 131):
                agree(_scatters, x, RNG.integers(-n, n, n))
                agree(lambda x: gradient(lambda x: np.sum(_transcendental(x)[0] ** 2), x), x)


def _products(a: Any, b: Any) -> Any:
    return a @ b, b.T @ a.T, np.sum(a, 0), np.mean(b, 1), a.T * 2, np.max(a, 1, keepdims=True) * a


def _dense(a: Any) -> Any:
    m = a @ a.T * 0.1 + 2.0 * np.eye(len(a))
    solved = np.linalg.solve(m, a)
    return solved, np.linalg.inv(m), np.linalg.cholesky(m), np.linalg.slogdet(m)[1] * 1.0


def matrices() -> None:
    for m, k, n in ((1, 3, 2), (5, 7, 3), (9, 17, 33), (40, 31, 5)):
        for dtype in ("f8", "f4"):
            a, b = _array(m * k, dtype).reshape(m, k), _array(k * n, dtype).reshape(k, n)
            agree(_products, a, b)
        agree(_dense, a.astype("f8"))
        agree(lambda a: gradient(lambda a: sum(np.sum(y) for y in _dense(a)), a), a.astype("f8"))
        agree(lambda a: np.sum(np.linalg.eigvalsh(a @ a.T)), a.astype("f8"))


def structures() -> None:
    p = {"a": [np.ones(3), (2.5, np.arange(5.0))], "b": np.float32(1.5), "name": "text"}

    def f(p: Any) -> Any:
        return {"y": p["a"][0] * p["b"], "z": (p["a"][1][1] * p["a"][1][0], p["a"][0])}

    agree(f, p)
    agree(lambda p: gradient(lambda p: np.sum(f(p)["y"]) + np.sum(f(p)["z"][0]), p), p)
    agree(lambda x, y: (x + y, x[0], y), np.ones((3, 5))[::-1, ::2], np.asfortranarray(np.eye(3)))


def tables() -> None:
    """Branches, writes, errors, and objects that a call changes."""
    for table in (Ways, Containers, Written, Programs):
        for row in rows(table).values():
            row.check()
    for cls in MACHINES:
        if cls is not Adam:
            program(np.ones(3), times=4, state=cls, given=True)(lambda x, s: s.step(x)).check()


def loops() -> None:
    def scanned(x: Any) -> Any:
        return tr.scan(lambda c, v: (c * 0.5 + np.sin(v), c * v), np.zeros(3), x)[0]

    xs = RNG.normal(size=(7, 3))
    agree(scanned, xs)
    agree(lambda xs: gradient(lambda xs: np.sum(scanned(xs) ** 2), xs), xs)
    agree(lambda x: tr.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 0.5), (0, x)), xs)
    agree(lambda x: tr.cond(np.sum(x) > 0, lambda x: x * 2, lambda x: x - 1, x), xs)


def threads() -> None:
    big = RNG.normal(size=120_001)

    def f(x: Any) -> Any:
        return np.sum(np.tanh(x) * x), x[1:] - x[:-1]

    agree(f, big)
    compiled, want = jit(lambda x: np.sum(x * x)), np.sum(big * big)
    workers = [threading.Thread(target=lambda: [compiled(big) for _ in range(3)]) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert np.isclose(compiled(big), want)


def callbacks() -> None:
    smoke_jit.check_draws()
    for n in (0, *LENGTHS):
        for dtype in DTYPES:
            agree(lambda x: np.random.default_rng(3).permutation(x + x), _array(n, dtype))
    ours = jit(lambda x, s, r: x * r.normal(0.0, s, size=x.shape) + r.normal(x, s))
    for s in (1.0, 2.0, -1.0, 1.0):
        try:
            ours(_array(5, "f8"), s, RNG)
        except ValueError:
            assert s < 0

    def walk(x, s, r):
        for _ in range(60):
            x = 0.9 * x + r.normal(np.sin(x), s) + 0.1 * x * x / (1 + x * x)
        return x if x[0] > 0 else -x

    looped = jit(walk)
    for s in (1.0, 2.0, -1.0, 1.0):
        try:
            looped(_array(3, "f8"), s, RNG)
        except ValueError:
            assert s < 0
    assert "loop of" in looped.explain(_array(3, "f8"), 1.0, RNG)


def random_programs(count: int) -> None:
    """Drawn programs and their gradients; the same ones in every run."""
    options = {"phases": [Phase.generate], "suppress_health_check": list(HealthCheck)}

    @seed(1)
    @settings(max_examples=count, database=None, deadline=None, **options)
    @given(program=jit_programs.programs("mixed"))
    def each(program: jit_programs.Program) -> None:
        compiled, slope = jit(program), jit(lambda *xs: gradient(program.loss, *xs))
        for arguments in (program.arguments, program.arguments, program.others(1)):
            for f in (compiled, slope):
                jit_programs.outcome(f, program.copies(arguments))

    each()
