"""Factories with which the op files declare ops, and NumPy functions of tracked arrays.

`elementwise` derives both rules of a ufunc from its partial derivatives; `declare` is the general
form. `implements` enters a composite NumPy function, one that is written with other ops. The
`*_nondiff` variants are for results without a derivative, `refuse_functions` for functions that
tracked arrays do not support.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.errors import UnsupportedError, message
from tracker.ir.lowering import Host, Lowering, Map
from tracker.ir.op import METHODS, NONDIFFERENTIABLE, NUMPY, UFUNCS, UNSUPPORTED, Op, Rule, define
from tracker.ir.types import Type
from tracker.ops.declare.arguments import NO_VALUE, as_array
from tracker.ops.declare.casting import store_out
from tracker.ops.declare.dtypes import infer_by_example, infer_ufunc, loop_dtypes
from tracker.ops.declare.operators import install_operator
from tracker.ops.declare.rule_helpers import jvp_from, vjp_from
from tracker.tape.conversions import plain_integers
from tracker.tape.record import apply
from tracker.tape.tracing.escape import NO_ESCAPE, call_on_plain
from tracker.tape.tracked import public_name

ScalarBody = Callable[..., Any]


def elementwise(
    ufunc: np.ufunc,
    *,
    partials: Sequence[Rule | float],
    lower: ScalarBody,
    kinds: str = "f",
    operator: Callable[..., Any] | None = None,
    method: str | None = None,
    name: str | None = None,
    defined: ScalarBody | None = None,
    refuses: Callable[..., str] | None = None,
    requires: Callable[..., None] | None = None,
) -> Op:
    """Declare the op of a ufunc from its partial derivatives.

    operator  Python's operator of the same meaning (`operator.add`): its methods (`__add__`,
              `__radd__`) are installed, and Python numbers use it and keep Python's arithmetic
    kinds     dtype kinds that the scalar body `lower` handles
    defined   see `Map`: where Python's operator does not raise
    refuses   see `Map`: why NumPy must compute it for some operands
    requires  see `Map`: what must hold where it is compiled
    """
    lowering = map_lowering(ufunc, lower, kinds, defined, refuses, requires)
    slots = {"method": method, "partials": partials, "lower": lowering}
    return _ufunc_op(smooth_op, ufunc, operator, name=name or ufunc.__name__, **slots)


def elementwise_nondiff(
    ufunc: np.ufunc,
    *,
    lower: ScalarBody,
    kinds: str = "f",
    operator: Callable[..., Any] | None = None,
    defined: ScalarBody | None = None,
) -> Op:
    """Declare the op of a ufunc whose result has no derivative: comparisons, bit operations."""
    slots = {"operands": ufunc.nin, "lower": map_lowering(ufunc, lower, kinds, defined)}
    return _ufunc_op(nondiff_op, ufunc, operator, name=ufunc.__name__, **slots)


def _ufunc_op(
    factory: Callable[..., Op], ufunc: np.ufunc, operator: Callable[..., Any] | None, **slots: Any
) -> Op:
    infer, evaluate = infer_ufunc(ufunc, operator), operator or ufunc
    op = factory(numpy=[ufunc], infer=infer, evaluate=evaluate, **slots)
    UFUNCS[ufunc] = op
    install_operator(op, operator)
    return op


def map_lowering(
    ufunc: np.ufunc,
    body: ScalarBody,
    kinds: str,
    defined: ScalarBody | None = None,
    refuses: Callable[..., str] | None = None,
    requires: Callable[..., None] | None = None,
) -> Map:
    """The `Map` of a ufunc; the scalar body computes in the dtypes of NumPy's inner loop."""

    def dtypes(*types: Type) -> tuple[np.dtype[Any], ...]:
        return loop_dtypes(ufunc, types)[: ufunc.nin]

    return Map(body, dtypes, kinds, defined, refuses, requires, "K")


def declare(
    name: str,
    *,
    numpy: Sequence[Callable[..., Any]] = (),
    method: str | None = None,
    entry: Callable[..., Any] | None = None,
    **slots: Any,
) -> Op:
    """Declare an op. With an `entry`, the NumPy functions and the array method call it."""
    op = define(name, numpy=numpy, method=method, entry=entry, **slots)
    if entry is not None:

        def call(*args: Any, **kwargs: Any) -> Any:
            operands, params = entry(*args, **kwargs)
            return apply(op, operands, params)

        for function in numpy:
            NUMPY[function] = call
        if method is not None:
            METHODS[method] = call
    return op


def smooth_op(name: str, *, partials: Sequence[Rule | float], **slots: Any) -> Op:
    """Declare an elementwise op from its partial derivatives, each a function of (y, *operands)."""
    jvp = [jvp_from(p) for p in partials]
    vjp = [vjp_from(p, i) for i, p in enumerate(partials)]
    return declare(name, jvp=jvp, vjp=vjp, partials=partials, **slots)


def nondiff_op(name: str, *, operands: int = 1, **slots: Any) -> Op:
    """Declare an op without a derivative in any of its operands."""
    return declare(name, jvp=[None] * operands, vjp=[None] * operands, **slots)


def implements(*functions: Callable[..., Any], method: str | None = None) -> Callable[[Rule], Rule]:
    """Decorator: the function replaces these NumPy functions (and the array method) for tracked
    arrays."""

    def register(function: Rule) -> Rule:
        for numpy_function in functions:
            NUMPY[numpy_function] = function
        if method is not None:
            METHODS[method] = function
        return function

    return register


def implements_nondiff(
    *functions: Callable[..., Any], method: str | None = None
) -> Callable[[Rule], Rule]:
    """`implements` for functions whose results have no derivative."""
    NONDIFFERENTIABLE.update(functions)
    return implements(*functions, method=method)


def declare_nondiff(
    function: Callable[..., Any],
    operands: str,
    params: str = "",
    *,
    method: str | None = None,
    numpy: bool = True,
    name: str | None = None,
    lower: Lowering | None = None,
) -> Op:
    """Declare a function whose results have no derivative, and whose shape follows from shapes.

    operands, params  names of its arguments: arrays, and static parameters of the op
    numpy             whether users may call it: it is entered in the tables
    """
    arrays, rest = operands.split(), params.split()
    op = nondiff_op(
        name or function.__name__,
        operands=len(arrays),
        infer=infer_by_example(function),
        evaluate=function,
        lower=lower or Host("an integer or boolean result"),
    )

    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        given = dict(zip((*arrays, *rest), args, strict=False)) | kwargs
        given = {k: v for k, v in given.items() if v is not NO_VALUE}
        found = tuple(as_array(given.pop(k)) for k in arrays)
        return store_out(out, apply(op, found, {k: plain_integers(v) for k, v in given.items()}))

    if numpy:
        implements_nondiff(function, method=method)(call)
    return op


def refuse_functions(why: str, instead: str, *functions: Callable[..., Any]) -> None:
    """Make these functions raise `UnsupportedError` for tracked arrays that may not be plain."""

    def refusal(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            text = message(f"{public_name(function)} {why}", instead)
            plain = call_on_plain(function, args, kwargs, lambda: text)
            if plain is NO_ESCAPE:
                raise UnsupportedError(text)
            return plain

        return call

    for function in functions:
        NUMPY[function] = refusal(function)
        UNSUPPORTED[function] = why
