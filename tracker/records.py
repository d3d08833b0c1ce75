"""Classes that are a few named fields: `record`, and `replace`, a copy with some fields changed.

They are the standard library's dataclasses, as far as this code base needs them, at a small part of
the time to import: the methods of a class are compiled in one go, when the first of them is called.
A frozen record hashes by value; that nobody changes it is checked by the type checker, not on every
assignment.

Start at `record`. Invariant: fields are slots, in the order of the annotations, those of a base
that is a record before them.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, TypeVar, cast, dataclass_transform

_Record = TypeVar("_Record")
_UNSET: Any = object()


class _Field:
    """What `field` says of one."""

    __slots__ = ("compare", "factory")

    def __init__(self, factory: Callable[[], Any] | None, compare: bool) -> None:
        self.factory = factory
        self.compare = compare


def field(*, default_factory: Callable[[], Any] | None = None, compare: bool = True) -> Any:
    """A field whose default is made anew for each record, or that does not count when two records
    are compared."""
    return _Field(default_factory, compare)


@dataclass_transform(field_specifiers=(field,))
def record(
    *, frozen: bool = False, eq: bool = True, slots: bool = True
) -> Callable[[type[_Record]], type[_Record]]:
    """Make a class of annotated fields a record.

    frozen  equal records have equal hashes; else a record that compares by value has no hash
    eq      compare by value, field by field; else by identity
    slots   nothing but the fields can be set; False for classes that keep more than fields
    """

    def make(cls: type[_Record]) -> type[_Record]:
        own = {
            name: vars(cls).get(name, _UNSET)
            for name, kind in vars(cls).get("__annotations__", {}).items()
            if "ClassVar" not in str(kind)
        }
        defaults = {**getattr(cls, "_defaults", {}), **own}
        space = {name: thing for name, thing in vars(cls).items() if name not in own}
        stubs = _stubs(space, defaults, frozen, eq)
        space.update(stubs, _defaults=defaults)
        space.setdefault("__repr__", _repr)
        if eq and not frozen:
            space.setdefault("__hash__", None)
        for name in ("__dict__", "__weakref__"):
            space.pop(name, None)
        if slots:
            space["__slots__"] = tuple(own)
        made: Any = type(cls)
        space["__qualname__"] = cls.__qualname__
        whole = made(cls.__name__, cls.__bases__, space)
        for stub in stubs.values():
            stub.owner = whole
        return cast(type[_Record], whole)

    return make


def replace(record: _Record, **changes: Any) -> _Record:
    """A copy in which some fields are others."""
    cls: Any = type(record)
    kept = {name: getattr(record, name) for name in cls._defaults if name not in changes}
    return cast(_Record, cls(**kept, **changes))


def names(cls: type) -> tuple[str, ...]:
    """The names of a record's fields."""
    return tuple(cls._defaults)  # type: ignore[attr-defined]


def _stubs(
    space: dict[str, Any], defaults: dict[str, Any], frozen: bool, eq: bool
) -> dict[str, Any]:
    """Methods that compile all of a record's, put these in their own place, and call theirs: most
    records of a program that only imports this package are never made."""
    names = ["__init__", *(["__eq__"] if eq else []), *(["__hash__"] if eq and frozen else [])]
    names = [name for name in names if name not in space]

    def stub(name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            made = _methods(defaults)
            for each in names:
                setattr(call.owner, each, made[each])  # type: ignore[attr-defined]
            return made[name](*args, **kwargs)

        return call

    return {name: stub(name) for name in names}


def _methods(defaults: dict[str, Any]) -> dict[str, Any]:
    """All methods that a record may have."""
    compared = [
        name for name, given in defaults.items() if not isinstance(given, _Field) or given.compare
    ]
    lines = [
        *_initialiser(defaults),
        "def __eq__(self, other):",
        "    if other.__class__ is not self.__class__: return NotImplemented",
        f"    return {_tuple('self', compared)} == {_tuple('other', compared)}",
        "def __hash__(self):",
        f"    return hash({_tuple('self', compared)})",
    ]
    made: dict[str, Any] = {}
    scope = {f"_{name}": given for name, given in defaults.items()}
    for name, given in defaults.items():
        if isinstance(given, _Field):
            scope[f"_{name}"] = _UNSET
            scope[f"_make_{name}"] = given.factory
    builtins.exec("\n".join(lines), {**scope, "_unset": _UNSET}, made)
    return made


def _initialiser(defaults: dict[str, Any]) -> list[str]:
    arguments = ["self"]
    body: list[str] = []
    for name, given in defaults.items():
        made = isinstance(given, _Field) and given.factory is not None
        arguments.append(name if given is _UNSET or _required(given) else f"{name}=_{name}")
        value = f"_make_{name}() if {name} is _unset else {name}" if made else name
        body.append(f"    self.{name} = {value}")
    return [f"def __init__({', '.join(arguments)}):", *(body or ["    pass"])]


def _required(given: Any) -> bool:
    return isinstance(given, _Field) and given.factory is None


def _tuple(of: str, names: list[str]) -> str:
    return f"({''.join(f'{of}.{name},' for name in names)})"


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._defaults)
    return f"{type(self).__qualname__}({shown})"
