"""Impure calls run in plain Python, with a warning; calls known to be pure are compiled."""

import concurrent.futures
import contextlib
import copy
import ctypes
import dataclasses
import datetime
import decimal
import functools
import gc
import glob
import itertools
import json
import locale
import logging
import math
import mmap
import os
import queue
import random
import re
import select
import socket
import sqlite3
import string
import subprocess
import sys
import threading
import time
import uuid
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import scipy.interpolate
import scipy.spatial
import scipy.special
import scipy.stats
from tqdm import tqdm

import tracker.numpy as tnp
from tracker import (
    CompileError,
    UnsupportedError,
    custom_gradient,
    fori_loop,
    gradient,
    hook,
    jit,
    scalar_rule,
    trace,
    track,
)
from tracker.jit.discovery.captured_state import find_captured_state
from tracker.jit.discovery.impure_calls import ImpureCallMonitor

tqdm.monitor_interval = 0  # its thread would go on for as long as the process does

clock = time.perf_counter
library = ctypes.CDLL(None)
absolute = library.abs
base = sqlite3.connect(":memory:", check_same_thread=False)


def _changes(connection):
    with closing(connection):
        return connection.total_changes


memory = mmap.mmap(-1, 16)
X = np.arange(3.0)


def _timed(x):
    start = time.perf_counter()
    y = np.sum(np.sin(x))
    return y, time.perf_counter() - start


def _read(x, path):
    with open(path) as file:
        return x * float(file.read())


def _selected(x):
    with socket.socket() as one:
        return x * len(select.select([one], [], [], 0))


def _sent(x):
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"ab")
        return x * len(other.recv(2))


def _used(x):
    import resource

    return x * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@functools.lru_cache
def _cached_at(_):
    return time.time()


def _times_now(a, b):
    return a * b * time.time()


class _Clock:
    def now(self):
        return clock()


CLOCK = _Clock()
SYSTEM = random.SystemRandom()


@custom_gradient
def _squared(x):
    return x * x, lambda g: (2.0 * x * g * time.time(),)


def _cubed(x):
    return x**3


scalar_rule(_cubed, lambda x: 3.0 * x * x * time.time())

# What is called, by what; the words of the warning.
ASKS = {
    "clock": (lambda x: x * time.time(), "time.time"),
    "under another name": (lambda x: x * clock(), "time.perf_counter"),
    "in a method": (lambda x: x * CLOCK.now(), "time.perf_counter"),
    "in evaluated text": (lambda x: x * eval("time.time()"), "time.time"),
    "by dynamic name": (lambda x: x * getattr(time, "ti" + "me")(), "time.time"),
    "in a callback": (lambda x: functools.reduce(_times_now, [x, x]), "time.time"),
    "in a hook": (
        lambda x: gradient(lambda y: hook(lambda g: g * time.time(), y * 2.0), x)[0],
        "time.time",
    ),
    "in a rule": (lambda x: gradient(lambda y: _squared(y * 2.0), x)[0], "time.time"),
    "in a partial derivative": (
        lambda x: gradient(lambda y: track(_cubed, y * 2.0), x)[0],
        "time.time",
    ),
    "in a rule in a loop": (
        lambda x: gradient(lambda y: fori_loop(0, 3, lambda i, c: _squared(c), y), x)[0],
        "time.time",
    ),
    "now": (lambda x: x * datetime.datetime.now().microsecond, "datetime.datetime.now"),
    "today": (lambda x: x * datetime.date.today().day, "datetime.date.today"),
    "directory": (lambda x: x * len(os.getcwd()), "os.getcwd"),
    "exists": (lambda x: x * os.path.exists("/"), "os.path.exists"),
    "glob": (lambda x: x * len(glob.glob("/*")), "glob.glob"),
    "walk": (lambda x: x * len(next(os.walk("/"))), "os.walk"),
    "scandir": (lambda x: x * len(list(os.scandir("/"))), "os.scandir"),
    "files of a path": (lambda x: x * len(list(Path("/").iterdir())), "pathlib.*iterdir"),
    "text of a file": (lambda x: x * len(Path(__file__).read_text()), "pathlib.*read_text"),
    "array of a file": (lambda x: x * len(np.fromfile(__file__, np.uint8)), "numpy.fromfile"),
    "table": (lambda x: x * np.loadtxt(["1"]), "numpy.loadtxt"),
    "table by tracker": (lambda x: x * tnp.loadtxt(["1"]), "numpy.loadtxt"),
    "program": (lambda x: x * subprocess.call([sys.executable, "-S", "-c", ""]), "subprocess.call"),
    "data base": (lambda x: x * _changes(sqlite3.connect(":memory:")), "sqlite3.connect"),
    "captured data base": (lambda x: x * base.total_changes, "sqlite3.Connection"),
    "usage": (_used, "resource.getrusage"),
    "name of the machine": (lambda x: x * len(socket.gethostname()), "socket.gethostname"),
    "socket": (_sent, "socket.socketpair"),
    "select": (_selected, "select.select"),
    "locale": (lambda x: x * len(locale.localeconv()), "locale.localeconv"),
    "C function": (lambda x: x * library.abs(-3), "abs"),
    "captured C function": (lambda x: x * absolute(-3), "absolute"),
    "loaded library": (lambda x: x * ctypes.CDLL(None).abs(-3), "ctypes.CDLL"),
    "address": (lambda x: x * len(ctypes.string_at(id(clock), 1)), "ctypes.string_at"),
    "shared memory": (lambda x: x * (1 + memory[0]), "mmap.mmap"),
    "made shared memory": (lambda x: x * mmap.mmap(-1, 16)[0], "mmap.mmap"),
    "settings of NumPy": (lambda x: x * len(np.geterr()), "numpy.geterr"),
    "settings of decimal": (lambda x: x * decimal.getcontext().prec, "decimal.getcontext"),
    "thread": (lambda x: x * len(threading.current_thread().name), "threading.current_thread"),
    "threads": (lambda x: x * threading.active_count(), "threading.active_count"),
    "recursion": (lambda x: x * sys.getrecursionlimit(), "sys.getrecursionlimit"),
    "uuid": (lambda x: x * (uuid.uuid4().int % 1000), "uuid.uuid4"),
    "entropy": (
        lambda x: x * (np.random.SeedSequence().entropy % 9),
        "random.SystemRandom.getrandbits",
    ),
    "body of a progress bar": (lambda x: sum(x * time.time() for _ in tqdm(range(2))), "time.time"),
    "under a progress bar": (lambda x: sum(x * t for t in tqdm(_ticks())), "time.time"),
    "under a disabled bar": (
        lambda x: sum(x * t for t in tqdm(_ticks(), disable=True)),
        "time.time",
    ),
    "files under a bar": (lambda x: x * len(list(tqdm(Path("/").iterdir()))), "(listdir|scandir)"),
    "time of a bar": (lambda x: x * tqdm([]).format_dict["elapsed"], "tqdm.std.*format_dict"),
    "captured entropy": (lambda x: x * SYSTEM.random(), "random.SystemRandom"),
    "entropy of the system": (lambda x: x * random.SystemRandom().random(), "random.SystemRandom"),
}


@pytest.mark.parametrize("name", ASKS)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_impure_calls_run_in_plain_python(name):
    f, what = ASKS[name]
    fast = jit(f)
    line = rf"pure=\[.*test_impure_calls\.py:{f.__code__.co_firstlineno}\)"
    if name in ELSEWHERE:
        line = r"pure=\["
    with pytest.warns(RuntimeWarning, match=rf"{what}\b.*may differ.*{line}"):
        fast(2.0)
    assert np.shape(fast(2.0)) == ()
    assert fast.cache_info()[:] == (0, 1, 2, 1)
    with pytest.raises(CompileError, match=what):
        jit(f, strict=True)(2.0)
    with pytest.raises(CompileError, match=what):
        trace(f, 2.0)


ELSEWHERE = {
    *("in a method", "in evaluated text", "usage", "socket", "select", "in a callback"),
    *("under a progress bar", "under a disabled bar"),
    *("in a rule", "in a partial derivative", "in a rule in a loop"),
}


def _warned(x):
    warnings.warn("as it is traced", stacklevel=2)
    return x


def _logged(x):
    logging.getLogger("asking").warning("called %s", 1)  # which looks at the clock
    return x


def _with_a_progress_bar(x):
    from tqdm.auto import trange

    for _ in trange(3, leave=False):
        x = x * 1.1
    return x


def _described(x):
    with tqdm(total=3) as bar:
        for i in range(3):
            x = x * 1.1
            bar.set_postfix(x=x, i=i)
            bar.set_description(f"x = {x:.2f}")
            bar.write(f"{x:.2f}")
            bar.update()
    return x


@dataclasses.dataclass
class _Pair:
    a: float
    b: float


@functools.lru_cache
def _root(n):
    return math.sqrt(n)


class _Timed:
    """Names that only look like those of `time`."""

    def __init__(self):
        self.time = 3.0

    def now(self):
        return self.time


TIMED = _Timed()


class _Config(dict):
    """Attributes of its own, by dynamic names."""

    def all(self):
        return [getattr(self, name)() for name in ("copy", "keys")]


SPLINE = scipy.interpolate.BSpline(np.arange(8.0), np.ones(4), 3)
TREE = scipy.spatial.KDTree(X[:, None])
CUBIC = scipy.interpolate.CubicSpline(X, X**2)
KDE = scipy.stats.gaussian_kde(np.arange(5.0))
NORMAL = scipy.stats.norm(0.1, 2.0)

FLOATS = sys.float_info
PURE = {
    "math": lambda x: x * math.sin(1.0) + cmath_real(),
    "itertools": lambda x: x * sum(itertools.chain([1], [2])),
    "re": lambda x: x * len(re.findall("a", "banana")),
    "json": lambda x: x * json.loads(json.dumps([2.0]))[0],
    "dataclass": lambda x: dataclasses.replace(_Pair(1.0, 2.0), a=x).a,
    "fields": lambda x: x * dataclasses.asdict(_Pair(1.0, 2.0))["b"],
    "cached": lambda x: x * _root(4),
    "partial": lambda x: functools.reduce(lambda a, b: a * b, [x, 2.0]),
    "numpy": lambda x: np.sum(np.linalg.inv(np.eye(2)) * x) + np.interp(0.5, X, X),
    "special": lambda x: scipy.special.gamma(x) * scipy.special.erf(0.3),
    "deepcopy": lambda x: copy.deepcopy([x, _Pair(1.0, 2.0)])[0],
    "text": lambda x: x * len(f"{2.0:.2f}" + "{} {}".format(1, "a") % () + string.digits),
    "path": lambda x: x * len(os.path.join("a", "b")) * len(Path("/a/b").name),
    "date": lambda x: x * (datetime.date(2020, 1, 2) - datetime.date(2020, 1, 1)).days,
    "environment": lambda x: x * len(os.environ.get("ASKING", "a")),
    "limits": lambda x: x * sys.float_info.epsilon + FLOATS.max * 1e-300,
    "seeded": lambda x: x * np.random.default_rng(0).random(),
    "printed": lambda x: (print("traced"), print(1, file=sys.stderr), x)[2],
    "logged": _logged,
    "progress bar": lambda x: sum(x * i for i in tqdm(range(3), desc="traced")),
    "imported progress bar": _with_a_progress_bar,
    "described progress bar": _described,
    "dynamic names": lambda x: x * len(_Config(a=1).all()),
    "names of a clock": lambda x: x * TIMED.now(),
    "evaluated text": lambda x: x * eval("1 + 1"),
    "captured spline": lambda x: np.sum(x) * float(SPLINE(3.5)),
    "captured cubic": lambda x: np.sum(x) * float(CUBIC(0.5)),
    "captured tree": lambda x: np.sum(x) * TREE.query([0.2])[0],
    "captured density": lambda x: np.sum(x) * KDE(0.3)[0],
    "captured distribution": lambda x: np.sum(x) * NORMAL.pdf(0.3),
}


def cmath_real():
    import cmath

    return cmath.sqrt(4).real


@pytest.mark.parametrize("name", PURE)
def test_what_is_known_to_be_pure_is_compiled(name):
    f = PURE[name]
    fast = jit(f)
    for x in (2.0, 2.0, 3.0):
        np.testing.assert_allclose(fast(x), f(x), rtol=1e-14)
    info = fast.cache_info()
    assert info.traces and not info.eager


def test_what_warns_is_compiled():
    fast = jit(_warned)
    with pytest.warns(UserWarning, match="as it is traced"):
        assert fast(2.0) == 2.0
    assert fast.cache_info().traces == 1


def _looked_up(key):
    return base.execute("select ? + 1", (key,)).fetchone()[0]


def _ticks():
    yield time.time()


VOUCHED = {
    "function": (lambda x: x * _looked_up(2), [_looked_up]),
    "one": (lambda x: x * _looked_up(2), _looked_up),
    "in C": (lambda x: x * len(os.listdir("/")), [os.listdir]),
    "of a library": (lambda x: x * len(glob.glob("/*")), [glob.glob]),
    "generator": (lambda x: x * next(_ticks()), [_ticks]),
    "generator of a library": (lambda x: x * len(next(os.walk("/"))), [os.walk]),
    "class": (lambda x: x * CLOCK.now(), [_Clock]),
    "module": (lambda x: x * time.time(), [time]),
    "foreign": (lambda x: x * absolute(-3), [absolute]),
    "object": (lambda x: x * base.execute("select 3").fetchone()[0], [sqlite3]),
}


@pytest.mark.parametrize("name", VOUCHED)
def test_what_the_user_vouches_for_is_compiled(name):
    f, pure = VOUCHED[name]
    fast = jit(f, pure=pure)
    assert fast(2.0) == fast(2.0)
    assert fast.cache_info().traces == 1
    assert jit(pure=pure)(f)(2.0) == fast(2.0) or name in ("generator", "class", "module")


def test_what_is_vouched_for_covers_no_other():
    fast = jit(lambda x: x * _looked_up(1) * time.time(), pure=[_looked_up])
    with pytest.warns(RuntimeWarning, match=r"time\.time"):
        fast(2.0)


def test_what_cannot_be_vouched_for():
    with pytest.raises(UnsupportedError, match=r"pure=\[3\], which is no function"):
        jit(lambda x: x, pure=[3])


def test_an_impure_helper_with_a_cache_is_impure():
    fast = jit(lambda x: x * _cached_at(object()))
    with pytest.warns(RuntimeWarning, match=r"time\.time"):
        for _ in range(3):
            fast(2.0)


def test_a_module_that_is_imported_by_a_call(tmp_path, monkeypatch):
    """Calls and draws made while a module is loaded happen once."""
    text = "import random, time\nimport numpy as np\n"
    (tmp_path / "loaded_late.py").write_text(
        f"{text}T = time.time(), random.random(), np.random.rand()"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def f(x):
        import loaded_late

        return x * loaded_late.T[1]

    fast = jit(f)
    assert len({fast(2.0) for _ in range(4)}) == 1
    assert fast.cache_info()[:2] == (1, 1) and not fast.cache_info().eager


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


def test_only_what_is_not_known_is_watched():
    """A trace that is watched takes three times as long."""

    def parts(x):
        part = slice(0, 2)
        return x[part.start : part.stop] * len(list(map(str, [1]))) * math.pi

    assert not find_captured_state(parts, []).may_be_impure
    assert find_captured_state(_by_a_thread_of_its_own, []).may_be_impure


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


def test_derivatives_of_impure_functions():
    fast = jit(lambda x: _timed(x)[0])
    with pytest.warns(RuntimeWarning, match="calls time.perf_counter"):
        np.testing.assert_allclose(gradient(fast, X)[0], np.cos(X))


def test_what_does_not_ask_is_not_watched(monkeypatch):
    monkeypatch.setattr(ImpureCallMonitor, "__enter__", lambda self: pytest.fail("it is watched"))
    assert jit(lambda x: np.sum(x * 2.0))(X) == 6.0


def test_nothing_is_traced_under_a_profiler():
    called = []

    def profile(_frame, event, x):
        if event == "c_call":
            called.append(x)

    fast, known = jit(lambda x: x * len(os.path.join("a", "b"))), jit(lambda x: x * 2.0)
    sys.setprofile(profile)
    try:
        with pytest.warns(RuntimeWarning, match="another profile function is set") as warned:
            assert fast(2.0) == fast(2.0) == 6.0
            assert known(2.0) == 4.0
        with pytest.raises(CompileError, match="another profile function is set"):
            jit(lambda x: x * len(os.path.join("a", "b")), strict=True)(2.0)
        sum([1, 2])
        goes_on = sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert goes_on and sum in called and len(warned) == 1
    assert fast.cache_info()[:2] == (0, 1) and known.cache_info().traces == 1
    assert fast(2.0) == fast(2.0) == 6.0
    assert fast.cache_info().traces == 1 and not fast.cache_info().eager


def test_an_error_removes_the_monitor():
    def f(x):
        time.sleep(0.0)
        raise LookupError(str(time))

    with pytest.raises(LookupError):
        jit(f)(2.0)
    assert sys.getprofile() is None


def test_callbacks_of_the_collector_are_no_calls_of_the_function():
    def callback(*_):
        return time.perf_counter()

    f = jit(lambda x: (gc.collect(0), x * 2.0)[1], pure=[gc.collect])
    gc.callbacks.append(callback)
    try:
        assert [f(3.0), f(4.0)] == [6.0, 8.0]
    finally:
        gc.callbacks.remove(callback)
    assert f.cache_info().traces == 1
