"""Derivatives written by hand in C++ (`hand_written.cpp`), on one thread, timed within C++."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = Path(__file__).with_suffix(".cpp")
COMPILER = os.environ.get("CXX", "c++")
FLAGS = "-std=c++17 -O3 -march=native"
FUNCTIONS = {  # by the first words of a case's name; how many arrays it computes
    "rosenbrock": ("rosenbrock", 1),
    "tanh and exp of vectors": ("tanh_exp", 3),
    "differences of 1000 x 1000 places": ("diffusion", 1),
    "logistic regression": ("logistic", 1),
    "training step of a network": ("training_step", 4),
    "Python loop": ("recurrent_sum", 1),
    "Python loop that keeps its states": ("recurrent_squares", 1),
    "scan": ("recurrent_sum", 1),
}
_MAX_CALLS = 10_000_000


def version() -> str:
    """The compiler's version, and what it is asked for."""
    number = subprocess.check_output([COMPILER, "-dumpfullversion", "-dumpversion"], text=True)
    return f"{number.strip()} {FLAGS}"


def _library() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "hand_written.so")
        command = [COMPILER, *FLAGS.split(), "-shared", "-fPIC", str(SOURCE), "-o", str(path)]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(path))


def _pointers(arrays: list[np.ndarray]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def measured(
    case: str, arguments: tuple[Any, ...], repeats: int, seconds: float
) -> dict[str, Any] | None:
    """As `measure.measured`. What is computed is as large as the first arguments are."""
    name, results = FUNCTIONS.get(case.split(",")[0], (None, 0))
    if name is None:
        return None
    library = _library()
    f, timed = library[name], library.seconds
    f.restype = timed.restype = ctypes.c_double
    given = [np.ascontiguousarray(argument, float) for argument in arguments]
    made = [np.empty_like(argument) for argument in given[:results]]
    extents = np.array([n for argument in given for n in argument.shape], np.int64)
    passed = _pointers(given), ctypes.c_void_p(extents.ctypes.data), _pointers(made)
    value = f(*passed)

    def per_call(calls: int) -> float:
        return float(timed(f, *passed, ctypes.c_long(calls))) / calls

    calls = int(min(_MAX_CALLS, max(1.0, seconds / max(per_call(1), 1e-9))))
    least = min(per_call(calls) for _ in range(repeats))
    length = sum(float(np.sum(each**2)) for each in made) ** 0.5
    return {"figures": {"call": (1e6 * least, "us")}, "summary": [value, length]}
