"""More of NumPy's functions as statements of random programs (see `jit_steps.py`), in tables.

A table's functions take what its drawing function hands them: an array and an axis, a square
matrix that is far from singular, an array and another value, integers. To try another function,
add it to a table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from jit_steps import MOST, Step, is_array, kind, partner, pick

# One array and an axis ----------------------------------------------------------------------------


def _softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def _standard(x: Any, axis: int) -> Any:
    y = x - x.mean(axis, keepdims=True)
    # Around a half: a sum of what is around zero is nothing but its roundings.
    return 0.5 + y / np.sqrt(1.0 + (y * y).mean(axis, keepdims=True))


def _argsorted(x: Any, axis: int) -> Any:
    return np.take_along_axis(x, np.argsort(x, axis=axis), axis=axis) * 1


def _best(x: Any, axis: int) -> Any:
    return np.take_along_axis(x, np.expand_dims(np.argmax(x, axis=axis), axis), axis=axis) * 1


AXIS = {
    "prod": lambda x, axis: np.prod(np.tanh(x), axis=axis),
    "var": lambda x, axis: np.var(x, axis=axis),
    "std": lambda x, axis: np.sqrt(1.0 + np.var(x, axis=axis, keepdims=True)),
    "norm": lambda x, axis: np.linalg.norm(x, axis=axis),
    "ptp": lambda x, axis: np.ptp(x, axis=axis),
    "any": lambda x, axis: np.any(x > 0.7, axis=axis),
    "all": lambda x, axis: np.all(x < 1.1, axis=axis),
    "count": lambda x, axis: np.count_nonzero(x > 0.123, axis=axis),
    "argmax": lambda x, axis: np.argmax(x, axis=axis),
    "argmin": lambda x, axis: x.argmin(axis),
    "cumprod": lambda x, axis: np.cumprod(np.tanh(x), axis=axis),
    "running maximum": lambda x, axis: np.maximum.accumulate(x, axis=axis),
    "reduce": lambda x, axis: np.multiply.reduce(np.cos(x), axis=axis),
    "diff": lambda x, axis: np.diff(x, axis=axis),
    "roll": lambda x, axis: np.roll(x, 2, axis=axis),
    "flip": lambda x, axis: np.flip(x, axis) * 1,
    "repeat": lambda x, axis: np.repeat(x, 2, axis=axis),
    "take": lambda x, axis: np.take(x, [0, -1, 0], axis=axis),
    "swap": lambda x, axis: np.swapaxes(x, 0, axis) * 1,
    "split": lambda x, axis: np.array_split(x, 2, axis=axis)[0] * 1,
    "softmax": _softmax,
    "standard": _standard,
    "argsorted": _argsorted,
    "best": _best,
    "median": lambda x, axis: np.median(x, axis=axis),
    "pad": lambda x, axis: np.pad(x, [(int(k == axis), 2 * (k == axis)) for k in range(x.ndim)]),
    "trapezoid": lambda x, axis: np.trapezoid(x, dx=0.1, axis=axis),
    "average": lambda x, axis: np.average(x, axis=axis),
    "float32 sum": lambda x, axis: np.sum(x, axis=axis, dtype=np.float32),
    "each": lambda x, axis: sum(np.moveaxis(x, axis, 0)[:4]),
}


def _axis(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values, lambda v: is_array(v) and v.size > 0 and kind(v) != "b")
    if i is None:
        return None
    name, axis = draw(st.sampled_from(sorted(AXIS))), draw(st.integers(0, values[i].ndim - 1))
    if name in ("repeat", "pad") and values[i].size > MOST // 4:
        return None
    along = AXIS[name]
    return Step(f"{name}[{axis}]", lambda x: along(x, axis), (i,))


# Whole arrays -------------------------------------------------------------------------------------

WHOLE = {
    "clip": lambda x: np.clip(x, -0.7, 0.9),
    "sign": np.sign,
    "floor": lambda x: np.floor(x * 3),
    "round": lambda x: np.round(x, 1),
    "power": lambda x: (1.0 + np.abs(x)) ** 1.5 * 0.1,
    "square": lambda x: np.square(np.tanh(x)),
    "cube": lambda x: np.tanh(x) ** 3,
    "cbrt": lambda x: np.cbrt(1.5 + np.tanh(x)),
    "expm1": lambda x: np.expm1(np.tanh(x)),
    "arctan2": lambda x: np.arctan2(x, 1.5),
    "log1p": lambda x: np.log1p(np.abs(x)),
    "isfinite": np.isfinite,
    "nan_to_num": np.nan_to_num,
    "tile": lambda x: np.tile(x, 2),
    "flat": lambda x: x.flatten()[::-1],
    "T": lambda x: x.T * 1,
    "total": lambda x: x.sum() * 0.1,
    "zeros_like": lambda x: np.zeros_like(x) + x,
    "full_like": lambda x: np.full_like(x, 2) * x,
    "copy": lambda x: x.copy(),
    "einsum": lambda x: np.einsum("...i->...", x),
    "einsum outer": lambda x: np.einsum("...i,...i->...", x, np.sin(x)),
    "dot": lambda x: np.dot(x.reshape(-1), np.cos(x).reshape(-1)) * 0.1,
    "vdot": lambda x: np.vdot(x, x) * 0.1,
    "masked": lambda x: x[x > 0.2],
    "first and last": lambda x: x[[0, -1]],
    "where found": lambda x: np.flatnonzero(x > 0.123),
    "found": lambda x: x.reshape(-1)[np.nonzero(x.reshape(-1) < 0.3)],
    "unravelled": lambda x: x[np.unravel_index(np.argmax(x), x.shape)] * 1,
    "flat sort": lambda x: np.sort(x, axis=None),
    "interp": lambda x: np.interp(x, [-1.0, 0.0, 1.0], [0.5, -0.5, 2.0]),
    "digitize": lambda x: np.digitize(x, [-0.5, 0.0, 0.5]),
    "logsumexp": lambda x: np.logaddexp.reduce(x.reshape(-1)),
}


def _whole(draw: Any, values: list[Any]) -> Step | None:
    name = draw(st.sampled_from(sorted(WHOLE)))
    i = pick(draw, values, lambda v: is_array(v) and v.size > 0 and kind(v) != "b")
    return None if i is None else Step(name, WHOLE[name], (i,))


# Matrices -----------------------------------------------------------------------------------------


def _definite(x: Any) -> Any:
    return x @ x.T * 0.1 + np.eye(x.shape[0]) * 2.0


MATRIX = {
    "solve": lambda x: np.linalg.solve(_definite(x), x),
    "inv": lambda x: np.linalg.inv(_definite(x)),
    "cholesky": lambda x: np.linalg.cholesky(_definite(x)),
    "slogdet": lambda x: np.linalg.slogdet(_definite(x))[1],
    "eigvalsh": lambda x: np.sum(np.tanh(np.linalg.eigvalsh(_definite(x)))),
    "singular values": lambda x: np.sum(np.linalg.svd(x, compute_uv=False)),
    "trace": lambda x: np.trace(x) * x,
    "diagonal": lambda x: np.diagonal(x) * 2,
    "diag": lambda x: np.diag(x[0]),
    "tril": lambda x: np.tril(x) - np.triu(x, 1),
    "kron": lambda x: np.kron(x[:2, :2], x),
    "tensordot": lambda x: np.tensordot(x, x, axes=([1], [1])) * 0.1,
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x) * 0.1,
    "power": lambda x: np.linalg.matrix_power(_definite(x) * 0.2, 3),
    "outer": lambda x: np.outer(x[0], x[:, 0]),
    "fill diagonal": lambda x: _filled_diagonal(x),
    "convolve": lambda x: np.convolve(x[0], [0.5, -1.0, 0.25]),
    "cross rows": lambda x: x[np.arange(len(x)), np.arange(len(x)) % x.shape[1]],
    "cov": lambda x: np.mean((x - x.mean(0)).T @ (x - x.mean(0))),
}


def _filled_diagonal(x: Any) -> Any:
    y = x * 2.0
    np.fill_diagonal(y, 0.5)
    return y


def _matrix(draw: Any, values: list[Any]) -> Step | None:
    def fits(v: Any) -> bool:
        return is_array(v) and v.ndim == 2 and 0 < v.size < 500 and kind(v) != "b"

    i, name = pick(draw, values, fits), draw(st.sampled_from(sorted(MATRIX)))
    return None if i is None else Step(name, MATRIX[name], (i,))


# Writes by NumPy's functions ----------------------------------------------------------------------


def _out(x: Any, v: Any) -> None:
    np.multiply(x, 0.5, out=x)
    np.add(x, 0.25, out=x, where=x < 0.1)


def _rows(x: Any, v: Any) -> None:
    x[[0, -1]] += np.sum(v) * 0.01


def _over(x: Any, v: Any) -> None:
    x -= 0.1 * np.mean(v)
    x /= 1.25
    x **= 2


def _shifted(x: Any, v: Any) -> None:
    x[1:] = x[:-1]
    x[0] = np.max(v) * 0.1


def _each(x: Any, v: Any) -> None:
    for row in x[:6]:
        row *= 0.75


INTO = {
    "out": _out,
    "mask": lambda x, v: x.__setitem__(x > 0.3, np.sum(v) * 0.01),
    "mask times": lambda x, v: x.__setitem__(x < 0.1, x[x < 0.1] * 0.5),
    "rows": _rows,
    "copyto": lambda x, v: np.copyto(x, np.sum(v) * 0.1, where=x > 0),
    "putmask": lambda x, v: np.putmask(x, x > 0.5, x * 0.5),
    "fill": lambda x, v: x[:1].fill(0.7),
    "sort": lambda x, v: x.sort(),
    "ufunc.at": lambda x, v: np.multiply.at(x, [0, 0], 0.9),
    "over": _over,
    "shifted": _shifted,
    "each": _each,
    "swap": lambda x, v: x.__setitem__([0, -1], x[[-1, 0]]),
    "reshaped": lambda x, v: x.reshape(-1)[::2].__imul__(0.5),
}


def _into(draw: Any, values: list[Any]) -> Step | None:
    """A write by a function, into an array or a copy of it; either is the result."""

    def fits(v: Any) -> bool:
        return is_array(v) and kind(v) == "f" and v.flags.writeable and v.size > 0

    i, j = pick(draw, values, fits), pick(draw, values, lambda v: np.size(v) > 0)
    if i is None or j is None or (values[i].ndim == 1 and (draw(st.booleans()))):
        return None
    name, copies = draw(st.sampled_from(sorted(INTO))), draw(st.booleans())

    def call(x: Any, v: Any) -> Any:
        t = np.copy(x) if copies else x
        INTO[name](t, v)
        return t

    return Step(f"{'a copy' if copies else 'itself'}: {name}", call, (i, j), False)


# Integers -----------------------------------------------------------------------------------------

INTEGERS = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "floor divide": lambda a, b: a // (b * b + 1),
    "remainder": lambda a, b: a % (abs(b) + 2),
    "shift": lambda a, b: a << (abs(b) % 3),
    "divide": lambda a, b: a / (b * b + 1),
    "times": lambda a, b: a * b,
    "maximum": np.maximum,
    "less": lambda a, b: a < b,
    "power": lambda a, b: (a % 3) ** 2 - b,
}


def _integers(draw: Any, values: list[Any]) -> Step | None:
    i = pick(draw, values, lambda v: kind(v) in "iub")
    if i is None:
        i = pick(draw, values, is_array)
        name = draw(st.sampled_from(["i8", "i4", "u1"]))
        whole = lambda x: (np.abs(x) * 10).astype(name)  # noqa: E731
        return None if i is None else Step(f"whole {name}", whole, (i,))
    j = partner(draw, values, i, lambda v: kind(v) in "iub")
    name = draw(st.sampled_from(sorted(INTEGERS)))
    return Step(f"integer {name}", INTEGERS[name], draw(st.permutations((i, j))))


KINDS = [_axis, _axis, _axis, _whole, _whole, _whole, _matrix, _into, _into, _integers]
