"""`vmap`: a function of one row, applied to all rows at once.

The function is traced at one row, and the trace is replayed on all rows (`batching_replay.py`,
`batching_rules.py`). Rows at which the function takes another Python branch are traced in turn;
each row gets the results of its own path. A function that changes state it reads, draws random
numbers, or leaves NumPy is called row by row. Start at `_apply_mapped`.

Invariant: the results equal the stacked results of a call per row, and are new writable arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import MethodType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tracker import tree
from tracker.autodiff.boundary import array_like_data, compiled_derivative, separate_outputs
from tracker.control.body import TracedBody, trace_body
from tracker.errors import UnsupportedError, message
from tracker.support.pickling import bound_by, made_by
from tracker.support.shown_text import named_after
from tracker.tape.live_leaves import depends_on_live_leaf
from tracker.tape.observers import is_deriving, is_tracing
from tracker.tape.record import aval_of, data_of, value_of
from tracker.tape.tracing.tracer import UnsupportedInBody, dismiss_error
from tracker.tape.tracked import Tracked
from tracker.tape.value import new_epoch
from tracker.transforms.batching_purity import require_pure_rows
from tracker.transforms.batching_replay import replay_rows
from tracker.transforms.batching_rules import BatchedValue, broadcast_rows

if TYPE_CHECKING:
    from tracker.support.type_variables import ArrayFunction, P, R

_MAX_PATHS = 64  # a function with more paths is called row by row


@overload
def vmap(
    f: Callable[P, complex | np.generic], in_axes: Any = 0, out_axes: Any = 0
) -> ArrayFunction[P]: ...
@overload
def vmap(f: Callable[P, R], in_axes: Any = 0, out_axes: Any = 0) -> Callable[P, R]: ...
def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """A function that applies `f` to every row of its arguments and stacks the results.

    Parameters
    ----------
    f : callable
        May branch on its values, write into its rows, and be mapped or differentiated again.
    in_axes : int, None, or tuple
        The axis of the arguments' arrays that runs over the rows: an int for all, or one entry per
        argument, each an int, None for an argument that all rows share, or a structure of them.
        Keyword arguments are mapped over their first axis.
    out_axes : int or structure of int
        The axis of the rows in the results.

    Returns
    -------
    callable
        Of the arguments of `f`.

    Raises
    ------
    UnsupportedError
        The mapped axes have different extents, or an argument has no such axis.

    Notes
    -----
    One row is recorded, and the record is run on all rows at once; rows that take another branch
    are recorded and run in turn. An op without a rule for it is mapped row by row. As `jax.vmap`.

    Examples
    --------
    >>> vmap(np.dot)(np.ones((2, 3)), np.arange(6.0).reshape(2, 3))
    array([ 3., 12.])
    """
    axes = tree.flatten((in_axes, out_axes))
    compiled = compiled_derivative(
        f,
        ("vmap", axes[1], tuple(axes[0])),
        vmap,
        in_axes,
        out_axes,
        argnums_of=lambda _: (),
    )
    if compiled is not None:
        if type(compiled) is MethodType:
            return bound_by(compiled, vmap, f, in_axes, out_axes)
        return compiled

    @functools.wraps(f)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        return _apply_mapped(f, args, kwargs, in_axes, out_axes)

    return made_by(named_after(mapped, "vmap", f), vmap, f, in_axes, out_axes)


def vmap_pure(f: Callable[[Any], Any], x: Any) -> Any:
    """`vmap(f)(x)` of a function that is known to have no side effects."""
    return _apply_mapped(f, (x,), {}, 0, 0, is_pure=True)


def _apply_mapped(
    f: Any, args: Any, kwargs: Any, in_axes: Any, out_axes: Any, is_pure: bool = False
) -> Any:
    leaves, structure = tree.flatten((args, kwargs))
    leaves = [x if (offered := array_like_data(x)) is None else offered for x in leaves]
    axes = [*_axes_of(args, in_axes), *(0 for _ in tree.leaves(kwargs))]
    n = _row_count(leaves, axes)
    moving = [axis is not None for axis in axes]
    placed = [(x, axis) for x, axis in zip(leaves, axes, strict=True) if axis is not None]
    rows = [np.moveaxis(x, axis, 0) if axis else x for x, axis in placed]
    template: list[Any] = []

    def one(*flat: Any) -> list[Any]:
        given = iter(flat)
        whole = [next(given) if m else x for x, m in zip(leaves, moving, strict=True)]
        inner_args, inner_kwargs = tree.unflatten(structure, whole, (args, kwargs))
        y = f(*inner_args, **inner_kwargs)
        found, below = tree.flatten(y, objects=True)
        template[:] = [below, y]
        return found

    try:
        with nullcontext() if is_pure else require_pure_rows(f, leaves):
            results = _run_all_paths(one, rows, n)
    except Exception as error:  # one of the function itself is raised again by the plain calls
        dismiss_error(error)
        results = _call_row_by_row(one, rows, n)
    axes = _broadcast_axes(out_axes, template[1], objects=True)
    wide = separate_outputs(
        [_with_rows(*y, axis, n) for y, axis in zip(results, axes, strict=True)], leaves
    )
    placed = [
        np.moveaxis(y, 0, axis) if mark is not None and axis else y
        for y, (_, mark), axis in zip(wide, results, axes, strict=True)
    ]
    return tree.unflatten(template[0], placed, template[1])


def _axes_of(args: tuple[Any, ...], in_axes: Any) -> list[int | None]:
    """The axis of each leaf of the arguments."""
    if in_axes is None or isinstance(in_axes, int):
        return [in_axes for _ in tree.leaves(args)]
    if not isinstance(in_axes, (tuple, list)) or len(in_axes) != len(args):
        raise UnsupportedError(
            f"vmap got in_axes={in_axes!r} for {len(args)} arguments",
            "Give an int, None, or a tuple with an entry per argument",
        )
    return [
        axis for arg, axes in zip(args, in_axes, strict=True) for axis in _broadcast_axes(axes, arg)
    ]


def _broadcast_axes(axes: Any, x: Any, *, objects: bool = False) -> list[Any]:
    """The axis of each leaf of `x`, from a structure of axes that may end above the leaves."""
    if axes is None or isinstance(axes, int):
        return [axes for _ in tree.leaves(x, objects=objects)]
    parts, kids = tree.children_of(axes), tree.children_of(x)
    if parts is None or kids is None or len(parts[1]) != len(kids[1]):
        raise UnsupportedError(
            f"vmap got axes {axes!r} for a {type(x).__name__}", "Give the same structure"
        )
    pairs = (
        [(axes[key], x[key]) for key in kids[0]]
        if isinstance(axes, dict)
        else zip(parts[1], kids[1], strict=True)
    )
    return [axis for below, kid in pairs for axis in _broadcast_axes(below, kid, objects=objects)]


def _row_count(leaves: Sequence[Any], axes: Sequence[int | None]) -> int:
    """The number of rows."""
    extents = set()
    for x, axis in zip(leaves, axes, strict=True):
        if axis is None:
            continue
        rank = np.ndim(aval_of(x)) if tree.is_numeric(aval_of(x)) else 0
        if not -rank <= axis < rank:
            raise UnsupportedError(
                f"vmap cannot go along axis {axis} of a {type(aval_of(x)).__name__} of shape "
                f"{np.shape(aval_of(x))}",
                "Give None in in_axes for what all rows share",
            )
        extents.add(np.shape(x)[axis])
    if len(extents) != 1 or 0 in extents:
        raise UnsupportedError(
            f"vmap got arrays of {sorted(extents)} rows"
            if extents
            else "vmap got nothing to map over",
            "Give arrays of the same extent, at least 1, along the mapped axes",
        )
    return int(extents.pop())


def _run_all_paths(
    one: Callable[..., list[Any]], rows: Sequence[Any], n: int
) -> list[BatchedValue]:
    """Trace at one row and replay on all rows; repeat for rows that take another path."""
    results, is_done = _run_path(one, rows, n, 0)
    for _ in range(_MAX_PATHS):
        if is_done is True or bool(np.all(is_done)):
            return results
        at = int(np.argmin(np.asarray(data_of(is_done))))
        more, alive = _run_path(one, rows, n, at)
        if len(more) != len(results):
            raise UnsupportedInBody("rows give different structures")
        results = [_merge_rows(is_done, a, b, n) for a, b in zip(results, more, strict=True)]
        is_done = np.logical_or(is_done, alive)
    raise UnsupportedInBody("rows go too many ways")


def _run_path(
    one: Callable[..., list[Any]], rows: Sequence[Any], n: int, at: int
) -> tuple[list[BatchedValue], Any]:
    constants: dict[int, Any] = {}

    def numeric(*flat: Any) -> list[Any]:
        found = one(*flat)
        constants.update((i, x) for i, x in enumerate(found) if not tree.is_numeric(aval_of(x)))
        return [x for i, x in enumerate(found) if i not in constants]

    epoch = new_epoch()
    traced: TracedBody = trace_body("row", numeric, [data_of(x)[at] for x in rows])
    marks = [*(False for _ in traced.hoisted), *(True for _ in rows)]
    with np.errstate(all="ignore"):  # results of rows off the path are dropped
        hoisted = [_plain_if_allocated(x, epoch) for x in traced.hoisted]
        made, alive = replay_rows(traced.function, [*hoisted, *rows], marks, n)
    answers = iter(made)
    total = len(made) + len(constants)
    return [(constants[i], None) if i in constants else next(answers) for i in range(total)], alive


def _plain_if_allocated(x: Any, epoch: int) -> Any:
    """A captured value; its data if the row has allocated it since, so that no more is recorded, or
    if the derivative in which it was allocated is over. (A backward pass may be on its way to
    others.)
    """
    if type(x) is not Tracked or is_tracing():
        return x
    value = value_of(x)
    is_made = value.epoch >= epoch or not (is_deriving() or depends_on_live_leaf(value))
    return data_of(x) if is_made else x


def _merge_rows(is_done: Any, a: BatchedValue, b: BatchedValue, n: int) -> BatchedValue:
    """The rows of `a` that are done, and the others of `b`."""
    if a[1] is None or b[1] is None:
        if a[0] is not b[0] and a[0] != b[0]:
            raise UnsupportedInBody("rows give different constants")
        return a
    x, y = broadcast_rows(*a, n), broadcast_rows(*b, n)
    if np.shape(x) != np.shape(y):
        raise UnsupportedInBody("rows give different shapes")
    return np.where(np.reshape(is_done, (n, *(1,) * (np.ndim(x) - 1))), x, y), True


def _call_row_by_row(
    one: Callable[..., list[Any]], rows: Sequence[Any], n: int
) -> list[BatchedValue]:
    found = [one(*(x[i] for x in rows)) for i in range(n)]
    shapes = {tuple(np.shape(aval_of(y)) for y in results): None for results in found}
    if len(shapes) > 1:
        one_row, another = list(shapes)[:2]
        raise UnsupportedError(
            f"vmap: rows give results of shapes {[*one_row]} and {[*another]}",
            "Give results of one shape: pad them, or go through the rows in a loop",
        )
    return [
        (np.stack(column), True) if tree.is_numeric(data_of(column[0])) else (column[0], None)
        for column in zip(*found, strict=True)
    ]


def _with_rows(y: Any, mark: bool | None, axis: int | None, n: int) -> Any:
    """A result with its rows first; a constant, or a result with out_axes None, as it is."""
    if mark is None:
        return y
    if axis is not None:
        return broadcast_rows(y, mark, n)
    if mark:
        raise UnsupportedError(
            message("vmap: out_axes is None for a result that differs from row to row")
        )
    return np.copy(y) if type(aval_of(y)) is np.ndarray else y
