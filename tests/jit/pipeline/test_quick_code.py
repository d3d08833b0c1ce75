"""Long programs are compiled quickly first; what is called often is optimised: the same results."""

import numpy as np
import pytest

import tracker
from tracker import tree
from tracker.jit.codegen import artifact
from tracker.jit.pipeline import compile
from tracker.jit.runtime.compile_queue import drain

pytestmark = pytest.mark.optimised
RNG = np.random.default_rng(3)


def _normal(*shape, dtype=np.float64):
    return RNG.normal(size=shape).astype(dtype)


def _integrated(x):
    def step(_, state):
        position, speed = state
        return position + 0.01 * speed, speed - 0.01 * np.sin(position)

    return tracker.fori_loop(0, 50, step, (x, np.cos(x)))[0]


def _newton(x):
    return tracker.while_loop(
        lambda y: np.max(np.abs(y * y - x)) > 1e-9, lambda y: 0.5 * (y + x / y), x
    )


def _filled(x):
    y = np.zeros_like(x)
    for i in range(2, len(x)):
        y[i] = 0.5 * y[i - 1] - 0.1 * y[i - 2] + x[i] * x[i - 1]
    return y


def _integrated_in_substeps(x):
    """The loop runs in machine code while it is traced, and its program has that body."""

    def step(_, state):
        position, speed = state
        for _ in range(100):
            position = position + 1e-5 * speed
            speed = speed - 1e-5 * np.sin(position)
        return position, speed

    return tracker.fori_loop(0, 400, step, (x, np.cos(x)))[0]


PROGRAMS = {
    "functions": (lambda x: np.exp(-x) * np.tanh(x) + np.log1p(x**2) ** 1.5, _normal(57)),
    "float32": (lambda x: np.sum(np.sin(x) * x / (1 + x * x)), _normal(301, dtype=np.float32)),
    "sums": (lambda x: np.sum(x) * np.mean(x, axis=0) + np.var(x, axis=1)[:9], _normal(83, 9)),
    "products": (lambda x: np.prod(1 + 0.1 * x, axis=1) + np.cumsum(x[:, 0]), _normal(40, 7)),
    "extremes": (lambda x: np.max(x, axis=0) - np.min(x) + np.argmax(x, axis=0), _normal(33, 5)),
    "softmax": (
        lambda x: np.exp(x - x.max(1, keepdims=True)) / np.exp(x).sum(1, keepdims=True),
        _normal(12, 20),
    ),
    "small products": (lambda a: a @ a.T @ a + np.sum(a[:3] @ a[3], axis=0), _normal(6, 6)),
    "tall products": (lambda a: np.tanh(a @ a[:4]) @ a[:4].T, _normal(900, 4)),
    "batched products": (lambda a: np.einsum("nij,nj->ni", a, a[:, 0]), _normal(40, 3, 3)),
    "solutions": (
        lambda a: np.linalg.solve(a @ a.T + 6 * np.eye(6), a[0]) + np.linalg.cholesky(a @ a.T)[0],
        _normal(6, 6),
    ),
    "order": (lambda x: np.sort(x)[::-1] * np.median(x) + np.searchsorted(x, x), _normal(71)),
    "positions": (lambda x: np.take(x, np.arange(40) % 7) * np.roll(x, 3)[:40], _normal(50)),
    "complex": (lambda x: np.abs((x + 1j * x[::-1]) / (2 - 1j * x)) ** 2, _normal(45)),
    "branches": (lambda x: np.where(x > 0, np.sqrt(np.abs(x)), x**3), _normal(77)),
    "strides": (lambda x: x[::2, 1:-1] * x[1::2, 2:] - x.T[1:7, :10].T, _normal(20, 8)),
    "written": (_filled, _normal(30)),
    "counted": (_integrated, _normal(9)),
    "counted, with long steps": (_integrated_in_substeps, _normal(9)),
    "conditional": (_newton, np.abs(_normal(9)) + 0.5),
}


@pytest.fixture
def long_programs(monkeypatch):
    """All programs count as long, and are soon optimised."""
    monkeypatch.setattr(artifact, "_LONG_PROGRAM", 0)
    monkeypatch.setattr(compile, "_SECONDS_TO_OPTIMISE_LINE", 0.0)
    monkeypatch.setattr(compile, "_MAX_QUICK_OPERATIONS", 10**9)
    monkeypatch.setattr(compile, "_MAX_OPERATIONS_OF_LINE", 10**9)


def _code(f, *args):
    """The specialisation that serves a call, once nothing is being compiled."""
    drain()
    return f._jitted.lookup(args, {})


def _bytes(result):
    return [np.asarray(leaf).tobytes() for leaf in tree.leaves(result)]


@pytest.mark.parametrize("threads", [1, 2], ids=["waiting", "background"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_optimised_code_computes_the_same_bits(long_programs, name, threads):
    program, x = PROGRAMS[name]
    f = tracker.value_and_grad(tracker.jit(lambda x: np.sum(program(x) * 1.5)))
    with tracker.config(threads=threads):
        f(x)
        quick = f(x)
        code = _code(f, x)
        assert code.compiled.optimised is not None
        for _ in range(12):
            assert _bytes(f(x)) == _bytes(quick)
            drain()
        assert code.compiled.optimised is None and not code.is_pending
        assert _bytes(f(x)) == _bytes(quick)


@pytest.mark.parametrize(("threads", "is_optimised"), [(1, False), (2, True)])
def test_what_computes_much_is_optimised_at_once_unless_a_call_waits(
    long_programs, monkeypatch, threads, is_optimised
):
    monkeypatch.setattr(compile, "_MAX_OPERATIONS_OF_LINE", 0)
    program, x = PROGRAMS["functions"]
    f = tracker.jit(program)
    with tracker.config(threads=threads):
        f(x), f(x)
        assert (_code(f, x).compiled.optimised is None) == is_optimised


def test_a_function_called_twice_is_not_optimised(long_programs):
    f = tracker.jit(PROGRAMS["functions"][0])
    x = PROGRAMS["functions"][1]
    f(x), f(x)
    assert _code(f, x).optimised_job is None
    assert "compiled quickly until it is called often" in f.explain(x)


@pytest.mark.parametrize(("threads", "is_optimised"), [(1, False), (2, True)])
def test_on_one_processor_optimising_must_be_deserved(
    long_programs, monkeypatch, threads, is_optimised
):
    """Until quick code has been in use for far longer than it takes, it would slow the program."""
    monkeypatch.setattr(compile, "_SECONDS_TO_OPTIMISE_LINE", 1e6)
    f, x = tracker.jit(PROGRAMS["functions"][0]), PROGRAMS["functions"][1]
    with tracker.config(threads=threads):
        for _ in range(24):
            f(x)
            drain()
    assert (_code(f, x).optimised_job is not None) is is_optimised


def test_short_and_heavy_programs_are_optimised_at_once(long_programs, monkeypatch):
    x = PROGRAMS["sums"][1]
    monkeypatch.setattr(artifact, "_LONG_PROGRAM", 10**6)
    short = tracker.jit(PROGRAMS["sums"][0])
    short(x)
    assert _code(short, x).compiled.optimised is None
    monkeypatch.setattr(artifact, "_LONG_PROGRAM", 0)
    monkeypatch.setattr(compile, "_MAX_QUICK_OPERATIONS", 700)
    heavy = tracker.jit(PROGRAMS["sums"][0])
    heavy(x)
    assert _code(heavy, x).compiled.optimised is None
    counted = tracker.jit(_integrated)
    counted(np.ones(3))
    assert _code(counted, np.ones(3)).compiled.optimised is None


def test_each_signature_is_optimised_alone(long_programs):
    f = tracker.jit(PROGRAMS["branches"][0])
    often, seldom = _normal(60), _normal(61)
    for x in (seldom, *[often] * 12, seldom):
        np.testing.assert_allclose(f(x), PROGRAMS["branches"][0](x))
        drain()
    f(often)
    assert _code(f, often).compiled.optimised is None
    assert _code(f, seldom).compiled.optimised is not None


def test_guards_of_quick_and_optimised_code_hold(long_programs):
    """Another trace is made, and tried, whichever code a specialisation has."""

    def clipped(x):
        return np.sum(x) * 2 if np.sum(x) > 0 else np.sum(x) * 3

    f = tracker.jit(clipped)
    x = PROGRAMS["functions"][1]
    for _ in range(14):
        for y in (np.abs(x), -np.abs(x)):
            assert f(y) == pytest.approx(clipped(y))
            drain()
    (group,) = f._jitted.groups.values()
    assert [each.compiled.optimised for each in group.specializations] == [None, None]
