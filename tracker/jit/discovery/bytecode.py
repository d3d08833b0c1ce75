"""Names that code reads things by, also as text: `getattr(o, "k")`, `globals()["n"]`.

Owns: `Names`, `names_in`, `names_given`. Code says most names outright; what it says as text it
hands to a few functions (`_NAMED`), or looks up in the dict of a namespace (`_KEYED`). Where such
text is known only when the code runs, all that an object or a namespace holds may be read.

Invariant: a name that is missed would be a constant of the trace for ever; one too many is only
looked at. Where the bytecode is not as expected, the text counts as unknown. Start at `names_in`.
"""

from __future__ import annotations

import dis
import functools
import re
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

from tracker.support.structs import record

_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTES = {
    *("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "STORE_ATTR", "DELETE_ATTR"),
    "IMPORT_FROM",
}
# Which argument is a name, or text with names in it.
_NAMED = {
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
_RUN = {"eval": 0, "exec": 0}  # the same, of code: it reads globals
_WHOLE = {"vars", "dir", "__dict__", "asdict", "astuple", "fields", "getmembers"}
_OWN = {"LOAD_FAST", "LOAD_FAST_LOAD_FAST"}  # a variable of the function's own
_KEYED = {"globals"}  # what is called and gives the namespace
_ENVIRONMENT = {"environ", "environb"}
_ASKED = {"getenv": 0, "getenvb": 0}
_FIND = {"get", "pop", "setdefault"}
_CALLS = {"PRECALL"} if sys.version_info < (3, 12) else {"CALL"}  # which take the arguments
# What puts something where no name in the code says it.
_FILL = {
    *("setattr", "delattr", "__setattr__", "__delattr__", "__setitem__", "__delitem__", "__dict__"),
    *("append", "extend", "insert", "pop", "popitem", "remove", "clear", "sort", "reverse"),
    *("appendleft", "extendleft", "popleft", "rotate", "move_to_end"),
    *("update", "setdefault", "vars", "exec", "eval", "globals", "__ior__", "__iadd__"),
}
_FILLING = {"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"}
_STORES = {"STORE_ATTR", "STORE_GLOBAL", "STORE_NAME", "STORE_DEREF"}
_CELLS = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_MADE = {"BUILD_LIST", "BUILD_TUPLE"}
_ARE = {"is_", "is_not"}
_SAME = _ARE | {"id"}  # what else asks whether two things are one
_TOOLS = ("builtins", "operator", "_operator", "inspect", "dataclasses", "os")
_BY_TEXT = {*_NAMED, *_WHOLE, *_ASKED, *_SAME}
_NULL_AFTER = sys.version_info >= (3, 13)  # what is called comes before its NULL
_NAME = re.compile(r"[^\W\d]\w*")


@record(frozen=True)
class Names:
    """The names that code mentions, its inner functions' included.

    `tested`: attributes that may be missing; `imports`: modules, as (level, name); `variables`:
    keys of the environment; `stored`: what is put somewhere, `fills`: other things may be;
    `appended`: what something is appended to, `looked_at`: what is read in any other way.
    `every`: any attribute of an object may be read, `whole`: and which
    there are, `everywhere`: any global, `environment`: any key of it. `classifies`: it asks of what
    class things are; `compares`: whether two are one object; `compared`: what it compares others
    with, as a name and the attributes that are looked up from there; `flags`: whether something is
    True or False itself."""

    globals: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    tested: frozenset[str] = frozenset()
    imports: frozenset[tuple[int, str]] = frozenset()
    variables: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()
    appended: frozenset[str] = frozenset()
    looked_at: frozenset[str] = frozenset()
    every: bool = False
    whole: bool = False
    everywhere: bool = False
    environment: bool = False
    fills: bool = False
    classifies: bool = False
    compares: bool = False
    flags: bool = False
    compared: frozenset[tuple[str, ...]] = frozenset()


@functools.lru_cache(maxsize=4096)
def names_in(code: types.CodeType) -> Names:
    """See `Names`."""
    reader = _Reader(code)
    inner = [names_in(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return Names(
        frozenset(reader.globals).union(*(n.globals for n in inner)),
        frozenset(reader.attributes).union(*(n.attributes for n in inner)),
        frozenset(reader.tested).union(*(n.tested for n in inner)),
        frozenset(reader.imports).union(*(n.imports for n in inner)),
        frozenset(reader.variables).union(*(n.variables for n in inner)),
        frozenset(reader.stored).union(*(n.stored for n in inner)),
        frozenset(reader.appended).union(*(n.appended for n in inner)),
        frozenset(reader.looked_at).union(*(n.looked_at for n in inner)),
        reader.every or any(n.every for n in inner),
        reader.whole or any(n.whole for n in inner),
        reader.everywhere or any(n.everywhere for n in inner),
        reader.environment or any(n.environment for n in inner),
        reader.fills or any(n.fills for n in inner),
        reader.classifies or any(n.classifies for n in inner),
        reader.compares or any(n.compares for n in inner),
        reader.flags or any(n.flags for n in inner),
        frozenset(reader.compared).union(*(n.compared for n in inner)),
    )


class _Reader:
    """Reads one code object, without its inner functions."""

    def __init__(self, code: types.CodeType) -> None:
        self.steps = list(dis.get_instructions(code))
        self.text = [n for c in code.co_consts for n in _names_of(c)]
        self.globals: set[str] = set()
        self.attributes: set[str] = set()
        self.tested: set[str] = set()
        self.imports: set[tuple[int, str]] = set()
        self.variables: set[str] = set()
        self.appended: set[str] = set()
        self.looked_at: set[str] = set()
        self.every = self.whole = self.everywhere = self.environment = False
        self.stored = {step.argval for step in self.steps if step.opname in _STORES}
        self.fills = any(step.opname in _FILLING for step in self.steps)
        self.classifies = any(step.opname == "MATCH_CLASS" for step in self.steps)
        for at, step in enumerate(self.steps):
            if step.opname in _GLOBALS or step.opname in _ATTRIBUTES:
                name = step.argval[-1] if isinstance(step.argval, tuple) else step.argval
                (self.globals if step.opname in _GLOBALS else self.attributes).add(name)
                self._named(at, name)
                self._loaded(at, name)
            elif step.opname in _CELLS:
                self._loaded(at, step.argval)
            elif step.opname == "IMPORT_NAME":
                level = self.steps[at - 2].argval
                self.imports.add((level if isinstance(level, int) else 0, step.argval))
            elif step.opname == "MATCH_CLASS":
                self._matched(step.arg or 0, self.steps[at - 1].argval)
        self.compared = set(_compared(self.steps))
        self.compares = () in self.compared or not _SAME.isdisjoint(self.globals | self.attributes)
        self.flags = _flags(self.steps) or not _ARE.isdisjoint(self.globals | self.attributes)
        self.classifies |= not {"isinstance", "issubclass"}.isdisjoint(self.globals)
        if "AttributeError" in self.globals:  # it can tell that there is none
            self.tested |= self.attributes

    def _matched(self, positions: int, names: Any) -> None:
        """A pattern of a class reads attributes by name, and by positions that the class names."""
        self.every |= positions > 0 or not isinstance(names, tuple)
        if isinstance(names, tuple):
            self.attributes.update(names)
            self.tested.update(names)
            self.looked_at.update(names)

    def _loaded(self, at: int, name: str) -> None:
        """A name is loaded: to append to what it stands for, or to what that has under a key; or to
        look at it."""
        if self.steps[at].opname in _STORES:
            return
        is_method = self._appends(at + 1) or (self._asks_key(at + 1) and self._appends(at + 3))
        (self.appended if is_method else self.looked_at).add(name)

    def _appends(self, at: int) -> bool:
        """Whether a step asks what lies on the stack for its `append`."""
        return at < len(self.steps) and (
            self.steps[at].opname in ("LOAD_METHOD", "LOAD_ATTR")
            and self.steps[at].argval == "append"
        )

    def _asks_key(self, at: int) -> bool:
        """Whether two steps ask what lies on the stack for a key, of which they do no more."""
        names = [step.opname for step in self.steps[at : at + 2]]
        return (
            len(names) == 2
            and names[0] in ("LOAD_CONST", "LOAD_FAST", "LOAD_FAST_BORROW")
            and names[1] == "BINARY_SUBSCR"
        )

    def _named(self, at: int, name: str) -> None:
        """A name may be one of those that read by text."""
        self.fills |= name in _FILL
        if name in _NAMED:
            found = _argument(self.steps, at, _NAMED[name])
            self.every |= found is None
            names = set(self.text if found is None else _NAME.findall(found))
            self.attributes |= names
            self.looked_at |= names
            self.tested |= names if found is not None else set()
        elif name in _RUN:
            found = _argument(self.steps, at, _RUN[name])
            self.everywhere |= found is None
            names = set(self.text if found is None else _NAME.findall(found))
            self.globals |= names
            self.attributes |= names
            self.looked_at |= names
        elif name in _WHOLE:
            if _is_held(self.steps, at):
                return
            self.every = self.whole = True
            self.attributes.update(self.text)
            self.looked_at.update(self.text)
        elif name in _KEYED:
            key = _key(self.steps, _after_call(self.steps, at))
            self.everywhere |= key is None
            self.globals |= {key} if key is not None else set()
            self.looked_at |= {key} if key is not None else set()
        elif name == "modules":
            self.imports |= {(0, c) for c in _texts(self.steps)}
        elif name in _ENVIRONMENT or name in _ASKED:
            environ = name in _ENVIRONMENT
            key = _key(self.steps, at + 1) if environ else _argument(self.steps, at, _ASKED[name])
            self.environment |= key is None
            self.variables |= {key} if key is not None else set()
        if name in ("import_module", "__import__"):
            self.imports |= {(0, c) for c in _texts(self.steps)}


def _is_held(steps: Sequence[dis.Instruction], at: int) -> bool:
    """Whether a name that a function of Python's has, `fields` or `dir`, is plainly that of what
    an object holds: it is put there; or one looks up a key in it, or asks it for a method; or it
    is an attribute of a variable, and not called."""
    step, after = steps[at], steps[at + 1 : at + 3]
    if step.argval == "__dict__" or step.opname not in _ATTRIBUTES:
        return False
    if step.opname in ("STORE_ATTR", "DELETE_ATTR"):
        return True
    names = [s.opname for s in after]
    if names[0] in ("LOAD_ATTR", "LOAD_METHOD"):
        return not after[0].argval.startswith("__")
    if names[-1] in ("BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR"):
        return names[0] in ("LOAD_CONST", "LOAD_FAST")
    return not _is_called(steps, at) and _is_of_variable(steps, at)


def _is_called(steps: Sequence[dis.Instruction], at: int) -> bool:
    """Whether an attribute is loaded for a call; how differs with the version of Python."""
    is_method = steps[at].opname != "LOAD_ATTR" or (
        sys.version_info >= (3, 12) and bool((steps[at].arg or 0) & 1)
    )
    beside = steps[at + 1 : at + 2] if _NULL_AFTER else steps[:at][-2:]
    return is_method or "PUSH_NULL" in [s.opname for s in beside]


def _is_of_variable(steps: Sequence[dis.Instruction], at: int) -> bool:
    """Whether it is an attribute, or one of an attribute, of a variable that no import has set."""
    while steps[at].opname == "LOAD_ATTR":
        at -= 1
    return steps[at].opname in _OWN and all(s.opname != "IMPORT_NAME" for s in steps)


def _compared(steps: Sequence[dis.Instruction]) -> Iterator[tuple[str, ...]]:
    """What each `is` compares with: a name that is not the function's own (empty, if it is), and
    attributes; nothing where it is anything else. A constant of the code is no argument, and does
    not count. `in` and `==` compare what is in a list like that before they look at numbers: a NaN
    equals itself."""
    for before, step in enumerate(steps[1:]):
        loaded = steps[before].opname
        if step.opname == "IS_OP" and loaded != "LOAD_CONST":
            yield _path(steps, before)
        elif step.opname in ("CONTAINS_OP", "COMPARE_OP") and loaded in _MADE:
            yield ()


def _path(steps: Sequence[dis.Instruction], at: int) -> tuple[str, ...]:
    """The name and the attributes of what a step loads. The name is empty where that is a local
    variable, or computed; then, without attributes, there is nothing."""
    attributes: list[str] = []
    while steps[at].opname == "LOAD_ATTR":
        attributes.insert(0, steps[at].argval)
        at -= 1
    if steps[at].opname in {"LOAD_GLOBAL", *_CELLS}:
        return steps[at].argval, *attributes
    return ("", *attributes) if attributes else ()


def _flags(steps: Sequence[dis.Instruction]) -> bool:
    """Whether it asks if something is True or False itself, as the pattern `case True` does, or if
    a comparison comes out as something else did."""
    return any(
        step.opname == "IS_OP"
        and any(
            isinstance(s.argval, bool) or s.opname == "COMPARE_OP"
            for s in steps[max(at - 2, 0) : at]
        )
        for at, step in enumerate(steps)
    )


def _names_of(constant: object) -> list[str]:
    """The names in a constant of code."""
    if isinstance(constant, str):
        return _NAME.findall(constant)
    if isinstance(constant, (tuple, frozenset)):
        return [name for c in constant for name in _names_of(c)]
    return []


def _texts(steps: Sequence[dis.Instruction]) -> list[str]:
    return [s.argval for s in steps if s.opname == "LOAD_CONST" and isinstance(s.argval, str)]


def _argument(steps: Sequence[dis.Instruction], at: int, which: int) -> str | None:
    """Argument number `which` of the call of what has just been loaded, if it is text in the code:
    what was pushed when so many arguments lay on the stack, and stayed until the call."""
    depth, found = 0, None
    if steps[at + 1].opname == "PUSH_NULL" and _NULL_AFTER and steps[at].opname != "LOAD_GLOBAL":
        at += 1
    for step in steps[at + 1 :]:
        if step.opname in _CALLS and depth == step.arg:
            return found
        if depth < 0 or "JUMP" in step.opname or "RETURN" in step.opname:
            return None
        before, depth = depth, depth + dis.stack_effect(step.opcode, step.arg, jump=False)
        if depth <= which + 1:
            is_text = step.opname == "LOAD_CONST" and isinstance(step.argval, str)
            found = step.argval if is_text and before == which else None
    return None


def _after_call(steps: Sequence[dis.Instruction], at: int) -> int:
    """What comes after a call without arguments of what has just been loaded."""
    at += 1
    while (
        at < len(steps)
        and steps[at].opname in ("PUSH_NULL", "PRECALL", "CALL")
        and not steps[at].arg
    ):
        at += 1
    return at


def _key(steps: Sequence[dis.Instruction], at: int) -> str | None:
    """The key, if it is text in the code, by which what was loaded before `at` is asked."""
    here = [(s.opname, s.argval) for s in steps[at : at + 2]]
    if len(here) < 2:
        return None
    (first, name), (second, key) = here
    if first == "LOAD_CONST" and second in ("BINARY_SUBSCR", "BINARY_OP"):
        return name if isinstance(name, str) else None
    if first in ("LOAD_ATTR", "LOAD_METHOD") and name in _FIND and second == "LOAD_CONST":
        return key if isinstance(key, str) else None
    return None


def names_of(tool: Any) -> Names | None:
    """What a tool of Python's may read by text, wherever it was kept and whatever it goes by there;
    None of anything else."""
    name = getattr(tool, "__name__", "")
    if getattr(tool, "__module__", "") not in _TOOLS or name not in _BY_TEXT:
        return None
    reads = name in _NAMED or name in _WHOLE
    return Names(
        every=reads,
        whole=reads,
        environment=name in _ASKED,
        fills=name in _FILL,
        compares=name in _SAME,
        flags=name in _ARE,
    )


def names_given(x: Any) -> set[str]:
    """The names that an `operator.attrgetter` or `methodcaller` was given."""
    given: Any = x.__reduce__()[1]
    return {name for text in given if isinstance(text, str) for name in text.split(".")}
