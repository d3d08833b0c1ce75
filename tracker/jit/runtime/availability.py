"""Whether machine code can be made and called in this interpreter.

`why_unavailable` is called when a function is first jitted. Only then is llvmlite imported, and are
struct offsets of CPython and NumPy compared with live objects (`jit/abi/loader.py`).

Invariant: where the answer is no, generated code neither reads nor writes an object's memory.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any, NoReturn

from tracker.errors import CompileError, message
from tracker.support.deferred_signals import SIGNALS_DEFERRED
from tracker.support.numpy_version import unsupported_interpreter


def why_unavailable() -> str:
    """The reason why no machine code can be made, and the fix; empty if it can."""
    unknown = unsupported_interpreter()
    if unknown:
        what = f"machine code needs CPython with a global interpreter lock, and this is {unknown}"
        return message(what, "Run the program in CPython, with the lock on", "")
    if sys.platform == "win32":
        what = "machine code needs POSIX's threads and memory functions, and this is Windows"
        return message(what, "Run the program on Linux or macOS, or in Windows' Linux", "")
    return _why_llvm_unavailable()


def require_native(what: str) -> None:
    """Raise CompileError about `what` where no machine code can be made."""
    if reason := why_unavailable():
        raise CompileError(f"{what}: {reason}")


def refuse_export(*_: Any, **__: Any) -> NoReturn:
    """`tracker.export` where no machine code can be made."""
    raise CompileError(f"nothing can be exported: {why_unavailable()}")


@functools.cache
def _why_llvm_unavailable() -> str:
    try:
        with SIGNALS_DEFERRED:
            importlib.import_module("tracker.jit.abi.loader")
    except CompileError as error:
        return str(error)
    except (ImportError, OSError) as error:
        if isinstance(error, ImportError) and not (error.name or "").startswith("llvmlite"):
            raise
        what = f"llvmlite, which makes machine code, cannot be imported ({error})"
        return message(what, "Install it: pip install llvmlite", "")
    return ""
