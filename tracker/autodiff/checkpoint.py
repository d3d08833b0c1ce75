"""Derivatives that run a function a second time, or forwards.

Owns: `checkpoint`, whose call keeps its arguments and nothing of what happens inside;
`forwarddiff`.

How a checkpoint keeps the gradients of captured values: the forward run happens in a `Cut`, which
notes every tracked value from outside that is used. These are operands of the call, beside the
arguments; the second run pulls cotangents back to all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker import tree
from tracker.autodiff.call_ops import call_op, detached, parts_of, read_only, results, same_results
from tracker.autodiff.custom_rules import custom_gradient
from tracker.autodiff.forward import push
from tracker.autodiff.leaves import data
from tracker.autodiff.pullbacks import pushforward
from tracker.autodiff.reverse import sweep
from tracker.errors import NotTrackedError, RuleError, UnsupportedError, message
from tracker.ir.lowering import View
from tracker.ir.op import Op
from tracker.ops.declare.bundle import Parts
from tracker.ops.declare.declare import declare
from tracker.ops.shape.create import identity
from tracker.support.array_copies import snapshot
from tracker.tape.observers import Deriving, is_recording
from tracker.tape.record import apply, value_of, wrap
from tracker.tape.tracer import Cut, close
from tracker.tape.tracked import Tracked
from tracker.tape.value import CLOSED, NO_PARAMS, Value, leaf, new_epoch

after = declare(  # x, once `token` is there: keeps a second run from being taken for the first
    "after",
    method=None,
    entry=None,
    infer=lambda x, token: x,
    evaluate=lambda x, token: x,
    jvp=[lambda t, y, x, token: t, None],
    vjp=[lambda g, y, x, token: g, None],
    lower=View(lambda e, index, x, token: (0, index, None)),
)


class _Segment:
    """One checkpointed call. `operands`: the tracked leaves of the arguments, then what `f` took
    from outside."""

    def __init__(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.f = f
        self.kwargs = kwargs
        self.args = args
        leaves, self.structure = tree.flatten(args, objects=True)
        self.leaves = [snapshot(x) if type(x) is np.ndarray else x for x in leaves]
        self.at = [i for i, x in enumerate(leaves) if type(x) is Tracked]
        self.operands = [value_of(leaves[i]) for i in self.at]
        for i in self.at:
            self.leaves[i] = None
        self.moving: list[int] = []

    def rebuilt(self, handles: Sequence[Any]) -> Any:
        leaves = [read_only(x) for x in self.leaves]
        for i, handle in zip(self.at, handles, strict=True):
            leaves[i] = handle
        return tree.unflatten(self.structure, leaves, self.args)

    def run(self) -> Any:
        with Cut() as cut:
            handles = [detached_handle(value) for value in self.operands]
            given = list(map(value_of, handles))
            y = self.f(*self.rebuilt(handles), **self.kwargs)
        if any(value_of(h) is not value for h, value in zip(handles, given, strict=True)):
            raise UnsupportedError(
                message("checkpoint: the function writes into an argument", "Copy it first")
            )
        self.operands += cut.taken
        outs, structure = tree.flatten(y)
        self.moving = [k for k, out in enumerate(outs) if _moves(out)]
        shown = [out if is_recording() else data(out) for out in outs]
        if self.operands and self.moving:
            made = results(
                _segment_op, {"segment": self}, self.operands, [shown[k] for k in self.moving]
            )
            for k, out in zip(self.moving, made, strict=True):
                shown[k] = out
        return tree.unflatten(structure, shown, y)

    def again(self, y: Any, xs: list[Any], token: Any) -> tuple[list[Value], list[Value], int]:
        """Run `f` on fresh leaves: the values of its results, the leaves (those of the arguments,
        then the captured values), and the epoch in which this began."""
        since = new_epoch()
        own = []
        for x in xs[: len(self.at)]:
            if is_recording() and type(x) is Tracked and type(token) is Tracked:
                own.append(value_of(apply(after, (x, token))))
            elif type(x) is Tracked:
                own.append(value_of(apply(identity, (x,))))
            else:
                own.append(leaf(x))
        try:
            with Deriving(own):
                made = self.f(*self.rebuilt([wrap(value) for value in own]), **self.kwargs)
        finally:
            for value in own:
                close(value)
        outs = tree.leaves(made)
        found = [outs[k] for k in self.moving] if len(outs) > max(self.moving) else []
        if not same_results([data(out) for out in found], [data(out) for out in parts_of(y)]):
            name = getattr(self.f, "__name__", "f")
            raise RuleError(
                message(
                    f"checkpoint: {name} gave another value when it was run again",
                    "Draw random numbers outside, and change nothing that it reads before the "
                    "backward pass",
                )
            )
        roots = [value_of(out) if type(out) is Tracked else leaf(out) for out in found]
        return roots, own + self.operands[len(self.at) :], since


def detached_handle(value: Value) -> Any:
    """A handle on a value's data that is a constant for derivatives."""
    found = detached(wrap(value))
    if type(found) is Tracked:
        return found
    return wrap(Value(value.data, CLOSED, (), NO_PARAMS))


def _moves(x: Any) -> bool:
    return tree.is_numeric(data(x)) and np.result_type(data(x)).kind in "iufc"


def _pull(
    g: Any, y: Any, xs: list[Any], wanted: Any, times: Any, *, segment: _Segment
) -> list[Any]:
    gs = list(g) if type(g) is Parts else [g]
    token = next(part for part in gs if part is not None)
    roots, leaves, since = segment.again(y, xs, token)
    seeds = [(root, part) for root, part in zip(roots, gs, strict=True) if part is not None]
    found = sweep(seeds, leaves, since, times=times)
    return _stripped(found, [*gs, *xs])


def _push(ts: list[Any], y: Any, xs: list[Any], times: Any, *, segment: _Segment) -> Any:
    token = next(t for t in ts if t is not None)
    roots, leaves, since = segment.again(y, xs, token)
    found = _stripped(push(list(zip(leaves, ts, strict=True)), roots, since, times), [*ts, *xs])
    found = [
        np.zeros_like(r.form)[()] if t is None else t for t, r in zip(found, roots, strict=True)
    ]
    return found[0] if len(found) == 1 else Parts(found)


def _stripped(found: list[Any], given: list[Any]) -> list[Any]:
    return found if any(type(x) is Tracked for x in given) else [data(c) for c in found]


def _evaluate(*xs: Any, segment: _Segment) -> Any:
    outs = tree.leaves(segment.f(*segment.rebuilt(xs[: len(segment.at)]), **segment.kwargs))
    found = [outs[k] for k in segment.moving]
    return found[0] if len(found) == 1 else tuple(found)


_segment_op: Op = call_op("checkpoint", _pull, _push, _evaluate)


def checkpoint(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`f(*args, **kwargs)`, of which nothing is kept: it is run again in the backward pass.

    Tracked values that `f` captured keep their gradients. Raises RuleError if the second run gives
    something else: random numbers have to be drawn outside. `f` may not write into its arguments.

    >>> tracker.gradient(lambda x: checkpoint(lambda a: np.sum(np.sin(a) ** 2), x), [0.0, 1.0])
    (array([0.        , 0.90929743]),)
    """
    return _Segment(f, args, kwargs).run()


def forwarddiff(f: Callable[..., Any], x: Any) -> Any:
    """`f(x)`, differentiated forwards, also by a backward pass: for few inputs and long loops.

    `x` is a number or an array, and so is `f(x)`. Tracked values that `f` captures are refused.

    >>> tracker.gradient(lambda x: forwarddiff(lambda a: a**3, x), 2.0)
    (12.0,)
    """
    if not tree.is_numeric(data(x)):
        raise NotTrackedError(
            message(f"forwarddiff got a {type(x).__name__}", "Give a number or an array")
        )
    if type(x) is not Tracked:
        return f(x)

    def alone(a: Any) -> Any:
        with Cut() as cut:
            f(wrap(Value(data(a), CLOSED, (), NO_PARAMS)))
        if cut.taken:
            raise UnsupportedError(
                message(
                    f"forwarddiff: the function uses {len(cut.taken)} tracked value(s) that are "
                    "not its argument, whose gradients would be lost",
                    "Pass them in x, or use tracker.data where no gradient is wanted",
                )
            )
        y, move = pushforward(f, a)
        columns = [move(unit) for unit in _units(data(a))]

        def back(dy: Any) -> tuple[Any]:
            slopes = [np.sum(np.real(np.conjugate(column) * dy)) for column in columns]
            return (_gradient_of(slopes, data(a)),)

        return y, back

    return custom_gradient(alone)(x)


def _units(x: Any) -> list[Any]:
    kind = np.result_type(x)
    units = []
    for position in np.ndindex(np.shape(x)):
        for part in (1, 1j) if kind.kind == "c" else (1,):
            unit = np.zeros(np.shape(x), kind)
            unit[position] = part
            units.append(unit[()])
    return units


def _gradient_of(slopes: list[Any], x: Any) -> Any:
    if np.iscomplexobj(x):
        slopes = [a + 1j * b for a, b in zip(slopes[::2], slopes[1::2], strict=True)]
    return np.reshape(np.stack(slopes), np.shape(x)) if np.ndim(x) else slopes[0]
