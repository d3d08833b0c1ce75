"""The few switches, read and validated once, changed in a scope.

Owns: `Settings`, `current()`, `dump`, and `config`, the context manager users call. Variables:

    TRACKER_JIT=0           nothing is compiled: jitted functions run as plain Python
    TRACKER_CHECK=1         verify the IR after every pass, not only when staging ends
    TRACKER_THREADS=n       long loops are shared by n threads (default: the processors we may use)
    TRACKER_DUMP=trace,ir,llvm,asm   print these stages of everything that is compiled, to stderr

(TRACKER_BLAS is read by `jit/blas.py`, where its values are explained.)

Invariants: an unknown name or value is an error that lists the valid ones; a scope restores what it
changed, also on an exception, and is seen by its own thread and context only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tracker.records import names, record, replace

STAGES = ("trace", "ir", "llvm", "asm")


@record(frozen=True)
class Settings:
    """jit: compile; check: verify after every pass; dump: stages to print; threads: of long loops
    compiled from now on (0: the processors we may use)."""

    jit: bool = True
    check: bool = False
    dump: frozenset[str] = frozenset()
    threads: int = 0


@contextmanager
def config(**changes: Any) -> Iterator[Settings]:
    """Change settings for a `with` block.

    jit    False: nothing more is compiled; calls that no compiled trace takes run as plain Python
    check  True: verify the IR after every pass
    threads  how many threads share a long loop that is compiled now; 1: none but the caller's
    dump   stages to print to stderr: any of 'trace', 'ir', 'llvm', 'asm', separated by commas

    >>> with config(jit=False) as settings:
    ...     settings.jit
    False
    """
    known = names(Settings)
    for name in changes:
        if name not in known:
            raise ValueError(f"no setting {name!r}; there are {', '.join(known)}")
    read = {name: _READ[name](name, value) for name, value in changes.items()}
    token = _settings.set(replace(_settings.get(), **read))
    try:
        yield _settings.get()
    finally:
        _settings.reset(token)


def current() -> Settings:
    """The settings in force."""
    return _settings.get()


def dump(stage: str, text: Callable[[], str]) -> None:
    """Print a stage that the user asked to see."""
    if stage in current().dump:
        print(f"--- {stage}\n{text()}", file=sys.stderr)


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value) in ("0", "1"):
        return str(value) == "1"
    raise ValueError(f"{name}={value!r}; valid are 0 and 1")


def _stages(name: str, value: Any) -> frozenset[str]:
    given = value.split(",") if isinstance(value, str) else list(value)
    chosen = frozenset(stage.strip() for stage in given if stage.strip())
    unknown = sorted(chosen - set(STAGES))
    if unknown:
        raise ValueError(
            f"{name}={value!r}: no stage {unknown[0]!r}; there are {', '.join(STAGES)}"
        )
    return chosen


def _count(name: str, value: Any) -> int:
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = -1
    if count < 0:
        raise ValueError(f"{name}={value!r}; valid are whole numbers from 0")
    return count


_READ: dict[str, Any] = {"threads": _count, "jit": _flag, "check": _flag, "dump": _stages}


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Settings as the TRACKER_* variables say."""
    found: dict[str, Any] = {
        name: read(f"TRACKER_{name.upper()}", environment[f"TRACKER_{name.upper()}"])
        for name, read in _READ.items()
        if f"TRACKER_{name.upper()}" in environment
    }
    return Settings(**found)


_settings: ContextVar[Settings] = ContextVar(
    "tracker_settings",
    default=from_environment(os.environ),  # noqa: B039 (immutable)
)
