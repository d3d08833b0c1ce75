"""The reverse reader: walk the tape backwards from a value and collect cotangents.

Owns: `reverse_sweep`. Data structures: `uses`, how many consumers of a value have yet to report;
`cotangents`, what they reported so far. Both belong to one pass, so passes nest and an exception
leaves nothing behind.

How higher derivatives work: rules are plain NumPy. When the history holds leaves that are not ours
(an outer derivative's, a param's, a trace's), the rules are handed tracked operands, so that what
they do is recorded in turn; otherwise they are handed plain arrays.

How zeros stay strong: a pass multiplies plainly first. Only where a NaN comes out, or an infinity
of what is finite, is it repeated with `strong_multiply`, in which an exact zero (a branch not
taken) beats an infinity or NaN. A pass that frees what it has visited cannot be repeated: in it
each rule that gives such a number is asked again.

Invariants
1. A value is visited after all of its consumers, once.
2. Values of an epoch before `epoch` are not entered: they cannot depend on the leaves.
3. A cotangent in `cotangents` is never written into unless this pass made it (`owned`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, MutableMapping, Sequence
from typing import Any

import numpy as np

from tracker.autodiff.accumulate import (
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
from tracker.ops.elementwise.binary import strong_multiply
from tracker.ops.indexing.gather_scatter import SparseCotangent
from tracker.ops.indexing.getitem import embed
from tracker.ops.linalg.triangles import embed_diagonal
from tracker.ops.shape.shape import broadcast_to, reshape, transpose
from tracker.support.weakrefs import WeakIdentityDict
from tracker.tape.observers import RecordingObserver, current_observer, is_tracing
from tracker.tape.record import apply, aval_of, shape_of, speculate_bool, value_of, wrap
from tracker.tape.tracer import dismiss_error, operand_when_recorded
from tracker.tape.tracked import Tracked
from tracker.tape.value import CLOSED, NO_PARAMS, Value

_ndarray = np.ndarray
_np_float64 = np.float64
_float64 = np.dtype(np.float64)
FREE_EARLY_BYTES = (
    1 << 16
)  # bytes of one array; below, looking for NaNs at each step costs more than it saves
FREED: Any = "used"  # the op of a value whose history `back` has given up


def reverse_sweep(
    roots: Sequence[tuple[Value, Any]],
    leaves: Sequence[Value],
    epoch: int = 0,
    interior: dict[Value, Any] | None = None,
    times: Any = None,
    *,
    freed_op: Any = None,
) -> list[Any]:
    """Cotangents of `leaves`, given those of the roots; None where nothing arrived.

    keep: a dict to be filled with the cotangent of every value on the way that is still there.
    times: the product to multiply with, when the caller looks after NaNs himself. spent: the op of
    the values on the way from then on, where the caller gives their history up: USED, as the pass
    goes where one is large; or CLOSED, unless another derivative or a trace may go through them.
    """
    uses, foreign = count_uses(roots, leaves, epoch)
    watch, recording = current_observer(), is_tracing()
    if watch is not None:
        found = _observed_sweep(watch, roots, leaves, uses, foreign, times, interior)
    elif freed_op is FREED and any(map(_is_large, uses)):
        alive: WeakIdentityDict[Any] = WeakIdentityDict()
        found = _pass(roots, leaves, uses, foreign, np.multiply, alive, free_early=True)
        if interior is not None:
            interior.update(alive)
        return found
    else:
        if interior is None and recording:
            uses = _reached_from_leaves(leaves, uses, {root for root, _ in roots})
        found = _sweep_with_strong_zeros(roots, leaves, uses, foreign, times, interior)
    if freed_op is FREED or (freed_op is CLOSED and not foreign and not recording):
        _free_history(uses, freed_op)
    return found


def _is_large(value: Value) -> bool:
    return type(value.aval) is _ndarray and value.aval.nbytes >= FREE_EARLY_BYTES


def _free_history(values: Iterable[Value], freed_op: Any) -> None:
    """The history of values is not needed any more."""
    for value in values:
        if value.operands:
            value.op, value.operands, value.params = freed_op, (), NO_PARAMS


def _sweep_with_strong_zeros(
    roots: Sequence[tuple[Value, Any]],
    leaves: Sequence[Value],
    uses: dict[Value, int],
    record_rules: bool,
    times: Any,
    interior: Any,
) -> list[Any]:
    found = _pass(roots, leaves, uses, record_rules, times or np.multiply, interior)
    if times is None and needs_strong_zeros(found, [root for root, _ in roots]):
        if interior is not None:
            interior.clear()
        return _pass(roots, leaves, uses, record_rules, strong_product, interior)
    return found


def _observed_sweep(
    observer: RecordingObserver,
    roots: Sequence[tuple[Value, Any]],
    leaves: Sequence[Value],
    uses: dict[Value, int],
    record_rules: bool,
    times: Any,
    interior: Any,
) -> list[Any]:
    """A pass that somebody looks at: he is told of it as a whole."""
    interior = {} if interior is None else interior
    observer.backward_depth += 1
    try:
        found = _sweep_with_strong_zeros(roots, leaves, uses, record_rules, times, interior)
    finally:
        observer.backward_depth -= 1
    observer.on_backward(interior, zip(leaves, found, strict=True))
    return found


def strong_product(a: Any, b: Any) -> Any:
    return apply(strong_multiply, (a, b))


def needs_strong_zeros(found: Sequence[Any], roots: Sequence[Value]) -> bool:
    """Whether derivatives are to be had again with strong zeros: a NaN is among them, or an
    infinity though the roots are finite."""
    totals = [_element_sum(c) for c in found if _has_nonfinite(c)]
    if not totals or any(bool(total != total) for total in totals):
        return bool(totals)
    return all(bool(np.all(np.isfinite(wrap(root)))) for root in roots)


def _has_nonfinite(c: Any) -> bool:
    if c is None:
        return False
    if type(c) is float or type(c) is _np_float64:
        return not math.isfinite(c)
    if type(c) is BundleParts or type(c) is TwoTerms:
        return any(map(_has_nonfinite, c))
    if type(c) is SparseCotangent:
        c = c.g
    return speculate_bool(np.logical_not(np.isfinite(_element_sum(c))), False)


def _element_sum(c: Any) -> Any:
    return c if type(c) is float else np.sum(_distinct_elements(c) if type(c) is Tracked else c)


_REPEATING_OPS = (broadcast_to, reshape, transpose, embed, embed_diagonal)  # adding zeros at most


def _distinct_elements(c: Tracked) -> Any:
    """What a recorded cotangent repeats: its elements, once, without the zeros around them. Where
    they are as many, the cotangent itself: who writes it adds it up on the way."""
    found = value = value_of(c)
    while value.op in _REPEATING_OPS:
        x = value.operands[0]
        if type(x) is not Value:
            return x
        if type(x.aval) is Type:  # its numbers were let go
            break
        value = x
        if np.size(value.aval) < np.size(found.aval):
            found = value
    return wrap(found)


def count_uses(
    roots: Sequence[tuple[Value, Any]], leaves: Sequence[Value], epoch: int
) -> tuple[dict[Value, int], bool]:
    """How many times each value between roots and leaves is used, and whether others' leaves are
    among them, or, where somebody records, what is another at each call: random numbers."""
    uses: dict[Value, int] = dict.fromkeys(leaves, 0)
    own = set(leaves)
    foreign, recording = False, is_tracing()
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
            foreign = True
        elif op is FREED:
            raise GraphUsedError(
                message(
                    "back was already used on this value",
                    "Pass once=False to keep it; change params with tracker.update(w, delta)",
                )
            )
        elif recording and has_effect(op):
            foreign = True
        for operand in value.operands:
            if type(operand) is Value:
                if operand in uses:
                    uses[operand] += 1
                elif operand.epoch < epoch:
                    foreign = True
                else:
                    uses[operand] = 1
                    stack.append(operand)
    for value in own:  # a leaf that stands for an outer value: what is above it is not ours
        if value.operands:
            foreign = True
    return uses, foreign


def _reached_from_leaves(
    leaves: Sequence[Value], uses: dict[Value, int], roots: Collection[Value]
) -> dict[Value, int]:
    """Of the values in a pass the roots, and what a leaf went into. What is made of buffers only
    has no say; a trace need not record rules for it, nor keep the numbers that they would read."""
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


def _pass(
    roots: Sequence[tuple[Value, Any]],
    leaves: Sequence[Value],
    uses: dict[Value, int],
    record_rules: bool,
    times: Callable[[Any, Any], Any],
    interior: MutableMapping[Value, Any] | None,
    *,
    free_early: bool = False,
) -> list[Any]:
    """free: a value that has been visited loses its operands, and `uses` what it says of it."""
    waiting = uses if free_early else uses.copy()
    cotangents: dict[Value, Any] = {}
    owned: set[Value] = set()
    ready: list[Value] = []
    plain = not free_early and not record_rules and times is np.multiply and not is_tracing()
    for leaf in leaves:
        waiting[leaf] = -1  # a leaf is never visited, however many consumers it has
    with np.errstate(all="ignore"):
        for root, seed in roots:
            _accumulate(cotangents, owned, root, seed)
            waiting[root] -= 1
            if not waiting[root]:
                ready.append(root)
        while ready:
            value = ready.pop()
            operands = value.operands
            contributions: Any = None
            g = cotangents.pop(value, None)
            mine = value in owned
            op: Any = value.op
            if type(g) is SparseCotangent:
                g, mine = densify(g), True
            elif type(g) is TwoTerms and not (isinstance(op, Op) and is_additive(op)):
                g, mine = g.total(), True
            if interior is not None and g is not None:
                interior[value] = as_one_term(g)
            partials = None
            if g is not None and op is not None and op is not CLOSED:
                if type(g) is TwoTerms:
                    contributions = _contributions_by_term(
                        value, op, g, waiting, record_rules, times
                    )
                elif plain and op.partials is not None:  # where small programs spend their time
                    partials = op.partials
                    xs = [o.data if type(o) is Value else o for o in operands]
                elif mine and interior is None and can_split_overwritten(op, g):
                    x, v = operands
                    contributions = split_overwritten(
                        g, _rule_operand(v, record_rules, value), value.params["index"]
                    )
                    if type(x) is Value and x not in cotangents:
                        owned.add(x)
                else:
                    contributions = _contributions(value, op, g, waiting, record_rules, times)
                    if free_early and any(map(_has_nonfinite, contributions)):
                        contributions = _contributions(
                            value, op, g, waiting, record_rules, strong_product
                        )
            if free_early:
                _free_history((value,), FREED)
                owned.discard(value)
                del waiting[value], value, g
            for at, operand in enumerate(operands):
                if type(operand) is not Value:
                    continue
                left = waiting.get(operand)
                if left is None:
                    continue
                if partials is not None:
                    c = _plain_contribution(value, at, g, partials[at], xs)
                elif contributions is not None:
                    c = contributions[at]
                else:
                    c = None
                if c is not None:
                    if operand in cotangents:
                        _accumulate(cotangents, owned, operand, c)
                    else:
                        cotangents[operand] = c
                waiting[operand] = left - 1
                if left == 1:
                    ready.append(operand)
    return [as_one_term(densify(cotangents.get(leaf))) for leaf in leaves]


def _contributions_by_term(
    value: Value,
    op: Any,
    g: TwoTerms,
    waiting: dict[Value, int],
    record_rules: bool,
    times: Callable[[Any, Any], Any],
) -> list[Any]:
    """What a linear op contributes to its operands, for each term of a cotangent."""
    heads, tails = (_contributions(value, op, term, waiting, record_rules, times) for term in g)
    return [
        None if head is None else TwoTerms(densify(head), densify(tail))
        for head, tail in zip(heads, tails, strict=True)
    ]


def _rule_operand(operand: Any, record_rules: bool, user: Value) -> Any:
    """An operand of the value `user` as a rule is handed it."""
    if type(operand) is not Value:
        return operand_when_recorded(operand, user)
    return wrap(operand) if record_rules else operand.data


def _accumulate(cotangents: dict[Value, Any], owned: set[Value], value: Value, c: Any) -> None:
    """Add to a cotangent; in place where the array is this pass's own."""
    old = cotangents.get(value)
    if old is None:
        cotangents[value] = c
    elif type(c) is BundleParts:
        cotangents[value] = old.joined(c)
    elif type(c) is TwoTerms:
        cotangents[value] = c.plus(densify(old))
    elif type(old) is TwoTerms:
        cotangents[value] = old.plus(densify(c))
    elif type(c) is SparseCotangent or type(old) is SparseCotangent:
        cotangents[value], mine = add_sparse(old, value in owned, c)
        if mine:
            owned.add(value)
    elif (
        value in owned
        and type(c) is type(old) is _ndarray
        and c.dtype == old.dtype
        and c.shape == old.shape
    ):
        old += c
    else:
        total = old + c
        cotangents[value] = total
        owned.add(value)


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


def _contributions(
    value: Value,
    op: Any,
    g: Any,
    waiting: dict[Value, int],
    record_rules: bool,
    times: Callable[[Any, Any], Any],
) -> list[Any]:
    """What the cotangent of a value contributes to each of its operands; None: nothing."""
    operands = value.operands
    xs = [_rule_operand(o, record_rules, value) for o in operands]
    y = _rule_operand(value, record_rules, value)
    try:
        return _apply_rules(value, op, g, y, xs, waiting, record_rules, times)
    except ZeroDivisionError as error:  # a derivative at a pole, in Python's arithmetic
        dismiss_error(error)
        y, xs = as_numpy_scalar(y), [as_numpy_scalar(x) for x in xs]
        return _apply_rules(value, op, g, y, xs, waiting, record_rules, times)


def _apply_rules(
    value: Value,
    op: Any,
    g: Any,
    y: Any,
    xs: list[Any],
    waiting: dict[Value, int],
    record_rules: bool,
    times: Callable[[Any, Any], Any],
) -> list[Any]:
    """What the op's rules say of each operand."""
    partials = op.partials
    out: list[Any] = []
    try:
        if isinstance(op.vjp, Joint):
            wanted = [type(o) is Value and o in waiting for o in value.operands]
            return list(op.vjp.rule(g, y, xs, wanted, times, **value.params))
        for at, operand in enumerate(value.operands):
            if type(operand) is not Value or operand not in waiting:
                out.append(None)
            elif partials is None:
                by = _apply_vjp if times is not strong_product else _apply_vjp_strongly
                out.append(by(op, at, g, y, xs, value.params))
            else:
                partial = partials[at]
                out.append(
                    None
                    if isinstance(partial, (int, float)) and partial == 0
                    else contribution(times, g, partial, y, xs, at)
                )
    except (TrackerError, ZeroDivisionError):
        raise
    except Exception as error:
        raise _with_rule_note(error, op, len(out)) from None
    return out


def _apply_vjp_strongly(
    op: Any, at: int, g: Any, y: Any, xs: list[Any], params: dict[str, Any]
) -> Any:
    """A rule is linear in the cotangent: of a real number, as the root of `x @ x` has it, zeros are
    strong if what it gives for 1 is multiplied with it."""
    c, form = _apply_vjp(op, at, g, y, xs, params), aval_of(g)
    if (
        c is None
        or isinstance(c, (SparseCotangent, BundleParts))
        or np.ndim(form)
        or np.iscomplexobj(form)
    ):
        return c
    unit = _apply_vjp(op, at, np.ones_like(g), y, xs, params)
    return np.where(np.isfinite(c), c, strong_product(g, unit))[()]


def _apply_vjp(op: Any, at: int, g: Any, y: Any, xs: list[Any], params: dict[str, Any]) -> Any:
    rule = op.vjp[min(at, len(op.vjp) - 1)]  # the last is for all that follow
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
