"""`numpy.nditer` over tracked arrays, one element at a time as writable views, and
`numpy.broadcast`.

Elements come in NumPy's order for arrays of the same layout. Flags that read several elements at
once (`external_loop`, `buffered`, ...) are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tracker.errors import UnsupportedError
from tracker.ops.declare.arguments import as_array
from tracker.ops.shape.create import join_tracked_list
from tracker.tape.record import aval_of, holds_tracked
from tracker.tape.tracked import Tracked

NAMES = ("broadcast", "nditer")
_WALKED = {"multi_index", "c_index", "f_index", "refs_ok", "zerosize_ok"}
_KNOWN = _WALKED | {"copy_if_overlap", "common_dtype"}


class nditer:
    """`numpy.nditer`; with tracked arrays, an iterator over their elements."""

    def __new__(cls, op: Any, *args: Any, **kwargs: Any) -> Any:
        several = op if isinstance(op, (tuple, list)) else (op,)
        if not any(map(holds_tracked, several)):
            return np.nditer(op, *args, **kwargs)
        return super().__new__(cls)

    def __init__(
        self,
        op: Any,
        flags: Sequence[str] = (),
        op_flags: Any = None,
        op_dtypes: Any = None,
        order: Any = "K",
        **options: Any,
    ) -> None:
        unknown = set(flags) - _KNOWN | set(options) | ({"op_dtypes"} if op_dtypes else set())
        if unknown:
            raise UnsupportedError(
                f"np.nditer with {', '.join(sorted(unknown))} is not supported on tracked values",
                "Write it with whole arrays, or loop over np.ndindex(x.shape)",
            )
        several = isinstance(op, tuple) or (isinstance(op, list) and not _is_numbers(op))
        given = [join_tracked_list(x) if x is None or isinstance(x, Tracked) else np.asarray(x)
                 for x in (op if several else (op,))]  # fmt: skip
        self.shape = np.broadcast_shapes(*(np.shape(x) for x in given if x is not None))
        self.operands = tuple(self._operand(x, given) for x in given)
        self.has_multi_index = "multi_index" in flags
        avals = [aval_of(x) for x in given if x is not None]
        wanted: list[Any] = [*({"multi_index", *flags} & _WALKED)]
        self._walk = np.nditer(avals, wanted, order=order)

    def _operand(self, x: Any, given: list[Any]) -> Any:
        """An array of the iterator's shape; a new one if none was given."""
        if x is None:
            like = next(x for x in given if isinstance(x, Tracked))
            kind = np.result_type(*(x.dtype for x in given if x is not None))
            return np.zeros_like(like, dtype=kind, shape=self.shape)
        return x if np.shape(x) == self.shape else np.broadcast_to(x, self.shape)

    @property
    def itersize(self) -> int:
        return int(np.prod(self.shape))

    @property
    def finished(self) -> bool:
        return bool(self._walk.finished)

    @property
    def multi_index(self) -> tuple[int, ...]:
        return self._walk.multi_index

    @property
    def index(self) -> int:
        return self._walk.index

    def iternext(self) -> bool:
        """Go on to the next element, if there is one."""
        return bool(self._walk.iternext())

    def __len__(self) -> int:
        return len(self.operands)

    def __getitem__(self, at: int) -> Any:
        return self.operands[at][(*self.multi_index, ...)]

    def __setitem__(self, at: int, value: Any) -> None:
        self.operands[at][self.multi_index] = value

    @property
    def value(self) -> Any:
        """The element, or those of all operands."""
        parts = tuple(self[at] for at in range(len(self)))
        return parts if len(parts) > 1 else parts[0]

    def __iter__(self) -> Iterator[Any]:
        while not self.finished:
            yield self.value
            self.iternext()

    def __enter__(self) -> nditer:
        return self

    def __exit__(self, *_: object) -> None:
        """Elements are views: nothing is left to write back."""


class broadcast:
    """`numpy.broadcast`; with tracked arrays, an iterator over tuples of their elements."""

    def __new__(cls, *args: Any) -> Any:
        return super().__new__(cls) if any(map(holds_tracked, args)) else np.broadcast(*args)

    def __init__(self, *args: Any) -> None:
        arrays = tuple(np.broadcast_arrays(*map(as_array, args)))
        self.shape: tuple[int, ...] = np.shape(arrays[0])
        self.nd = self.ndim = len(self.shape)
        self.size, self.numiter = int(np.prod(self.shape)), len(arrays)
        self.iters = tuple(map(np.ravel, arrays))
        self.reset()

    def reset(self) -> None:
        """Begin again."""
        self.index = 0

    def __iter__(self) -> broadcast:
        return self

    def __next__(self) -> tuple[Any, ...]:
        if self.index >= self.size:
            raise StopIteration
        self.index += 1
        return tuple(each[self.index - 1] for each in self.iters)


def _is_numbers(op: list[Any]) -> bool:
    """Whether a list is an array of numbers rather than a list of operands."""
    return all(np.ndim(x) == 0 and x is not None for x in op)
