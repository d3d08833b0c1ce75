"""Functions without a derivative: tests, text, integer functions, and refusals.

Results are plain arrays; under a trace they are recorded or guarded. Functions that store arrays in
files or work on dates are refused by name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.op import NONDIFFERENTIABLE
from tracker.ops.declare.arguments import as_array
from tracker.ops.declare.declare import elementwise_nondiff, implements_nondiff, refuse_functions
from tracker.ops.declare.numpy_code import run_as_written
from tracker.tape.conversions import guarded_data
from tracker.tape.record import aval_of, data_of
from tracker.tape.tracing.escape import escape_as_text
from tracker.tape.tracked import Tracked

# Text ---------------------------------------------------------------------------------------------


def _as_text(function: Any) -> Any:
    def call(a: Any, *args: Any, **kwargs: Any) -> str:
        if type(a) is Tracked:
            escape_as_text(a)
        text: str = function(np.asarray(data_of(a)), *args, **kwargs)
        return text

    return call


for _function in (np.array2string, np.array_repr, np.array_str):
    implements_nondiff(_function)(_as_text(_function))

# Shape and type, not recorded ---------------------------------------------------------------------

implements_nondiff(np.common_type)(
    lambda *arrays: np.common_type(*(np.asarray(data_of(a)) for a in arrays))
)
implements_nondiff(np.min_scalar_type)(
    lambda a: (
        np.result_type(aval_of(a)) if np.ndim(aval_of(a)) else np.min_scalar_type(guarded_data(a))
    )
)
NONDIFFERENTIABLE.update(
    (np.shape, np.ndim, np.size, np.iscomplexobj, np.isrealobj, np.result_type)
)
NONDIFFERENTIABLE.update((np.can_cast, np.may_share_memory, np.shares_memory))

# Tests of elements --------------------------------------------------------------------------------


@implements_nondiff(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> bool:
    try:
        return bool(np.all(as_array(a1) == as_array(a2)))
    except ValueError:
        return False


_TESTS: tuple[Any, ...] = (
    *(np.allclose, np.array_equal, np.iscomplex),
    *(np.isneginf, np.isposinf, np.isreal),
)
run_as_written(*_TESTS)
NONDIFFERENTIABLE.update(_TESTS)
NONDIFFERENTIABLE.update((np.isclose, np.nonzero, np.flatnonzero, np.argwhere))
NONDIFFERENTIABLE.update((np.argmax, np.argmin, np.argsort, np.any, np.all, np.count_nonzero))

# Integers -----------------------------------------------------------------------------------------

gcd = elementwise_nondiff(np.gcd, lower=lambda e, a, b: e.gcd(a, b), kinds="iu")
lcm = elementwise_nondiff(np.lcm, lower=lambda e, a, b: e.lcm(a, b), kinds="iu")
bitwise_count = elementwise_nondiff(np.bitwise_count, lower=lambda e, x: e.bit_count(x), kinds="iu")


def _implement_guarded(function: Any) -> None:
    """A function of integers; under a trace, its arguments are guarded by value."""

    def call(x: Any, *rest: Any, **kwargs: Any) -> Any:
        many = isinstance(x, tuple)
        given = tuple(np.asarray(e) for e in x) if many else np.asarray(x)
        return function(given, *rest, **kwargs)

    implements_nondiff(function)(call)


_INTEGER_FUNCTIONS: tuple[Any, ...] = (
    np.ravel_multi_index,
    np.unravel_index,
    np.packbits,
    np.unpackbits,
)
for _each in _INTEGER_FUNCTIONS:
    _implement_guarded(_each)

# Refusals -----------------------------------------------------------------------------------------

refuse_functions(
    "would store plain numbers, and the history of a tracked value would be lost",
    "Give tracker.data(x)",
    np.save,
    np.savetxt,
    np.savez,
    np.savez_compressed,
)
refuse_functions(
    "works on dates, which have no derivative",
    "Give plain arrays of datetime64",
    np.busday_count,
    np.busday_offset,
    np.is_busday,
    np.datetime_as_string,
    np.isnat,
)
