"""With the setting `perf`, compiled functions and their kernels have names in /tmp/perf-PID.map."""

import itertools
import os
import re
import sys

import numpy as np
import pytest

import tracker
from tracker.jit.llvm import perf_map
from tracker.jit.runtime.compile_queue import drain

X = np.linspace(0.1, 1.0, 300)


def waves(x):
    y = np.sin(x)
    return np.sum(tracker.fori_loop(0, 9, lambda k, z: z * np.cos(z), y))


@pytest.mark.skipif(sys.platform != "linux", reason="perf belongs to Linux")
def test_functions_kernels_and_loops_are_named():
    path = f"/tmp/perf-{os.getpid()}.map"
    before = os.path.getsize(path) if os.path.exists(path) else 0
    try:
        with tracker.config(perf=True, threads=1):
            f = tracker.jit(waves)
            f(X), tracker.value_and_grad(f)(X)
            drain()
        with open(path) as file:
            file.seek(before)
            lines = file.read().splitlines()
    finally:
        if not before and os.path.exists(path):
            os.remove(path)
    assert all(re.fullmatch(r"[0-9a-f]+ [0-9a-f]+ .+", line) for line in lines)
    names = [line.split(" ", 2)[2] for line in lines]
    assert "waves" in names and "value_and_grad_of_waves" in names
    sine = waves.__code__.co_firstlineno + 1
    for what in (f"kernel at {__file__}:{sine}", f"loop at {__file__}:{sine + 1}"):
        assert any(name.startswith(f"waves: {what}") for name in names), names
    starts = sorted((int(line.split()[0], 16), int(line.split()[1], 16)) for line in lines)
    for (start, size), (following, _) in itertools.pairwise(starts):
        assert start + size <= following  # no code has two names


@pytest.mark.skipif(sys.platform != "linux", reason="perf belongs to Linux")
def test_a_map_that_cannot_be_written_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(perf_map.os, "getpid", lambda: "of-nobody/1")
    with (
        tracker.config(perf=True, threads=1),
        pytest.raises(tracker.CompileError, match=r"cannot be written to /tmp/perf-of-nobody"),
    ):
        tracker.jit(lambda x: np.sum(np.sin(x) + 4.0))(X)


def test_what_is_no_elf_file_has_no_names():
    assert not list(perf_map.symbols_of(b"\xcf\xfa\xed\xfe" + bytes(100)))
