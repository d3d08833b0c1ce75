"""Lazy values of a trace: no unwritten memory is read, and first calls return what the plain
function does.
"""

import gc

import numpy as np
import pytest
from compiled import agree
from counting import peak_bytes
from hypothesis import given
from jit_programs import check_calls, programs
from lazy_arrays import ARRAY, LATER, N, arrays, everything, peak, rosenbrock, tanh_exp
from pairwise_parameters import crossed

import tracker
from tracker import gradient, jit
from tracker.control.body import trace_body
from tracker.jit.dispatch import first_call
from tracker.jit.runtime import compile_queue
from tracker.tape import record
from tracker.tape import value as values
from tracker.tape.tracing import lazy, tracer

pytestmark = pytest.mark.usefixtures("nothing_put_off")


# Programs -----------------------------------------------------------------------------------------


def call(program, *xs):
    return program(*xs)


def slopes(program, *xs):
    return gradient(program.loss, *xs)


# What is compared, whether each call is a first one, how much NumPy computes, and whether numbers
# are freed at once, so that what can be computed again is never kept.
WAYS = {
    "results": (call, False, 0, False),
    "gradients": (slopes, False, 0, False),
    "first calls": (call, True, 0, False),
    "results by NumPy": (call, True, LATER, False),
    "gradients by NumPy": (slopes, True, LATER, False),
    "gradients of freed numbers": (slopes, True, 0, True),
}


@pytest.mark.parametrize("name", WAYS)
@given(program=programs("mixed", most=8))
def test_random_programs(name, program):
    plain, first, soon, frees = WAYS[name]
    whole = jit(lambda *xs: plain(program, *xs))
    way = (lambda *xs: _afresh(plain, program)(*xs)) if first else whole
    with pytest.MonkeyPatch.context() as patch:
        if frees:
            patch.setattr(tracer, "_MIN_BYTE_LIMIT", -1)
            patch.setattr(tracer, "_BYTES_PER_EQUATION", -1)
        with everything(soon):
            check_calls(program, plain, way, tolerance=10)


def _afresh(plain, program):
    return jit(lambda *xs: plain(program, *xs))


# Views and copies of what is put off --------------------------------------------------------------

PARTS = {
    "ravel of columns": lambda y: y[:, ::2].ravel(),
    "ravel of a transpose": lambda y: y.T.ravel(),
    "ravel as it lies": lambda y: y.T.ravel("K"),
    "reshape": lambda y: y.reshape(3, -1, 4),
    "reshape of a transpose": lambda y: y.T.reshape(-1),
    "flatten": lambda y: y.flatten(),
    "squeeze of a part": lambda y: np.squeeze(y[None])[1:],
    "row sums by einsum": lambda y: np.einsum("...i->...", y),
    "transpose by einsum": lambda y: np.einsum("ij->ji", y),
    "diagonal by einsum": lambda y: np.einsum("ii->i", y[:, :6]),
    "trace by einsum": lambda y: np.einsum("ii->", y[:, :6]),
    "diagonal": lambda y: np.diagonal(y) * 1,
    "broadcast": lambda y: np.broadcast_to(y[0], y.shape) * 1,
    "copy": lambda y: y.copy(),
    "sum": lambda y: np.sum(y, axis=0),
    "part": lambda y: y[1:, ::-1],
}


@crossed(name=PARTS, soon=[0, LATER], written=["whole", "part"], result=["value", "gradient"])
def test_what_is_a_copy_of_it_is_none_of_its_views(name, soon, written, result):
    part = PARTS[name]

    def f(x):
        y = np.exp(x)
        z = part(y)
        if written == "whole":
            y[...] = x * 2.0
            y[1:3] *= 3.0
        elif np.ndim(z):
            z[...] = z * 0.5 + 1.0
        return np.sum(z * z) + np.sum(y * y)

    x = np.random.default_rng(0).normal(size=(6, 8))
    with everything(soon):
        agree(f if result == "value" else lambda x: gradient(f, x)[0], x)


# Large arrays -------------------------------------------------------------------------------------


def greeks(s, k, t):
    d = (np.log(s / k) + 0.5 * t) / np.sqrt(t)
    return np.sum(s * np.tanh(d) - k * np.exp(-t) * np.tanh(d - np.sqrt(t)))


CASES = [
    (lambda *xs: tracker.withgradient(tanh_exp, *xs), 3),
    (lambda *xs: tracker.withgradient(rosenbrock, *xs), 1),
    (lambda x, v: tracker.hvp(rosenbrock, x, v), 2),
    (lambda x, v: tracker.jvp(np.tanh, (x,), (v,)), 2),
    (lambda *xs: gradient(greeks, *(np.abs(x) + 0.5 for x in xs)), 3),
    (lambda x, w: (np.where(x > 0, x * w, 0.5).reshape(2, -1).T + 1.0, x.max()), 2),
    (lambda x, w: np.concatenate([x, np.stack([w, x])[0] * 2.0]), 2),
]


@pytest.mark.parametrize(("f", "count"), CASES)
def test_nothing_is_computed_by_numpy(f, count, computed, machine_code):
    agree(f, *arrays(count))
    assert not computed


@pytest.mark.parametrize(("f", "count"), CASES)
def test_what_numpy_computes(f, count, monkeypatch):
    monkeypatch.setattr(first_call, "BYTES_WHILE_COMPILING", LATER)
    agree(f, *arrays(count))


def test_results_are_the_callers_own(monkeypatch):
    """Arguments are read where they lie; nothing that is given, or kept, lies there."""
    monkeypatch.setattr(first_call, "BYTES_WHILE_COMPILING", LATER)
    kept = []

    def f(x, y):
        z = np.flip(x) if kept else x[::-1]
        kept.append(z)
        y[:] = x
        return x * 2.0, x[1:], z

    x, y = arrays(2)
    before = x.copy()
    double, rest, flipped = jit(f)(x, y)
    assert np.shares_memory(rest, x)
    assert np.shares_memory(flipped, x)
    x[:] = 0.0
    np.testing.assert_array_equal(double, 2.0 * before)
    np.testing.assert_array_equal(y, before)
    assert kept[0] is flipped


def test_a_view_of_an_argument_is_read_where_that_lies(computed):
    a = np.eye(30) + np.arange(30) / 100

    def f(a):
        part = a[1:].T
        return np.linalg.solve(a.T[::-1], part), part

    with everything():
        x, part = jit(f)(a)
        assert not computed
    assert np.shares_memory(part, a)
    np.testing.assert_allclose(x, f(a)[0], rtol=1e-12, atol=1e-12)


def test_values_in_use_are_not_overwritten(monkeypatch):
    monkeypatch.setattr(first_call, "BYTES_WHILE_COMPILING", LATER)

    def f(x):
        a = x + 1.0
        b = a.reshape(2, -1)
        c = a * 2.0
        d = -c
        return b + d.reshape(2, -1), a - a, c, d / c

    agree(f, *arrays(1), tolerance=0)


def test_a_choice_takes_the_place_of_either_side(monkeypatch):
    monkeypatch.setattr(first_call, "BYTES_WHILE_COMPILING", LATER)

    def f(x):
        a, b = x * 2.0, x * 3.0
        c = np.where(x > 0, a, 1)
        return (
            np.where(x > 1, -2.0, x + 1.0),
            np.where(np.floor(x), c, b),
            np.where((x * x).astype(int), x - 1.0, x[:1]),
            np.where(x > 0, c, c),
            np.where(x < 0, x > 1, x < 2),
        )

    agree(f, *arrays(1), tolerance=0)


def test_the_first_call_of_a_gradient_needs_the_memory_of_its_results(computed, machine_code):
    args = arrays(3, 8 * N)
    fast = jit(lambda *xs: tracker.withgradient(tanh_exp, *xs))
    most = peak(fast, *args)
    assert not computed
    assert most < 8 * 3 + 4  # the compiler's own


def distances(x, y):
    d = x[:, None] - y
    return np.sum(np.sqrt(d * d + 1.0))


def kernel(x, y):
    return np.sum(np.exp(x.reshape(-1, 1) @ y.reshape(1, -1) / 10))


@pytest.mark.parametrize("f", [distances, kernel])
def test_large_results_of_small_arrays_are_lazy(f, computed, machine_code):
    x, y = arrays(2, 1 << 10)
    fast = jit(lambda x, y: tracker.withgradient(f, x, y))
    most = peak_bytes(lambda: fast(x, y)) / lazy.LARGE
    assert not computed
    assert most < 2 * 3 + 2  # two arrays of 1 << 19 or 20 numbers, and the compiler's own
    agree(lambda x, y: tracker.withgradient(f, x, y), x, y)


def test_small_arrays_are_computed_at_once(computed):
    fast = jit(lambda x: np.sin(x) * 2.0)
    x = np.linspace(0, 1, 100)
    np.testing.assert_allclose(fast(x), np.sin(x) * 2.0)
    assert not computed


def test_no_large_array_is_computed_while_a_body_is_traced(computed):
    def step(a, i):
        b = a * 0.9
        b[:, i] = np.sin(a[:, i])
        a[i] *= 2.0
        return [a, b + np.zeros_like(b), np.sum(b[:, i])]

    x = arrays(1)[0].reshape(512, -1)
    trace_body("step", step, [x, 3])
    assert not computed
    assert peak(trace_body, "step", step, [x, 3]) < 0.5


def test_a_long_loop_puts_off_smaller_arrays(machine_code):
    x = np.linspace(0.1, 1, 1 << 14)
    steps = 2 * lazy._LONG_TRACE_BYTES // x.nbytes
    seen = []

    def f(x):
        for _ in range(steps):
            x = np.sqrt(x)
            seen.append(record.has_lazy_data(x))
        return x

    agree(f, x)
    assert not seen[steps] and seen[2 * steps - 1]  # those of the first call that was traced


def test_many_small_products_are_computed_at_once():
    seen = []

    def f(x):
        y = x @ x[::-1]
        seen.append(record.has_lazy_data(y))
        return np.sin(y)

    x = np.random.default_rng(0).normal(size=(800, 3, 3))
    np.testing.assert_allclose(jit(f)(x), f(x))
    assert seen == [False, False]


# Forms --------------------------------------------------------------------------------------------


def test_the_lazy_descriptor_is_installed_only_while_values_are_lazy():
    seen = []

    def f(x):
        before = values.Value.__dict__["data"]
        y = x + 1.0
        seen.append((before, values.Value.__dict__["data"], record.has_lazy_data(y)))
        return y

    jit(f)(np.ones(N))
    assert seen == [(values._lazy_descriptor, values._lazy_descriptor, True)]
    assert values.Value.__dict__["data"] is values._slot


# Memory -------------------------------------------------------------------------------------------


def test_values_may_die_while_a_trace_ends():
    """Garbage is collected where Python allocates: also while values are looked through."""
    scheduler, threshold = lazy.LazyScheduler(), gc.get_threshold()
    gc.disable()
    for _ in range(100):
        value = values.Value(np.zeros(3), None, (), {})
        values.make_lazy(value, np.ones, (3,), (), {}, scheduler)
        assert np.all(value.data == 1.0)
        cycle = [value]
        cycle.append(cycle)
    gc.set_threshold(gc.get_count()[0] + 50)
    gc.enable()
    try:
        values.keep_computed(scheduler)
    finally:
        gc.set_threshold(*threshold)
    assert not values.is_evictable(value)


def test_a_first_call_holds_little_more_than_the_gradient_by_hand(monkeypatch):
    """Of what machine code does not compute in the first call: sums that were asked for, products,
    running sums."""
    monkeypatch.setattr(tracer, "_MIN_BYTE_LIMIT", ARRAY)
    side = 1 << 10  # an array is as large as four of the others here
    a, b = (x.reshape(side, side) for x in arrays(2, side * side))

    def products_by_hand(x):
        t = np.tanh(a @ x)
        value, g = np.sum(t**2), 2.0 * t * (1.0 - t**2)
        return value, a.T @ g

    def sums_by_hand(x):
        c = np.cumsum(x)
        return np.sum(c**2), np.cumsum((2.0 * c)[::-1])[::-1]

    for f, by_hand, x in (
        (lambda x: np.sum(np.tanh(a @ x) ** 2), products_by_hand, b),
        (lambda x: np.sum(np.cumsum(x) ** 2), sums_by_hand, b.ravel()),
    ):
        fast = jit(lambda x, f=f: tracker.withgradient(f, x))
        mine, by_numpy = peak(fast, x) / 4, peak(by_hand, x) / 4
        assert mine <= by_numpy + 1.2


def test_numbers_are_computed_at_most_twice(monkeypatch):
    """However often a trace needs room, a chain of values is not computed over and over."""
    monkeypatch.setattr(tracer, "_MIN_BYTE_LIMIT", 0)
    monkeypatch.setattr(tracer, "_BYTES_PER_EQUATION", 0)
    count = [0]
    given_ = values._operand_data

    def counted(due):
        count[0] += 1
        return given_(due)

    monkeypatch.setattr(values, "_operand_data", counted)

    def f(x):
        total = 0.0
        for _ in range(50):
            x = np.tanh(x)
            total = total + np.sort(x * 2.0)[0]
        return total

    (x,) = arrays(1)
    assert jit(f)(x) == pytest.approx(f(x))
    assert count[0] <= 2 * 50 * len(("tanh", "multiply", "getitem", "add"))


def test_little_that_is_left_is_computed_and_machine_code_not_waited_for(monkeypatch, machine_code):
    (x,) = arrays(1)
    compiled = []
    later = compile_queue.enqueue
    monkeypatch.setattr(compile_queue, "enqueue", lambda work: compiled.append(work) or later(work))
    jit(lambda x: np.linalg.inv(np.reshape(x, (512, 512))) * 2.0)(x)
    assert len(compiled) == 1
    jit(lambda x: np.tanh(x) * np.exp(x) * 2.0)(x)
    assert len(compiled) == 1


def ragged(x):
    """Every step has loops of its own, and adds a piece to the gradient."""
    total = 0.0
    for k in range(40):
        total = total + np.sum(x[:, k:] * x[:, k : k + 1])
    return total


@pytest.mark.parametrize(
    ("name", "size"),
    [("BYTES_PER_OP_KIND", 0), ("BYTES_PER_OP_KIND", 1 << 24), ("BYTES_PER_EQUATION", 1 << 23)],
)
def test_numpy_is_sooner_where_there_is_much_to_compile(name, size, monkeypatch, machine_code):
    monkeypatch.setattr(first_call, name, size)
    compiled = []
    at_once = compile_queue.run_now
    monkeypatch.setattr(
        compile_queue, "run_now", lambda work: compiled.append(work) or at_once(work)
    )
    (x,) = arrays(1)
    agree(lambda x: gradient(ragged, x.reshape(-1, 64)), x)
    assert len(compiled) == (size == 0)


def test_the_pieces_of_a_long_sum_do_not_lie_about(monkeypatch):
    """Each is computed when it is added, as in the plain function."""
    monkeypatch.setattr(first_call, "BYTES_WHILE_COMPILING", LATER)
    (x,) = arrays(1)
    fast = jit(lambda x: gradient(ragged, x.reshape(-1, 64)))
    assert peak(fast, x) < 12  # of 40 pieces


def test_forms_take_no_memory():
    assert peak(lambda: [lazy.blank_array((N,), np.dtype(float)) for _ in range(100)]) < 0.1
