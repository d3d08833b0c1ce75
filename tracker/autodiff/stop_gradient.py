"""Where derivatives stop, and where cotangents can be inspected.

`ignore_derivatives` and `non_differentiable` run code in the tape's `StopGradient` scope; `hook` is
an identity whose derivative rule is the user's function. `data` under a trace gives a traced value
without a derivative, so compiled code follows the argument.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from tracker import tree
from tracker.autodiff import leaves
from tracker.autodiff.call_ops import as_read_only, call_op, detach, host_call
from tracker.support.pickling import made_by
from tracker.tape.observers import is_deriving, is_tracing
from tracker.tape.record import alias_to_primal, value_of
from tracker.tape.tracing.tracer import StopGradient
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value

if TYPE_CHECKING:
    from tracker.support.type_variables import P, R, T


def isderiving() -> bool:
    """Whether a derivative is running its function in this thread now.

    Returns
    -------
    bool

    Examples
    --------
    >>> isderiving(), tracker.gradient(lambda x: x * isderiving(), 3.0)
    (False, (1.0,))
    """
    return is_deriving()


@overload
def data(x: Tracked) -> Any: ...
@overload
def data(x: T) -> T: ...
def data(x: Any) -> Any:
    """The plain array (read-only) or number inside `x`; an untracked `x` itself.

    Parameters
    ----------
    x
        A tracked value, or any other.

    Returns
    -------
    ndarray or number
        In a traced function it is a traced value without a derivative: compiled code follows it.

    See Also
    --------
    ignore_derivatives

    Examples
    --------
    >>> data(tracker.param([1.0, 2.0]))
    array([1., 2.])
    """
    return detach(x)


Tracked.data = property(data)  # type: ignore[attr-defined]


@overload
def ignore_derivatives() -> StopGradient: ...
@overload
def ignore_derivatives(x: T) -> T: ...
def ignore_derivatives(x: Any = ...) -> Any:
    """Make a value, a block, or a function a constant for every derivative.

    Parameters
    ----------
    x : optional
        A value (any structure), whose data is returned; or a function, of which one with constant
        results is. Without it, a context: values computed inside `with ignore_derivatives():` are
        constants.

    Returns
    -------
    The data, the function, or the context.

    See Also
    --------
    data, non_differentiable

    Notes
    -----
    Compiled code still follows the values. Writing into an outer tracked array inside a block
    raises, because the gradient of its elements would be lost.

    Examples
    --------
    >>> tracker.gradient(lambda x: x * ignore_derivatives(x), 3.0)
    (3.0,)
    """
    if x is ...:
        return StopGradient()
    if callable(x) and tree.children_of(x) is None and type(x) is not Tracked:
        return non_differentiable(x)
    return tree.map(detach, x)


def non_differentiable(f: Callable[P, R]) -> Callable[P, R]:
    """The same function with constant results.

    Parameters
    ----------
    f : callable
        Gets plain arguments (under a trace, traced ones).

    Returns
    -------
    callable

    See Also
    --------
    ignore_derivatives

    Examples
    --------
    >>> @non_differentiable
    ... def rank(x):
    ...     return np.argsort(np.argsort(x)) * 1.0
    >>> tracker.gradient(lambda x: np.sum(x * rank(x)), [3.0, 1.0, 2.0])
    (array([2., 0., 1.]),)
    """

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            args, kwargs = tree.map(_plain_read_only, (args, kwargs))
        with StopGradient():
            y = f(*args, **kwargs)
            return tree.map(detach, y)

    return made_by(call, non_differentiable, f)


def _plain_read_only(x: Any) -> Any:
    return as_read_only(leaves.plain_data(x)) if type(x) is Tracked else x


def hook(f: Callable[[Any], Any], x: T) -> T:
    """`x`, with `f` applied to the cotangent that reaches it. A plain `x` is returned as it is.

    Parameters
    ----------
    f : callable
        Gets the cotangent and returns the one to go on with, of the same shape; or None, to go on
        with the same one.
    x
        A tracked value, or any other.

    Returns
    -------
    The value of `x`.

    See Also
    --------
    showgrad

    Notes
    -----
    Forward mode ignores hooks.

    Examples
    --------
    >>> tracker.gradient(lambda x: hook(lambda g: -g, x) * 3.0, 1.0)
    (-3.0,)
    """
    if type(x) is not Tracked:
        return x if tree.children_of(x) is None else tree.map(lambda part: hook(f, part), x)  # type: ignore[no-any-return]
    return alias_to_primal(Value(value_of(x).data, _hook_op, (value_of(x),), {"function": f}), x)  # type: ignore[no-any-return]


def _hook_pull(
    g: Any, y: Any, xs: list[Any], wanted: Any, times: Any, *, function: Callable[..., Any]
) -> list[Any]:
    found = function(g)
    return [g if found is None else found]


_hook_op = call_op(
    "hook", _hook_pull, lambda ts, y, xs, times, *, function: ts[0], lambda x, *, function: x
)


def showgrad(x: T, name: str = "x") -> T:
    """`x`; prints each cotangent that reaches it: `∂(name) = ...`. Compiled code prints, too.

    Parameters
    ----------
    x
        A tracked value, or any other.
    name : str
        For the text.

    Returns
    -------
    The value of `x`.

    See Also
    --------
    hook

    Examples
    --------
    >>> tracker.gradient(lambda x: showgrad(x, "x") ** 2, 3.0)
    ∂(x) = 6.0
    (6.0,)
    """

    def show(g: Any) -> list[Any]:
        print(f"∂({name}) = {g}")
        return [g]

    def print_cotangent(g: Any) -> Any:
        if is_tracing() and type(g) is Tracked:
            return host_call("showgrad", show, [g])[0]
        show(leaves.plain_data(g))
        return g

    return hook(print_cotangent, x)
