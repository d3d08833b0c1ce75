"""Derivatives of functions, and the older style of `param`, `back`, `grad`.

Owns: `param`, `data`, `grad`, `back`, `update`, `zero_grad`; `gradient`, `withgradient`,
`value_and_grad`, `pullback`, `pushforward`, `jvp`. Start at `pullback`: the others ask it.

Every derivative has the same three steps: wrap the arguments' numbers in fresh leaves of a new
epoch (`Wrapped`), run the function, read the tape from the results to the leaves.
"""

from __future__ import annotations

import cmath
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tracker import tree
from tracker.errors import (
    ComplexLossError,
    GraphUsedError,
    NonFiniteError,
    NotScalarError,
    NotTrackedError,
    UnsupportedError,
    message,
)
from tracker.forward import push
from tracker.mutation import invalidate
from tracker.ops.declare import project
from tracker.ops.shape import identity, item
from tracker.params import Grads, Params
from tracker.reverse import USED, sweep
from tracker.tape import (
    Value,
    apply,
    close,
    is_recording,
    leaf,
    new_epoch,
    snapshot,
    value_of,
    wrap,
)
from tracker.tracked import Leaf, Tracked, grad_of, new_param

# Tracked values ---------------------------------------------------------------------------------


def param(x: Any) -> Any:
    """A tracked leaf with its own copy of `x`: a number, an array, or a list of numbers.

    Integers and bools become float64; float and complex dtypes are kept. A tracked `x` gives an
    identity node of `x`.

    >>> param([1, 2, 3])
    tracked(array([1., 2., 3.]))
    """
    if isinstance(x, Tracked):
        return apply(identity, (x,))
    if isinstance(x, (bool, int)):
        return new_param(float(x))
    if isinstance(x, (float, complex, np.inexact)):
        return new_param(x)
    if not isinstance(x, (np.ndarray, np.generic)) and not tree.is_number_list(x):
        raise NotTrackedError(
            message(
                f"param got a {type(x).__name__}",
                "Give a number, a NumPy array or a list of numbers; for a structure, "
                "tracker.tree.map(tracker.param, model)",
            )
        )
    array = np.array(x)
    if array.dtype.kind in "biu":
        array = array.astype(np.float64)
    if array.dtype.kind not in "fc":
        raise NotTrackedError(
            message(f"param got an array of dtype {array.dtype}", "Give real or complex numbers")
        )
    return new_param(array[()])


def data(x: Any) -> Any:
    """The plain array or number inside `x`; an untracked `x` itself."""
    return x.data if isinstance(x, Tracked) else x


def grad(x: Any) -> Any:
    """The accumulated gradient of `x` as a plain array.

    Zeros for a leaf nothing has reached; None for an untracked value, or an interior one that no
    `back` has reached.
    """
    return grad_of(value_of(x)) if isinstance(x, Tracked) else None


def istracked(x: Any) -> bool:
    """Whether `x` records what is done with it."""
    return isinstance(x, Tracked)


def isleaf(x: Any) -> bool:
    """Whether `x` has no history: made by `param`, or not tracked."""
    return not isinstance(x, Tracked) or not value_of(x).operands


def zero_grad(x: Any) -> Any:
    """Forget the accumulated gradient of a leaf; returns `x`."""
    if isinstance(x, Tracked) and isinstance(owner := value_of(x).params, Leaf):
        owner.grad = None
    return x


def update(x: Any, delta: Any) -> Any:
    """Add `delta` in place to a tracked leaf or a plain array; zero the leaf's gradient.

    Callers of gradient descent pass `-rate * grad(x)`. Returns `x`.
    """
    delta = data(delta)
    if not isinstance(x, Tracked):
        if not isinstance(x, np.ndarray):
            raise NotTrackedError(
                message(
                    f"update cannot change a {type(x).__name__} in place",
                    "Give a tracked leaf or a NumPy array",
                )
            )
        x += delta
        return x
    value = value_of(x)
    if not isinstance(value.params, Leaf):
        raise NotTrackedError(
            message("update of a tracked value that is not a leaf", "Update the param it came from")
        )
    # Values that saw the old data keep it; only the handle moves on.
    if isinstance(value.data, np.ndarray):
        moved = value.data.copy()
        moved += delta
    else:
        moved = type(value.data)(value.data + delta)
    made = leaf(moved)
    made.params = value.params
    value.params.value = made
    x._value = made
    invalidate(x)
    return zero_grad(x)


def back(y: Any, seed: Any = None, *, once: bool = True) -> None:
    """Run the reverse pass from `y`; gradients of leaves add up over calls.

    `y` must be a scalar unless `seed`, of the same shape, is given. With `once`, the history of `y`
    is given up afterwards.
    """
    if not isinstance(y, Tracked):
        raise NotTrackedError(
            message(
                f"back got a plain {type(y).__name__}: the value does not depend on any param",
                "Wrap what it is computed from in tracker.param",
            )
        )
    root = value_of(y)
    if seed is None:
        if np.shape(root.data) != ():
            raise NotScalarError(
                message(
                    f"value has shape {np.shape(root.data)}",
                    "Use back(np.sum(y)) or back(y, seed)",
                )
            )
        if np.iscomplexobj(root.data):
            raise ComplexLossError(
                message(
                    f"back needs a real number; the value is complex ({np.result_type(root.data)})",
                    "Use np.real or np.abs, or back(y, seed)",
                )
            )
        _check_loss(root.data, "back")
        seed = np.ones_like(root.data)[()]
    else:
        seed = np.asarray(data(seed))
        if seed.shape != np.shape(root.data):
            raise NotScalarError(
                message(f"seed has shape {seed.shape}, the value has shape {np.shape(root.data)}")
            )
        seed = np.array(seed, dtype=np.result_type(seed, np.float16))[()]
    _back(root, seed, once)


def _back(root: Value, seed: Any, once: bool) -> None:
    history = _history(root)
    if any(value.op is USED for value in history):
        raise GraphUsedError(
            message("back was already used on this value", "Pass once=False to keep it")
        )
    leaves = [value for value in history if isinstance(value.params, Leaf)]
    if not leaves:
        raise NotTrackedError(
            message(
                "the value does not depend on any param",
                "Wrap what it is computed from in tracker.param",
            )
        )
    interior: dict[Value, Any] = {}
    found = sweep([(root, seed)], leaves, keep=interior)
    for value, c in zip(leaves, found, strict=True):  # nothing can fail from here on
        if c is not None:
            owner = value.params
            c = _plain_cotangent(c, value.data)
            owner.grad = c if owner.grad is None else owner.grad + c
    for value, c in interior.items():
        value.grad = c
    if once:
        for value in history:
            if value.operands:
                value.op = USED
                value.operands = ()


def _history(root: Value) -> list[Value]:
    seen = {root}
    stack = [root]
    while stack:
        value = stack.pop()
        for operand in value.operands:
            if type(operand) is Value and operand not in seen:
                seen.add(operand)
                stack.append(operand)
    return list(seen)


def _plain_cotangent(c: Any, x: Any) -> Any:
    """A cotangent as a plain array of its own, in the leaf's dtype and shape."""
    c = data(c)
    if isinstance(x, np.ndarray):
        kind = x.dtype if x.dtype.kind in "fc" else np.float64
        return np.array(np.broadcast_to(c, x.shape), dtype=kind)
    if isinstance(x, np.inexact):
        return x.dtype.type(c)
    return complex(c) if isinstance(x, complex) else float(c)


def _check_loss(loss: Any, who: str) -> None:
    value = complex(loss)
    if cmath.isnan(value):
        raise NonFiniteError(
            message(
                f"{who}: the loss is NaN", "tracker.debug.nan_check() finds the line it came from"
            )
        )
    if cmath.isinf(value):
        raise NonFiniteError(message(f"{who}: the loss is infinite"))


# Arguments as leaves ------------------------------------------------------------------------------


class Wrapped:
    """The arguments of one derivative: their numbers as fresh leaves, and how to put results back.

    `leaves[i]` is the Value of leaf i of the flattened arguments, or None where it is not a number.
    """

    def __init__(self, args: Sequence[Any], only: Sequence[int] | None = None) -> None:
        self.since = new_epoch()
        self.leaves: list[Value | None] = []
        self.structures: list[tree.Structure] = []
        self.originals: list[Any] = []
        self.args = tuple(
            self._wrap(arg) if only is None or i in only else arg for i, arg in enumerate(args)
        )

    def _wrap(self, arg: Any) -> Any:
        found, structure = tree.flatten(arg, tree.is_number_list)
        self.structures.append(structure)
        self.originals.append(arg)
        trained = _trained(arg, structure)
        wrapped = []
        for x, yes in zip(found, trained, strict=True):
            flag = structure.cls is not None and type(x) is bool
            value = _leaf_of(x) if yes and not flag else None
            self.leaves.append(value)
            wrapped.append(x if value is None else wrap(value))
        return tree.unflatten(structure, wrapped, arg)

    @property
    def own(self) -> list[Value]:
        return [value for value in self.leaves if value is not None]

    def close(self) -> None:
        """The function has run: its leaves are constants for everyone else."""
        for value in self.own:
            close(value)

    def restore(self, entries: list[Any]) -> tuple[Any, ...]:
        """Entries, one per leaf, in the structures of the arguments."""
        out = []
        at = 0
        for structure, original in zip(self.structures, self.originals, strict=True):
            part = entries[at : at + structure.count]
            at += structure.count
            out.append(_restored(structure, iter(part), original))
        return tuple(out)


def _restored(structure: tree.Structure, entries: Iterator[Any], original: Any) -> Any:
    """As `tree.unflatten`, but an empty structure gives None."""
    if structure.cls is None:
        return next(entries)
    if not structure.count:
        return None
    parts = tree.children_of(original)
    originals = parts[1] if parts else (None,) * len(structure.children)
    kids = [_restored(s, entries, o) for s, o in zip(structure.children, originals, strict=True)]
    return tree.rebuild(structure.cls, structure.names, kids, original)


def _trained(arg: Any, structure: tree.Structure) -> list[bool]:
    """Which leaves are trained: all, unless a class names its trainable fields."""
    if structure.cls is None:
        return [True]
    parts = tree.children_of(arg)
    names, kids = parts if parts is not None else ((), ())
    allowed = getattr(type(arg), "trainable", None)
    if allowed is not None:
        allowed = arg.trainable() if callable(allowed) else arg.trainable
    out: list[bool] = []
    for i, (kid, below) in enumerate(zip(kids, structure.children, strict=True)):
        if allowed is not None and i < len(names) and names[i] not in allowed:
            out.extend([False] * below.count)
        elif below.cls is None:
            out.append(True)
        else:
            out.extend(_trained(kid, below))
    return out


def _leaf_of(x: Any) -> Value | None:
    """A fresh leaf around a number or an array; None for anything else."""
    if isinstance(x, Tracked):  # an outer derivative's value: stand for it
        return value_of(apply(identity, (x,)))
    if type(x) is list:
        x = np.array(x)
    if type(x) is np.ndarray:
        return leaf(snapshot(x)) if x.dtype.kind in "biufc" else None
    if isinstance(x, (bool, int, float, complex, np.bool_, np.number)):
        return leaf(x)
    if isinstance(x, np.memmap) and x.dtype.kind in "biufc":
        return leaf(np.array(x, subok=False))
    if isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
        raise UnsupportedError(
            message(
                f"a {type(x).__name__} cannot be differentiated as what it is",
                "Give np.asarray(x), if plain numbers are what is meant",
            )
        )
    return None


# Reverse mode -------------------------------------------------------------------------------------


def _shown(x: Any) -> Any:
    """A NumPy scalar prints as the number it is."""
    return x.item() if isinstance(x, np.generic) else x


class ValueAndGradient(NamedTuple):
    """`val`, the function's plain value, and `grad`, a tuple with an entry per argument."""

    val: Any
    grad: Any

    def __repr__(self) -> str:
        val, grad = tree.map(_shown, (self.val, self.grad))
        return f"(val={val!r}, grad={grad!r})"


def gradient(f: Callable[..., Any], *args: Any, check_finite: bool = True, **kwargs: Any) -> Any:
    """The gradient of a scalar function: a tuple, one entry per positional argument.

    Each entry has its argument's structure and float dtype. Float leaves that the result does not
    depend on get zeros; leaves that are not numbers, and integers that nothing reached, None.
    `kwargs` go to `f` untracked. `gradient(f, Params([w, b]))` takes `f` without arguments, and
    gives the gradients of the params it uses, as a `Grads`. For complex arguments the gradient is
    df/dx + i df/dy.

    >>> gradient(lambda x: np.sum(np.abs(x) ** 2) + np.prod(x[1:]), [1, 2, 3])
    (array([2., 7., 8.]),)
    """
    if len(args) == 1 and isinstance(args[0], Params):
        return _implicit(f, args[0], "gradient", check_finite)[1]
    compiled = _compiled(f, ("gradient", check_finite), _gradient_of, check_finite)
    if compiled is not None:
        return compiled(*args, **kwargs)
    wrapped, y = _run(f, args, kwargs)
    root = _scalar_root(y, "gradient", check_finite)
    return wrapped.restore(_gradient_entries(wrapped, root))


def withgradient(
    f: Callable[..., Any], *args: Any, check_finite: bool = True, **kwargs: Any
) -> ValueAndGradient:
    """The value and the gradient of `f`, as a named tuple (val, grad).

    If `f` returns a tuple, named tuple or dict, its first item is the loss, and `val` is the whole.
    Integers inside structures are not differentiated (entry None).

    >>> withgradient(lambda x: np.sum(x**2), [1.0, 2.0])
    (val=5.0, grad=(array([2., 4.]),))
    """
    if len(args) == 1 and isinstance(args[0], Params):
        return ValueAndGradient(*_implicit(f, args[0], "withgradient", check_finite))
    compiled = _compiled(f, ("withgradient", check_finite), _withgradient_of, check_finite)
    if compiled is not None:
        return compiled(*args, **kwargs)  # type: ignore[no-any-return]
    wrapped, y = _run(f, args, kwargs)
    root = _scalar_root(_first(y), "withgradient", check_finite)
    entries = _gradient_entries(wrapped, root)
    at = 0
    for structure in wrapped.structures:
        if structure.cls is not None:
            for i in range(at, at + structure.count):
                value = wrapped.leaves[i]
                if value is not None and np.result_type(value.data).kind in "biu":
                    entries[i] = None
        at += structure.count
    return ValueAndGradient(tree.map(_strip(wrapped), y), wrapped.restore(entries))


def _first(y: Any) -> Any:
    """The loss among the results of a function."""
    items = list(y.values()) if isinstance(y, dict) else y if isinstance(y, tuple) else (y,)
    return items[0] if items else y


def _implicit(
    f: Callable[[], Any], params: Params, who: str, check_finite: bool
) -> tuple[Any, Grads]:
    """The value, and the gradients for params that `f` uses without being given them."""
    if getattr(_implicitly, "running", False):
        raise UnsupportedError(
            message(
                f"{who} with Params inside another {who} with Params",
                "Write the inner one with arguments: gradient(lambda w: ..., w)",
            )
        )
    leaves = params.leaves()
    _implicitly.running = True
    try:
        y = f()
    finally:
        _implicitly.running = False
    root = _scalar_root(_first(y) if who == "withgradient" else y, who, check_finite)
    seeds = [] if root is None else [(root, _one(wrap(root), root))]
    found = sweep(seeds, leaves)
    entries = []
    for value, c in zip(leaves, found, strict=True):
        entry = _entry(c, value)
        entries.append(entry if _in_outer_derivative(entry) else data(entry))
    return tree.map(data, y), Grads(params, entries)


_implicitly = threading.local()


def _in_outer_derivative(x: Any) -> bool:
    """Whether a gradient depends on the argument of a derivative that is being taken."""
    return isinstance(x, Tracked) and any(
        v.op is None and not isinstance(v.params, Leaf) for v in _history(value_of(x))
    )


def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, check_finite: bool = True
) -> Callable[..., Any]:
    """A function of the same arguments that returns (value, gradient).

    `argnums` names the positional arguments to differentiate; an int gives one entry, a tuple a
    tuple. Made for `scipy.optimize.minimize(value_and_grad(f), x0, jac=True)`.
    """
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    key = ("value_and_grad", argnums if isinstance(argnums, int) else numbers, check_finite)
    compiled = _compiled(f, key, lambda g: value_and_grad(g, argnums, check_finite=check_finite))
    if compiled is not None:
        return compiled

    def both(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        only = [n + len(args) if n < 0 else n for n in numbers]
        wrapped, y = _run(f, args, kwargs, only)
        root = _scalar_root(y, "value_and_grad", check_finite)
        entries = dict(
            zip(sorted(only), wrapped.restore(_gradient_entries(wrapped, root)), strict=True)
        )
        grads = tuple(entries[n] for n in only)
        return _strip(wrapped)(y), grads[0] if isinstance(argnums, int) else grads

    return both


def _compiled(
    f: Callable[..., Any], key: Any, build: Callable[..., Any], *options: Any
) -> Callable[..., Any] | None:
    """The compiled derivative of a jitted function; None of a plain one."""
    derive = getattr(f, "_tracker_derive", None)
    if derive is None:
        return None
    return derive(key, build if not options else lambda g: build(g, *options))  # type: ignore[no-any-return]


def _gradient_of(f: Callable[..., Any], check_finite: bool) -> Callable[..., Any]:
    return lambda *args, **kwargs: gradient(f, *args, check_finite=check_finite, **kwargs)


def _withgradient_of(f: Callable[..., Any], check_finite: bool) -> Callable[..., Any]:
    return lambda *args, **kwargs: withgradient(f, *args, check_finite=check_finite, **kwargs)


def _pullback_of(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda args, kwargs, seed: pullback(f, *args, **kwargs)[1](seed)


def _compiled_pullback(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Callable[..., Any]] | None:
    """Value and pullback of a jitted function; the compiled pullback computes its needs again."""
    compiled = _compiled(f, "pullback", _pullback_of)
    if compiled is None:
        return None
    kept = tree.map(lambda x: np.array(x) if isinstance(x, np.ndarray) else x, (args, kwargs))
    return f(*args, **kwargs), lambda seed: compiled(*kept, seed)


def _run(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], only: Any = None
) -> tuple[Wrapped, Any]:
    wrapped = Wrapped(args, only)
    try:
        return wrapped, f(*wrapped.args, **kwargs)
    finally:
        wrapped.close()


def _scalar_root(y: Any, who: str, check_finite: bool) -> Value | None:
    """The value to differentiate; None if the result is a plain number."""
    plain = value_of(y).data if isinstance(y, Tracked) else y
    if not tree.is_numeric(plain):
        raise NotScalarError(
            message(
                f"{who} needs a scalar; the output is a {type(plain).__name__}",
                "Return one number, or use tracker.pullback",
            )
        )
    if np.shape(plain) != ():
        raise NotScalarError(
            message(
                f"{who} needs a scalar; the output has shape {np.shape(plain)}",
                "Use np.sum, or tracker.jacobian",
            )
        )
    if np.iscomplexobj(plain):
        raise ComplexLossError(
            message(
                f"{who} needs a real number; the output is complex ({np.result_type(plain)})",
                "Use np.real or np.abs, or tracker.jacobian",
            )
        )
    # Under a trace this comparison becomes a guard.
    if check_finite and not bool(np.isfinite(y if is_recording() else plain)):
        _check_loss(plain, who)
    return value_of(y) if isinstance(y, Tracked) else None


def _gradient_entries(wrapped: Wrapped, root: Value | None) -> list[Any]:
    own = wrapped.own
    found: list[Any] = [None] * len(own)
    if root is not None:
        y = wrap(root)
        found = sweep([(root, _one(y, root))], own, wrapped.since)
    arrived = dict(zip(own, found, strict=True))
    return [None if value is None else _entry(arrived[value], value) for value in wrapped.leaves]


def _one(y: Any, root: Value) -> Any:
    """The seed of a scalar: traced, so that a compiled pullback sees where it comes from."""
    kind = np.result_type(root.data)
    return np.ones_like(
        y if is_recording() else root.data, dtype=kind if kind.kind in "fc" else float
    )[()]


def _entry(c: Any, value: Value) -> Any:
    """What the user gets for one leaf."""
    x = value.data
    discrete = np.result_type(x).kind in "biu"
    if c is None:
        if discrete:
            return None
        return _in_class_of(np.zeros_like(_outer(value)), x) if is_recording() else _zero_like(x)
    if isinstance(c, Tracked):
        return _in_class_of(c if discrete else project(c, x), x)
    return _plain_cotangent(c, x)


def _zero_like(x: Any) -> Any:
    return _plain_cotangent(0.0, x)


def _in_class_of(c: Any, x: Any) -> Any:
    """A recorded cotangent as the class that `_plain_cotangent` gives: array, NumPy's or Python's
    number."""
    have = type(data(c))
    if isinstance(x, np.ndarray):
        c = np.astype(c, x.dtype if x.dtype.kind in "fc" else np.float64)
        return c if have is np.ndarray else np.reshape(np.reshape(c, (1,)), ())
    if isinstance(x, np.inexact):
        return np.astype(c, x.dtype) if have in (float, complex) else c
    return c if have in (float, complex) else apply(item, (c,))


def _outer(value: Value) -> Any:
    return wrap(value)


def _strip(wrapped: Wrapped) -> Callable[[Any], Any]:
    """Plain results, unless they also depend on somebody else's leaves."""
    return lambda y: _release(y, wrapped)


def _release(y: Any, wrapped: Wrapped) -> Any:
    if not isinstance(y, Tracked):
        return y
    value = value_of(y)
    if is_recording() or _depends_elsewhere(value):
        return y
    return data(y) if not isinstance(value.data, np.ndarray) else value.data.copy()


def _depends_elsewhere(root: Value) -> bool:
    """Whether an open leaf is in the history of a value."""
    return any(value.op is None for value in _history(root))


def pullback(f: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of `f`, and a function that pulls a cotangent of it back to the arguments.

    `y, back = pullback(f, *args)`; `back(seed)` gives a tuple, one entry per argument, and may be
    called again. `y` may be any structure; the seed then has the same one (None stands for zero).

    >>> y, back = pullback(lambda x: [3 * x**2, 2 * x], 5.0)
    >>> back([1.0, 1.0])
    (32.0,)
    """
    compiled = _compiled_pullback(f, args, kwargs)
    if compiled is not None:
        return compiled
    shown, pull, _ = linearized(f, args, kwargs)
    return shown, pull


def linearized(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Callable[..., Any], Callable[..., Any]]:
    """The value of `f`, its pullback and its pushforward, from one run."""
    wrapped, y = _run(f, args, kwargs)
    outputs, structure = tree.flatten(y)
    values = [value_of(out) if isinstance(out, Tracked) else None for out in outputs]
    shown = tree.unflatten(structure, [_release(out, wrapped) for out in outputs], y)

    def pull(seed: Any) -> tuple[Any, ...]:
        seeds = _like_structure(y, structure, seed, "seed")
        roots = [
            (value, _seed_for(value, s))
            for value, s in zip(values, seeds, strict=True)
            if value is not None and s is not None
        ]
        found = sweep(roots, wrapped.own, wrapped.since)
        arrived = dict(zip(wrapped.own, found, strict=True))
        return wrapped.restore(
            [None if value is None else _entry(arrived[value], value) for value in wrapped.leaves]
        )

    def push_tangents(*tangents: Any) -> Any:
        if len(tangents) != len(args):
            raise UnsupportedError(
                message(
                    f"{len(args)} arguments need {len(args)} tangents; {len(tangents)} were given"
                )
            )
        seeds: list[Any] = []
        for arg, below, tangent in zip(args, wrapped.structures, tangents, strict=True):
            seeds.extend(_like_structure(arg, below, tangent, "tangent"))
        pairs = [
            (value, None if s is None else _tangent_for(value, s))
            for value, s in zip(wrapped.leaves, seeds, strict=True)
            if value is not None
        ]
        arrived = iter(push(pairs, [v for v in values if v is not None], wrapped.since))
        tangents_of = [
            _no_tangent(out) if value is None else _tangent_entry(next(arrived), value)
            for value, out in zip(values, outputs, strict=True)
        ]
        return tree.unflatten(structure, tangents_of, y)

    return shown, pull, push_tangents


def _like_structure(y: Any, structure: tree.Structure, seed: Any, what: str) -> list[Any]:
    """The leaves of a seed, which must have the structure of `y`."""
    if structure.cls is None:
        return [seed]
    if seed is None:
        return [None] * structure.count
    found: list[Any] = []
    try:
        tree.map(lambda _, s: found.append(s), y, seed)
    except (ValueError, KeyError) as error:
        raise NotScalarError(
            message(f"the {what} has another structure than the output {structure!r}")
        ) from error
    return found


def _seed_for(value: Value, seed: Any) -> Any:
    shape = np.shape(value.data)
    if not isinstance(seed, Tracked):
        seed = np.asarray(seed)
        if seed.dtype.kind in "biu":
            seed = seed.astype(np.float64)
        seed = seed.copy()[()]
    if np.shape(seed) != shape:
        raise NotScalarError(
            message(f"seed has shape {np.shape(seed)}, the output has shape {shape}")
        )
    return seed


forward = pullback


# Forward mode -------------------------------------------------------------------------------------


def pushforward(f: Callable[..., Any], *args: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of `f`, and a function that pushes tangents of the arguments forward to it.

    `y, push = pushforward(f, *args)`; `push(*tangents)` takes one tangent per argument, of its
    structure (None stands for zero), and gives the tangent of `y`.

    >>> y, push = pushforward(lambda x: x**2, 3.0)
    >>> push(1.0)
    6.0
    """
    shown, _, push_tangents = linearized(f, args, {})
    return shown, push_tangents


def _tangent_for(value: Value, seed: Any) -> Any:
    t = _seed_for(value, seed)
    if isinstance(t, np.ndarray) and isinstance(value.data, np.ndarray):
        kind = value.data.dtype
        return t.astype(kind) if kind.kind in "fc" and kind != t.dtype else t
    return t


def _tangent_entry(t: Any, value: Value) -> Any:
    if t is None:
        return np.zeros_like(value.data)[()]
    if isinstance(t, Tracked):
        return t if is_recording() or _depends_elsewhere(value_of(t)) else data(t)
    return t


def _no_tangent(out: Any) -> Any:
    return np.zeros_like(out)[()] if tree.is_numeric(out) else None


def jvp(f: Callable[..., Any], args: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value of `f` at `args`, and its derivative in the direction of `tangents`.

    >>> jvp(np.sin, (0.0,), (2.0,))
    (np.float64(0.0), np.float64(2.0))
    """
    y, push_tangents = pushforward(f, *args)
    return y, push_tangents(*tangents)
