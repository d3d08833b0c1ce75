"""Branches, loops, inner functions, Python's numbers and errors as statements of random programs.

See `jit_steps.py` for what a statement is. Bodies are made of its tables of elementwise functions.
A loop's length and a branch may depend on values: other arguments then go another way, and may
meet another error, as in the plain function.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from jit_steps import BINARY, UNARY, Step, is_array, kind, partner, pick

BOUNDS = st.sampled_from([-0.5, 0.123, 0.9, 2.5])


def _function(draw: Any) -> tuple[str, Any]:
    name = draw(st.sampled_from(sorted(UNARY)))
    return name, UNARY[name]


def _number(draw: Any, values: list[Any]) -> int | None:
    return pick(draw, values, lambda v: kind(v) != "b")


def _some(draw: Any, values: list[Any]) -> int | None:
    return pick(draw, values, lambda v: np.size(v) > 0)


# Branches -----------------------------------------------------------------------------------------


def _branch(draw: Any, values: list[Any]) -> Step | None:
    i, j = _number(draw, values), _some(draw, values)
    if i is None or j is None:
        return None
    (one, f), (other, g), bound = _function(draw), _function(draw), draw(BOUNDS)

    def call(x: Any, v: Any) -> Any:
        if np.sum(v) > bound:
            return f(x)
        if np.max(v) > bound and not np.all(v > -bound):
            return g(x)
        return x

    return Step(f"if[{bound}: {one} else {other}]", call, (i, j), False)


def _early(draw: Any, values: list[Any]) -> Step | None:
    """Rows until one ends it."""
    i = pick(draw, values, lambda v: is_array(v) and v.size > 0 and kind(v) != "b")
    (name, f), bound = _function(draw), draw(BOUNDS)

    def call(x: Any) -> Any:
        total = 0.0
        for k, row in enumerate(x[:8]):
            if np.sum(row) > 2 * bound + 2:
                break
            if k == 2 and np.max(row) < -bound:
                continue
            total = total + f(row)
        else:
            return total * 0.5
        return total

    return None if i is None else Step(f"rows until[{bound}: {name}]", call, (i,))


def _raise(draw: Any, values: list[Any]) -> Step | None:
    i, j, bound = _number(draw, values), _some(draw, values), draw(st.sampled_from([0.5, 2.0, 9.0]))

    def call(x: Any, v: Any) -> Any:
        if np.sum(np.sin(v)) > bound:
            raise ArithmeticError(f"more than {bound}")
        return x

    return None if i is None or j is None else Step(f"raise[{bound}]", call, (i, j), False)


def _handle(draw: Any, values: list[Any]) -> Step | None:
    i, j = pick(draw, values, is_array), _some(draw, values)
    if i is None or j is None:
        return None
    (name, f), at = _function(draw), draw(st.integers(-6, 6))

    def call(x: Any, v: Any) -> Any:
        try:
            part = x[at]
            if np.any(v > 1.9):
                raise ValueError("too much")
        except IndexError:
            return f(x)
        except ValueError:
            return x * 2
        return part * 1

    return Step(f"try[{at}, {name}]", call, (i, j))


# Loops --------------------------------------------------------------------------------------------


def _while(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values, lambda v: kind(v) == "f" and np.size(v) > 0)
    name, f = _function(draw)

    def call(x: Any) -> Any:
        steps = 0
        while np.sum(x * x) > 1.0 and steps < 5:
            x = f(x) * 0.5
            steps += 1
        return x + steps

    return None if i is None else Step(f"while[{name}]", call, (i,))


def _repeat(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values, lambda v: kind(v) == "f")
    if i is None:
        return None
    j = partner(draw, values, i)
    if np.broadcast_shapes(np.shape(values[i]), np.shape(values[j])) != np.shape(values[i]):
        j = i
    count, (name, f) = draw(st.integers(1, 6)), _function(draw)
    pair = draw(st.sampled_from(sorted(BINARY)))

    def call(x: Any, y: Any) -> Any:
        for k in range(count):
            x = x - 0.1 * f(BINARY[pair](x, y)) / (k + 1)
        return x

    return Step(f"for[{count}: {name} {pair}]", call, (i, j))


def _count(draw: Any, values: list[Any]) -> Step | None:
    """As many steps as a value says."""
    i, j, (name, f) = _number(draw, values), _some(draw, values), _function(draw)

    def call(x: Any, v: Any) -> Any:
        for k in range(int(np.sum(np.abs(v))) % 4):
            x = f(x) + k
        return x * 1

    return None if i is None or j is None else Step(f"range(int)[{name}]", call, (i, j))


def _fill(draw: Any, values: list[Any]) -> Step | None:
    """Rows of a new array, each from the one before."""
    i = pick(draw, values, lambda v: is_array(v) and 0 < len(v) <= 12 and kind(v) == "f")
    name, f = _function(draw)

    def call(x: Any) -> Any:
        out = np.zeros_like(x)
        for k in range(len(x)):
            out[k] = f(x[k]) + 0.5 * out[k - 1]
        return out

    return None if i is None else Step(f"fill[{name}]", call, (i,))


def _comprehend(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values, lambda v: is_array(v) and 0 < len(v) <= 12 and kind(v) != "b")
    name, f = _function(draw)

    def call(x: Any) -> Any:
        rows = [f(row) * k for k, row in enumerate(x)]
        named = {f"row {k}": row for k, row in enumerate(reversed(rows))}
        named["row 0"] = named["row 0"] + rows[0]
        return np.stack(list(named.values()))

    return None if i is None else Step(f"comprehension[{name}]", call, (i,))


# Functions ----------------------------------------------------------------------------------------


def _inner(draw: Any, values: list[Any]) -> Step | None:
    """A closure with a default argument that calls itself."""
    i = _number(draw, values)
    if i is None:
        return None
    j, (name, f), depth = partner(draw, values, i), _function(draw), draw(st.integers(0, 3))

    def call(x: Any, y: Any) -> Any:
        scale = 0.5

        def again(z: Any, left: int = depth) -> Any:
            return z + y * scale if left == 0 else f(again(z, left - 1))

        return again(x)

    return Step(f"inner[{depth}: {name}]", call, (i, j))


# Python's numbers ---------------------------------------------------------------------------------

PYTHON = {
    "plus": lambda a, b: a + b,
    "times": lambda a, b: a * b,
    "over": lambda a, b: a / (abs(b) + 1),
    "floor": lambda a, b: a // (abs(b) + 1),
    "remainder": lambda a, b: a % (abs(b) + 2),
    "power": lambda a, b: (abs(a) % 3) ** 2 - b,
    "larger": lambda a, b: max(a, b) - min(b, 0.25),
    "chosen": lambda a, b: a if a > b else b * 2,
    "chain": lambda a, b: -1 < a <= b,
    "both": lambda a, b: a > 0.1 and b,
    "either": lambda a, b: a > b or a,
    "not": lambda a, b: (not a) + b,
    "bools": lambda a, b: (a > 0) * (b > 0) + (a > b),
    "negative bool": lambda a, b: -(a > b) * 2.5,
    "equal": lambda a, b: (a == b) + (a != b) * a,
    "sum": lambda a, b: sum([a, b, a]),
    "unary": lambda a, b: -a + (+b) - abs(a),
    "sorted": lambda a, b: sorted([a, b, 0.5])[1],
    "whole": lambda a, b: int(a) + b,
    "rounded": lambda a, b: round(a) * b,
    "divmod": lambda a, b: divmod(a, 2)[1] + b,
    "pair": lambda a, b: (a, b)[a > b],
}


def _item(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values, lambda v: is_array(v) and v.size > 0)
    at = draw(st.integers(0, 99))
    return None if i is None else Step("item", lambda x: x.reshape(-1)[at % x.size].item(), (i,))


def _python(draw: Any, values: list[Any]) -> Step | None:
    def fits(v: Any) -> bool:
        return type(v) in (float, int, bool)

    i, j = pick(draw, values, fits), pick(draw, values, fits)
    if i is None or j is None or draw(st.integers(0, 3)) == 0:
        return _item(draw, values)
    name = draw(st.sampled_from(sorted(PYTHON)))
    return Step(f"Python's {name}", PYTHON[name], (i, j))


KINDS = [_branch, _early, _raise, _handle, _while, _repeat, _count, _fill, _comprehend, _inner]
KINDS += [_python, _python, _python]
