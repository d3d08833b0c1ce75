"""Interrupts in long loops of machine code: once a second, Python handles its signals.

A loop calls `@tk.pause(ptr since)` every `check_interval` steps; `since` is a cell of the loop,
zero at first, with the second of the last check. An exception of a signal handler ends the loop:
the plan fails, and its entry finds the exception.

Invariant: a loop of less than some milliseconds makes no checks.
"""

from __future__ import annotations

from tracker.ir.graph import Atom, Const
from tracker.jit.llvm.function_writer import FunctionWriter, c_function

NAME = "tk.pause"
DECLARATION = f"declare i64 @{NAME}(ptr)"
_MIN_OPERATIONS = 10_000_000  # operations or so
_LARGE_STEP = 100_000  # elements of a step that asks each time


@c_function(NAME, "ptr %since", "i64")
def pause(c: FunctionWriter) -> str:
    known, now = c.load("%since"), c.call("i64", "time", ["ptr null"])
    c.return_if(c.compare("eq", now, known), 0)
    c.store(now, "%since")
    c.return_if(c.compare("eq", known, 0), 0)
    state = c.call("i32", "PyGILState_Ensure", [])
    status = c.call("i32", "PyErr_CheckSignals", [])
    c.call("void", "PyGILState_Release", [f"i32 {state}"])
    return c.let(f"sext i32 {status} to i64")


def check_interval(elements: int, is_slow: bool, count: Atom | None) -> int | None:
    """After how many steps (a power of two) a loop checks for signals; None if it is never long.

    elements: computed at each step; is_slow: whether a step has products, routines or loops;
    count: the number of steps, if it is known.
    """
    if is_slow:
        return 16
    if isinstance(count, Const) and int(count.value) * max(elements, 1) < _MIN_OPERATIONS:
        return None
    if not elements:
        return 1024
    return 16 if elements < _LARGE_STEP else 1
