"""Derivatives that run a function a second time (`checkpoint`) or forwards (`forwarddiff`).

A checkpointed call keeps its operands and nothing of what happens inside. The forward run is inside
a `StopGradient` scope, which collects the tracked outer values that it uses; they become operands
of the call beside the arguments, and the second run pulls cotangents back to all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker import tree
from tracker.autodiff.call_ops import (
    as_read_only,
    basis,
    call_op,
    detach,
    is_differentiable,
    outputs_of,
    record_outputs,
    results_agree,
)
from tracker.autodiff.custom_rules import custom_gradient
from tracker.autodiff.forward import forward_sweep
from tracker.autodiff.leaves import plain_data
from tracker.autodiff.pullbacks import pushforward
from tracker.autodiff.reverse import reverse_sweep
from tracker.errors import NotTrackedError, RuleError, UnsupportedError
from tracker.ir.lowering import View
from tracker.ir.op import Op
from tracker.ops.declare.bundle import BundleParts
from tracker.ops.declare.declare import declare
from tracker.ops.shape.create import buffer, identity
from tracker.rebinding import call_exchanged
from tracker.support.array_copies import snapshot
from tracker.tape.live_leaves import counted_as_live
from tracker.tape.observers import RunningDerivative, is_tracing
from tracker.tape.record import apply, value_of, wrap
from tracker.tape.tracing.tracer import StopGradient
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value, leaf, new_epoch

if TYPE_CHECKING:
    from tracker.support.type_variables import P, R, T

after = declare(  # x, computed after `token`: keeps CSE from merging the second run with the first
    "after",
    method=None,
    entry=None,
    infer=lambda x, token: x,
    evaluate=lambda x, token: x,
    jvp=[lambda t, y, x, token: t, None],
    vjp=[lambda g, y, x, token: g, None],
    lower=View(lambda e, index, x, token: (0, index, None)),
)


class _CheckpointCall:
    """One checkpointed call. Its operands are the tracked leaves of the arguments, then the tracked
    values that `f` captures."""

    def __init__(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.f = f
        self.kwargs = kwargs
        self.args = args
        leaves, self.structure = tree.flatten(args, objects=True)
        self.leaves = [snapshot(x) if type(x) is np.ndarray else x for x in leaves]
        self.tracked_positions = [i for i, x in enumerate(leaves) if type(x) is Tracked]
        self.operands = [value_of(leaves[i]) for i in self.tracked_positions]
        for i in self.tracked_positions:
            self.leaves[i] = None
        self.active_outputs: list[int] = []

    def rebuild_args(self, operands: Sequence[Any]) -> Any:
        leaves = [as_read_only(x) for x in self.leaves]
        for i, x in zip(self.tracked_positions, operands, strict=True):
            leaves[i] = x
        return tree.unflatten(self.structure, leaves, self.args)

    def run(self) -> Any:
        with StopGradient() as cut:
            tracked = [_detach_value(value) for value in self.operands]
            before = list(map(value_of, tracked))
            y = self.f(*self.rebuild_args(tracked), **self.kwargs)
        if any(value_of(x) is not value for x, value in zip(tracked, before, strict=True)):
            raise UnsupportedError(
                "checkpoint: the function writes into an argument", "Copy it first"
            )
        self.operands += cut.outer_values
        outs, structure = tree.flatten(y)
        self.active_outputs = [k for k, out in enumerate(outs) if is_differentiable(out)]
        outcome = [out if is_tracing() else plain_data(out) for out in outs]
        if self.operands and self.active_outputs:
            made = record_outputs(
                _checkpoint_op,
                {"call": self},
                self.operands,
                [outcome[k] for k in self.active_outputs],
            )
            for k, out in zip(self.active_outputs, made, strict=True):
                outcome[k] = out
        return tree.unflatten(structure, outcome, y)

    def rerun(self, y: Any, xs: list[Any], token: Any) -> tuple[list[Value], list[Value], int]:
        """Run `f` on fresh leaves. Returns the values of its results, the leaves (of the arguments,
        then the captured values), and the epoch of the run."""
        since = new_epoch()
        own = []
        for x in xs[: len(self.tracked_positions)]:
            if is_tracing() and type(x) is Tracked and type(token) is Tracked:
                own.append(value_of(apply(after, (x, token))))
            elif type(x) is Tracked:
                own.append(value_of(apply(identity, (x,))))
            else:
                own.append(leaf(x))
        running = RunningDerivative(own)
        try:
            with running, counted_as_live(self.operands):
                given = self.rebuild_args([wrap(value) for value in own])
                made = call_exchanged(self.f, given, self.kwargs)
        finally:
            running.restore()
        outs = tree.leaves(made)
        found = (
            [outs[k] for k in self.active_outputs] if len(outs) > max(self.active_outputs) else []
        )
        if not results_agree(
            [plain_data(out) for out in found], [plain_data(out) for out in outputs_of(y)]
        ):
            name = getattr(self.f, "__name__", "f")
            raise RuleError(
                f"checkpoint: {name} gave another value when it was run again",
                "Draw random numbers outside, and change nothing that it reads before the "
                "backward pass",
            )
        roots = [value_of(out) if type(out) is Tracked else leaf(out) for out in found]
        return roots, own + self.operands[len(self.tracked_positions) :], since


def _detach_value(value: Value) -> Any:
    """A tracked value with the same data that is constant for derivatives."""
    found = detach(wrap(value))
    if type(found) is Tracked:
        return found
    return buffer(value.data)


def _pull(
    g: Any, y: Any, xs: list[Any], wanted: Any, times: Any, *, call: _CheckpointCall
) -> list[Any]:
    gs = list(g) if type(g) is BundleParts else [g]
    token = next(part for part in gs if part is not None)
    roots, leaves, since = call.rerun(y, xs, token)
    seeds = [(root, part) for root, part in zip(roots, gs, strict=True) if part is not None]
    found = reverse_sweep(seeds, leaves, since, times=times)
    return _plain_unless_tracked(found, [*gs, *xs])


def _push(ts: list[Any], y: Any, xs: list[Any], times: Any, *, call: _CheckpointCall) -> Any:
    token = next(t for t in ts if t is not None)
    roots, leaves, since = call.rerun(y, xs, token)
    found = _plain_unless_tracked(
        forward_sweep(list(zip(leaves, ts, strict=True)), roots, since, times), [*ts, *xs]
    )
    found = [
        np.zeros_like(r.aval)[()] if t is None else t for t, r in zip(found, roots, strict=True)
    ]
    return found[0] if len(found) == 1 else BundleParts(found)


def _plain_unless_tracked(found: list[Any], given: list[Any]) -> list[Any]:
    return found if any(type(x) is Tracked for x in given) else [plain_data(c) for c in found]


def _evaluate(*xs: Any, call: _CheckpointCall) -> Any:
    outs = tree.leaves(call.f(*call.rebuild_args(xs[: len(call.tracked_positions)]), **call.kwargs))
    found = [outs[k] for k in call.active_outputs]
    return found[0] if len(found) == 1 else tuple(found)


_checkpoint_op: Op = call_op("checkpoint", _pull, _push, _evaluate)


def checkpoint(f: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """`f(*args, **kwargs)`, whose intermediate values are not kept: `back` runs it again.

    Parameters
    ----------
    f : callable
        May not write into its arguments. Tracked values that it captures get gradients.
    *args, **kwargs
        Its arguments.

    Returns
    -------
    The result of `f`.

    Raises
    ------
    RuleError
        The second run gave other results: draw random numbers outside.

    Notes
    -----
    Takes the memory of the arguments instead of that of all values, and the time of `f` once more.

    Examples
    --------
    >>> tracker.gradient(lambda x: checkpoint(lambda a: np.sum(np.sin(a) ** 2), x), [0.0, 1.0])
    (array([0.        , 0.90929743]),)
    """
    return _CheckpointCall(f, args, kwargs).run()  # type: ignore[no-any-return]


def forwarddiff(f: Callable[[T], R], x: T) -> R:
    """`f(x)`, differentiated forwards even by a backward pass: for few inputs and long loops.

    Parameters
    ----------
    f : callable
        Gives a number or an array. It may not capture tracked values.
    x : array_like
        One pass is made for each of its elements.

    Returns
    -------
    The result of `f`.

    Raises
    ------
    NotTrackedError
        `f` captures a tracked value, whose gradient would be lost.

    Examples
    --------
    >>> tracker.gradient(lambda x: forwarddiff(lambda a: a**3, x), 2.0)
    (12.0,)
    """
    if not tree.is_numeric(plain_data(x)):
        raise NotTrackedError(f"forwarddiff got a {type(x).__name__}", "Give a number or an array")
    if type(x) is not Tracked:
        return f(x)

    def alone(a: Any) -> Any:
        with StopGradient() as cut:
            f(buffer(plain_data(a)))
        if cut.outer_values:
            raise UnsupportedError(
                f"forwarddiff: the function uses {len(cut.outer_values)} tracked value(s) that "
                "are not its argument, whose gradients would be lost",
                "Pass them in x, or use tracker.data where no gradient is wanted",
            )
        y, move = pushforward(f, a)
        columns: list[Any] = [move(unit) for _, unit in basis(plain_data(a))]

        def back(dy: Any) -> tuple[Any]:
            slopes = [np.sum(np.real(np.conjugate(column) * dy)) for column in columns]
            return (_gradient_from_slopes(slopes, plain_data(a)),)

        return y, back

    return custom_gradient(alone)(x)  # type: ignore[no-any-return]


def _gradient_from_slopes(slopes: list[Any], x: Any) -> Any:
    if np.iscomplexobj(x):
        slopes = [a + 1j * b for a, b in zip(slopes[::2], slopes[1::2], strict=True)]
    return np.reshape(np.stack(slopes), np.shape(x)) if np.ndim(x) else slopes[0]
