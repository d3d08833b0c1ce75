"""Errors that a function raises while it is traced: whether values of the trace gave rise to them.

Owns: `is_raised_by_library` and `is_raised_by_c_function`, which ask whose code raised;
`swallowed_error_reason`, of errors after which the function went on. Where the answer is yes, the
plain function runs instead of the trace.
"""

from __future__ import annotations

import dis
import types

from tracker.errors import is_internal, message
from tracker.support.instances import is_library_file


def is_raised_by_library(error: Exception) -> bool:
    """Whether a library has raised an error that it may not have for the plain values: its code
    asks for a type by other ways than `isinstance`, as the encoder of json does."""
    if not isinstance(error, (TypeError, AttributeError)):
        return False
    files, at = [], error.__traceback__
    while at is not None:
        if not is_internal(at.tb_frame.f_code):
            files.append(at.tb_frame.f_code.co_filename)
        at = at.tb_next
    last = files[-1] if files else ""
    return bool(files) and last != files[0] and (is_library_file(last) or last in _CYTHON_FILES)


_CYTHON_FILES = ("<stringsource>", "stringsource")  # where functions for several types choose one


def is_raised_by_c_function(error: Exception) -> bool:
    """Whether a function in C has raised a TypeError for what the user's code has called it with:
    some take Python's own numbers alone (`itertools.permutations(x, n)`)."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None or type(error) is not TypeError or is_internal(at.tb_frame.f_code):
        return False
    return _is_call_instruction(at.tb_frame.f_code, at.tb_lasti)


def _is_call_instruction(code: types.CodeType, at: int) -> bool:
    found = (step.opname for step in dis.get_instructions(code) if step.offset == at)
    return "CALL" in next(found, "")  # PRECALL: Python 3.11 has two steps


def swallowed_error_reason(errors: list[Exception]) -> str:
    """Why a trace does not hold whose function went on after an error that a value gave rise to."""
    if not errors:
        return ""
    what = f"{type(errors[0]).__name__}: {errors[0]}"
    return message(
        f"the function goes on after an error that depends on values ({what})",
        "Ask for the value first: if d == 0",
    )
