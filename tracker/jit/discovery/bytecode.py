"""The names in the bytecode of a function, including names given as text: `getattr(o, "k")`.

Most names are arguments of instructions. Names in strings reach a few functions (`_NAME_ARGUMENT`),
or are keys of a namespace (`_NAMESPACE_CALLS`). Where such a string is known only at run time, any
attribute or global may be read.

Invariant: a missed name would be a constant of the trace for ever; a superfluous one is merely read
on each call. Bytecode of an unexpected form counts as an unknown string. Start at
`referenced_names`.
"""

from __future__ import annotations

import dis
import functools
import re
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

from tracker.support.structs import field_names, record

_GLOBAL_OPS = {"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTE_OPS = {
    *("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "STORE_ATTR", "DELETE_ATTR"),
    "IMPORT_FROM",
}
# The argument that is a name, or a string with names.
_NAME_ARGUMENT = {
    "getattr": 1,
    "hasattr": 1,
    "setattr": 1,
    "delattr": 1,
    "getattr_static": 1,
    "attrgetter": 0,
    "methodcaller": 0,
    "import_module": 0,
    "__import__": 0,
}
_CODE_ARGUMENT = {"eval": 0, "exec": 0}  # the argument that is code
_ATTRIBUTE_LISTERS = {"vars", "dir", "__dict__", "asdict", "astuple", "fields", "getmembers"}
_LOCAL_LOADS = {"LOAD_FAST", "LOAD_FAST_LOAD_FAST"}  # of local variables
_NAMESPACE_CALLS = {"globals"}  # calls that return a namespace
_ENVIRON_NAMES = {"environ", "environb"}
_GETENV_ARGUMENT = {"getenv": 0, "getenvb": 0}
_DICT_LOOKUPS = {"get", "pop", "setdefault"}
_CALL_OPS = {"PRECALL"} if sys.version_info < (3, 12) else {"CALL"}  # pops the arguments
# Functions and methods that write where no name in the code says.
_INDIRECT_WRITERS = {
    *("setattr", "delattr", "__setattr__", "__delattr__", "__setitem__", "__delitem__", "__dict__"),
    *("append", "extend", "insert", "pop", "popitem", "remove", "clear", "sort", "reverse"),
    *("appendleft", "extendleft", "popleft", "rotate", "move_to_end"),
    *("update", "setdefault", "vars", "exec", "eval", "globals", "__ior__", "__iadd__"),
}
_SUBSCRIPT_STORES = {"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"}
_STORE_OPS = {"STORE_ATTR", "STORE_GLOBAL", "STORE_NAME", "STORE_DEREF"}
_CELL_LOADS = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_BUILD_OPS = {"BUILD_LIST", "BUILD_TUPLE"}
_IDENTITY_OPERATORS = {"is_", "is_not"}
_IDENTITY_FUNCTIONS = _IDENTITY_OPERATORS | {"id"}
_REFLECTION_MODULES = ("builtins", "operator", "_operator", "inspect", "dataclasses", "os")
_REFLECTION_FUNCTIONS = {
    *_NAME_ARGUMENT,
    *_ATTRIBUTE_LISTERS,
    *_GETENV_ARGUMENT,
    *_IDENTITY_FUNCTIONS,
}
_NULL_FOLLOWS_CALLABLE = sys.version_info >= (3, 13)
_IDENTIFIER = re.compile(r"[^\W\d]\w*")


@record(frozen=True)
class ReferencedNames:
    """The names that code refers to, including its inner functions.

    maybe_missing      attributes that may not exist
    imports            modules, as (level, name)
    environment_keys   keys of `os.environ`
    stored             names that are assigned
    append_targets     names of lists that are appended to
    loaded             names that are read in any other way
    reads_any_*        whether any attribute, global or environment key may be read
    lists_attributes   whether the names of an object's attributes may be read
    writes_unknown     whether something without a name in the code may be written
    tests_classes      whether classes of objects are tested
    tests_identity     whether objects may be compared by identity
    tests_identity_with_bool   whether something is compared with True or False by identity
    identity_operands  what `is` compares with: a name, and attributes looked up from there
    """

    globals: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    maybe_missing: frozenset[str] = frozenset()
    imports: frozenset[tuple[int, str]] = frozenset()
    environment_keys: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()
    append_targets: frozenset[str] = frozenset()
    loaded: frozenset[str] = frozenset()
    reads_any_attribute: bool = False
    lists_attributes: bool = False
    reads_any_global: bool = False
    reads_any_environment_key: bool = False
    writes_unknown: bool = False
    tests_classes: bool = False
    tests_identity: bool = False
    tests_identity_with_bool: bool = False
    identity_operands: frozenset[tuple[str, ...]] = frozenset()


@functools.lru_cache(maxsize=4096)
def referenced_names(code: types.CodeType) -> ReferencedNames:
    """The names in a code object and its inner functions."""
    inner = [referenced_names(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    parts = [_NameCollector(code), *inner]
    found: dict[str, Any] = {}
    for name in field_names(ReferencedNames):
        values = [getattr(part, name) for part in parts]
        found[name] = any(values) if type(values[0]) is bool else frozenset().union(*values)
    return ReferencedNames(**found)


class _NameCollector:
    """Collects the names in one code object, without its inner functions."""

    def __init__(self, code: types.CodeType) -> None:
        self.instructions = list(dis.get_instructions(code))
        self.string_names = [n for c in code.co_consts for n in _identifiers_in(c)]
        self.globals: set[str] = set()
        self.attributes: set[str] = set()
        self.maybe_missing: set[str] = set()
        self.imports: set[tuple[int, str]] = set()
        self.environment_keys: set[str] = set()
        self.append_targets: set[str] = set()
        self.loaded: set[str] = set()
        self.reads_any_attribute = self.lists_attributes = False
        self.reads_any_global = self.reads_any_environment_key = False
        self.stored = {step.argval for step in self.instructions if step.opname in _STORE_OPS}
        self.writes_unknown = any(step.opname in _SUBSCRIPT_STORES for step in self.instructions)
        self.tests_classes = any(step.opname == "MATCH_CLASS" for step in self.instructions)
        for at, step in enumerate(self.instructions):
            if step.opname in _GLOBAL_OPS or step.opname in _ATTRIBUTE_OPS:
                name = step.argval[-1] if isinstance(step.argval, tuple) else step.argval
                (self.globals if step.opname in _GLOBAL_OPS else self.attributes).add(name)
                self._add_reflection(at, name)
                self._add_load(at, name)
            elif step.opname in _CELL_LOADS:
                self._add_load(at, step.argval)
            elif step.opname == "IMPORT_NAME":
                level = self.instructions[at - 2].argval
                self.imports.add((level if isinstance(level, int) else 0, step.argval))
            elif step.opname == "MATCH_CLASS":
                self._add_class_pattern(step.arg or 0, self.instructions[at - 1].argval)
        self.identity_operands = set(_identity_operands(self.instructions))
        self.tests_identity = () in self.identity_operands or not _IDENTITY_FUNCTIONS.isdisjoint(
            self.globals | self.attributes
        )
        self.tests_identity_with_bool = _has_bool_identity_test(
            self.instructions
        ) or not _IDENTITY_OPERATORS.isdisjoint(self.globals | self.attributes)
        self.tests_classes |= not {"isinstance", "issubclass"}.isdisjoint(self.globals)
        if "AttributeError" in self.globals:  # it may handle a missing attribute
            self.maybe_missing |= self.attributes

    def _add_class_pattern(self, positions: int, names: Any) -> None:
        """A class pattern reads attributes by name, or by positions that the class defines."""
        self.reads_any_attribute |= positions > 0 or not isinstance(names, tuple)
        if isinstance(names, tuple):
            self.attributes.update(names)
            self.maybe_missing.update(names)
            self.loaded.update(names)

    def _add_load(self, at: int, name: str) -> None:
        """A name is loaded: to append to its value, or to the value at a key of it, or for anything
        else."""
        if self.instructions[at].opname in _STORE_OPS:
            return
        is_method = self._is_append(at + 1) or (
            self._is_key_lookup(at + 1) and self._is_append(at + 3)
        )
        (self.append_targets if is_method else self.loaded).add(name)

    def _is_append(self, at: int) -> bool:
        """Whether an instruction loads the method `append`."""
        return at < len(self.instructions) and (
            self.instructions[at].opname in ("LOAD_METHOD", "LOAD_ATTR")
            and self.instructions[at].argval == "append"
        )

    def _is_key_lookup(self, at: int) -> bool:
        """Whether two instructions look up a constant or local key."""
        names = [step.opname for step in self.instructions[at : at + 2]]
        return (
            len(names) == 2
            and names[0] in ("LOAD_CONST", "LOAD_FAST", "LOAD_FAST_BORROW")
            and names[1] == "BINARY_SUBSCR"
        )

    def _add_reflection(self, at: int, name: str) -> None:
        """A name may be that of a function that reads or writes names given as text."""
        self.writes_unknown |= name in _INDIRECT_WRITERS
        if name in _NAME_ARGUMENT:
            found = _string_argument(self.instructions, at, _NAME_ARGUMENT[name])
            self.reads_any_attribute |= found is None
            names = set(self.string_names if found is None else _IDENTIFIER.findall(found))
            self.attributes |= names
            self.loaded |= names
            self.maybe_missing |= names if found is not None else set()
        elif name in _CODE_ARGUMENT:
            found = _string_argument(self.instructions, at, _CODE_ARGUMENT[name])
            self.reads_any_global |= found is None
            names = set(self.string_names if found is None else _IDENTIFIER.findall(found))
            self.globals |= names
            self.attributes |= names
            self.loaded |= names
        elif name in _ATTRIBUTE_LISTERS:
            if _is_plain_attribute(self.instructions, at):
                return
            self.reads_any_attribute = self.lists_attributes = True
            self.attributes.update(self.string_names)
            self.loaded.update(self.string_names)
        elif name in _NAMESPACE_CALLS:
            key = _constant_key(self.instructions, _index_after_call(self.instructions, at))
            self.reads_any_global |= key is None
            keys = {key} if key is not None else set()
            self.globals |= keys
            self.loaded |= keys
        elif name == "modules":
            self.imports |= {(0, c) for c in _string_constants(self.instructions)}
        elif name in _ENVIRON_NAMES or name in _GETENV_ARGUMENT:
            if name in _ENVIRON_NAMES:
                key = _constant_key(self.instructions, at + 1)
            else:
                key = _string_argument(self.instructions, at, _GETENV_ARGUMENT[name])
            self.reads_any_environment_key |= key is None
            self.environment_keys |= {key} if key is not None else set()
        if name in ("import_module", "__import__"):
            self.imports |= {(0, c) for c in _string_constants(self.instructions)}


def _is_plain_attribute(steps: Sequence[dis.Instruction], at: int) -> bool:
    """Whether `fields`, `dir` or the like is the name of a plain attribute, not of Python's
    function.

    So it is where it is stored, where a key of it or a method is looked up, or where it is an
    attribute of a local variable and not called.
    """
    step, after = steps[at], steps[at + 1 : at + 3]
    if step.argval == "__dict__" or step.opname not in _ATTRIBUTE_OPS:
        return False
    if step.opname in ("STORE_ATTR", "DELETE_ATTR"):
        return True
    names = [s.opname for s in after]
    if names[0] in ("LOAD_ATTR", "LOAD_METHOD"):
        return not after[0].argval.startswith("__")
    if names[-1] in ("BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR"):
        return names[0] in ("LOAD_CONST", "LOAD_FAST")
    return not _is_called(steps, at) and _is_local_attribute(steps, at)


def _is_called(steps: Sequence[dis.Instruction], at: int) -> bool:
    """Whether an attribute is loaded for a call; the bytecode for that depends on the Python
    version."""
    is_method = steps[at].opname != "LOAD_ATTR" or (
        sys.version_info >= (3, 12) and bool((steps[at].arg or 0) & 1)
    )
    beside = steps[at + 1 : at + 2] if _NULL_FOLLOWS_CALLABLE else steps[:at][-2:]
    return is_method or "PUSH_NULL" in [s.opname for s in beside]


def _is_local_attribute(steps: Sequence[dis.Instruction], at: int) -> bool:
    """Whether it is an attribute (of an attribute) of a local variable that no import sets."""
    while steps[at].opname == "LOAD_ATTR":
        at -= 1
    return steps[at].opname in _LOCAL_LOADS and all(s.opname != "IMPORT_NAME" for s in steps)


def _identity_operands(steps: Sequence[dis.Instruction]) -> Iterator[tuple[str, ...]]:
    """What each `is` compares with, as (name, attributes...); see `_loaded_path`.

    Constants in the code are no arguments, and do not count. `in` and `==` on list and tuple
    displays compare identities before values, which matters for NaN.
    """
    for before, step in enumerate(steps[1:]):
        loaded = steps[before].opname
        if step.opname == "IS_OP" and loaded != "LOAD_CONST":
            yield _loaded_path(steps, before)
        elif step.opname in ("CONTAINS_OP", "COMPARE_OP") and loaded in _BUILD_OPS:
            yield ()


def _loaded_path(steps: Sequence[dis.Instruction], at: int) -> tuple[str, ...]:
    """The name and attributes that an instruction loads; an empty name for a local or computed
    value, and () for such a value itself."""
    attributes: list[str] = []
    while steps[at].opname == "LOAD_ATTR":
        attributes.insert(0, steps[at].argval)
        at -= 1
    if steps[at].opname in {"LOAD_GLOBAL", *_CELL_LOADS}:
        return steps[at].argval, *attributes
    return ("", *attributes) if attributes else ()


def _has_bool_identity_test(steps: Sequence[dis.Instruction]) -> bool:
    """Whether something is compared with True or False by `is` (as the pattern `case True` does),
    or with the result of a comparison."""
    return any(
        step.opname == "IS_OP"
        and any(
            isinstance(s.argval, bool) or s.opname == "COMPARE_OP"
            for s in steps[max(at - 2, 0) : at]
        )
        for at, step in enumerate(steps)
    )


def _identifiers_in(constant: object) -> list[str]:
    """The identifiers in a constant of code."""
    if isinstance(constant, str):
        return _IDENTIFIER.findall(constant)
    if isinstance(constant, (tuple, frozenset)):
        return [name for c in constant for name in _identifiers_in(c)]
    return []


def _string_constants(steps: Sequence[dis.Instruction]) -> list[str]:
    return [s.argval for s in steps if s.opname == "LOAD_CONST" and isinstance(s.argval, str)]


def _string_argument(steps: Sequence[dis.Instruction], at: int, which: int) -> str | None:
    """The string passed as argument number `which` in the call of the value just loaded: the
    constant pushed at that stack depth which stays there until the call; None if there is none."""
    depth, found = 0, None
    has_null = _NULL_FOLLOWS_CALLABLE and steps[at].opname != "LOAD_GLOBAL"
    if has_null and steps[at + 1].opname == "PUSH_NULL":
        at += 1
    for step in steps[at + 1 :]:
        if step.opname in _CALL_OPS and depth == step.arg:
            return found
        if depth < 0 or "JUMP" in step.opname or "RETURN" in step.opname:
            return None
        before, depth = depth, depth + dis.stack_effect(step.opcode, step.arg, jump=False)
        if depth <= which + 1:
            is_text = step.opname == "LOAD_CONST" and isinstance(step.argval, str)
            found = step.argval if is_text and before == which else None
    return None


def _index_after_call(steps: Sequence[dis.Instruction], at: int) -> int:
    """The index of the instruction after a call without arguments of the value just loaded."""
    at += 1
    while (
        at < len(steps)
        and steps[at].opname in ("PUSH_NULL", "PRECALL", "CALL")
        and not steps[at].arg
    ):
        at += 1
    return at


def _constant_key(steps: Sequence[dis.Instruction], at: int) -> str | None:
    """The constant string that the value loaded before `at` is subscripted with, or that is passed
    to its `get`; None if there is none."""
    here = [(s.opname, s.argval) for s in steps[at : at + 2]]
    if len(here) < 2:
        return None
    (first, name), (second, key) = here
    if first == "LOAD_CONST" and second in ("BINARY_SUBSCR", "BINARY_OP"):
        return name if isinstance(name, str) else None
    if first in ("LOAD_ATTR", "LOAD_METHOD") and name in _DICT_LOOKUPS and second == "LOAD_CONST":
        return key if isinstance(key, str) else None
    return None


def reflection_names(tool: Any) -> ReferencedNames | None:
    """What a function such as `getattr` may read or write, wherever it was kept under whatever
    name; None for any other object."""
    name, module = getattr(tool, "__name__", ""), getattr(tool, "__module__", "")
    if module not in _REFLECTION_MODULES or name not in _REFLECTION_FUNCTIONS:
        return None
    reads_any = name in _NAME_ARGUMENT or name in _ATTRIBUTE_LISTERS
    return ReferencedNames(
        reads_any_attribute=reads_any,
        lists_attributes=reads_any,
        reads_any_environment_key=name in _GETENV_ARGUMENT,
        writes_unknown=name in _INDIRECT_WRITERS,
        tests_identity=name in _IDENTITY_FUNCTIONS,
        tests_identity_with_bool=name in _IDENTITY_OPERATORS,
    )


def operator_names(x: Any) -> set[str]:
    """The names that an `operator.attrgetter` or `methodcaller` was made with."""
    given: Any = x.__reduce__()[1]
    return {name for text in given if isinstance(text, str) for name in text.split(".")}
