"""Random NumPy programs, and what the jit tests ask of them: is one result the same as another.

`programs(sizes)` draws a `Program`: arguments, and steps that NumPy could run on them. Shapes and
dtypes are found by running each step while drawing. A program is called like a function; calling it
twice, plainly, with the same arguments gives the same result, so whatever runs it must agree.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

TINY = [(), (1,), (2,), (3,), (5,), (0,), (1, 3), (2, 2), (3, 2), (4, 1), (2, 0), (2, 3, 2), (1, 1)]
MEDIUM = [
    (33,),
    (100,),
    (1037,),
    (7, 11),
    (5, 40),
    (40, 5),
    (1, 37),
    (64, 3),
    (3, 4, 5),
    (2, 19, 3),
]
MIXED = [*TINY[:5], (4, 1), (1, 11), (11,), (5,), (40,), (3, 1, 5), (3,), *MEDIUM]
SHAPES = {"tiny": TINY, "medium": MEDIUM, "mixed": MIXED}
MOST = 5000  # elements of the largest value a program makes


@dataclass
class Step:
    """One statement: `call(*operands)` of earlier values, by number; `text` is for people."""

    text: str
    call: Any
    operands: tuple[int, ...]


@dataclass
class Program:
    """A function of `len(arguments)` arguments. `float_outputs` are the numbers of the values whose
    weighted sum is the loss."""

    arguments: list[Any]
    steps: list[Step] = field(default_factory=list)
    results: tuple[int, ...] = ()
    tolerance: float = 1e-12  # float32 values anywhere round coarsely

    def __call__(self, *arguments: Any) -> Any:
        values = list(arguments)
        for step in self.steps:
            values.append(step.call(*(values[i] for i in step.operands)))
        return tuple(values[i] for i in self.results)

    def loss(self, *arguments: Any) -> Any:
        total = 0.5
        for k, y in enumerate(self(*arguments)):
            if np.result_type(y).kind == "f":
                total = total + np.sum(np.sin(y) * (1.0 + 0.1 * k))
        return total

    def __repr__(self) -> str:
        given = [f"v{i} = {_show(x)}" for i, x in enumerate(self.arguments)]
        n = len(self.arguments)
        lines = [
            f"v{n + k} = {s.text}({', '.join(f'v{i}' for i in s.operands)})"
            for k, s in enumerate(self.steps)
        ]
        return "\n".join(["", *given, *lines, f"return {', '.join(f'v{i}' for i in self.results)}"])

    def others(self, seed: int) -> list[Any]:
        """Other arguments of the same types."""
        rng = np.random.default_rng(seed)
        return [_like(x, rng) for x in self.arguments]

    def copies(self) -> list[Any]:
        return [np.array(x) if isinstance(x, np.ndarray) else x for x in self.arguments]


def _show(x: Any) -> str:
    if isinstance(x, np.ndarray):
        return f"{x.dtype}{list(x.shape)}"
    return f"{type(x).__name__} {x!r}"


def _like(x: Any, rng: np.random.Generator) -> Any:
    if type(x) is float:
        return float(rng.normal())
    if type(x) is int:
        return int(rng.integers(-4, 5))
    if isinstance(x, np.ndarray):
        return _numbers(x.dtype, x.shape, rng)
    return x.dtype.type(_numbers(x.dtype, (), rng))


def _numbers(dtype: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) > 0.5
    if dtype.kind in "iu":
        return np.asarray(rng.integers(0 if dtype.kind == "u" else -4, 5, shape), dtype)
    return np.asarray(rng.normal(size=shape), dtype)


# Drawing ------------------------------------------------------------------------------------------

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


@st.composite
def programs(draw: Any, sizes: str = "mixed", most: int = 8, floats: Any = None) -> Program:
    """A program over shapes of one of the size classes."""
    shapes = SHAPES[sizes]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtypes = floats or ["f8", "f8", "f8", "f4", "i8", "?", "i4"]
    arguments: list[Any] = [_numbers("f8", draw(st.sampled_from(shapes)), rng)]
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["array"] * 6 + ["float", "int", "np.float64"]))
        shape = draw(st.sampled_from(shapes))
        if kind == "array":
            arguments.append(_numbers(draw(st.sampled_from(dtypes)), shape, rng))
        else:
            arguments.append({"float": 1.5, "int": 3, "np.float64": np.float64(0.5)}[kind])
            arguments[-1] = _like(arguments[-1], rng)
    program = Program(arguments)
    values = program.copies()
    for _ in range(draw(st.integers(1, most))):
        step = _step(draw, values)
        if step is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                made = step.call(*(values[i] for i in step.operands))
            except (ValueError, TypeError, RuntimeWarning, IndexError):
                continue
        if np.size(made) > MOST or not _sane(made) or not all(map(_sane, values)):
            # A write may have made an older value huge: begin again.
            values = _run(program)
            continue
        program.steps.append(step)
        values.append(made)
    if any(np.result_type(v) == np.float32 for v in values):
        program.tolerance = 2e-5
    count = len(values)
    picked = draw(st.lists(st.integers(0, count - 1), min_size=0, max_size=2))
    program.results = (count - 1, *picked)
    return program


def _run(program: Program) -> list[Any]:
    values = program.copies()
    for step in program.steps:
        values.append(step.call(*(values[i] for i in step.operands)))
    return values


def _sane(x: Any) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.all(np.abs(x, dtype=np.float64) < 1e6))


def _step(draw: Any, values: list[Any]) -> Step | None:
    kinds = [_unary, _binary, _binary, _compare, _where, _reduce, _matmul, _shape, _join, _slice]
    kinds += [_gather, _scatter, _along, _divide, _place]
    return draw(st.sampled_from([*kinds, _slice, _write, _write, _cast]))(draw, values)


def _pick(draw: Any, values: list[Any], test: Any = None) -> int | None:
    fit = [i for i, v in enumerate(values) if test is None or test(v)]
    # The newest value is the likeliest, so that programs are deep.
    return draw(st.sampled_from([*fit, fit[-1], fit[-1]])) if fit else None


def _kind(v: Any) -> str:
    return np.result_type(v).kind


def _is_array(v: Any) -> bool:
    return type(v) is np.ndarray and v.ndim > 0


def _unary(draw: Any, values: list[Any]) -> Step | None:
    i = _pick(draw, values, lambda v: _kind(v) != "b")
    name = draw(st.sampled_from(sorted(UNARY)))
    return None if i is None else Step(name, UNARY[name], (i,))


def _partner(draw: Any, values: list[Any], i: int) -> int | None:
    def fits(v: Any) -> bool:
        try:
            return np.prod(np.broadcast_shapes(np.shape(v), np.shape(values[i]))) <= MOST
        except ValueError:
            return False

    return _pick(draw, values, fits)


def _binary(draw: Any, values: list[Any]) -> Step | None:
    i = _pick(draw, values)
    j = _partner(draw, values, i)
    name = draw(st.sampled_from(sorted(BINARY)))
    return Step(name, BINARY[name], draw(st.permutations((i, j))))


def _compare(draw: Any, values: list[Any]) -> Step | None:
    i = _pick(draw, values)
    name = draw(st.sampled_from(sorted(COMPARE)))
    return Step(name, COMPARE[name], (i, _partner(draw, values, i)))


def _where(draw: Any, values: list[Any]) -> Step | None:
    c = _pick(draw, values, lambda v: _kind(v) == "b")
    if c is None:
        return _compare(draw, values)
    i = _partner(draw, values, c)
    return Step("where", np.where, (c, i, _partner(draw, values, c)))


def _axes(draw: Any, ndim: int) -> Any:
    if draw(st.booleans()):
        return None
    axes = tuple(sorted(draw(st.sets(st.integers(0, ndim - 1), min_size=1))))
    return axes[0] - ndim if len(axes) == 1 and draw(st.booleans()) else axes


def _reduce(draw: Any, values: list[Any]) -> Step | None:
    i = _pick(draw, values, lambda v: _is_array(v) and v.size > 0)
    if i is None:
        return None
    name = draw(st.sampled_from(sorted(REDUCE)))
    axis, keepdims = _axes(draw, values[i].ndim), draw(st.booleans())
    function = REDUCE[name]
    return Step(
        f"{name}[axis={axis}, keepdims={keepdims}]",
        lambda x: function(x, axis=axis, keepdims=keepdims),
        (i,),
    )


def _matmul(draw: Any, values: list[Any]) -> Step | None:
    i = _pick(draw, values, lambda v: _is_array(v) and _kind(v) != "b")
    if i is None:
        return None

    def fits(v: Any) -> bool:
        if not _is_array(v) or _kind(v) == "b":
            return False
        try:
            return np.matmul(np.zeros(np.shape(values[i])), np.zeros(np.shape(v))).size <= MOST
        except ValueError:
            return False

    j = _pick(draw, values, fits)
    if j is None:
        a = values[i]
        if a.ndim == 1:
            return Step("outer", lambda x: np.outer(x, np.sin(x)) * 0.1, (i,))
        if draw(st.booleans()):
            return Step("gram", lambda x: x @ np.swapaxes(x, -1, -2) * 0.1, (i,))
        return Step("gram_T", lambda x: np.swapaxes(x, -1, -2) @ x * 0.1, (i,))
    return Step("matmul", lambda a, b: np.matmul(a, b) * 0.1, (i, j))


def _places(v: Any, n: int) -> Any:
    """Positions in an axis of n elements, some of them counted from the end."""
    return np.floor(np.abs(v) * 10).astype(np.int64) % (2 * n) - n


def _gather(draw: Any, values: list[Any]) -> Step | None:
    """Read by the positions that another value gives, or by a mask."""
    i = _pick(draw, values, lambda v: _is_array(v) and v.size > 0)
    if i is None:
        return None
    if draw(st.booleans()):
        return Step("sum of mask", lambda x: np.sum(x[x > 0.123]) * 0.1, (i,))
    most = MOST // values[i][0].size
    j = _pick(draw, values, lambda v: np.size(v) <= most)
    return None if j is None else Step("gather", lambda x, v: x[_places(v, len(x))], (i, j))


def _scatter(draw: Any, values: list[Any]) -> Step | None:
    """Write, or add, at such positions."""
    i = _pick(draw, values, lambda v: _is_array(v) and v.size > 0 and _kind(v) == "f")
    if i is None:
        return None
    j = _pick(draw, values, lambda v: np.size(v) <= MOST)
    adds = draw(st.booleans())

    def call(x: Any, v: Any) -> Any:
        t = x * 0.5
        places = _places(v, t.size)
        flat = t.reshape(-1)
        if adds:
            np.add.at(flat, places, np.sin(v).astype(flat.dtype))
        else:
            flat[places] = np.sin(v)
        return t

    return Step(f"scatter[adds={adds}]", call, (i, j))


def _along(draw: Any, values: list[Any]) -> Step | None:
    i = _pick(draw, values, lambda v: _is_array(v) and _kind(v) != "b")
    if i is None:
        return None
    axis = draw(st.integers(0, values[i].ndim - 1))
    if draw(st.booleans()):
        return Step(f"cumsum[{axis}]", lambda x: np.cumsum(x * 0.1, axis=axis), (i,))
    return Step(f"sort[{axis}]", lambda x: np.sort(x, axis=axis), (i,))


def _divide(draw: Any, values: list[Any]) -> Step | None:
    i = _pick(draw, values, lambda v: _kind(v) != "b")
    if i is None:
        return None
    if draw(st.booleans()):
        return Step("remainder", lambda x: x % 0.7 - x // 3, (i,))
    return Step("remainder of", lambda x: 2.5 % (1 + np.abs(x)), (i,))


def _place(draw: Any, values: list[Any]) -> Step | None:
    """A number of one array at a place that is found in another."""
    i = _pick(draw, values, lambda v: _is_array(v) and v.size > 0)
    if i is None:
        return None
    j = _pick(draw, values, lambda v: _is_array(v) and v.size > 0)
    return Step("at first", lambda x, v: x[np.argmax(v > 0.123) % len(x)] * 1, (i, j))


def _shape(draw: Any, values: list[Any]) -> Step | None:
    i = _pick(draw, values, _is_array)
    if i is None:
        return None
    shape = values[i].shape
    kind = draw(
        st.sampled_from(["reshape", "transpose", "broadcast", "expand", "squeeze", "ravel"])
    )
    if kind == "transpose":
        axes = tuple(draw(st.permutations(range(len(shape)))))
        return Step(f"transpose{axes}", lambda x: np.transpose(x, axes), (i,))
    if kind == "broadcast":
        n = draw(st.integers(1, 3))
        return Step(f"broadcast[{n}]", lambda x: np.broadcast_to(x, (n, *shape)) * 1.0, (i,))
    if kind == "expand":
        axis = draw(st.integers(0, len(shape)))
        return Step(f"expand[{axis}]", lambda x: np.expand_dims(x, axis), (i,))
    if kind == "squeeze":
        return Step("squeeze", np.squeeze, (i,))
    if kind == "ravel":
        return Step("ravel", np.ravel, (i,))
    target = draw(st.sampled_from(_shapes_of(values[i].size)))
    return Step(f"reshape{target}", lambda x: np.reshape(x, target), (i,))


def _shapes_of(size: int) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [(size,), (1, size), (size, 1)]
    divisors = [d for d in range(2, min(size, 100)) if size % d == 0]
    found += [(d, size // d) for d in divisors]
    pairs = [(d, e) for d in divisors[:3] for e in divisors[:3] if size // d % e == 0]
    found += [(d, e, size // d // e) for d, e in pairs]
    return found


def _join(draw: Any, values: list[Any]) -> Step | None:
    i = _pick(draw, values, _is_array)
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
    i = _pick(draw, values, _is_array)
    if i is None:
        return None
    index = _index(draw, values[i].shape)
    return Step(f"getitem[{index}]", lambda x: x[index], (i,))


def _write(draw: Any, values: list[Any]) -> Step | None:
    """A write into an array: into a copy of it, itself, or a view of it."""
    i = _pick(draw, values, lambda v: _is_array(v) and _kind(v) == "f" and v.flags.writeable)
    if i is None:
        return None
    index = _index(draw, values[i].shape)
    inner = np.shape(values[i][index])

    def fits(v: Any) -> bool:
        try:
            return np.broadcast_shapes(np.shape(v), inner) == inner
        except ValueError:
            return False

    j = _pick(draw, values, fits)
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

    return Step(f"write[{how} {index}]", call, (i, j))


def _cast(draw: Any, values: list[Any]) -> Step | None:
    i = _pick(draw, values, _is_array)
    if i is None:
        return None
    want = draw(st.sampled_from(["f4", "f8", "?", "f8"]))
    return Step(f"astype[{want}]", lambda x: x.astype(want), (i,))


# Comparing ----------------------------------------------------------------------------------------


def assert_same(got: Any, want: Any, where: str = "", tolerance: float = 1e-12) -> None:
    """Same structure, classes, dtypes, shapes; numbers equal up to a few roundings."""
    assert type(got) is type(want), f"{where}: {type(got).__name__}, not {type(want).__name__}"
    if isinstance(want, dict):
        assert list(got) == list(want), where
        got, want = tuple(got.values()), tuple(want.values())
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want), where
        for k, (a, b) in enumerate(zip(got, want, strict=True)):
            assert_same(a, b, f"{where}[{k}]", tolerance)
        return
    if want is None or isinstance(want, str):
        assert got == want, where
        return
    assert np.shape(got) == np.shape(want), f"{where}: {np.shape(got)}, not {np.shape(want)}"
    kind = np.result_type(want)
    assert np.result_type(got) == kind, f"{where}: {np.result_type(got)}, not {kind}"
    if kind.kind not in "fc":
        np.testing.assert_array_equal(got, want, err_msg=where)
        return
    tolerance = max(tolerance, 1e-5 if kind.itemsize <= 4 else 0.0)
    finite = np.abs(np.asarray(want)[np.isfinite(want)])
    scale = max(1.0, float(np.max(finite))) if finite.size else 1.0
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale, err_msg=where)
