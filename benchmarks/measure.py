"""One case in one library, measured in this process. Run: python measure.py CASE LIBRARY [--quick]

It prints figures, name -> [number, unit], and the value and the size of the gradient, which must be
the same in all libraries.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import hand_written
import numpy as np
from libraries import LIBRARIES, Library
from library_cases import CASES, Case, Program
from memory import status
from timing import best, settle

Figures = dict[str, tuple[float, str]]


class Subject(NamedTuple):
    case: Case
    library: Library
    program: Program
    options: dict[str, float]  # of `best`

    @property
    def function(self) -> Callable[..., Any]:
        f, _, argnums = self.program
        return f if argnums is None else self.library.value_and_grad(f, argnums)

    def time(self, run: Callable[..., Any]) -> Figures:
        call = functools.partial(run, *self.program.arguments)
        return {"call": (best(call, **self.options) / self.case.parts, "us")}


def eager(subject: Subject) -> Figures:
    return subject.time(subject.function)


def long_chain(subject: Subject) -> Figures:
    start = time.perf_counter()
    subject.function(*subject.program.arguments)
    microseconds = 1e6 * (time.perf_counter() - start) / subject.case.parts
    return {"call": (microseconds, "us"), "memory": (status("VmHWM") / 2**20, "MB")}


_MAX_CALLS = 12  # until machine code serves one


def _first_calls(library: Library, run: Callable[..., Any], arguments: tuple[Any, ...]) -> Figures:
    """Milliseconds from the start of the first call until it has a result, and until the end of the
    first call that machine code serves: the second, or a later one if traces have to be confirmed.
    """
    start = time.perf_counter()
    run(*arguments)
    found = {"first result": (1e3 * (time.perf_counter() - start), "ms")}
    if library.name == "jax":
        return {**found, "machine code": found["first result"]}
    if library.name != "tracker":
        return found  # it does not compile
    for _ in range(_MAX_CALLS):
        slow = run.cache_info().slow
        run(*arguments)
        if run.cache_info().slow == slow:
            return {**found, "machine code": (1e3 * (time.perf_counter() - start), "ms")}
    raise RuntimeError(f"no machine code after {_MAX_CALLS} calls")


def _warm(library: Library) -> None:
    warm = library.compile(library.value_and_grad(lambda x: library.np.sum(x * 2.0), (0,)))
    settle(functools.partial(warm, np.ones(3)))


def first_function(subject: Subject) -> Figures:
    """The first calls of a process; NumPy's time is what they are compared with."""
    if subject.library.name == "numpy":
        return eager(subject)
    run = subject.library.compile(subject.function)
    return _first_calls(subject.library, run, subject.program.arguments)


def first_call(subject: Subject) -> Figures:
    """The same in a process that has compiled something else before."""
    _warm(subject.library)
    return first_function(subject)


def compiled(subject: Subject) -> Figures:
    """The same, and later calls."""
    library, run = subject.library, subject.library.compile(subject.function)
    if library.name == "numpy":
        return eager(subject)
    _warm(library)
    found = _first_calls(library, run, subject.program.arguments)
    settle(functools.partial(run, *subject.program.arguments))
    return {**found, **subject.time(run)}


def another_length(subject: Subject) -> Figures:
    """First calls with shorter arrays of a function that was called with longer ones."""
    run = subject.library.compile(subject.function)
    settle(functools.partial(run, *subject.program.arguments))
    shorter = tuple(a[: 2 * len(a) // 3] for a in subject.program.arguments)
    if subject.library.name == "numpy":
        return eager(subject)
    return _first_calls(subject.library, run, shorter)


_TIMED = """
import sys, time
if sys.argv[1] != "numpy":
    import numpy
start = time.perf_counter()
__import__(sys.argv[1])
print(time.perf_counter() - start)
"""


def import_time(subject: Subject) -> Figures:
    """Beyond that of NumPy, with compiled bytecode in place: the second import counts."""
    where = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", _TIMED, subject.library.name]
    for _ in range(2):
        seconds = float(subprocess.check_output(command, env=where))
    return {"import": (1e3 * seconds, "ms")}


def summary(found: Any) -> list[float]:
    """A value, and the length of its gradient if that is there."""
    if not isinstance(found, tuple):
        return [float(found)]
    value, slopes = found
    length = sum(float(np.sum(np.asarray(slope) ** 2)) for slope in slopes) ** 0.5
    return [float(value), length]


def measured(name: str, library: Library, options: dict[str, float]) -> dict[str, Any] | None:
    case = CASES[name]
    program = case.program(library)
    if program is None or (library.name == "jax" and case.measure in ("eager", "long_chain")):
        return None  # jax without its compiler is no peer
    if library.name == "C++":
        return hand_written.measured(name, program.arguments, **options)
    subject = Subject(case, library, program, options)
    figures = globals()[case.measure](subject)
    if library.name == "numpy" and case.measure != "import_time":
        figures |= import_time(subject)  # with which `check.py` compares first calls
    return {"figures": figures, "summary": summary(subject.function(*program.arguments))}


if __name__ == "__main__":
    name, library = sys.argv[1:3]
    quick = "--quick" in sys.argv
    sys.path.insert(0, str(Path(__file__).parent.parent))
    options = {"repeats": 2, "seconds": 0.002} if quick else {"repeats": 7, "seconds": 0.03}
    print(json.dumps(measured(name, LIBRARIES[library](), options)))
