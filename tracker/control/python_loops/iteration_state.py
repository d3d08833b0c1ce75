"""What an iteration of a loop can read and change besides the numbers that it computes.

`IterationState.before` looks at everything that the names in the loop lead to: numbers, arrays,
text, and lists, tuples and dicts of these; NumPy's, `math`'s and Python's pure functions; user
functions, whose code is read like the loop's (`loop_code.py`); and the attributes and methods that
this code names of objects of the user's classes. What leads elsewhere may change what is not
compared, and there is no state. `is_unchanged` and `written` compare after the iteration.

Invariant: if the state is unchanged but for the values of tracked arrays, the next iteration runs
like this one.
"""

from __future__ import annotations

import abc
import builtins
import dataclasses
import enum
import functools
import itertools
import math
import operator
import types
from collections import Counter, namedtuple
from collections.abc import Container, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np

from tracker import tree
from tracker.control.python_loops.loop_code import CodeNames, LoopCode, function_code
from tracker.control.python_loops.places import (
    MAPPINGS,
    MISSING,
    SEQUENCES,
    are_same,
    own_attribute,
)
from tracker.ir.op import NUMPY, UFUNCS
from tracker.jit.tracing import BUILTIN_SHIMS, elements_of
from tracker.rebinding import original_of
from tracker.support.frames.cpython import frame_locals
from tracker.support.frames.value_stack import on_stack
from tracker.support.instances import (
    cell_contents,
    class_attribute,
    instance_dict,
    is_library_class,
    is_namespace_class,
    is_user_class,
)
from tracker.support.structs import field, record
from tracker.tape.record import value_of
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value

# Shims that tell nothing of what a symbolic number really is.
_SHIM_NAMES = "isinstance range zip enumerate reversed map list tuple sum min max print"
_SHIMS = [BUILTIN_SHIMS[name] for name in _SHIM_NAMES.split()]
_DROP_INS = "tracker.numpy."
_PURE_MODULES = ("tracker.scipy.special", "tracker.scipy.linalg", "tracker.scipy.fft")
_MAX_OBJECTS = 2000
_MAX_BYTES = 1 << 22  # of plain arrays that are compared
_NUMBERS = (bool, int, float, complex, np.generic)
_TEXT = (str, bytes, type(None), slice, range, type(Ellipsis), np.dtype)
_BUILTIN_NAMES = (
    "abs all any bool complex dict divmod enumerate filter float frozenset int iter len list map "
    "max min next pow range reversed round set slice sorted sum tuple zip"
)
_OPERATOR_NAMES = (
    "abs add contains countOf eq floordiv ge getitem gt index inv itemgetter le lt matmul mod mul "
    "ne neg not_ pos pow sub truediv truth xor"
)
_NUMPY_NAMES = (
    "arange array asarray asanyarray ascontiguousarray atleast_1d atleast_2d empty empty_like eye "
    "finfo float32 float64 full full_like identity int32 int64 iinfo linspace logspace ones "
    "ones_like tri zeros zeros_like"
)
_ATTRIBUTE_NAMES = (
    "T accumulate all any append argmax argmin argsort astype clear clip conj conjugate copy "
    "count cumprod cumsum diagonal dot dtype extend flatten get imag index insert itemsize items "
    "keys max mean min mT nbytes ndim outer pop popitem prod ravel real reduce remove repeat "
    "reshape reverse round setdefault shape size squeeze std strides sum swapaxes take trace "
    "transpose update values var"
)
_NUMPY_NAMES_OF_GROWING = (
    "all amax amin any arange copy dot empty empty_like eye flip float32 float64 identity inner "
    "int32 int64 matmul max mean min ones ones_like outer prod std sum transpose var where zeros "
    "zeros_like"
)
_CONTAINERS = (tuple, set, frozenset, *SEQUENCES, *MAPPINGS)
_BUILTINS = frozenset(
    (
        *(getattr(builtins, name) for name in _BUILTIN_NAMES.split()),
        *(getattr(operator, name) for name in _OPERATOR_NAMES.split()),
        *(x for x in vars(itertools).values() if isinstance(x, type)),
        functools.reduce,
    )
)
_NUMPY = frozenset(getattr(np, name) for name in _NUMPY_NAMES.split())
_NUMPY_OF_GROWING = frozenset(
    (*(getattr(np, name) for name in _NUMPY_NAMES_OF_GROWING.split()), np.linalg.norm)
)
_ATTRIBUTE_NAMES_OF_GROWING = (
    "T all any copy dot dtype max mean min ndim prod shape size std sum transpose var"
)
_ATTRIBUTES_OF_GROWING = frozenset(_ATTRIBUTE_NAMES_OF_GROWING.split())
_WRITING = frozenset(("copyto", "put", "place", "putmask", "put_along_axis", "fill_diagonal"))
_ATTRIBUTES = frozenset(_ATTRIBUTE_NAMES.split())
_UNKNOWN = object()  # what a method or a property gives
# Attributes of objects that are no instances of user classes, and methods that no name calls.
_BUILTIN_ATTRIBUTES = frozenset[str]().union(
    *(dir(cls) for cls in (np.ndarray, np.float64, np.ufunc, Tracked, list, tuple, dict)),
    *(dir(cls) for cls in (types.FunctionType, types.ModuleType, type)),
)
_ARRAY_ATTRIBUTES = frozenset((*dir(np.ndarray), *dir(Tracked)))
_NAMED_METHODS = frozenset(
    f"__{name}__"
    for name in (
        *("init", "new", "post_init", "init_subclass", "class_getitem", "replace", "copy"),
        *("deepcopy", "getstate", "setstate", "reduce", "getnewargs", "repr", "str"),
        *("format", "hash", "dir"),
    )
)
_OF_OBJECT = (object.__init__, object.__new__)
_FIELDS = (types.MemberDescriptorType, type(namedtuple("_", "x").x))  # type: ignore[attr-defined]
_NAMES_IN_GENERATED = (
    *("__class__", "NotImplemented", "__post_init__", "_tuple_new", "type", "super"),
    *("__setattr__", "__delattr__"),
)


@record()
class IterationState:
    """What an iteration found.

    handles     the tracked arrays that it can reach, with their values
    slots       the id of each -> under how many names, or places in containers
    containers  lists and dicts, with their contents
    arrays      plain arrays, with copies
    appended    lists that are read by `x.append` alone, or that comprehensions make or generators
                fill, with their lengths
    places      objects of user classes and attributes of theirs that may be stored; `absent`: those
                that they have not; `others`: modules and functions, with what they have there
    reached     the ids of lists, dicts and objects of user classes
    over        the ids of the arrays and lists that the loop goes through
    may_grow    whether the extents of what slices give are asked for only in ways that are noticed
                (`SymbolicIteration.may_grow`)
    """

    handles: dict[int, tuple[Tracked, Value | None]] = field(default_factory=dict)
    slots: Counter[int] = field(default_factory=Counter)
    containers: dict[int, tuple[Any, tuple[Any, ...]]] = field(default_factory=dict)
    arrays: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    appended: dict[int, tuple[list[Any], int]] = field(default_factory=dict)
    places: list[tuple[Any, str]] = field(default_factory=list)
    absent: list[tuple[Any, str]] = field(default_factory=list)
    others: list[tuple[Any, str, Any]] = field(default_factory=list)
    reached: set[int] = field(default_factory=set)
    over: set[int] = field(default_factory=set)
    may_grow: bool = True

    @staticmethod
    def before(
        frame: FrameType, names: Mapping[str, Any], loop: LoopCode, over: Sequence[Any]
    ) -> IterationState | None:
        """The state before an iteration of a loop over these arrays and lists; None if it cannot be
        compared."""
        found = _Finder()
        reads = [each for each in loop.names.paths if each.name not in loop.bound]
        found.add_names(loop.names, reads, names, frame.f_globals, is_frame=True)
        found.add_data(names[name] for name in sorted(loop.carried) if name in names)
        # What writes into a plain array has another name for it, which is compared. Lists hold
        # numbers, or tuples of them.
        found.add_data(x for x in over if type(x) is Tracked)
        found.found.containers.update((id(x), (x, _contents(x))) for x in over if type(x) is list)
        found.found.over.update(map(id, over))
        for made in (*(on_stack(frame, slot) for slot in loop.lists), *_collected_by(frame, loop)):
            found.understood &= type(made) is list
            found.found.appended[id(made)] = made, len(made or ())
        return found.state() if found.understood else None

    def grown(self) -> list[tuple[list[Any], int]]:
        """The lists that were appended to, with their lengths from before."""
        return [(x, length) for x, length in self.appended.values() if len(x) > length]

    def is_unchanged(self, carried: Container[int]) -> bool:
        """Whether containers and plain arrays are what they were, but for what was appended and
        what is in `carried` containers, by id, and no attribute was stored but at the places."""
        changed = {id(x) for x in self.changed_containers()}
        if not self.over.isdisjoint(changed) or any(key not in carried for key in changed):
            return False
        if any(own_attribute(x, name) is not MISSING for x, name in self.absent):
            return False
        if any(vars(x).get(name, MISSING) is not was for x, name, was in self.others):
            return False
        return all(copy.tobytes() == array.tobytes() for array, copy in self.arrays.values())

    def changed_containers(self) -> list[Any]:
        """The lists and dicts that do not hold what they held."""
        return [x for x, was in self.containers.values() if not are_same(_contents(x), was)]

    def written(self) -> list[tuple[Tracked, Value]]:
        """The tracked arrays that have another value now, with that from before."""
        return [
            (handle, value)
            for handle, value in self.handles.values()
            if value is not None and handle._value is not value
        ]


def _collected_by(frame: FrameType, loop: LoopCode) -> list[Any]:
    """The list of what a generator has given, if its loop gives something; not a list if others
    than `elements_of` read it."""
    reader = frame.f_back
    if not loop.yields:
        return []
    if reader is None or reader.f_code is not elements_of.__code__:
        return [None]
    return [frame_locals(reader)["elements"]]


def _contents(x: Any) -> tuple[Any, ...]:
    return (*x.keys(), *x.values()) if type(x) in MAPPINGS else tuple(x)


class _Finder:
    """Collects what names lead to; `understood` is False once something may change unseen."""

    def __init__(self) -> None:
        self.understood = True
        self.stores = False
        self.left = _MAX_OBJECTS
        self.seen: set[int] = set()
        self.found = IterationState()
        self.plain: dict[int, Any] = {}
        self.functions: set[tuple[int, int]] = set()
        self.objects: list[Any] = []  # of user classes
        self.classes: list[type] = []  # of which code makes objects
        self.attributes: set[str] = set()  # names that are read from objects that are not known
        self.stored: set[str] = set()  # names that are stored
        self.known: set[tuple[int, str]] = set()  # attributes whose values have been added
        self.others: list[Any] = []  # modules and functions
        self.replaces = False  # whether code calls `dataclasses.replace`
        self.holders: list[Any] = []  # those of them that code may read attributes from by any name

    def state(self) -> IterationState | None:
        """What was found; plain arrays are compared only if something is stored."""
        if self.stored and not self._add_places():
            return None
        if self.stores:
            if sum(array.nbytes for array in self.plain.values()) > _MAX_BYTES:
                return None
            self.found.arrays = {key: (x, x.copy()) for key, x in self.plain.items()}
        self.found.reached.update(map(id, self.objects), self.found.containers)
        return self.found

    def _add_places(self) -> bool:
        """Add the attributes that are stored; returns whether all is understood."""
        found, done, count = self.found, set[tuple[int, str]](), -1
        while count < len(done):  # setters store more
            count = len(done)
            for x in [*self.objects, *self.classes]:
                for name in sorted(self.stored - {name for key, name in done if key == id(x)}):
                    done.add((id(x), name))
                    if isinstance(x, type):
                        self._add_setter(x, name)
                        continue
                    self._add_setter(type(x), name, x)
                    value = own_attribute(x, name)
                    (found.absent if value is MISSING else found.places).append((x, name))
                    if value is not MISSING:
                        self._add_value(x, name, value)
        for x in self.others:
            if hasattr(x, "__dict__"):
                found.others += [(x, name, vars(x).get(name, MISSING)) for name in self.stored]
        self.understood &= self.stored.isdisjoint(_ARRAY_ATTRIBUTES)
        return self.understood

    def _add_setter(self, cls: type, name: str, x: Any = MISSING) -> None:
        raw = class_attribute(cls, name, MISSING)
        if type(raw) is property:
            self.understood &= self._add_method(raw.fset, x)
        elif type(raw) not in _FIELDS:
            self.understood &= not hasattr(type(raw), "__set__")

    def _add_value(self, x: Any, name: str, value: Any) -> None:
        """Add what an object has under a name, once."""
        if (id(x), name) not in self.known:
            self.known.add((id(x), name))
            self._add(value, may_call=True)

    def add_names(
        self,
        names: CodeNames,
        paths: Iterable[Any],
        local: Mapping[str, Any],
        space: Mapping[str, Any],
        cells: Mapping[str, Any] | None = None,
        is_frame: bool = False,
    ) -> None:
        """Add what code names, given its globals, local names (`is_frame`: all), and cells."""
        self.stores |= names.stores
        self.stored |= names.stored
        self._read(names.attributes)
        for path in paths:
            if path.kind == "local" and not is_frame and path.name not in local:
                self._read(path.attributes)
                continue
            if path.kind == "global":
                x = space.get(path.name, getattr(builtins, path.name, MISSING))
            else:
                held = (cells if path.kind == "cell" else None) or local
                x = held.get(path.name, MISSING)
            self._add_path(x, path.attributes, is_captured=path.kind != "local")

    def _add_path(self, x: Any, attributes: tuple[str, ...], is_captured: bool) -> None:
        """Add what attributes of an object lead to, which are read one from another. A captured
        named tuple stays what it is: only the fields that are read count."""
        holder = None
        for at, name in enumerate(attributes):
            if isinstance(x, (types.ModuleType, enum.EnumMeta)) or _function_has(x, name):
                self.others.append(x)
                holder, x = None, getattr(x, name, MISSING)
            elif _is_object(x):
                holder, x = (x, name), self._attribute(x, name)
            elif is_captured and tree.is_namedtuple(type(x)) and name in type(x)._fields:
                holder, x = None, getattr(x, name)
            elif type(x) is list and attributes[at:] == ("append",):
                self.found.appended[id(x)] = x, len(x)
                return
            else:
                self._read(attributes[at:])
                self._add(x)
                return
            if x is _UNKNOWN:
                self._read(attributes[at + 1 :])
                return
        if x is MISSING:
            self.understood = False
        elif holder is None:
            self._add(x, may_call=True)
        else:
            self._add_value(*holder, x)

    def _read(self, attributes: Iterable[str]) -> None:
        """Add what attributes lead to that are read from objects that are not known."""
        for name in sorted(set(attributes) - self.attributes):
            self.attributes.add(name)
            if name in _BUILTIN_ATTRIBUTES:
                self.understood &= name in _ATTRIBUTES
                self.found.may_grow &= name in _ATTRIBUTES_OF_GROWING
            for x in list(self.objects):
                self._add_attribute(x, name)
            for cls in list(self.classes):
                self._add_class_attribute(cls, name)
            for x in list(self.holders):
                self._add_held(x, name)

    def _add_holder(self, x: Any) -> None:
        """Add a module or function that code may read attributes from by any name."""
        self.holders.append(x)
        for name in sorted(self.attributes):
            self._add_held(x, name)

    def _add_held(self, x: Any, name: str) -> None:
        if isinstance(x, types.ModuleType) or _function_has(x, name):
            found = getattr(x, name, MISSING)
            if found is not MISSING:
                self._add(found, may_call=True)

    def _add_attribute(self, x: Any, name: str) -> None:
        found = self._attribute(x, name)
        if found is not _UNKNOWN and found is not MISSING:
            self._add_value(x, name, found)

    def _attribute(self, x: Any, name: str) -> Any:
        """An attribute of an object of a user class; adds the code that reading it runs, or that a
        method has."""
        raw = class_attribute(type(x), name, MISSING)
        if type(raw) is types.MemberDescriptorType:
            return getattr(x, name, MISSING)
        if type(raw) is property:
            self.understood &= raw.fget is not None and self._add_method(raw.fget, x)
            return _UNKNOWN
        if isinstance(x, enum.Enum) and isinstance(raw, types.DynamicClassAttribute):
            return getattr(x, name)
        own = instance_dict(x)
        if name in own and not hasattr(type(raw), "__set__"):
            return own[name]
        if type(raw) is types.FunctionType:
            self.understood &= self._add_method(raw, x)
            return _UNKNOWN
        if type(raw) is staticmethod:
            return raw.__func__
        self.understood &= not hasattr(type(raw), "__get__")
        return raw

    def _add_method(self, f: Any, x: Any) -> bool:
        """Add the code of a method; returns whether it is understood."""
        return type(f) is types.FunctionType and self._add_function(f, x)

    def _add_object(self, x: Any) -> None:
        """Add an object of a user class: its operators, and the attributes that are read."""
        self.objects.append(x)
        self._add_operators(type(x), x)
        if self.replaces:
            self._add_replaced(x)
        for name in sorted(self.attributes):
            self._add_attribute(x, name)

    def _add_replaced(self, x: Any) -> None:
        """Add the class of an object that code may copy with other fields."""
        if dataclasses.is_dataclass(x) and type(x) not in self.classes:
            self.understood &= self._add_class(type(x))

    def _add_operators(self, cls: type, x: Any = MISSING) -> None:
        for each in cls.__mro__[:-1]:
            found = {} if is_library_class(each) else vars(each)
            for name in sorted(found.keys() - _NAMED_METHODS):
                f = found[name] if name.startswith("__") else None
                if type(f) is types.FunctionType and not _is_generated(each, f):
                    self.understood &= self._add_function(f, x)

    def _add_class(self, cls: type) -> bool:
        """Add a class that code makes objects of: what that runs, and what they have; returns
        whether all is understood."""
        if tree.is_namedtuple(cls):
            makes = [] if _is_generated(cls, cls.__new__) else [cls.__new__]
        elif is_namespace_class(cls):
            makes = []
        elif type(cls) in (type, abc.ABCMeta) and is_user_class(cls):
            init, new = class_attribute(cls, "__init__"), class_attribute(cls, "__new__")
            makes = [f for f in (init, new) if not (f in _OF_OBJECT or _is_generated(cls, f))]
            if _is_generated(cls, init):
                check = class_attribute(cls, "__post_init__")
                makes += [*_default_factories(cls), *([] if check is None else [check])]
        else:
            return False
        for f in makes:
            self._add(f, may_call=True)
        self.classes.append(cls)
        self._add_operators(cls)
        for name in sorted(self.attributes):
            self._add_class_attribute(cls, name)
        return self.understood

    def _add_class_attribute(self, cls: type, name: str) -> None:
        """Add the code of a method or property of objects that are made."""
        raw = class_attribute(cls, name, MISSING)
        if type(raw) in (staticmethod, property):
            raw = raw.__func__ if type(raw) is staticmethod else raw.fget
        if raw is not MISSING and type(raw) not in _FIELDS and not _is_generated(cls, raw):
            self._add(raw, may_call=True)

    def add_data(self, data: Iterable[Any]) -> None:
        for x in data:
            self._add(x, may_call=True)

    def _add(self, x: Any, may_call: bool = False) -> None:
        cls = type(x)
        if cls is Tracked:
            self.found.slots[id(x)] += 1
        if cls is float or cls is int or id(x) in self.seen:
            return
        self.seen.add(id(x))
        self.left -= 1
        if self.left < 0:
            self.understood = False
        elif cls is Tracked:
            self._add_handle(x)
        elif cls is np.ndarray:
            self.understood &= x.dtype.kind in "biufc"
            self.plain[id(x)] = x
        elif cls in _CONTAINERS:
            contents = _contents(x)
            if cls is not tuple:
                self.found.containers[id(x)] = x, contents
            self.add_data(contents)
            self._add(getattr(x, "default_factory", None), may_call=True)
        elif tree.is_namedtuple(cls):
            self.understood &= cls in self.classes or self._add_class(cls)
            self.add_data(x)
        elif _is_object(x):
            self._add_object(x)
        elif not is_constant(x):
            self.others.append(x)
            self._add_holder(x)
            self.understood &= may_call and self._is_pure(x)

    def _add_handle(self, handle: Tracked) -> None:
        self.found.handles[id(handle)] = handle, handle._value
        view = getattr(handle, "_view", None)
        if view is not None:
            value_of(handle)  # read now, not in the iteration
            self.found.handles[id(handle)] = handle, handle._value
            self._add(view.base)
        if getattr(handle, "_owner", None) is not None:
            self.understood = False

    def _is_pure(self, x: Any) -> bool:
        """Whether calls of an object only compute a result, or change what is compared."""
        if type(x) is types.FunctionType and (x.__module__ or "").startswith(_PURE_MODULES):
            self.found.may_grow = False
            return True
        x = _original(x)
        if type(x) is types.ModuleType or any(x is shim for shim in _SHIMS):
            return True
        try:
            if x in _BUILTINS or (isinstance(x, np.ufunc) and x in UFUNCS):
                return True
            if x in _NUMPY or x in NUMPY:
                self.found.may_grow &= x in _NUMPY_OF_GROWING
                name, module = getattr(x, "__name__", ""), str(getattr(x, "__module__", ""))
                return x in _NUMPY or (name not in _WRITING and "random" not in module)
        except TypeError:
            return False
        if type(x) is types.BuiltinFunctionType:
            return x.__self__ is math
        if isinstance(x, type):
            return self._add_class(x)
        if x is dataclasses.replace:
            self.replaces = True
            for each in list(self.objects):
                self._add_replaced(each)
            return self.understood
        if type(x) is types.MethodType and is_user_class(type(x.__self__)):
            self._add(x.__self__)
            return self._add_method(x.__func__, x.__self__)
        return type(x) is types.FunctionType and self._add_function(x)

    def _add_function(self, f: types.FunctionType, bound: Any = MISSING) -> bool:
        """Add what a function leads to, or a method of an object; returns whether all is
        understood."""
        names = function_code(f.__code__)
        if names is None:
            return False
        if (id(f), id(bound)) in self.functions:
            return True
        self.functions.add((id(f), id(bound)))
        self._add_holder(f)
        held = (cell_contents(cell, MISSING) for cell in f.__closure__ or ())
        cells = dict(zip(f.__code__.co_freevars, held, strict=True))
        self.add_data(f.__defaults__ or ())
        self.add_data((f.__kwdefaults__ or {}).values())
        local = {} if bound is MISSING else dict.fromkeys(f.__code__.co_varnames[:1], bound)
        self.add_names(names, names.paths, local, f.__globals__, cells)
        return self.understood


def _is_object(x: Any) -> bool:
    """Whether an object is of a user class, or a member of an enumeration."""
    return is_user_class(type(x)) or isinstance(x, enum.Enum)


def _function_has(x: Any, name: str) -> bool:
    """Whether an object is a function with an attribute of its own by this name."""
    return type(x) is types.FunctionType and name in vars(x)


def _is_generated(cls: type, method: Any) -> bool:
    """Whether `dataclass` or `namedtuple` has made a method, which stores or compares fields, or
    `enum` has."""
    if type(method) is not types.FunctionType:
        return False
    if method.__code__.co_filename[:7] != "<string":
        return method.__module__ in (enum.__name__, namedtuple.__module__)
    fields = {*getattr(cls, "__dataclass_fields__", ()), *_NAMES_IN_GENERATED}
    return fields.issuperset(method.__code__.co_names)


def _default_factories(cls: type) -> list[Any]:
    fields = getattr(cls, "__dataclass_fields__", {}).values()
    return [f.default_factory for f in fields if f.default_factory is not dataclasses.MISSING]


def is_constant(x: Any) -> bool:
    """Whether an object is a number, or text, of the builtin classes."""
    if isinstance(x, enum.Enum):
        return True
    if isinstance(x, _NUMBERS):
        return type(x).__module__ in ("builtins", "numpy")
    return type(x) in _TEXT or isinstance(x, np.dtype)


def _original(x: Any) -> Any:
    """The function of NumPy's that a drop-in stands for; anything else itself."""
    x = original_of(x)
    if type(x) is types.FunctionType and x.__globals__.get("__name__", "").startswith(_DROP_INS):
        return getattr(x, "__wrapped__", x)
    return x
