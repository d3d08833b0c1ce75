"""Functions whose answer is another at each call: the clock, files, entropy, settings, and what has
other threads compute, of which no trace hears.

Owns: `Asking`, which watches a traced run for calls of them by the user's code; `NAMES` and
`is_asked`, by which code that may make such calls is known before it runs (`reads.py` looks), so
that no other run is watched: a trace that is takes more than twice as long. What such a function
answers would be a constant of the trace, so there is none.

A library that asks for its own purposes (a logger, a cache) is left alone, but for entropy: whoever
makes a generator without a seed wants other numbers each time. Where somebody else profiles this
thread, nothing is watched. Start at `Asking`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from tracker.errors import is_internal, message
from tracker.instances import is_library_file

_TIME = "for the time"
_FILES = "what is in the file system"
_SETTINGS = "for settings of the process"
_THREADS = "for the thread"
_ENTROPY = "for entropy"
_WORK = "somebody else to compute"
_ASKED: dict[str, dict[str, str]] = {  # the attributes of modules, what they are asked
    _TIME: {
        "time": "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time "
        "process_time_ns thread_time thread_time_ns localtime gmtime ctime asctime strftime",
        "datetime": "datetime.now datetime.utcnow datetime.today date.today",
    },
    _FILES: {
        "io": "open",
        "os": "listdir scandir stat getcwd read",
        "os.path": "exists isfile isdir getmtime getsize",
        "pathlib": "Path.open Path.read_text Path.read_bytes Path.exists Path.is_file Path.stat",
        "numpy": "load loadtxt genfromtxt fromfile memmap.__new__",
    },
    _SETTINGS: {
        "os": "getpid getloadavg times",
        "sys": "getrecursionlimit _getframe",
        "inspect": "currentframe",
        "gc": "get_count get_stats",
        "decimal": "getcontext",
        "numpy": "geterr geterrcall getbufsize get_printoptions",
    },
    _THREADS: {"threading": "current_thread get_ident active_count"},
    _WORK: {
        "threading": "Thread.start",
        "concurrent.futures._base": "Executor.map",
        "concurrent.futures.thread": "ThreadPoolExecutor.submit",
        "concurrent.futures.process": "ProcessPoolExecutor.submit ProcessPoolExecutor.map",
        "multiprocessing.pool": "Pool.apply Pool.apply_async Pool.map Pool.map_async Pool.imap "
        "Pool.imap_unordered Pool.starmap Pool.starmap_async",
        "asyncio": "to_thread",
    },
    "somebody at the keyboard": {"builtins": "input"},
    _ENTROPY: {"os": "urandom"},
}
_MAKERS = (
    "default_rng RandomState SystemRandom uuid1 uuid4 randbelow randbits token_bytes token_hex "
    "Thread Timer ThreadPoolExecutor ProcessPoolExecutor ThreadPool Pool to_thread"
)
# Who has others compute makes or has such an object: `start` and `map` alone are too common.
_WORKERS = frozenset({"Thread", "Executor", "Pool"})
NAMES = frozenset(
    name.replace(".__new__", "").rpartition(".")[2]
    for what, modules in _ASKED.items()
    for names in modules.values()
    for name in names.split()
    if what != _WORK
) | frozenset(_MAKERS.split())


def is_asked(x: Any) -> bool:
    """Whether an object is one to ask: a source of entropy, a thread, a pool."""
    cls = x if isinstance(x, type) else type(x)
    return cls.__name__ == "SystemRandom" or not _WORKERS.isdisjoint(
        [base.__name__ for base in cls.__mro__]
    )


class Asking:
    """While a function runs: `tell` is told, once, what it asks and where."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._on = False

    def __enter__(self) -> Asking:
        self._on = sys.getprofile() is None
        if self._on:
            self._builtins, self._codes = _table()
            sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        if self._on:
            sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            found, caller = self._builtins.get(called), frame
        elif event == "call" and frame.f_back is not None:
            found, caller = self._codes.get(frame.f_code), frame.f_back
        else:
            return
        if found is None or (found[0] != _ENTROPY and not _is_users(caller)):
            return
        sys.setprofile(None)
        while caller.f_back is not None and not _is_users(caller):
            caller = caller.f_back
        self._tell(
            message(
                f"it asks {found[0]} ({found[1]}), and the answer is another at each call",
                "Ask before the call, and pass the answer as an argument",
                f"{caller.f_code.co_filename}:{caller.f_lineno}",
            )
        )


def _is_users(frame: FrameType) -> bool:
    """Whether the user's code runs there. (What `python -c` runs has the name of no file.)"""
    code = frame.f_code
    if is_internal(code):
        return False
    return frame.f_globals.get("__name__") == "__main__" or not is_library_file(code.co_filename)


def _table() -> tuple[dict[Any, tuple[str, str]], dict[CodeType, tuple[str, str]]]:
    """(built-in functions, code of Python functions) -> what is asked, and the name. Modules that
    nobody has imported are not called."""
    imported = {module for modules in _ASKED.values() for module in modules}
    return _table_of(frozenset(imported & sys.modules.keys()))


@functools.lru_cache(maxsize=8)
def _table_of(
    imported: frozenset[str],
) -> tuple[dict[Any, tuple[str, str]], dict[CodeType, tuple[str, str]]]:
    builtins, codes = {}, {}
    for what, modules in _ASKED.items():
        for module in imported & modules.keys():
            for name in modules[module].split():
                found: Any = sys.modules[module]
                for part in name.split("."):
                    found = getattr(found, part, None)
                code = getattr(found, "__code__", None)
                if code is not None:
                    codes[code] = what, f"{module}.{name}"
                elif found is not None:
                    builtins[found] = what, f"{module}.{name}"
    return builtins, codes
