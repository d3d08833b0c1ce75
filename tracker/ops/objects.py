"""Objects of other classes beside tracked values, at operators.

Owns: `is_left_to`, which says where a number or array leaves an operator to the object, and
`array_of`, what it takes the object for elsewhere. Both are Python's and NumPy's ways. They are
asked when an op has refused the object: operators with numbers and arrays pay nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.tape import as_numbers, form_of

_LEAST = -1000000.0  # the priority in NumPy of what names none
_PYTHON = (bool, int, float, complex)


def is_left_to(other: Any, method: str, number: Any) -> bool:
    """Whether a tracked number or array leaves an operator to the object's `method`: as Python's
    numbers do, and NumPy's to who is to go first, and those without axes to what is no array."""
    cls, form = type(other), form_of(number)
    if getattr(cls, "__array_ufunc__", cls) is None:
        return True
    if isinstance(other, np.ndarray) or not hasattr(cls, method):
        return False
    if type(form) in _PYTHON:
        return True
    if getattr(other, "__array_priority__", _LEAST) > form.__array_priority__:
        return True
    return np.ndim(form) == 0 and as_numbers(other) is None


def array_of(x: Any, number: Any) -> Any:
    """The object as an array beside a tracked number; called while it is being refused. Python's
    numbers know no arrays."""
    made = None if type(form_of(number)) in _PYTHON else as_numbers(x)
    if made is None:
        raise
    return made
