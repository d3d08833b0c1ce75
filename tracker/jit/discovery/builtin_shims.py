"""What Python's questions about a value say while a function is traced.

Owns: `Answers`, within which the traced code's `type`, `isinstance`, `hasattr` and `getattr` know a
handle for what it stands for: `type(x) is np.ndarray`, `hasattr(x, "shape")` of a number,
`isinstance(x, Iterable)` say what they say of plain data. A handle itself can lie about its class
only (`Tracked.__class__`). The answers stand in the globals of the code that asks (`discovery.py`
finds it), before Python's own. An address (`id`) is refused.

Invariants: of anything but a handle, the answers are Python's, in every thread. Within a derivative
they are Python's of handles, too: its function meets tracked values when it is not compiled.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import Any, TypeAlias

from tracker import tree
from tracker.errors import UnsupportedError, message
from tracker.tape.observers import current_stage, is_deriving
from tracker.tape.placeholders import settled
from tracker.tape.record import value_of
from tracker.tape.tracked import Tracked


class _Type(type):
    """The class of `_type`, which is Python's `type` to all who ask."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not _type:
            return super().__call__(*args, **kwargs)
        made = builtins.type(*map(_plain, args[:1]), *args[1:], **kwargs)
        return _type if made in (builtins.type, _Type) else made

    def __instancecheck__(cls, x: Any) -> bool:
        return builtins.isinstance(x, builtins.type if cls is _type else cls)

    def __subclasscheck__(cls, x: type) -> bool:
        return issubclass(x, builtins.type) if cls is _type else super().__subclasscheck__(x)


_type = _Type("type", (type,), {})


def _isinstance(x: Any, classes: Any, /) -> bool:
    return isinstance(_plain(x), classes)


def _hasattr(x: Any, name: str, /) -> bool:
    return hasattr(_plain(x), name)


def _getattr(x: Any, name: str, /, *default: Any) -> Any:
    plain = _plain(x)
    return getattr(x if hasattr(plain, name) else plain, name, *default)


def _id(x: Any, /) -> int:
    if current_stage() is not None and (type(x) is Tracked or tree.children_of(x) is not None):
        raise UnsupportedError(
            message(
                f"id() is asked of a {builtins.type(_plain(x)).__name__}, whose address is another "
                "at each call",
                "Compare objects with `is`",
            )
        )
    return builtins.id(x)


Space: TypeAlias = tuple[dict[str, Any], frozenset[str]]  # globals of code, what it asks by

_ANSWERS = {
    "type": _type,
    "isinstance": _isinstance,
    "hasattr": _hasattr,
    "getattr": _getattr,
    "id": _id,
}
QUESTIONS = frozenset(_ANSWERS)


def _plain(x: Any) -> Any:
    """What a handle stands for: data of the same class and type; anything else as it is."""
    if type(x) is not Tracked or is_deriving():
        return x
    x = settled(x)
    return x if type(x) is not Tracked or current_stage() is None else value_of(x).form


class Answers:
    """See the file's header."""

    def __init__(self, spaces: Iterable[Space]) -> None:
        self.spaces = spaces
        self.put: list[tuple[dict[str, Any], str]] = []

    def __enter__(self) -> None:
        for space, names in self.spaces:
            for name in names - space.keys():
                self.put.append((space, name))
                space[name] = _ANSWERS[name]

    def __exit__(self, *_: object) -> None:
        for space, name in self.put:
            if space.get(name) is _ANSWERS[name]:
                del space[name]
