"""`TrackedSparse`: a sparse array whose entries are tracked, at fixed places.

It is a vector of entries, `data`, and a pattern, a plain sparse array of the same shape and format
that holds the numbers 1, 2, ... of the entries. What only moves entries (conversions between
formats, indexing, stacking) is done by SciPy to the pattern, and then to the entries, by number.
All else is a gather, a product or a sum in NumPy, so derivatives nest and compile.

Invariant: no entry's value decides the pattern: what would need that is refused. An entry that is
zero stays one, for it may have a derivative.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from tracker.errors import UnsupportedError
from tracker.ops.indexing.subscripts import add_into_zeros
from tracker.scipy._bridge.fallback import as_array, is_tracked
from tracker.tape.tracked import Tracked

_PARTS = {"shape", "ndim", "nnz", "size", "format", "indices", "indptr", "row", "col", "coords"}
_PARTS |= {"has_sorted_indices", "has_canonical_format", "getnnz", "get_shape", "getformat"}
# In place of formats that have not one number for each entry in `data`.
_FORMAT_INSTEAD = {"bsr": "csr", "dia": "coo", "dok": "csr", "lil": "csr"}


class TrackedSparse:
    """A sparse array with tracked entries; to `isinstance` an instance of SciPy's class."""

    __slots__ = ("__weakref__", "data", "pattern")
    __array_ufunc__ = None  # NumPy's operators defer
    _tracker_sparse = _holds_tracked = True

    def __init__(self, pattern: Any, data: Any) -> None:
        self.pattern, self.data = pattern, data

    @staticmethod
    def from_numbered(numbered: Any, data: Any) -> TrackedSparse:
        """The array in which the entry with number k is data[k - 1]."""
        numbered = _with_entries(numbered)
        chosen, every = numbered.data - 1, np.arange(np.size(data))
        if not np.array_equal(chosen, every):
            data = data[chosen]
        numbered = numbered.copy()
        numbered.data = np.arange(1, len(chosen) + 1)
        return TrackedSparse(numbered, data)

    @staticmethod
    def from_coords(data: Any, coords: Sequence[Any], shape: Any, is_matrix: bool) -> TrackedSparse:
        """An array in COO format."""
        cls = scipy.sparse.coo_matrix if is_matrix else scipy.sparse.coo_array
        numbers = np.arange(1, np.size(data) + 1)
        return TrackedSparse(cls((numbers, tuple(coords)), shape=shape), data)

    @staticmethod
    def of(a: Any) -> TrackedSparse:
        """A sparse array as one of this class."""
        if hasattr(type(a), "_tracker_sparse"):
            return a if type(a) is TrackedSparse else a.tocsr()
        a = _with_entries(a)
        return TrackedSparse(_numbered(a), a.data)

    # What it is

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.pattern)

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self.data.dtype
        return found

    @property
    def is_matrix(self) -> bool:
        return isinstance(self.pattern, scipy.sparse.spmatrix)

    def __repr__(self) -> str:
        return f"<{type(self.pattern).__name__} of shape {self.shape}, entries {self.data!r}>"

    def __getattr__(self, name: str) -> Any:
        if name in _PARTS:
            return getattr(self.pattern, name)
        if name.startswith("__") or not hasattr(self.pattern, name):
            raise AttributeError(name)
        raise self.refusal(f".{name}")

    def refusal(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"{what} of a {type(self.pattern).__name__} with tracked entries",
            "Its entries are A.data, at A.tocoo().coords; A.toarray() is dense",
        )

    def at_entries(self) -> tuple[Any, ...]:
        """The coordinates of the entries, in their order."""
        coords: tuple[Any, ...] = self.pattern.tocoo().coords
        return coords

    # Moving entries

    def moved(self, move: Callable[[Any], Any]) -> Any:
        """What a function of SciPy's that only moves entries gives."""
        return TrackedSparse.from_numbered(move(self.pattern), self.data)

    def without_duplicates(self) -> Any:
        """The same array with one entry for each place."""
        coords = self.at_entries()
        places, at = np.unique(np.ravel_multi_index(coords, self.shape), return_inverse=True)
        if len(places) == np.size(self.data):
            return self
        data = add_into_zeros((len(places),), at, self.data)
        coords = np.unravel_index(places, self.shape)
        made = TrackedSparse.from_coords(data, coords, self.shape, self.is_matrix)
        return made.moved(lambda p: p.asformat(self.format))

    def asformat(self, format: str | None, copy: bool = False) -> Any:
        if format is not None:
            format = _FORMAT_INSTEAD.get(format, format)
        if format is None or format == self.format:
            return self.copy() if copy else self
        kept = self if format == "coo" else self.without_duplicates()
        return kept.moved(lambda p: p.asformat(format))

    def tocoo(self, copy: bool = True) -> Any:
        return self.asformat("coo", copy)

    todia = tocoo

    def tocsr(self, copy: bool = False) -> Any:
        return self.asformat("csr", copy)

    tolil = todok = tobsr = tocsr

    def tocsc(self, copy: bool = False) -> Any:
        return self.asformat("csc", copy)

    def sum_duplicates(self) -> None:
        made = self.without_duplicates()
        self.pattern, self.data = made.pattern, made.data

    def eliminate_zeros(self) -> None:
        """Change nothing: the array is the same with entries that are zero."""

    def sort_indices(self) -> None:
        made = self.without_duplicates().moved(lambda p: p.sorted_indices())
        self.pattern, self.data = made.pattern, made.data

    def transpose(self, axes: Any = None, copy: bool = False) -> Any:
        return self.moved(lambda p: p.transpose(axes))

    T = mT = property(transpose)

    def reshape(self, *shape: Any, **options: Any) -> Any:
        return self.moved(lambda p: p.reshape(*shape, **options))

    def __getitem__(self, key: Any) -> Any:
        kept = self.without_duplicates()
        return TrackedSparse.element(kept.pattern[plain_key(key)], kept.data)

    @staticmethod
    def element(found: Any, data: Any) -> Any:
        """What has these numbers: a sparse array, or an element, which may be no entry."""
        if scipy.sparse.issparse(found):
            return TrackedSparse.from_numbered(found, data)
        return data[int(found) - 1] if found else data.dtype.type(0)

    def __setitem__(self, key: Any, v: Any) -> None:
        self._store(v, lambda numbers, new: numbers.__setitem__(plain_key(key), new))

    def setdiag(self, values: Any, k: int = 0) -> None:
        self._store(values, lambda numbers, new: numbers.setdiag(new, k))

    def _store(self, v: Any, write: Callable[[Any, Any], None]) -> None:
        kept = self.without_duplicates()
        numbers = kept.pattern.tolil()
        new, data = with_new_entries(kept.data, v)
        write(numbers, new)
        made = TrackedSparse.from_numbered(numbers.asformat(self.format), data)
        self.pattern, self.data = made.pattern, made.data

    def getrow(self, i: int) -> Any:
        return self[[i], :]

    def getcol(self, j: int) -> Any:
        return self[:, [j]]

    def __iter__(self) -> Any:
        return (self[i] for i in range(self.shape[0]))

    def __len__(self) -> int:
        return len(self.pattern)  # raises SciPy's error

    # Changing entries

    def with_data(self, data: Any) -> TrackedSparse:
        return TrackedSparse(self.pattern, data)

    def copy(self) -> TrackedSparse:
        return TrackedSparse(self.pattern.copy(), self.data.copy())

    def astype(self, dtype: Any, *_: Any, **__: Any) -> TrackedSparse:
        return self.with_data(self.data.astype(dtype))

    def conj(self, copy: bool = True) -> TrackedSparse:
        return self.with_data(np.conjugate(self.data))

    conjugate = conj
    real = property(lambda self: self.with_data(self.data.real))
    imag = property(lambda self: self.with_data(self.data.imag))

    def __neg__(self) -> TrackedSparse:
        return self.with_data(-self.data)

    def __abs__(self) -> Any:
        return _entrywise(abs)(self)

    def power(self, n: Any, dtype: Any = None) -> Any:
        if np.ndim(n) or is_tracked(n) or n <= 0:
            raise self.refusal(f"power {n!r}")
        return _entrywise(lambda x: x**n)(self if dtype is None else self.astype(dtype))

    def __pow__(self, n: Any) -> Any:
        if not self.is_matrix:
            return self.power(n)
        if operator.index(n) < 1:
            raise self.refusal(f"power {n!r}")
        found = self
        for _ in range(n - 1):
            found = found @ self
        return found

    # Sums

    def toarray(self, order: str | None = None, out: Any = None) -> Any:
        if out is not None:
            raise self.refusal(".toarray(out=)")
        return add_into_zeros(self.shape, self.at_entries(), self.data)

    def todense(self, order: str | None = None, out: Any = None) -> Any:
        if self.is_matrix:  # to np.matrix, whose `*` is another
            raise self.refusal(".todense()")
        return self.toarray(order, out)

    A = property(toarray)

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        if out is not None:
            raise self.refusal(".sum(out=)")
        data = self.data if dtype is None else self.data.astype(dtype)
        if axis is None or self.ndim == 1:
            return np.sum(data)
        kept = 1 - operator.index(axis) % 2
        found = add_into_zeros((self.shape[kept],), self.at_entries()[kept], data)
        return np.expand_dims(found, 1 - kept) if self.is_matrix else found

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        count = math.prod(self.shape) if axis is None or self.ndim == 1 else self.shape[axis]
        return self.sum(axis, dtype, out) / count

    def diagonal(self, k: int = 0) -> Any:
        rows, columns = self.at_entries()
        length = len(self.pattern.diagonal(k))
        on = np.flatnonzero(columns - rows == k)
        return add_into_zeros((length,), rows[on] - max(0, -k), self.data[on])

    def trace(self, offset: int = 0) -> Any:
        return np.sum(self.diagonal(offset))

    # Products and sums with others

    def dot(self, other: Any) -> Any:
        return self * other if np.ndim(other) == 0 and not _is_sparse(other) else self @ other

    def __matmul__(self, other: Any) -> Any:
        if _is_sparse(other):
            return _sparse_product(self, TrackedSparse.of(other))
        x = as_array(other)
        if np.ndim(x) not in (1, 2) or np.shape(x)[0] != self.shape[-1]:
            raise ValueError(f"matmul: dimension mismatch: {self.shape} and {np.shape(x)}")
        if self.ndim == 1:
            return self.data @ x[self.at_entries()[0]]
        rows, columns = self.at_entries()
        return times_vector(self.data, rows, columns, x, self.shape[0])

    def __rmatmul__(self, other: Any) -> Any:
        if _is_sparse(other):
            return TrackedSparse.of(other) @ self
        return (self.transpose() @ as_array(other).T).T

    def multiply(self, other: Any) -> Any:
        if _is_sparse(other):
            return _common_entries(self, TrackedSparse.of(other))
        factor = np.broadcast_to(as_array(other), self.shape)
        return self.with_data(self.data * factor[self.at_entries()])

    def __mul__(self, other: Any) -> Any:
        if self.is_matrix and (_is_sparse(other) or np.ndim(other)):
            return self @ other
        return self.multiply(other)

    def __rmul__(self, other: Any) -> Any:
        if self.is_matrix and (_is_sparse(other) or np.ndim(other)):
            return self.__rmatmul__(other)
        return self.multiply(other)

    def __truediv__(self, other: Any) -> Any:
        if _is_sparse(other):
            raise self.refusal("a quotient of sparse arrays")
        factor = np.broadcast_to(as_array(other), self.shape)
        return self.with_data(self.data / factor[self.at_entries()])

    def __add__(self, other: Any) -> Any:
        if not _is_sparse(other):
            if np.ndim(other) == 0:
                if not is_tracked(other) and other == 0:
                    return self.copy()
                raise NotImplementedError("adding a nonzero scalar to a sparse array")
            return self.toarray() + other
        if other.shape != self.shape:
            raise ValueError("inconsistent shapes")
        parts = self, TrackedSparse.of(other)
        joined = map(np.concatenate, zip(*(each.at_entries() for each in parts), strict=True))
        data = np.concatenate([each.data for each in parts])
        made = TrackedSparse.from_coords(data, tuple(joined), self.shape, self.is_matrix)
        return made.asformat("csr" if self.format == "coo" else self.format)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + (-other if _is_sparse(other) or np.ndim(other) else 0 - other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other


def _refused_operator(name: str) -> Callable[..., Any]:
    def refuse(self: TrackedSparse, *_: Any) -> Any:
        raise self.refusal(f"comparing ({name}), which depends on the entries,")

    return refuse


for _name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
    setattr(TrackedSparse, _name, _refused_operator(_name))
TrackedSparse.__hash__ = object.__hash__  # type: ignore[method-assign]


def _entrywise(f: Callable[[Any], Any]) -> Callable[[TrackedSparse], Any]:
    """The method that applies a function with f(0) = 0 to each element."""

    def method(self: TrackedSparse) -> Any:
        kept = self.without_duplicates()
        return kept.with_data(f(kept.data))

    return method


_ENTRYWISE = "sin tan arcsin arctan sinh tanh arcsinh arctanh expm1 log1p sqrt deg2rad rad2deg"
for _name in (*_ENTRYWISE.split(), "rint", "sign", "ceil", "floor", "trunc"):
    setattr(TrackedSparse, _name, _entrywise(getattr(np, _name)))


# Helpers ------------------------------------------------------------------------------------------


def times_vector(data: Any, rows: Any, columns: Any, x: Any, count: int) -> Any:
    """The product of a matrix with `count` rows, given by its entries, and a vector or matrix."""
    entries = data[:, None] if np.ndim(x) == 2 else data
    return add_into_zeros((count, *np.shape(x)[1:]), rows, entries * x[columns])


def _is_sparse(x: Any) -> bool:
    return bool(scipy.sparse.issparse(x))


def _with_entries(a: Any) -> Any:
    """A plain sparse array in a format with one number for each entry."""
    return a.asformat(_FORMAT_INSTEAD.get(a.format, a.format))


def _numbered(a: Any) -> Any:
    """A copy of a plain sparse array that holds the numbers of its entries."""
    numbered = a.copy()
    numbered.data = np.arange(1, len(a.data) + 1)
    return numbered


def plain_key(key: Any) -> Any:
    """A subscript with plain arrays, whose values a trace guards."""
    if type(key) is tuple:
        return tuple(map(plain_key, key))
    return np.asarray(key)[()] if type(key) is Tracked else key


def with_new_entries(data: Any, v: Any) -> tuple[Any, Any]:
    """Numbers for new entries, and all entries. A plain 0 is no entry: its number is 0."""
    if _is_sparse(v):
        v = TrackedSparse.of(v).toarray()
    if not is_tracked(v) and not np.any(v):
        return 0, data
    v, start = as_array(v).astype(data.dtype), np.size(data) + 1
    numbers = np.arange(start, start + np.size(v)).reshape(np.shape(v))[()]
    return numbers, np.concatenate([data, np.ravel(v)])


def _sparse_product(a: TrackedSparse, b: TrackedSparse) -> Any:
    """The sum over all pairs of an entry of `a` and one of `b` in the row of its column."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"matmul: dimension mismatch: {a.shape} and {b.shape}")
    b = b.tocsr()
    (rows, inner), counts = a.at_entries(), np.diff(b.indptr)
    repeats = counts[inner]
    left = np.repeat(np.arange(len(rows)), repeats)
    firsts = np.cumsum(repeats) - repeats
    right = np.arange(len(left)) - np.repeat(firsts - b.indptr[inner], repeats)
    data = a.data[left] * b.data[right]
    coords = rows[left], b.indices[right]
    made = TrackedSparse.from_coords(data, coords, (a.shape[0], b.shape[1]), a.is_matrix)
    return made.asformat("csr" if a.format == "coo" else a.format)


def _common_entries(a: TrackedSparse, b: TrackedSparse) -> Any:
    """The product element by element, at the places that both have."""
    if a.shape != b.shape:
        raise ValueError("inconsistent shapes")
    a, b = a.without_duplicates(), b.without_duplicates()
    ours, theirs = (np.ravel_multi_index(each.at_entries(), a.shape) for each in (a, b))
    common, left, right = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    coords, data = np.unravel_index(common, a.shape), a.data[left] * b.data[right]
    made = TrackedSparse.from_coords(data, coords, a.shape, a.is_matrix)
    return made.moved(lambda p: p.asformat(a.format))
