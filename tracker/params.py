"""The implicit style: a collection of params, and the gradients of all of them.

Owns: `Params`, what `gradient(f, Params([...]))` is taken for; `Grads`, what it gives. Both go by
the identity of their members, never by their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tracker.errors import NotTrackedError, message
from tracker.tape import Value, value_of
from tracker.tracked import Leaf, Tracked


class Params:
    """An ordered collection of params, each of them once.

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
                    message(
                        f"Params got a plain {type(member).__name__}",
                        "Make it a param, x = tracker.param(x), and use that x in the function",
                    )
                )
            if not isinstance(value_of(member).params, Leaf):
                raise NotTrackedError(
                    message(
                        f"Params got a value of shape {member.shape} that was computed from others",
                        "Give the tracker.param it came from",
                    )
                )
            found[id(member)] = member
        self._members = tuple(found.values())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, x: Any) -> bool:
        return any(x is member for member in self._members)

    def __repr__(self) -> str:
        return f"Params({list(self._members)!r})"

    def leaves(self) -> list[Value]:
        """The members' values now."""
        return [value_of(member) for member in self._members]


class Grads:
    """Gradients by param: `gs[x]` for the very x that was given to `Params`."""

    def __init__(self, params: Params, entries: Sequence[Any]) -> None:
        self.params = params
        self._entries = {id(x): entry for x, entry in zip(params, entries, strict=True)}

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
        return f"Grads({[self._entries[id(x)] for x in self.params]!r})"
