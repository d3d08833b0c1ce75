"""What the code that a function can reach mentions, all of it together.

Owns: `Mentioned`: the names of attributes, and what is done with them. `bytecode.py` says it of
one code object; `discovery.py` follows the names.
"""

from __future__ import annotations

from tracker.jit.discovery.bytecode import Names

_OF_OTHERS = {  # methods whose reflection is on objects being made, copied or compared
    *("__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"),
    *("__eq__", "__ne__", "__hash__", "__copy__", "__deepcopy__", "__dir__"),
}


class Mentioned:
    """It grows; `extent` tells whether it has."""

    def __init__(self) -> None:
        self.attributes: set[str] = set()
        self.tested: set[str] = set()  # attributes that may be missing
        self.texts: set[str] = set()  # that stand at places
        self.every = self.whole = False  # whether any attribute may be read; and which there are
        self.environment: tuple[frozenset[str], bool] = frozenset(), False  # keys; any of them
        self.draws = False
        self.classifies = self.abstract = False  # whether classes are asked for; abstract ones
        self.stored: set[str] = set()
        self.remembered: set[str] = set()  # that of it which no object being made stores
        self.fills = self.compares = self.flags = False
        self.forces = False  # whether it sets attributes of what is frozen
        self.appended: set[str] = set()
        self.looked_at: set[str] = set()

    def note(self, names: Names, name: str) -> None:
        """Take in what the code of a function of this name mentions."""
        self.attributes |= names.attributes
        self.tested |= names.tested
        if name not in _OF_OTHERS:
            self.every |= names.every
            self.whole |= names.whole
            self.remembered |= names.stored
        self.stored |= names.stored
        self.fills |= names.fills
        self.appended |= names.appended
        self.looked_at |= names.looked_at
        self.classifies |= names.classifies
        self.flags |= names.flags
        known, whole = self.environment
        self.environment = known | names.variables, whole or names.environment
        modules = {part for _, name in names.imports for part in name.split(".")}
        self.draws |= "random" in names.attributes | names.globals | modules

    def note_code(self, names: Names, name: str) -> None:
        """The same of code that somebody has written, which may compare and set what it likes."""
        self.note(names, name)
        self.compares |= names.compares
        self.forces |= "__setattr__" in names.attributes and name not in _OF_OTHERS

    def extent(self) -> tuple[object, ...]:
        """How much of it decides which places there are."""
        texts = len(self.texts) * self.every
        return len(self.attributes), len(self.tested), texts, self.whole, self.environment
