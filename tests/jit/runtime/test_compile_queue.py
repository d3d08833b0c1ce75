"""The first call does not wait for machine code, and every later one does."""

import gc
import itertools
import os
import random
import signal
import sys
import threading
import warnings
import weakref

import fresh_python
import numpy as np
import pytest
from pytest import approx

import tracker
from tracker.errors import CompileError
from tracker.ir.op import OPS
from tracker.jit.abi import native_callable as native
from tracker.jit.llvm import engine, object_cache
from tracker.jit.pipeline import compile
from tracker.jit.runtime import compile_queue
from tracker.jit.tracing import placeholder_swap
from tracker.support import deferred_signals
from tracker.tape import observers
from tracker.tape.tracing.tracer import current_tracer


@pytest.fixture(autouse=True)
def nothing_is_known():
    """The helpers of all compiled functions are compiled, and no other object code is cached."""
    tracker.jit(lambda x: x + 1.0)(1.0)
    compile_queue.drain()
    object_cache._recent.clear()


@pytest.fixture
def held(monkeypatch):
    """LLVM waits until `go` is set; `entered` is set by its first call."""
    go, entered = threading.Event(), threading.Event()
    real = engine.compile_module

    def compile_module(*args, **kwargs):
        entered.set()
        assert go.wait(60)
        return real(*args, **kwargs)

    monkeypatch.setattr(engine, "compile_module", compile_module)
    yield go, entered
    go.set()
    compile_queue.drain()


def loss(x):
    return np.sum(np.sin(x) * x)


def test_the_first_call_returns_before_there_is_machine_code(held):
    go, entered = held
    f = tracker.jit(lambda x: tracker.gradient(loss, x)[0])
    x = np.linspace(0.0, 1.0, 7)
    plain = np.sin(x) + x * np.cos(x)
    np.testing.assert_allclose(f(x), plain, rtol=1e-14)
    assert entered.wait(60)
    assert not native.entries(f)
    results = []
    second = threading.Thread(target=lambda: results.append(f(x)))
    second.start()
    second.join(0.05)
    assert second.is_alive()  # it waits
    go.set()
    second.join()
    np.testing.assert_allclose(results[0], plain, rtol=1e-14)
    assert len(native.entries(f)) == 1
    assert f.cache_info().traces == 1


def test_explain_waits_for_machine_code(held):
    go, _ = held
    f = tracker.jit(loss)
    f(np.ones(3))
    threading.Timer(0.05, go.set).start()
    assert "one native call" in f.explain(np.ones(3))


def test_branches_are_compiled_one_after_the_other():
    f = tracker.jit(lambda x: np.sum(x) if x[0] > 0 else np.sum(x * x))
    for x in (np.ones(4), -np.ones(4), 2 * np.ones(4), -2 * np.ones(4)):
        assert f(x) == (np.sum(x) if x[0] > 0 else np.sum(x * x))
    assert len(native.entries(f)) == 2


def test_callers_compile_when_all_threads_are_busy(held):
    go, _ = held
    fs = [tracker.jit(lambda x, k=k: np.sum(x) * k) for k in range(compile_queue._MAX_THREADS)]
    assert [f(np.ones(2)) for f in fs] == [2.0 * k for k in range(compile_queue._MAX_THREADS)]
    more = tracker.jit(lambda x: np.sum(x) - 1.0)
    threading.Timer(0.05, go.set).start()
    assert more(np.ones(2)) == 1.0
    assert native.entries(more)
    assert [f(np.ones(2)) for f in fs] == [2.0 * k for k in range(compile_queue._MAX_THREADS)]


@pytest.mark.parametrize("settings", [{"threads": 1}, {"check": True}])
def test_no_background_thread_with_one_thread_or_checks(settings):
    f = tracker.jit(loss)
    with tracker.config(**settings):
        f(np.ones(3))
    assert native.entries(f)


def test_a_compile_error_is_raised_by_calls_that_need_the_code(monkeypatch):
    def refuse(*_, **__):
        raise CompileError("no")

    f = tracker.jit(loss)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "compile_module", refuse)
        assert f(np.ones(3)) == pytest.approx(3 * np.sin(1.0))
        compile_queue.drain()
    lengths = set()
    for _ in range(3):
        with pytest.raises(CompileError, match="no") as raised:
            f(np.ones(3))
        lengths.add(len(raised.traceback))
    assert len(lengths) == 1


def test_a_job_keeps_nothing_alive():
    class Model:
        def __init__(self):
            self.w = np.ones(3)

        def loss(self, x):
            return np.sum(self.w * x)

    model = Model()
    gone = weakref.ref(model)
    f = tracker.jit(model.loss)
    f(np.ones(3))
    f(np.ones(3))
    compile_queue.drain()
    del f, model
    gc.collect()
    assert gone() is None


def test_many_threads_call_a_function_while_it_compiles(held):
    go, _ = held
    f = tracker.jit(loss)
    x = np.linspace(0.0, 1.0, 5)
    f(x)
    results = []
    threads = [threading.Thread(target=lambda: results.append(f(x))) for _ in range(8)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(results, [loss(x)] * 8, rtol=1e-14)
    assert len(native.entries(f)) == 1


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")


def check_in_child(check):
    """Fork; `check` must hold in the child, within a minute."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which are waited for
        child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if check() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@needs_fork
def test_a_fork_waits_for_the_compiler():
    f = tracker.jit(lambda x: tracker.gradient(loss, x)[0])
    x = np.linspace(0.0, 1.0, 9)
    first = f(x)
    check_in_child(lambda: np.allclose(f(x), first) and native.entries(f))


@needs_fork
def test_a_fork_while_other_threads_compile_and_free():
    """No lock that they hold, wait for or free is locked in the child."""
    x, over = np.linspace(0.0, 1.0, 9), threading.Event()

    def compile_others():
        for k in itertools.count(2.5):
            if over.is_set():
                break
            f = tracker.jit(lambda x, k=k: np.sum(np.sin(x * k)))
            f(x)
            f(x)

    threads = [threading.Thread(target=compile_others) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for k in range(8):
            f = tracker.jit(lambda x, k=k: np.sum(np.cos(x) * k))
            first = f(x)

            def is_right(f=f, first=first, k=k):
                g = tracker.jit(lambda x: np.sum(np.exp(x) * k))
                return np.allclose([f(x), g(x), g(x)], [first, *[np.sum(np.exp(x) * k)] * 2])

            check_in_child(is_right)
    finally:
        over.set()
        for thread in threads:
            thread.join()


@needs_fork
def test_a_forked_child_does_an_unstarted_job(monkeypatch):
    with compile_queue._COMPILE_LOCK:  # its thread waits until the fork
        job = compile_queue.enqueue(os.getpid)
        compile_queue.start(job)
        threads = list(compile_queue._threads)
        monkeypatch.setattr(compile_queue, "_threads", [])  # its thread starts after `drain`
        check_in_child(lambda: job.result() == job.result() == os.getpid())
    assert job.result() == os.getpid()
    for thread in threads:
        thread.join()


def test_a_program_may_end_while_it_compiles():
    code = (
        "import tracker, numpy as np\n"
        "fs = [tracker.jit(lambda x, k=k: np.sum(np.sin(x) ** k)) for k in range(2, 6)]\n"
        "print([round(float(f(np.ones(3))), 3) for f in fs])\n"
    )
    out = fresh_python.run(code, PYTHONWARNINGS="error")
    assert out.stdout.startswith("[2.124, ")
    assert out.stderr == ""


def test_a_starting_job_does_not_take_the_gil_from_its_caller(monkeypatch):
    order = []

    def seen():
        order.append("job")

    monkeypatch.setattr(compile_queue, "_START_DELAY", 0.2)
    job = compile_queue.enqueue(seen)
    compile_queue.start(job)
    order.append("caller")
    job.wait()
    assert order == ["caller", "job"]


@pytest.mark.parametrize(
    ("usual", "set_meanwhile", "during", "after"),
    [
        (0.005, None, 0.0002, 0.005),
        (0.0001, None, 0.0001, 0.0001),
        (0.005, 0.002, 0.0002, 0.002),
        (0.0029, None, 0.0002, 0.0029),
    ],
)
def test_others_get_the_gil_soon_while_a_thread_compiles(usual, set_meanwhile, during, after):
    kept, seen = sys.getswitchinterval(), []

    def work():
        seen.append(sys.getswitchinterval())
        if set_meanwhile is not None:
            sys.setswitchinterval(set_meanwhile)

    sys.setswitchinterval(usual)
    try:
        job = compile_queue.enqueue(work)
        compile_queue.start(job)
        compile_queue.drain()
        assert (seen, sys.getswitchinterval()) == (approx([during]), approx(after))
    finally:
        sys.setswitchinterval(kept)


def test_an_interrupted_job_is_done_by_the_next_caller():
    """Before it had a thread, or while its caller did the work."""
    outcomes = [KeyboardInterrupt(), 2.0]

    def work():
        outcome = outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    job = compile_queue.enqueue(work)
    with pytest.raises(KeyboardInterrupt):
        job.wait()
    assert not job.has_result
    assert job.result() == 2.0 == job.result() and not outcomes


def test_an_interrupt_before_the_compiling_thread_has_begun(monkeypatch):
    f = tracker.jit(loss)
    x = np.linspace(0.0, 1.0, 7)

    def interrupted(thread):
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            f(x)
    assert f(x) == loss(x)
    assert len(native.entries(f)) == 1 and f.cache_info().traces == 1


class TooLate(Exception):
    """An exception of a signal handler."""


UNTIMELY = [TooLate, KeyboardInterrupt, MemoryError, RecursionError, TimeoutError]


@pytest.fixture
def outcomes(monkeypatch):
    """Exceptions that the next compilations raise."""
    real, errors = compile.compile_call, []

    def compile_call(*args, **kwargs):
        if errors:
            raise errors.pop()
        return real(*args, **kwargs)

    monkeypatch.setattr(compile, "compile_call", compile_call)
    return errors


@pytest.mark.parametrize("error", UNTIMELY)
@pytest.mark.parametrize("settings", [{}, {"threads": 1}], ids=["beside", "at once"])
def test_an_exception_while_a_call_compiles_is_raised_by_that_call(
    monkeypatch, outcomes, error, settings
):
    monkeypatch.setattr(compile_queue, "_start_thread", lambda job: False)
    outcomes.append(error)
    f = tracker.jit(loss)
    with tracker.config(**settings):
        with pytest.raises(error):
            f(np.ones(3))
        assert [f(np.ones(3)) for _ in range(3)] == [loss(np.ones(3))] * 3
        assert len(native.entries(f)) == 1 and not outcomes


def test_an_exception_in_the_compiling_thread_is_dropped(outcomes):
    outcomes.append(MemoryError)
    f = tracker.jit(loss)
    f(np.ones(3))
    compile_queue.drain()
    assert not outcomes
    assert f(np.ones(3)) == loss(np.ones(3)) and len(native.entries(f)) == 1


@pytest.mark.parametrize("error", UNTIMELY)
def test_no_other_exception_is_taken_for_a_compile_error(monkeypatch, error):
    """Not even in an op's `infer`."""

    def infer(*_, **__):
        raise error

    x = np.linspace(0.1, 1.0, 4)
    f = tracker.jit(lambda x: np.sum(np.arctan(x) * 2.0))
    with monkeypatch.context() as patch, tracker.config(threads=1):
        patch.setattr(OPS["arctan"], "infer", infer)
        with pytest.raises(error):
            f(x)
    assert f(x) == f(x) == np.sum(np.arctan(x) * 2.0)
    compile_queue.drain()
    assert f.cache_info()[::3] == (1, 0)


WEIGHT = np.linspace(0.5, 1.5, 4)
FOLDER = os.path.dirname(tracker.__file__)


class Interruption:
    """A signal at the n-th executed line of a file, or of a folder's."""

    def __init__(self, at, where):
        self.left, self.where = at, where

    def trace(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(self.where):
            return None
        self.left -= event == "line"
        if self.left == 0:
            signal.raise_signal(signal.SIGUSR1)
        return self.trace


def interrupted(f, at, *args, where=FOLDER):
    """The lines left after two calls, the first of which a signal interrupts."""
    watch, before = Interruption(at, where), sys.gettrace()
    sys.settrace(watch.trace)
    try:
        for _ in range(2):
            f(*args)
    except TooLate:
        pass
    finally:
        sys.settrace(before)
    return watch.left


def state():
    """The state of a thread that a trace changes meanwhile."""
    return (
        *(
            current_tracer(),
            list(observers.observers),
            list(observers.thread_state.derivative_leaves),
        ),
        *(
            list(placeholder_swap.ACTIVE_SWAPS),
            deferred_signals.SIGNALS_DEFERRED._depth,
            sys.getprofile(),
            gc.get_threshold(),
        ),
        *(np.random.normal, signal.getsignal(signal.SIGINT), id(WEIGHT), type(WEIGHT)),
    )


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="a system without such signals")
def test_signals_are_deferred_whole_or_not_at_all():
    """Interrupted at each of its lines; the handlers are those of before."""

    def fails(*_):
        raise TooLate

    def deferred():
        with deferred_signals.SIGNALS_DEFERRED:
            pass

    before = signal.signal(signal.SIGUSR1, fails)
    try:
        known, at = state(), 0
        handlers = [signal.getsignal(each) for each in deferred_signals._SIGNALS]
        left = 0
        while left <= 0:
            at += 1
            left = interrupted(deferred, at, where=deferred_signals.__file__)
            assert state() == known
            assert [signal.getsignal(each) for each in deferred_signals._SIGNALS] == handlers
        assert at > len(deferred_signals._SIGNALS)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="a system without such signals")
def test_a_signal_handler_may_raise_anywhere(monkeypatch):
    """In tracing and in compiling; later calls are unaffected."""

    def fails(*_):
        raise TooLate

    def of(k):
        def plain(x, r):
            x[0] *= 0.5
            y = np.sum(np.cos(x * WEIGHT)) + r.normal()
            return y * k if y > 0.0 else y

        return plain, tracker.jit(plain)

    def run(f):
        x, generator.bit_generator.state = np.ones(4), seeded
        return [f(x, generator), *x, generator.random()]

    generator = np.random.default_rng(0)
    seeded = generator.bit_generator.state
    before = signal.signal(signal.SIGUSR1, fails)
    places = random.Random(0)
    try:
        with tracker.config(threads=1):
            lines = 10**9 - interrupted(of(0.5)[1], 10**9, np.ones(4), generator)
            for k in range(1, 20):
                plain, f = of(float(k))
                known = state()
                interrupted(f, places.randrange(lines), np.ones(4), generator)
                assert state() == known
                assert [run(f) for _ in range(3)] == [pytest.approx(run(plain))] * 3
                slow = f.cache_info().slow
                assert run(f) == pytest.approx(run(plain)) and f.cache_info().slow == slow
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert lock_is_free()


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="a system without such signals")
def test_a_signal_at_any_line_leaves_the_lock_free():
    """Wherever it arrives while the lock is taken and released."""

    def fails(*_):
        raise TooLate

    def trace():
        with placeholder_swap.TRACING_LOCK.acquire_within(9) as is_ours:
            assert is_ours

    before = signal.signal(signal.SIGUSR1, fails)
    try:
        at, left = 0, 0
        while left <= 0:
            at += 1
            left = interrupted(trace, at, where=placeholder_swap.__file__)
            assert lock_is_free(), at
        assert at > 10
    finally:
        signal.signal(signal.SIGUSR1, before)


def lock_is_free():
    """Whether another thread can trace."""
    others = []

    def ask():
        with placeholder_swap.TRACING_LOCK.acquire_within(9) as is_ours:
            others.append(is_ours)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return others == [True]


def test_a_thread_that_outlives_the_main_one_compiles():
    code = (
        "import threading, time, tracker, numpy as np\n"
        "from tracker.jit.dispatch import interpreter\n"
        "interpreter._MAX_CALLS = 0\n"
        "def late():\n"
        "    while threading.main_thread().is_alive(): time.sleep(0.001)\n"
        "    f = tracker.jit(lambda x: np.sum(x * x) + 1.0)\n"
        "    print([float(f(np.ones(3))) for _ in range(3)], f.cache_info().slow)\n"
        "threading.Thread(target=late).start()\n"
    )
    out = fresh_python.run(code, PYTHONWARNINGS="error")
    assert (out.stdout, out.stderr) == ("[4.0, 4.0, 4.0] 1\n", "")
