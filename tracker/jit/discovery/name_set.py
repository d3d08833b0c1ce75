"""The union of the names in all code that a function can reach.

`bytecode.py` finds the names of one code object; `discovery.py` follows them.
"""

from __future__ import annotations

from tracker.jit.discovery.bytecode import ReferencedNames

_CONSTRUCTION_METHODS = {  # methods that use reflection on objects under construction or comparison
    *("__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"),
    *("__eq__", "__ne__", "__hash__", "__copy__", "__deepcopy__", "__dir__"),
}


class NameSet:
    """Grows as code is added; `size` shows whether it has."""

    def __init__(self) -> None:
        self.attributes: set[str] = set()
        self.maybe_missing: set[str] = set()
        self.string_values: set[str] = set()  # strings found at sources
        self.reads_any_attribute = self.lists_attributes = False
        self.environment: tuple[frozenset[str], bool] = frozenset(), False  # keys, whether any
        self.draws_random = False
        self.tests_classes = self.uses_abstract_classes = False
        self.stored: set[str] = set()
        self.stored_after_init: set[str] = set()  # without stores by constructors
        self.writes_unknown = self.tests_identity = self.tests_identity_with_bool = False
        self.sets_frozen_attributes = False  # by `object.__setattr__`
        self.append_targets: set[str] = set()
        self.loaded: set[str] = set()

    def add(self, names: ReferencedNames, name: str) -> None:
        """Add the names in the code of a function of this name."""
        self.attributes |= names.attributes
        self.maybe_missing |= names.maybe_missing
        if name not in _CONSTRUCTION_METHODS:
            self.reads_any_attribute |= names.reads_any_attribute
            self.lists_attributes |= names.lists_attributes
            self.stored_after_init |= names.stored
        self.stored |= names.stored
        self.writes_unknown |= names.writes_unknown
        self.append_targets |= names.append_targets
        self.loaded |= names.loaded
        self.tests_classes |= names.tests_classes
        self.tests_identity_with_bool |= names.tests_identity_with_bool
        known, whole = self.environment
        self.environment = known | names.environment_keys, whole or names.reads_any_environment_key
        modules = {part for _, name in names.imports for part in name.split(".")}
        self.draws_random |= "random" in names.attributes | names.globals | modules

    def add_user_code(self, names: ReferencedNames, name: str) -> None:
        """Add the names in code that a user has written, which may compare and set anything."""
        self.add(names, name)
        self.tests_identity |= names.tests_identity
        self.sets_frozen_attributes |= (
            "__setattr__" in names.attributes and name not in _CONSTRUCTION_METHODS
        )

    def size(self) -> tuple[object, ...]:
        """The sizes of the parts that decide which sources there are."""
        texts = len(self.string_values) * self.reads_any_attribute
        return (
            len(self.attributes),
            len(self.maybe_missing),
            texts,
            self.lists_attributes,
            self.environment,
        )
