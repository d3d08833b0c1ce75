"""`FillableSparse`: a sparse array that is filled element by element, as LIL and DOK are.

Elements have numbers, as in `tracked_array.py`, and every write numbers what it stores. For all
else it is converted to a `TrackedSparse`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from tracker.scipy.sparse.tracked_array import TrackedSparse, plain_key, with_new_entries


class FillableSparse:
    """A sparse array that can be written into; to `isinstance` an instance of SciPy's class."""

    __slots__ = ("__weakref__", "_cls", "_entries", "_numbers")
    __array_ufunc__ = None  # NumPy's operators defer
    _tracker_sparse = _holds_tracked = True

    def __init__(self, cls: Any, numbers: Any, entries: Any) -> None:
        self._cls, self._numbers, self._entries = cls, numbers, entries

    @staticmethod
    def empty(cls: Any, shape: tuple[int, ...], dtype: Any) -> FillableSparse:
        """An array of zeros that counts as one of SciPy's class."""
        is_matrix = issubclass(cls, scipy.sparse.spmatrix)
        lil = scipy.sparse.lil_matrix if is_matrix else scipy.sparse.lil_array
        numbers = lil(shape, dtype=np.int64)
        return FillableSparse(cls, numbers, np.zeros(0, float if dtype is None else dtype))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        found: type = self._cls
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        found: tuple[int, ...] = self._numbers.shape
        return found

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self._entries.dtype
        return found

    def tocsr(self, copy: bool = False) -> TrackedSparse:
        return TrackedSparse.from_numbered(self._numbers.tocsr(), self._entries)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.tocsr(), name)

    def __repr__(self) -> str:
        return repr(self.tocsr())

    def __getitem__(self, key: Any) -> Any:
        return TrackedSparse.element(self._numbers[plain_key(key)], self._entries)

    def __setitem__(self, key: Any, v: Any) -> None:
        new, self._entries = with_new_entries(self._entries, v)
        self._numbers[plain_key(key)] = new

    def setdiag(self, values: Any, k: int = 0) -> None:
        new, self._entries = with_new_entries(self._entries, values)
        self._numbers.setdiag(new, k)


def _operator(name: str) -> Callable[..., Any]:
    def method(self: FillableSparse, *others: Any) -> Any:
        return getattr(self.tocsr(), name)(*others)

    return method


_BINARY = "matmul rmatmul mul rmul truediv add radd sub rsub pow lt le gt ge eq ne"
for _name in (*_BINARY.split(), "neg", "abs", "len", "iter"):
    setattr(FillableSparse, f"__{_name}__", _operator(f"__{_name}__"))
FillableSparse.__hash__ = object.__hash__  # type: ignore[method-assign]
