"""Reverse mode: one walk over the tape, from results back to leaves.

Start at `reverse_sweep`; `_ReversePass` is the walk itself. Its state belongs to one pass, so
passes nest, and an exception leaves nothing behind.

Higher derivatives: rules are plain NumPy. If the history holds leaves of someone else (an outer
derivative, a param, a trace), rules get tracked operands and are recorded in turn (`record_rules`);
otherwise they get plain arrays.

Strong zeros: a pass multiplies plainly first. Only if a NaN results, or an infinity although the
roots are finite, is the pass repeated with `strong_multiply`, where an exact zero (a branch not
taken) times infinity or NaN is zero. In a trace, the second pass uses it only for the products that
need it now, under the guard that this is enough; if it is not, a third one uses it for all, which
is right for all numbers. A pass that frees history as it goes cannot be repeated; it repeats single
rules instead. Within `strong_zeros_at_once`, all passes use it from the beginning.

Invariants
1. A value is visited once, after all of its users.
2. Values older than `epoch` are not entered: they cannot depend on the leaves.
3. A cotangent is written in place only if this pass made its array (`owned`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy as np

from tracker.autodiff.sparse_cotangents import (
    add_sparse,
    can_split_overwritten,
    densify,
    split_overwritten,
)
from tracker.errors import GraphUsedError, RuleError, TrackerError, message
from tracker.ir.op import Joint, Op, has_effect
from tracker.ir.types import Type
from tracker.ops.declare.bundle import BundleParts
from tracker.ops.declare.rule_helpers import (
    FACTORED_PARTIALS,
    TwoTerms,
    as_numpy_scalar,
    as_one_term,
    contribution,
    is_additive,
    project,
)
from tracker.ops.elementwise.binary import finite_multiply, strong_multiply
from tracker.ops.indexing.gather_scatter import SparseCotangent
from tracker.ops.indexing.getitem import embed
from tracker.ops.linalg.triangles import embed_diagonal
from tracker.ops.shape.shape import broadcast_to, reshape, transpose
from tracker.support.weakrefs import WeakIdentityDict
from tracker.tape.observers import current_observer, is_tracing
from tracker.tape.record import (
    apply,
    aval_of,
    data_of,
    has_lazy_data,
    may_call_user_code,
    shape_of,
    value_of,
    wrap,
)
from tracker.tape.tracing.tracer import Tracer, current_tracer, dismiss_error, operand_when_recorded
from tracker.tape.tracing.value_guards import speculate_bool
from tracker.tape.tracing.value_numbering import merge_equal_numbers
from tracker.tape.tracked import Tracked
from tracker.tape.value import CLOSED, NO_PARAMS, Value

Times: TypeAlias = Callable[[Any, Any], Any]  # the product of a cotangent and a derivative

_ndarray = np.ndarray
_np_float64 = np.float64
_float64 = np.dtype(np.float64)
FREE_EARLY_BYTES = (
    1 << 16
)  # of one array; for smaller ones, the NaN checks cost more than they save
FREED: Any = "used"  # the op of a value whose history `back` has freed


def reverse_sweep(
    roots: Sequence[tuple[Value, Any]],
    leaves: Sequence[Value],
    epoch: int = 0,
    interior: dict[Value, Any] | None = None,
    times: Times | None = None,
    *,
    freed_op: Any = None,
) -> list[Any]:
    """Cotangents of `leaves`, given those of the roots; None where nothing arrived.

    interior: a dict that receives the cotangents of the values between roots and leaves.
    times: the product to use, if the caller handles NaNs; by default zeros are strong.
    freed_op: the op that the visited values get when their history is no longer needed: FREED, as
    the pass goes if an array is large; CLOSED, unless an outer derivative or trace may need them.
    """
    uses, record_rules = count_uses(roots, leaves, epoch)
    observer, tracing = current_observer(), is_tracing()
    if observer is not None:
        interior = {} if interior is None else interior
        observer.backward_depth += 1
        try:
            found = _sweep_with_strong_zeros(roots, leaves, uses, record_rules, times, interior)
        finally:
            observer.backward_depth -= 1
        observer.on_backward(interior, zip(leaves, found, strict=True))
    elif freed_op is FREED and any(map(_is_large, uses)):
        alive: WeakIdentityDict[Any] = WeakIdentityDict()
        found = _ReversePass(uses, leaves, record_rules, alive, free_early=True).run(roots)
        if interior is not None:
            interior.update(alive)
        return found
    else:
        if interior is None and tracing:
            given = {root for root, _ in roots}
            tracer = current_tracer()
            if tracer is not None and merge_equal_numbers(tracer, uses, given):
                uses, record_rules = count_uses(roots, leaves, epoch)
            uses = _reached_from_leaves(leaves, uses, given)
        found = _sweep_with_strong_zeros(roots, leaves, uses, record_rules, times, interior)
    if freed_op is FREED or (freed_op is CLOSED and not record_rules and not tracing):
        for value in uses:
            _free_history(value, freed_op)
    return found


def _is_large(value: Value) -> bool:
    return type(value.aval) is _ndarray and value.aval.nbytes >= FREE_EARLY_BYTES


def _free_history(value: Value, freed_op: Any) -> None:
    if value.operands:
        value.op, value.operands, value.params = freed_op, (), NO_PARAMS


def _sweep_with_strong_zeros(
    roots: Sequence[tuple[Value, Any]],
    leaves: Sequence[Value],
    uses: dict[Value, int],
    record_rules: bool,
    times: Times | None,
    interior: dict[Value, Any] | None,
) -> list[Any]:
    def run(times: Times) -> list[Any]:
        if interior is not None:
            interior.clear()
        return _ReversePass(uses, leaves, record_rules, interior, times).run(roots)

    return with_strong_zeros(run, [root for root, _ in roots], times)


def with_strong_zeros(
    run: Callable[[Times], list[Any]], roots: Sequence[Value], times: Times | None
) -> list[Any]:
    """The results of a pass, `run`, with as many strong zeros as it needs; with the given product,
    if there is one."""
    times = times or at_once.get()
    found = run(times or np.multiply)
    if times is not None or not _needs_strong_zeros(found, roots):
        return found
    tracer = current_tracer()
    if tracer is not None and not tracer.has_other_paths:
        found = run(_strong_where_needed)
        if not _needs_strong_zeros(found, roots):
            return found
    found = run(strong_product)
    if tracer is not None:
        _guard_nonfinite(found)
    return found


def strong_product(a: Any, b: Any) -> Any:
    return apply(strong_multiply, (a, b))


def _strong_where_needed(a: Any, b: Any) -> Any:
    """The product, with strong zeros only if they make a difference for the present numbers. Its
    derivatives have them in any case: they multiply by other numbers."""
    product = apply(finite_multiply, (a, b))
    found = data_of(product)
    if np.isfinite(np.sum(found)):
        return product
    strong = strong_multiply.evaluate(data_of(a), data_of(b))
    return product if np.array_equal(found, strong, equal_nan=True) else strong_product(a, b)


at_once: ContextVar[Times | None] = ContextVar("at_once", default=None)


@contextmanager
def strong_zeros_at_once() -> Iterator[None]:
    """Within this context no pass is repeated, so that its trace is valid whatever the numbers."""
    token = at_once.set(strong_product)
    try:
        yield
    finally:
        at_once.reset(token)


def _needs_strong_zeros(found: Sequence[Any], roots: Sequence[Value]) -> bool:
    """Whether a pass must be repeated with strong zeros: its results hold a NaN, or an infinity
    although the roots are finite. In a trace, it is guarded that a pass need not be repeated."""
    is_known = is_tracing() and not any(map(has_lazy_data, found))
    if is_known and _has_lost_numbers(found, roots, data_of):
        return True
    return _has_lost_numbers(found, roots)


def _itself(x: Any) -> Any:
    return x


def _has_lost_numbers(
    found: Sequence[Any], roots: Sequence[Value], read: Callable[[Any], Any] = _itself
) -> bool:
    """As `_needs_strong_zeros`; numbers that are only `read`, as data, are not guarded."""
    sums = _nonfinite_sums(found, read)
    if not sums or any(bool(total != total) for total in sums):
        return bool(sums)
    return all(bool(np.all(np.isfinite(read(wrap(root))))) for root in roots)


def _guard_nonfinite(found: Sequence[Any]) -> None:
    """Let a trace with NaNs serve no others, which can do with fewer strong zeros."""
    _nonfinite_sums([c for c in found if _nonfinite_sums([c], data_of)])


def _nonfinite_sums(cotangents: Iterable[Any], read: Callable[[Any], Any] = _itself) -> list[Any]:
    """The sums of the elements of those arrays that have NaNs or infinities."""
    sums = []
    for c in cotangents:
        if type(c) is float or type(c) is _np_float64:
            if not math.isfinite(c):
                sums.append(c)
        elif type(c) is BundleParts or type(c) is TwoTerms:
            sums += _nonfinite_sums(c, read)
        elif c is not None:
            c = c.g if type(c) is SparseCotangent else c
            total = np.sum(read(_distinct_elements(c) if type(c) is Tracked else c))
            if not speculate_bool(np.isfinite(total), True):
                sums.append(total)
    return sums


_REPEATING_OPS = (broadcast_to, reshape, transpose, embed, embed_diagonal)  # these add only zeros


def _distinct_elements(c: Tracked) -> Any:
    """The value that a recorded cotangent was broadcast, reshaped or padded from: it has the same
    elements. The cotangent itself, if no such value is smaller: its sum is then fused with it."""
    found = value = value_of(c)
    while value.op in _REPEATING_OPS:
        x = value.operands[0]
        if type(x) is not Value:
            return x
        if type(x.aval) is Type:  # its data is freed
            break
        value = x
        if np.size(value.aval) < np.size(found.aval):
            found = value
    return wrap(found)


def count_uses(
    roots: Sequence[tuple[Value, Any]], leaves: Sequence[Value], epoch: int
) -> tuple[dict[Value, int], bool]:
    """How many uses each value between roots and leaves has, and whether rules must be recorded:
    the history holds leaves of someone else or, under a trace, random draws."""
    uses: dict[Value, int] = dict.fromkeys(leaves, 0)
    record_rules, tracing = False, is_tracing()
    stack: list[Value] = []
    for root, _ in roots:
        if root not in uses:
            uses[root] = 0
            stack.append(root)
        uses[root] += 1
    while stack:
        value = stack.pop()
        op = value.op
        if op is None:
            record_rules = True
        elif op is FREED:
            raise graph_used()
        elif tracing and has_effect(op):
            record_rules = True
        for operand in value.operands:
            if type(operand) is Value:
                if operand in uses:
                    uses[operand] += 1
                elif operand.epoch < epoch:
                    record_rules = True
                else:
                    uses[operand] = 1
                    stack.append(operand)
    if any(leaf.operands for leaf in leaves):  # a leaf that stands for a value of an outer tape
        record_rules = True
    return uses, record_rules


def graph_used() -> GraphUsedError:
    return GraphUsedError(
        "back was already used on this value",
        "Pass once=False to keep it; change params with tracker.update(w, delta)",
    )


def _reached_from_leaves(
    leaves: Sequence[Value], uses: dict[Value, int], roots: Collection[Value]
) -> dict[Value, int]:
    """The values of a pass that depend on a leaf, and the roots. For the others, computed from
    buffers only, a trace need not record rules, nor keep the data that these would read."""
    users: dict[Value, list[Value]] = {}
    for value in uses:
        for operand in value.operands:
            if type(operand) is Value:
                users.setdefault(operand, []).append(value)
    found = set(leaves)
    stack = list(leaves)
    while stack:
        for user in users.get(stack.pop(), ()):
            if user not in found:
                found.add(user)
                stack.append(user)
    return {value: n for value, n in uses.items() if value in found or value in roots}


class _ReversePass:
    """One walk from roots to leaves.

    waiting      the uses of each value that have not contributed yet; leaves are never visited
    cotangents   the sum of the contributions so far
    owned        the values whose cotangent is an array that this pass made
    ready        the values that all users have contributed to
    interior     receives the cotangents of all visited values, if it is not None
    free_early   whether visited values lose their operands, and their entries in `waiting`
    """

    def __init__(
        self,
        uses: dict[Value, int],
        leaves: Sequence[Value],
        record_rules: bool,
        interior: MutableMapping[Value, Any] | None,
        times: Times = np.multiply,
        *,
        free_early: bool = False,
    ) -> None:
        self.waiting = uses if free_early else uses.copy()
        self.leaves = leaves
        for leaf in leaves:
            self.waiting[leaf] = -1  # it counts down from here and never reaches 0
        self.cotangents: dict[Value, Any] = {}
        self.owned: set[Value] = set()
        self.ready: list[Value] = []
        self.interior, self.free_early = interior, free_early
        self.record_rules, self.times = record_rules, times
        self.is_plain = (
            not free_early and not record_rules and times is np.multiply and not is_tracing()
        )

    def run(self, roots: Sequence[tuple[Value, Any]]) -> list[Any]:
        with np.errstate(all="ignore"):
            self._send([root for root, _ in roots], [seed for _, seed in roots])
            if self.is_plain:
                self._walk_plainly()
            self._walk()
        return [as_one_term(densify(self.cotangents.get(leaf))) for leaf in self.leaves]

    def _walk(self) -> None:
        """Visit all values; a trace records each pullback at the line of what is pulled back."""
        tracer = current_tracer()
        if tracer is None:
            while self.ready:
                self._visit(self.ready.pop())
            return
        with tracer.at_origins():
            while self.ready:
                with tracer.unmonitored():
                    while self.ready and not may_call_user_code(self.ready[-1].op):
                        self._visit_at_origin(tracer)
                if self.ready:
                    self._visit_at_origin(tracer)

    def _visit_at_origin(self, tracer: Tracer) -> None:
        tracer.origin = self.ready.pop()
        self._visit(tracer.origin)

    def _walk_plainly(self) -> None:
        """Visit all values, those with partial derivatives here: without calls and attribute
        accesses, for small programs spend their time here. A contribution is added before the next
        one is computed, so that both use the same memory."""
        cotangents, waiting, ready = self.cotangents, self.waiting, self.ready
        interior = self.interior
        while ready:
            value = ready.pop()
            op = value.op
            if op is CLOSED or op.partials is None:
                self._visit(value)
                continue
            g = cotangents.pop(value, None)
            if type(g) is SparseCotangent:
                g = densify(g)
            elif g is None or type(g) is TwoTerms:
                cotangents[value] = g
                self._visit(value)
                continue
            if interior is not None:
                interior[value] = g
            operands, partials = value.operands, op.partials
            xs = [o.data if type(o) is Value else o for o in operands]
            for at, operand in enumerate(operands):
                if type(operand) is Value:
                    left = waiting.get(operand)
                    if left is None:
                        continue
                    c = _plain_contribution(value, at, g, partials[at], xs)
                    if c is not None:
                        if operand in cotangents:
                            c = self._sum(operand, cotangents[operand], c)
                        cotangents[operand] = c
                    waiting[operand] = left - 1
                    if left == 1:
                        ready.append(operand)

    def _visit(self, value: Value) -> None:
        """Pull the cotangent of a value back to its operands."""
        g, op = self.cotangents.pop(value, None), value.op
        is_owned = value in self.owned
        if type(g) is SparseCotangent:
            g, is_owned = densify(g), True
        elif type(g) is TwoTerms and not (isinstance(op, Op) and is_additive(op)):
            g, is_owned = g.total(), True
        if self.interior is not None and g is not None:
            self.interior[value] = as_one_term(g)
        operands = value.operands
        if g is None or op is None or op is CLOSED:
            contributions: Sequence[Any] = (None,) * len(operands)
        elif type(g) is TwoTerms:
            contributions = self._contributions_by_term(value, g)
        elif is_owned and self.interior is None and can_split_overwritten(op, g):
            contributions = self._split(value, g)
        else:
            contributions = self._contributions(value, g, self.times)
            if self.free_early and _nonfinite_sums(contributions):
                contributions = self._contributions(value, g, strong_product)
        if self.free_early:
            _free_history(value, FREED)
            self.owned.discard(value)
            del self.waiting[value], value, g
        self._send(operands, contributions)

    def _send(self, operands: Sequence[Any], contributions: Sequence[Any]) -> None:
        """Add contributions to the cotangents of the operands that they are for."""
        cotangents, waiting = self.cotangents, self.waiting
        for operand, c in zip(operands, contributions, strict=False):
            if type(operand) is not Value or (left := waiting.get(operand)) is None:
                continue
            if c is not None:
                old = cotangents.get(operand)
                cotangents[operand] = c if old is None else self._sum(operand, old, c)
            waiting[operand] = left - 1
            if left == 1:
                self.ready.append(operand)

    def _sum(self, value: Value, old: Any, c: Any) -> Any:
        """The sum of two cotangents of a value; in place if the array is owned."""
        if type(c) is BundleParts:
            return old.joined(c)
        if type(c) is TwoTerms:
            return c.plus(densify(old))
        if type(old) is TwoTerms:
            return old.plus(densify(c))
        is_owned = value in self.owned
        if type(c) is SparseCotangent or type(old) is SparseCotangent:
            old, is_owned = add_sparse(old, is_owned, c)
            if is_owned:
                self.owned.add(value)
            return old
        if (
            is_owned
            and type(c) is type(old) is _ndarray
            and c.dtype == old.dtype
            and c.shape == old.shape
        ):
            old += c
            return old
        self.owned.add(value)
        return old + c

    def _contributions_by_term(self, value: Value, g: TwoTerms) -> list[Any]:
        heads, tails = (self._contributions(value, term, self.times) for term in g)
        return [
            None if head is None else TwoTerms(densify(head), densify(tail))
            for head, tail in zip(heads, tails, strict=True)
        ]

    def _split(self, value: Value, g: Any) -> list[Any]:
        """Contributions of a write `x[index] = v` that reuse the array of its cotangent."""
        x, v = value.operands
        if type(x) is Value and x not in self.cotangents:
            self.owned.add(x)
        if type(v) is Value:
            v = wrap(v) if self.record_rules else v.data
        else:
            v = operand_when_recorded(v, value)
        return split_overwritten(g, v, value.params["index"])

    def _contributions(self, value: Value, g: Any, times: Times) -> list[Any]:
        """What the cotangent of a value contributes to each operand; None for nothing."""
        y, xs = rule_operands(value, self.record_rules)
        try:
            return self._apply_rules(value, g, y, xs, times)
        except ZeroDivisionError as error:  # a derivative at a pole, in Python's arithmetic
            dismiss_error(error)
            y, xs = as_numpy_scalar(y), [as_numpy_scalar(x) for x in xs]
            return self._apply_rules(value, g, y, xs, times)

    def _apply_rules(self, value: Value, g: Any, y: Any, xs: list[Any], times: Times) -> list[Any]:
        op, waiting = value.op, self.waiting
        out: list[Any] = []
        try:
            if isinstance(op.vjp, Joint):
                wanted = [type(o) is Value and o in waiting for o in value.operands]
                return list(op.vjp.rule(g, y, xs, wanted, times, **value.params))
            for at, operand in enumerate(value.operands):
                if type(operand) is not Value or operand not in waiting:
                    out.append(None)
                elif op.partials is None:
                    apply_vjp = _apply_vjp if times is not strong_product else _apply_vjp_strongly
                    out.append(apply_vjp(op, at, g, y, xs, value.params))
                else:
                    partial = op.partials[at]
                    is_zero = isinstance(partial, (int, float)) and partial == 0
                    out.append(None if is_zero else contribution(times, g, partial, y, xs, at))
        except (TrackerError, ZeroDivisionError):
            raise
        except Exception as error:
            raise _with_rule_note(error, op, len(out)) from None
        return out


def rule_operands(value: Value, record_rules: bool) -> tuple[Any, list[Any]]:
    """A value and its operands as its rules get them."""
    if record_rules:
        return wrap(value), [
            wrap(o) if type(o) is Value else operand_when_recorded(o, value) for o in value.operands
        ]
    return value.data, [
        o.data if type(o) is Value else operand_when_recorded(o, value) for o in value.operands
    ]


def _plain_contribution(value: Value, at: int, g: Any, partial: Any, xs: list[Any]) -> Any:
    """`contribution` on plain data, with the common cases (float64) first."""
    x = xs[at]
    if type(partial) is int:
        if not partial:
            return None
        c = g if partial == 1 else g * partial
    elif type(partial) is float:
        c = g * partial
    else:
        try:
            if type(g) is _ndarray and partial in FACTORED_PARTIALS and g.shape != np.shape(x):
                return contribution(np.multiply, g, partial, value.data, xs, at)
            c = g * partial(value.data, *xs)
        except ZeroDivisionError as error:  # a derivative at a pole, in Python's arithmetic
            dismiss_error(error)
            xs = [as_numpy_scalar(x) for x in xs]
            return contribution(np.multiply, g, partial, as_numpy_scalar(value.data), xs, at)
        except Exception as error:
            raise _with_rule_note(error, value.op, at) from None
    kind = type(c)
    if kind is _np_float64 or kind is float:
        if type(x) is kind or type(x) is float:
            return c
    elif (
        kind is _ndarray
        and c.dtype is _float64
        and type(x) is _ndarray
        and x.dtype is _float64
        and c.shape == x.shape
    ):
        return c
    if callable(partial) and np.iscomplexobj(c):  # the conjugate matters
        return contribution(np.multiply, g, partial, value.data, xs, at)
    return project(c, x)


def _with_rule_note(error: Exception, op: Any, at: int) -> Exception:
    error.add_note(f"in the derivative rule of {op.name}, operand {at}")
    return error


def _apply_vjp_strongly(
    op: Any, at: int, g: Any, y: Any, xs: list[Any], params: dict[str, Any]
) -> Any:
    """As `_apply_vjp`. A rule is linear in the cotangent: if that is one real number, as at the
    root of `x @ x`, multiplying it with the rule's result for 1 makes zeros strong."""
    c, aval = _apply_vjp(op, at, g, y, xs, params), aval_of(g)
    is_other = c is None or isinstance(c, (SparseCotangent, BundleParts))
    if is_other or np.ndim(aval) or np.iscomplexobj(aval):
        return c
    unit = _apply_vjp(op, at, np.ones_like(g), y, xs, params)
    return np.where(np.isfinite(c), c, strong_product(g, unit))[()]


def _apply_vjp(op: Any, at: int, g: Any, y: Any, xs: list[Any], params: dict[str, Any]) -> Any:
    rule = op.vjp[min(at, len(op.vjp) - 1)]  # the last rule serves all further operands
    if rule is None:
        return None
    c = rule(g, y, *xs, **params)
    if c is not None and shape_of(c) != shape_of(xs[at]):
        raise RuleError(
            message(
                f"the rule of {op.name} gave operand {at} a cotangent of shape {shape_of(c)}; "
                f"the operand has shape {shape_of(xs[at])}"
            )
        )
    return c
