"""Settings, read from the environment once, validated, and changed in a scope by `config`.

    TRACKER_JIT=0           compile nothing: jitted functions run as plain Python
    TRACKER_CHECK=1         verify the IR after every pass, not only after tracing
    TRACKER_THREADS=n       threads that share long loops (default: the processors we may use)
    TRACKER_DUMP=trace,ir,llvm,asm   print these stages of compilation to stderr
    TRACKER_PERF=1          tell `perf` the names of compiled functions and kernels
    TRACKER_GDB=1           and GDB
    TRACKER_PROGRESS=1      show what a compilation of more than a second is at

(TRACKER_BLAS is read by `jit/runtime/blas.py`, which explains its values.)

Invariants: an unknown name or value is an error that lists the valid ones; a scope restores the
settings before it, also on an exception; a change applies to its own thread and context only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tracker.support.structs import field_names, record, replace

P = ParamSpec("P")
R = TypeVar("R")

DUMP_STAGES = ("trace", "ir", "llvm", "asm")


@record(frozen=True)
class Settings:
    """The settings in force.

    jit      compile
    check    verify the IR after every pass
    dump     stages to print
    threads  for long loops compiled from now on (0: the processors we may use)
    perf     write /tmp/perf-PID.map
    gdb      register machine code with GDB
    progress show what long compilations are at
    plain    installed packages whose code counts as the user's; None: `tracker.numpy` must be
             imported where it is needed
    """

    jit: bool = True
    check: bool = False
    dump: frozenset[str] = frozenset()
    threads: int = 0
    perf: bool = False
    gdb: bool = False
    progress: bool = False
    plain: frozenset[str] | None = frozenset()


class config:
    """Change settings: as a statement from here on, or for a `with` block, or a decorated function.

    Parameters
    ----------
    jit : bool
        False: compile nothing more; calls that no compiled trace accepts run as plain Python.
    check : bool
        True: verify the IR after every pass.
    threads : int
        How many threads share a long loop that is compiled now; 1: only the caller's; 0: as many as
        the processors we may use.
    dump : str
        Stages to print to stderr: any of 'trace', 'ir', 'llvm', 'asm', separated by commas.
    perf : bool
        True: write the names of what is compiled now to /tmp/perf-PID.map, where `perf report`
        finds them: your functions, and their kernels with file and line (Linux).
    gdb : bool
        True: tell the names to GDB, through its interface for such code (Linux).
    progress : bool
        True: a compilation of more than a second shows what it is at, on stderr; as a bar of
        `rich`, if that is installed.
    plain : bool or tuple of str
        False: NumPy in your code stays NumPy while it is differentiated, and `tracker.numpy` must
        be imported where it is needed. Names: code of these installed packages counts as yours.

    Raises
    ------
    ValueError
        There is no setting of that name, or the value is not valid; the message lists what is.

    Notes
    -----
    A change applies to the calling thread, as with NumPy's `errstate`; the TRACKER_* variables are
    for the whole process.

    Examples
    --------
    >>> with config(jit=False) as settings:
    ...     settings.jit
    False
    >>> before = config(threads=1).before  # from here on
    >>> config(threads=before.threads).before.threads
    1
    """

    def __init__(self, **changes: Any) -> None:
        known = field_names(Settings)
        for name in changes:
            if name not in known:
                raise ValueError(f"no setting {name!r}; there are {', '.join(known)}")
        self._changes = {name: _PARSERS[name](name, value) for name, value in changes.items()}
        self._change()

    def _change(self) -> None:
        self.before = current()
        self._is_on = True
        _settings.set(replace(self.before, **self._changes))

    def __enter__(self) -> Settings:
        if not self._is_on:  # a second `with` of the same scope
            self._change()
        return current()

    def __exit__(self, *_: object) -> None:
        self._is_on = False
        _settings.set(self.before)

    def __call__(self, f: Callable[P, R]) -> Callable[P, R]:
        """`f`, run with these settings; they do not apply outside it."""
        self.__exit__()
        changes = self._changes

        @wraps(f)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with config(**changes):
                return f(*args, **kwargs)

        return inside


def current() -> Settings:
    """The settings in force."""
    return _settings.get()


def dump(stage: str, text: Callable[[], str]) -> None:
    """Print a stage of compilation if the settings ask for it."""
    if stage in current().dump:
        print(f"--- {stage}\n{text()}", file=sys.stderr)


def _parse_flag(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value) in ("0", "1"):
        return str(value) == "1"
    raise ValueError(f"{name}={value!r}; valid are 0 and 1")


def _parse_stages(name: str, value: Any) -> frozenset[str]:
    given = value.split(",") if isinstance(value, str) else list(value)
    chosen = frozenset(stage.strip() for stage in given if stage.strip())
    unknown = sorted(chosen - set(DUMP_STAGES))
    if unknown:
        raise ValueError(
            f"{name}={value!r}: no stage {unknown[0]!r}; there are {', '.join(DUMP_STAGES)}"
        )
    return chosen


def _parse_count(name: str, value: Any) -> int:
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = -1
    if count < 0:
        raise ValueError(f"{name}={value!r}; valid are whole numbers from 0")
    return count


def _parse_packages(name: str, value: Any) -> frozenset[str] | None:
    if isinstance(value, (bool, int)) or value in ("0", "1", None):
        return frozenset() if value is not None and _parse_flag(name, value) else None
    names = value.split(",") if isinstance(value, str) else list(value)
    wrong = [each for each in names if type(each) is not str or not each.isidentifier()]
    if wrong:
        raise ValueError(f"{name}={value!r}: {wrong[0]!r} is no name of a package")
    return frozenset(names)


_PARSERS: dict[str, Any] = {
    "plain": _parse_packages,
    "threads": _parse_count,
    "jit": _parse_flag,
    "check": _parse_flag,
    "dump": _parse_stages,
    "perf": _parse_flag,
    "gdb": _parse_flag,
    "progress": _parse_flag,
}


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Settings from the TRACKER_* variables."""
    found: dict[str, Any] = {
        name: read(f"TRACKER_{name.upper()}", environment[f"TRACKER_{name.upper()}"])
        for name, read in _PARSERS.items()
        if f"TRACKER_{name.upper()}" in environment
    }
    return Settings(**found)


_settings: ContextVar[Settings] = ContextVar(
    "tracker_settings",
    default=from_environment(os.environ),  # noqa: B039 (immutable)
)
