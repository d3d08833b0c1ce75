"""Rules that users register: `rrule`, `frule`, `scalar_rule`, `custom_gradient`.

Rules are looked up by function. A NumPy function without a derivative here uses its rule wherever
it is called with tracked values; other functions use theirs through `track`, or because
`custom_gradient` made them. `custom_rule_calls.py` runs a call with a rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tracker import tree
from tracker.autodiff.call_ops import call_op, refuse_captured, refuse_second_derivative
from tracker.autodiff.custom_rule_calls import CustomRule, apply_rule
from tracker.autodiff.leaves import plain_data
from tracker.errors import RuleError
from tracker.ir.op import NUMPY, UFUNCS, Op
from tracker.ops.declare.dtypes import infer_by_example
from tracker.support.array_copies import snapshot
from tracker.support.pickling import made_by
from tracker.support.structs import replace
from tracker.support.weakrefs import WeakIdentityDict
from tracker.tape.observers import is_tracing
from tracker.tape.record import alias_to_primal, value_of
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value

if TYPE_CHECKING:
    from tracker.support.type_variables import F, P, R, T

_RULES: dict[Any, CustomRule] = {}
_OWN_RULES: WeakIdentityDict[CustomRule] = WeakIdentityDict()  # of what `custom_gradient` makes
_SCALAR_OPS: dict[Any, Op] = {}


def track(f: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """`f(*args, **kwargs)`, differentiated by the rule that is registered for `f`.

    Parameters
    ----------
    f : callable
        A function with a rule, from `rrule`, `frule` or `scalar_rule`.
    *args
        Its arguments.
    **kwargs
        Passed on; they get no gradient.

    Returns
    -------
    The result of `f`.

    Raises
    ------
    RuleError
        There is no rule for `f`, or its rule returned something of the wrong length, shape or
        dtype.

    Examples
    --------
    >>> def cube(x): return x * x * x
    >>> @rrule(cube)
    ... def _(x):
    ...     return x**3, lambda dy: (dy * 3 * x**2,)
    >>> track(cube, 2.0)
    8.0
    """
    rule = registered_rule(f)
    if rule is not None:
        return apply_rule(rule, args, kwargs)  # type: ignore[no-any-return]
    op = _SCALAR_OPS.get(f)
    if op is not None:
        return _apply_scalar(op, f, args)  # type: ignore[no-any-return]
    if f in NUMPY or f in UFUNCS:
        return f(*args, **kwargs)
    raise RuleError(
        f"{_function_name(f)} has no rule",
        "Register one with @tracker.rrule(f), @tracker.frule(f) or tracker.scalar_rule, or "
        "call the function itself, if it is NumPy code",
    )


def rrule(f: Callable[..., Any], *, host: bool = False) -> Callable[[F], F]:
    """Register a reverse rule for `f`: a decorator of `rule(*args, **kwargs) -> (y, back)`.

    Parameters
    ----------
    f : callable
        The function, which `track` runs by its rule.
    host : bool
        Whether the rule is a black box; see `custom_gradient`.

    Returns
    -------
    callable
        The decorator. `back(dy)` gets a cotangent of y (of y's structure, if it has one) and
        returns a tuple, one entry per positional argument, None for no gradient.

    See Also
    --------
    track, frule, scalar_rule, tracker.testing.check_rule

    Notes
    -----
    Arguments are plain, or tracked by outer derivatives only, so that a rule in NumPy can be
    differentiated again, and is compiled.

    Examples
    --------
    >>> def cube(x): return x * x * x
    >>> @rrule(cube)
    ... def _(x):
    ...     return x**3, lambda dy: (dy * 3 * x**2,)
    >>> tracker.gradient(lambda x: track(cube, x), 2.0)
    (12.0,)
    """

    known = _rule_for(f)

    def register(rule: F) -> F:
        known.reverse, known.host = rule, known.host or host
        return rule

    return register


def frule(f: Callable[..., Any]) -> Callable[[F], F]:
    """Register a forward rule for `f`: a decorator of `rule(tangents, *args) -> (y, dy)`.

    Parameters
    ----------
    f : callable
        The function, which `track` runs by its rule.

    Returns
    -------
    callable
        The decorator. `tangents` has one entry per positional argument, None for an argument that
        is not a number.

    See Also
    --------
    track, rrule, scalar_rule

    Notes
    -----
    Without a reverse rule, reverse mode transposes this one.

    Examples
    --------
    >>> def cube(x): return x * x * x
    >>> @frule(cube)
    ... def _(tangents, x):
    ...     return x**3, 3 * x**2 * tangents[0]
    >>> tracker.jvp(lambda x: track(cube, x), (2.0,), (1.0,))
    (8.0, np.float64(12.0))
    """

    known = _rule_for(f)

    def register(rule: F) -> F:
        known.forward = rule
        return rule

    return register


def _require_hash(f: Callable[..., Any]) -> None:
    try:
        hash(f)
    except TypeError:  # of a function in C, by ctypes
        text = f"rules are found by the function, and a {type(f).__name__} has no hash"
        raise RuleError(
            text, "Name a Python function that calls it: def f(x): return c_function(x)"
        ) from None


def _rule_for(f: Callable[..., Any]) -> CustomRule:
    if not callable(f):
        raise RuleError(f"a rule was to be registered for a {type(f).__name__}", "Name a function")
    _require_hash(f)
    _SCALAR_OPS.pop(f, None)
    known = registered_rule(f)
    if known is None:
        known = _RULES[f] = CustomRule(_function_name(f), f)
        _register_with_numpy(f, lambda *args, **kwargs: apply_rule(_RULES[f], args, kwargs))
    return known


def _register_with_numpy(f: Any, call: Callable[..., Any]) -> None:
    """Make calls of a NumPy function with tracked values use its rule, unless it has a
    derivative."""
    if f not in NUMPY and f not in UFUNCS and _is_numpy_function(f):
        NUMPY[f] = call


def _is_numpy_function(f: Any) -> bool:
    """Whether NumPy dispatches calls of a function to its tracked arguments."""
    return isinstance(f, np.ufunc) or hasattr(f, "_implementation")


def scalar_rule(f: F, *partials: Any) -> F:
    """Register the partial derivatives of an elementwise function, one per argument.

    Parameters
    ----------
    f : callable
        A function of numbers or arrays that works elementwise; `track` runs it by the rule.
    *partials : callable or number
        Each a function of f's arguments, or a number where it is constant.

    Returns
    -------
    callable
        `f`.

    See Also
    --------
    track, rrule, frule

    Notes
    -----
    Gives both modes; a cotangent of zero stays zero where a partial derivative is infinite, and
    arguments broadcast.

    Examples
    --------
    >>> def softplus(x): return np.logaddexp(0.0, x)
    >>> scalar_rule(softplus, lambda x: 1 / (1 + np.exp(-x))) is softplus
    True
    >>> tracker.gradient(lambda x: track(softplus, x), 0.0)
    (0.5,)
    """
    if not partials or not all(callable(p) or isinstance(p, (int, float)) for p in partials):
        raise RuleError(
            f"scalar_rule of {_function_name(f)} got no derivatives, or something that is none",
            "Give one function of f's arguments per argument, or a number",
        )
    _require_hash(f)
    _RULES.pop(f, None)
    _OWN_RULES.pop(f, None)
    rules = [_drop_result(p) if callable(p) else p for p in partials]
    _SCALAR_OPS[f] = replace(
        call_op(_function_name(f), f, f, f),
        infer=infer_by_example(f),
        jvp=(None,) * len(rules),
        vjp=(None,) * len(rules),
        partials=tuple(rules),
    )
    _register_with_numpy(f, lambda *args: _apply_scalar(_SCALAR_OPS[f], f, args))
    return f


def _drop_result(partial: Callable[..., Any]) -> Callable[..., Any]:
    return lambda y, *xs: partial(*xs)


def _apply_scalar(op: Op, f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    assert op.partials is not None
    if len(args) != len(op.partials):
        raise RuleError(
            f"{op.name} got {len(args)} argument(s), and its scalar_rule names "
            f"{len(op.partials)} derivative(s)",
            "Name one derivative per argument",
        )
    for x in args:
        if not tree.is_numeric(plain_data(x)):
            raise RuleError(
                f"{op.name} is elementwise, and got a {type(x).__name__}", "Give arrays"
            )
    operands = tuple(
        value_of(x) if type(x) is Tracked else snapshot(x) if type(x) is np.ndarray else x
        for x in args
    )
    if not any(type(x) is Tracked for x in args):
        return f(*args)
    y = f(*args) if is_tracing() else f(*[plain_data(x) for x in args])
    refuse_captured(op.name, [y], [o for o in operands if type(o) is Value], is_tracing())
    return alias_to_primal(Value(plain_data(y), op, operands, {}), y)


@overload
def custom_gradient(
    function: Callable[P, tuple[R, Callable[..., Any]]], *, host: bool = False
) -> Callable[P, R]: ...
@overload
def custom_gradient(
    *, host: bool = False
) -> Callable[[Callable[P, tuple[R, Callable[..., Any]]]], Callable[P, R]]: ...
def custom_gradient(
    function: Callable[..., Any] | None = None, *, host: bool = False
) -> Callable[..., Any]:
    """Define a function and its reverse rule in one: a decorator of `f(*args) -> (y, back)`.

    Parameters
    ----------
    function : callable
        Returns `y` and a function `back(dy)`, which gets a cotangent of `y` and returns a tuple,
        one entry per positional argument, each of the argument's shape, or None for no gradient.
    host : bool
        Whether the body is a black box (C, numba, a socket) that needs plain arrays. Compiled code
        calls back into Python for it, forward mode calls `back` once per entry of `y`, and its
        gradient has no gradient.

    Returns
    -------
    callable
        Called like any function of those arguments; returns `y`.

    Raises
    ------
    RuleError
        When it is differentiated: what `back` returned has the wrong number of entries, or a shape
        or dtype that is not the argument's.

    See Also
    --------
    rrule, scalar_rule, tracker.testing.check_rule

    Examples
    --------
    >>> @custom_gradient
    ... def clipped(x):
    ...     return x, lambda dy: (np.clip(dy, -1.0, 1.0),)
    >>> tracker.gradient(lambda x: 5.0 * clipped(x), 2.0)
    (1.0,)
    """
    if function is None:
        return functools.partial(custom_gradient, host=host)

    def primal(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        if not (isinstance(made, tuple) and len(made) == 2 and callable(made[1])):
            raise rule.error(
                f"returned a {type(made).__name__}", "Return the pair (y, back), back a function"
            )
        return made[0]

    rule = CustomRule(_function_name(function), primal, function, host=host)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return apply_rule(rule, args, kwargs)

    made = made_by(call, functools.partial(custom_gradient, host=host), function)
    _OWN_RULES[made] = rule
    return made


def nobacksies(name: str, x: T) -> T:
    """`x` with a derivative that raises an error naming `name`.

    Parameters
    ----------
    name : str
        The name of the rule, for the error.
    x
        A result of the rule's `back`.

    Returns
    -------
    `x`. The first derivative works, the second raises `RuleError`.

    Examples
    --------
    >>> nobacksies("f", 2.0)
    2.0
    """
    return refuse_second_derivative(name, x, (x,))  # type: ignore[no-any-return]


def collect(xs: Any) -> Any:
    """An array of (nested lists of) tracked numbers, as one tracked array.

    Parameters
    ----------
    xs : sequence
        Numbers, tracked or not, or equally long sequences of them.

    Returns
    -------
    Tracked or ndarray
        An array of the dtype that NumPy would give.

    See Also
    --------
    stack

    Examples
    --------
    >>> x = tracker.param(2.0)
    >>> collect([[x, x * x], [1.0, 0.0]])
    tracked(array([[2., 4.],
           [1., 0.]]))
    """
    if isinstance(xs, np.ndarray) and xs.dtype == object:
        return np.reshape(collect(list(xs.flat)), xs.shape)
    if isinstance(xs, (list, tuple)):
        parts = [collect(x) for x in xs]
        return stack(parts) if parts else np.array(parts)
    return xs


def stack(xs: Any, axis: int = 0) -> Any:
    """`np.stack` of tracked and plain arrays and numbers.

    Parameters
    ----------
    xs : sequence of array_like
        Of one shape.
    axis : int
        The new axis in the result.

    Returns
    -------
    Tracked or ndarray
        With one axis more than its parts.

    See Also
    --------
    collect

    Examples
    --------
    >>> stack([tracker.param(1.0), 2.0])
    tracked(array([1., 2.]))
    """
    return np.stack(list(xs), axis=axis)


def registered_rule(f: Any) -> CustomRule | None:
    """The rule registered for a function, or None."""
    return _RULES.get(f) or _OWN_RULES.get(f)


def rule_functions(f: Any) -> list[Callable[..., Any]]:
    """The functions that traces run as derivatives of a function; those that are black boxes run
    at each call."""
    try:
        rule, op = registered_rule(f), _SCALAR_OPS.get(f)
    except TypeError:  # it has no hash
        return []
    functions: list[Any] = []
    if rule is not None and not rule.host:
        functions += rule.reverse, rule.forward
    if op is not None and op.partials is not None:
        functions += op.partials
    return [function for function in functions if callable(function)]


def functions_with_rules(names: Container[str]) -> list[Any]:
    """The functions of these names that have rules."""
    return [f for f in (*_RULES, *_SCALAR_OPS) if getattr(f, "__name__", "") in names]


def _function_name(f: Any) -> str:
    return getattr(f, "__name__", type(f).__name__)
