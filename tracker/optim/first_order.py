"""First-order optimisers: pairs of functions over structures of parameters.

`init, update = adam(1e-3)`; `state = init(params)`; then, for every gradient, `params, state =
update(params, gradient, state)`. Parameters are numbers, arrays, or any structure of them (dicts,
lists, dataclasses, ...); gradients have the structure that `tracker.gradient` returns. Nothing is
changed in place, so both functions work inside `tracker.jit`.

A leaf stays as it is if it has no gradient (None), is neither float nor complex, or is not among a
class's `trainable` fields. `rate` may be a function of the number of steps taken so far.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, overload

import numpy as np

from tracker import tree
from tracker.errors import message
from tracker.ops.declare.arguments import as_array
from tracker.ops.shape.create import item
from tracker.support.pickling import made_by, part_of
from tracker.tape.record import apply, aval_of

if TYPE_CHECKING:
    from tracker.support.type_variables import FloatArray, NumberList, T

Rate = float | Callable[[Any], Any]


class State(NamedTuple):
    """The state of an optimiser.

    Attributes
    ----------
    step : int
        How many steps were taken.
    means : tuple
        For each leaf of the parameters, in the order of `tracker.tree.leaves`, a tuple of running
        means; None where nothing is trained.
    """

    step: int
    means: tuple[Any, ...]


class UpdateFunction(Protocol):
    """A step, with the type of the parameters; a list of numbers becomes an array."""

    @overload
    def __call__(
        self, params: NumberList, gradient: Any, state: State
    ) -> tuple[FloatArray, State]: ...
    @overload
    def __call__(self, params: T, gradient: Any, state: State) -> tuple[T, State]: ...


class Optimiser(NamedTuple):
    """`init(params) -> state` and `update(params, gradient, state) -> (params, state)`.

    Attributes
    ----------
    init : callable
        Makes the `State` for parameters: numbers, arrays, or any structure of them.
    update : callable
        Makes a step. The gradient has the structure that `tracker.gradient` gives; leaves stay as
        they are where it has None, and where a class's `trainable` leaves them out.
    """

    init: Callable[[Any], State]
    update: UpdateFunction


def descent(rate: Rate = 0.1) -> Optimiser:
    """Gradient descent: p - rate * g.

    Parameters
    ----------
    rate : float or callable
        The step, or a function of the number of steps taken so far that gives it.

    Returns
    -------
    Optimiser

    Examples
    --------
    >>> init, update = descent(0.5)
    >>> update({"w": 1.0}, {"w": 0.5}, init({"w": 1.0}))[0]
    {'w': 0.75}
    """
    again = functools.partial(descent, rate)
    return _optimiser(again, rate, 0, lambda rate, t, p, g: (p - rate * g, ()))


def momentum(rate: Rate = 0.01, rho: float = 0.9, *, nesterov: bool = False) -> Optimiser:
    """Descent along v = rho * v + g, by p - rate * v.

    Parameters
    ----------
    rate : float or callable
        The step, or a function of the number of steps taken so far that gives it.
    rho : float
        How much of v is kept.
    nesterov : bool
        Whether to look ahead, along g + rho * v [2]_.

    Returns
    -------
    Optimiser

    Notes
    -----
    The heavy ball of [1]_.

    References
    ----------
    .. [1] B. Polyak, Some methods of speeding up the convergence of iteration methods, 1964.
    .. [2] I. Sutskever et al., On the importance of initialization and momentum in deep learning,
       2013.

    Examples
    --------
    >>> init, update = momentum(0.1)
    >>> params, state = update(1.0, 4.0, init(1.0))
    >>> round(params, 6), state.means
    (0.6, ((4.0,),))
    """

    def move(rate: Any, t: Any, p: Any, g: Any, v: Any) -> tuple[Any, tuple[Any, ...]]:
        v = rho * v + g
        return p - rate * (g + rho * v if nesterov else v), (v,)

    again = functools.partial(momentum, rate, rho, nesterov=nesterov)
    return _optimiser(again, rate, 1, move)


def adam(
    rate: Rate = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
) -> Optimiser:
    """Adam: steps of the mean gradient over its root mean square.

    Parameters
    ----------
    rate : float or callable
        The step, or a function of the number of steps taken so far that gives it.
    betas : tuple of float
        How much is kept of the running means of the gradient and of its square.
    eps : float
        Added to the root mean square.

    Returns
    -------
    Optimiser

    See Also
    --------
    adamw

    Notes
    -----
    Algorithm 1 of [1]_: both means are corrected for having begun at zero.

    References
    ----------
    .. [1] D. Kingma and J. Ba, Adam: a method for stochastic optimization, 2015.

    Examples
    --------
    >>> init, update = adam(0.1)
    >>> round(update(1.0, 4.0, init(1.0))[0], 6)
    0.9
    """
    return adamw(rate, betas, eps, decay=0.0)


def adamw(
    rate: Rate = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    *,
    decay: float = 1e-2,
) -> Optimiser:
    """Adam after shrinking the parameters by the factor 1 - rate * decay.

    Parameters
    ----------
    rate, betas, eps
        As for `adam`.
    decay : float
        The weight decay.

    Returns
    -------
    Optimiser

    See Also
    --------
    adam

    Notes
    -----
    The decoupled decay of [1]_.

    References
    ----------
    .. [1] I. Loshchilov and F. Hutter, Decoupled weight decay regularization, 2019.

    Examples
    --------
    >>> init, update = adamw(0.1, decay=0.5)
    >>> round(update(1.0, 4.0, init(1.0))[0], 6)
    0.85
    """
    first, second = betas

    def move(rate: Any, t: Any, p: Any, g: Any, m: Any, v: Any) -> tuple[Any, tuple[Any, ...]]:
        m = first * m + (1 - first) * g
        v = second * v + (1 - second) * _square(g)
        step = (m / (1 - first**t)) / (np.sqrt(v / (1 - second**t)) + eps)
        return (p * (1 - rate * decay) if decay else p) - rate * step, (m, v)

    again = functools.partial(adamw, rate, betas, eps, decay=decay)
    return _optimiser(again, rate, 2, move)


def rmsprop(rate: Rate = 0.01, rho: float = 0.99, eps: float = 1e-8) -> Optimiser:
    """Steps of the gradient over its running root mean square (Hinton, lecture 6e, 2012).

    Parameters
    ----------
    rate : float or callable
        The step, or a function of the number of steps taken so far that gives it.
    rho : float
        How much is kept of the running mean of the square.
    eps : float
        Added to the root mean square.

    Returns
    -------
    Optimiser

    Examples
    --------
    >>> init, update = rmsprop(0.1)
    >>> round(update(1.0, 4.0, init(1.0))[0], 6)
    0.0
    """

    def move(rate: Any, t: Any, p: Any, g: Any, v: Any) -> tuple[Any, tuple[Any, ...]]:
        v = rho * v + (1 - rho) * _square(g)
        return p - rate * g / (np.sqrt(v) + eps), (v,)

    return _optimiser(functools.partial(rmsprop, rate, rho, eps), rate, 1, move)


def _square(g: Any) -> Any:
    return np.real(g * np.conj(g)) if np.iscomplexobj(g) else g * g


# move(rate, t, p, g, *means) -> (p, means), for one array; t counts steps from 1
StepFunction = Callable[..., tuple[Any, tuple[Any, ...]]]


def _optimiser(
    again: Callable[[], Optimiser], rate: Rate, n_means: int, move: StepFunction
) -> Optimiser:
    """The optimiser of a step; pickle makes its functions again by `again`."""

    def init(params: Any) -> State:
        leaves, flags, _ = tree.parameter_leaves(params)
        return State(
            0,
            tuple(
                tuple(_like(np.zeros_like(p)[()], p) for _ in range(n_means)) if yes else None
                for p, yes in zip(leaves, flags, strict=True)
            ),
        )

    def update(params: Any, gradient: Any, state: State) -> tuple[Any, State]:
        if not isinstance(state, State):
            text = f"update got a {type(state).__name__} as the state"
            raise TypeError(message(text, "Call update(params, gradient, state)"))
        leaves, flags, structure = tree.parameter_leaves(params)
        if len(state.means) != len(leaves):
            raise ValueError(
                message(
                    f"the state is for {len(state.means)} leaves, the parameters have "
                    f"{len(leaves)}",
                    "Make it by init(params)",
                )
            )
        step = state.step
        now = rate(step) if callable(rate) else rate
        moved, kept = [], []
        for p, g, yes, old in zip(
            leaves,
            matching_leaves(structure, params, gradient, "gradient"),
            flags,
            state.means,
            strict=True,
        ):
            if yes and g is not None:
                if np.shape(g) != np.shape(p):
                    raise ValueError(
                        message(f"a gradient of shape {np.shape(g)} for a parameter {np.shape(p)}")
                    )
                new, means_now = move(now, step + 1, p, g, *old)
                p, old = _like(new, p), tuple(_like(m, p) for m in means_now)
            moved.append(p)
            kept.append(old)
        return tree.unflatten(structure, moved, params), State(step + 1, tuple(kept))

    return Optimiser(made_by(init, part_of, again, 0), made_by(update, part_of, again, 1))


def _like(new: Any, p: Any) -> Any:
    """A Python number stays one: compiled code dispatches on the classes of its arguments."""
    return apply(item, (new,)) if type(aval_of(p)) in (float, complex) else new


def matching_leaves(structure: tree.Structure, params: Any, other: Any, name: str) -> list[Any]:
    """What `other`, called `name`, has for each leaf of the parameters; None stands for any
    structure of None."""
    if structure.cls is None:
        return [as_array(other) if type(other) is list else other]
    if other is None:
        return [None] * structure.count
    parts, below = tree.children_or_attributes(params), tree.children_or_attributes(other)
    if parts is None or below is None or len(below[1]) != len(parts[1]) or below[0] != parts[0]:
        raise ValueError(
            message(
                f"the structure of the {name} is {_class_and_keys(other)}, that of the parameters "
                f"{_class_and_keys(params)}",
                f"Give the {name} with respect to these parameters",
            )
        )
    each = zip(structure.children, parts[1], below[1], strict=True)
    return [g for row in each for g in matching_leaves(*row, name)]


def _class_and_keys(x: Any) -> str:
    """A value's class and, of a dict, its keys."""
    keys = f" with the keys {', '.join(map(repr, x))}" if isinstance(x, dict) else ""
    return f"a {type(x).__name__}{keys}"
