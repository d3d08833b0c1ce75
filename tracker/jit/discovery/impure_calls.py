"""Calls whose answer may be another each time: the clock, files, processes, databases, C libraries.

What such a call answers would be a constant of the trace, so there is no trace of a function that
makes one. Which calls are pure is known (`purity_table.py`); every other counts.

Owns: `Asking`, which watches a traced run for such calls in C, by the user's code and by libraries;
`Unproven`, which `discovery.py` tells what code can reach, and which says whether a run must be
watched at all: most of what people write is proven pure beforehand, and a trace that is watched
takes three times as long. What Python's profiling hook does not show (a call of an object that is
written in C, or of a class) is refused by `Unproven`, by name.

Where somebody else profiles this thread, nobody can watch: see `is_taken`. Start at `Asking`.
"""

from __future__ import annotations

import dis
import itertools
import sys
import types
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from tracker.errors import is_internal, message
from tracker.jit.discovery.bytecode import Names
from tracker.jit.discovery.purity_table import (
    METHODS,
    REFLECTIVE,
    SEEDED,
    Pure,
    asks_for_itself,
    is_pure,
    is_pure_code,
    name_of_builtin,
    name_of_class,
    name_of_frame,
)
from tracker.jit.discovery.user_code import OURS, is_library, is_library_code
from tracker.jit.guards.class_guard import is_in_c
from tracker.support.instances import is_library_file

TAKEN = "another profile function is set (sys.setprofile), and its calls must be watched"
_PUBLIC = ("builtins", "os", "os.path", "threading", "numpy")  # modules by which people call C's
_FUNCTION = types.FunctionType
_C_FUNCTIONS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)
_WATCHED = METHODS | REFLECTIVE | SEEDED
_DYNAMIC = frozenset({"getattr", "attrgetter", "methodcaller", "import_module", "__import__"})


def is_taken() -> bool:
    """Whether somebody else profiles this thread."""
    return sys.getprofile() is not None and not isinstance(_watcher(), Asking)


def _watcher() -> Any:
    return getattr(sys.getprofile(), "__self__", None)


class Asking:
    """While a function that `caller` calls runs: `tell` is told, once, what it calls that is not
    known to be pure."""

    def __init__(self, tell: Callable[[str], None], pure: Pure, caller: FrameType) -> None:
        self._tell = tell
        self._pure = pure
        self._root: FrameType | None = caller
        self._builtins: dict[tuple[Any, str], bool] = {}

    def __enter__(self) -> Asking:
        self._outer = sys.getprofile()
        if is_taken():
            self._tell(message(TAKEN, "Call it once while nobody profiles", ""))
        else:
            sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        if not is_taken():
            sys.setprofile(self._outer)
        self._root = None  # which holds what the run made

    def _look(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            owner = called.__self__
            kind = owner if isinstance(owner, (type, types.ModuleType)) else type(owner)
            known = self._builtins.get((kind, called.__name__))
            if known is None:
                known = is_pure(name_of_builtin(called)) is True or self._pure.vouches(called)
                self._builtins[kind, called.__name__] = known
            if not known and not self._is_excused(frame):
                self._found(name_of_builtin(called), frame)
        elif event == "call" and is_pure_code(frame) is False:
            caller = frame.f_back
            if caller is not None and not self._is_excused(caller) and not self._is_excused(frame):
                self._found(name_of_frame(frame), caller)

    def _is_excused(self, frame: FrameType) -> bool:
        """Whether what is called from here is no business of the function's: the innermost code is
        known, or somebody further out asks for its own purposes, or is vouched for."""
        if is_pure_code(frame):
            return True
        at: FrameType | None = frame
        while at is not None and at is not self._root:
            if asks_for_itself(at) or self._pure.vouches_code(at):
                return True
            at = at.f_back
        return False

    def _found(self, name: str, frame: FrameType) -> None:
        sys.setprofile(None)
        callee, user = name, frame
        while user.f_back is not None and not _is_users(user):
            name_of_user = name_of_frame(user)
            callee = callee if name_of_user.startswith(OURS[0] + ".") else name_of_user
            user = user.f_back
        callee, name = _public(callee), _public(name)
        self._tell(
            unknown(
                f"it calls {callee}" + (f" (which calls {name})" if callee != name else ""),
                callee,
                f"{user.f_code.co_filename}:{user.f_lineno}",
            )
        )


def unknown(what: str, callee: str, where: str) -> str:
    """That a call is not known to be pure, and what to do about it."""
    return message(
        f"{what}, whose answer may be another at each call",
        "Ask before the call, and pass the answer as an argument; if it depends on its arguments "
        f"alone, say so: jit(pure=[{callee}])",
        where,
    )


def _public(name: str) -> str:
    """The name by which people call what has this one (`posix.stat`: `os.stat`)."""
    name = name.partition(".<locals>")[0].removesuffix(".__init__").removesuffix(".__new__")
    module, _, function = name.rpartition(".")
    own = getattr(sys.modules.get(module), function, None)
    shown = function.lstrip("_")
    if shown != function and isinstance(getattr(sys.modules.get(module), shown, None), _FUNCTION):
        return f"{module}.{shown}"
    for public in (*_PUBLIC, module.lstrip("_")):
        if own is not None and getattr(sys.modules.get(public), function, None) is own:
            return f"{public}.{function}".removeprefix("builtins.")
    return name


def _is_users(frame: FrameType) -> bool:
    """Whether the user's code runs there. (What `python -c` runs has the name of no file.)"""
    code = frame.f_code
    if is_internal(code):
        return False
    return frame.f_globals.get("__name__") == "__main__" or not is_library_file(code.co_filename)


# Before a run ------------------------------------------------------------------------------------


class Unproven:
    """What code can reach that is not known to be pure. `watch`: whether a run must be watched.

    `codes` are those that were read; what is met after `end` is what the user vouches for."""

    def __init__(self, package: str, pure: Pure) -> None:
        self.watch = False
        self.codes: list[CodeType] = []
        self._package = package
        self._pure = pure
        self._ended = False
        self._unseen: dict[str, str] = {}  # objects: the name by which they are called -> what
        self._classes: dict[str, str] = {}
        self._kinds: dict[type, tuple[bool, bool]] = {}

    def vouches(self, x: Any) -> bool:
        return not self._ended and self._pure.vouches(x)

    def end(self) -> None:
        self._ended = True

    def note_code(self, code: CodeType, names: Names) -> None:
        """Code that may run, and what it mentions."""
        if self._ended:
            return
        self.codes.append(code)
        said = names.globals | names.attributes
        self.watch |= not said.isdisjoint(_WATCHED) or (
            names.every and not said.isdisjoint(_DYNAMIC)
        )

    def note(self, x: Any, name: str = "") -> None:
        """Something that code gets hold of, under this name if it says one."""
        if self._ended or self._pure.vouches(x):
            return
        pure, seen = self._judged(x)
        self.watch |= not pure
        if not seen and isinstance(x, type):
            self._classes.setdefault(name or x.__name__, name_of_class(x))
        elif not seen:
            called = _named(x)
            what = f"reads {called}" if called else f"reads a {name_of_class(type(x))}"
            self._unseen.setdefault(name, f"{what} ({name})" if name else what)

    @property
    def refused(self) -> str:
        """Why there can be no trace, if so: it calls what nobody sees being called."""
        made = (
            (name, f"makes a {what}", what)
            for name, what in self._classes.items()
            if any(_makes(code, name) for code in self.codes)
        )
        read = ((name, what, name or "f") for name, what in self._unseen.items())
        found = next(itertools.chain(read, made), None)
        if found is None:
            return ""
        lines = (line for code in self.codes if (line := _line_of(code, found[0])))
        return unknown(f"it {found[1]}", found[2], next(lines, ""))

    def _judged(self, x: Any) -> tuple[bool, bool]:
        """Whether it is known to be pure; whether its calls are seen by a profile function."""
        cls = type(x)
        if issubclass(cls, types.ModuleType):
            is_users = not is_library(x, self._package) and _is_python(x)
            return is_users or is_pure(x.__name__) is True, True
        if issubclass(cls, type):
            pure, _ = self._class(x)
            return pure, pure or not _is_hidden(x)
        if cls is types.FunctionType:
            name = f"{x.__globals__.get('__name__')}.{x.__qualname__}"
            generated = x.__code__.co_filename == "<string>"  # by `dataclasses`, `namedtuple`
            users = generated or not is_library_code(x, self._package)
            return users or is_pure(name) is True, True
        if cls in _C_FUNCTIONS:
            return is_pure(name_of_builtin(x)) is True, True
        pure, seen = self._class(cls)
        if not seen and (name := _named(x)) and is_pure(name):
            return True, True  # a function that Cython compiled
        return pure, seen

    def _class(self, cls: type) -> tuple[bool, bool]:
        known = self._kinds.get(cls)
        if known is None:
            bases = [base for base in cls.__mro__ if is_pure(name_of_class(base)) is not True]
            hidden = list(filter(_is_hidden, bases))
            pure = all(self._is_users(base) for base in bases) and not hidden
            known = self._kinds[cls] = pure, not hidden
        return known

    def _is_users(self, cls: type) -> bool:
        return not is_library(sys.modules.get(cls.__module__), self._package)


def _is_python(module: types.ModuleType) -> bool:
    return (vars(module).get("__file__") or ".py").endswith((".py", ".pyc"))


def _named(x: Any) -> str:
    """The dotted name of a function that is an object of a class in C; "" of anything else."""
    module, name = getattr(x, "__module__", None), getattr(x, "__qualname__", None)
    return f"{module}.{name}" if isinstance(module, str) and isinstance(name, str) else ""


def _is_hidden(cls: type) -> bool:
    """Whether nobody sees all calls of what a class in C has: of files all are of methods."""
    return cls.__module__ != "_io" and is_in_c(cls)


def _makes(code: CodeType, name: str) -> bool:
    """Whether code may call what it has under a name: not if it only asks what is of this class."""
    steps = list(dis.get_instructions(code))
    named = [step for step in steps if step.argval == name and step.opname.startswith("LOAD")]
    direct = any(step.opname == "LOAD_METHOD" or _before_call(step) for step in named)
    asks = {"isinstance", "issubclass"} & set(code.co_names)
    catches = any(step.opname == "CHECK_EXC_MATCH" for step in steps)
    return (
        direct
        or bool(named and not asks and not catches)
        or any(_makes(c, name) for c in code.co_consts if isinstance(c, CodeType))
    )


def _before_call(step: dis.Instruction) -> bool:
    methods = {"LOAD_GLOBAL", "LOAD_ATTR"} if sys.version_info >= (3, 12) else {"LOAD_GLOBAL"}
    return step.opname in methods and bool((step.arg or 0) & 1)


def _line_of(code: CodeType, name: str) -> str:
    """The `file:line` at which code first says a name; "" if it does not."""
    line = code.co_firstlineno
    for step in dis.get_instructions(code):
        line = (step.positions.lineno if step.positions else None) or line
        if step.argval == name:
            return f"{code.co_filename}:{line}"
    inner = (_line_of(c, name) for c in code.co_consts if isinstance(c, CodeType))
    return next(filter(None, inner), "")
