"""Checking derivatives, for the tests of this package and for users' own functions and ops.

Owns: `gradcheck` and `ngradient` (a function against central differences), `check_rule` (a rule
that a user registered), `check_op` (an op's declaration against NumPy, differences and itself),
`numerical_jvp`, `CHECKS` (the checks that
`check_op` runs). Start at `check_derivatives`.

How differences are taken: a five-point stencil at several steps; of these the estimate that agrees
best with the one before it, element by element. Where that disagrees with a derivative, nearer
steps are taken: there may be a kink or a jump in between. Complex numbers are pairs of reals: the
gradient of a real function of z = x + iy is df/dx + i df/dy, and <a, b> = real(conj(a) b) summed.

Invariant: arguments are copied before every call of the function under test.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tracker import tree
from tracker.errors import NotScalarError, message
from tracker.ir.op import Op
from tracker.ir.types import type_of
from tracker.leaves import data
from tracker.ops.bundle import parts_of
from tracker.pullbacks import jvp, pullback, pushforward
from tracker.rules import rules_of, track
from tracker.tape import apply

_STEPS = (1e-2, 2e-3, 4e-4, 8e-5)
_NEARER = (1.6e-5, 3.2e-6, 6.4e-7)
_TOLERANCES = {4: (2e-3, 1e-4), 2: (5e-2, 5e-2)}  # bytes of a real: rtol, atol


# Functions ----------------------------------------------------------------------------------------


def gradcheck(
    f: Callable[..., Any],
    *args: Any,
    rtol: float | None = None,
    atol: float | None = None,
    order: int = 1,
) -> bool:
    """Compare the reverse and forward derivatives of `f` with central differences.

    Arguments and result may be structures; every float and complex number in the arguments is
    moved. With `order=2`, the derivative of the derivative is compared, too. Returns True, or
    raises an AssertionError that names the first entry that differs. Tolerances follow the
    precision of the arguments where they are not given.

    >>> gradcheck(lambda x: np.sum(np.sin(x) * x[0]), np.array([0.3, -2.0]))
    True
    """
    found, structure = tree.flatten(args, tree.is_number_list)
    leaves = [np.array(x) if type(x) is list else x for x in found]
    moving = [i for i, x in enumerate(leaves) if _is_float(x)]
    if not moving:
        raise NotScalarError(
            message("gradcheck found no float or complex number to move", "Give 2.0, not 2")
        )

    def g(*moved: Any) -> list[Any]:
        now = [_copy(x) for x in leaves]
        for i, x in zip(moving, moved, strict=True):
            now[i] = _copy(x)
        y = f(*tree.unflatten(structure, now, args))
        return [out for out in tree.leaves(y) if tree.is_numeric(data(out))]

    xs = [leaves[i] for i in moving]
    names = _names(args, structure)
    tolerances = _tolerances(xs, rtol, atol)
    _check_entries(g, xs, [names[i] for i in moving], *tolerances)
    if order > 1:
        check_derivatives(g, xs, order=order, rtol=tolerances[0], atol=tolerances[1])
    return True


def check_rule(f: Callable[..., Any], *args: Any, order: int = 2) -> bool:
    """Check the rule registered for `f` (or a function made by `custom_gradient`) at arguments.

    Its value is the function's; its derivatives, in both modes and to `order`, are those of
    central differences. Returns True, or raises an AssertionError that says what differs.

    >>> def cube(x): return x * x * x
    >>> @tracker.rrule(cube)
    ... def _(x):
    ...     return x**3, lambda dy: (dy * 3 * x**2,)
    >>> check_rule(cube, np.array([1.0, 2.0]))
    True
    """
    rule = rules_of(f)
    if rule is not None and rule.primal is f and rule.reverse is not None:
        values = zip(tree.leaves(f(*args)), tree.leaves(rule.reverse(*args)[0]), strict=True)
        for a, b in values:
            _assert_close(b, a, 1e-6, 1e-9, f"the rule of {rule.name} gives another value")
    return gradcheck(lambda *moved: track(f, *moved), *args, order=order)


def ngradient(f: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """The gradient of a scalar function by central differences: as `tracker.gradient`, but slow."""
    found, structure = tree.flatten(args, tree.is_number_list)
    leaves = [
        np.array(x, dtype=np.result_type(np.array(x), 1.0)) if type(x) is list else x for x in found
    ]

    def at(i: int, x: Any) -> list[Any]:
        now = [_copy(leaf) for leaf in leaves]
        now[i] = x
        y = data(f(*tree.unflatten(structure, now, args)))
        if np.shape(y) != ():
            raise NotScalarError(
                message(
                    f"ngradient needs a scalar; the output has shape {np.shape(y)}", "Use np.sum"
                )
            )
        return [y]

    out: list[Any] = []
    for i, x in enumerate(leaves):
        if not tree.is_numeric(x):
            out.append(None)
            continue
        entries = [_difference(partial(at, i), x, way)[0] for way in _ways(x)]
        out.append(_as_gradient(entries, x))
    gradient: tuple[Any, ...] = tree.unflatten(structure, out, args)
    return gradient


def numerical_jvp(
    f: Callable[..., Any],
    args: Sequence[Any],
    tangents: Sequence[Any],
    steps: Sequence[float] = _STEPS,
) -> list[Any]:
    """The derivative of `f` (which returns a list) in a direction, by central differences."""

    def along(step: float) -> list[Any]:
        return list(f(*[_moved(x, t, step) for x, t in zip(args, tangents, strict=True)]))

    return _slope(along, steps)


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
    args = [_copy(x) for x in args]
    y, push = pushforward(f, *args)
    rtol, atol = _tolerances([*args, *y], rtol, atol)
    _, pull = pullback(f, *args)
    g = [_random_like(out, rng) for out in y]
    cotangents = pull(g)
    for at, x in enumerate(args):
        t = _random_like(x, rng)
        tangents = [t if i == at else None for i in range(len(args))]
        ours = push(*tangents)
        wide = [_widen(a) for a in args]
        moves = [_zero(a) if t is None else t for a, t in zip(args, tangents, strict=True)]

        def check(theirs: list[Any], ours: Any = ours, at: int = at) -> None:
            for a, b in zip(ours, theirs, strict=True):
                _assert_close(a, b, rtol, atol, f"jvp of operand {at} against differences")

        _check_near(check, partial(numerical_jvp, f, wide, moves))
        left = sum(_inner(a, b) for a, b in zip(g, ours, strict=True))
        scale = sum(_inner(np.abs(a), np.abs(b)) for a, b in zip(g, ours, strict=True))
        _assert_close(
            _inner(cotangents[at], t),
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
    """Every entry of vjp and jvp against differences."""
    rng = np.random.default_rng(0)
    y, pull = pullback(f, *xs)
    _, push = pushforward(f, *xs)
    g = [_random_like(out, rng) for out in y]
    cotangents = pull(g)
    for at, x in enumerate(xs):
        for way in _ways(x):
            position, direction = way
            where = names[at] + (f"[{', '.join(map(str, position))}]" if position else "")
            where += " (imaginary part)" if direction == 1j else ""
            have = np.asarray(cotangents[at])[position]
            have = np.imag(have) if direction == 1j else np.real(have)
            t = _unit(x, way)
            ours = push(*[t if i == at else None for i in range(len(xs))])

            def check(
                theirs: list[Any], where: str = where, have: Any = have, ours: Any = ours
            ) -> None:
                want = sum(_inner(a, b) for a, b in zip(g, theirs, strict=True))
                _assert_close(have, want, rtol, atol, f"gradient (vjp) of {where}")
                for a, b in zip(ours, theirs, strict=True):
                    _assert_close(a, b, rtol, atol, f"derivative (jvp) along {where}")

            _check_near(check, partial(_difference, partial(_with_moved, f, xs, at), x, way))


def _check_near(check: Callable[[list[Any]], None], differences: Callable[..., list[Any]]) -> None:
    """Check derivatives against differences; if they disagree, against those of nearer steps."""
    try:
        check(differences(_STEPS))
    except AssertionError as error:
        try:
            check(differences(_NEARER))
        except AssertionError:
            raise error from None


def _with_moved(f: Callable[..., Any], xs: list[Any], at: int, moved: Any) -> list[Any]:
    return list(f(*[moved if i == at else _widen(x) for i, x in enumerate(xs)]))


def _names(args: Any, structure: tree.Structure) -> list[str]:
    """How to call each leaf of the arguments in a message."""
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


# Numbers ------------------------------------------------------------------------------------------


def _is_float(x: Any) -> bool:
    return tree.is_numeric(x) and np.result_type(x).kind in "fc"


def _copy(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def _widen(x: Any) -> Any:
    """A float32 or float16 as float64, so that differences have digits."""
    kind = np.result_type(x)
    if kind.kind in "fc" and kind.itemsize < np.result_type(kind, np.float64).itemsize:
        return np.asarray(x).astype(np.result_type(kind, np.float64))[()]
    return _copy(x)


def _zero(x: Any) -> Any:
    return np.zeros_like(_widen(x))[()]


def _real_bytes(x: Any) -> int:
    kind = np.result_type(x)
    return kind.itemsize // 2 if kind.kind == "c" else kind.itemsize


def _tolerances(xs: Sequence[Any], rtol: float | None, atol: float | None) -> tuple[float, float]:
    least = min((_real_bytes(x) for x in xs if _is_float(x)), default=8)
    usual = _TOLERANCES.get(least, (1e-6, 1e-8))
    return usual[0] if rtol is None else rtol, usual[1] if atol is None else atol


def _random_like(x: Any, rng: np.random.Generator) -> Any:
    """Numbers between 0.5 and 1.5 in size, of x's shape and float dtype."""
    kind = np.result_type(x)
    shape = np.shape(x)
    values = rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    if kind.kind == "c":
        values = values + 1j * rng.uniform(-1.5, 1.5, shape)
    kind = kind if kind.kind in "fc" else np.dtype(float)
    return np.asarray(values).astype(kind)[()]


def _inner(a: Any, b: Any) -> Any:
    """The real inner product."""
    if a is None or b is None:
        return 0.0
    return np.sum(np.real(np.conjugate(_widen(a)) * b))


def _moved(x: Any, t: Any, step: float) -> Any:
    x = _widen(x)
    return x + step * _widen(t) if np.result_type(x).kind in "fc" else x


Way = tuple[tuple[int, ...], complex]


def _ways(x: Any) -> list[Way]:
    """The directions in which one entry can move: (position, 1 or 1j)."""
    parts = (1.0, 1j) if np.result_type(x).kind == "c" else (1.0,)
    return [(position, part) for position in np.ndindex(np.shape(x)) for part in parts]


def _unit(x: Any, way: Way) -> Any:
    kind = np.result_type(x)
    t = np.zeros(np.shape(x), kind if kind.kind in "fc" else float)
    t[way[0]] = way[1]
    return t[()]


def _difference(
    f: Callable[[Any], list[Any]], x: Any, way: Way, steps: Sequence[float] = _STEPS
) -> list[Any]:
    """The slope of `f` as one entry of x moves."""
    base = x + 0.0 if np.result_type(x).kind in "biu" else _widen(x)
    scale = max(abs(complex(np.asarray(x)[way[0]])), 0.1)
    t = _unit(base, way)
    t = t.item() if isinstance(x, (int, float, complex)) else t
    return [d / scale for d in _slope(lambda step: f(base + (step * scale) * t), steps)]


def _slope(f: Callable[[float], list[Any]], steps: Sequence[float]) -> list[Any]:
    """The derivative at 0 of a function of the step."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimates = [_stencil(f, h) for h in steps]
    return [_best(list(column)) for column in zip(*estimates, strict=True)]


def _stencil(f: Callable[[float], list[Any]], h: float) -> list[Any]:
    near, far = (
        [np.subtract(a, b, dtype=_wide(a)) for a, b in zip(f(s), f(-s), strict=True)]
        for s in (h, 2 * h)
    )
    return [(8 * a - b) / (12 * h) for a, b in zip(near, far, strict=True)]


def _wide(x: Any) -> Any:
    return np.result_type(x, np.float64)


def _best(estimates: list[Any]) -> Any:
    """Element by element, the estimate that agrees best with the one before it."""
    stacked = np.array(estimates)
    with np.errstate(all="ignore"):
        apart = np.abs(np.diff(stacked, axis=0))
    apart = np.where(np.isnan(apart), np.inf, apart)
    chosen = np.argmin(apart, axis=0)[None] + 1
    return np.take_along_axis(stacked, chosen, axis=0)[0][()]


def _as_gradient(entries: list[Any], x: Any) -> Any:
    """Real slopes, one per way, as a gradient in the shape and dtype of x."""
    kind = np.result_type(x)
    values = np.array([complex(e).real for e in entries])
    if kind.kind == "c":
        values = values[0::2] + 1j * values[1::2]
    if isinstance(x, (int, float, complex)):
        return values[0].item()
    return values.reshape(np.shape(x)).astype(kind if kind.kind in "fc" else float)[()]


def _assert_close(have: Any, want: Any, rtol: float, atol: float, what: str) -> None:
    have, want = np.asarray(have), np.asarray(want)
    if have.shape != want.shape:
        raise AssertionError(f"{what}: shape {have.shape} instead of {want.shape}")
    good = np.isclose(have, want, rtol=rtol, atol=atol, equal_nan=True)
    if np.all(good):
        return
    position = tuple(int(i) for i in np.argwhere(~good)[0])
    at = f" at output entry {list(position)}" if position else ""
    raise AssertionError(
        f"{what}: {have[position]!s} where {want[position]!s} was expected{at} "
        f"(rtol={rtol:g}, atol={atol:g})"
    )


# Ops ----------------------------------------------------------------------------------------------


def check_infer(op: Op, operands: Sequence[Any], params: dict[str, Any]) -> None:
    """The declared type is the type NumPy gives."""
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
        given = [_narrow(x) if narrow else x for x in operands]
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
    """At extreme operands the derivative warns of nothing and is what wider numbers give."""
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
            _assert_close(
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
    """The op as a function of the operands it has derivatives for, and these."""
    rules = op.vjp if isinstance(op.vjp, tuple) else (op.vjp,)
    moving = [
        i
        for i, x in enumerate(operands)
        if rules[min(i, len(rules) - 1)] is not None and _is_float(x)
    ]

    def f(*moved: Any) -> list[Any]:
        now = list(operands)
        for i, x in zip(moving, moved, strict=True):
            now[i] = x
        y = apply(op, tuple(now), params)
        return parts_of(y) if type(data(y)) is tuple else [y]

    return f, [operands[i] for i in moving]


def _narrow(x: Any) -> Any:
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

    `extremes` are more tuples of operands, at which the derivative must neither overflow on the way
    nor warn. Raises an AssertionError that says what differs.
    """
    params = params or {}
    check_infer(op, operands, params)
    check_rules(op, operands, params, order)
    check_precision(op, operands, params)
    for extreme in extremes:
        check_extremes(op, extreme, params)
