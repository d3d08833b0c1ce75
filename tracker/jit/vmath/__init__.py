"""Mathematical functions as LLVM IR text that the loop vectoriser can inline and widen.

Owns: the table of functions below and the text of each, `define internal double @vm.exp.f64(...)`.
Each is straight-line code, complete in itself. Start at `_TABLE`; `text.py` is the notation the
functions are written in, and every other file holds one subject.

A function is written once for a `Format`. Most everyday ones are computed in float for float; the
others widen a float to double and round once: half the speed, and right to 0.501 ulp.

`sin`, `cos` and `tan` are right for every argument. `sin_near`, `cos_near` and `tan_near` are four
times as fast and mean nothing beyond `RANGE_LIMIT`: for callers that check their arguments.

Invariants:
1. Within `ULP` units in the last place of the exact result for every argument, subnormal ones
   included; NaN, infinities and signed zeros as in C99 annex F.
2. No branch, no call but to intrinsics of one instruction, no fast-math flag.

"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from tracker.jit.vmath import (
    exponential,
    gamma,
    hyperbolic,
    inverse,
    logarithm,
    power,
    special,
    trigonometric,
)
from tracker.jit.vmath.text import DOUBLE, FORMATS, Body, Value


@dataclass(frozen=True)
class _Function:
    """`build` makes the body. If `widened`, float arguments become double before it; then `short`,
    if there is one, may do with the accuracy of float."""

    build: Callable[..., Value]
    ulp: float
    arity: int = 1
    widened: bool = True
    short: Callable[..., Value] | None = None


def _native(build: Callable[..., Value], ulp: float) -> _Function:
    return _Function(build, ulp, widened=False)


_TABLE = {
    "exp": _native(exponential.exp, 1.0),
    "exp2": _native(exponential.exp2, 1.0),
    "expm1": _native(exponential.expm1, 1.0),
    "log": _native(logarithm.log, 1.0),
    "log2": _native(logarithm.log2, 1.0),
    "log10": _native(logarithm.log10, 1.0),
    "log1p": _native(logarithm.log1p, 1.0),
    "sqrt": _native(power.sqrt, 0.5),
    "sigmoid": _native(exponential.sigmoid, 1.0),
    "tanh": _native(exponential.tanh, 1.0),
    "softplus": _native(logarithm.softplus, 2.0),
    "sin": _Function(trigonometric.sin, 1.0),
    "cos": _Function(trigonometric.cos, 1.0),
    "tan": _Function(trigonometric.tan, 1.0),
    "sin_near": _Function(trigonometric.sin_near, 1.0),
    "cos_near": _Function(trigonometric.cos_near, 1.0),
    "tan_near": _Function(trigonometric.tan_near, 1.0),
    "asin": _Function(inverse.asin, 2.0),
    "acos": _Function(inverse.acos, 2.0),
    "atan": _Function(inverse.atan, 2.0),
    "atan2": _Function(inverse.atan2, 2.0, arity=2),
    "sinh": _Function(hyperbolic.sinh, 2.0),
    "cosh": _Function(hyperbolic.cosh, 2.0),
    "asinh": _Function(hyperbolic.asinh, 2.0),
    "acosh": _Function(hyperbolic.acosh, 2.0),
    "atanh": _Function(hyperbolic.atanh, 2.0),
    "cbrt": _Function(power.cbrt, 1.0),
    "hypot": _Function(power.hypot, 1.0, arity=2),
    "pow": _Function(power.pow, 2.0, arity=2, short=power.pow_short),
    "erf": _Function(special.erf, 2.0),
    "erfc": _Function(special.erfc, 4.0),
    "logaddexp": _Function(logarithm.logaddexp, 2.0, arity=2),
    "lgamma": _Function(gamma.lgamma, 3.0),
    # 8 for x > 0; below, terms of the size of log|x| cancel.
    "digamma": _Function(gamma.digamma, 32.0),
}

NAMES: Mapping[str, int] = MappingProxyType({name: f.arity for name, f in _TABLE.items()})
"""The number of arguments of each function."""

ULP: Mapping[str, float] = MappingProxyType({name: f.ulp for name, f in _TABLE.items()})
"""The largest error, in units in the last place of the result."""

ABSOLUTE = frozenset({"logaddexp", "lgamma", "digamma"})
"""Functions whose zeros are no floats: the unit is that of the larger of |result| and one."""

RANGE_LIMIT: Mapping[str, float] = MappingProxyType(
    dict.fromkeys(("sin_near", "cos_near", "tan_near"), trigonometric.REACH)
)
"""The largest |x| for which a function that has a limit is right."""


def symbol(name: str, type: str) -> str:
    """The name of a function in LLVM text; `type` is "double" or "float"."""
    return f"@vm.{name}.{FORMATS[type].suffix}"


def definitions(wanted: Iterable[tuple[str, str]]) -> str:
    """The text of the wanted functions and the constants they read, without declarations."""
    functions = sorted(set(wanted))
    constants: dict[str, str] = {}
    for name, type in functions:
        constants |= _body(name, type).constants
    texts = [_definition(name, type) for name, type in functions]
    return "\n".join([*(constants[key] for key in sorted(constants)), *texts])


def intrinsics(wanted: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The `declare` lines that `definitions` of the same functions needs."""
    return frozenset(line for name, type in wanted for line in _body(name, type).intrinsics)


@cache
def _body(name: str, type: str) -> Body:
    function, format = _TABLE[name], FORMATS[type]
    widened = function.widened and type == "float"
    body = Body(DOUBLE if widened else format, type)
    arguments = [Value(body, f"%x{index}", type) for index in range(function.arity)]
    if widened:
        arguments = [body.emit("double", f"fpext {x} to double") for x in arguments]
        result = (function.short or function.build)(*arguments)
        result = body.emit("float", f"fptrunc {result} to float")
    else:
        result = function.build(*arguments)
    body.lines.append(f"  ret {result}")
    return body


@cache
def _definition(name: str, type: str) -> str:
    parameters = ", ".join(f"{type} %x{index}" for index in range(NAMES[name]))
    head = f"define internal {type} {symbol(name, type)}({parameters}) alwaysinline {{"
    return "\n".join([head, *_body(name, type).lines, "}"])
