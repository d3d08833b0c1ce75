"""Pullbacks and pushforwards of functions with results of any structure.

Start at `linearize`, which gives both from one run; jitted functions take
`compiled_linear_map` where possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tracker import tree
from tracker.autodiff.boundary import (
    LiftedArguments,
    array_like_data,
    compiled_derivative,
    convert_all_array_likes,
    is_number_or_array,
    lower_output,
    register_created_objects,
    run_lifted,
    separate_outputs,
    split_method,
)
from tracker.autodiff.forward import forward_sweep
from tracker.autodiff.leaves import plain_data
from tracker.autodiff.reverse import reverse_sweep
from tracker.errors import NotScalarError, UnsupportedError, message
from tracker.support.pickling import holding_residuals
from tracker.support.shown_text import named_after
from tracker.tape.live_leaves import is_history_needed
from tracker.tape.record import aval_of, value_of
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value

if TYPE_CHECKING:
    from tracker.support.type_variables import A, B, C, FloatArray, NumberList, P, R


@overload
def pullback(
    f: Callable[[FloatArray], R], x: NumberList, /
) -> tuple[R, Callable[[Any], tuple[FloatArray]]]: ...
@overload
def pullback(f: Callable[[A], R], x: A, /) -> tuple[R, Callable[[Any], tuple[A]]]: ...
@overload
def pullback(f: Callable[[float], R], x: float, /) -> tuple[R, Callable[[Any], tuple[float]]]: ...
@overload
def pullback(f: Callable[[A, B], R], x: A, y: B, /) -> tuple[R, Callable[[Any], tuple[A, B]]]: ...
@overload
def pullback(
    f: Callable[[A, B, C], R], x: A, y: B, z: C, /
) -> tuple[R, Callable[[Any], tuple[A, B, C]]]: ...
@overload
def pullback(
    f: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...
def pullback(
    f: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """The value of `f`, and a function that pulls a cotangent of it back to the arguments.

    Parameters
    ----------
    f : callable
        Its result may be any structure of numbers and arrays.
    *args
        The point.
    **kwargs
        Passed to `f`, and not differentiated.

    Returns
    -------
    y
        The result of `f`, plain.
    back : callable
        `back(seed)` gives a tuple, one entry per argument, and may be called again. The seed has
        the structure and shapes of `y`; None in it is zero.

    See Also
    --------
    pushforward, gradient

    Examples
    --------
    >>> y, back = pullback(lambda x: [3 * x**2, 2 * x], 5.0)
    >>> back([1.0, 1.0])
    (32.0,)
    """
    compiled = compiled_linear_map(f, "pullback", _build_pullback, args, kwargs)
    if compiled is None:
        outcome, pull, _ = linearize(f, args, kwargs)
    else:
        outcome, pull = compiled
    return outcome, holding_residuals(named_after(pull, "pullback", f))


def _build_pullback(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given, **named: pullback(f, *given[:-1], **named)[1](given[-1])


def _split_halves(given: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Arguments and their tangents."""
    count = len(given) // 2
    return given[:count], given[count:]


def compiled_linear_map(
    f: Callable[..., Any],
    key: Any,
    build: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, Callable[..., Any]] | None:
    """The value of a jitted function and its compiled linear map; None if a plain run is needed.

    The map takes the derivative's further arguments (seeds or tangents) and recomputes the function
    on copies of its arguments, so that writes into them do not reach the caller.
    """
    compiled = compiled_derivative(f, key, build)
    if compiled is None:
        return None
    leaves, structure = tree.flatten((args, kwargs), objects=True)
    if not leaves or not all(map(is_number_or_array, leaves)):
        if any(isinstance(x, Tracked) for x in leaves):
            return None
        args = convert_all_array_likes(args)
        leaves, structure = tree.flatten((args, kwargs), objects=True)
    if next(tree.user_objects(structure, (args, kwargs)), None) is not None:
        return None
    copies = (tree.unflatten(structure, map(_copy_array, leaves), (args, kwargs)) for _ in "ab")
    saved, (given, named) = copies
    function, bound = split_method(f)
    with function._tracker_attempt((*bound, *given), named) as attempt:
        try:
            y = f(*given, **named)
        except Exception:  # a plain run raises it, after writes that the derivative sees
            attempt.roll_back()
            return None
    reading = function._tracker_reading((*bound, *given), named)
    if reading is None or attempt.has_draws():  # a recomputation would draw other numbers
        attempt.roll_back()
        return None
    results, structure = tree.flatten(y)
    outcome = tree.unflatten(structure, separate_outputs(results), y)
    return outcome, lambda *seeds: reading.call_with(compiled, *saved[0], *seeds, **saved[1])


def _copy_array(x: Any) -> Any:
    return np.array(x) if isinstance(x, np.ndarray) else x


def linearize(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Callable[..., Any], Callable[..., Any]]:
    """The value of `f`, its pullback and its pushforward, from one run."""
    LiftedArguments.pullback_count += 1
    lifted, y = run_lifted(f, args, kwargs)
    outputs, structure = tree.flatten(y, objects=True)
    values = [value_of(out) if isinstance(out, Tracked) else None for out in outputs]
    outcome = tree.unflatten(structure, [lower_output(out) for out in outputs], y)

    def pull(seed: Any) -> tuple[Any, ...]:
        seeds = _flatten_as(y, structure, seed, "seed")
        roots = [
            (value, _checked_seed(value, s))
            for value, s in zip(values, seeds, strict=True)
            if value is not None and s is not None
        ]
        found = reverse_sweep(roots, lifted.own_leaves, lifted.epoch)
        return lifted.unflatten(lifted.gradient_entries(found))

    def push_tangents(*tangents: Any) -> Any:
        seeds: list[Any] = []
        given = _one_per_argument(args, tangents)
        for arg, below, tangent in zip(args, lifted.structures, given, strict=True):
            seeds.extend(_flatten_as(arg, below, tangent, "tangent"))
        pairs = [
            (value, None if s is None else _checked_tangent(value, s))
            for value, s in zip(lifted.leaves, seeds, strict=True)
            if value is not None
        ]
        arrived = iter(forward_sweep(pairs, [v for v in values if v is not None], lifted.epoch))
        tangents_of = [
            _zero_tangent(out) if value is None else _tangent_entry(next(arrived), value)
            for value, out in zip(values, outputs, strict=True)
        ]
        dy = tree.unflatten(structure, tangents_of, y)
        register_created_objects(structure, dy)
        return dy

    register_created_objects(structure, outcome)
    return outcome, pull, push_tangents


def _flatten_as(y: Any, structure: tree.Structure, seed: Any, what: str) -> list[Any]:
    """The leaves of a seed or tangent, which must have the structure of `y`."""
    if structure.cls is None:
        return [seed]
    if seed is None:
        return [None] * structure.count
    if isinstance(seed, (np.ndarray, Tracked)) and structure.cls is list and np.ndim(seed):
        seed = list(seed)  # lists of numbers are arrays
    found: list[Any] = []
    try:
        tree.map_as(structure, lambda _, s: found.append(s), y, seed)
    except (ValueError, KeyError) as error:
        raise NotScalarError(
            message(f"the {what} has another structure than the output {structure!r}")
        ) from error
    return found


def _checked_seed(value: Value, seed: Any, what: str = "seed", target: str = "output") -> Any:
    shape = np.shape(value.aval)
    if not isinstance(seed, Tracked):
        seed = np.asarray(seed) if (offered := array_like_data(seed)) is None else offered
        if seed.dtype.kind in "biu":
            seed = seed.astype(np.float64)
        seed = seed.copy()[()]
    elif np.result_type(aval_of(seed)).kind in "biu":
        seed = np.astype(seed, np.float64)
    if np.shape(seed) != shape:
        raise NotScalarError(
            message(f"{what} has shape {np.shape(seed)}, the {target} has shape {shape}")
        )
    return seed


@overload
def pushforward(f: Callable[[FloatArray], R], x: NumberList, /) -> tuple[R, Callable[..., R]]: ...
@overload
def pushforward(
    f: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> tuple[R, Callable[..., R]]: ...
def pushforward(f: Callable[..., R], *args: Any) -> tuple[R, Callable[..., R]]:  # type: ignore[misc]  # takes no keywords of `f`
    """The value of `f`, and a function that pushes tangents of the arguments forward to it.

    Parameters
    ----------
    f : callable
        Its result may be any structure of numbers and arrays.
    *args
        The point.

    Returns
    -------
    y
        The result of `f`, plain.
    push : callable
        `push(*tangents)` takes one tangent per argument, of its structure and shapes (None is
        zero), and gives the tangent of `y`.

    See Also
    --------
    pullback, jvp

    Examples
    --------
    >>> y, push = pushforward(lambda x: x**2, 3.0)
    >>> push(1.0)
    np.float64(6.0)
    """
    compiled = compiled_linear_map(
        f, "pushforward", lambda g: lambda *both: jvp(g, *_split_halves(both))[1], args, {}
    )
    if compiled is None:
        y, _, push = linearize(f, args, {})
    else:
        y, pushed = compiled

        def push(*tangents: Any) -> Any:
            return pushed(*_one_per_argument(args, tangents))

    return y, holding_residuals(named_after(push, "pushforward", f))


def _one_per_argument(args: Sequence[Any], tangents: Sequence[Any]) -> Sequence[Any]:
    """The tangents, after a check that there is one per argument."""
    if len(tangents) != len(args):
        raise UnsupportedError(
            message(f"{len(args)} arguments need {len(args)} tangents; {len(tangents)} were given")
        )
    return tangents


def _checked_tangent(value: Value, seed: Any) -> Any:
    t = _checked_seed(value, seed, "tangent", "argument")
    if isinstance(t, np.ndarray) and isinstance(value.aval, np.ndarray):
        kind = value.aval.dtype
        return t.astype(kind) if kind.kind in "fc" and kind != t.dtype else t
    return t


def _tangent_entry(t: Any, value: Value) -> Any:
    if t is None:
        return np.zeros_like(value.aval)[()]
    if isinstance(t, Tracked) and not is_history_needed(value_of(t)):
        t = plain_data(t)
    return np.copy(t) if type(aval_of(t)) is np.ndarray else t  # a rule may return its operand


def _zero_tangent(out: Any) -> Any:
    return np.zeros_like(out)[()] if tree.is_numeric(out) else None


def jvp(f: Callable[..., R], args: Sequence[Any], tangents: Sequence[Any]) -> tuple[R, R]:
    """The value of `f` at `args`, and its derivative in the direction of `tangents`.

    Parameters
    ----------
    f : callable
        Its result may be any structure of numbers and arrays.
    args : sequence
        The positional arguments of `f`.
    tangents : sequence
        One for each argument, of its structure and shapes; None is zero.

    Returns
    -------
    y
        The result of `f`.
    dy
        Its tangent, of the structure of `y`.

    See Also
    --------
    pushforward, pullback

    Notes
    -----
    Forward mode: no tape is kept, and the memory does not grow with the length of `f`.

    Examples
    --------
    >>> jvp(np.sin, (0.0,), (2.0,))
    (np.float64(0.0), np.float64(2.0))
    """
    if not isinstance(args, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise UnsupportedError(
            f"jvp got a {type(args).__name__} and a {type(tangents).__name__}",
            "Give tuples of arguments and of tangents: jvp(f, (x,), (t,))",
        )
    compiled = compiled_derivative(f, "jvp", lambda g: lambda *both: jvp(g, *_split_halves(both)))
    if compiled is not None:
        return compiled(*args, *_one_per_argument(args, tangents))  # type: ignore[no-any-return]
    y, _, push_tangents = linearize(f, tuple(args), {})
    return y, push_tangents(*tangents)


forward = pullback
