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

import types
from typing import Any

from tracker.support.instances import cell_contents

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

    def install(self) -> Any:
        """Put the drop-ins where the originals are."""
        raise NotImplementedError

    def restore(self) -> None:
        """Put the originals where the drop-ins are."""
        raise NotImplementedError


ACTIVE: dict[Any, Binding] = {}


class ItemBindings(Binding):
    """Items of a dict (also of another class, whose code does not run) or a list."""

    __slots__ = ("exchanged",)

    def __init__(self, holder: Any, exchanged: Exchanged) -> None:
        super().__init__(holder, id(holder))
        self.exchanged = exchanged

    def install(self) -> Any:
        for name, original, drop_in in self.exchanged:
            if self._item(name) is original:
                self._set_item(name, drop_in)

    def restore(self) -> None:
        for name, original, drop_in in self.exchanged:
            if self._item(name) is drop_in:
                self._set_item(name, original)

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

    __slots__ = ("drop_in", "name", "original")

    def __init__(self, holder: Any, name: str, original: Any, drop_in: Any) -> None:
        super().__init__(holder, (id(holder), name))
        self.name, self.original, self.drop_in = name, original, drop_in

    def _read(self) -> Any:
        if isinstance(self.holder, type):
            return vars(self.holder).get(self.name)
        if isinstance(self.holder, types.CellType):  # maybe empty
            return cell_contents(self.holder)
        return getattr(self.holder, self.name)

    def _write(self, x: Any) -> None:
        if isinstance(self.holder, type):
            type.__setattr__(self.holder, self.name, x)
        else:
            setattr(self.holder, self.name, x)

    def install(self) -> None:
        if self._read() is self.original:
            self._write(self.drop_in)

    def restore(self) -> None:
        if self._read() is self.drop_in:
            self._write(self.original)
