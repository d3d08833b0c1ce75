"""`record`, a light dataclass, and `replace`, a copy with some fields changed.

The standard library's dataclasses compile text for each class, at 100 us each. Here one code object
serves all records with as many fields (see `_initialiser`).

A frozen record hashes by value; that nothing assigns to it is left to the type checker.

Invariant: fields are slots, in the order of the annotations, after those of a base that is a
record.
"""

from __future__ import annotations

import builtins
import functools
import operator
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast, dataclass_transform

_Record = TypeVar("_Record")
_UNSET: Any = object()


class _Field:
    """The arguments of `field`."""

    __slots__ = ("compare", "factory")

    def __init__(self, factory: Callable[[], Any] | None, compare: bool) -> None:
        self.factory = factory
        self.compare = compare


def field(*, default_factory: Callable[[], Any] | None = None, compare: bool = True) -> Any:
    """A field with a default made anew for each record, or one that comparison ignores."""
    return _Field(default_factory, compare)


@dataclass_transform(field_specifiers=(field,))
def record(
    *, frozen: bool = False, eq: bool = True, slots: bool = True
) -> Callable[[type[_Record]], type[_Record]]:
    """Make a class of annotated fields a record.

    frozen  equal records have equal hashes; else a record that compares by value has no hash
    eq      compare by value, field by field; else by identity
    slots   only the fields can be set; False for classes that set other attributes
    """

    def make(cls: type[_Record]) -> type[_Record]:
        own = {
            name: vars(cls).get(name, _UNSET)
            for name, kind in vars(cls).get("__annotations__", {}).items()
            if "ClassVar" not in str(kind)
        }
        defaults = {**getattr(cls, "_defaults", {}), **own}
        space = {name: thing for name, thing in vars(cls).items() if name not in own}
        init = _lazy_init(defaults)
        equal, hashed = _comparison(defaults)
        space.update(_defaults=defaults)
        space.setdefault("__init__", init)
        space.setdefault("__repr__", _repr)
        if eq:
            space.setdefault("__eq__", equal)
            space.setdefault("__hash__", hashed if frozen else None)
        for name in ("__dict__", "__weakref__"):
            space.pop(name, None)
        if slots:
            space["__slots__"] = tuple(own)
        made: Any = type(cls)
        space["__qualname__"] = cls.__qualname__
        whole = made(cls.__name__, cls.__bases__, space)
        init.owner = whole
        return cast(type[_Record], whole)

    return make


def replace(record: _Record, **changes: Any) -> _Record:
    """A copy in which some fields differ."""
    cls: Any = type(record)
    kept = {name: getattr(record, name) for name in cls._defaults if name not in changes}
    return cast(_Record, cls(**kept, **changes))


def field_names(cls: type) -> tuple[str, ...]:
    """The names of a record's fields."""
    return tuple(cls._defaults)  # type: ignore[attr-defined]


def _lazy_init(defaults: dict[str, Any]) -> Any:
    """An `__init__` that, when first called, makes the real one and puts it in its place: most
    record classes are never instantiated by a program that only imports the package."""

    def init(*args: Any, **kwargs: Any) -> None:
        made = _initialiser(defaults)
        init.owner.__init__ = made  # type: ignore[attr-defined]
        made(*args, **kwargs)

    return init


def _initialiser(defaults: dict[str, Any]) -> FunctionType:
    """`__init__` of a record: the shared code for this number of fields, with the record's own
    names. To compile a text takes 100 us, and a first call of a jitted function uses 40 record
    classes."""
    made = tuple(
        isinstance(given, _Field) and given.factory is not None for given in defaults.values()
    )
    code = _shared_code(made)
    own = {f"f{at}": name for at, name in enumerate(defaults)}
    code = code.replace(
        co_varnames=tuple(own.get(name, name) for name in code.co_varnames),
        co_names=tuple(own.get(name, name) for name in code.co_names),
    )
    scope = {f"make{at}": given.factory for at, given in enumerate(defaults.values()) if made[at]}
    given = [
        _UNSET if isinstance(x, _Field) else x for x in defaults.values() if not _is_required(x)
    ]
    return FunctionType(code, {**scope, "unset": _UNSET}, "__init__", tuple(given))


@functools.cache
def _shared_code(made: tuple[bool, ...]) -> CodeType:
    """`__init__` with fields f0, f1, ...; `made` says which have a default factory."""
    arguments = ["self", *(f"f{at}" for at in range(len(made)))]
    body = [
        f" self.f{at} = " + (f"make{at}() if f{at} is unset else f{at}" if anew else f"f{at}")
        for at, anew in enumerate(made)
    ]
    text = "\n".join([f"def __init__({', '.join(arguments)}):", *(body or [" pass"])])
    scope: dict[str, Any] = {}
    builtins.exec(text, scope)
    code: CodeType = scope["__init__"].__code__
    return code


def _comparison(defaults: dict[str, Any]) -> tuple[Any, Any]:
    """`__eq__` and `__hash__` by value."""
    names = [name for name, x in defaults.items() if not isinstance(x, _Field) or x.compare]
    read = operator.attrgetter(*names) if names else lambda _: ()
    values: Callable[[Any], Any] = read if len(names) != 1 else lambda record: (read(record),)

    def equal(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    def hashed(self: Any) -> int:
        return hash(values(self))

    return equal, hashed


def _is_required(given: Any) -> bool:
    return given is _UNSET or (isinstance(given, _Field) and given.factory is None)


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._defaults)
    return f"{type(self).__qualname__}({shown})"
