"""Errors raised while tracing that the plain function may not raise.

In each of these cases the plain function runs instead of the trace.
"""

from __future__ import annotations

import dis
from types import FrameType

from tracker.errors import message
from tracker.tape.record import holds_tracked
from tracker.user_frames import is_internal, is_library_file, is_own

_CYTHON_FILES = ("<stringsource>", "stringsource")  # dispatch of fused types
_CYTHON_SUFFIX = ".pyx"


def may_come_of_tracing(error: Exception) -> bool:
    """Whether plain values may not raise an error. It was raised by a library, whose code tests
    types by other means than `isinstance`, as json's encoder does; or by a function in C that user
    code called: some accept Python's own numbers only (`itertools.permutations(x, n)`)."""
    if _is_of_library_given_tracked(error):
        return True
    if not isinstance(error, (TypeError, AttributeError)):
        return False
    files, last, at = [], error.__traceback__, error.__traceback__
    while at is not None:
        if not is_internal(at.tb_frame.f_code):
            files.append(at.tb_frame.f_code.co_filename)
        last, at = at, at.tb_next
    is_deeper = bool(files) and files[-1] != files[0]
    if is_deeper and (is_library_file(files[-1]) or files[-1] in _CYTHON_FILES):
        return True
    if last is None or type(error) is not TypeError or is_internal(last.tb_frame.f_code):
        return False
    steps = dis.get_instructions(last.tb_frame.f_code)
    found = (step.opname for step in steps if step.offset == last.tb_lasti)
    return "CALL" in next(found, "")  # PRECALL: Python 3.11 has two steps


def _is_of_library_given_tracked(error: Exception) -> bool:
    """Whether an error of any class was raised by a library that user code gave a tracked value:
    `series.iloc[n]`, `series.rolling(n)`, `Timestamp(2024, n, 1)` ask in C whether n is an int."""
    called: list[FrameType] = []  # beneath the innermost frame of user code
    at = error.__traceback__
    while at is not None:
        frame, at = at.tb_frame, at.tb_next
        file = frame.f_code.co_filename
        is_library = file.endswith(_CYTHON_SUFFIX) or is_library_file(file)
        called = [*called, frame] if is_library or is_internal(frame.f_code) else []
    if not called or is_own(called[0].f_code):
        return False  # an operation's own error, which plain values raise too
    if called[0].f_code.co_filename.endswith(_CYTHON_SUFFIX):
        return True  # its frames have no locals
    return any(holds_tracked([*frame.f_locals.values()]) for frame in called)


def swallowed_error_reason(errors: list[Exception]) -> str:
    """Why a trace is invalid if the function caught an error that depends on traced values; "" if
    it caught none."""
    if not errors:
        return ""
    what = f"{type(errors[0]).__name__}: {errors[0]}"
    return message(
        f"the function goes on after an error that depends on values ({what})",
        "Ask for the value first: if d == 0",
    )
