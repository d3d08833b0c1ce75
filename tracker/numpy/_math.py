"""Python's `math`, also of tracked numbers.

On plain numbers each function is Python's own. On tracked ones it is a function of NumPy's with the
results and errors of `math`: a Python float, a ValueError outside of the domain, an OverflowError.
Under a trace the errors are guards, but not in the bodies of `scan` and its like, which have none.
Functions that are not here (`floor`, `prod`, `gcd`) take tracked numbers as they are, or need plain
ones (`frexp`).
"""

from __future__ import annotations

import functools
import importlib
import math as _math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker import tree
from tracker.autodiff.stop_gradient import ignore_derivatives
from tracker.ops.shape.create import item
from tracker.support.pickling import at_home
from tracker.tape.record import apply, data_of, holds_tracked, value_of
from tracker.tape.tracing.tracer import current_tracer, record_call_failure
from tracker.tape.tracing.value_guards import speculate_bool
from tracker.tape.tracked import Tracked

_Function = Callable[..., Any]
_DEFINED_EVERYWHERE = (
    *("asinh", "atan", "atan2", "cbrt", "copysign", "degrees", "dist", "erf", "erfc", "fabs"),
    *("hypot", "radians", "tanh"),
)
_SAME_NAMES = (
    *("cbrt", "copysign", "cos", "cosh", "degrees", "exp", "exp2", "expm1", "fmod", "hypot"),
    *("log10", "log1p", "log2", "radians", "sin", "sinh", "sqrt", "tan", "tanh"),
)
INVERSES = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atanh": "arctanh",
}
_OTHER_NAMES = {**INVERSES, "atan2": "arctan2", "fabs": "abs", "pow": "power"}


def _like_math(name: str, ours: _Function) -> _Function:
    is_total = name in _DEFINED_EVERYWHERE
    return like_python(
        getattr(_math, name), ours, double, python_float, module=__name__, is_total=is_total
    )


def like_python(
    own: _Function,
    ours: _Function,
    convert: Callable[[Any], Any],
    as_python: Callable[[Any], Any],
    *,
    module: str,
    is_total: bool = False,
) -> _Function:
    """The function `own` of `math` or `cmath`; `ours` on tracked numbers, which `convert` gives the
    precision of Python's. `as_python` makes a Python number of the result, and `is_total` means
    that all finite numbers have one."""

    @functools.wraps(own)
    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple(x if isinstance(x, (*_NUMBERS, Tracked)) else _listed(x) for x in args)
        if not holds_tracked(args) and not any(map(holds_tracked, kwargs.values())):
            return own(*args, **kwargs)
        try:
            own(*map(plain_numbers, args), **{key: plain_numbers(x) for key, x in kwargs.items()})
        except (ValueError, ArithmeticError) as error:
            numbers = tree.leaves((args, kwargs))
            record_call_failure(error, [value_of(x) for x in numbers if isinstance(x, Tracked)])
            raise
        y = ours(*map(convert, args), **{key: convert(x) for key, x in kwargs.items()})
        if not is_total:
            _guard_domain(y, args)
        return as_python(y)

    return at_home(call, module, own.__name__)


_NUMBERS = (float, int, complex)


def _listed(x: Any) -> Any:
    """The items of an iterable, which is read once."""
    is_read_again = isinstance(x, (list, tuple, str, np.ndarray)) or not hasattr(x, "__iter__")
    return x if is_read_again else list(x)


def plain_numbers(x: Any) -> Any:
    return type(x)(map(plain_numbers, x)) if type(x) in (list, tuple) else data_of(x)


def double(x: Any) -> Any:
    """Numbers in double precision, in which `math` computes."""
    if type(x) in (list, tuple):
        return [double(part) for part in x]
    if not isinstance(x, Tracked) or x.dtype == np.float64:
        return x
    return x * 1.0 if x.dtype.kind in "biu" else np.astype(x, np.float64)


def python_float(y: Any) -> Any:
    if not isinstance(y, Tracked):
        return float(y)
    return apply(item, (y[()] if np.ndim(y) else y,))


def _guard_domain(y: Any, args: Any) -> None:
    """Under a trace: the trace is valid for calls with a finite result. One that is not comes from
    numbers that are not, and is valid where they are the same."""
    tracer = current_tracer()
    if tracer is None or tracer.is_body_trace or speculate_bool(np.isfinite(y), True):
        return
    for x in tree.leaves(args):
        if isinstance(x, Tracked):
            for found in (np.isnan(x), np.isinf(x)):
                bool(np.all(found == data_of(found)))


def _special(name: str) -> _Function:
    def ours(x: Any) -> Any:
        return getattr(importlib.import_module("tracker.scipy.special"), name)(x)

    return ours


def log_(x: Any, base: Any = None) -> Any:
    if base is None:
        return np.log(x)
    scale = np.log(base)
    _guard_domain(scale, base)  # of base 0 it is infinite, but the quotient is not
    return np.log(x) / scale


def _hypot(*parts: Any) -> Any:
    return functools.reduce(np.hypot, parts) if len(parts) > 1 else np.abs(parts[0])


def stacked(numbers: Any) -> Any:
    return numbers if isinstance(numbers, Tracked) else np.stack(numbers)


def exact_sum(numbers: Any) -> Any:
    """The sum, with what each addition has rounded off (Knuth), so that large terms may cancel."""
    x = stacked(numbers)
    sums = np.cumsum(np.concatenate([np.zeros(1), x]))
    with ignore_derivatives(), np.errstate(invalid="ignore"):
        before, after = sums[:-1], sums[1:]
        added = after - before
        lost = np.sum((before - (after - added)) + (x - added))
        lost = np.where(np.isnan(lost), 0.0, lost)  # after an infinite sum
    return sums[-1] + lost


def _remainder(x: Any, y: Any) -> Any:
    """As in C: exact, the quotient rounded to the nearest integer, or to the even one."""
    left = np.fmod(x, y)
    to_next = np.abs(y) - np.abs(left)
    is_odd = np.fmod((np.abs(x) - np.abs(left)) / 2, np.abs(y)) > 0
    is_nearer = (to_next < np.abs(left)) | ((to_next == np.abs(left)) & is_odd)
    return np.where(is_nearer, left - np.copysign(y, left), left)


_COMPOSED: dict[str, _Function] = {
    "dist": lambda p, q: _hypot(*(a - b for a, b in zip(p, q, strict=True))),
    "fsum": exact_sum,
    "hypot": _hypot,
    "ldexp": np.ldexp,
    "log": log_,
    "remainder": _remainder,
    "sumprod": lambda p, q: exact_sum(stacked(p) * stacked(q)),
    **{name: _special(name) for name in ("erf", "erfc", "gamma")},
    "lgamma": _special("gammaln"),
}


def asking(own: _Function, ours: _Function, module: str = __name__) -> _Function:
    """The function `own` of `math` or `cmath`, which tells a bool; `ours` on tracked numbers."""

    @functools.wraps(own)
    def call(*args: Any, **kwargs: Any) -> bool:
        if not holds_tracked(args):
            answer: bool = own(*args, **kwargs)
            return answer
        return bool(ours(*args, **kwargs))

    return at_home(call, module, own.__name__)


def isclose_(a: Any, b: Any, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> Any:
    largest = np.maximum(np.abs(a), np.abs(b))
    near = np.abs(a - b) <= np.maximum(rel_tol * largest, abs_tol)
    return (a == b) | (near & np.isfinite(largest))


def _modf(x: Any) -> Any:
    """Return the fractional and integer parts of x, both as floats with its sign."""
    if not holds_tracked((x,)):
        return _math.modf(x)
    part, whole = map(python_float, np.modf(double(x)))
    return part, whole


ASKED = ("isfinite", "isinf", "isnan")
_OURS = {name: getattr(np, name) for name in _SAME_NAMES}
_OURS |= {name: getattr(np, like) for name, like in _OTHER_NAMES.items()}
_OURS |= _COMPOSED
globals().update({name: x for name, x in vars(_math).items() if not name.startswith("_")})
globals().update(
    {name: _like_math(name, x) for name, x in _OURS.items() if hasattr(_math, name)}
    | {name: asking(getattr(_math, name), getattr(np, name)) for name in ASKED}
    | {"isclose": asking(_math.isclose, isclose_), "modf": _modf}
)
__all__ = [name for name in dir(_math) if not name.startswith("_")]
