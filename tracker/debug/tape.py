"""The history of a value as text (`tape`), and the memory that it keeps alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tracker.autodiff.forward import recording_order
from tracker.autodiff.leaves import ancestors
from tracker.autodiff.reverse import FREED
from tracker.errors import NotTrackedError
from tracker.ir.literals import print_value
from tracker.ir.types import type_of
from tracker.support.structs import field, record
from tracker.tape.record import value_of
from tracker.tape.tracked import Tracked
from tracker.tape.value import CLOSED, ParamState, Value


@record(frozen=True)
class TapeText:
    """The text of a tape, the bytes that it keeps alive, and its number of values; a notebook shows
    its picture, as long as its value is alive."""

    text: str
    live_bytes: int
    values: int
    root: Callable[[], Any] = field(compare=False)  # a weak reference
    drawer: ClassVar[Callable[[Any], str | None]]  # set by `draw.py`

    def __repr__(self) -> str:
        return self.text

    def _repr_svg_(self) -> str | None:
        root = self.root()
        return None if root is None else TapeText.drawer(root)


def tape(y: Any) -> TapeText:
    """The history of a tracked value, one line per value, and the bytes that it keeps alive.

    Parameters
    ----------
    y : Tracked
        A value that was computed from a param, or from an argument inside a derivative.

    Returns
    -------
    TapeText
        Prints as the text; has `live_bytes` (a shared array counts once) and `values`, their
        number.

    Raises
    ------
    NotTrackedError
        `y` is plain.

    See Also
    --------
    draw

    Examples
    --------
    >>> x = tracker.param([1.0, 2.0])
    >>> tape(np.sum(np.sin(x)))
    a: f64[2] = param
    b: f64[2] = sin a
    c: f64[] = sum b  axis=(0,), keepdims=False
    3 values, 40 bytes alive
    """
    values = recorded_values(y)
    names = dict(zip(values, _letters(len(values)), strict=True))
    lines = [f"{names[v]}: {type_name(v.data)} = {format_equation(v, names)}" for v in values]
    alive = live_bytes(values)
    lines.append(f"{len(values)} value{'s' * (len(values) != 1)}, {alive:,} bytes alive")
    return TapeText("\n".join(lines), alive, len(values), weakref.ref(y))


def recorded_values(y: Any) -> list[Value]:
    """The values between a tracked value and its leaves, operands first."""
    if not isinstance(y, Tracked):
        raise NotTrackedError(
            f"there is no tape behind a plain {type(y).__name__}",
            "Give a value that was computed from a tracker.param, or look from inside the "
            "function that is being differentiated",
        )
    root = value_of(y)
    uses = {value: int(value is root) for value in ancestors(root)}
    for value in list(uses):
        for operand in value.operands:
            if type(operand) is Value:
                uses[operand] += 1
    return recording_order([root], uses, set())


def live_bytes(values: list[Value]) -> int:
    """The bytes of all arrays that these values hold; a shared array counts once."""
    arrays: dict[int, int] = {}
    for value in values:
        for x in (value.data, *value.operands):
            for part in x if type(x) is tuple else (x,):
                if isinstance(part, (np.ndarray, np.generic)):
                    whole = _memory_base(part)
                    arrays[id(whole)] = whole.nbytes
    return sum(arrays.values())


def _memory_base(x: Any) -> Any:
    while isinstance(getattr(x, "base", None), np.ndarray):
        x = x.base
    return x


def type_name(x: Any) -> str:
    return str(type_of(x)) if not isinstance(x, str) else "str"


def format_equation(value: Value, names: dict[Value, str]) -> str:
    """The right-hand side of a value's line."""
    if value.op is None:
        return "param" if isinstance(value.params, ParamState) else "argument"
    if value.op is CLOSED:
        return "constant"
    if value.op is FREED:
        return "freed by back"
    shown = " ".join(operand_name(o, names) for o in value.operands)
    texts = {k: print_value(v) for k, v in value.params.items()}
    params = ", ".join(f"{k}={text}" for k, text in texts.items() if not text.startswith("<object"))
    return f"{value.op.name} {shown}{f'  {params}' if params else ''}"


def operand_name(operand: Any, names: dict[Value, str]) -> str:
    if type(operand) is Value:
        return names[operand]
    if np.ndim(operand) == 0:
        return print_value(operand.item() if isinstance(operand, np.ndarray) else operand)
    return f"<{type_of(operand)}>"


def _letters(count: int) -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return [letters[k % 26] + (str(k // 26) if k >= 26 else "") for k in range(count)]
