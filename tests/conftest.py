"""Hypothesis profiles, and fixtures that fail any test that leaves something behind."""

import gc
import os
import signal
import threading
import warnings
import zlib

# Threads of BLAS that wait for one another take more time than the tests; it reads this at first.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tracker import distributed as _distributed  # noqa: F401  (declares an op: see below)
from tracker.ir import op
from tracker.jit.dispatch import interpreter, jitted
from tracker.jit.llvm import engine, object_cache
from tracker.jit.pipeline import compile
from tracker.jit.runtime.compile_queue import drain
from tracker.ops import special  # noqa: F401  (declared late otherwise: in the middle of a test)
from tracker.scipy import interpolate as _interpolate  # noqa: F401  (as above)
from tracker.scipy import linalg as _linalg  # noqa: F401  (as above)
from tracker.scipy import signal as _signal  # noqa: F401  (as above)
from tracker.scipy import sparse as _sparse  # noqa: F401  (as above)
from tracker.scipy import special as _special  # noqa: F401  (as above)
from tracker.tape import observers
from tracker.tape.tracing.tracer import current_tracer

os.environ["TRACKER_CACHE"] = "0"  # tests compile, but for those that ask for `folder`

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell has what it runs in the background ignore interrupts; some tests wait for one.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What pytest and hypothesis keep lives long: to go through it again and again took a tenth of all.
gc.set_threshold(20_000, 20, 50)


def pytest_configure(config):
    config.addinivalue_line("markers", "optimised: LLVM optimises every program of the test")
    config.addinivalue_line("markers", "crossed: the deep profile runs every combination of values")


def pytest_collection_finish():
    """What is there before the first test lives as long as the tests: to go through it took as long
    as most tests that collect."""
    gc.collect()
    gc.freeze()


_QUIET = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", max_examples=10, derandomize=True, database=None, **_QUIET)
settings.register_profile("dev", max_examples=50, **_QUIET)
settings.register_profile("deep", max_examples=1000, **_QUIET)
PROFILE = os.environ.get("TRACKER_HYPOTHESIS", "ci")
settings.load_profile(PROFILE)


def _state():
    """Everything global that a test could leave changed."""
    return {
        "listeners": len(observers.observers),
        "stage": current_tracer(),
        "np.errstate": (np.geterr(), np.geterrcall()),
        "np.printoptions": np.get_printoptions(),
        "ops": dict(op.OPS),
        "NumPy table": dict(op.NUMPY),
        "method table": dict(op.METHODS),
        "ufunc table": dict(op.UFUNCS),
        "threads": {t for t in threading.enumerate() if not t.daemon},
        "warning filters": list(warnings.filters),
    }


@pytest.fixture(autouse=True)
def nothing_left_behind():
    before = _state()
    yield
    drain()
    after = _state()
    changed = [name for name in before if before[name] != after[name]]
    assert not changed, f"the test left these changed: {', '.join(changed)}"


@pytest.fixture(autouse=True)
def compiled_quickly(request, monkeypatch):
    """LLVM takes longer than all of the rest, for programs that are much alike: it optimises some
    only; which, their text decides, or the test's name if they are exported. Tests of what it makes
    of a text are marked `optimised`. The second call of a function is compiled code's, not the
    interpreter's, whatever its shapes."""
    monkeypatch.setattr(interpreter, "_MAX_CALLS", 0)
    monkeypatch.setattr(jitted, "_TRACED_SHAPES", 10**6)
    monkeypatch.setattr(compile, "_MAX_QUICK_OPERATIONS", -1)  # nothing is compiled a second time
    if request.node.get_closest_marker("optimised"):
        monkeypatch.setattr(object_cache, "_recent", {})  # another test's text, compiled quickly
        return
    one_of = 6
    if PROFILE == "deep":
        one_of = 8 if request.node.get_closest_marker("hypothesis") else 3
    compile_module, run_all_passes = engine.compile_module, engine._run_all_passes

    def is_optimised(text):
        return zlib.crc32(text.encode()) % one_of == 0

    def quickly(text, *, level=engine.OPTIMISED, symbols=None):
        level = level if is_optimised(text) else engine.QUICK
        return compile_module(text, level=level, symbols=symbols)

    def run_some(module, machine):
        if is_optimised(request.node.nodeid):
            run_all_passes(module, machine)

    monkeypatch.setattr(engine, "_run_all_passes", run_some)
    monkeypatch.setattr(engine, "compile_module", quickly)


@pytest.fixture
def uncollected():
    """The cyclic collector is off: what goes, goes by its reference count."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where compiled code is kept, for this test."""
    monkeypatch.setenv("TRACKER_CACHE", "1")
    monkeypatch.setenv("TRACKER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(
        object_cache, "_MAX_RECENT", 0
    )  # as if every call were in a process of its own
    monkeypatch.setattr(object_cache, "_recent", {})
    return tmp_path / "cache" / f"tracker-{object_cache._FORMAT_VERSION}"
