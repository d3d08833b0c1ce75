"""Checks of derivatives, for users' own functions and ops and the tests of this package.

    gradcheck, ngradient   a function against central differences
    check_rule             a rule registered by a user
    check_op               an op's declaration against NumPy, differences and itself

`check_derivatives` is the common core. Where the difference of one step size disagrees with a
derivative, more step sizes are tried, and at last smaller ones, for a kink or jump in between (see
`autodiff/finite_differences.py`).

Invariant: arguments are copied before every call of the function under test.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tracker import tree
from tracker.autodiff.boundary import convert_all_array_likes
from tracker.autodiff.custom_rules import registered_rule, track
from tracker.autodiff.finite_differences import (
    ONE_STEP,
    SMALLER_STEPS,
    STEPS,
    as_gradient,
    assert_close,
    at_least_double,
    copied,
    derivative_at_zero,
    difference_along,
    directions,
    is_float,
    random_like,
    real_inner,
    step_along,
    tolerances_of,
    unit_vector,
    zero_tangent,
)
from tracker.autodiff.leaves import plain_data
from tracker.autodiff.pullbacks import jvp, pullback, pushforward
from tracker.errors import NotScalarError
from tracker.ir.op import Op
from tracker.ir.types import type_of
from tracker.ops.declare.bundle import unbundle
from tracker.tape.record import apply

__all__ = ["check_rule", "gradcheck", "ngradient"]


def __dir__() -> list[str]:
    return __all__


# Functions ----------------------------------------------------------------------------------------


def gradcheck(
    f: Callable[..., Any],
    *args: Any,
    rtol: float | None = None,
    atol: float | None = None,
    order: int = 1,
) -> bool:
    """Compare the reverse and forward derivatives of `f` with central differences.

    Parameters
    ----------
    f : callable
        Its result may be a structure.
    *args
        The point; every float and complex number in it is varied. Arguments are copied before each
        call.
    rtol, atol : float, optional
        Tolerances; by default they follow the precision of the arguments.
    order : int
        2: compare the derivative of the derivative, too.

    Returns
    -------
    bool
        True.

    Raises
    ------
    AssertionError
        Names the first entry that differs.

    See Also
    --------
    ngradient, tracker.testing.check_rule

    Examples
    --------
    >>> gradcheck(lambda x: np.sum(np.sin(x) * x[0]), np.array([0.3, -2.0]))
    True
    """
    args = convert_all_array_likes(args)
    found, structure = tree.flatten(args, tree.is_number_list, objects=True)
    leaves = [np.array(x) if type(x) is list else x for x in found]
    moving = [i for i, x in enumerate(leaves) if is_float(x)]
    if not moving:
        raise NotScalarError(
            "gradcheck found no float or complex number to move", "Give 2.0, not 2"
        )

    def g(*moved: Any) -> list[Any]:
        now = [copied(x) for x in leaves]
        for i, x in zip(moving, moved, strict=True):
            now[i] = copied(x)
        y = f(*tree.unflatten(structure, now, args))
        return [out for out in tree.leaves(y) if tree.is_numeric(plain_data(out))]

    xs = [leaves[i] for i in moving]
    names = _leaf_names(args, structure)
    tolerances = tolerances_of(xs, rtol, atol)
    _check_entries(g, xs, [names[i] for i in moving], *tolerances)
    if order > 1:
        check_derivatives(g, xs, order=order, rtol=tolerances[0], atol=tolerances[1])
    return True


def check_rule(f: Callable[..., Any], *args: Any, order: int = 2) -> bool:
    """Check the rule registered for `f` (or a function made by `custom_gradient`) at arguments.

    Parameters
    ----------
    f : callable
        A function with a rule.
    *args
        The point.
    order : int
        To which derivative.

    Returns
    -------
    bool
        True.

    Raises
    ------
    AssertionError
        The value is not the function's, or a derivative, in either mode, not that of central
        differences.

    See Also
    --------
    gradcheck, tracker.rrule

    Examples
    --------
    >>> def cube(x): return x * x * x
    >>> @tracker.rrule(cube)
    ... def _(x):
    ...     return x**3, lambda dy: (dy * 3 * x**2,)
    >>> check_rule(cube, np.array([1.0, 2.0]))
    True
    """
    rule = registered_rule(f)
    if rule is not None and rule.primal is f and rule.reverse is not None:
        values = zip(tree.leaves(f(*args)), tree.leaves(rule.reverse(*args)[0]), strict=True)
        for a, b in values:
            assert_close(b, a, 1e-6, 1e-9, f"the rule of {rule.name} gives another value")
    return gradcheck(lambda *moved: track(f, *moved), *args, order=order)


def ngradient(f: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """The gradient of a scalar function by central differences: as `tracker.gradient`, but slow.

    Parameters
    ----------
    f : callable
        Its result is a real scalar.
    *args
        The point.

    Returns
    -------
    tuple
        As from `tracker.gradient`, to about 1e-8 in float64.

    See Also
    --------
    gradcheck

    Examples
    --------
    >>> ngradient(lambda x: np.sum(x**2), np.array([1.0, 2.0]))[0].round(6)
    array([2., 4.])
    """
    args = convert_all_array_likes(args)
    found, structure = tree.flatten(args, tree.is_number_list, objects=True)
    leaves = [
        np.array(x, dtype=np.result_type(np.array(x), 1.0)) if type(x) is list else x for x in found
    ]

    def at(i: int, x: Any) -> list[Any]:
        now = [copied(leaf) for leaf in leaves]
        now[i] = x
        y = plain_data(f(*tree.unflatten(structure, now, args)))
        if np.shape(y) != ():
            raise NotScalarError(
                f"ngradient needs a scalar; the output has shape {np.shape(y)}", "Use np.sum"
            )
        return [y]

    out: list[Any] = []
    for i, x in enumerate(leaves):
        if not tree.is_numeric(x):
            out.append(None)
            continue
        entries = [difference_along(partial(at, i), x, way)[0] for way in directions(x)]
        out.append(as_gradient(entries, x))
    gradient: tuple[Any, ...] = tree.unflatten(structure, out, args)
    return gradient


def numerical_jvp(
    f: Callable[..., Any],
    args: Sequence[Any],
    tangents: Sequence[Any],
    steps: Sequence[float] = STEPS,
) -> list[Any]:
    """The derivative of `f` (which returns a list) in a direction, by central differences."""

    def along(step: float) -> list[Any]:
        return list(f(*[step_along(x, t, step) for x, t in zip(args, tangents, strict=True)]))

    return derivative_at_zero(along, steps)


def check_derivatives(
    f: Callable[..., Any],
    args: Sequence[Any],
    *,
    order: int = 1,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> None:
    """Compare jvp with differences and vjp with jvp, in random directions; to any order.

    `f` takes numbers or arrays and returns a list of them.
    """
    rng = np.random.default_rng(seed)
    args = [copied(x) for x in args]
    y, push = pushforward(f, *args)
    rtol, atol = tolerances_of([*args, *y], rtol, atol)
    _, pull = pullback(f, *args)
    g = [random_like(out, rng) for out in y]
    cotangents = pull(g)
    for at, x in enumerate(args):
        t = random_like(x, rng)
        tangents = [t if i == at else None for i in range(len(args))]
        ours = push(*tangents)
        wide = [at_least_double(a) for a in args]
        moves = [zero_tangent(a) if t is None else t for a, t in zip(args, tangents, strict=True)]

        def check(theirs: list[Any], ours: Any = ours, at: int = at) -> None:
            for a, b in zip(ours, theirs, strict=True):
                assert_close(a, b, rtol, atol, f"jvp of operand {at} against differences")

        _check_with_steps(check, partial(numerical_jvp, f, wide, moves))
        left = sum(real_inner(a, b) for a, b in zip(g, ours, strict=True))
        scale = sum(real_inner(np.abs(a), np.abs(b)) for a, b in zip(g, ours, strict=True))
        assert_close(
            real_inner(cotangents[at], t),
            left,
            rtol,
            atol + rtol * scale,
            f"vjp of operand {at} against jvp: <J'g, t> and <g, Jt>",
        )
    if order > 1:
        count = len(args)

        def once_more(*both: Any) -> list[Any]:
            xs, seeds = both[:count], list(both[count:])
            return list(pullback(f, *xs)[1](seeds))

        check_derivatives(
            once_more, [*args, *g], order=order - 1, rtol=rtol * 10, atol=atol * 10, seed=seed + 1
        )


def _check_entries(
    f: Callable[..., Any], xs: list[Any], names: list[str], rtol: float, atol: float
) -> None:
    """Check every entry of vjp and jvp against differences."""
    rng = np.random.default_rng(0)
    y, pull = pullback(f, *xs)
    _, push = pushforward(f, *xs)
    g = [random_like(out, rng) for out in y]
    cotangents = pull(g)
    for at, x in enumerate(xs):
        for way in directions(x):
            position, direction = way
            where = names[at] + (f"[{', '.join(map(str, position))}]" if position else "")
            where += " (imaginary part)" if direction == 1j else ""
            have = np.asarray(cotangents[at])[position]
            have = np.imag(have) if direction == 1j else np.real(have)
            t = unit_vector(x, way)
            ours = push(*[t if i == at else None for i in range(len(xs))])

            def check(
                theirs: list[Any], where: str = where, have: Any = have, ours: Any = ours
            ) -> None:
                want = sum(real_inner(a, b) for a, b in zip(g, theirs, strict=True))
                assert_close(have, want, rtol, atol, f"gradient (vjp) of {where}")
                for a, b in zip(ours, theirs, strict=True):
                    assert_close(a, b, rtol, atol, f"derivative (jvp) along {where}")

            _check_with_steps(
                check, partial(difference_along, partial(_with_argument, f, xs, at), x, way)
            )


def _check_with_steps(
    check: Callable[[list[Any]], None], differences: Callable[..., list[Any]]
) -> None:
    """Check derivatives against differences of one step size; if they disagree, against the best of
    several sizes, then of smaller ones."""
    errors = []
    for steps in (ONE_STEP, STEPS, SMALLER_STEPS):
        try:
            return check(differences(steps))
        except AssertionError as error:
            errors.append(error)
    raise errors[1]


def _with_argument(f: Callable[..., Any], xs: list[Any], at: int, moved: Any) -> list[Any]:
    return list(f(*[moved if i == at else at_least_double(x) for i, x in enumerate(xs)]))


def _leaf_names(args: Any, structure: tree.Structure) -> list[str]:
    """A name for each leaf of the arguments, for messages."""
    out: list[str] = []

    def walk(below: tree.Structure, path: str) -> None:
        if below.cls is None:
            out.append(path)
            return
        for i, (child, label) in enumerate(zip(below.children, below.labels(), strict=True)):
            walk(child, f"{path}[{i if label is None else repr(label)}]")

    for i, child in enumerate(structure.children):
        walk(child, f"argument {i}")
    return out


# Ops ----------------------------------------------------------------------------------------------


def check_infer(op: Op, operands: Sequence[Any], params: dict[str, Any]) -> None:
    """The declared type is the one that NumPy gives."""
    with np.errstate(all="ignore"):
        found = type_of(op.evaluate(*operands, **params))
    declared = op.infer(*(type_of(x) for x in operands), **params)
    if declared != found:
        given = ", ".join(str(type_of(x)) for x in operands)
        raise AssertionError(f"{op.name}({given}): infer says {declared}, evaluate gives {found}")


def check_rules(
    op: Op, operands: Sequence[Any], params: dict[str, Any], order: int = 2, seed: int = 0
) -> None:
    """vjp and jvp against differences and each other, to second order."""
    f, xs = _differentiable(op, operands, params)
    if xs:
        check_derivatives(f, xs, order=order, seed=seed)


def check_precision(op: Op, operands: Sequence[Any], params: dict[str, Any]) -> None:
    """A cotangent has its operand's dtype and shape, a tangent the result's; also in float32."""
    for narrow in (False, True):
        given = [_single_precision(x) if narrow else x for x in operands]
        f, xs = _differentiable(op, given, params)
        if not xs:
            return
        check_infer(op, given, params)
        y, pull = pullback(f, *xs)
        seed = np.ones_like(y[0])[()]
        for at, (c, x) in enumerate(zip(pull([seed]), xs, strict=True)):
            _assert_same_kind(c, x, f"cotangent of operand {at} of {op.name}")
        for at, x in enumerate(xs):
            tangents = [
                np.ones_like(x)[()] if i == at else np.zeros_like(o)[()] for i, o in enumerate(xs)
            ]
            _, t = jvp(f, xs, tangents)
            _assert_same_kind(t[0], y[0], f"tangent of {op.name} along operand {at}")


def check_extremes(op: Op, operands: Sequence[Any], params: dict[str, Any]) -> None:
    """At extreme operands the derivative does not warn, and agrees with longdouble."""
    f, xs = _differentiable(op, operands, params)
    with np.errstate(all="ignore"):
        y, pull = pullback(f, *xs)
        wide = [np.asarray(x).astype(np.result_type(x, np.longdouble))[()] for x in xs]
        exact = pullback(f, *wide)[1]
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        ours = pull([np.ones_like(y[0])[()]])
        theirs = exact([np.ones_like(_longdouble(y[0]))[()]])
    for at, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        with np.errstate(all="ignore"):
            assert_close(
                a,
                np.asarray(b).astype(np.result_type(a)),
                1e-9,
                1e-14,
                f"{op.name}: gradient of operand {at} in float64",
            )


def _longdouble(x: Any) -> Any:
    return np.asarray(x).astype(np.result_type(x, np.longdouble))


def _differentiable(
    op: Op, operands: Sequence[Any], params: dict[str, Any]
) -> tuple[Callable[..., list[Any]], list[Any]]:
    """The op as a function of the operands that it has derivatives for, and these operands."""
    rules = op.vjp if isinstance(op.vjp, tuple) else (op.vjp,)
    moving = [
        i
        for i, x in enumerate(operands)
        if rules[min(i, len(rules) - 1)] is not None and is_float(x)
    ]

    def f(*moved: Any) -> list[Any]:
        now = list(operands)
        for i, x in zip(moving, moved, strict=True):
            now[i] = x
        y = apply(op, tuple(now), params)
        return unbundle(y) if type(plain_data(y)) is tuple else [y]

    return f, [operands[i] for i in moving]


def _single_precision(x: Any) -> Any:
    """The same numbers in single precision."""
    if isinstance(x, (float, complex)) and not isinstance(x, np.generic):
        return x
    kind = np.result_type(x)
    if kind.kind not in "fc":
        return x
    return np.asarray(x).astype(np.complex64 if kind.kind == "c" else np.float32)[()]


def _assert_same_kind(c: Any, x: Any, what: str) -> None:
    have, want = type_of(c), type_of(x)
    if (have.shape, have.dtype) != (want.shape, want.dtype):
        raise AssertionError(f"{what}: {have} instead of {want}")


Check = Callable[[Op, Sequence[Any], dict[str, Any]], None]
CHECKS: list[Check] = [check_infer, check_rules, check_precision]


def check_op(
    op: Op,
    operands: Sequence[Any],
    params: dict[str, Any] | None = None,
    *,
    order: int = 2,
    extremes: Sequence[Sequence[Any]] = (),
) -> None:
    """Check one op at these operands: types, derivatives to `order`, precision, extremes.

    For ops that are declared with `tracker.ops`; rules of your own are checked by `check_rule`.

    Parameters
    ----------
    op : Op
        The op.
    operands : sequence
        The point.
    params : dict, optional
        The op's parameters.
    order : int
        To which derivative.
    extremes : sequence of sequences
        More tuples of operands, at which the derivative must not warn, nor overflow in between.

    Raises
    ------
    AssertionError
        Says what differs.
    """
    params = params or {}
    check_infer(op, operands, params)
    check_rules(op, operands, params, order)
    check_precision(op, operands, params)
    for extreme in extremes:
        check_extremes(op, extreme, params)
