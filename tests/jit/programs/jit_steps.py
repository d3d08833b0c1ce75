"""Statements of random programs: each function in `KINDS` draws one that fits the values so far.

A `Step` is `call(*operands)` of earlier values; what it gives is one more value. Arithmetic, views
and writes are here; `jit_catalogue.py` has more of NumPy's functions, `jit_flow.py` branches, loops
and Python's numbers. Results stay small, so that sums keep their digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

MOST = 5000  # elements of the largest value a program makes


@dataclass
class Step:
    """One statement: `call(*operands)` of earlier values, by number; `text` is for people."""

    text: str
    call: Any
    operands: tuple[int, ...]
    fresh: bool = True  # a new value: neither a view of an operand nor one that was written into


# Tables -------------------------------------------------------------------------------------------

UNARY = {
    "sin": np.sin,
    "tanh": np.tanh,
    "negative": lambda x: -x,
    "exp_small": lambda x: np.exp(-abs(x)),
    "absolute": np.abs,
    "square_bounded": lambda x: np.tanh(x) ** 2,
    "log": lambda x: np.log(1.5 + np.tanh(x)),
    "sqrt": lambda x: np.sqrt(2 + np.cos(x)),
    "scale": lambda x: x * 0.5,
    "shift": lambda x: 1.25 - x,
    "times_three": lambda x: 3 * x,
    "sigmoid": lambda x: 1 / (1 + np.exp(-np.tanh(x))),
}
BINARY = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "quotient": lambda a, b: a / (2 + np.cos(b)),
    "hypot": lambda a, b: np.sqrt(1 + a * a + b * b),
}
COMPARE = {
    "greater": lambda a, b: a > b,
    "less_or_equal": lambda a, b: a <= b,
    "above": lambda a, b: (a > 0.123) & (b < 1.7),
    "below": lambda a, b: (a < -0.3) | (b < 0.1),
}
REDUCE = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}


# Drawing ------------------------------------------------------------------------------------------


def pick(draw: Any, values: list[Any], test: Any = None) -> int | None:
    """A value that passes the test; None if there is none."""
    fit = [i for i, v in enumerate(values) if test is None or test(v)]
    # The newest value is the likeliest, so that programs are deep.
    return draw(st.sampled_from([*fit, *fit[-1:] * 4, *fit[-2:] * 2])) if fit else None


def kind(v: Any) -> str:
    return np.result_type(v).kind


def is_array(v: Any) -> bool:
    return type(v) is np.ndarray and v.ndim > 0


def _unary(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values, lambda v: kind(v) != "b")
    name = draw(st.sampled_from(sorted(UNARY)))
    return None if i is None else Step(name, UNARY[name], (i,))


def partner(draw: Any, values: list[Any], i: int, test: Any = None) -> int:
    """A value that broadcasts with another, maybe that one."""

    def fits(v: Any) -> bool:
        if test is not None and not test(v):
            return False
        try:
            return np.prod(np.broadcast_shapes(np.shape(v), np.shape(values[i]))) <= MOST
        except ValueError:
            return False

    found = pick(draw, values, fits)
    return i if found is None else found


def _binary(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values)
    j = partner(draw, values, i)
    name = draw(st.sampled_from(sorted(BINARY)))
    return Step(name, BINARY[name], draw(st.permutations((i, j))))


def _compare(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values)
    name = draw(st.sampled_from(sorted(COMPARE)))
    return Step(name, COMPARE[name], (i, partner(draw, values, i)))


def _where(draw: Any, values: list[Any]) -> Step | None:
    c = pick(draw, values, lambda v: kind(v) == "b")
    if c is None:
        return _compare(draw, values)
    i = partner(draw, values, c)
    return Step("where", np.where, (c, i, partner(draw, values, c)))


def axes(draw: Any, ndim: int) -> Any:
    if draw(st.booleans()):
        return None
    found = tuple(sorted(draw(st.sets(st.integers(0, ndim - 1), min_size=1))))
    return found[0] - ndim if len(found) == 1 and draw(st.booleans()) else found


def _reduce(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values, lambda v: is_array(v) and v.size > 0)
    if i is None:
        return None
    name = draw(st.sampled_from(sorted(REDUCE)))
    axis, keepdims = axes(draw, values[i].ndim), draw(st.booleans())
    function = REDUCE[name]
    return Step(
        f"{name}[axis={axis}, keepdims={keepdims}]",
        lambda x: function(x, axis=axis, keepdims=keepdims),
        (i,),
    )


def _matmul(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values, lambda v: is_array(v) and kind(v) != "b")
    if i is None:
        return None

    def fits(v: Any) -> bool:
        if not is_array(v) or kind(v) == "b":
            return False
        try:
            return np.matmul(np.zeros(np.shape(values[i])), np.zeros(np.shape(v))).size <= MOST
        except ValueError:
            return False

    j = pick(draw, values, fits)
    if j is None:
        a = values[i]
        if a.ndim == 1:
            return Step("outer", lambda x: np.outer(x, np.sin(x)) * 0.1, (i,))
        if draw(st.booleans()):
            return Step("gram", lambda x: x @ np.swapaxes(x, -1, -2) * 0.1, (i,))
        return Step("gram_T", lambda x: np.swapaxes(x, -1, -2) @ x * 0.1, (i,))
    return Step("matmul", lambda a, b: np.matmul(a, b) * 0.1, (i, j))


def places(v: Any, n: int) -> Any:
    """Positions in an axis of n elements, some of them counted from the end."""
    return np.floor(np.abs(v) * 10).astype(np.int64) % (2 * n) - n


def _gather(draw: Any, values: list[Any]) -> Step | None:
    """Read by the positions that another value gives, or by a mask."""
    i = pick(draw, values, lambda v: is_array(v) and v.size > 0)
    if i is None:
        return None
    if draw(st.booleans()):
        return Step("sum of mask", lambda x: np.sum(x[x > 0.123]) * 0.1, (i,))
    most = MOST // values[i][0].size
    j = pick(draw, values, lambda v: np.size(v) <= most)
    return None if j is None else Step("gather", lambda x, v: x[places(v, len(x))], (i, j))


def _scatter(draw: Any, values: list[Any]) -> Step | None:
    """Write, or add, at such positions."""
    i = pick(draw, values, lambda v: is_array(v) and v.size > 0 and kind(v) == "f")
    if i is None:
        return None
    j = pick(draw, values, lambda v: np.size(v) <= MOST)
    adds = draw(st.booleans())

    def call(x: Any, v: Any) -> Any:
        t = x * 0.5
        at = places(v, t.size)
        flat = t.reshape(-1)
        if adds:
            np.add.at(flat, at, np.sin(v).astype(flat.dtype))
        else:  # of several dimensions, NumPy would write in the order in which they lie in memory
            flat[np.ravel(at)] = np.sin(np.ravel(v))
        return t

    return Step(f"scatter[adds={adds}]", call, (i, j))


def _along(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values, lambda v: is_array(v) and kind(v) != "b")
    if i is None:
        return None
    axis = draw(st.integers(0, values[i].ndim - 1))
    if draw(st.booleans()):
        return Step(f"cumsum[{axis}]", lambda x: np.cumsum(x * 0.125, axis=axis), (i,))
    return Step(f"sort[{axis}]", lambda x: np.sort(x, axis=axis), (i,))


def _divide(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values, lambda v: kind(v) != "b")
    if i is None:
        return None
    if draw(st.booleans()):
        return Step("remainder", lambda x: x % 0.7 - x // 3, (i,))
    return Step("remainder of", lambda x: 2.5 % (1 + np.abs(x)), (i,))


def _place(draw: Any, values: list[Any]) -> Step | None:
    """A number of one array at a place that is found in another."""
    i = pick(draw, values, lambda v: is_array(v) and v.size > 0)
    if i is None:
        return None
    j = pick(draw, values, lambda v: is_array(v) and v.size > 0)
    return Step("at first", lambda x, v: x[np.argmax(v > 0.123) % len(x)] * 1, (i, j))


def _shape(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values, is_array)
    if i is None:
        return None
    shape = values[i].shape
    kind = draw(
        st.sampled_from(["reshape", "transpose", "broadcast", "expand", "squeeze", "ravel"])
    )
    if kind == "transpose":
        order = tuple(draw(st.permutations(range(len(shape)))))
        return Step(f"transpose{order}", lambda x: np.transpose(x, order), (i,), False)
    if kind == "broadcast":
        n = draw(st.integers(1, 3))
        return Step(f"broadcast[{n}]", lambda x: np.broadcast_to(x, (n, *shape)) * 1.0, (i,))
    if kind == "expand":
        axis = draw(st.integers(0, len(shape)))
        return Step(f"expand[{axis}]", lambda x: np.expand_dims(x, axis), (i,), False)
    if kind == "squeeze":
        return Step("squeeze", np.squeeze, (i,), False)
    if kind == "ravel":
        return Step("ravel", np.ravel, (i,), False)
    target = draw(st.sampled_from(_shapes_of(values[i].size)))
    return Step(f"reshape{target}", lambda x: np.reshape(x, target), (i,), False)


def _shapes_of(size: int) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [(size,), (1, size), (size, 1)]
    divisors = [d for d in range(2, min(size, 100)) if size % d == 0]
    found += [(d, size // d) for d in divisors]
    pairs = [(d, e) for d in divisors[:3] for e in divisors[:3] if size // d % e == 0]
    found += [(d, e, size // d // e) for d, e in pairs]
    return found


def _join(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values, is_array)
    if i is None:
        return None
    x = values[i]
    axis = draw(st.integers(0, x.ndim - 1))
    same = [j for j, v in enumerate(values) if np.shape(v) == x.shape]
    js = tuple(draw(st.lists(st.sampled_from(same), min_size=1, max_size=3)))
    if draw(st.booleans()):
        return Step(f"stack[{axis}]", lambda *xs: np.stack(xs, axis), (i, *js))
    return Step(f"concatenate[{axis}]", lambda *xs: np.concatenate(xs, axis), (i, *js))


def _index(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    parts: list[Any] = []
    for extent in shape[: draw(st.integers(1, len(shape)))]:
        kind = draw(st.sampled_from(["slice", "slice", "all", "int", "flip"]))
        if kind == "int" and extent:
            parts.append(draw(st.integers(-extent, extent - 1)))
        elif kind == "slice":
            a, b = (draw(st.none() | st.integers(-extent - 1, extent + 1)) for _ in range(2))
            parts.append(slice(a, b, draw(st.sampled_from([1, 1, 2, 3, -1, -2]))))
        elif kind == "flip":
            parts.append(slice(None, None, -1))
        else:
            parts.append(slice(None))
    if draw(st.integers(0, 5)) == 0 and any(isinstance(part, slice) for part in parts):
        parts.append(...)
    return tuple(parts)


def _slice(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values, is_array)
    if i is None:
        return None
    index = _index(draw, values[i].shape)
    return Step(f"getitem[{index}]", lambda x: x[index], (i,), False)


def _write(draw: Any, values: list[Any]) -> Step | None:
    """A write into an array: into a copy of it, itself, or a view of it."""
    i = pick(draw, values, lambda v: is_array(v) and kind(v) == "f" and v.flags.writeable)
    if i is None:
        return None
    index = _index(draw, values[i].shape)
    inner = np.shape(values[i][index])

    def fits(v: Any) -> bool:
        try:
            return np.broadcast_shapes(np.shape(v), inner) == inner
        except ValueError:
            return False

    j = pick(draw, values, fits)
    if j is None:
        j = i
        if inner != np.shape(values[i]):
            return None
    how = draw(st.sampled_from(["copy", "copy", "itself", "view", "add", "scale"]))

    def call(x: Any, v: Any) -> Any:
        t = np.copy(x) if how == "copy" else x
        if how == "view":
            part = t[index]
            if np.ndim(part):
                part[...] = v
        elif how == "add":
            t[index] += v
        elif how == "scale":
            t *= 0.5
        else:
            t[index] = v
        return t * 1.0 if how == "view" else t

    return Step(f"write[{how} {index}]", call, (i, j), False)


def _cast(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values, is_array)
    if i is None:
        return None
    want = draw(st.sampled_from(["f4", "f8", "?", "f8"]))
    return Step(f"astype[{want}]", lambda x: x.astype(want), (i,))


KINDS = [_unary, _binary, _binary, _compare, _where, _reduce, _matmul, _shape, _join, _slice]
KINDS += [_gather, _scatter, _along, _divide, _place, _slice, _write, _write, _cast]
