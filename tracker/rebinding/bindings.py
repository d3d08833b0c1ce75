"""Bindings by which user code has objects of NumPy's, and the exchange of these objects.

A binding is held by every call that needs its drop-ins (`holders`); each installs them, the last
one puts the originals back.

Invariants
1. `install` and `restore` may be interrupted anywhere and run again. Neither touches what somebody
   else has bound meanwhile.
2. One object stands for a binding while it is held: `ACTIVE` has it by its key. (Namespaces have
   one as long as they live.)
"""

from __future__ import annotations

from typing import Any

from tracker.support.frames.holders import Place

Exchanged = list[tuple[Any, Any, Any]]  # name or index, original, drop-in


class Binding:
    """Where an object of NumPy's is held: in a dict or a list, a closure cell, the defaults of a
    function, an attribute of a class.

    key      of bindings that are the same
    holders  the calls that need the drop-ins
    """

    __slots__ = ("holder", "holders", "key")

    def __init__(self, holder: Any, key: Any) -> None:
        self.holder, self.key = holder, key
        self.holders: set[Any] = set()

    def is_current(self) -> bool:
        """Whether the originals or the drop-ins are there."""
        raise NotImplementedError

    def install(self) -> bool:
        """Put the drop-ins where the originals are, and return `is_current()`."""
        raise NotImplementedError

    def restore(self) -> None:
        """Put the originals where the drop-ins are."""
        raise NotImplementedError


ACTIVE: dict[Any, Binding] = {}


class ItemBindings(Binding):
    """Items of a dict (also of another class, whose code does not run) or a list that had `count`
    items."""

    __slots__ = ("count", "exchanged")

    def __init__(self, holder: Any, exchanged: Exchanged) -> None:
        super().__init__(holder, id(holder))
        self.exchanged = exchanged
        self.count = self._length()

    def is_current(self) -> bool:
        return self._length() == self.count and all(
            self._item(name) is x or self._item(name) is y for name, x, y in self.exchanged
        )

    def install(self) -> bool:
        is_current = self._length() == self.count
        for name, original, drop_in in self.exchanged:
            x = self._item(name)
            if x is original:
                self._set_item(name, drop_in)
            elif x is not drop_in:
                is_current = False
        return is_current

    def restore(self) -> None:
        for name, original, drop_in in self.exchanged:
            if self._item(name) is drop_in:
                self._set_item(name, original)

    def _length(self) -> int:
        kind: Any = list if type(self.holder) is list else dict
        return int(kind.__len__(self.holder))

    def _item(self, name: Any) -> Any:
        if type(self.holder) is list:
            return self.holder[name] if name < len(self.holder) else None
        return dict.get(self.holder, name)

    def _set_item(self, name: Any, x: Any) -> None:
        kind: Any = list if type(self.holder) is list else dict
        kind.__setitem__(self.holder, name, x)


class AttributeBinding(Binding):
    """An attribute that is replaced as a whole: the contents of a closure cell, the defaults of a
    function, an attribute of a class."""

    __slots__ = ("drop_in", "original", "place")

    def __init__(self, holder: Any, name: str, original: Any, drop_in: Any) -> None:
        super().__init__(holder, (id(holder), name))
        self.place, self.original, self.drop_in = Place(holder, name), original, drop_in

    def is_current(self) -> bool:
        x = self.place.read()
        return x is self.original or x is self.drop_in

    def install(self) -> bool:
        x = self.place.read()
        if x is self.original:
            self.place.write(self.drop_in)
        return x is self.original or x is self.drop_in

    def restore(self) -> None:
        if self.place.read() is self.drop_in:
            self.place.write(self.original)
