"""How a ufunc of SciPy is declared: its name, and its derivative in each argument.

`define_ufunc` is for one result, `define_ufunc_results` for several (one op each). A derivative is
a function of (result, *arguments) as in `ops/elementwise/unary.py`, a number if it is constant, or
a string if there is none: the argument's name and the reason. Such an argument may be an integer or
untracked; a derivative that reaches it otherwise raises an error with this text. A
`ParameterDerivative` is a derivative in an order or degree. Functions that the installed SciPy
lacks are skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special
from scipy.special import _ufuncs

from tracker.errors import UnsupportedError
from tracker.ir.graph import Const
from tracker.ir.lowering import Map
from tracker.ir.op import NUMPY, UFUNCS, Op, Rule
from tracker.ir.types import Type
from tracker.ops.declare.declare import ScalarBody, declare, map_lowering
from tracker.ops.declare.dtypes import broadcast_shape, infer_ufunc, loop_dtypes
from tracker.ops.declare.foreign_ufuncs import LOOP_DTYPE_CHARS, ufunc_call
from tracker.ops.declare.rule_helpers import (
    match_tangent,
    partial_product,
    project,
    tangent_product,
)
from tracker.ops.elementwise.binary import strong_multiply
from tracker.ops.shape.create import to_discrete
from tracker.ops.shape.shape import broadcast_to
from tracker.tape.record import apply, aval_of, data_of


@dataclass(frozen=True, slots=True)
class ParameterDerivative:
    """A derivative in an argument that other derivatives get unchanged if it is an integer: SciPy
    computes polynomials of integer degree differently from those of real degree."""

    rule: Rule


Derivative = Rule | float | str | ParameterDerivative
ROUNDED_BY_SCIPY = "which SciPy rounds to a whole number"  # the reason for no derivative


def ufunc_named(name: str) -> np.ufunc | None:
    """SciPy's ufunc of this name, if this SciPy has it."""
    for module in (scipy.special, _ufuncs):
        found = getattr(module, name, None)
        if isinstance(found, np.ufunc):
            return found
    return None


def define_ufunc(
    name: str,
    *derivatives: Derivative,
    lower: ScalarBody | None = None,
    where: Callable[..., bool] = lambda *operands: True,
) -> Op | None:
    """Declare a ufunc with one result. `lower` is its scalar body for real numbers, if there is
    one; `where` restricts the operands it is used for. Otherwise compiled code calls SciPy's loop.
    """
    ufunc = ufunc_named(name)
    if ufunc is None:
        return None
    lowering = _scipy_lowering(ufunc, 0) if lower is None else _custom_lowering(ufunc, lower, where)
    op = _declare_op(_op_name(name), ufunc, 0, derivatives, ufunc, lowering)
    if ufunc.nin > 2:
        NUMPY[ufunc] = lambda *xs: apply(op, xs)
    else:
        UFUNCS[ufunc] = op
    return op


def define_ufunc_results(
    name: str, results: Sequence[str], *derivatives: Sequence[Derivative]
) -> list[Op]:
    """Declare a ufunc with several results, each named; `derivatives` is one sequence per
    result."""
    ufunc = ufunc_named(name)
    if ufunc is None:
        return []
    ops = [
        _declare_op(
            _op_name(result), ufunc, at, parts, _component(ufunc, at), _scipy_lowering(ufunc, at)
        )
        for at, (result, parts) in enumerate(zip(results, derivatives, strict=True))
    ]
    NUMPY[ufunc] = lambda *xs: tuple(apply(op, xs) for op in ops)
    return ops


_FEW = 100  # elements; for more, one call of the loop is faster than a call per element


def _whole_array_call(ufunc: np.ufunc, at: int) -> Callable[..., Any]:
    """For many elements: one call of SciPy's loop."""

    def instead(b: Any, *operands: Any) -> Any:
        types = [x.type for x in operands]
        shape, dtypes = broadcast_shape(types), loop_dtypes(ufunc, types)
        if math.prod(shape) <= _FEW or not {d.char for d in dtypes} <= LOOP_DTYPE_CHARS:
            return None
        arrays = [_loop_operand(b, x, d, shape) for x, d in zip(operands, dtypes, strict=False)]
        return b(ufunc_call, *arrays, ufunc=ufunc, at=at, core=None)

    return instead


def _loop_operand(b: Any, x: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """An operand as SciPy's loop takes it: a scalar, or an array of the result's shape."""
    if isinstance(x, Const):
        return Const.of(dtype.type(x.value))
    fits = x.type.size == 1 or x.type.shape == shape
    if x.type.dtype != dtype or x.type.weak:
        x = b(to_discrete, x, dtype=dtype)
    return x if fits else b(broadcast_to, x, shape=shape)


def _scipy_lowering(ufunc: np.ufunc, at: int) -> Map:
    """SciPy's own loop, called per element if there are few."""
    return map_lowering(
        ufunc,
        lambda e, *xs: e.call_ufunc(ufunc, at, *xs),
        "ifc",
        requires=_whole_array_call(ufunc, at),
    )


def _custom_lowering(ufunc: np.ufunc, lower: ScalarBody, where: Callable[..., bool]) -> Map:
    """Our scalar body for real numbers; SciPy's loop for complex ones and where `where` is
    false."""
    fallback = _scipy_lowering(ufunc, 0)

    def body(e: Any, *xs: Any) -> Any:
        is_ours = not any(x.dtype.kind == "c" for x in xs) and where(*xs)
        return lower(e, *xs) if is_ours else fallback.body(e, *xs)

    def requires(b: Any, *operands: Any) -> Any:
        is_ours = not any(x.type.dtype.kind == "c" for x in operands) and where(*operands)
        return None if is_ours or fallback.requires is None else fallback.requires(b, *operands)

    return map_lowering(ufunc, body, "ifc", requires=requires)


def _op_name(name: str) -> str:
    """The op's name; functions that NumPy has too get the suffix `_scipy`."""
    name = name.lstrip("_")
    return f"{name}_scipy" if hasattr(np, name) else name


def _component(ufunc: np.ufunc, at: int) -> Callable[..., Any]:
    return lambda *xs: ufunc(*xs)[at]


def _declare_op(
    name: str,
    ufunc: np.ufunc,
    at: int,
    derivatives: Sequence[Derivative],
    evaluate: Callable[..., Any],
    lower: Any,
) -> Op:
    assert len(derivatives) == ufunc.nin, name
    to_float = [not isinstance(d, str | ParameterDerivative) for d in derivatives]
    derivatives = [_with_float_arguments(d, to_float, at) for at, d in enumerate(derivatives)]
    has_all = not any(isinstance(d, str) for d in derivatives)
    return declare(
        name,
        numpy=[ufunc],
        infer=infer_ufunc(ufunc, None) if ufunc.nout == 1 else _infer_component(ufunc, at),
        evaluate=evaluate,
        jvp=[_jvp_rule(name, d, i) for i, d in enumerate(derivatives)],
        vjp=[_vjp_rule(name, d, i) for i, d in enumerate(derivatives)],
        lower=lower,
        partials=derivatives if has_all else None,
    )


def _with_float_arguments(
    derivative: Derivative, to_float: Sequence[bool], at: int
) -> Rule | float | str:
    """The derivative in the argument `at`, called with floats in place of bools and integers,
    except those that are parameters."""
    if isinstance(derivative, ParameterDerivative):
        derivative, to_float = derivative.rule, [m or i == at for i, m in enumerate(to_float)]
    if not callable(derivative):
        return derivative

    def partial(y: Any, *xs: Any) -> Any:
        return derivative(
            y, *(_as_float(x, y) if m else x for x, m in zip(xs, to_float, strict=True))
        )

    return partial


def _as_float(x: Any, y: Any) -> Any:
    if type(x) is float or np.result_type(aval_of(x)).kind in "fc":
        return x
    return np.multiply(x, np.real(data_of(y)).dtype.type(1))


def _infer_component(ufunc: np.ufunc, at: int) -> Callable[..., Type]:
    return lambda *types: Type(broadcast_shape(types), loop_dtypes(ufunc, types)[ufunc.nin + at])


# Rules of ops without a derivative in some argument; the others use `partials`.


def _strong_product(a: Any, b: Any) -> Any:
    return apply(strong_multiply, (a, b))


def _vjp_rule(name: str, derivative: Derivative, at: int) -> Rule:
    def rule(g: Any, y: Any, *xs: Any) -> Any:
        if isinstance(derivative, str):
            return _refuse_argument(name, derivative, xs[at])
        if not callable(derivative) and derivative == 0:
            return None
        return project(partial_product(_strong_product, g, derivative, y, xs), xs[at])

    return rule


def _jvp_rule(name: str, derivative: Derivative, at: int) -> Rule:
    def rule(t: Any, y: Any, *xs: Any) -> Any:
        if isinstance(derivative, str):
            return _refuse_argument(name, derivative, xs[at])
        return match_tangent(tangent_product(_strong_product, t, derivative, y, xs), y)

    return rule


def _refuse_argument(name: str, argument: str, x: Any) -> None:
    """No derivative in this argument: None for an integer, an error otherwise."""
    if np.result_type(aval_of(x)).kind in "biu":
        return
    raise UnsupportedError(
        f"scipy.special.{name} has no derivative in its argument {argument}",
        f"Keep {argument.split(',')[0]} plain, with tracker.data({argument.split(',')[0]}), "
        "or write a rule with tracker.rrule",
    )


# Shared by the families


def math_call(name: str) -> ScalarBody:
    """The scalar body that is one function of the compiler's math library."""
    return lambda e, *xs: e.math(name, *xs)


def reals_only(name: str, slope: Rule) -> Rule:
    """A derivative that holds for real arguments only."""

    def partial(y: Any, *xs: Any) -> Any:
        if any(np.iscomplexobj(aval_of(x)) for x in xs):
            raise UnsupportedError(
                f"scipy.special.{name} has no derivative rule for complex arguments",
                "Where it is scaled, use the function without scaling and scale it yourself",
            )
        return slope(y, *xs)

    return partial
