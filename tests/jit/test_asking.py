"""Functions that ask the clock, files, entropy: they run in plain Python, and are said to."""

import concurrent.futures
import contextlib
import datetime
import decimal
import logging
import os
import queue
import random
import sys
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

from tracker import CompileError, gradient, jit
from tracker.jit.asking import Asking
from tracker.jit.reads import reads_of

clock = time.perf_counter
X = np.arange(3.0)


def _timed(x):
    start = time.perf_counter()
    y = np.sum(np.sin(x))
    return y, time.perf_counter() - start


def _read(x, path):
    with open(path) as file:
        return x * float(file.read())


# What is asked, by what; the words of the warning.
ASKS = {
    "clock": (lambda x: x * time.time(), "time.time"),
    "under another name": (lambda x: x * clock(), "time.perf_counter"),
    "now": (lambda x: x * datetime.datetime.now().microsecond, "datetime.datetime.now"),
    "today": (lambda x: x * datetime.date.today().day, "datetime.date.today"),
    "directory": (lambda x: x * len(os.getcwd()), "os.getcwd"),
    "exists": (lambda x: x * os.path.exists("/"), "os.path.exists"),
    "text of a file": (lambda x: x * len(Path(__file__).read_text()), "pathlib.Path.read_text"),
    "settings of NumPy": (lambda x: x * len(np.geterr()), "numpy.geterr"),
    "settings of decimal": (lambda x: x * decimal.getcontext().prec, "decimal.getcontext"),
    "thread": (lambda x: x * len(threading.current_thread().name), "threading.current_thread"),
    "recursion": (lambda x: x * sys.getrecursionlimit(), "sys.getrecursionlimit"),
    "uuid": (lambda x: x * (uuid.uuid4().int % 1000), "os.urandom"),
    "entropy of the system": (lambda x: x * random.SystemRandom().random(), "os.urandom"),
}


@pytest.mark.parametrize("name", ASKS)
def test_who_asks_runs_in_plain_python(name):
    f, what = ASKS[name]
    fast = jit(f)
    line = rf"test_asking\.py:{f.__code__.co_firstlineno}\)"
    with pytest.warns(RuntimeWarning, match=rf"asks .*\({what}\).*{line}"):
        fast(2.0)
    assert np.shape(fast(2.0)) == ()
    assert fast.cache_info()[:] == (0, 1, 2, 1)
    with pytest.raises(CompileError, match=what):
        jit(f, strict=True)(2.0)


def _by_a_thread(x):
    found = []
    worker = threading.Thread(target=lambda: found.append(np.sum(x * 2.0)))
    worker.start()
    worker.join()
    return x * found[0]


def _by_a_pool(x):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return sum(pool.map(lambda v: v * 2.0, [x, x + 1.0]))


def _by_a_future(x):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(np.sin, x).result() * x


class _Doubled(threading.Thread):
    def __init__(self, x):
        super().__init__()
        self.x = x

    def run(self):
        self.x = self.x * 2.0


def _by_a_thread_of_its_own(x):
    worker = _Doubled(x)
    worker.start()
    worker.join()
    return worker.x


@pytest.mark.parametrize("f", [_by_a_thread, _by_a_pool, _by_a_future, _by_a_thread_of_its_own])
@pytest.mark.filterwarnings("ignore:.*runs in plain Python")
def test_what_other_threads_compute(f):
    fast, slope = jit(f), jit(lambda x: gradient(lambda x: np.sum(f(x)), x)[0])
    for k in (1.0, 1.0, 2.0, 3.0):
        np.testing.assert_array_equal(fast(X * k), f(X * k))
        np.testing.assert_array_equal(slope(X * k), gradient(lambda x: np.sum(f(x)), X * k)[0])


@pytest.mark.filterwarnings("ignore:.*runs in plain Python")
def test_a_pool_that_is_found_or_given():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        found = jit(lambda x: pool.submit(lambda: np.sum(x * 2.0)).result())
        given = jit(lambda x, p: p.submit(lambda: np.sum(x * 2.0)).result())
        for k in (1.0, 2.0, 3.0):
            assert found(X * k) == given(X * k, pool) == np.sum(X * k * 2.0)


def test_only_who_has_somebody_is_watched():
    """A trace that is watched takes more than twice as long."""

    def parts(x):
        part = slice(0, 2)
        return x[part.start : part.stop] * len(list(map(str, [1])))

    assert not reads_of(parts, []).asks
    assert reads_of(_by_a_thread_of_its_own, []).asks


def test_what_a_thread_computes_that_has_long_been_there():
    todo, done = queue.Queue(), queue.Queue()

    def work():
        while (x := todo.get()) is not None:
            done.put(x * 2.0)

    def f(x):
        todo.put(x + 1.0)
        return done.get() * x

    worker = threading.Thread(target=work)
    worker.start()
    try:
        fast = jit(f)
        with pytest.warns(RuntimeWarning, match="what another thread has computed"):
            np.testing.assert_array_equal(fast(X), f(X))
        for k in (1.0, 2.0, 3.0):
            np.testing.assert_array_equal(fast(X * k), f(X * k))
    finally:
        todo.put(None)
        worker.join()


def test_answers_are_those_of_the_moment(tmp_path):
    path = tmp_path / "factor"
    fast = jit(_read)
    for text in ("2.0", "3.0", "4.0"):
        path.write_text(text)
        with pytest.warns(RuntimeWarning) if text == "2.0" else contextlib.nullcontext():
            np.testing.assert_array_equal(fast(X, path), X * float(text))


def test_a_generator_of_the_system_as_a_capture():
    source = random.SystemRandom()
    fast = jit(lambda x: x + source.random())
    with pytest.warns(RuntimeWarning, match=r"os\.urandom"):
        found = {fast(1.0) for _ in range(4)}
    assert len(found) == 4


def test_derivatives_of_who_asks():
    fast = jit(lambda x: _timed(x)[0])
    with pytest.warns(RuntimeWarning, match="asks for the time"):
        np.testing.assert_allclose(gradient(fast, X)[0], np.cos(X))


def test_a_seeded_generator_and_a_logger_are_compiled(caplog):
    log = logging.getLogger("asking")

    def f(x):
        log.warning("called")  # which looks at the clock, for its own purposes
        return x * np.random.default_rng(0).random()

    fast = jit(f)
    for _ in range(3):
        assert fast(2.0) == 2.0 * np.random.default_rng(0).random()
    assert fast.cache_info().traces == 1


def test_what_does_not_ask_is_not_watched(monkeypatch):
    monkeypatch.setattr(Asking, "__enter__", lambda self: pytest.fail("it is watched"))
    assert jit(lambda x: np.sum(x * 2.0))(X) == 6.0


def test_a_name_that_only_looks_like_it_is_compiled():
    class Model:
        def __init__(self):
            self.time = 3.0

        def now(self):
            return self.time

    model = Model()
    fast = jit(lambda x: x * model.now())
    for _ in range(3):
        assert fast(2.0) == 6.0
    assert fast.cache_info().traces == 1


def test_a_profiler_goes_on():
    called = []

    def profile(_frame, event, x):
        if event == "c_call":
            called.append(x)

    sys.setprofile(profile)
    jit(lambda x: x * time.time())(2.0)
    sum([1, 2])
    goes_on = sys.getprofile() is profile
    sys.setprofile(None)
    assert goes_on
    assert sum in called


def test_an_error_leaves_nobody_watching():
    def f(x):
        time.sleep(0.0)
        raise LookupError(str(time))

    with pytest.raises(LookupError):
        jit(f)(2.0)
    assert sys.getprofile() is None
