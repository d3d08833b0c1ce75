"""Random NumPy programs, and what the jit tests ask of them: is one result the same as another.

`programs(sizes)` draws a `Program`: arguments, and steps that NumPy could run on them. Shapes and
dtypes are found by running each step while drawing. A program is called like a function; calling it
twice, plainly, with the same arguments gives the same result, so whatever runs it must agree.

`check` compares a compiled call with the plain one: results or errors, and what was written. Where
they differ it asks whether rounding could have decided between them (`Program.shaken`): the sign of
a sum that cancels is no property of the program, and such an example is dropped.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import partial
from typing import Any

import jit_catalogue
import jit_flow
import jit_steps
import numpy as np
from equality import assert_same
from hypothesis import reject
from hypothesis import strategies as st
from jit_steps import MOST, Step

from tracker.errors import ConversionError, NonFiniteError

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
KINDS = [*jit_steps.KINDS, *jit_catalogue.KINDS, *jit_flow.KINDS]
NUMBERS = {"float": 1.5, "int": 3, "np.float64": np.float64(1), "np.float32": np.float32(1)}
REFUSED = (ValueError, TypeError, IndexError, ArithmeticError, Warning)
SHAKES = 8  # noises that are tried


@dataclass
class Program:
    """A function of `len(arguments)` arguments; `results` are the values it returns, by number. The
    loss is a weighted sum over them."""

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
            kind = np.result_type(y).kind
            if kind == "f":
                total = total + np.sum(np.sin(y) * (1.0 + 0.1 * k))
            elif kind == "c":
                total = total + np.sum(np.sin(np.real(y)) - np.cos(np.imag(y)) * (1.0 + 0.1 * k))
        return total

    def shaken(self, seed: int) -> Program:
        """This program with noise, of the size of rounding errors, on whatever it computes."""
        seeds = np.random.default_rng(seed).integers(2**32, size=len(self.steps))
        steps = [
            replace(step, call=_noisy(step.call, int(seed))) if step.fresh else step
            for step, seed in zip(self.steps, seeds, strict=True)
        ]
        return replace(self, steps=steps)

    def __repr__(self) -> str:
        given = [f"v{i} = {_show(x)}" for i, x in enumerate(self.arguments)]
        n = len(self.arguments)
        lines = [
            f"v{n + k} = {s.text}({', '.join(f'v{i}' for i in s.operands)})"
            for k, s in enumerate(self.steps)
        ]
        return "\n".join(["", *given, *lines, f"return {', '.join(f'v{i}' for i in self.results)}"])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # hypothesis shows a dataclass by its fields otherwise

    def others(self, seed: int) -> list[Any]:
        """Other arguments of the same types."""
        rng = np.random.default_rng(seed)
        return [_like(x, rng) for x in self.arguments]

    def copies(self, arguments: Sequence[Any] | None = None) -> list[Any]:
        """Copies of its arguments, or of other ones."""
        given = self.arguments if arguments is None else arguments
        return [np.array(x) if isinstance(x, np.ndarray) else x for x in given]


def _noisy(call: Any, seed: int) -> Any:
    def noisy(*operands: Any) -> Any:
        return shake(call(*operands), seed)

    return noisy


def shake(x: Any, seed: int) -> Any:
    """A value with noise of the size of a few roundings on its elements; others as they are."""
    dtype = np.result_type(x)
    if dtype.kind not in "fc" or (isinstance(x, np.ndarray) and not x.ndim):
        return x
    noise = 1.0 + 8 * np.finfo(dtype).eps * np.random.default_rng(seed).normal(size=np.shape(x))
    if np.shape(x):
        return x * noise.astype(np.finfo(dtype).dtype)
    return x * (float(noise) if isinstance(x, (float, complex)) else x.dtype.type(noise))


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
    if dtype.kind == "c":
        return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape), dtype)
    return np.asarray(rng.normal(size=shape), dtype)


@st.composite
def programs(
    draw: Any,
    sizes: str = "mixed",
    most: int = 10,
    dtypes: Sequence[str] = ("f8", "f8", "f8", "f8", "f4", "f4", "i8", "?", "i4", "u1"),
    numbers: Sequence[str] = ("float", "float", "int", "np.float64", "np.float32"),
) -> Program:
    """A program over shapes of one of the size classes; the first argument is an array."""
    shapes = SHAPES[sizes]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    first = dtypes[0]
    arguments: list[Any] = [_numbers(first, draw(st.sampled_from(shapes)), rng)]
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.integers(0, 3)):
            shape = draw(st.sampled_from(shapes))
            arguments.append(_numbers(draw(st.sampled_from(dtypes)), shape, rng))
        else:
            arguments.append(_like(NUMBERS[draw(st.sampled_from(numbers))], rng))
    program = Program(arguments)
    values = program.copies()
    wanted = draw(st.integers(most // 3, most))
    for _ in range(4 * wanted):  # many steps do not fit
        if len(program.steps) == wanted:
            break
        step = draw(st.sampled_from(KINDS))(draw, values)
        made = None if step is None else _made(step, values)
        if made is None or not all(map(_sane, [made, *values])):
            values = _run(program)  # a write may have made an older value huge: begin again
            continue
        program.steps.append(step)
        values.append(made)
    if any(np.result_type(v) in (np.float32, np.complex64) for v in values):
        program.tolerance = 2e-5
    count, used = len(values), {i for step in program.steps for i in step.operands}
    unused = [i for i in range(len(arguments), count - 1) if i not in used]
    program.results = (count - 1, *unused, *draw(st.lists(st.integers(0, count - 1), max_size=1)))
    return program


def _made(step: Step, values: list[Any]) -> Any:
    """What a step gives; None where NumPy refuses, or warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return step.call(*(values[i] for i in step.operands))
        except REFUSED:
            return None


def _run(program: Program) -> list[Any]:
    values = program.copies()
    for step in program.steps:
        values.append(step.call(*(values[i] for i in step.operands)))
    return values


def _sane(x: Any) -> bool:
    with np.errstate(all="ignore"):
        return np.size(x) <= MOST and bool(np.all(np.abs(x) < 1e6))


# Comparing ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Raised:
    """An error instead of a result; of two, the classes are compared, for ours may say more."""

    type: type
    text: str = field(compare=False)


def outcome(f: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """What a call gives, or raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(*arguments)
        except Exception as error:
            return Raised(_public(type(error)), str(error))


def _public(error: type) -> type:
    """NumPy has classes of its own for some errors that people catch by another name."""
    return next(each for each in error.__mro__ if not each.__module__.endswith("._exceptions"))


def check(
    program: Program,
    plain: Callable[..., Any],
    compiled: Callable[..., Any],
    give: Callable[[], list[Any]],
    tolerance: float,
    where: str = "result",
) -> None:
    """`compiled(*arguments)` does what `plain(program, *arguments)` does; `give` makes arguments.

    An error is right only if it is the program's own."""
    expected, found = give(), give()
    want = outcome(lambda *xs: plain(program, *xs), expected)
    if isinstance(want, Raised):
        if want.type is ConversionError:  # a tracked number is stored into an array of NumPy's own
            reject()
        if want.type is NonFiniteError:
            loss = outcome(program.loss, give())
            if not isinstance(loss, Raised) and np.isnan(loss):
                reject()
        assert outcome(program, give()) == want, f"{where}: {want}, which is not the program's"
    got = outcome(compiled, found)
    try:
        if isinstance(want, Raised):  # who catches the program's error catches this one, too
            assert isinstance(got, Raised) and issubclass(got.type, want.type), f"{where}: {got!r}"
        else:
            assert_same(got, want, where, tolerance)
        assert_same(found, expected, "arguments", tolerance)
    except AssertionError:
        for seed in range(SHAKES):
            noisy = [shake_argument(x, seed + k) for k, x in enumerate(give())]
            other = outcome(lambda *xs, seed=seed: plain(program.shaken(seed), *xs), noisy)
            if not close(other, want, tolerance) or not close(noisy, expected, tolerance):
                reject()
        raise


def check_calls(
    program: Program,
    plain: Callable[..., Any],
    *compiled: Callable[..., Any],
    give: Callable[[Sequence[Any]], list[Any]] | None = None,
    tolerance: float = 1,
) -> None:
    """Ways to call give what the plain way gives; from the second call on machine code answers,
    also for other arguments. `tolerance` is in those of the program."""
    for arguments in (program.arguments, program.arguments, program.others(1)):
        made = partial(give or program.copies, arguments)
        for k, way in enumerate(compiled):
            check(program, plain, way, made, tolerance * program.tolerance, f"way {k}")


def shake_argument(x: Any, seed: int) -> Any:
    """Noise on an argument, in place where it is an array (its layout stays)."""
    if not isinstance(x, np.ndarray):
        return shake(x, seed)
    if x.flags.writeable:
        x[...] = shake(x, seed)
    return x


def close(a: Any, b: Any, tolerance: float) -> bool:
    """Whether the numbers are the same, whatever holds them."""
    if isinstance(a, Raised) or isinstance(b, Raised):
        return bool(a == b)
    if isinstance(a, (tuple, list)):
        return all(close(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return close(list(a.values()), list(b.values()), tolerance)
    if is_dataclass(a):
        return close(vars(a), vars(b), tolerance)
    try:
        assert_same(np.asarray(a), np.asarray(b), "", tolerance)
    except AssertionError:
        return False
    return True
