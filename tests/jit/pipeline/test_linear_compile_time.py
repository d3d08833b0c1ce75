"""Compile time is linear in the program, in each file of the compiler, counted in interpreter
steps; long arithmetic with guards stays one basic block.

Some loops go through a list: those over a range are rolled up before the passes see them.
"""

import collections
from pathlib import Path

import numpy as np
import pytest
from counting import lines_by_file

import tracker
from tracker.jit.llvm import engine
from tracker.jit.runtime.compile_queue import drain

RNG = np.random.default_rng(0)
X = RNG.standard_normal(40)
W = RNG.standard_normal((33, 33)) * 0.1
ROWS = RNG.standard_normal((4000, 33))
LINE = RNG.standard_normal(400) * 0.3
PLACES = [np.arange(5) * (k + 1) for k in range(5)]
FACTORS = [RNG.standard_normal((3, 3)) * 0.5 for _ in range(64)]
ROOT = Path(tracker.__file__).parent


PASSES = "manager dead_code common_subexpressions simplify rewriter verify"
PRODUCTS = "matmul_rewrites linalg_dtypes"
PROGRAMS = []


def program(n, args, files):
    """Decorator: a program of `n` steps and more, and the files that are at work in it."""
    return lambda f: PROGRAMS.append(pytest.param(f, n, args, files, id=f.__name__)) or f


@tracker.custom_gradient
def _ruled(x):
    return np.sin(x), lambda g: (g * np.cos(x),)


class Programs:
    @program(16, (0.3,), f"{PASSES} ir_builder")
    def scalars(n, x):
        y = x
        for _ in [*range(n)]:
            y = (y * x + 0.3) * y / (1.0 + y * y)
        return y

    @program(20, (X,), PASSES)
    def vectors(n, x):
        y = x
        for k in [*range(n)]:
            y = np.sin(y) * x + y[::-1] / (k + 1.0)
        return np.sum(y)

    @program(50, (X,), "memory_ssa structural_keys write_chains inplace partition")
    def writes(n, x):
        y = np.zeros_like(x)
        for k in [*range(n)]:
            y[k % 40] = x[k % 7] * k + y[(k + 1) % 40]
        return np.sum(y * x)

    @program(1, (X,), "memory_ssa real plan registers unrolled")
    def sweeps(n, x):
        """Reads and writes of single elements, the writes far apart from the reads."""
        y = x.copy()
        for _ in [*range(n)]:
            for k in [*range(1, 39)]:
                y[k] = (y[k - 1] + y[k + 1]) / 2
        return np.sum(y)

    @program(24, (W, ROWS), f"{PRODUCTS} loop_nest affine")
    def steps(n, w, rows):
        h = np.zeros(33)
        total = 0.0
        for t in range(n):
            h = np.tanh(rows[t] @ w + h @ w)
            total = total + np.sum(h * h)
        return total

    @program(60, (0.3,), "reverse")
    def ruled(n, x):
        """Calls of a function with a rule of its own, two derivatives of them."""

        def chain(y):
            for k in range(n):
                y = _ruled(y * (k % 3 + 1.0))
            return y

        return tracker.gradient(chain, x)[0]

    @program(6, (X[:9],), "fingerprint prune_results")
    def scanned(n, x):
        """Loops; every other stack is unused."""
        total = 0.0
        for k in range(n):
            last, stack = tracker.scan(lambda c, r, k=k: (c * 0.9 + r * k, np.sin(c)), x[0], x)
            total = total + last * (np.sum(stack) if k % 2 else 1.0)
        return total

    @program(20, (X * 0.001,), PASSES)
    def kept(n, x):
        """Every value is live until the end."""
        parts = [np.exp(x * k) for k in range(1, n)]
        return np.sum(sum(p * q for p, q in zip(parts, reversed(parts), strict=True)))

    @program(8, [X[:4] + k for k in range(48)], "inplace lower")
    def joined(n, *xs):
        """Many arrays side by side, each with a gradient of its own."""
        return np.sum(np.concatenate([np.sin(x) * (k + 1.0) for k, x in enumerate(xs[:n])]) ** 2)

    @program(8, (X * 0.01,), "plan")
    def apart(n, x):
        """Independent values that could all be one kernel, which must be split."""
        return sum(np.sum(each(x * k)) for k in range(n) for each in (np.sin, np.tanh, np.cos))

    @program(8, (LINE,), "kernel_modules write_chains inplace loop_nest plan_data plan")
    def spans(n, x):
        """Slices of many places and lengths, written and read: no two steps alike."""
        y = x.copy()
        for k in range(n):
            i, j, m = k * 7919 % 61, k * 104729 % 59, 150 + k * k % 37
            y[i : i + m] = y[j : j + m] * 0.5 + x[k]
        return np.sum(y * y)

    @program(6, (X, *PLACES), "expand loop_body affine loop_order")
    def gathered(n, x, *places):
        return sum(
            np.sum(x[places[k * k % 5]] * np.cos(x[k * 7 % 31])) * (k * k % 11) for k in range(n)
        )

    @program(4, FACTORS, "matmul lower")
    def factors(n, *ms):
        """The terms of the pullback of `m @ m.T` have a common factor."""
        return sum(np.sum(np.sin(m @ m.T) * m[0, 0]) for m in ms[:n])

    @program(30, (0.3,), f"{PASSES} expand")
    def guarded(n, x):
        y = x
        for k in [*range(n)]:
            y = np.sin(y) * 1.5 + x if y > k * k % 7 * 0.1 - 0.3 else y * 0.5 - x
        return y

    @program(16, (X[:5],), "expand real registers unrolled")
    def careful(n, x):
        """Infinities multiplied by strong zeros."""
        y = x
        for k in range(n):
            y = y + np.sum(np.sqrt(x - x)) * (k * k % 7)
        return np.sum(y)

    @program(6, (X,), "expand loop_body")
    def masked(n, x):
        return sum(np.sum(x[x > k * k % 7 * 0.1] * (k * k % 11)) for k in range(n))


class Lowered(Exception):
    """Lower to LLVM text."""


def counted(f, *args):
    """Lines of our Python that run while a gradient is traced and compiled, by file: all of it in
    this thread, up to where LLVM begins."""
    fast = tracker.jit(lambda *a: tracker.gradient(f, *a))

    def call():
        with tracker.config(threads=1), pytest.raises(Lowered):
            fast(*args)

    return lines_by_file(call, ROOT)


@pytest.mark.parametrize(("f", "n", "args", "files"), PROGRAMS)
def test_twice_the_program_takes_about_twice_the_steps(f, n, args, files, monkeypatch):
    """In every file; `files` (their names) are at work in this program."""

    def stop(text, *, level=engine.OPTIMISED, symbols=None):
        raise Lowered

    tracker.jit(lambda *a: tracker.gradient(lambda *b: f(3, *b), *a))(*args)  # fills caches
    drain()
    monkeypatch.setattr(engine, "compile_module", stop)
    once, twice, four = (counted(lambda *a, k=k: f(k * n, *a), *args) for k in (1, 2, 4))
    some = 0.02 * four.total()  # of caches that start with the second length
    more = [x for x in twice if four[x] > 3 * max(twice[x], 2 * once[x]) + some]
    assert not more, [(file, once[file], twice[file], four[file]) for file in more]
    steps = collections.Counter({Path(file).stem: count for file, count in four.items()})
    idle = [file for file in files.split() if steps[file] < 10 * n]
    assert not idle, idle


def test_guards_do_not_split_basic_blocks():
    slope = tracker.value_and_grad(lambda y: Programs.scalars(100, y))
    fast = tracker.jit(lambda x: slope(x))
    fast(0.3)
    (family,) = fast._jitted.groups.values()
    text = family.specializations[0].compiled.pieces[0].modules[0].text
    assert engine.longest_block(text) > 1000
    assert fast(0.3) == pytest.approx(slope(0.3))


@pytest.mark.parametrize("at", [0, 3, 7])
def test_postponed_guards_are_checked(at):
    def f(x, ys):
        for y in ys:
            x = x / y + (1 << int(y)) / (y + 3.0)
        return x

    fast = tracker.jit(f)
    ys = [float(k + 1) for k in range(8)]
    fast(1.5, ys)
    assert fast(2.5, ys) == pytest.approx(f(2.5, ys))
    ys[at] = 0.0
    with pytest.raises(ZeroDivisionError):
        fast(2.5, ys)
    ys[at] = -3.0
    with pytest.raises((ZeroDivisionError, ValueError)):
        fast(2.5, ys)


def test_integer_overflow_and_negative_shifts():
    def f(n, k):
        for _ in range(12):
            n = n * n + 1
            n = n - (n >> k)
        return n

    fast = tracker.jit(f)
    for n, k in ((0, 60), (3, 1), (2, 2), (1, 50)):
        assert fast(n, k) == f(n, k)
    with pytest.raises(ValueError, match="negative shift"):
        fast(1, -1)


def limited(*fields):
    """Slopes and fluxes of many fields, each computed from its neighbours."""
    slopes = []
    for q in fields:
        left, right = q - np.roll(q, 1, 0), np.roll(q, -1, 1) - q
        least = np.minimum(np.abs(left), np.abs(right)) * np.sign(left)
        slopes.append(np.where(left * right > 0, least, 0.0))
    flux = []
    for k, q in enumerate(fields):
        up, down = q - 0.5 * slopes[k], np.roll(q + 0.5 * slopes[k - 1], 1, 0)
        wave = np.maximum(np.abs(up), np.abs(down)) * (up - down)
        flux.append(0.5 * (up * up + down * slopes[k - 2]) - wave)
    pairs = zip(flux, flux[1:] + flux[:1], strict=True)
    return sum(np.sum((f - np.roll(f, -1, 0)) ** 2 * np.roll(g, 1, 1)) for f, g in pairs)


def test_kernels_are_split_before_they_are_too_long_to_vectorise():
    fields = RNG.standard_normal((14, 140, 130))
    fast = tracker.jit(lambda *a: tracker.withgradient(limited, *a))
    fast(*fields)
    (family,) = fast._jitted.groups.values()
    texts = [module.text for module in family.specializations[0].compiled.pieces[0].modules]
    loops = max(texts, key=len)
    assert engine.longest_block(loops) < engine.MAX_OPTIMISED_CODEGEN_BLOCK
    (value, grads), want = fast(*fields), tracker.withgradient(limited, *fields)
    np.testing.assert_allclose(value, want.val, rtol=1e-12)
    np.testing.assert_allclose(grads, want.grad, rtol=1e-10, atol=1e-10)
