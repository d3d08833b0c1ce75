"""Constructors of sparse arrays from tracked entries. Without tracked arguments, they are SciPy's.

Each calls SciPy's constructor with the numbers of the entries in the place of entries (see
`tracked_array.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from tracker.scipy._bridge.fallback import as_array, is_tracked, is_tracked_sparse
from tracker.scipy.sparse.fillable_array import FillableSparse
from tracker.scipy.sparse.tracked_array import TrackedSparse
from tracker.support.pickling import at_home, named
from tracker.tape.conversions import plain_integers
from tracker.tape.observers import is_deriving, is_tracing

_FILLED_FORMATS = ("lil", "dok", "csr")
FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
CONSTRUCTORS: dict[str, Any] = {}


class _SparseClass:
    """Stands for a class of SciPy's: makes its instances, or `TrackedSparse`; can be asked by
    `isinstance` and derived from."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs
        self.__name__, self.__doc__, self.__module__ = (
            theirs.__name__,
            theirs.__doc__,
            theirs.__module__,
        )

    def __call__(self, arg1: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_tracked(arg1):
            made = self._theirs(arg1, *args, **kwargs)
            is_shape = isinstance(arg1, tuple) and all(np.ndim(n) == 0 for n in arg1)
            if is_shape and made.format in _FILLED_FORMATS and (is_deriving() or is_tracing()):
                return FillableSparse.empty(self._theirs, made.shape, made.dtype)
            return made
        options = inspect.signature(self._theirs).bind(arg1, *args, **kwargs).arguments
        made = _from_entries(self._theirs, arg1, options.get("shape"))
        dtype = options.get("dtype")
        return made if dtype is None else made.astype(dtype)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)

    def __instancecheck__(self, x: Any) -> bool:
        return isinstance(x, self._theirs)

    def __subclasscheck__(self, cls: type) -> bool:
        return issubclass(cls, self._theirs)

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return (self._theirs,)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._theirs

    def __hash__(self) -> int:
        return hash(self._theirs)

    def __reduce__(self) -> Any:
        return named, ("tracker.scipy.sparse", self.__name__)


def _from_entries(theirs: Any, arg1: Any, shape: Any) -> Any:
    """What SciPy's class makes of `arg1`, which contains tracked numbers or is tracked."""
    name = theirs.__name__.partition("_")[0]
    if is_tracked_sparse(arg1):
        arg1 = TrackedSparse.of(arg1)
        cls = theirs if name in ("coo", "csr", "csc") else scipy.sparse.csr_array
        return arg1.asformat(cls.__name__.partition("_")[0]).moved(cls)
    if not isinstance(arg1, tuple):  # dense: every element is an entry, also one that is 0
        data = as_array(arg1)
        coords = tuple(np.indices(np.shape(data)).reshape(np.ndim(data), -1))
        arg1, shape = (np.ravel(data), coords), np.shape(data)
    shape = None if shape is None else tuple(map(int, shape))
    data, places = as_array(arg1[0]), arg1[1:]
    numbers = np.arange(1, np.size(data) + 1).reshape(np.shape(data))
    if len(places) == 1 and name != "dia":  # coordinates, which may be repeated
        coords = tuple(map(_plain_places, places[0]))
        is_matrix = issubclass(theirs, scipy.sparse.spmatrix)
        coo = TrackedSparse.from_coords(data, coords, shape, is_matrix)
        return coo.asformat(name)
    numbered = theirs((numbers, *map(_plain_places, places)), shape=shape)
    return TrackedSparse.from_numbered(numbered, np.ravel(data))


def _plain_places(places: Any) -> Any:
    return np.asarray(plain_integers(places))


for _format in FORMATS:
    for _kind in ("array", "matrix"):
        _theirs = getattr(scipy.sparse, f"{_format}_{_kind}")
        CONSTRUCTORS[_theirs.__name__] = _SparseClass(_theirs)


# Functions that move entries ----------------------------------------------------------------------


class _Numbering:
    """Numbers in place of all entries among arguments, and the entries."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.count = 0

    def __call__(self, x: Any) -> Any:
        if x is None or type(x) is np.matrix:
            return x
        if isinstance(x, (list, tuple)) and not _is_vector(x):
            return [self(each) for each in x]
        if scipy.sparse.issparse(x):
            tracked = TrackedSparse.of(x).without_duplicates()
            pattern = tracked.moved(lambda p: p.copy()).pattern
            pattern.data = self._numbers(tracked.data)
            return pattern
        numbers = self._numbers(as_array(x))
        return numbers.tolist() if type(x) is list else numbers

    def _numbers(self, data: Any) -> Any:
        self.entries.append(np.ravel(data))
        start = self.count + 1
        self.count += np.size(data)
        numbers = np.arange(start, self.count + 1).reshape(np.shape(data))
        return numbers if numbers.ndim else int(numbers)

    def data(self) -> Any:
        return np.concatenate(self.entries)


def _is_vector(x: Any) -> bool:
    """Whether a list holds numbers only."""
    return not any(each is None or isinstance(each, (list, tuple)) or np.ndim(each) for each in x)


def _moves_entries(name: str, **fixed: Any) -> Callable[..., Any]:
    theirs = getattr(scipy.sparse, name)

    def function(first: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_tracked(first):
            return theirs(first, *args, **kwargs)
        dtype = kwargs.pop("dtype", None)
        number = _Numbering()
        numbered = theirs(number(first), *map(plain_integers, args), **kwargs, **fixed)
        made = TrackedSparse.from_numbered(numbered, number.data())
        return made if dtype is None else made.astype(dtype)

    function.__name__, function.__doc__ = name, f"As scipy.sparse.{name}."
    return at_home(function, "tracker.scipy.sparse", name)


for _name in ("diags", "diags_array"):
    CONSTRUCTORS[_name] = _moves_entries(_name, dtype=np.int64)
for _name in (
    *("spdiags", "hstack", "vstack", "bmat", "block_array", "block_diag", "tril", "triu"),
    *("swapaxes", "permute_dims", "matrix_transpose"),  # the last from SciPy 1.18 on
):
    if hasattr(scipy.sparse, _name):
        CONSTRUCTORS[_name] = _moves_entries(_name)


def kron(A: Any, B: Any, format: str | None = None) -> Any:
    """As scipy.sparse.kron."""
    if not is_tracked(A, B):
        return scipy.sparse.kron(A, B, format)
    a, b = (TrackedSparse.of(x) if scipy.sparse.issparse(x) else _of_dense(x) for x in (A, B))
    pairs = zip(a.at_entries(), b.at_entries(), b.shape, strict=True)
    coords = tuple(np.ravel(i[:, None] * n + j) for i, j, n in pairs)
    data = np.ravel(a.data[:, None] * b.data)
    shape = tuple(m * n for m, n in zip(a.shape, b.shape, strict=True))
    return TrackedSparse.from_coords(data, coords, shape, a.is_matrix).asformat(format or "coo")


def _of_dense(x: Any) -> Any:
    return _from_entries(scipy.sparse.coo_array, as_array(x), None)


def find(A: Any) -> Any:
    """The coordinates of the entries, and the entries (also those that are 0)."""
    if not is_tracked(A):
        return scipy.sparse.find(A)
    kept = TrackedSparse.of(A).without_duplicates()
    return (*kept.at_entries(), kept.data)


CONSTRUCTORS |= {"kron": kron, "find": find}
