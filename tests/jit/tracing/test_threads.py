"""One thread traces at a time; other threads see its placeholders as the arrays they stand for."""

import copy
import gc
import os
import pickle
import signal
import sys
import threading
import time
import types
import warnings
from concurrent.futures import ThreadPoolExecutor

import fresh_python
import numpy as np
import pytest
from equality import assert_same

import tracker as tr
from tracker import gradient, jit
from tracker.jit.llvm import engine
from tracker.jit.llvm.lock import LOCK
from tracker.jit.tracing import trace
from tracker.jit.tracing.placeholder_swap import ACTIVE_SWAPS
from tracker.support import deferred_signals
from tracker.tape.tracing.placeholders import PLACEHOLDERS, add_placeholder, release_placeholder

# here functions have other threads work while they are traced, which keeps them plain
pytestmark = pytest.mark.filterwarnings("ignore:.*may differ at each call")

shared = np.arange(6.0).reshape(2, 3)
table = {"w": [np.ones(3), np.ones(3)], "k": 1.0}


@pytest.fixture
def switching_often():
    kept = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(kept)


@pytest.fixture
def collector_off():
    """It calls what others have asked it to (hypothesis has): an interrupt there is lost."""
    gc.disable()
    yield
    gc.enable()


def _elsewhere(work):
    """The result of a call in another thread, while a traced function waits."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(timeout=60)


def _within_a_trace(work):
    """What `work` gives in another thread, while `shared` has a stand-in."""
    found = []

    def f(x):
        if not found:
            assert tr.istracked(shared)
            found.append(_elsewhere(work))
        return np.sum(shared * x)

    g = jit(f)
    assert_same(g(2.0), np.sum(shared * 2.0))
    assert type(shared) is np.ndarray and not ACTIVE_SWAPS and not PLACEHOLDERS
    return found[0]


WORK = {
    "operators": lambda: (shared * 2, 1 - shared, -shared, shared @ shared.T, shared > 1),
    "numpy": lambda: (np.sin(shared), np.sum(shared, axis=0), np.concatenate([shared, shared])),
    "methods": lambda: (shared.sum(), shared.reshape(3, 2), shared.T, shared.tolist()),
    "items": lambda: (shared[0], shared[0, 1], list(shared)[1], shared[shared > 1], len(shared)),
    "conversions": lambda: (float(shared[0, 1]), np.asarray(shared), np.array([shared, shared])),
    "python": lambda: (shared.shape, shared.dtype, bool(shared.any()), 5.0 in shared),
    "text": lambda: (repr(shared), str(shared), f"{shared[0, 0]:.2f}"),
    "copies": lambda: (shared.copy(), copy.deepcopy(shared), pickle.loads(pickle.dumps(shared))),
    "derivative in it": lambda: gradient(lambda a: np.sum(a**2), shared),
    "derivative beside it": lambda: gradient(lambda a: np.sum(shared * a), 2.0),
    "tracker": lambda: (tr.istracked(shared), tr.data(shared), tr.tree.map(np.sum, [shared])),
    "ufunc methods": lambda: (np.add.reduce(shared), np.multiply.outer(shared[0], shared[1])),
    "out": lambda: np.add(shared, 1.0, out=np.zeros((2, 3))),
}


@pytest.mark.parametrize("name", WORK)
def test_another_thread_finds_the_array(name):
    got, want = _within_a_trace(WORK[name]), WORK[name]()
    for one, other in zip(got, want, strict=True) if type(want) is tuple else [(got, want)]:
        assert type(one) is type(other)
        if isinstance(other, (np.ndarray, np.generic, float)):
            assert_same(one, other)
        else:
            assert repr(one) == repr(other)


def test_another_thread_writes_into_the_array():
    mine = shared.copy()

    def work():
        global shared
        shared[0, 0] = 10.0
        row = shared[1]
        row += 1.0
        shared *= 2.0
        np.add(shared, 1.0, out=shared)
        shared.T[2] = -1.0
        shared.sort()

    try:
        _within_a_trace(work)
        got = shared.copy()
        shared[...] = mine
        work()
        assert_same(got, shared)
    finally:
        shared[...] = mine


def test_what_another_thread_keeps_is_the_array():
    kept = []
    _within_a_trace(lambda: kept.append(np.asarray(shared)))
    assert kept[0] is shared
    found = []

    def f(x):
        found.append(_elsewhere(lambda: shared))
        return np.sum(shared * x)

    jit(f)(2.0)
    (handle,) = found  # the trace is over
    assert_same(handle * 2.0, shared * 2.0)
    assert_same(np.sum(handle), np.sum(shared))
    del handle, found[:]
    assert not PLACEHOLDERS


def test_a_handle_of_an_earlier_trace_is_the_array_in_later_ones():
    old, new = (tr.param(np.zeros(3)) for _ in range(2))
    add_placeholder(old, shared)
    assert tr.istracked(old * 2.0)
    release_placeholder(old)
    add_placeholder(new, shared)
    assert_same(np.sum(old * 2.0, axis=0), np.sum(shared * 2.0, axis=0))
    assert tr.istracked(new * 2.0)
    _elsewhere(lambda: assert_same(np.add(new, new), shared + shared))
    release_placeholder(new)
    assert_same(new[0], shared[0])


def test_what_another_thread_rebinds_stays():
    mine = table["w"], table["k"]
    new = np.full(3, 5.0)

    def work():
        table["w"].append(new)
        table["w"][0] = new
        table["k"] = 3.0

    def f(x):
        if x < 2:
            _elsewhere(work)
        return np.sum(table["w"][1] * x) * table["k"]

    try:
        g = jit(f)
        g(1.0)
        assert len(table["w"]) == 3 and table["w"][0] is new is table["w"][2]
        assert table["k"] == 3.0 and type(table["w"][1]) is np.ndarray
        assert g(2.0) == 18.0
    finally:
        table["w"], table["k"] = mine
        del table["w"][2:]
        table["w"][0] = np.ones(3)


def test_a_trace_that_another_thread_disturbed_is_not_kept():
    """The array itself stood there again before the trace was over: what read it went unheard."""
    c = np.ones(3)

    def work():
        nonlocal c
        c *= 1.0

    def f(x):
        if f_waits:
            _elsewhere(work)
        return np.sum(2 * c) * x

    f_waits = [True]
    g = jit(f)
    assert g(2.0) == 12.0
    f_waits.clear()
    for k in range(3):
        c[:] = k
        assert g(2.0) == 12.0 * k


def test_a_traced_function_may_wait_for_threads_that_call_jitted_ones():
    inner = jit(lambda x: np.sum(x**2) + shared[0, 1])

    def f(x):
        with ThreadPoolExecutor(2) as pool:
            parts = list(pool.map(inner, [np.ones(3), np.ones(4), np.ones(5)]))
        return x * sum(parts)

    g = jit(f)
    want = 2.0 * (12.0 + 3 * shared[0, 1])
    for _ in range(2):
        assert_same(g(2.0), want)


def test_readers_while_others_trace(switching_often):
    """Threads that read and call, while one traces again and again."""
    stop, wrong = threading.Event(), []
    want = shared * 2 + 1, np.sum(shared)
    called = jit(lambda x: np.sum(shared * x))

    def read():
        while not stop.is_set():
            got = shared * 2 + 1, np.sum(shared)
            if (
                type(got[0]) is not np.ndarray
                or type(got[1]) is not np.float64
                or not np.array_equal(got[0], want[0])
                or got[1] != want[1]
            ):
                wrong.append(got)
            if called(2.0) != 2 * want[1]:
                wrong.append("called")

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for k in range(12):
        f = jit(lambda x, k=k: np.sum(np.sin(shared) * x) + k)
        assert np.isclose(f(2.0), np.sum(np.sin(shared) * 2.0) + k)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert not wrong and type(shared) is np.ndarray and not PLACEHOLDERS


def test_many_threads_with_new_signatures():
    def plain(x):
        y = np.tanh(x) * shared[0, 1]
        return np.sum(y) + table["k"] if len(x) % 2 else np.sum(y * y)

    f = jit(plain)

    def work(seed):
        for n in range(1, 5):
            x = np.linspace(0.0, 1.0, n + seed % 3)
            assert_same(f(x), plain(x))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6), timeout=120))
    assert f.cache_info().signatures <= 7


def _child_is_sound(work):
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    for _ in range(600):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status == 0
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_while_another_thread_traces():
    tracing, go_on = threading.Event(), threading.Event()

    def f(x):
        y = np.sum(shared * x)
        tracing.set()
        go_on.wait(60)
        return y

    g = jit(f)
    thread = threading.Thread(target=g, args=(2.0,))
    thread.start()
    tracing.wait(60)

    def work():
        go_on.set()
        h = jit(lambda x: np.sum(shared * x))
        return type(shared) is np.ndarray and h(2.0) == h(2.0) == 2 * np.sum(shared)

    sound = _child_is_sound(work)
    go_on.set()
    thread.join(60)
    assert sound and type(shared) is np.ndarray
    assert g(2.0) == 2 * np.sum(shared)


def test_a_fork_within_a_trace():
    children = []

    def f(x):
        y = np.sum(shared * x)
        if not children:
            children.append(_child_is_sound(lambda: float(tr.data(np.sum(shared))) == 15.0))
        return y

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert jit(f)(2.0) == 30.0
    assert children == [True]


def test_interrupts_at_any_time(collector_off):
    """A signal while a function is traced and compiled: nothing stays at the places."""
    f = jit(lambda x: np.sum(np.sin(shared * x) + table["w"][0][0]))
    hits = 0
    for delay in np.linspace(0.001, 0.05, 12):
        f.clear_cache()
        timer = threading.Timer(float(delay), os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            f(2.0)
            timer.join()
            time.sleep(0.001)
        except KeyboardInterrupt:
            hits += 1
        timer.join()
        assert type(shared) is np.ndarray and type(table["w"][0]) is np.ndarray and not ACTIVE_SWAPS
        assert np.isclose(f(2.0), np.sum(np.sin(shared * 2.0) + 1.0))
    assert hits == 12


def test_an_interrupt_waits_until_llvm_is_done():
    done = []
    with pytest.raises(KeyboardInterrupt), LOCK:
        with LOCK:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        done.append(True)
    assert done and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with LOCK:  # it is forgotten
        pass


def test_what_a_timer_raises_waits_until_llvm_is_done():
    """As timeouts of test suites do; what another handler raises keeps none from its turn."""

    def is_out(number, frame):
        heard.append(number)
        raise TimeoutError(str(number))

    heard, done = [], []
    numbers = signal.SIGALRM, signal.SIGUSR1
    before = [signal.signal(each, is_out) for each in numbers]
    try:
        with pytest.raises(TimeoutError), LOCK:
            with LOCK:
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGUSR1)
                time.sleep(0.001)
                assert not heard
            done.append(True)
        assert done and heard == list(numbers)
        assert [signal.getsignal(each) for each in numbers] == [is_out, is_out]
        with pytest.raises(TimeoutError):
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(1)
    finally:
        for each, handler in zip(numbers, before, strict=True):
            signal.signal(each, handler)


def test_an_exception_of_a_deferred_handler_is_raised_afterwards(monkeypatch):
    class Late:
        """Signals, of which one was handled just when SIGTERM was asked for."""

        signal = staticmethod(signal.signal)

        def getsignal(self, number):
            if number == signal.SIGTERM and not raised:
                raised.append(TimeoutError())
                raise raised[0]
            return signal.getsignal(number)

    raised, done = [], []
    monkeypatch.setattr(deferred_signals, "_signal", Late())
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
        with pytest.raises(TimeoutError), deferred_signals.SIGNALS_DEFERRED:
            for each, handler in zip((signal.SIGINT, signal.SIGTERM), handlers, strict=True):
                assert signal.getsignal(each) is not handler
            done.append(True)
        assert done
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
    finally:
        signal.signal(signal.SIGTERM, before)


def test_signals_without_handlers_stay_as_they_are():
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        with LOCK:
            assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGUSR2)
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_many_threads_create_the_first_functions():
    """What all compiled functions share is made by one of them: code that another made and nobody
    kept would be freed under its callers."""
    code = """
import threading, numpy as np, tracker
barrier, results = threading.Barrier(6), []
def work(k):
    barrier.wait()
    for i in range(4):
        f = tracker.jit(lambda x: tracker.gradient(lambda y: np.sum(np.sin(y) * k + i), x)[0])
        for _ in range(3):
            results.append(np.allclose(f(np.ones(40)), np.cos(1.0) * k))
threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(results), all(results))
"""
    out = fresh_python.run(code, PYTHONFAULTHANDLER="1", PYTHONWARNINGS="error")
    assert (out.stdout.strip(), out.stderr) == ("72 True", "")


@pytest.mark.parametrize("cycle", [False, True])
def test_an_interrupt_while_machine_code_is_freed_comes_afterwards(cycle):
    """What is gone is freed with the next link: in a finaliser an interrupt would be lost, and the
    collector runs those of a whole cycle, the library's own before the module's."""

    class Library:
        def close(self):
            if not done:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)
                done.append(True)

        __del__ = close

    done = []
    module = engine.Module(Library(), b"", (), "", 0)
    if cycle:
        module.text = module
    del module
    gc.collect()
    assert not done
    with pytest.raises(KeyboardInterrupt):
        engine.compile_module("define void @f() {\n  ret void\n}\n")
    assert done and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("times", [1, 3, 5])  # a trace that is dropped runs the function twice
def test_draws_of_another_thread_are_not_the_functions(times):
    """A thread that loads data draws random numbers whenever it likes."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        loads = [threading.Lock() for _ in range(times)]

        def loss(x):
            if any(load.acquire(blocking=False) for load in loads):
                pool.submit(np.random.random).result(timeout=60)
            return np.sum(x * x)

        f = jit(loss)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(times + 3):
                assert f(np.ones(3)) == 3.0
        assert len(caught) == (times == 5)
        assert f.cache_info().traces == (times < 5)
        assert f.cache_info().eager == (times == 5)


def test_a_module_that_another_thread_fills_while_a_function_is_traced(monkeypatch):
    module = types.ModuleType("filled_meanwhile")
    module.first, module.second = [1.0], [2.0]
    known = frozenset(sys.modules)
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def look(x):  # here the other thread runs
        setattr(module, f"n{len(vars(module))}", x)
        return True

    monkeypatch.setattr(trace, "contains_handle", look)
    sources = trace._sources_in(trace._new_modules(known))
    assert [source.read() for source in sources] == [[1.0], [2.0]]
