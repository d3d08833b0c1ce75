"""Random programs that read, write and view one array, for NumPy and tracked arrays alike.

A program is a list of steps; a step is a function of `env`, the list of arrays alive so far, of
which the first is to be differentiated. Steps fit whatever shapes they meet, so programs shrink.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

Env = list[Any]


@dataclass(frozen=True)
class Step:
    """`run(env)`; `text` shows it in a failing example."""

    text: str
    run: Callable[[Env], None]

    def __repr__(self) -> str:
        return self.text


def run(program: list[Step], x: Any, errors: list[Any] | None = None) -> Env:
    """The arrays that a program leaves, for a NumPy array or a tracked one.

    Steps that NumPy refuses are passed over; `errors` collects what they raised.
    """
    env = [x]
    for step in program:
        try:
            step.run(env)
        except (ValueError, IndexError, TypeError) as error:
            if errors is not None:
                errors.append((step, ValueError if isinstance(error, ValueError) else type(error)))
    return env


def total(env: Env) -> Any:
    """One number in which every element of every array counts."""
    out = 0.0
    for k, a in enumerate(env):
        weights = np.cos(np.arange(a.size) + 3.0 * k).reshape(a.shape)
        out = out + np.sum(np.sin(a) * weights)
    return out


# Views --------------------------------------------------------------------------------------------


def fit_slice(cut: tuple[int, int, int], n: int) -> slice:
    start, stop, step = cut
    return slice(start % (n + 1), (stop % (n + 1)) or None, step)


CUTS = st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([1, 1, 2, -1]))
KEYS = st.lists(st.one_of(st.integers(-4, 3), CUTS, st.none(), st.just(...)), max_size=3)


def fit_key(key: list[Any], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A basic index that suits the shape."""
    extents = list(shape)
    out: list[Any] = []
    for i, part in enumerate(key):
        if part is None:
            out.append(None)
        elif part is ...:
            if ... not in out:
                out.append(...)
                rest = sum(1 for p in key[i + 1 :] if p is not None and p is not ...)
                extents = extents[max(len(extents) - rest, 0) :]
        elif extents:
            n = extents.pop(0)
            if isinstance(part, tuple):
                out.append(fit_slice(part, n))
            else:
                out.append(part % n if n else slice(None))
    return tuple(out)


def is_small(a: Any) -> bool:
    return a.ndim <= 4 and a.size <= 24


VIEWS: dict[str, Callable[[Any], Any]] = {
    "{}.T": lambda a: a.T,
    "{}.reshape(-1)": lambda a: a.reshape(-1),
    "np.ravel({})": np.ravel,
    "{}.swapaxes(0, -1)": lambda a: a.swapaxes(0, -1) if a.ndim else a,
    "np.moveaxis({}, 0, -1)": lambda a: np.moveaxis(a, 0, -1) if a.ndim else a,
    "np.flip({})": np.flip,
    "np.squeeze({})": np.squeeze,
    "{}.reshape(1, -1, 1)": lambda a: a.reshape(1, -1, 1),
    "np.expand_dims({}, 0)": lambda a: np.expand_dims(a, 0),
    "{}.transpose()": lambda a: a.transpose(),
    "{}[..., ::-1]": lambda a: a[..., ::-1] if a.ndim else a,
    "np.array_split({}, 2)[0]": lambda a: np.array_split(a, 2)[0] if a.ndim else a,
    "{}.reshape(..., order='F')": lambda a: a.reshape(-1, order="F"),
    "{}.copy()": lambda a: a.copy(),
    "2 * {}": lambda a: 2 * a,
}


def showing(text: str, view: Callable[[Env], Any]) -> Step:
    """A step that adds a view to the arrays, unless it is a number or large."""

    def step(env: Env) -> None:
        part = view(env)
        if np.ndim(part) and is_small(part):
            env.append(part)

    return Step(f"view {text}", step)


@st.composite
def views(draw: Any) -> Step:
    i = draw(st.integers(0, 5))
    text = draw(st.sampled_from(list(VIEWS)))
    return showing(text.format(i), lambda env: VIEWS[text](env[i % len(env)]))


@st.composite
def cuts(draw: Any) -> Step:
    i, key = draw(st.integers(0, 5)), draw(KEYS)

    def cut(env: Env) -> Any:
        a = env[i % len(env)]
        return a[fit_key(key, a.shape)]

    return showing(f"{i}{key}", cut)


# Writes -------------------------------------------------------------------------------------------


def mean(b: Any) -> Any:
    """Keeps numbers small, so that differences have digits."""
    return np.sum(b) / max(b.size, 1)


VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "number": lambda place, b: 1.5,
    "sum": lambda place, b: mean(b),
    "one": lambda place, b: b.ravel()[0] * 0.5 if b.size else 2.0,
    "row": lambda place, b: b.ravel()[:1] if b.size and place.ndim else 1.0,
    "same": lambda place, b: b if b.shape == place.shape else 0.25,
    "self": lambda place, b: place[::-1] * 1.1 if place.ndim else place,
    "plain": lambda place, b: np.full(place.shape[-1:], 0.75),
}


@st.composite
def writes(draw: Any) -> Step:
    i, j, key = draw(st.integers(0, 5)), draw(st.integers(0, 5)), draw(KEYS)
    value = draw(st.sampled_from(list(VALUES)))

    def step(env: Env) -> None:
        a, b = env[i % len(env)], env[j % len(env)]
        at = fit_key(key, a.shape)
        a[at] = (
            VALUES[value](np.asarray(np.empty(a.shape)[at]), b)
            if value != "self"
            else (VALUES[value](a[at], b) if np.ndim(a[at]) else 0.5)
        )

    return Step(f"{i}{key} = {value} of {j}", step)


@st.composite
def array_writes(draw: Any) -> Step:
    """Writes at integer arrays (places may repeat) and masks."""
    i, j = draw(st.integers(0, 5)), draw(st.integers(0, 5))
    places = draw(st.lists(st.integers(0, 5), max_size=4))
    kind = draw(st.sampled_from(["integers", "mask", "rows", "read"]))

    def step(env: Env) -> None:
        a, b = env[i % len(env)], env[j % len(env)]
        if not a.ndim or not a.shape[0]:
            return
        at: Any = np.array([p % a.shape[0] for p in places], dtype=int)
        if kind == "read":
            env.append(a[at])
        elif kind == "integers":
            a[at] = mean(b) * (np.arange(len(at)) + 1.0).reshape(-1, *(1,) * (a.ndim - 1))
        elif kind == "rows":
            mask = np.zeros(a.shape[0], bool)
            mask[at] = True
            a[mask] *= 0.5
        else:
            a[a > 0.3] = b.ravel()[0] if b.size else 0.1

    return Step(f"{kind} {i}{places} from {j}", step)


def recurrence(a: Any) -> None:
    """Element by element, each from the ones before it."""
    for i in range(len(a)):
        a[i] = a[i - 1] * 0.5 + a[i]


IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "iadd": lambda a, b: operator.iadd(a, mean(b) * 0.1),
    "imul": lambda a, b: operator.imul(a, a),
    "isub": lambda a, b: a.shape == b.shape and operator.isub(a, b),
    "out": lambda a, b: np.multiply(a, 0.5, out=a),
    "copyto": lambda a, b: np.copyto(a, mean(b) * 0.2, where=a > 0),
    "fill": lambda a, b: a.fill(0.7),
    "sort": lambda a, b: a.ndim and a.sort(),
    "flat": lambda a, b: a.size and operator.setitem(a.flat, a.size // 2, mean(b) * 0.3),
    "loop": lambda a, b: a.ndim == 1 and recurrence(a),
    "add_at": lambda a, b: a.ndim and len(a) and np.add.at(a, [0, len(a) - 1, 0], mean(b) * 0.1),
    "multiply_at": lambda a, b: a.ndim and len(a) and np.multiply.at(a, [0, 0], 0.9),
    "put": lambda a, b: a.size and np.put(a, [0, -1, 0], [0.3, 0.2]),
    "putmask": lambda a, b: np.putmask(a, a > 0.5, 0.5 * a),
    "place": lambda a, b: np.place(a, a < -0.5, [-0.4, -0.3]),
    "diagonal": lambda a, b: a.ndim == 2 and np.fill_diagonal(a, mean(b)),
    "partition": lambda a, b: a.ndim and a.shape[-1] and a.partition(0),
}


@st.composite
def updates(draw: Any) -> Step:
    i, j = draw(st.integers(0, 5)), draw(st.integers(0, 5))
    name = draw(st.sampled_from(list(IN_PLACE)))
    return Step(f"{i} {name} {j}", lambda env: IN_PLACE[name](env[i % len(env)], env[j % len(env)]))


STEPS = st.one_of(cuts(), views(), writes(), updates(), array_writes())
PROGRAMS = st.lists(STEPS, min_size=1, max_size=8)
ARRAYS = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(
    lambda shape: np.sin(1.0 + 1.7 * np.arange(int(np.prod(shape)))).reshape(shape)
)
