"""Impure calls: the clock, files, processes, databases, C libraries.

The result of such a call would be a constant of the trace, so a function that makes one is not
traced. `purity_table.py` lists what is known to be pure; every other call counts as impure.

`PurityCheck` decides before a run, from what the code can reach; most functions are proven pure
that way. Otherwise `ImpureCallMonitor` watches the traced run through Python's profiling hook,
which makes tracing three times slower. Calls that the hook does not report (of instances of C
classes, and of classes) are refused by `PurityCheck`, by name. If another profiler is active in
this thread, the run cannot be monitored: see `is_profiler_in_use`.
"""

from __future__ import annotations

import dis
import gc
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from tracker.errors import message
from tracker.jit.discovery.bytecode import Names, instructions, is_called
from tracker.jit.discovery.purity_table import (
    IMPURE_METHOD_NAMES,
    REFLECTIVE_NAMES,
    SEEDABLE_CLASSES,
    VouchedCallables,
    builtin_name,
    class_name,
    frame_name,
    impure_members,
    is_exempt,
    is_pure,
    is_pure_frame,
)
from tracker.jit.discovery.user_code import INTERNAL_PACKAGES, UserCode
from tracker.jit.guards.class_guard import is_c_class
from tracker.user_frames import is_internal, is_library_file

PROFILER_IN_USE = "another profile function is set (sys.setprofile), and its calls must be watched"
_PUBLIC_MODULES = ("builtins", "os", "os.path", "threading", "numpy")
_C_FUNCTIONS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)
_SUSPECT_NAMES = IMPURE_METHOD_NAMES | REFLECTIVE_NAMES | SEEDABLE_CLASSES
_DYNAMIC_LOOKUPS = frozenset(
    {"getattr", "attrgetter", "methodcaller", "import_module", "__import__"}
)


def is_profiler_in_use() -> bool:
    """Whether another profiler is active in this thread."""
    return sys.getprofile() is not None and not isinstance(_profiler_owner(), ImpureCallMonitor)


def _profiler_owner() -> Any:
    return getattr(sys.getprofile(), "__self__", None)


@contextmanager
def calls_unmonitored() -> Iterator[None]:
    """A context in which no call of user code is made, and nothing is monitored."""
    profiler = sys.getprofile() if isinstance(_profiler_owner(), ImpureCallMonitor) else None
    if profiler is not None:
        sys.setprofile(None)
    try:
        yield
    finally:
        if profiler is not None:
            sys.setprofile(profiler)


class ImpureCallMonitor:
    """Context that monitors a function called by the frame `caller`: the first call that is not
    known to be pure is reported as a message."""

    def __init__(
        self, report: Callable[[str], None], vouched: VouchedCallables, caller: FrameType
    ) -> None:
        self._report = report
        self._pure = vouched
        self._root: FrameType | None = caller
        self._purity_by_name: dict[tuple[Any, str], bool] = {}

    def __enter__(self) -> ImpureCallMonitor:
        self._outer_profiler = sys.getprofile()
        if is_profiler_in_use():
            self._report(message(PROFILER_IN_USE, "Call it once without a profiler", ""))
        else:
            sys.setprofile(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        if not is_profiler_in_use():
            sys.setprofile(self._outer_profiler)
        self._root = None  # frees the values of the run

    def _on_event(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            owner = called.__self__
            kind = owner if isinstance(owner, (type, types.ModuleType)) else type(owner)
            known = self._purity_by_name.get((kind, called.__name__))
            if known is None:
                known = is_pure(builtin_name(called)) is True or self._pure.covers(called)
                self._purity_by_name[kind, called.__name__] = known
            if not known and (_is_drop_in(frame) or not self._is_exempt(frame)):
                self._report_call(builtin_name(called), frame)
        elif event == "call" and is_pure_frame(frame) is False:
            caller = frame.f_back
            vouched = self._pure.covers_frame(frame)
            if caller is not None and not vouched and not self._is_exempt(caller):
                self._report_call(frame_name(frame), caller)

    def _is_exempt(self, frame: FrameType) -> bool:
        """Whether a call from this frame does not count: the innermost code is known to be pure, or
        a caller further out is exempt or vouched for. (What a generator of an exempt package
        resumes is the user's iterator.)"""
        if is_pure_frame(frame):
            return True
        at: FrameType | None = frame
        while at is not None and at is not self._root:
            exempt = is_exempt(at) and not at.f_code.co_flags & inspect.CO_GENERATOR
            if exempt or self._pure.covers_frame(at) or _is_gc_callback(at):
                return True
            at = at.f_back
        return False

    def _report_call(self, name: str, frame: FrameType) -> None:
        sys.setprofile(None)
        callee, user = name, frame
        while user.f_back is not None and not _is_user_frame(user):
            name_of_user = frame_name(user)
            callee = callee if name_of_user.startswith(INTERNAL_PACKAGES[0] + ".") else name_of_user
            user = user.f_back
        callee, name = _public_name(callee), _public_name(name)
        self._report(
            impure_call_message(
                f"it calls {callee}" + (f" (which calls {name})" if callee != name else ""),
                callee,
                f"{user.f_code.co_filename}:{user.f_lineno}",
            )
        )


def _is_drop_in(frame: FrameType) -> bool:
    """Whether a function of NumPy's is called by the one of ours that stands for it."""
    return frame.f_globals.get("__name__") == "tracker.numpy._trackable"


def _is_gc_callback(frame: FrameType) -> bool:
    """Whether the garbage collector has called this code, not the function that runs."""
    return any(getattr(f, "__code__", None) is frame.f_code for f in gc.callbacks)


def impure_call_message(what: str, callee: str, where: str) -> str:
    """The message that a call is not known to be pure, and what to do."""
    return message(
        f"{what}, whose result may differ at each call",
        "Call it before, and pass the result as an argument; if that depends on its arguments "
        f"alone, say so: jit(pure=[{callee}])",
        where,
    )


def _public_name(name: str) -> str:
    """The name by which users know a function (`os.stat` for `posix.stat`)."""
    name = name.partition(".<locals>")[0].removesuffix(".__init__").removesuffix(".__new__")
    module, _, function = name.rpartition(".")
    own = getattr(sys.modules.get(module), function, None)
    bare = function.lstrip("_")
    if bare != function and isinstance(
        getattr(sys.modules.get(module), bare, None), types.FunctionType
    ):
        return f"{module}.{bare}"
    for public in (*_PUBLIC_MODULES, module.lstrip("_")):
        if own is not None and getattr(sys.modules.get(public), function, None) is own:
            return f"{public}.{function}".removeprefix("builtins.")
    return name


def _is_user_frame(frame: FrameType) -> bool:
    """Whether a frame runs user code. (Code of `python -c` has no file name.)"""
    code = frame.f_code
    if is_internal(code):
        return False
    return frame.f_globals.get("__name__") == "__main__" or not is_library_file(code.co_filename)


# Before a run ------------------------------------------------------------------------------------


class PurityCheck:
    """What code can reach that is not known to be pure. `needs_monitor`: whether a run must be
    monitored.

    `codes` are the code objects seen. Whatever is added after `close` is vouched for.
    """

    def __init__(self, user_code: UserCode, vouched: VouchedCallables) -> None:
        self.needs_monitor = False
        self.codes: list[CodeType] = []
        self._user_code = user_code
        self._pure = vouched
        self._is_closed = False
        self._unobservable: dict[str, str] = {}  # name in the code -> description
        self._impure_members: dict[str, frozenset[str]] = {}  # of the object with this name
        self._attributes: set[str] = set()  # that code names
        self._instantiated: dict[str, str] = {}
        self._class_purity: dict[type, tuple[bool, bool]] = {}

    def vouches(self, x: Any) -> bool:
        return not self._is_closed and self._pure.covers(x)

    def close(self) -> None:
        self._is_closed = True

    def add_code(self, code: CodeType, names: Names) -> None:
        """Add code that may run, and its names."""
        if self._is_closed:
            return
        self.codes.append(code)
        self._attributes |= names.attributes
        said = names.globals | names.attributes
        self.needs_monitor |= not said.isdisjoint(_SUSPECT_NAMES) or (
            names.reads_any_attribute and not said.isdisjoint(_DYNAMIC_LOOKUPS)
        )

    def add(self, x: Any, name: str = "") -> None:
        """Add an object that code can reach, under this name if the code has one for it."""
        if self._is_closed or self._pure.covers(x):
            return
        members = impure_members(type(x))
        if members is not None:
            self._impure_members[name] = members
            return
        pure, seen = self._purity(x)
        self.needs_monitor |= not pure
        if not seen and isinstance(x, type):
            self._instantiated.setdefault(name or x.__name__, class_name(x))
        elif not seen:
            called = _dotted_name(x)
            what = f"reads {called}" if called else f"reads a {class_name(type(x))}"
            self._unobservable.setdefault(name, f"{what} ({name})" if name else what)

    @property
    def refusal(self) -> str:
        """Why the function cannot be traced: it makes a call that the monitor would not see; ""
        otherwise."""
        made = (
            (name, f"makes a {what}", what)
            for name, what in self._instantiated.items()
            if any(_may_instantiate(code, name) for code in self.codes)
        )
        read = ((name, what, name or "f") for name, what in self._unobservable.items())
        members = (
            (member, f"names {name or 'f'}.{member}", f"{name or 'f'}.{member}")
            for name, theirs in self._impure_members.items()
            for member in sorted(theirs & self._attributes)
        )
        found = next(itertools.chain(read, made, members), None)
        if found is None:
            return ""
        lines = (line for code in self.codes if (line := _line_of(code, found[0])))
        return impure_call_message(f"it {found[1]}", found[2], next(lines, ""))

    def _purity(self, x: Any) -> tuple[bool, bool]:
        """Whether an object is known to be pure; whether the monitor sees its calls."""
        cls = type(x)
        if issubclass(cls, types.ModuleType):
            in_python = (vars(x).get("__file__") or ".py").endswith((".py", ".pyc"))
            is_users = in_python and self._user_code.has_module(x)
            return is_users or is_pure(x.__name__) is True, True
        if issubclass(cls, type):
            pure, _ = self._purity_of_class(x)
            return pure, pure or not _hides_calls(x)
        if cls is types.FunctionType:
            name = f"{x.__globals__.get('__name__')}.{x.__qualname__}"
            generated = x.__code__.co_filename == "<string>"  # dataclass, namedtuple
            users = generated or self._user_code.has_function(x)
            return users or is_pure(name) is True, True
        if cls in _C_FUNCTIONS:
            return is_pure(builtin_name(x)) is True, True
        pure, seen = self._purity_of_class(cls)
        if not seen and (name := _dotted_name(x)) and is_pure(name):
            return True, True  # a function that Cython compiled
        return pure, seen

    def _purity_of_class(self, cls: type) -> tuple[bool, bool]:
        known = self._class_purity.get(cls)
        if known is None:
            bases = [base for base in cls.__mro__ if is_pure(class_name(base)) is not True]
            hidden = list(filter(_hides_calls, bases))
            pure = all(map(self._user_code.has_class, bases)) and not hidden
            known = self._class_purity[cls] = pure, not hidden
        return known


def _dotted_name(x: Any) -> str:
    """The dotted name of a function that is an instance of a C class; "" for anything else."""
    module, name = getattr(x, "__module__", None), getattr(x, "__qualname__", None)
    return f"{module}.{name}" if isinstance(module, str) and isinstance(name, str) else ""


def _hides_calls(cls: type) -> bool:
    """Whether the profiling hook does not report all calls of a C class. (Of files, all calls are
    methods.)"""
    return cls.__module__ != "_io" and is_c_class(cls)


def _may_instantiate(code: CodeType, name: str) -> bool:
    """Whether code may call the class it has under a name, not only test instances of it."""
    steps = instructions(code)
    named = [at for at, s in enumerate(steps) if s.argval == name and s.opname.startswith("LOAD")]
    tests = {"isinstance", "issubclass"} & set(code.co_names)
    catches = any(step.opname == "CHECK_EXC_MATCH" for step in steps)
    return (
        any(is_called(steps, at) for at in named)
        or bool(named and not tests and not catches)
        or any(_may_instantiate(c, name) for c in code.co_consts if isinstance(c, CodeType))
    )


def _line_of(code: CodeType, name: str) -> str:
    """The `file:line` at which code first uses a name; "" if it does not."""
    line = code.co_firstlineno
    for step in dis.get_instructions(code):
        line = (step.positions.lineno if step.positions else None) or line
        if step.argval == name:
            return f"{code.co_filename}:{line}"
    inner = (_line_of(c, name) for c in code.co_consts if isinstance(c, CodeType))
    return next(filter(None, inner), "")
