"""How the op files declare: factories over `define`, and the tables that lead to what they declare.

Owns: `elementwise`, `elementwise_nondiff` (ufuncs without a derivative), `declare`, `implements`,
`declare_nondiff`, `refuse_functions`. How entries read arguments is in `arguments.py`, what goes
into arrays in `casting.py`, Python's operators in `operators.py`, dtypes in `dtypes.py`, what rules
share in `rule_helpers.py`.
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
from tracker.tape.tracked import public_name

ScalarBody = Callable[..., Any]


def elementwise(
    ufunc: np.ufunc,
    *,
    partials: Sequence[Rule | float],
    lower: ScalarBody | Host,
    kinds: str = "f",
    operator: Callable[..., Any] | None = None,
    method: str | None = None,
    name: str | None = None,
    defined: ScalarBody | None = None,
    refuses: Callable[..., str] | None = None,
    requires: Callable[..., None] | None = None,
) -> Op:
    """Declare an op that is a ufunc, from its partial derivatives.

    operator  Python's operator of the same meaning (`operator.add`): its methods (`__add__`,
              `__radd__`) are installed, and Python numbers go through it and keep its arithmetic
    kinds     dtype kinds in which the body `lower` computes
    defined   see `Map`: where Python's operator does not raise
    refuses   see `Map`: why NumPy must do it for some operands
    requires  see `Map`: what must hold where it is compiled
    """
    op = define(
        name or ufunc.__name__,
        numpy=[ufunc],
        method=method,
        entry=None,
        infer=infer_ufunc(ufunc, operator),
        evaluate=operator or ufunc,
        jvp=[jvp_from(p) for p in partials],
        vjp=[vjp_from(p, i) for i, p in enumerate(partials)],
        lower=lower
        if isinstance(lower, Host)
        else map_lowering(ufunc, lower, kinds, defined, refuses, requires),
        partials=partials,
    )
    UFUNCS[ufunc] = op
    install_operator(op, operator)
    return op


def elementwise_nondiff(
    ufunc: np.ufunc,
    *,
    lower: ScalarBody | Host,
    kinds: str = "f",
    operator: Callable[..., Any] | None = None,
    defined: ScalarBody | None = None,
) -> Op:
    """Declare a ufunc whose results carry no derivative (comparisons, tests, bit operations)."""
    op = define(
        ufunc.__name__,
        numpy=[ufunc],
        method=None,
        entry=None,
        infer=infer_ufunc(ufunc, operator),
        evaluate=operator or ufunc,
        jvp=[None] * ufunc.nin,
        vjp=[None] * ufunc.nin,
        lower=lower if isinstance(lower, Host) else map_lowering(ufunc, lower, kinds, defined),
    )
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
    """The Map of a ufunc: the body computes in the dtypes of NumPy's inner loop."""

    def dtypes(*types: Type) -> tuple[np.dtype[Any], ...]:
        return loop_dtypes(ufunc, types)[: ufunc.nin]

    return Map(body, dtypes, kinds, defined, refuses, requires, "K")


def declare(name: str, *, numpy: Sequence[Callable[..., Any]] = (), **slots: Any) -> Op:
    """`define`, and lead NumPy's callables and the array method to the op through its entry."""
    op = define(name, numpy=numpy, **slots)
    entry = op.entry
    if entry is not None:

        def call(*args: Any, **kwargs: Any) -> Any:
            operands, params = entry(*args, **kwargs)
            return apply(op, operands, params)

        for function in numpy:
            NUMPY[function] = call
        if op.method is not None:
            METHODS[op.method] = call
    return op


def implements(*functions: Callable[..., Any], method: str | None = None) -> Callable[[Rule], Rule]:
    """Decorator: this function of tracked values stands for these NumPy functions."""

    def enter(function: Rule) -> Rule:
        for numpy_function in functions:
            NUMPY[numpy_function] = function
        if method is not None:
            METHODS[method] = function
        return function

    return enter


def implements_nondiff(
    *functions: Callable[..., Any], method: str | None = None
) -> Callable[[Rule], Rule]:
    """Decorator: as `implements`, for functions whose results carry no derivative."""
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
    """Declare a function whose results carry no derivative, and whose shape follows from shapes.

    operands, params  the names of its arguments: arrays, and the rest, which the op is told
    numpy             whether users call it: an entry is made in the tables
    """
    arrays, rest = operands.split(), params.split()
    op = declare(
        name or function.__name__,
        method=None,
        entry=None,
        infer=infer_by_example(function),
        evaluate=function,
        jvp=[None] * len(arrays),
        vjp=[None] * len(arrays),
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
    """These functions of tracked values raise, by name."""

    def refusal(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*_: Any, **__: Any) -> Any:
            raise UnsupportedError(message(f"{public_name(function)} {why}", instead))

        return call

    for function in functions:
        NUMPY[function] = refusal(function)
        UNSUPPORTED[function] = why
