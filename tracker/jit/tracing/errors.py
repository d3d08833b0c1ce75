"""Errors raised while tracing that the plain function may not raise.

In each of these cases the plain function runs instead of the trace.
"""

from __future__ import annotations

import dis

from tracker.errors import is_internal, is_library_file, message


def is_raised_by_library(error: Exception) -> bool:
    """Whether a library raised a TypeError or AttributeError that it may not raise for plain
    values: its code tests types by other means than `isinstance`, as json's encoder does."""
    if not isinstance(error, (TypeError, AttributeError)):
        return False
    files, at = [], error.__traceback__
    while at is not None:
        if not is_internal(at.tb_frame.f_code):
            files.append(at.tb_frame.f_code.co_filename)
        at = at.tb_next
    last = files[-1] if files else ""
    return bool(files) and last != files[0] and (is_library_file(last) or last in _CYTHON_FILES)


_CYTHON_FILES = ("<stringsource>", "stringsource")  # dispatch of fused types


def is_raised_by_c_function(error: Exception) -> bool:
    """Whether a function in C, called by user code, raised a TypeError: some accept Python's own
    numbers only (`itertools.permutations(x, n)`)."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None or type(error) is not TypeError or is_internal(at.tb_frame.f_code):
        return False
    steps = dis.get_instructions(at.tb_frame.f_code)
    found = (step.opname for step in steps if step.offset == at.tb_lasti)
    return "CALL" in next(found, "")  # PRECALL: Python 3.11 has two steps


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
