"""The names that code refers to, and what else it may do that matters to a trace."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from tracker.support.structs import field, field_names, record

_CONSTRUCTION_METHODS = {  # methods that use reflection on objects under construction or comparison
    *("__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"),
    *("__eq__", "__ne__", "__hash__", "__copy__", "__deepcopy__", "__dir__"),
}
_NOT_OF_CONSTRUCTION = {
    *("reads_any_attribute", "lists_attributes", "stored_after_init", "sets_frozen_attributes"),
}
_NOT_OF_GENERATED_CODE = {"tests_identity", "sets_frozen_attributes"}
_LAYOUT_ATTRIBUTES = {"flags", "strides", "base"}


def _names() -> Any:
    return field(default_factory=set)


@record()
class Names:
    """The names in some code, including its inner functions.

    maybe_missing      attributes that may not exist
    imports            modules, as (level, name)
    environment_keys   keys of `os.environ`
    stored             names that are assigned
    stored_after_init  the same, except for objects under construction
    append_targets     names of lists that are appended to
    loaded             names that are read in any other way
    identity_operands  what `is` compares with: a name, and attributes looked up from there
    reads_any_*        whether any attribute, global or environment key may be read
    lists_attributes   whether the names of an object's attributes may be read
    writes_unknown     whether something without a name in the code may be written
    tests_classes      whether classes of objects are tested
    tests_identity     whether objects may be compared by identity
    tests_identity_with_bool   whether something is compared with True or False by identity
    sets_frozen_attributes     whether `object.__setattr__` may change an object
    draws_random       whether a module of random numbers is named
    """

    globals: set[str] = _names()
    attributes: set[str] = _names()
    maybe_missing: set[str] = _names()
    imports: set[tuple[int, str]] = _names()
    environment_keys: set[str] = _names()
    stored: set[str] = _names()
    stored_after_init: set[str] = _names()
    append_targets: set[str] = _names()
    loaded: set[str] = _names()
    identity_operands: set[tuple[str, ...]] = _names()
    reads_any_attribute: bool = False
    lists_attributes: bool = False
    reads_any_global: bool = False
    reads_any_environment_key: bool = False
    writes_unknown: bool = False
    tests_classes: bool = False
    tests_identity: bool = False
    tests_identity_with_bool: bool = False
    sets_frozen_attributes: bool = False
    draws_random: bool = False

    @property
    def may_write(self) -> bool:
        """Whether something may be written."""
        return bool(self.stored) or self.writes_unknown

    @property
    def reads_layout(self) -> bool:
        """Whether it may be read how an array lies in memory."""
        return not _LAYOUT_ATTRIBUTES.isdisjoint(self.attributes)

    def add_attributes(self, names: set[str]) -> None:
        """Add names of attributes that are read."""
        self.attributes |= names
        self.loaded |= names

    def update(self, names: Names, skipped: Container[str] = ()) -> None:
        """Add other names, without some fields of theirs."""
        for each in _FIELDS:
            if (new := getattr(names, each)) and each not in skipped:
                known = getattr(self, each)
                known |= new
                setattr(self, each, known)

    def add_function(self, names: Names, name: str, is_generated: bool) -> None:
        """Add the names in the code of a function of this name, which Python may have generated."""
        skipped = _NOT_OF_CONSTRUCTION if name in _CONSTRUCTION_METHODS else set()
        self.update(names, skipped | _NOT_OF_GENERATED_CODE if is_generated else skipped)


_FIELDS = field_names(Names)
