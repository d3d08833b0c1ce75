"""Gradients of scalar functions, with respect to arguments or to `Params`. Start at `gradient`."""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, NamedTuple, overload

import numpy as np

from tracker import tree
from tracker.autodiff.boundary import (
    LiftedArguments,
    compiled_derivative,
    gradient_entry,
    lower_output,
    run_lifted,
)
from tracker.autodiff.leaves import ancestors, check_loss, plain_data
from tracker.autodiff.params import Grads, Params
from tracker.autodiff.reverse import reverse_sweep
from tracker.errors import ComplexLossError, NotScalarError, NotTrackedError, UnsupportedError
from tracker.rebinding import call_exchanged
from tracker.support.pickling import bound_by, made_by
from tracker.support.shown_text import named_after
from tracker.support.type_variables import G, P, R
from tracker.tape.observers import RunningDerivative, is_tracing
from tracker.tape.record import value_of, wrap
from tracker.tape.tracing.value_guards import speculate_bool
from tracker.tape.tracked import Tracked
from tracker.tape.value import ParamState, Value

if TYPE_CHECKING:
    from tracker.support.type_variables import A, B, C, FloatArray, NumberList, T


class ValueAndGradient(NamedTuple, Generic[R, G]):
    """`val`, the function's plain value, and `grad`, a tuple with one entry per argument."""

    val: R
    grad: G

    def __repr__(self) -> str:
        val, grad = tree.map(
            lambda x: x.item() if isinstance(x, np.generic) else x, (self.val, self.grad)
        )
        return f"(val={val!r}, grad={grad!r})"


Argnums = int | Sequence[int]


@overload
def gradient(  # type: ignore[overload-overlap]  # no call fits two
    f: Callable[[], Any], params: Params, /, *, check_finite: bool = True
) -> Grads: ...
@overload
def gradient(
    f: Callable[[FloatArray], Any], x: NumberList, /, *, check_finite: bool = True
) -> tuple[FloatArray]: ...
@overload
def gradient(f: Callable[[A], Any], x: A, /, *, check_finite: bool = True) -> tuple[A]: ...
@overload
def gradient(
    f: Callable[[float], Any], x: float, /, *, check_finite: bool = True
) -> tuple[float]: ...
@overload
def gradient(
    f: Callable[[A, B], Any], x: A, y: B, /, *, check_finite: bool = True
) -> tuple[A, B]: ...
@overload
def gradient(
    f: Callable[[A, B, C], Any], x: A, y: B, z: C, /, *, check_finite: bool = True
) -> tuple[A, B, C]: ...
@overload
def gradient(
    f: Callable[..., Any], *args: Any, argnums: int, check_finite: bool = True, **kwargs: Any
) -> Any: ...
@overload
def gradient(
    f: Callable[..., Any],
    *args: Any,
    argnums: Sequence[int],
    check_finite: bool = True,
    **kwargs: Any,
) -> tuple[Any, ...]: ...
@overload
def gradient(
    f: Callable[..., Any], *args: Any, check_finite: bool, **kwargs: Any
) -> tuple[Any, ...]: ...
@overload
def gradient(f: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> tuple[Any, ...]: ...
def gradient(  # type: ignore[misc]  # `f` has no such keywords
    f: Callable[..., Any],
    *args: Any,
    argnums: Argnums | None = None,
    check_finite: bool = True,
    **kwargs: Any,
) -> Any:
    """The gradient of a scalar function: a tuple, one entry per positional argument.

    Parameters
    ----------
    f : callable
        A function of NumPy arrays, numbers, or structures of them (tuples, lists, dicts, named
        tuples, dataclasses, objects of your own classes), whose result is a real scalar. If it is
        jitted, its gradient runs compiled.
    *args
        The point. A list of numbers counts as an array; whatever offers an array (a Series, a
        tensor, a memoryview) as that array. `gradient(f, Params([w, b]))` takes an `f` without
        arguments.
    argnums : int or sequence of int, optional
        The positions of the arguments to differentiate: an int gives one entry, a sequence a tuple.
        By default all.
    check_finite : bool
        Whether a result of `f` that is NaN or infinite raises.
    **kwargs
        Passed to `f`, and not differentiated.

    Returns
    -------
    tuple
        For each argument a plain array or number, of the argument's structure, shape and float
        dtype (integers give float64). Floats that the result does not depend on get zeros; leaves
        that are no numbers, and such integers, None. For `Params`, a `Grads`.

    Raises
    ------
    NotScalarError
        The result of `f` is an array: use `np.sum`, or `jacobian`.
    ComplexLossError
        The result of `f` is complex.
    NonFiniteError
        The result of `f` is NaN or infinite.
    NotTrackedError
        There is no number among the arguments.
    UnsupportedError
        An argument is more than its array of numbers (a masked array, one with units).
    ConversionError
        A tracked value was converted to a plain number on the way, which would lose the gradient.

    See Also
    --------
    withgradient, value_and_grad, jacobian, hessian

    Notes
    -----
    Reverse mode on a tape that `f` writes as it runs. For complex arguments z = x + iy the gradient
    is df/dx + i df/dy. Choices at kinks and ties are fixed; see the page on conventions.

    Examples
    --------
    >>> gradient(lambda x: np.sum(np.abs(x) ** 2) + np.prod(x[1:]), [1, 2, 3])
    (array([2., 7., 8.]),)
    >>> gradient(lambda x, a: np.sum(a * x**2), np.array([1.0, 2.0]), 3.0, argnums=1)
    5.0
    """
    if argnums is not None:
        differentiate = _with_argnums(f, argnums, "gradient", False, check_finite)
        return differentiate(*args, **kwargs)[1]
    if len(args) == 1 and isinstance(args[0], Params):
        return _params_gradient(f, args[0], "gradient", check_finite)[1]
    if not args:
        require_arguments(f, "gradient", kwargs)
    compiled = compiled_derivative(f, ("gradient", check_finite), _build_gradient, check_finite)
    if compiled is not None:
        return compiled(*args, **kwargs)
    lifted, y = run_lifted(f, args, kwargs)
    root = _scalar_root(y, "gradient", check_finite)
    return lifted.unflatten(_gradient_entries(lifted, root))


@overload
def withgradient(  # type: ignore[overload-overlap]  # no call fits two
    f: Callable[[], R], params: Params, /, *, check_finite: bool = True
) -> ValueAndGradient[R, Grads]: ...
@overload
def withgradient(
    f: Callable[[FloatArray], R], x: NumberList, /, *, check_finite: bool = True
) -> ValueAndGradient[R, tuple[FloatArray]]: ...
@overload
def withgradient(
    f: Callable[[A], R], x: A, /, *, check_finite: bool = True
) -> ValueAndGradient[R, tuple[A]]: ...
@overload
def withgradient(
    f: Callable[[float], R], x: float, /, *, check_finite: bool = True
) -> ValueAndGradient[R, tuple[float]]: ...
@overload
def withgradient(
    f: Callable[[A, B], R], x: A, y: B, /, *, check_finite: bool = True
) -> ValueAndGradient[R, tuple[A, B]]: ...
@overload
def withgradient(
    f: Callable[[A, B, C], R], x: A, y: B, z: C, /, *, check_finite: bool = True
) -> ValueAndGradient[R, tuple[A, B, C]]: ...
@overload
def withgradient(
    f: Callable[..., R], *args: Any, argnums: int, check_finite: bool = True, **kwargs: Any
) -> ValueAndGradient[R, Any]: ...
@overload
def withgradient(
    f: Callable[..., R],
    *args: Any,
    argnums: Sequence[int],
    check_finite: bool = True,
    **kwargs: Any,
) -> ValueAndGradient[R, tuple[Any, ...]]: ...
@overload
def withgradient(
    f: Callable[..., R], *args: Any, check_finite: bool, **kwargs: Any
) -> ValueAndGradient[R, tuple[Any, ...]]: ...
@overload
def withgradient(
    f: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> ValueAndGradient[R, tuple[Any, ...]]: ...
def withgradient(  # type: ignore[misc]  # `f` has no such keywords
    f: Callable[..., Any],
    *args: Any,
    argnums: Argnums | None = None,
    check_finite: bool = True,
    **kwargs: Any,
) -> Any:
    """The value and the gradient of `f`, as a named tuple (val, grad); `argnums` as in `gradient`.

    Parameters
    ----------
    f : callable
        As for `gradient`. If it returns a tuple, named tuple or dict, the first item is the loss.
    *args, **kwargs
        As for `gradient`. Integers inside structures are not differentiated (entry None).
    argnums : int or sequence of int, optional
        The arguments to differentiate; by default all.
    check_finite : bool
        Whether a loss that is NaN or infinite raises.

    Returns
    -------
    val
        All that `f` returned, plain.
    grad : tuple
        As from `gradient`.

    See Also
    --------
    gradient, value_and_grad

    Examples
    --------
    >>> withgradient(lambda x: np.sum(x**2), [1.0, 2.0])
    (val=5.0, grad=(array([2., 4.]),))
    >>> withgradient(lambda x: (x**2, "more"), 3.0).val
    (9.0, 'more')
    """
    if argnums is not None:
        differentiate = _with_argnums(f, argnums, "withgradient", True, check_finite)
        return ValueAndGradient(*differentiate(*args, **kwargs))
    if len(args) == 1 and isinstance(args[0], Params):
        return ValueAndGradient(*_params_gradient(f, args[0], "withgradient", check_finite))
    if not args:
        require_arguments(f, "withgradient", kwargs)
    compiled = compiled_derivative(
        f, ("withgradient", check_finite), _build_withgradient, check_finite
    )
    if compiled is not None:
        return compiled(*args, **kwargs)
    lifted, y = run_lifted(f, args, kwargs)
    root = _scalar_root(_loss_of(y), "withgradient", check_finite)
    entries = _entries_outside_structures(lifted, _gradient_entries(lifted, root))
    return ValueAndGradient(tree.map(lower_output, y), lifted.unflatten(entries))


def _entries_outside_structures(lifted: LiftedArguments, entries: list[Any]) -> list[Any]:
    """The entries, None for integers inside structures."""
    structured = (s.cls is not None for s in lifted.structures for _ in range(s.count))
    return [
        None if inside and value is not None and np.result_type(value.aval).kind in "biu" else entry
        for entry, value, inside in zip(entries, lifted.leaves, structured, strict=True)
    ]


def require_arguments(f: Callable[..., Any], caller: str, kwargs: dict[str, Any]) -> None:
    """Raise where a function that needs arguments gets none: `gradient(f)(x)`."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(**kwargs)
    except TypeError:
        raise NotTrackedError(
            f"{caller} got a function, and no arguments to differentiate with respect to",
            f"Use {caller}(f, x)"
            + (", or value_and_grad(f), which gives a function" if "grad" in caller else ""),
        ) from None


def _loss_of(y: Any) -> Any:
    """The loss: the first of several results."""
    items = list(y.values()) if isinstance(y, dict) else y if isinstance(y, tuple) else (y,)
    return items[0] if items else y


def _params_gradient(
    f: Callable[[], Any], params: Params, caller: str, check_finite: bool
) -> tuple[Any, Grads]:
    """The value of `f`, and its gradients with respect to params that it captures."""
    leaves = params.leaves()
    y = run_for_params(f, caller)
    root = _scalar_root(_loss_of(y) if caller == "withgradient" else y, caller, check_finite)
    seeds = [] if root is None else [(root, _unit_seed(wrap(root), root))]
    found = reverse_sweep(seeds, leaves)
    entries = [gradient_entry(c, value) for value, c in zip(leaves, found, strict=True)]
    entries = [g if _has_outer_argument(g) else plain_data(g) for g in entries]
    return tree.map(plain_data, y), Grads(params, entries)


_params_state = threading.local()


def run_for_params(f: Callable[[], Any], caller: str) -> Any:
    """The result of a function that is differentiated with respect to its params."""
    if getattr(_params_state, "running", False):
        raise UnsupportedError(
            f"{caller} with Params inside another {caller} with Params",
            "Write the inner one with arguments: gradient(lambda w: ..., w)",
        )
    _params_state.running = True
    running = RunningDerivative()
    try:
        with running:
            return call_exchanged(f, ())
    finally:
        running.restore()
        _params_state.running = False


def _has_outer_argument(x: Any) -> bool:
    """Whether a gradient depends on an argument of a derivative around this one."""
    return isinstance(x, Tracked) and any(
        v.op is None and not isinstance(v.params, ParamState) for v in ancestors(value_of(x))
    )


@overload
def value_and_grad(  # type: ignore[overload-overlap]  # of 0 more is known than of an int
    f: Callable[Concatenate[T, P], R],
    argnums: Literal[0] = 0,
    *,
    has_aux: bool = False,
    check_finite: bool = True,
) -> Callable[Concatenate[T, P], tuple[R, T]]: ...
@overload
def value_and_grad(
    f: Callable[P, R], argnums: int, *, has_aux: bool = False, check_finite: bool = True
) -> Callable[P, tuple[R, Any]]: ...
@overload
def value_and_grad(
    f: Callable[P, R], argnums: Sequence[int], *, has_aux: bool = False, check_finite: bool = True
) -> Callable[P, tuple[R, tuple[Any, ...]]]: ...
def value_and_grad(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    check_finite: bool = True,
) -> Callable[..., Any]:
    """A function of the same arguments that returns (value, gradient).

    Parameters
    ----------
    f : callable
        As for `gradient`.
    argnums : int or sequence of int
        The positional arguments to differentiate: an int gives one gradient, a sequence a tuple.
    has_aux : bool
        Whether `f` returns the loss and more; the value is then the whole.
    check_finite : bool
        Whether a loss that is NaN or infinite raises.

    Returns
    -------
    callable
        Of the arguments of `f`, for `scipy.optimize.minimize(value_and_grad(f), x0, jac=True)`. If
        `f` is jitted, it runs value and gradient as one compiled program. Integers inside
        structures are not differentiated (entry None).

    See Also
    --------
    gradient, withgradient

    Examples
    --------
    >>> value_and_grad(lambda x, a: np.sum(a * x**2))(np.array([1.0, 2.0]), 3.0)
    (np.float64(15.0), array([ 6., 12.]))
    """
    return _with_argnums(f, argnums, "value_and_grad", has_aux, check_finite)


def _with_argnums(
    f: Callable[..., Any],
    argnums: Argnums,
    caller: str,
    has_aux: bool,
    check_finite: bool,
) -> Callable[..., Any]:
    """A function that returns the value of `f` and its gradient with respect to some arguments."""
    numbers = _positions(argnums, caller)
    is_single = isinstance(argnums, int)
    compiled = compiled_derivative(
        f,
        (caller, argnums if is_single else numbers, check_finite, has_aux),
        _with_argnums,
        argnums,
        caller,
        has_aux,
        check_finite,
        argnums_of=lambda count: [n % count for n in numbers if -count <= n < count],
    )
    if compiled is not None:
        if type(compiled) is MethodType and caller == "value_and_grad":
            return bound_by(compiled, _with_argnums, f, argnums, caller, has_aux, check_finite)
        return compiled

    def both(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        only = [n + len(args) if n < 0 else n for n in numbers]
        for n in only:
            if not 0 <= n < len(args):
                raise NotTrackedError(
                    f"{caller} differentiates positional argument {n}, and the call has "
                    f"{len(args)} positional argument(s)",
                    "Pass what is differentiated by position, or give other argnums",
                )
        lifted, y = run_lifted(f, args, kwargs, only)
        root = _scalar_root(_loss_of(y) if has_aux else y, caller, check_finite)
        found = _gradient_entries(lifted, root)
        if caller != "gradient":
            found = _entries_outside_structures(lifted, found)
        entries = dict(zip(sorted(only), lifted.unflatten(found), strict=True))
        grads = tuple(entries[n] for n in only)
        value = tree.map(lower_output, y) if has_aux else lower_output(y)
        return value, grads[0] if is_single else grads

    return made_by(
        named_after(both, caller, f), _with_argnums, f, argnums, caller, has_aux, check_finite
    )


def _positions(argnums: Any, caller: str) -> tuple[int, ...]:
    """The positions that `argnums` names."""
    if type(argnums) is int:
        return (argnums,)
    numbers = argnums if isinstance(argnums, (tuple, list)) else (argnums,)
    if any(not isinstance(n, (int, np.integer)) or isinstance(n, bool) for n in numbers):
        raise NotTrackedError(
            f"{caller} got argnums of class {type(argnums).__name__}, which are positions of "
            "arguments",
            "Use value_and_grad(f)(x), or withgradient(f, x)"
            if caller == "value_and_grad"
            else f"Use {caller}(f, x, argnums=0)",
        )
    return tuple(map(int, numbers))


def _build_gradient(f: Callable[..., Any], check_finite: bool) -> Callable[..., Any]:
    return lambda *args, **kwargs: gradient(f, *args, check_finite=check_finite, **kwargs)


def _build_withgradient(f: Callable[..., Any], check_finite: bool) -> Callable[..., Any]:
    return lambda *args, **kwargs: withgradient(f, *args, check_finite=check_finite, **kwargs)


def _scalar_root(y: Any, caller: str, check_finite: bool) -> Value | None:
    """The value to differentiate; None if the result is a plain number. Raises if it is no loss."""
    root = value_of(y) if isinstance(y, Tracked) else None
    if is_tracing():
        plain = y if root is None else root.aval
    else:
        plain = y if root is None else root.data
        if (type(plain) is float or type(plain) is np.float64) and math.isfinite(plain):
            return root
    if not tree.is_numeric(plain):
        raise NotScalarError(
            f"{caller} needs a scalar; the output is a {type(plain).__name__}",
            "Return one number, or use tracker.pullback",
        )
    if np.shape(plain) != ():
        raise NotScalarError(
            f"{caller} needs a scalar; the output has shape {np.shape(plain)}",
            "Use np.sum, or tracker.jacobian",
        )
    if np.iscomplexobj(plain):
        raise ComplexLossError(
            f"{caller} needs a real number; the output is complex ({np.result_type(plain)})",
            "Use np.real or np.abs, or tracker.jacobian",
        )
    if check_finite:  # under a trace this becomes a guard
        finite = speculate_bool(np.isfinite(y), True) if is_tracing() else np.isfinite(plain)
        if not finite:
            check_loss(plain_data(y), caller)
    return root


def _gradient_entries(lifted: LiftedArguments, root: Value | None) -> list[Any]:
    if root is None:
        return lifted.gradient_entries([None] * len(lifted.own_leaves))
    seed = _unit_seed(wrap(root), root)
    return lifted.gradient_entries(
        reverse_sweep([(root, seed)], lifted.own_leaves, lifted.epoch, freed_op=lifted.freed_op)
    )


def _unit_seed(y: Any, root: Value) -> Any:
    """The seed 1 of a scalar; under a trace it is traced, as the shape and dtype are."""
    if (type(root.aval) is float or type(root.aval) is np.float64) and not is_tracing():
        return type(root.aval)(1.0)
    kind = np.result_type(root.aval)
    return np.ones_like(
        y if is_tracing() else root.aval, dtype=kind if kind.kind in "fc" else float
    )[()]
