"""The name of the call that a frame is executing: `numpy.array`, `scipy.stats.zscore`,
`pandas.Series.__mul__`.

It is read off the bytecode, whose positions say where the called expression begins, and the frame's
variables; nothing of the user's code runs. Only error messages ask, as it takes a millisecond.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import sys
import types
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from tracker.support.frames.holders import Place
from tracker.support.frames.stored_into import STORES, UNKNOWN, member, stored_into, variable


class Call(NamedTuple):
    """What a frame is executing.

    text    its name; "" if that is the name of what is called, which `name` looks up
    path    the dotted name in the code, and the objects that its parts stand for
    target  the array that it stores into
    place   that holds the target, unless a local variable does
    """

    text: str
    path: Sequence[str] = ()
    objects: Sequence[Any] = ()
    target: Any = None
    place: Place | None = None

    @property
    def name(self) -> str:
        return self.text or (_call_name(self.path, self.objects) if self.path else "")


STORING = ("__setitem__", "fill", "put", "setfield")  # methods of arrays


def running_call(frame: FrameType, libraries: Sequence[FrameType] = ()) -> Call:
    """The call that a frame is executing, in which the frames of `libraries` run, outermost
    first."""
    operation, operator, path = _running_operation(frame.f_code, frame.f_lasti)
    objects, text, target, place = _resolved(path, frame), "", None, None
    if operation in STORES:
        text, target, place = stored_into(frame)
        text = f"{text or '.'.join(path) or 'x'}[...] = t"
    elif operation == "BINARY_OP" and operator.endswith("="):
        text = f"{'.'.join(path) or 'x'} {operator} t"
    elif operation.startswith(("CALL", "PRECALL")):  # the latter in Python 3.11
        if objects[-1] is not UNKNOWN and callable(objects[-1]):
            owner = objects[-2] if path[-1] in STORING and len(path) > 1 else None
            return Call("", path, objects, owner if isinstance(owner, np.ndarray) else None)
        text = ".".join(path)
    if isinstance(target, np.ndarray):
        return Call(text, target=target, place=place)
    return Call(_library_name(libraries) or text)


@functools.lru_cache(maxsize=1024)
def _running_operation(code: CodeType, offset: int) -> tuple[str, str, Sequence[str]]:
    """What a frame of this code executes at an offset: the name of the instruction, its operator,
    and the dotted name with which its expression begins: of `np.add.at(x, i, t)`, ["np", "add",
    "at"]. That is empty if the expression begins with no name."""
    steps = list(dis.get_instructions(code))
    # a frame that has called Python code stands at the end of the call's inline caches
    at = sum(step.offset <= offset for step in steps) - 1
    whole = steps[at].positions
    path: list[str] = []
    for step, following in itertools.pairwise(steps[: at + 1]):
        stores_first = step.opname == "STORE_FAST_LOAD_FAST"  # whose position is the store's
        if not _begins((following if stores_first else step).positions, whole):
            continue
        if stores_first:
            path = [step.argval[1]]
        elif step.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
            path = [*(path or ["(...)"]), step.argval]
        elif step.opname.startswith("LOAD_") and step.opname != "LOAD_CONST":
            path = [step.argval[0] if isinstance(step.argval, tuple) else step.argval]
        elif path and step.opname.startswith("CALL"):
            path[-1] += "(...)"
        elif path and step.opname.startswith("BINARY_"):
            path[-1] += "[...]"
    return steps[at].opname, steps[at].argrepr, path


def _begins(part: dis.Positions | None, whole: dis.Positions | None) -> bool:
    """Whether an expression is a longer one's beginning."""
    if part is None or whole is None or part.col_offset is None or whole.col_offset is None:
        return False
    same_start = part[:1] + part[2:3] == whole[:1] + whole[2:3]
    return same_start and (part.end_lineno, part.end_col_offset) < (
        whole.end_lineno,
        whole.end_col_offset,
    )


def _resolved(path: Sequence[str], frame: FrameType) -> list[Any]:
    """What the parts of a dotted name stand for in a frame."""
    found = [variable(path[0], frame) if path else UNKNOWN]
    for name in path[1:]:
        found.append(UNKNOWN if found[-1] is UNKNOWN else member(found[-1], name))
    return found


def _call_name(path: Sequence[str], objects: Sequence[Any]) -> str:
    """The public name of what is called by a dotted name."""
    called, own = objects[-1], _public(objects[-1])
    qualified = getattr(called, "__qualname__", "")  # ufuncs of NumPy 2.1 have none
    if len(path) == 1 or (own and "." not in qualified):
        return own or public_name(type(called))
    owner = objects[-2]
    if isinstance(owner, types.ModuleType):
        return f"{owner.__name__}.{path[-1]}"
    if isinstance(owner, type):
        return own
    # an object that a module has: a ufunc, a distribution
    holder = _public(owner) or _name_in_module(owner, type(owner).__module__, path[-2])
    return f"{holder or public_name(type(owner))}.{path[-1]}"


def _public(x: Any) -> str:
    """The public name of a function or class; "" of any other object."""
    if isinstance(x, np.ufunc):
        where = "numpy" if getattr(np, x.__name__, None) == x else "scipy.special"
        return f"{where}.{x.__name__}"
    if not callable(x) or not isinstance(getattr(x, "__qualname__", None), str):
        return ""
    name = public_name(x)
    original = getattr(x, "__wrapped__", None)  # of a drop-in
    return public_name(original) if name.startswith("tracker.") and original is not None else name


def public_name(x: Any) -> str:
    """The shortest name under which a function or class can be imported: `pandas.Series`."""
    module, name = getattr(x, "__module__", None) or "", x.__qualname__
    if module in ("builtins", ""):
        return str(name)
    return _name_in_module(x, module, name) or f"{module}.{name}"


def _name_in_module(x: Any, module: str, name: str) -> str:
    """The shortest name of an object called `name` in a module or the packages around it; "" if it
    is not there."""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        package = sys.modules.get(".".join(parts[:count]))
        found = None if package is None else _within(package, name)
        is_same = found == x if isinstance(found, types.BuiltinMethodType) else found is x
        if found is not None and is_same:  # bound methods are made anew
            return f"{'.'.join(parts[:count])}.{name}"
    return ""


def _within(package: types.ModuleType, name: str) -> Any:
    found: Any = package
    for part in name.split("."):
        if isinstance(found, type):
            found = getattr(found, part, None)
        else:
            found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return found


def _library_name(frames: Sequence[FrameType]) -> str:
    """The name of the outermost function of libraries that is no wrapper of another one."""
    for frame in frames:
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        if code.co_qualname.startswith("<") or "<locals>" in code.co_qualname:
            continue
        owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if owner is not None and _defines(type(owner), code):
            name = f"{public_name(type(owner))}.{code.co_name}"
            return name.removesuffix(".__init__").removesuffix(".__call__")
        function = _within(sys.modules.get(module, np), code.co_qualname)
        return public_name(function) if callable(function) else f"{module}.{code.co_qualname}"
    return ""


def _defines(cls: type, code: CodeType) -> bool:
    """Whether a method of a class has this code, or wraps what has."""
    method = inspect.getattr_static(cls, code.co_name, None)
    return getattr(inspect.unwrap(method), "__code__", None) is code if callable(method) else False
