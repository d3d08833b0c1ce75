"""`nan_check`: where the first number that is not finite appeared.

An observer sees every recorded value and the cotangents of every backward pass. Jitted functions
run in Python meanwhile, so that all values are recorded.

Invariant: an op is named only if all of its operands are finite.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracker.autodiff.leaves import plain_data
from tracker.errors import NonFiniteError
from tracker.jit import in_python
from tracker.support.weakrefs import WeakIdentityDict
from tracker.tape.observers import RecordingObserver
from tracker.tape.value import Value
from tracker.user_frames import user_line


@contextmanager
def nan_check(*, inf: bool = True) -> Iterator[None]:
    """A context in which the first number that is not finite raises.

    Parameters
    ----------
    inf : bool
        Whether an infinity counts; a NaN does.

    Raises
    ------
    NonFiniteError
        Names the op, the index in its result, and your line.

    Notes
    -----
    It checks every value computed from a tracked one, and every cotangent of a backward pass.
    Numbers that are not finite in the data pass; if the loss is NaN in the end, the error names the
    line that used them first. Jitted functions run in plain Python meanwhile: the result does not
    depend on compilation.

    Examples
    --------
    >>> with nan_check():
    ...     tracker.gradient(lambda x: np.sum(np.sqrt(x)), [1.0, 0.0])
    Traceback (most recent call last):
    tracker.errors.NonFiniteError: the derivative of sqrt gave inf at [1] ...
    """
    with in_python(), _NanObserver(inf):
        yield


class _NanObserver(RecordingObserver):
    def __init__(self, inf: bool) -> None:
        self.inf = inf
        self.lines: WeakIdentityDict[str] = WeakIdentityDict()
        self.first_data: tuple[str, str] | None = None

    def on_recorded(self, value: Value) -> None:
        line = self.lines[value] = user_line()
        found = None if self.backward_depth else self.first_nonfinite(value.data)
        if found is None:
            return
        given = [(o, self.first_nonfinite(_operand_data(o))) for o in value.operands]
        if any(nonfinite for _, nonfinite in given):
            data = [bad for o, bad in given if bad and not getattr(o, "operands", ())]
            if data and self.first_data is None:
                position, number = data[0]
                what = f"{value.op.name} was given data with {number} at {list(position)}"
                self.first_data = what, line
            return
        operands = ", ".join(_format_operand(_operand_data(o), found[0]) for o in value.operands)
        raise NonFiniteError(
            f"{value.op.name} gave {found[1]} at {list(found[0])} of its result, shape "
            f"{np.shape(value.aval)}; it was given {operands}",
            "np.where with a safe value inside, or np.clip, keeps the argument in range",
            line,
        )

    def on_backward(self, visited: dict[Value, Any], leaves: Iterable[tuple[Value, Any]]) -> None:
        order = dict(visited)
        order.update((leaf, g) for leaf, g in leaves if g is not None)
        bad = {
            value: found
            for value, g in order.items()
            if (found := self.first_nonfinite(plain_data(g)))
        }
        for value, (position, number) in bad.items():
            causes = [
                consumer
                for consumer in visited
                if any(o is value for o in consumer.operands)
                and consumer not in bad
                and all(self.first_nonfinite(_operand_data(o)) is None for o in consumer.operands)
            ]
            if not causes:
                continue  # passed on by another op, or part of the data or the seed
            consumer = causes[0]
            operands = ", ".join(
                _format_operand(_operand_data(o), position) for o in consumer.operands
            )
            raise NonFiniteError(
                f"the derivative of {consumer.op.name} gave {number} at {list(position)}: the "
                f"cotangent that came in is finite; {consumer.op.name} was given {operands}",
                "np.where with a safe value inside keeps the argument where the derivative is "
                "finite",
                self.lines.get(consumer) or "<unknown>",
            )

    def nonfinite_data(self) -> tuple[str, str] | None:
        return self.first_data

    def first_nonfinite(self, x: Any) -> tuple[tuple[int, ...], Any] | None:
        """The index of the first number that is not finite, and the number."""
        if isinstance(x, tuple):
            return next((found for part in x if (found := self.first_nonfinite(part))), None)
        if not hasattr(x, "dtype") and not isinstance(x, (float, complex)):
            return None
        if np.result_type(x).kind not in "fc":
            return None
        mask = ~np.isfinite(x) if self.inf else np.isnan(x)
        if not np.any(mask):
            return None
        position = tuple(int(i) for i in np.argwhere(mask)[0])
        return position, np.asarray(x)[position].item()


def _operand_data(operand: Any) -> Any:
    return operand.data if type(operand) is Value else operand


def _format_operand(x: Any, position: tuple[int, ...]) -> str:
    """The element of an operand at a position, if it has that position; else its shape."""
    if np.ndim(x) == 0:
        return f"{x!s}"
    if np.ndim(x) == len(position) and all(
        i < n for i, n in zip(position, np.shape(x), strict=True)
    ):
        return f"{np.asarray(x)[position]!s}"
    return f"an array of shape {np.shape(x)}"
