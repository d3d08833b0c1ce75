"""Calls of functions with their own derivative rules. Start at `apply_rule`.

A call is one value on the tape: its operands are the tracked leaves of the arguments, its op brings
a joint rule, and several results form a bundle. Under a trace the rule's body runs on tracked
arguments: the trace records the body, derivatives see the call (`alias_to_primal`).

Higher derivatives: a rule's body gets plain data. If an operand depends on an outer derivative, the
body runs again on tracked operands. Forward from reverse: `back` is linear, so its own pullback is
the pushforward; the pullback of a forward rule likewise.

Invariants
1. The results of a user's rule are checked before use; errors name the rule.
2. A body that gives other results when it runs again is an error, never a wrong gradient.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from tracker import tree
from tracker.autodiff.call_ops import (
    as_read_only,
    basis,
    call_op,
    host_call,
    is_differentiable,
    outputs_of,
    record_outputs,
    refuse_captured,
    refuse_second_derivative,
    results_agree,
    zero_like,
)
from tracker.autodiff.leaves import plain_data
from tracker.autodiff.pullbacks import pullback
from tracker.errors import ConversionError, RuleError, TrackerError
from tracker.ops.declare.bundle import BundleParts
from tracker.ops.declare.rule_helpers import project
from tracker.support.array_copies import snapshot
from tracker.tape.live_leaves import depends_on_live_leaf
from tracker.tape.observers import ObserversSuspended, is_tracing
from tracker.tape.record import value_of, wrap
from tracker.tape.tracing.tracer import current_tracer
from tracker.tape.tracked import Tracked

_HOST_HINT = "a body that is no NumPy code needs host=True"


class CustomRule:
    """A function and its rules.

    primal     (*args) -> y, for plain arguments
    reverse    (*args) -> (y, back); None if there is only a forward rule
    forward    (tangents, *args) -> (y, dy); None if there is only a reverse rule
    host       whether the bodies need plain arrays
    """

    def __init__(
        self,
        name: str,
        primal: Callable[..., Any],
        reverse: Callable[..., Any] | None = None,
        forward: Callable[..., Any] | None = None,
        host: bool = False,
    ) -> None:
        self.name = name
        self.primal = primal
        self.reverse = reverse
        self.forward = forward
        self.host = host
        self.op = call_op(name, _pull, _push, _evaluate)

    @property
    def location(self) -> str:
        code = getattr(self.reverse or self.forward, "__code__", None)
        return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"

    def error(self, what: str, instead: str) -> RuleError:
        """The error for a rule that broke its contract."""
        return RuleError(f"the rule of {self.name} {what}", instead, self.location)


_PLAIN_CLASSES = frozenset(
    {float, int, complex, bool, str, type(None), np.ndarray, np.float64, np.float32}
)


def apply_rule(rule: CustomRule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a function with a rule."""
    for x in args:
        if type(x) not in _PLAIN_CLASSES:
            break
    else:
        if not kwargs:
            return rule.primal(*args)
    leaves, structure = tree.flatten(args)
    at = tuple([i for i, x in enumerate(leaves) if type(x) is Tracked])
    for name, x in kwargs.items():
        if any(type(leaf) is Tracked for leaf in tree.leaves(x)):
            raise RuleError(
                f"{rule.name} got a tracked value as keyword {name}, and rules give keywords "
                "no gradient",
                "Pass it by position, or tracker.data(x) where no gradient is wanted",
            )
    if not at:
        return rule.primal(*args, **kwargs)
    return _RuleCall(rule, args, kwargs, leaves, structure, at).run()


def _running_on(operands: Sequence[Any]) -> AbstractContextManager[None]:
    """The context of a rule: nothing is differentiated in it if it is given plain numbers; a trace
    records it at its own lines."""
    if any(type(x) is Tracked for x in operands):
        tracer = current_tracer()
        return nullcontext() if tracer is None else tracer.at_users_lines()
    return ObserversSuspended()


class _RuleCall:
    """One call: its arguments, and the `back` that the rule returned for them.

    leaves            of all arguments; those at `tracked_positions` are filled in later
    active_outputs    the result leaves that have a derivative
    traced            whether the call was traced, so that `back` holds tracked values
    """

    def __init__(
        self,
        rule: CustomRule,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: list[Any],
        structure: tree.Structure,
        tracked_positions: tuple[int, ...],
    ) -> None:
        self.rule = rule
        self.args = args
        self.kwargs = kwargs
        self.structure = structure
        self.tracked_positions = tracked_positions
        self.operands = [value_of(leaves[i]) for i in tracked_positions]
        self.traced = is_tracing()
        self.leaves = [
            snapshot(x) if type(x) is np.ndarray and not self.traced else x for x in leaves
        ]
        self.back: Callable[..., Any] | None = None
        self.out_structure = tree.LEAF
        self.active_outputs: list[int] = []
        self.output_count = 0

    def run(self) -> Any:
        tracked = [wrap(value) for value in self.operands]
        if self.traced and self.rule.host:
            y = self._host_results(tracked)
        else:
            given = (
                tracked if self.traced else [as_read_only(value.data) for value in self.operands]
            )
            y, self.back = self.run_rule(given)
        outs, self.out_structure = tree.flatten(y)
        if any(value_of(x) is not value for x, value in zip(tracked, self.operands, strict=True)):
            raise self.rule.error("writes into an argument", "Copy it first, or write outside")
        refuse_captured(self.rule.name, outs, self.operands, self.traced)
        self.output_count = len(outs)
        self.active_outputs = [k for k, out in enumerate(outs) if is_differentiable(out)]
        outcome = list(outs) if self.traced else [plain_data(out) for out in outs]
        active = [outcome[k] for k in self.active_outputs]
        if active:
            made = record_outputs(self.rule.op, {"call": self}, self.operands, active)
            for k, out in zip(self.active_outputs, made, strict=True):
                outcome[k] = out
        return tree.unflatten(self.out_structure, outcome, y)

    def rebuild_args(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments with these operands in place of the tracked leaves."""
        args: tuple[Any, ...] = tree.unflatten(
            self.structure, self._all_leaves(operands), self.args
        )
        return args

    def run_rule(self, operands: Sequence[Any]) -> tuple[Any, Callable[..., Any] | None]:
        """The function's value and its `back` from the reverse rule; no `back` without one."""
        with _running_on(operands):
            return self._run_rule(operands)

    def _run_rule(self, operands: Sequence[Any]) -> tuple[Any, Callable[..., Any] | None]:
        rule = self.rule
        args = self.rebuild_args(operands)
        if rule.reverse is None:
            return rule.primal(*args, **self.kwargs), None
        try:
            made = rule.reverse(*args, **self.kwargs)
        except ConversionError as error:
            error.add_note(f"in the rule of {rule.name}: {_HOST_HINT}")
            raise
        if not (isinstance(made, tuple) and len(made) == 2 and callable(made[1])):
            raise rule.error(
                f"returned {_described(made)}", "Return the pair (y, back), back a function"
            )
        return made

    # Backwards

    def pull(self, y: Any, gs: list[Any], xs: list[Any]) -> list[Any]:
        """Cotangents of the operands."""
        if self.traced and self.rule.host:
            return self._host_pull(gs, xs)
        dependent = [_has_outer_dependence(x) for x in xs]
        if self.traced or not any(dependent):
            xs = [plain_data(x) for x in xs] if not self.traced else xs
            if not self.traced:
                gs = [g if _has_outer_dependence(g) else plain_data(g) for g in gs]
            if self.rule.host:
                return self._plain_host_pull(gs, xs)
            return self.run_back(self.back, gs, xs)
        if self.rule.host:
            return self._plain_host_pull(gs, xs)
        xs = [x if yes else plain_data(x) for x, yes in zip(xs, dependent, strict=True)]
        again, back = self.run_rule(xs)
        self._check_rerun(y, again)
        return self.run_back(back, gs, xs)

    def _check_rerun(self, y: Any, again: Any) -> None:
        outs = tree.leaves(again)
        is_like_first = len(outs) == self.output_count and results_agree(
            [plain_data(outs[k]) for k in self.active_outputs],
            [plain_data(x) for x in outputs_of(y)],
        )
        if not is_like_first:
            raise self.rule.error(
                "gave another value when it was run again for a second derivative",
                "Draw random numbers outside, and pass them as an argument",
            )

    def run_back(self, back: Callable[..., Any] | None, gs: list[Any], xs: list[Any]) -> list[Any]:
        """The checked contributions of `back` to the operands."""
        if back is None:
            return self._transpose_forward(gs, xs)
        whole: list[Any] = [None] * self.output_count
        for k, g in zip(self.active_outputs, gs, strict=True):
            whole[k] = g
        dy = tree.unflatten(self.out_structure, whole)
        try:
            with _running_on([*gs, *xs]):
                found = back(dy)
        except TrackerError as error:
            hint = f": {_HOST_HINT}" if isinstance(error, ConversionError) else ""
            error.add_note(f"in back of the rule of {self.rule.name}{hint}")
            raise
        except Exception as error:
            raise self.rule.error(
                f"failed in back: {type(error).__name__}: {error}", "Mend back"
            ) from error
        return self._check_cotangents(found, xs)

    def _check_cotangents(self, found: Any, xs: list[Any]) -> list[Any]:
        count = len(self.args)
        if type(found) is tuple and len(found) > count:
            found = self._drop_default_entries(found)
        if type(found) is not tuple or len(found) != count:
            raise self.rule.error(
                f"gave {_described(found)} from back, for {count} positional argument(s)",
                f"Return a tuple of {count}, None where there is no gradient",
            )
        entries: list[Any] = []
        for number, (c, below) in enumerate(zip(found, self.structure.children, strict=True)):
            entries.extend(self._flatten_cotangent(c, below, number))
        return [
            self._check_cotangent(entries[i], x, i)
            for i, x in zip(self.tracked_positions, xs, strict=True)
        ]

    def _drop_default_entries(self, found: tuple[Any, ...]) -> tuple[Any, ...]:
        """The entries of positional arguments, if the rule has an entry for each parameter, also
        for those that had their defaults or were passed by keyword."""
        assert self.rule.reverse is not None
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = inspect.signature(self.rule.reverse).parameters.values()
        named = sum(parameter.kind in kinds for parameter in parameters)
        return found[: len(self.args)] if len(found) == named else found

    def _flatten_cotangent(self, c: Any, below: tree.Structure, number: int) -> list[Any]:
        """The cotangents of one argument's leaves."""
        if below.cls is None:
            return [c]
        if c is None:
            return [None] * below.count
        found: list[Any] = []
        try:
            tree.map_as(below, lambda _, part: found.append(part), self.args[number], c)
        except (ValueError, KeyError) as error:
            raise self.rule.error(
                f"gave argument {number} a cotangent of another structure than {below!r}",
                "Return what has the argument's structure, or None",
            ) from error
        return found

    def _check_cotangent(self, c: Any, x: Any, leaf: int) -> Any:
        if c is None:
            return None
        plain = plain_data(c)
        what = f"gave leaf {leaf} of the arguments a cotangent"
        if not tree.is_numeric(plain):
            raise self.rule.error(
                f"{what} that is a {type(plain).__name__}", "Return an array, a number or None"
            )
        if np.shape(plain) != np.shape(x):
            raise self.rule.error(
                f"{what} of shape {np.shape(plain)}; its shape is {np.shape(x)}",
                "Sum over the axes along which the argument was repeated",
            )
        kind = np.result_type(plain_data(x))
        if np.iscomplexobj(plain) and kind.kind != "c":
            raise self.rule.error(
                f"{what} of dtype {np.result_type(plain)}; its dtype is {kind}",
                "Return np.real of it",
            )
        return project(c, x)

    def _transpose_forward(self, gs: list[Any], xs: list[Any]) -> list[Any]:
        zeros = [zero_like(x) for x in xs]
        _, pull = pullback(lambda *ts: self._run_forward_rule(list(ts), xs), *zeros)
        return list(pull(gs))

    # Forwards

    def push(self, y: Any, ts: list[Any], xs: list[Any]) -> list[Any]:
        """Tangents of the active results."""
        foreign = any(type(x) is Tracked for x in (*ts, *xs))
        if not self.traced:
            xs = [x if _has_outer_dependence(x) else plain_data(x) for x in xs]
        if self.rule.host and (foreign or self.traced):
            return self._host_push(ts, xs, y)
        if self.rule.forward is not None:
            return self._run_forward_rule(ts, xs)
        if self.rule.host:
            return self._push_by_rows(ts, xs, outputs_of(y))
        back = self.back
        if not self.traced and any(type(x) is Tracked for x in xs):
            again, back = self.run_rule(xs)
            self._check_rerun(y, again)
        return self._transpose_back(back, ts, xs, outputs_of(y))

    def _run_forward_rule(self, ts: list[Any], xs: list[Any]) -> list[Any]:
        """By the forward rule."""
        rule = self.rule
        assert rule.forward is not None
        leaves: list[Any] = [
            np.zeros_like(x)[()] if tree.is_numeric(x) and type(x) is not bool else None
            for x in (self._all_leaves(xs))
        ]
        for i, t in zip(self.tracked_positions, ts, strict=True):
            if t is not None:
                leaves[i] = t
        tangents = tree.unflatten(self.structure, leaves, self.args)
        made = rule.forward(tangents, *self.rebuild_args(xs), **self.kwargs)
        if not (isinstance(made, tuple) and len(made) == 2):
            raise rule.error(f"returned {_described(made)}", "Return the pair (y, dy)")
        outs, dys = tree.leaves(made[0]), tree.leaves(made[1])
        if len(outs) != len(dys) or len(outs) != self.output_count:
            raise rule.error(
                f"gave {len(dys)} tangent(s) for {self.output_count} result(s)",
                "Return dy in the structure of y",
            )
        for k in self.active_outputs:
            if np.shape(dys[k]) != np.shape(outs[k]):
                raise rule.error(
                    f"gave a tangent of shape {np.shape(dys[k])} for a result of shape "
                    f"{np.shape(outs[k])}",
                    "Return dy in the shape of y",
                )
        return [dys[k] for k in self.active_outputs]

    def _all_leaves(self, xs: Sequence[Any]) -> list[Any]:
        leaves = list(self.leaves)
        for i, x in zip(self.tracked_positions, xs, strict=True):
            leaves[i] = x
        return leaves

    def _transpose_back(
        self, back: Callable[..., Any] | None, ts: list[Any], xs: list[Any], outs: list[Any]
    ) -> list[Any]:
        def pull(*gs: Any) -> list[Any]:
            found = self.run_back(back, list(gs), xs)
            return [zero_like(x) if c is None else c for c, x in zip(found, xs, strict=True)]

        try:
            _, push = pullback(pull, *[zero_like(out) for out in outs])
            return list(push(ts))
        except ConversionError as error:
            raise self.rule.error(
                "is needed in forward mode, and its back is no NumPy code",
                "Pass host=True, or register a forward rule with tracker.frule",
            ) from error

    # Black boxes

    def _plain_host_pull(self, gs: list[Any], xs: list[Any]) -> list[Any]:
        """Cotangents from plain data; a derivative of them is an error."""
        plain = [plain_data(g) for g in gs]
        found = self.run_back(self.back, plain, [plain_data(x) for x in xs])
        return [refuse_second_derivative(self.rule.name, c, (*gs, *xs)) for c in found]

    def _host_results(self, tracked: list[Any]) -> Any:
        outcome: Any = None

        def run(*xs: Any) -> list[Any]:
            nonlocal outcome
            outcome, _ = self.run_rule(xs)
            return [x for x in tree.leaves(outcome) if tree.is_numeric(x)]

        outs = iter(host_call(self.rule.name, run, tracked))
        return tree.map(lambda x: next(outs) if tree.is_numeric(x) else x, outcome, objects=False)

    def _host_pull(self, gs: list[Any], xs: list[Any]) -> list[Any]:
        count = len(gs)

        def run(*both: Any) -> list[Any]:
            _, back = self.run_rule(both[count:])
            found = self.run_back(back, list(both[:count]), list(both[count:]))
            pairs = zip(found, both[count:], strict=True)
            return [zero_like(x) if c is None else c for c, x in pairs]

        return host_call(f"{self.rule.name}_back", run, [*gs, *xs])

    def _host_push(self, ts: list[Any], xs: list[Any], y: Any) -> list[Any]:
        count = len(ts)
        filled = [zero_like(plain_data(x)) if t is None else t for t, x in zip(ts, xs, strict=True)]

        def run(*both: Any) -> list[Any]:
            tangents, primals = list(both[:count]), list(both[count:])
            if self.rule.forward is not None:
                return self._run_forward_rule(tangents, primals)
            again, self.back = self.run_rule(primals)
            outs = tree.leaves(again)
            return self._push_by_rows(tangents, primals, [outs[k] for k in self.active_outputs])

        if is_tracing():
            return host_call(f"{self.rule.name}_push", run, [*filled, *xs])
        found = run(*[plain_data(x) for x in (*filled, *xs)])
        return [refuse_second_derivative(self.rule.name, t, (*ts, *xs)) for t in found]

    def _push_by_rows(self, ts: list[Any], xs: list[Any], outs: list[Any]) -> list[Any]:
        """Tangents of the results, by one call of `back` per entry."""
        found = []
        plain = [plain_data(out) for out in outs]
        for k, out in enumerate(plain):
            t = np.zeros_like(out, subok=False) if np.ndim(out) else np.zeros((), type(out))
            for position, unit in basis(out):
                gs = [unit if j == k else zero_like(other) for j, other in enumerate(plain)]
                cs = self.run_back(self.back, gs, xs)
                slope = sum(
                    np.sum(np.real(np.conjugate(c) * moved))
                    for c, moved in zip(cs, ts, strict=True)
                    if c is not None and moved is not None
                )
                t[position] += slope * (1j if np.iscomplexobj(unit) and np.any(unit.imag) else 1)
            found.append(t[()])
        return found


def _pull(g: Any, y: Any, xs: list[Any], wanted: Any, times: Any, *, call: _RuleCall) -> list[Any]:
    outs = outputs_of(y)
    gs = [
        zero_like(plain_data(out)) if part is None else part
        for part, out in zip(g if type(g) is BundleParts else (g,), outs, strict=True)
    ]
    return [_with_needed_history(c) for c in call.pull(y, gs, xs)]


def _push(ts: list[Any], y: Any, xs: list[Any], times: Any, *, call: _RuleCall) -> Any:
    found = [_with_needed_history(t) for t in call.push(y, ts, xs)]
    return found[0] if len(found) == 1 else BundleParts(found)


def _evaluate(*xs: Any, call: _RuleCall) -> Any:
    outs = tree.leaves(call.rule.primal(*call.rebuild_args(xs), **call.kwargs))
    found = [outs[k] for k in call.active_outputs]
    return found[0] if len(found) == 1 else tuple(found)


def _has_outer_dependence(x: Any) -> bool:
    return type(x) is Tracked and depends_on_live_leaf(value_of(x))


def _with_needed_history(c: Any) -> Any:
    """A rule's result; plain unless a trace or an outer derivative needs its history."""
    return c if is_tracing() or _has_outer_dependence(c) else plain_data(c)


def _described(x: Any) -> str:
    return f"a tuple of {len(x)}" if type(x) is tuple else f"a {type(x).__name__}"
