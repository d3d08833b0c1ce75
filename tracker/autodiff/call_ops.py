"""Ops made at run time: calls of Python code with a rule of their own.

`call_op` makes such an op and `record_outputs` puts a call on the tape; `host_call` is a call back
into Python that a trace can hold. `detach`, `refuse_second_derivative` and `refuse_captured` limit
what the results of a call may depend on. Start at `call_op`.

Invariants: these ops are in no table; a host call returns the types that it returned when traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tracker import tree
from tracker.autodiff.leaves import plain_data
from tracker.errors import RuleError, TrackerError, UnsupportedError, message
from tracker.ir.lowering import Host
from tracker.ir.op import Joint, Op
from tracker.ir.types import Bundle, Type, type_of
from tracker.ops.declare import bundle
from tracker.ops.declare.bundle import pick
from tracker.ops.shape.create import constant
from tracker.support.structs import replace
from tracker.tape.observers import CallbackMismatch, is_tracing, running_leaves
from tracker.tape.record import alias_to_primal, apply, data_of, value_of
from tracker.tape.tracing.tracer import current_tracer, record_error
from tracker.tape.tracked import Tracked
from tracker.tape.value import CLOSED, NO_PARAMS, ParamState, Value


def call_op(
    name: str, pull: Callable[..., Any], push: Callable[..., Any], evaluate: Callable[..., Any]
) -> Op:
    """An op made at run time: it is in no table, and no trace holds it."""
    return Op(
        name,
        numpy=(),
        method=None,
        entry=None,
        infer=_no_type,
        evaluate=evaluate,
        jvp=Joint(push),
        vjp=Joint(pull),
        partials=None,
        lower=Host("its rule is Python"),
        constant=False,
        needs_operand_values=True,
    )


def _no_type(*_: Any, **__: Any) -> Any:
    raise UnsupportedError(message("a call with a rule of its own is not an equation of the IR"))


def outputs_of(y: Any) -> list[Any]:
    """The results of a call as a list, from its plain or tracked value."""
    plain = data_of(y)
    return list(plain) if isinstance(plain, tuple) else [y]


def record_outputs(
    op: Op, params: dict[str, Any], operands: Sequence[Value], outs: list[Any]
) -> list[Any]:
    """The results of one call (tracked or plain) as tracked values of its op."""
    found = [plain_data(out) for out in outs]
    if len(outs) == 1:
        return [alias_to_primal(Value(found[0], op, tuple(operands), params), outs[0])]
    whole = Value(tuple(found), op, tuple(operands), params)
    return [
        alias_to_primal(Value(x, pick, (whole,), {"at": k}), out)
        for k, (x, out) in enumerate(zip(found, outs, strict=True))
    ]


def as_read_only(x: Any) -> Any:
    """Data of the tape as a user's code gets it: arrays are read-only."""
    if type(x) is not np.ndarray:
        return x
    view = x.view()
    view.flags.writeable = False
    return view


def is_differentiable(x: Any) -> bool:
    plain = plain_data(x)
    return tree.is_numeric(plain) and np.result_type(plain).kind in "iufc"


def basis(x: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Positions and unit vectors of x's space, if it is complex also i times each vector."""
    kind = np.result_type(x)
    for position in np.ndindex(np.shape(x)):
        for part in (1, 1j) if kind.kind == "c" else (1,):
            unit = np.zeros(np.shape(x), kind)
            unit[position] = part
            yield position, unit[()]


def zero_like(x: Any) -> Any:
    plain = plain_data(x)
    return type(plain)(0) if type(plain) in (float, complex) else np.zeros_like(plain)[()]


def results_agree(found: list[Any], want: list[Any]) -> bool:
    """Whether two runs gave the same results, up to rounding."""
    if len(found) != len(want):
        return False
    for a, b in zip(found, want, strict=True):
        if np.shape(a) != np.shape(b):
            return False
        kind = np.result_type(b)
        rtol = 100 * float(np.finfo(kind).eps) if kind.kind in "fc" else 0.0
        scale = float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b)))
        if not np.allclose(a, b, rtol=rtol, atol=rtol * scale, equal_nan=True):
            return False
    return True


def refuse_captured(name: str, outs: list[Any], operands: Sequence[Value], traced: bool) -> None:
    """Raise if results depend on a tracked value that is not among the operands."""
    stack = [value_of(out) for out in outs if type(out) is Tracked]
    if not stack:
        return
    seen = {*operands, *stack}
    running = running_leaves()
    while stack:
        value = stack.pop()
        if value in operands:
            continue
        open_leaf = value.op is None and (not traced or isinstance(value.params, ParamState))
        if open_leaf or value in running:
            raise RuleError(
                f"the rule of {name} uses a tracked value that is not among its arguments, "
                "whose gradient would be lost",
                "Pass it as an argument, or tracker.data(x) where no gradient is wanted",
            )
        for operand in value.operands:
            if type(operand) is Value and operand not in seen:
                seen.add(operand)
                stack.append(operand)


def _raise_nested(*_: Any, name: str, **__: Any) -> Any:
    raise RuleError(
        f"{name} has a first derivative only",
        "Write its rule in NumPy, without host=True and nobacksies, to have a second one",
    )


_refuse_op = call_op("nobacksies", _raise_nested, _raise_nested, lambda *xs, name: xs[0])


def refuse_second_derivative(name: str, x: Any, inputs: Sequence[Any]) -> Any:
    """x, computed from the tracked values among `inputs`, with a derivative that is an error."""
    operands = tuple(value_of(o) for o in inputs if type(o) is Tracked)
    if x is None or not operands:
        return x
    return alias_to_primal(Value(plain_data(x), _refuse_op, operands, {"name": name}), x)


def detach(x: Any) -> Any:
    """The same data without a derivative; under a trace a tracked value without a history."""
    if type(x) is not Tracked:
        return x
    if not is_tracing():
        return plain_data(x)
    tracer = current_tracer()
    if tracer is not None and tracer.is_body_trace:  # the body is differentiated from its record
        return apply(constant, (x,))
    return alias_to_primal(Value(value_of(x).data, CLOSED, (), NO_PARAMS), x)


# Calls back into Python ---------------------------------------------------------------------------

_host_call_count = 0


def host_call(name: str, run: Callable[..., list[Any]], operands: Sequence[Any]) -> list[Any]:
    """The results of run(*plain operands), a list of numbers and arrays, as an op that a trace
    holds. If `run` raises, the trace is not kept: the traced function may catch the error."""
    global _host_call_count
    _host_call_count += 1
    types: list[Type] = []

    def evaluate(*xs: Any) -> Any:
        try:
            outs = run(*map(as_read_only, xs))
        except Exception as error:
            if types:
                raise CallbackMismatch from error
            if not isinstance(error, TrackerError):
                record_error(error)
            raise
        found = list(map(type_of, outs))
        if not types:
            types.extend(found)
        elif types != found:
            raise RuleError(
                f"{name} gave {', '.join(map(str, found))}; while it was traced it gave "
                f"{', '.join(map(str, types))}",
                "Results of a host=True rule may not change their shapes and dtypes",
            )
        return outs[0] if len(outs) == 1 else tuple(outs)

    def refuse(*_: Any, **__: Any) -> Any:
        return _raise_nested(name=name)

    op = replace(
        call_op(f"{name}_{_host_call_count}", refuse, refuse, evaluate),
        infer=lambda *_: types[0] if len(types) == 1 else Bundle.of(types),
        lower=Host("a rule with host=True runs in Python"),
    )
    made = apply(op, tuple(operands))
    return [made] if len(types) == 1 else bundle.unbundle(made)
