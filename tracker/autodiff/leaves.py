"""Tracked leaves and the `param`/`back` style.

A param's `ParamState` holds its accumulated gradient and survives `update`; values computed before
an update keep the old data.

Invariant: `back` changes gradients only after the whole pass has succeeded.
"""

from __future__ import annotations

import cmath
import functools
import sys
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tracker import tree
from tracker.autodiff.reverse import FREED, graph_used, reverse_sweep
from tracker.errors import (
    ComplexLossError,
    NonFiniteError,
    NotScalarError,
    NotTrackedError,
    UnsupportedError,
    message,
)
from tracker.ops.indexing.views_and_writes import invalidate_views
from tracker.ops.shape.create import identity
from tracker.tape.observers import current_observer, is_deriving
from tracker.tape.record import apply, value_of
from tracker.tape.tracing.placeholders import resolve_placeholder
from tracker.tape.tracing.tracer import check_write, current_tracer
from tracker.tape.tracked import Tracked, new_param
from tracker.tape.value import ParamState, Value, leaf
from tracker.user_frames import is_internal

if TYPE_CHECKING:
    from tracker.support.type_variables import T


def param(x: Any) -> Any:
    """A tracked leaf with its own copy of `x`: a number, an array, or a list of numbers.

    Parameters
    ----------
    x : array_like
        Integers and bools become float64; float and complex dtypes are kept. A tracked `x` gives an
        identity node of `x`.

    Returns
    -------
    Tracked
        Of the shape of `x`.

    See Also
    --------
    back, grad, update

    Examples
    --------
    >>> param([1, 2, 3])
    tracked(array([1., 2., 3.]))
    """
    if isinstance(x, Tracked):
        if current_tracer() is not None and not is_deriving():
            raise UnsupportedError(
                "a param is made of a value that a trace computes with",
                "Make params outside of jitted functions; inside, use tracker.gradient",
            )
        return apply(identity, (x,))
    if isinstance(x, (bool, int)):
        return new_param(float(x))
    if isinstance(x, (float, complex, np.inexact)):
        return new_param(x)
    if not isinstance(x, (np.ndarray, np.generic)) and not tree.is_number_list(x):
        raise NotTrackedError(
            f"param got a {type(x).__name__}",
            "Give a number, a NumPy array or a list of numbers; for a structure, "
            "tracker.tree.map(tracker.param, model)",
        )
    array = np.array(x)
    if array.dtype.kind in "biu":
        array = array.astype(np.float64)
    if array.dtype.kind not in "fc":
        raise NotTrackedError(
            f"param got an array of dtype {array.dtype}", "Give real or complex numbers"
        )
    return new_param(array if isinstance(x, np.ndarray) else array[()])


def plain_data(x: Any) -> Any:
    """The plain array or number inside `x`; an untracked `x` itself.

    For internal use: a trace does not see it. `stop_gradient.data` is the public form.
    """
    return x._plain if isinstance(x, Tracked) else x


def grad(x: Any) -> Any:
    """The accumulated gradient of `x` as a plain array.

    Parameters
    ----------
    x
        A tracked value, or any other.

    Returns
    -------
    ndarray, number or None
        Zeros for a leaf that no `back` has reached; None for such an interior value, and for an
        untracked one.

    Examples
    --------
    >>> grad(param([1.0, 2.0]))
    array([0., 0.])
    """
    if isinstance(x, Tracked):
        return x.grad
    is_curried = isinstance(x, _FUNCTIONS) or hasattr(type(x), "_tracker_derive")
    return _refuse_call if is_curried and not is_internal(sys._getframe(1).f_code) else None


_FUNCTIONS = (FunctionType, MethodType, functools.partial)


def _refuse_call(*_: Any, **__: Any) -> NoReturn:
    """What `grad(f)` gives: called as in other libraries, it says what to type."""
    raise NotTrackedError(
        "grad(x) is the gradient that tracker.back has accumulated in x, and got a function",
        "Use tracker.gradient(f, x)",
    )


def istracked(x: Any) -> bool:
    """Whether `x` is a tracked value: operations on it are recorded.

    Parameters
    ----------
    x
        Anything.

    Returns
    -------
    bool

    Examples
    --------
    >>> istracked(param(1.0)), istracked(1.0)
    (True, False)
    """
    return isinstance(resolve_placeholder(x), Tracked)


def isleaf(x: Any) -> bool:
    """Whether `x` has no history: it was made by `param`, or is not tracked.

    Parameters
    ----------
    x
        Anything.

    Returns
    -------
    bool

    Examples
    --------
    >>> isleaf(param(1.0)), isleaf(2.0 * param(1.0))
    (True, False)
    """
    if not isinstance(x, Tracked):
        return True
    value = value_of(x)
    return not value.operands and value.op is not FREED


def zero_grad(x: T) -> T:
    """Zero the accumulated gradient of a leaf; returns `x`.

    Parameters
    ----------
    x : Tracked
        A leaf, from `param`.

    Returns
    -------
    `x`.

    Examples
    --------
    >>> zero_grad(param([1.0, 2.0])).grad
    array([0., 0.])
    """
    owner = getattr(x, "_owner", None) if isinstance(x, Tracked) else None
    if owner is not None:
        owner.grad = None
    return x


def update(x: T, delta: Any) -> T:
    """Add `delta` in place to a tracked leaf or a plain array; zero the leaf's gradient.

    Parameters
    ----------
    x : Tracked or ndarray
        A leaf, from `param`, or an array.
    delta : array_like
        Of the shape of `x`. Gradient descent passes `-rate * grad(x)`.

    Returns
    -------
    `x`.

    Examples
    --------
    >>> update(param([1.0, 2.0]), -0.5)
    tracked(array([0.5, 1.5]))
    """
    delta = plain_data(delta)
    if not isinstance(x, Tracked):
        if not isinstance(x, np.ndarray):
            raise NotTrackedError(
                f"update cannot change a {type(x).__name__} in place",
                "Give a tracked leaf or a NumPy array",
            )
        x += delta
        return x
    value = value_of(x)
    if not isinstance(value.params, ParamState):
        raise NotTrackedError(
            "update of a tracked value that is not a leaf (any more: `x[i] = v`, `x += v` give "
            "a param a history)",
            "Update the param it came from, and change params by update only",
        )
    check_write(value)
    if isinstance(value.aval, np.ndarray):
        moved = value.data.copy()
        moved += delta
    else:
        moved = type(value.aval)(value.data + delta)
    return replace_data(x, moved)  # type: ignore[no-any-return]


def replace_data(x: Any, new_data: Any) -> Any:
    """Give a param new data of the same class, shape and dtype, and zero its gradient.

    Values computed from the old data keep it.
    """
    owner = value_of(x).params
    made = leaf(new_data)
    made.params = owner
    owner.data = new_data
    x._value = made
    invalidate_views(x)
    return zero_grad(x)


def back(y: Any, seed: Any = None, *, once: bool = True) -> None:
    """Run the reverse pass from `y`; gradients of leaves add up over calls.

    Parameters
    ----------
    y : Tracked
        A scalar, unless `seed` is given.
    seed : array_like, optional
        The cotangent of `y`, of its shape.
    once : bool
        Whether to free the history of `y` (during the pass, if arrays are large).

    Raises
    ------
    NotScalarError
        `y` is an array and there is no seed.
    NonFiniteError
        `y` is a scalar that is NaN or infinite.
    NotTrackedError
        `y` does not depend on a leaf.
    GraphUsedError
        `back` was called on this history before, without `once=False`.

    See Also
    --------
    param, grad, gradient

    Notes
    -----
    If a rule raises, no gradient has changed.

    Examples
    --------
    >>> x = param([1.0, 2.0])
    >>> back(np.sum(x**2))
    >>> grad(x)
    array([2., 4.])
    """
    if not isinstance(y, Tracked):
        raise NotTrackedError(
            f"back got a plain {type(y).__name__}: the value does not depend on any param",
            "Wrap what it is computed from in tracker.param",
        )
    if current_tracer() is not None:
        raise UnsupportedError(
            "back gives up the history of a value that a trace follows",
            "Call it outside of jitted functions; inside, use tracker.gradient",
        )
    root = value_of(y)
    if seed is None:
        if np.shape(root.aval) != ():
            raise NotScalarError(
                f"value has shape {np.shape(root.aval)}", "Use back(np.sum(y)) or back(y, seed)"
            )
        if np.iscomplexobj(root.aval):
            raise ComplexLossError(
                f"back needs a real number; the value is complex ({np.result_type(root.aval)})",
                "Use np.real or np.abs, or back(y, seed)",
            )
        check_loss(root.data, "back")
        seed = np.ones_like(root.data)[()]
    else:
        seed = np.asarray(plain_data(seed))
        if seed.shape != np.shape(root.aval):
            raise NotScalarError(
                message(f"seed has shape {seed.shape}, the value has shape {np.shape(root.aval)}")
            )
        seed = np.array(seed, dtype=np.result_type(seed, np.float16))[()]
    _accumulate_gradients(root, seed, once)


def _accumulate_gradients(root: Value, seed: Any, once: bool) -> None:
    past = ancestors(root)
    if any(value.op is FREED for value in past):
        raise graph_used()
    leaves = [value for value in past if isinstance(value.params, ParamState)]
    if not leaves:
        raise NotTrackedError(
            "the value does not depend on any param",
            "Wrap what it is computed from in tracker.param",
        )
    del past  # these references would keep alive what the pass frees
    interior: dict[Value, Any] = {}
    found = reverse_sweep(
        [(root, seed)], leaves, interior=interior, freed_op=FREED if once else None
    )
    for value, c in zip(leaves, found, strict=True):  # nothing below can raise
        if c is not None:
            owner = value.params
            c = plain_cotangent(c, value.data)
            owner.grad = c if owner.grad is None else owner.grad + c
    for value, c in interior.items():
        value.grad = c


def ancestors(root: Value) -> list[Value]:
    """A value and all values in its history."""
    seen = {root}
    stack = [root]
    while stack:
        value = stack.pop()
        for operand in value.operands:
            if type(operand) is Value and operand not in seen:
                seen.add(operand)
                stack.append(operand)
    return list(seen)


def plain_cotangent(c: Any, x: Any) -> Any:
    """A cotangent as a new plain array of the leaf's shape and dtype (in native byte order). A
    broadcast cotangent gets the leaf's memory layout."""
    c = plain_data(c)
    if isinstance(x, np.ndarray):
        kind = x.dtype.type if x.dtype.kind in "fc" else np.float64
        whole = np.broadcast_to(c, x.shape)
        if 0 not in whole.strides or x.ndim < 2:
            return np.array(whole, dtype=kind)
        laid = np.empty_like(x, dtype=kind, subok=False)
        laid[...] = whole
        return laid
    if isinstance(x, np.inexact):
        return x.dtype.type(c)
    return complex(c) if isinstance(x, complex) else float(c)


_NONFINITE_HINT = "Call it in `with tracker.debug.nan_check():`, which names the line that made it"


_NONFINITE_DATA_HINT = "Leave such data out: np.nansum, np.nanmean, or np.where"


def check_loss(loss: Any, caller: str) -> None:
    value = complex(loss)
    if cmath.isfinite(value):
        return
    text = f"{caller}: the loss is {'NaN' if cmath.isnan(value) else 'infinite'}"
    observer = current_observer()
    if observer is None or (found := observer.nonfinite_data()) is None:
        raise NonFiniteError(text, _NONFINITE_HINT)
    what, line = found
    raise NonFiniteError(f"{text}: {what}", _NONFINITE_DATA_HINT, line)
