"""With the setting `gdb`, GDB finds the names of compiled functions and their kernels."""

import ctypes
import gc
import sys

import numpy as np
import pytest

import tracker
from tracker.jit.llvm import gdb
from tracker.jit.llvm.perf_map import symbols_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="as GDB reads it on Linux")
X = np.linspace(0.1, 1.0, 300)


def registered():
    """The names in each file that GDB would read, the newest first."""
    descriptor, found = gdb._interface()[0], []
    at, previous = descriptor.first, None
    while at:
        entry = gdb._JitEntry.from_address(at)
        assert entry.previous == previous
        file = ctypes.string_at(entry.file, entry.size)
        found.append([symbol.name for symbol in symbols_of(file)])
        at, previous = entry.next, at
    return found


def waves(x):
    return np.sum(np.sin(x) * np.cumsum(x))


def test_functions_and_kernels_are_registered_while_they_live():
    f = tracker.jit(waves)
    before = len(registered())
    with tracker.config(gdb=True, threads=1):
        f(X)
        newest = registered()[0]
        assert len(registered()) == before + 1
        line = f"{__file__}:{waves.__code__.co_firstlineno + 1}"
        assert "waves" in newest and any(n.startswith(f"waves: kernel at {line}") for n in newest)
        del f
        gc.collect()
        g = tracker.jit(lambda x: np.sum(np.cos(x)))
        g(X)
        assert len(registered()) <= before + 1 and "function" in registered()[0]
    count = len(registered())
    tracker.jit(lambda x: np.sum(np.tan(x)))(X)
    assert len(registered()) == count


def test_files_hold_names_and_offsets():
    functions = [("f", 0, 16), ("f: kernel at a.py:3", 32, 100)]
    file = gdb.elf_file(0x7F0000001000, functions)
    assert [(s.name, s.offset, s.size) for s in symbols_of(file)] == functions
    assert list(symbols_of(gdb.elf_file(0, []))) == []


def test_an_llvmlite_without_symbols_is_refused(monkeypatch):
    gdb._interface.cache_clear()
    monkeypatch.setattr(gdb, "_loaded_library", lambda name: ("", 0))
    with (
        tracker.config(gdb=True, threads=1),
        pytest.raises(tracker.CompileError, match=r"no symbols that GDB looks for.*gdb=False"),
    ):
        tracker.jit(lambda x: np.sum(np.sin(x) + 3.0))(X)
    gdb._interface.cache_clear()
