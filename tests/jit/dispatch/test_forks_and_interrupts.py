"""Many calls, other threads, forks, interrupts: nothing is kept, lost, or left behind."""

import functools
import os
import signal
import threading
import time

import numpy as np
import pytest
from concurrently import at_once
from equality import assert_same

import tracker as tr
from tracker import jit
from tracker.jit.abi import native_callable as native
from tracker.jit.tracing import placeholder_swap
from tracker.tape.tracing import placeholders
from tracker.tape.tracing.tracer import current_tracer


class Model:
    def __init__(self):
        self.w, self.k = np.ones(3), 2.5
        self.layers, self.named = [np.ones(3), np.ones(3)], {"a": np.ones(3)}


def _called(model, written):
    def f(x, p):
        if x < 0:
            raise ValueError("negative")
        written[0] = x
        total = x * model.w * model.k + model.layers[1] + model.named["a"] + p["q"]
        return {"y": total, "written": written}

    return f


class Method:
    def __init__(self, k):
        self.w = np.full(3, float(k))

    @jit
    def step(self, x):
        return self.w * x


def test_traces_for_objects_that_are_gone_are_freed():
    kept = [Method(k) for k in range(3)]
    for n in range(60):
        m = Method(n)
        for each in (m, *kept):
            for _ in range(2):
                assert_same(each.step(2.0), each.w * 2.0)
    info = Method.step.cache_info()
    assert info.traces <= 36 and info.signatures == info.traces
    assert len(native.entries(Method.step)) == info.traces
    before = info.slow
    for each in kept:
        each.step(2.0)
    assert Method.step.cache_info().slow == before


def test_an_object_that_is_replaced_at_each_call_needs_no_more_traces():
    m = Method(0.0)
    f = jit(lambda x: m.w * x)
    for n in range(40):
        m = Method(n)
        assert_same(f(2.0), m.w * 2.0)
        assert_same(f(3.0), m.w * 3.0)
    assert f.cache_info().traces <= 2 and f.cache_info().eager == 0


def test_an_object_that_goes_while_its_trace_is_compiled():
    class Holder:
        method = Method(1.0)

    f = jit(lambda x: Holder.method.w * x)
    for n in range(12):
        assert_same(f(2.0), Holder.method.w * 2.0)
        if n % 3 == 0:
            Holder.method = Method(n)


def test_rebinding_at_each_call_is_flat():
    model, p = Model(), {"q": np.ones(3)}
    g = jit(_called(model, np.ones(3)))
    for k in range(2000):
        model.w, model.layers[1] = np.full(3, float(k)), np.zeros(3)
        assert g(1.0, p)["y"][0] == 2.5 * k + 2.0
    assert g.cache_info().slow == 1


def _long(x):
    for _ in range(20):
        x = np.sin(x) * np.cos(x) + np.exp(-x)
    return np.sum(x)


def test_an_interrupt_ends_a_run_cleanly():
    big = np.linspace(0.0, 1.0, 300_000)
    f, want = jit(_long), _long(big)
    f(big)
    threads = threading.active_count()
    for _ in range(3):
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            while True:
                f(big)
        timer.join()
        assert np.isclose(f(big), want, rtol=1e-12)
    assert threading.active_count() == threads


@pytest.mark.parametrize("during", ["release_placeholder", "plain_data"])
def test_an_interrupt_while_originals_are_restored(during, monkeypatch):
    """Whatever of it was done by then, all of it is."""
    c, held = np.ones(3), [None]

    def f(x):
        c[0] = np.sum(x) * 0.0 + 1.0
        held[0] = x * 3.0
        return 2 * c * x

    g, real, due = jit(f), getattr(placeholder_swap, during), [True]

    def interrupted(*arguments):
        if due:
            due.clear()
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(placeholder_swap, during, interrupted)
    with pytest.raises(KeyboardInterrupt):
        g(2.0)
    assert not due and type(c) is np.ndarray and not placeholder_swap.ACTIVE_SWAPS
    assert type(held[0]) is float
    assert current_tracer() is None
    assert all(each.thread == 0 for each in placeholders.PLACEHOLDERS.values())
    for _ in range(3):
        assert_same(g(2.0), np.full(3, 4.0))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_processes_go_on():
    big = np.linspace(0.0, 1.0, 300_000)
    f, want = jit(_long), _long(big)
    f(big)
    child = os.fork()
    if child == 0:
        try:
            sound = np.isclose(f(big), want) and np.isclose(jit(_long)(big[:9]), _long(big[:9]))
            os._exit(0 if sound else 1)
        finally:
            os._exit(2)
    for _ in range(300):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        time.sleep(0.1)
    assert pid == child and status == 0


def test_threads_that_rebind_and_write():
    wrong = []

    def work(seed):
        model, written, p = Model(), np.ones(3), {"q": np.ones(3)}
        f = _called(model, written)
        g = jit(f)
        for k in range(200):
            model.w, model.k = np.full(3, float(k + seed)), float(k % 3)
            if not np.array_equal(g(1.0, p)["y"], f(1.0, p)["y"]):
                wrong.append(k)

    at_once(*(functools.partial(work, seed) for seed in range(4)))
    assert not wrong


def rewritten(x):
    k = np.arange(3.0)
    y = np.sum(x * k)
    k[:] = 7.0
    return y + np.sum(x**2 * k)


def moved(x):
    i = np.array([0, 2, 1, 1])
    y = np.sum(x[i] ** 2 * np.arange(4.0))
    i[:] = 0
    return y


def reshaped(x):
    i = np.array([0, 2, 1, 1])
    y = np.sum(x[i] ** 2)
    i.shape = (2, 2)
    return y


@pytest.mark.parametrize("f", [rewritten, moved, reshaped])
def test_arrays_of_the_function_s_own_that_change_after_use(f):
    x, t = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0])
    fast = tr.jit(f)
    for _ in range(2):
        np.testing.assert_allclose(tr.gradient(fast, x)[0], tr.gradient(f, x)[0])
        np.testing.assert_allclose(tr.jvp(fast, (x,), (t,))[1], tr.jvp(f, (x,), (t,))[1])
        np.testing.assert_allclose(tr.hessian(fast, x), tr.hessian(f, x), atol=1e-14)


def _forever(x):
    return tr.while_loop(lambda c: np.sum(c) > 0.0, lambda c: np.abs(np.sin(c)) + 0.5, x)


def _numbers_forever(x):
    return tr.while_loop(lambda c: c > 0.0, lambda c: c * 0.5 + 1.0, x)


def _products_forever(x):
    w = np.full((len(x), len(x)), 1.0 / len(x))
    return tr.while_loop(lambda c: np.sum(c) > 0.0, lambda c: w @ c, x)


def _nested_forever(x):
    inner = lambda c: tr.fori_loop(0, 1000, lambda i, c: np.cos(c), c)  # noqa: E731
    return tr.while_loop(lambda c: np.sum(c) > 0.0, inner, x)


@pytest.mark.parametrize(
    "f, x",
    [
        (_forever, np.ones(100)),
        (_numbers_forever, 1.0),
        (_products_forever, np.ones(40)),
        (_nested_forever, np.ones(3)),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_an_interrupt_ends_a_loop_of_machine_code(f, x):
    fast = jit(f)
    fast(-abs(x))  # no step is made, but the loop is compiled
    fast(-abs(x))
    calls = fast.cache_info()
    for _ in range(2):
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            fast(x)
        timer.join()
        np.testing.assert_array_equal(fast(-abs(x)), -abs(x))
    assert fast.cache_info() == calls


def test_a_loop_continues_after_a_handled_signal():
    fast = jit(lambda x, n: tr.fori_loop(0, n, lambda i, c: c * 0.5 + 1.0, x))
    fast(1.0, 3)
    seen, before = [], signal.signal(signal.SIGALRM, lambda *_: seen.append(True))
    try:
        steps = 1 << 20
        while True:  # until it takes long enough
            start = time.perf_counter()
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            assert fast(1.0, steps) == 2.0
            if time.perf_counter() - start > 0.1:
                break
            steps *= 4
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen and fast.cache_info().slow == 1


def test_short_loops_and_exported_ones_do_not_ask():
    short = jit(lambda x: tr.fori_loop(0, 100, lambda i, c: np.sin(c), x))
    long = jit(lambda x, n: tr.fori_loop(0, n, lambda i, c: np.sin(c), x))
    assert "tk.pause" not in short.llvm(np.ones(3))
    assert "tk.pause" in long.llvm(np.ones(3), 5)
