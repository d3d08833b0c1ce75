"""Nothing grows with the number of calls: objects, memory blocks, reference counts, the process.

Each case makes one kind of call, over and over. A thousand of them show a leak of an object in ten
calls; `TRACKER_HYPOTHESIS=deep` makes a million of the quick ones, and looks at the size of the
process, too, which shows what C and machine code forget.
"""

import contextvars
import dataclasses
import gc
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from stateful_objects import Nested, Slots

import tracker as tr
from tracker import gradient, jit
from tracker.jit.runtime.compile_queue import drain

DEEP = os.environ.get("TRACKER_HYPOTHESIS") == "deep"
BLOCKS = 100  # that caches of Python and NumPy may come to hold meanwhile
COMPILED = 4  # blocks that may stay of each new function: a hundred bytes, where code had megabytes
BYTES = 4 << 20  # as much for the process, whose allocator does not pack tightly
BY_LLVM = 16_000  # bytes that may stay of each new function; with one linker it was twice that

X, Y = np.linspace(0.1, 1.0, 8), np.linspace(0.5, 2.0, 8)
MATRIX = np.eye(5) * 3.0 + 0.1
BIG = np.linspace(0.0, 1.0, 300_000)


def _wave(x):
    return np.sum(np.sin(x) * x)


def _branch(x):
    return x * 2.0 if np.sum(x) > 0 else x - 1.0


def _fails(x):
    if np.sum(x) < 0:
        raise ArithmeticError("negative")
    return x * 2.0


def _writes(x, y):
    x[1:] = y[:-1] * 0.5
    y += 1.0
    np.clip(y, 0.0, 3.0, out=y)
    return x


def _matrix(a):
    return np.sum(np.linalg.solve(a @ a.T, a[0]))


@tr.custom_gradient(host=True)
def _host(x):
    if x[0] < 0:
        raise LookupError("no such thing")
    return x * 3.0, lambda g: (g * 3.0,)


def _scan(x):
    return tr.scan(lambda c, v: (c * 0.5 + np.sin(v), c), 0.0, x)[0]


@dataclasses.dataclass
class _Pair:
    a: object
    b: object


class _Machine:
    """State at places and in containers, of every kind that a call puts there."""

    def __init__(self):
        self.m, self.n, self.pair = np.zeros(8), 0, _Pair(0.0, X)
        self.table, self.items, self.log = {"x": X, 3: 1.0}, [0.0, (X, 1)], []

    def step(self, x):
        self.n += 1
        self.m = 0.9 * self.m + x
        self.pair.a, self.pair.b = self.pair.a * 0.5 + 1.0, self.m
        self.table["x"], self.table["new"] = x * 2.0, self.n
        self.items[0], self.items[1] = self.n * 1.5, (self.m, self.n)
        self.log.append(np.sum(x))
        if self.m[0] < -1.0:
            raise ArithmeticError("negative")
        return self.m * self.n

    def again(self, x):
        self.log.clear()
        return _step(self, x)


_step = jit(_Machine.step)


def _text(k):
    return f"number {k}"


def _more_calls():
    """As `_calls`: arguments and captures of other kinds, control flow, draws, what is exported."""
    v, absent, shown = contextvars.ContextVar("v", default=X), _Pair(X, 2.0), memoryview(Y.copy())
    rng = np.random.default_rng(0)
    named = jit(lambda x, *, scale, shift=None: x * scale if shift is None else x * scale + shift)
    pairs = jit(lambda p: _Pair(p.b, [p.a, p.a * 2.0]))
    drawn = jit(lambda x, g: x * g.random(8) + g.random())
    looped = jit(
        lambda x: tr.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * x), (0, x))
    )
    mapped = jit(lambda x: tr.vmap(lambda row: np.sum(np.sin(row)) * row)(x))
    in_context = jit(lambda x: x * v.get())
    tested = jit(lambda x: x * getattr(absent, "scale", 3.0) + getattr(absent, "b"))  # noqa: B009
    viewed, counted = jit(lambda x: x * shown[0]), jit(lambda x, n: [x * k for k in range(n)])
    second = jit(lambda x: tr.hessian(_wave, x))
    plain = jit(lambda x, p: x * 2.0 if p else x)
    alike = jit(lambda s: (s, X * len(s)))

    def in_new_context(k):
        contextvars.copy_context().run(lambda: (v.set(Y if k % 2 else X), in_context(X)))

    def write_in_view(k):
        shown[0] = 1.0 + k % 3
        return viewed(X)

    def part(k):
        return tr.pullback(array, X)[0]

    array = jit(_wave)
    machine, failing, total = _Machine(), _Machine(), 0.0

    @jit
    def summed(x):
        nonlocal total
        total = total * 0.5 + x[0]
        return total

    return {
        "state": (lambda k: machine.again(X), 0.3),
        "state in a cell": (lambda k: summed(X), 1),
        "state, and an error": (_raising(failing.again, X - 9.0, error=ArithmeticError), 0.001),
        "keywords": (lambda k: named(X, scale=2.0, shift=(None, Y)[k % 2]), 1),
        "dataclasses": (lambda k: pairs(_Pair(X, Y)), 0.3),
        "draws": (lambda k: drawn(X, rng), 0.1),
        "while_loop": (lambda k: looped(X), 0.5),
        "vmap": (lambda k: mapped(MATRIX), 0.5),
        "contexts": (in_new_context, 0.3),
        "missing attributes": (lambda k: tested(X), 0.5),
        "buffers": (write_in_view, 0.2),
        "integers": (lambda k: counted(X, k % 5), 0.3),
        "hessian": (lambda k: second(X), 0.3),
        "flags": (lambda k: plain(X, k % 2 == 0), 1),
        "texts made anew": (lambda k: alike(_text(k % 3)), 0.3),
        "values without their pullbacks": (part, 0.05),
        "a wrong key": (_raising(named, X, error=TypeError), 0.1),
        "explain": (lambda k: array.explain(X), 0.001),
    }


class _Model:
    def __init__(self):
        self.w, self.k, self.out = np.ones(8), 2.5, np.ones(8)
        self.layers, self.named = [np.ones(8), np.ones(8)], {"a": np.ones(8)}

    def __call__(self, x, p):
        if x < 0:
            raise ArithmeticError("negative")
        self.out[0] = x
        total = x * self.w * self.k + self.layers[1] + self.named["a"] + p["q"]
        return {"y": total, "written": self.out}


MODEL, P, NESTED, SLOTS = _Model(), {"q": np.ones(8)}, Nested(), Slots()


def _captured_calls():
    """As `_calls`: objects that are captured, or change at each call."""
    captured = jit(lambda x, p: MODEL(x, p))
    nested, slots, three = jit(Nested.step), jit(Slots.step), X[:3].copy()
    return {
        "captured objects": (lambda k: captured(1.5, P), 1),
        "captured objects, and an error": (
            _raising(captured, -1.5, P, error=ArithmeticError),
            0.03,
        ),
        "objects within others": (lambda k: nested(NESTED, three), 1),
        "objects with slots": (lambda k: slots(SLOTS, three), 1),
    }


def _raising(f, *arguments, error):
    def call(k):
        with pytest.raises(error):
            f(*arguments)

    return call


def _calls():
    """Name to call by number, and the part of all calls to make (slow ones: fewer)."""
    scalar, array, branch = jit(lambda x: x * x + 1.0), jit(_wave), jit(_branch)
    slope, fails, matrix = jit(lambda x: gradient(_wave, x)[0]), jit(_fails), jit(_matrix)
    named = jit(lambda p: {"y": p["a"] * p["b"][0], "z": (p["b"][1], p["c"])})
    p = {"a": X, "b": [2.5, Y], "c": "text"}
    writes, scanned, hosted = jit(_writes), jit(_scan), jit(lambda x: np.sum(_host(x)))
    both, kept, big = tr.value_and_grad(array), [None] * 10, jit(lambda x: np.tanh(x) * x)

    def keep(k):
        kept[k % 10] = tr.pullback(array, X)[1]
        if k % 3 == 0:
            kept[(k + 5) % 10] = kept[k % 10](1.0)

    def in_thread(k):
        thread = threading.Thread(target=array, args=(X,))
        thread.start()
        thread.join()

    def another(k):
        def f(x):
            return np.sum(x * np.cos(x) ** (k % 50 + 2))

        fast = jit(f)
        return fast(X), fast(X), gradient(fast, X)

    def rebound(k):
        held["a"] = Y if k % 2 else X
        return captured(2.0)

    held = {"a": X}
    captured = jit(lambda s: held["a"] * s)
    return {
        "number": (lambda k: scalar(1.5), 1),
        "numbers of other classes": (lambda k: scalar((1.5, 2, np.float32(1))[k % 3]), 1),
        "array": (lambda k: array(X), 1),
        "views": (lambda k: array(Y[:: (1, -1)[k % 2]]), 1),
        "structure": (lambda k: named(p), 1),
        "writes": (lambda k: writes(X.copy(), Y.copy()), 1),
        "switching guards": (lambda k: branch(X if k % 2 else -X), 1),
        "gradient of jit": (lambda k: gradient(array, X), 0.1),
        "jit of gradient": (lambda k: slope(X), 1),
        "value and gradient": (lambda k: both(X), 0.1),
        "matrix": (lambda k: matrix(MATRIX), 1),
        "loop": (lambda k: scanned(X), 1),
        "host": (lambda k: hosted(X), 0.1),
        "rebound capture": (rebound, 1),
        "big results": (lambda k: big(BIG), 0.01),
        "pullbacks kept and dropped": (keep, 0.1),
        "eager": (lambda k: gradient(_wave, X), 0.05),
        "raises in the function": (_raising(fails, -X, error=ArithmeticError), 0.01),
        "raises in its gradient": (
            _raising(lambda: gradient(lambda x: np.sum(fails(x)), -X), error=ArithmeticError),
            0.01,
        ),
        "raises in host code": (_raising(hosted, -X, error=LookupError), 0.01),
        "wrong type": (_raising(array, "text", error=TypeError), 0.01),
        "wrong shape": (_raising(matrix, np.ones((2, 3)), error=ValueError), 0.01),
        "wrong number of arguments": (_raising(array, error=TypeError), 0.1),
        "new threads": (in_thread, 0.01),
        "new functions": (another, 0.001),
    }


CALLS = _calls() | _more_calls() | _captured_calls()
WATCHED = [X, Y, MATRIX, BIG, X.dtype, None, True, np.float64, _wave, _branch, _fails, _writes]
WATCHED += [MODEL, MODEL.w, MODEL.k, MODEL.layers, *MODEL.layers, MODEL.named, MODEL.out, P]
WATCHED += [*P.values(), *MODEL.named.values(), NESTED, NESTED.layers, SLOTS, Nested, Slots]


def _resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(autouse=True, scope="module")
def objects_of_other_tests_are_not_counted():
    """To go through them takes longer than the calls."""
    gc.collect()
    gc.freeze()


def _state():
    drain()
    gc.collect()
    counts = [sys.getrefcount(thing) for thing in WATCHED]
    immortal = sys.version_info >= (3, 12)
    return {
        "blocks": sys.getallocatedblocks(),
        "objects": len(gc.get_objects()),
        "references": 0 if immortal else sum(counts[5:7]),
        "to arrays and functions": sum(counts[:5] + counts[7:]),
    }


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CALLS)
def test_nothing_grows(name):
    call, part = CALLS[name]
    count = max(int((1_000_000 if DEEP else 1000) * part), 6)
    new = name == "new functions"
    for k in range(6 if new and not DEEP else max(count // 10, 300 if new else 60)):
        call(k)
    before, resident = _state(), _resident() if DEEP else 0
    for k in range(count):
        call(k)
    grown = {what: n - before[what] for what, n in _state().items()}
    grown["blocks"] -= COMPILED * count if new else 0
    assert all(n < BLOCKS for n in grown.values()), f"{grown} after {count} calls"
    if DEEP:
        more = _resident() - resident
        assert more < BYTES + (BY_LLVM * count if new else 0), f"{more} bytes, {count} calls"
