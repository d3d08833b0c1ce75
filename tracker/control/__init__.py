"""Structured control flow: `scan`, `fori_loop`, `while_loop`, `cond`, `switch`.

Each function means the Python loop or branch in its docstring, and that is what runs eagerly. Under
a trace (`jit`, `vmap`) the body is traced once into a nested function, and the loop becomes one
equation: compile time does not depend on the number of steps.

This file turns structures into flat lists. `body.py` traces bodies, `carry_types.py` finds the
types that a loop carries; `loop.py`, `while_loop.py` and `branch.py` define the ops and their
derivatives (`loop_pullback.py` the reverse loop); `step_runner.py` runs steps while a loop is
traced; `python_loops/` makes loops of Python's `for` statements. May import `autodiff` and what
`tracker.jit` and `tracker.jit.tracing` offer. Start at `scan`.

Invariant: a body that cannot be traced once for all steps raises `UnsupportedInBody`, and the plain
loop is traced instead. Such a body writes into outer arrays, into a row, or into a carry that it
also keeps elsewhere; changes state that it reads; changes shapes; or takes another Python branch at
a later step. A body that writes into a carry and returns it is supported: the final carry is
written into the initial array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker import tree
from tracker.control.body import forbid_side_effects, split_list, trace_body
from tracker.control.branch import record_branch, trace_branches
from tracker.control.carry_types import (
    FlatStructure,
    flatten_carry,
    refuse_writes,
    trace_until_types_agree,
    write_back,
)
from tracker.control.loop import record_loop
from tracker.control.python_loops import at_sample, at_test, start
from tracker.control.while_loop import record_while
from tracker.errors import UnsupportedError
from tracker.ir.types import type_of
from tracker.tape.record import ReplayDiverged, aval_of, data_of, value_of
from tracker.tape.tracing.tracer import UnsupportedInBody, current_tracer, set_loop_followers
from tracker.tape.tracked import Tracked

__all__ = ["cond", "fori_loop", "scan", "switch", "while_loop"]

if TYPE_CHECKING:
    from tracker.support.type_variables import R

set_loop_followers(start, at_test, at_sample)
_UNTRACEABLE = (UnsupportedInBody, ReplayDiverged)  # then the plain loop is traced
_HISTORY_STEPS = 64  # reserved for a history, unless the trace saw more
_UNROLL_LIMIT = 3  # steps; up to here the plain loop is traced


def scan(
    f: Callable[[Any, Any], tuple[R, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[R, Any]:
    """Carry a value through the rows of `xs`; returns the last carry and the stacked outputs.

    Parameters
    ----------
    f : callable
        `f(carry, x)` returns `(carry, y)`; the carry keeps its structure, shapes and dtypes.
    init
        The first carry: any structure.
    xs : optional
        A structure of arrays with one first extent, the number of steps.
    length : int, optional
        The number of steps where there are no `xs`; `x` is then None.
    reverse : bool
        Whether to go from the last row to the first.
    unroll
        Accepted for the sake of code for jax, and ignored.

    Returns
    -------
    carry
        The last one.
    ys
        The outputs, stacked along a new first axis, in the order of the rows; None for None.

    See Also
    --------
    fori_loop, while_loop

    Notes
    -----
    The same as ::

        for x in rows of xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, np.stack(ys)

    except that Python numbers among the `ys` are promoted to the dtype of the others, as in
    arithmetic. In compiled code it stays one loop. As `jax.lax.scan`.

    Examples
    --------
    >>> scan(lambda total, x: (total + x, total), 0.0, np.array([1.0, 2.0, 3.0]))
    (np.float64(6.0), array([0., 1., 3.]))
    """
    steps = _step_count(xs, length)
    if steps > _UNROLL_LIMIT and current_tracer() is not None:
        with suppress(*_UNTRACEABLE), forbid_side_effects(f) as (checked,):
            return _traced_scan(checked, init, xs, steps, reverse)
    order = range(steps - 1, -1, -1) if reverse else range(steps)
    carry, ys = init, []
    for i in order:
        carry, y = f(carry, _row(xs, i))
        ys.append(y)
    if not steps:
        return init, _empty_outputs(f, init, xs)
    if reverse:
        ys.reverse()
    return carry, tree.map(_stack_rows, *ys)


def _stack_rows(*rows: Any) -> Any:
    """The rows as one array; Python numbers are promoted to the dtype of the others."""
    if rows[0] is None:
        return None
    types = [type_of(aval_of(row)) for row in rows]
    strong = {t.dtype for t in types if not t.weak}
    weak = {t.dtype for t in types if t.weak}
    if not strong or not weak:
        return np.stack(rows)
    dtype = np.result_type(*strong, *(d.type(0).item() for d in weak))
    alike = [
        np.multiply(row, 1, dtype=dtype) if t.weak else row
        for row, t in zip(rows, types, strict=True)
    ]
    return np.stack(alike)


def _step_count(xs: Any, length: int | None) -> int:
    """The number of rows."""
    found = [x for x in tree.leaves(xs) if x is not None]
    for x in found:
        if not tree.is_numeric(aval_of(x)) or not np.shape(x):
            raise UnsupportedError(
                f"scan goes through the rows of arrays; xs holds a {type(aval_of(x)).__name__}"
                f" of shape {np.shape(x)}",
                "Give arrays, or xs=None and length=n",
            )
    extents = {np.shape(x)[0] for x in found} | ({int(length)} if length is not None else set())
    if len(extents) != 1:
        raise UnsupportedError(
            f"scan got arrays of {sorted(extents)} rows"
            if extents
            else "scan got neither xs nor length",
            "Give arrays of the same first extent, or length=n",
        )
    steps: int = extents.pop()
    return steps


def _row(xs: Any, i: int) -> Any:
    return tree.map(lambda x: None if x is None else x[i], xs)


def _empty_outputs(f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any) -> Any:
    """The outputs of no steps: empty stacks in the shapes of one step's outputs."""
    row = tree.map(
        lambda x: None if x is None else np.zeros_like(data_of(x), shape=np.shape(x)[1:])[()], xs
    )
    with np.errstate(all="ignore"):
        _, y = f(tree.map(data_of, init), row)
    return tree.map(
        lambda leaf: (
            None if leaf is None else np.zeros((0, *np.shape(leaf)), np.result_type(aval_of(leaf)))
        ),
        y,
    )


def _traced_scan(f: Any, init: Any, xs: Any, steps: int, reverse: bool) -> tuple[Any, Any]:
    start = FlatStructure.of(init)
    rows = FlatStructure.of(xs)
    outputs: list[FlatStructure] = []

    def body(*flat: Any) -> list[Any]:
        values, elements = split_list(flat, len(start.numbers))
        new, y = f(start.rebuild(values), rows.rebuild(elements))
        outputs[:] = [FlatStructure.of(y)]
        return [*flatten_carry(start, new), *outputs[0].numbers]

    first = [data_of(x)[-1 if reverse else 0] for x in rows.numbers]
    traced, carries, written = trace_until_types_agree("scan", body, start.numbers, first)
    results = record_loop(traced, steps, carries, rows.numbers, steps, reverse)
    ends, ys = split_list(results, len(carries))
    ends = write_back(start.numbers, ends, written)
    return start.rebuild(ends), outputs[0].rebuild(ys)


def fori_loop(lower: Any, upper: Any, body: Callable[[Any, Any], R], init: Any) -> R:
    """`for i in range(lower, upper): value = body(i, value)`, from `value = init`.

    Parameters
    ----------
    lower, upper : int
        The bounds, which may be computed.
    body : callable
        `body(i, value)` returns the next value, of the same structure, shapes and dtypes.
    init
        The first value: any structure.

    Returns
    -------
    The last value.

    See Also
    --------
    scan, while_loop

    Notes
    -----
    As `jax.lax.fori_loop`. A plain `for` works, too, and is compiled as one loop where its
    iterations do the same.

    Examples
    --------
    >>> fori_loop(0, 5, lambda i, total: total + i, 0)
    10
    """
    if isinstance(lower, Tracked) or isinstance(upper, Tracked):
        return while_loop(
            lambda state: state[0] < upper,
            lambda state: (state[0] + 1, body(*state)),
            (lower, init),
        )[1]
    low, high = int(lower), int(upper)
    if high - low > _UNROLL_LIMIT and current_tracer() is not None:
        with suppress(*_UNTRACEABLE), forbid_side_effects(body) as (checked,):

            def step(state: Any, _: None) -> Any:
                return (state[0] + 1, checked(*state)), None

            return _traced_scan(step, (low, init), None, high - low, False)[0][1]  # type: ignore[no-any-return]
    value: R = init
    for i in range(low, high):
        value = body(i, value)
    return value


def while_loop(cond: Callable[[Any], Any], body: Callable[[Any], R], init: Any) -> R:
    """`while cond(value): value = body(value)`, from `value = init`.

    Parameters
    ----------
    cond : callable
        Of the value; says whether to go on.
    body : callable
        Gives the next value, of the same structure, shapes and dtypes.
    init
        The first value: any structure.

    Returns
    -------
    The last value.

    Notes
    -----
    Reverse mode needs no bound on the number of steps. As `jax.lax.while_loop`.

    Examples
    --------
    >>> while_loop(lambda x: x < 100.0, lambda x: 2.0 * x, 3.0)
    192.0
    """
    if current_tracer() is not None:
        with suppress(*_UNTRACEABLE), forbid_side_effects(cond, body) as (holds, step):
            return _traced_while(holds, step, init)[0]  # type: ignore[no-any-return]
    value: R = init
    while _check_condition(cond(value)):
        value = body(value)
    return value


def while_loop_history(cond: Callable[[Any], Any], body: Callable[[Any], Any], init: Any) -> Any:
    """As `while_loop` in a trace; returns the final value, the number of steps, and the values at
    the start of the steps, stacked. Rows after the last step are undefined. Raises
    `UnsupportedInBody` for a body that cannot be traced once for all steps."""
    try:
        with forbid_side_effects(cond, body) as (holds, step):
            return _traced_while(holds, step, init, _HISTORY_STEPS)
    except ReplayDiverged as error:
        raise UnsupportedInBody(str(error)) from error


def _traced_while(cond: Any, body: Any, init: Any, capacity: int | None = None) -> Any:
    start = FlatStructure.of(init)

    def step(*flat: Any) -> list[Any]:
        return flatten_carry(start, body(start.rebuild(flat)))

    try:
        with np.errstate(all="ignore"):  # the loop itself warns at the steps that it runs
            traced, carries, written = trace_until_types_agree("while", step, start.numbers, [])
            condition = trace_body(
                "holds", lambda *flat: [_scalar_condition(cond(start.rebuild(flat)))], carries
            )
    except Exception as error:  # a body that never runs may raise
        raise UnsupportedInBody(str(error)) from error
    made = record_while(condition, traced, carries, capacity)
    ends, (count,), stacks = split_list(made, len(carries), 1)
    end = start.rebuild(write_back(start.numbers, ends, written))
    return end, count, start.rebuild(stacks)


def _check_condition(holds: Any) -> Any:
    """The result of a condition; raises for a container, which is true whatever it holds."""
    if isinstance(holds, (tuple, list, dict)):
        raise UnsupportedError(
            f"a condition gave a {type(holds).__name__}, which says nothing of what is in it",
            "Give one number or bool; of several, all(...) or any(...)",
        )
    return holds


def _scalar_condition(holds: Any) -> Any:
    if np.shape(_check_condition(holds)) != ():
        raise UnsupportedError(
            f"a condition gave an array of shape {np.shape(holds)}", "Use np.all or np.any"
        )
    return holds


def cond(pred: Any, true_fun: Callable[..., R], false_fun: Callable[..., R], *operands: Any) -> R:
    """`true_fun(*operands) if pred else false_fun(*operands)`. As `jax.lax.cond`.

    Parameters
    ----------
    pred : bool
        Which branch to run.
    true_fun, false_fun : callable
        Of the operands. In compiled code both are kept, where an `if` would trace each path when it
        is first taken.
    *operands
        Passed to the branch.

    Returns
    -------
    The result of the branch that ran.

    See Also
    --------
    switch

    Examples
    --------
    >>> cond(2.0 > 1.0, np.sin, np.cos, 0.0)
    np.float64(0.0)
    """
    if isinstance(_scalar_condition(pred), Tracked) and current_tracer() is not None:
        with suppress(*_UNTRACEABLE), forbid_side_effects(false_fun, true_fun) as checked:
            return _traced_branch(pred, checked, operands)  # type: ignore[no-any-return]
    return true_fun(*operands) if pred else false_fun(*operands)


def switch(index: Any, branches: Sequence[Callable[..., R]], *operands: Any) -> R:
    """`branches[index](*operands)`; an index out of range is clipped to the first or last branch.

    Parameters
    ----------
    index : int
        Which branch to run.
    branches : sequence of callable
        Each of the operands.
    *operands
        Passed to the branch.

    Returns
    -------
    The result of the branch that ran.

    See Also
    --------
    cond

    Notes
    -----
    As `jax.lax.switch`.

    Examples
    --------
    >>> switch(1, [np.sin, np.cos], 0.0)
    np.float64(1.0)
    """
    if not branches:
        raise UnsupportedError("switch got no branches", "Give at least one function")
    last = len(branches) - 1
    if isinstance(index, Tracked) and current_tracer() is not None:
        with suppress(*_UNTRACEABLE), forbid_side_effects(*branches) as checked:
            return _traced_branch(np.clip(index, 0, last), checked, operands)  # type: ignore[no-any-return]
    return branches[min(max(int(index), 0), last)](*operands)


def _branch_type(x: Any) -> Any:
    """The type of a result as far as all branches must agree for one trace: its dtype, and whether
    it is an array. (A Python float counts as NumPy's.)"""
    form = aval_of(x)
    return np.result_type(form), type(form) is np.ndarray


def _traced_branch(index: Any, branches: Sequence[Callable[..., Any]], operands: Any) -> Any:
    start = FlatStructure.of(operands)
    taken = int(data_of(index))
    outputs: dict[int, FlatStructure] = {}
    types: dict[int, list[Any]] = {}

    def body(at: int) -> Callable[..., list[Any]]:
        def run(*flat: Any) -> list[Any]:
            before = [value_of(x) for x in flat]
            outputs[at] = FlatStructure.of(branches[at](*start.rebuild(flat)))
            refuse_writes(flat, before)
            types[at] = [_branch_type(x) for x in outputs[at].numbers]
            return outputs[at].numbers

        return run

    runs = [body(at) for at in range(len(branches))]
    try:
        bodies, results = trace_branches(index, "branch", runs, start.numbers)
    except Exception as error:  # a branch that is not taken may raise
        raise UnsupportedInBody(str(error)) from error
    outcome = outputs[taken]
    if any(flat.structure != outcome.structure for flat in outputs.values()):
        raise UnsupportedInBody("the branches give different structures")
    tracer = current_tracer()
    if (
        tracer is not None
        and not tracer.is_body_trace
        and any(k != types[taken] for k in types.values())
    ):
        raise UnsupportedInBody("the branches give numbers of different types")
    return outcome.rebuild(record_branch(index, bodies, start.numbers, results))
