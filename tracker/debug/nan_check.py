"""Finding where the first number that is not finite appeared.

Owns: `nan_check`. A watch is told of every value that is recorded, forward, and of the cotangents
of every backward pass. Jitted functions run in Python within it, so that every value is seen.

Invariant: a result is blamed on an op only if everything that went into it is finite.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracker.autodiff.leaves import plain_data
from tracker.errors import NonFiniteError, message, user_line
from tracker.jit import in_python
from tracker.support.weakrefs import WeakIdentityDict
from tracker.tape.observers import RecordingObserver
from tracker.tape.value import Value


@contextmanager
def nan_check(*, inf: bool = True) -> Iterator[None]:
    """Within this block, the first NaN (or infinity, unless `inf=False`) raises NonFiniteError,
    which names the op, the place in its result, and the user's line.

    Forward, every value that is computed from a tracked one is looked at; backward, every
    cotangent. What is not finite in the data itself is nobody's mistake, and passes. Functions made
    by `jit` run in plain Python within the block: what is found does not depend on compilation.

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

    def on_recorded(self, value: Value) -> None:
        line = self.lines[value] = user_line()
        found = None if self.backward_depth else self.first_nonfinite(value.data)
        if found is None or any(
            self.first_nonfinite(_operand_data(o)) is not None for o in value.operands
        ):
            return
        given = ", ".join(_format_operand(_operand_data(o), found[0]) for o in value.operands)
        raise NonFiniteError(
            message(
                f"{value.op.name} gave {found[1]} at {list(found[0])} of its result, shape "
                f"{np.shape(value.aval)}; it was given {given}",
                "np.where with a safe value inside, or np.clip, keeps the argument in range",
                line,
            )
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
            guilty = [
                consumer
                for consumer in visited
                if any(o is value for o in consumer.operands)
                and consumer not in bad
                and all(self.first_nonfinite(_operand_data(o)) is None for o in consumer.operands)
            ]
            if not guilty:
                continue  # it was handed on, or is in the data, or is the seed
            consumer = guilty[0]
            given = ", ".join(
                _format_operand(_operand_data(o), position) for o in consumer.operands
            )
            raise NonFiniteError(
                message(
                    f"the derivative of {consumer.op.name} gave {number} at {list(position)}: the "
                    f"cotangent that came in is finite; {consumer.op.name} was given {given}",
                    "np.where with a safe value inside keeps the argument where the derivative is "
                    "finite",
                    self.lines.get(consumer) or "<unknown>",
                )
            )

    def first_nonfinite(self, x: Any) -> tuple[tuple[int, ...], Any] | None:
        """The first place that is not finite, and what is there."""
        if isinstance(x, tuple):
            return next((found for part in x if (found := self.first_nonfinite(part))), None)
        if not hasattr(x, "dtype") and not isinstance(x, (float, complex)):
            return None
        if np.result_type(x).kind not in "fc":
            return None
        wrong = ~np.isfinite(x) if self.inf else np.isnan(x)
        if not np.any(wrong):
            return None
        position = tuple(int(i) for i in np.argwhere(wrong)[0])
        return position, np.asarray(x)[position].item()


def _operand_data(operand: Any) -> Any:
    return operand.data if type(operand) is Value else operand


def _format_operand(x: Any, position: tuple[int, ...]) -> str:
    """An operand at the place in question, where it has that place."""
    if np.ndim(x) == 0:
        return f"{x!s}"
    if np.ndim(x) == len(position) and all(
        i < n for i, n in zip(position, np.shape(x), strict=True)
    ):
        return f"{np.asarray(x)[position]!s}"
    return f"an array of shape {np.shape(x)}"
