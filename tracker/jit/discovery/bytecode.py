"""The names in the bytecode of a function, including names given as text: `getattr(o, "k")`; and
what else code may do that matters to a trace.

Most names are arguments of instructions. Names in strings reach a few functions (`_NAME_ARGUMENT`),
or are keys of a namespace (`_NAMESPACES`). Where such a string is known only at run time, any
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
from collections.abc import Container, Iterator, Sequence
from typing import Any, NamedTuple

from tracker.support.structs import field, field_names, record

_GLOBAL_OPS = {"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTE_OPS = {
    *("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "STORE_ATTR", "DELETE_ATTR"),
    "IMPORT_FROM",
}
_NAME_ARGUMENT = {  # the argument that is a name, or a string with names
    **dict.fromkeys(("getattr", "hasattr", "setattr", "delattr", "getattr_static"), 1),
    **dict.fromkeys(("attrgetter", "methodcaller", "import_module", "__import__"), 0),
}
_CODE_ARGUMENT = {"eval": 0, "exec": 0}  # the argument that is code
_ATTRIBUTE_LISTERS = {"vars", "dir", "__dict__", "asdict", "astuple", "fields", "getmembers"}
_KEY_LOADS = ["LOAD_CONST"], ["LOAD_FAST"], ["LOAD_FAST_BORROW"]
_LOCAL_LOADS = {"LOAD_FAST", "LOAD_FAST_LOAD_FAST"}  # of local variables
_MODULE_LOOKUPS = {"modules", "import_module", "__import__"}
_NAMESPACES = {"globals", "__globals__"}  # what gives a namespace
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
_STORE_OPS = {"STORE_ATTR", "STORE_GLOBAL", "STORE_NAME", "STORE_DEREF"}
_CELL_LOADS = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_BUILD_OPS = {"BUILD_LIST", "BUILD_TUPLE"}
_IDENTITY_OPERATORS = {"is_", "is_not"}
_IDENTITY_FUNCTIONS = _IDENTITY_OPERATORS | {"id"}
_REFLECTION_MODULES = ("builtins", "operator", "_operator", "inspect", "dataclasses", "os")
_REFLECTION_FUNCTIONS = {*_NAME_ARGUMENT, *_GETENV_ARGUMENT, *_ATTRIBUTE_LISTERS}
_REFLECTION_FUNCTIONS |= _IDENTITY_FUNCTIONS
_NULL_FOLLOWS_CALLABLE = sys.version_info >= (3, 13)
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_WRITE_OPS = _STORE_OPS | {"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"}
_WRITE_OPCODES = {code for name, code in dis.opmap.items() if name in _WRITE_OPS}
_GLOBAL_OPCODES = {code for name, code in dis.opmap.items() if name in _GLOBAL_OPS}

_FLAG_BITS = {"LOAD_GLOBAL": 1}  # of the argument, after the index of the name
if sys.version_info >= (3, 12):
    _FLAG_BITS |= {"LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2}
_NAME_SHIFTS = {code: _FLAG_BITS.get(dis.opname[code], 0) for code in dis.hasname}
_CONSTANT_OPCODES = frozenset(dis.hasconst)
_VARIABLE_OPCODES = {*dis.hasfree, *(c for c in dis.haslocal if dis.opname[c].count("FAST") == 1)}
_OPCODES = frozenset(range(256)) - {dis.opmap["CACHE"], dis.EXTENDED_ARG}

_CONSTRUCTION_METHODS = {  # methods that use reflection on objects under construction or comparison
    *("__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"),
    *("__eq__", "__ne__", "__hash__", "__copy__", "__deepcopy__", "__dir__"),
}
_NOT_OF_CONSTRUCTION = {
    *("reads_any_attribute", "lists_attributes", "stored_after_init", "sets_frozen_attributes"),
}
_NOT_OF_GENERATED_CODE = {"tests_identity", "sets_frozen_attributes"}
_LAYOUT_ATTRIBUTES = {"flags", "strides", "base"}
_ITERABLES = {"range", "zip", "enumerate", "map", "list", "tuple"}


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
    compared_iterables which of `range`, `zip`, `enumerate`, `map`, `list` and `tuple` are used for
                       more than to call them: one may be compared with the type of what it gives
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
    compared_iterables: set[str] = _names()
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
    def looks_up_modules(self) -> bool:
        """Whether a module may be looked up by its name."""
        return not _MODULE_LOOKUPS.isdisjoint(self.globals | self.attributes)

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


class Instruction(NamedTuple):
    """An instruction; `argval` is the name or constant that `arg` stands for, if any."""

    opcode: int
    opname: str
    arg: int
    argval: Any


def instructions(code: types.CodeType, only: Container[int] = _OPCODES) -> list[Instruction]:
    """The instructions of a code object, maybe those with some opcodes only; without caches and
    extensions of arguments. (`dis` takes four times as long: it finds lines and jumps, too.)"""
    found: list[Instruction] = []
    raw, high = code.co_code, 0
    for opcode, low in zip(raw[::2], raw[1::2], strict=True):
        arg, value = high | low, None
        high = arg << 8 if opcode == dis.EXTENDED_ARG else 0
        if opcode not in only:
            continue
        if opcode in _NAME_SHIFTS:
            value = code.co_names[arg >> _NAME_SHIFTS[opcode]]
        elif opcode in _CONSTANT_OPCODES:
            value = code.co_consts[arg]
        elif opcode in _VARIABLE_OPCODES:
            value = code._varname_from_oparg(arg)  # type: ignore[attr-defined]
        found.append(Instruction(opcode, dis.opname[opcode], arg, value))
    return found


@functools.lru_cache(maxsize=4096)
def referenced_names(code: types.CodeType) -> Names:
    """The names in a code object and its inner functions; not to be changed."""
    names = _NameCollector(code).names
    for c in _inner_functions(code):
        names.update(referenced_names(c))
    return names


@functools.lru_cache(maxsize=4096)
def written_names(code: types.CodeType) -> Names:
    """What a code object and its inner functions write, and nothing else."""
    found = {step.argval for step in instructions(code, _WRITE_OPCODES)}
    is_unknown = None in found or not _INDIRECT_WRITERS.isdisjoint(code.co_names)
    names = Names(stored=found - {None}, writes_unknown=is_unknown)
    for c in _inner_functions(code):
        names.update(written_names(c))
    return names


@functools.lru_cache(maxsize=4096)
def named_globals(code: types.CodeType) -> frozenset[str]:
    """The globals that a code object and its inner functions name, without those in texts."""
    named = frozenset(step.argval for step in instructions(code, _GLOBAL_OPCODES))
    return named.union(*map(named_globals, _inner_functions(code)))


def _inner_functions(code: types.CodeType) -> list[types.CodeType]:
    return [c for c in code.co_consts if isinstance(c, types.CodeType)]


class _NameCollector:
    """Collects the names in one code object, without its inner functions."""

    def __init__(self, code: types.CodeType) -> None:
        self.steps = steps = instructions(code)
        self.texts = {name for c in code.co_consts for name in _identifiers_in(c)}
        self.names = names = Names()
        names.update(written_names(code))
        names.stored_after_init |= names.stored
        for at, step in enumerate(steps):
            self._add_step(at, step)
        said = names.globals | names.attributes
        names.identity_operands.update(_identity_operands(steps))
        names.tests_identity = () in names.identity_operands or (
            not _IDENTITY_FUNCTIONS.isdisjoint(said)
        )
        names.tests_identity_with_bool = _has_bool_identity_test(steps) or (
            not _IDENTITY_OPERATORS.isdisjoint(said)
        )
        names.tests_classes |= not {"isinstance", "issubclass"}.isdisjoint(names.globals)
        names.sets_frozen_attributes = "__setattr__" in names.attributes
        modules = {part for _, name in names.imports for part in name.split(".")}
        names.draws_random = "random" in said | modules
        if "AttributeError" in names.globals:  # it may handle a missing attribute
            names.maybe_missing |= names.attributes

    def _add_step(self, at: int, step: Instruction) -> None:
        is_iterable = step.argval in _ITERABLES and step.opname.startswith("LOAD_")
        if is_iterable and not (step.opname == "LOAD_GLOBAL" and step.arg & 1):
            self.names.compared_iterables.add(step.argval)
        if step.opname in _GLOBAL_OPS or step.opname in _ATTRIBUTE_OPS:
            names = self.names
            (names.globals if step.opname in _GLOBAL_OPS else names.attributes).add(step.argval)
            self._add_reflection(at, step.argval)
            self._add_load(at, step.argval)
        elif step.opname in _CELL_LOADS:
            self._add_reflection(at, step.argval)
            self._add_load(at, step.argval)
        elif step.opname == "IMPORT_NAME":
            level = self.steps[at - 2].argval
            self.names.imports.add((level if isinstance(level, int) else 0, step.argval))
        elif step.opname == "MATCH_CLASS":
            self._add_class_pattern(step.arg, self.steps[at - 1].argval)

    def _add_class_pattern(self, positions: int, keywords: Any) -> None:
        """A class pattern reads attributes by name, or by positions that the class defines."""
        names = self.names
        names.tests_classes = True
        names.reads_any_attribute |= positions > 0 or not isinstance(keywords, tuple)
        for known in (names.attributes, names.maybe_missing, names.loaded):
            known.update(keywords if isinstance(keywords, tuple) else ())

    def _add_load(self, at: int, name: str) -> None:
        """A name is loaded: to append to its value, or to the value at a key of it, or for anything
        else."""
        if self.steps[at].opname in _STORE_OPS:
            return
        after = self.steps[at + 1 : at + 4]
        opnames = [step.opname for step in after]
        has_key = opnames[:1] in _KEY_LOADS and opnames[1:2] == ["BINARY_SUBSCR"]
        method = after[2:] if has_key else after
        is_append = bool(method) and (
            method[0].opname in ("LOAD_METHOD", "LOAD_ATTR") and method[0].argval == "append"
        )
        (self.names.append_targets if is_append else self.names.loaded).add(name)

    def _add_reflection(self, at: int, name: str) -> None:
        """A name may be that of a function that reads or writes names given as text."""
        names, steps = self.names, self.steps
        if name in _NAME_ARGUMENT:
            found = _string_argument(steps, at, _NAME_ARGUMENT[name])
            names.reads_any_attribute |= found is None
            self._add_texts(found, names.attributes, names.loaded)
            if found is not None:
                self._add_texts(found, names.maybe_missing)
        elif name in _CODE_ARGUMENT:
            found = _string_argument(steps, at, _CODE_ARGUMENT[name])
            names.reads_any_global |= found is None
            self._add_texts(found, names.globals, names.attributes, names.loaded)
        elif name in _ATTRIBUTE_LISTERS:
            if not _is_plain_attribute(steps, at):
                names.reads_any_attribute = names.lists_attributes = True
                self._add_texts(None, names.attributes, names.loaded)
        elif name in _NAMESPACES:
            key = _constant_key(steps, _index_after_call(steps, at))
            names.reads_any_global |= key is None
            if key is not None:
                names.globals.add(key)
                names.loaded.add(key)
        elif name in _ENVIRON_NAMES or name in _GETENV_ARGUMENT:
            if name in _ENVIRON_NAMES:
                key = _constant_key(steps, at + 1)
            else:
                key = _string_argument(steps, at, _GETENV_ARGUMENT[name])
            names.reads_any_environment_key |= key is None
            names.environment_keys |= {key} if key is not None else set()
        if name in _MODULE_LOOKUPS:
            texts = (s.argval for s in steps if s.opname == "LOAD_CONST")
            names.imports |= {(0, text) for text in texts if isinstance(text, str)}

    def _add_texts(self, text: str | None, *to: set[str]) -> None:
        """Add the identifiers in a text; in all texts of the code, if it is not known."""
        for known in to:
            known |= self.texts if text is None else set(_IDENTIFIER.findall(text))


def _is_plain_attribute(steps: Sequence[Instruction], at: int) -> bool:
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
    return not is_called(steps, at) and _is_local_attribute(steps, at)


def is_called(steps: Sequence[Instruction], at: int) -> bool:
    """Whether a value is loaded for a call; the bytecode for that depends on the Python version."""
    step = steps[at]
    if step.opname == "LOAD_METHOD" or (step.opname in _FLAG_BITS and step.arg & 1):
        return True
    beside = steps[at + 1 : at + 2] if _NULL_FOLLOWS_CALLABLE else steps[:at][-2:]
    return "PUSH_NULL" in [s.opname for s in beside]


def _is_local_attribute(steps: Sequence[Instruction], at: int) -> bool:
    """Whether it is an attribute (of an attribute) of a local variable that no import sets."""
    while steps[at].opname == "LOAD_ATTR":
        at -= 1
    return steps[at].opname in _LOCAL_LOADS and all(s.opname != "IMPORT_NAME" for s in steps)


def _identity_operands(steps: Sequence[Instruction]) -> Iterator[tuple[str, ...]]:
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


def _loaded_path(steps: Sequence[Instruction], at: int) -> tuple[str, ...]:
    """The name and attributes that an instruction loads; an empty name for a local or computed
    value, and () for such a value itself."""
    attributes: list[str] = []
    while steps[at].opname == "LOAD_ATTR":
        attributes.insert(0, steps[at].argval)
        at -= 1
    if steps[at].opname in {"LOAD_GLOBAL", *_CELL_LOADS}:
        return steps[at].argval, *attributes
    return ("", *attributes) if attributes else ()


def _has_bool_identity_test(steps: Sequence[Instruction]) -> bool:
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
    if isinstance(constant, str):
        return _IDENTIFIER.findall(constant)
    if isinstance(constant, (tuple, frozenset)):
        return [name for c in constant for name in _identifiers_in(c)]
    return []


def _string_argument(steps: Sequence[Instruction], at: int, which: int) -> str | None:
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
        arg = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
        before, depth = depth, depth + dis.stack_effect(step.opcode, arg, jump=False)
        if depth <= which + 1:
            is_text = step.opname == "LOAD_CONST" and isinstance(step.argval, str)
            found = step.argval if is_text and before == which else None
    return None


def _index_after_call(steps: Sequence[Instruction], at: int) -> int:
    """The index of the instruction after a call without arguments of the value just loaded."""
    at += 1
    while (
        at < len(steps)
        and steps[at].opname in ("PUSH_NULL", "PRECALL", "CALL")
        and not steps[at].arg
    ):
        at += 1
    return at


def _constant_key(steps: Sequence[Instruction], at: int) -> str | None:
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


def reflection_names(tool: Any) -> Names | None:
    """What a function such as `getattr` may read or write, wherever it was kept under whatever
    name; None for any other object."""
    name, module = getattr(tool, "__name__", ""), getattr(tool, "__module__", "")
    if module not in _REFLECTION_MODULES or name not in _REFLECTION_FUNCTIONS:
        return None
    reads_any = name in _NAME_ARGUMENT or name in _ATTRIBUTE_LISTERS
    return Names(
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
