"""The implicit style: `gradient(f, Params([w, b]))` gives `Grads`, keyed by param.

Members are compared by identity, never by value. Both collections convert to one flat vector and
back, as optimisers want. New code should pass arguments instead.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tracker.autodiff.leaves import plain_data, replace_data
from tracker.errors import NotTrackedError
from tracker.tape.record import value_of
from tracker.tape.tracked import Tracked
from tracker.tape.value import ParamState, Value


class Params:
    """An ordered collection of params, each of them once.

    Parameters
    ----------
    members : iterable
        Tracked leaves, from `tracker.param`. A plain array raises `NotTrackedError`.

    See Also
    --------
    Grads, tracker.gradient

    Examples
    --------
    >>> w, b = tracker.param([1.0, 2.0]), tracker.param(3.0)
    >>> tracker.gradient(lambda: np.sum(w) * b, Params([w, b]))[w]
    array([3., 3.])
    """

    def __init__(self, members: Iterable[Any]) -> None:
        if isinstance(members, Tracked):
            members = (members,)
        found: dict[int, Any] = {}
        for member in members:
            if not isinstance(member, Tracked):
                raise NotTrackedError(
                    f"Params got a plain {type(member).__name__}",
                    "Make it a param, x = tracker.param(x), and use that x in the function",
                )
            if not isinstance(value_of(member).params, ParamState):
                raise NotTrackedError(
                    f"Params got a value of shape {member.shape} that was computed from others",
                    "Give the tracker.param it came from",
                )
            found[id(member)] = member
        self._members = tuple(found.values())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, index: int) -> Any:
        return self._members[index]

    def __contains__(self, x: Any) -> bool:
        return any(x is member for member in self._members)

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same params in the same order."""
        return isinstance(other, Params) and list(map(id, self)) == list(map(id, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Params({list(self._members)!r})"

    def leaves(self) -> list[Value]:
        """The members' current values."""
        return [value_of(member) for member in self._members]

    def flat(self) -> Any:
        """The members as one vector, in order."""
        return _concatenated([plain_data(member) for member in self._members])

    def copyfrom(self, vector: Any) -> Params:
        """Set the members from a vector laid out as `flat` does; returns self.

        Zeroes their accumulated gradients, as `tracker.update` does.

        >>> w, b = tracker.param([1.0, 2.0]), tracker.param(3.0)
        >>> Params([w, b]).copyfrom([4.0, 5.0, 6.0]).flat()
        array([4., 5., 6.])
        """
        for member, part in zip(
            self, _split_like(vector, map(plain_data, self), "Params"), strict=True
        ):
            replace_data(member, part)
        return self


class Grads:
    """Gradients by param: `gs[x]` for an `x` that was given to `Params`.

    Parameters
    ----------
    params : Params
        The keys.
    entries : sequence
        A gradient for each of them, in order.

    See Also
    --------
    Params

    Notes
    -----
    Arithmetic and `map` work entry by entry and need the same params in the same order.

    Examples
    --------
    >>> w, b = tracker.param([1.0, 2.0]), tracker.param(3.0)
    >>> gs = tracker.gradient(lambda: np.sum(w) * b, Params([w, b]))
    >>> (gs + 2 * gs).flat()
    array([9., 9., 9.])
    """

    def __init__(self, params: Params, entries: Sequence[Any]) -> None:
        self.params = params
        self._entries = {id(x): entry for x, entry in zip(params, entries, strict=True)}

    def __reduce__(self) -> Any:
        return Grads, (self.params, self.values())

    def __getitem__(self, x: Any) -> Any:
        if x not in self.params:
            what = f"tracked value of shape {x.shape}" if isinstance(x, Tracked) else repr(x)
            raise KeyError(f"no gradient was taken for this {what}; name it in Params([...])")
        return self._entries[id(x)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.params)

    def __len__(self) -> int:
        return len(self.params)

    def __contains__(self, x: Any) -> bool:
        return x in self.params

    def __repr__(self) -> str:
        return f"Grads({self.values()!r})"

    def keys(self) -> list[Any]:
        """The params, in order."""
        return list(self.params)

    def values(self) -> list[Any]:
        """The gradients, in order."""
        return [self._entries[id(x)] for x in self.params]

    def items(self) -> list[tuple[Any, Any]]:
        """Pairs of param and gradient, in order."""
        return list(zip(self.params, self.values(), strict=True))

    def map(self, f: Callable[..., Any], *others: Grads) -> Grads:
        """`f` of each entry and the entries of `others` for the same param."""
        for other in others:
            if not isinstance(other, Grads) or other.params != self.params:
                raise NotTrackedError(
                    "Grads of different params cannot be taken together",
                    "Take both gradients for the same Params",
                )
        rows = zip(self.values(), *(other.values() for other in others), strict=True)
        return Grads(self.params, [f(*row) for row in rows])

    def flat(self) -> Any:
        """The entries as one vector, in order."""
        return _concatenated(self.values())

    def copyfrom(self, vector: Any) -> Grads:
        """Set the entries from a vector laid out as `flat` does; returns self."""
        parts = _split_like(vector, self.values(), "Grads")
        self._entries = {id(x): part for x, part in zip(self.params, parts, strict=True)}
        return self

    def _apply_binary(self, operation: Callable[[Any, Any], Any], other: Any) -> Any:
        if isinstance(other, Grads):
            return self.map(operation, other)
        return self.map(lambda g: operation(g, other)) if np.ndim(other) == 0 else NotImplemented

    def __add__(self, other: Any) -> Any:
        return self._apply_binary(operator.add, other)

    def __sub__(self, other: Any) -> Any:
        return self._apply_binary(operator.sub, other)

    def __mul__(self, other: Any) -> Any:
        return self._apply_binary(operator.mul, other)

    def __truediv__(self, other: Any) -> Any:
        return self._apply_binary(operator.truediv, other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Grads:
        return self.map(operator.neg)


def _concatenated(entries: list[Any]) -> Any:
    return np.concatenate([np.ravel(e) for e in entries]) if entries else np.empty(0)


def _split_like(vector: Any, templates: Iterable[Any], what: str) -> list[Any]:
    """Parts of a flat vector, in the shapes, dtypes and classes of the templates."""
    templates = list(templates)
    vector = np.asarray(plain_data(vector))
    ends = list(itertools.accumulate(int(np.size(x)) for x in templates))
    size = ends[-1] if ends else 0
    if vector.shape != (size,):
        raise NotTrackedError(
            f"{what} of {size} numbers cannot be filled from an array of shape {vector.shape}",
            "Give one flat vector, as flat() makes",
        )
    parts = []
    for x, end in zip(templates, ends, strict=True):
        part = np.array(vector[end - int(np.size(x)) : end], np.result_type(x)).reshape(np.shape(x))
        parts.append(part if isinstance(x, np.ndarray) else type(x)(part[()]))
    return parts
