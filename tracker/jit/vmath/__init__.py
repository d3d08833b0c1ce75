"""Mathematical functions as LLVM IR text that loops can inline and make vectors of.

A function is `define internal double @vm.exp.f64(...)`: straight-line code, complete in itself.
`_TABLE` lists the functions, `expression.py` is the notation they are written in, and every other
file holds one subject. Knows nothing of the rest of the package.

A function is written once for a `Format`. Most are computed in float for float; the general
trigonometric functions, quantiles, gamma, trigamma and Bessel functions widen a float to double and
round once: half the speed, and right to 0.501 ulp. pow widens for its logarithm only.

`sin`, `cos` and `tan` are right for every argument, at the price of four gathers. `sin_near`,
`cos_near` and `tan_near` are four times as fast and undefined beyond `RANGE_LIMIT`: for callers
that check their arguments, and run the others where the check fails.

Straight-line code calls other copies (`straight_symbol`), with less latency and more instructions;
those of `sin`, `cos` and `tan` branch to the general form, which is not inlined
(`general_symbol`): it takes as long to compile as five others. Rare loops call it, too.

Invariants:
1. Within `ULP` units in the last place of the exact result for every argument, subnormal ones
   included; NaN, infinities and signed zeros as in C99 annex F.
2. No branch in a function that loops call, no fast-math flag, no call except intrinsics of one
   instruction. (Without FMA that one is a call of the C library: right, and slow.)

In a loop over an array in the cache most are faster than NumPy's
(`benchmarks/beside_numpy.py` measures both). pow is furthest behind, by a half: NumPy keeps the
tables of a logarithm in registers, and a loop made of scalar text can only gather from memory,
which is slower than the fit.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType

from tracker.jit.vmath import trigonometric
from tracker.jit.vmath.expression import DOUBLE, FORMATS, FunctionBody, MathValue
from tracker.support.structs import record

Key = tuple[str, str]  # a function's name and its type, "double" or "float"


@record(frozen=True)
class _MathFunction:
    """A function in one of the files, which is imported when the function is first needed. If
    `widened`, float arguments become double before it, which may compute to the accuracy of float.
    """

    file: str
    ulp: float
    arity: int
    widened: bool


def _functions_of(
    file: str, arity: int = 1, widened: bool = False, **ulps: float
) -> dict[str, _MathFunction]:
    return {name: _MathFunction(file, ulp, arity, widened) for name, ulp in ulps.items()}


_TABLE = {
    **_functions_of("exponential", exp=1.0, exp2=1.0, expm1=1.0, sigmoid=1.0, tanh=1.0),
    **_functions_of("exponential", sech_squared=6.0),
    **_functions_of("logarithm", log=1.0, log2=1.0, log10=1.0, log1p=1.0, softplus=2.0),
    **_functions_of("logarithm", arity=2, logaddexp=2.0),
    **_functions_of("power", sqrt=0.5, cbrt=1.0),
    **_functions_of("power", arity=2, hypot=1.0, pow=2.0),
    **_functions_of("trigonometric", widened=True, sin=1.0, cos=1.0, tan=1.0),
    **_functions_of("trigonometric", sin_near=1.0, cos_near=1.0, tan_near=1.0),
    **_functions_of("trigonometric", sinpi=1.0, cospi=1.0),
    **_functions_of("inverse_trig", asin=2.0, acos=2.0, atan=2.0),
    **_functions_of("inverse_trig", arity=2, atan2=2.0),
    **_functions_of("hyperbolic", sinh=2.0, cosh=2.0, asinh=2.0, acosh=2.0, atanh=2.0),
    **_functions_of("erf", erf=2.0, erfc=4.0),
    # digamma: 8 for x > 0; below, terms of the size of log|x| cancel.
    **_functions_of("gamma", lgamma=3.0, digamma=32.0),
    **_functions_of("gamma", widened=True, trigamma=8.0, gamma=16.0),
    **_functions_of("normal", erfcx=4.0, ndtr=4.0, log_ndtr=6.0),
    **_functions_of("normal", widened=True, erfinv=4.0, erfcinv=4.0, ndtri=4.0),
    **_functions_of("bessel_i", widened=True, i0=4.0, i1=4.0, i0e=4.0, i1e=4.0),
    **_functions_of("bessel_k", widened=True, k0=6.0, k1=6.0, k0e=6.0, k1e=6.0),
}

_MAX_INLINED_CALLS = 8  # in straight-line code

NAMES: Mapping[str, int] = MappingProxyType({name: f.arity for name, f in _TABLE.items()})
"""The number of arguments of each function."""

ULP: Mapping[str, float] = MappingProxyType({name: f.ulp for name, f in _TABLE.items()})
"""The largest error, in units in the last place of the result."""

ABSOLUTE_ERROR = frozenset({"logaddexp", "lgamma", "digamma"})
"""Functions whose zeros are no floats: the unit is that of the larger of |result| and one."""

RANGE_LIMIT: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        **dict.fromkeys(("sin_near", "cos_near", "tan_near"), trigonometric.NEAR_LIMIT),
        "sech_squared": {"double": 353.0, "float": 43.4},  # 0 not far beyond
    }
)
"""The largest |x| for which a function that has a limit is right, in each format."""


def symbol(name: str, type: str) -> str:
    """The name of a function in LLVM text; `type` is "double" or "float"."""
    return f"@vm.{name}.{FORMATS[type].suffix}"


def straight_symbol(name: str, type: str) -> str:
    """The name of a function's copy for straight-line code."""
    return f"{symbol(name, type)}.called"


def general_symbol(name: str, type: str) -> str:
    """The name of the general form of a function with a near version; it is not inlined."""
    return f"{symbol(name, type)}.far"


def has_near_version(name: str) -> bool:
    """Whether a function has a faster version for near arguments."""
    return f"{name}_near" in _TABLE


def definitions(
    requested: Iterable[Key],
    calls: Mapping[Key, int] = MappingProxyType({}),
    general_calls: Iterable[Key] = (),
) -> str:
    """The text of functions and the constants they read, without declarations. `calls` counts calls
    in straight-line code: few are inlined. `general_calls` are general forms called in loops."""
    copies = _copies(requested, calls, general_calls)
    constants = {key: text for copy in copies for key, text in copy.body.constants.items()}
    return "\n".join([*(constants[key] for key in sorted(constants)), *(c.text for c in copies)])


def intrinsics(
    requested: Iterable[Key],
    calls: Mapping[Key, int] = MappingProxyType({}),
    general_calls: Iterable[Key] = (),
) -> frozenset[str]:
    """The `declare` lines that `definitions` of the same functions needs."""
    copies = _copies(requested, calls, general_calls)
    return frozenset(line for copy in copies for line in copy.body.intrinsics)


@record(frozen=True)
class _Copy:
    """The text of a copy of a function, and the body with what it reads and calls."""

    text: str
    body: FunctionBody


def _copies(
    requested: Iterable[Key], calls: Mapping[Key, int], general_calls: Iterable[Key]
) -> list[_Copy]:
    general = {*general_calls, *(function for function in calls if has_near_version(function[0]))}
    return [
        *(_loop_copy(*function) for function in sorted(set(requested))),
        *(_straight_copy(*each, calls[each] <= _MAX_INLINED_CALLS) for each in sorted(calls)),
        *(_general_copy(*function) for function in sorted(general)),
    ]


@cache
def _loop_copy(name: str, type: str) -> _Copy:
    return _copy(symbol(name, type), "alwaysinline", _body(name, type))


@cache
def _general_copy(name: str, type: str) -> _Copy:
    return _copy(general_symbol(name, type), "noinline cold", _body(name, type))


@cache
def _straight_copy(name: str, type: str, inline: bool) -> _Copy:
    """A copy for straight-line code. A near version is always computed, so that LLVM merges the
    common part of two functions of one argument."""
    how = "alwaysinline" if inline else "noinline"
    if not has_near_version(name):
        return _copy(straight_symbol(name, type), how, _body(name, type, straight=True))
    body = _body(f"{name}_near", type, straight=True)
    size = abs(MathValue(body, "%x0", type))
    limit = body.constant(RANGE_LIMIT[f"{name}_near"][type], type)
    near = body.emit("i1", f"fcmp ole {size}, {limit.name}")
    body.lines += [
        f"  br {near}, label %done, label %far",
        "far:",
        f"  %general = call {type} {general_symbol(name, type)}({type} %x0)",
        "  br label %done",
        "done:",
        f"  %result = phi {type} [ {body.result.name}, %0 ], [ %general, %far ]",
    ]
    body.result = MathValue(body, "%result", type)
    return _copy(straight_symbol(name, type), how, body)


def _copy(symbol: str, attributes: str, body: FunctionBody) -> _Copy:
    parameters, type = ", ".join(map(str, body.arguments)), body.result.type
    head = f"define internal {type} {symbol}({parameters}) {attributes} {{"
    return _Copy("\n".join([head, *body.lines, f"  ret {body.result}", "}"]), body)


def _body(name: str, type: str, straight: bool = False) -> FunctionBody:
    function, format = _TABLE[name], FORMATS[type]
    build: Callable[..., MathValue] = getattr(
        importlib.import_module(f"{__name__}.{function.file}"), name
    )
    widened = function.widened and type == "float"
    body = FunctionBody(DOUBLE if widened else format, type, straight)
    body.arguments = [MathValue(body, f"%x{index}", type) for index in range(function.arity)]
    arguments = body.arguments
    if widened:
        arguments = [body.emit("double", f"fpext {x} to double") for x in arguments]
    result = build(*arguments)
    if widened:
        result = body.emit("float", f"fptrunc {result} to float")
    body.result = result
    return body
