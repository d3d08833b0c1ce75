"""What objects lead to: functions, classes and modules, and the bindings to objects of
NumPy's, through closures, defaults, containers and the attributes of the user's objects.

Invariant: no user code runs.
"""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Callable
from typing import Any

from tracker.rebinding.bindings import ACTIVE, AttributeBinding, Binding, Exchanged, ItemBindings
from tracker.rebinding.drop_in_lookup import (
    HOLDING,
    KNOWN,
    ORIGINALS,
    PLAIN_CLASSES,
    drop_in_for,
    drop_in_for_tuple,
    leads_further,
)
from tracker.rebinding.user_code import NAMESPACES, Packages, is_user_namespace
from tracker.support.instances import (
    cell_contents,
    instance_dict,
    is_library_class,
    is_namespace_class,
)
from tracker.support.weakrefs import weak_cache

_MAX_OBJECTS = 10_000  # looked at: frameworks have more
_MAX_ITEMS = 256  # of a container: a longer one has data
_CONTAINERS = (list, tuple, dict, set, frozenset)


def _known_drop_in(x: Any) -> Any:
    known = KNOWN.get(id(x))
    if known is not None:
        return known[1]
    if type(x) in HOLDING:  # of the same code as a known one, as when a factory has made both
        return drop_in_for(x)
    return drop_in_for_tuple(x, _known_drop_in) if isinstance(x, tuple) else x


def reachable(
    todo: list[Any], packages: Packages | None = None
) -> tuple[list[int], list[Any], list[Binding]]:
    """What can be reached from the objects, which are consumed, without entering namespaces: a key
    that is equal for the same code; that code (functions as (code, globals); classes; modules); and
    the bindings of user code to objects with a drop-in. Without `packages`, only what earlier calls
    have met counts as user code and as an object with a drop-in, and there is no code."""
    find = _known_drop_in if packages is None else drop_in_for
    key: list[int] = []
    code: list[Any] = []
    bindings: list[Binding] = []
    seen: set[int] = set()
    while todo and len(seen) < _MAX_OBJECTS:
        x = todo.pop()
        cls = type(x)
        if cls in PLAIN_CLASSES or id(x) in seen or id(x) in ORIGINALS:
            continue
        seen.add(id(x))
        if cls is types.FunctionType:
            key += (id(x.__code__), id(x.__globals__))
            if packages is not None:
                code.append((x.__code__, x.__globals__))
            if x.__closure__ is not None or x.__defaults__ or x.__kwdefaults__:
                space = x.__globals__
                is_user = id(space) in NAMESPACES
                if packages is not None and not is_user:
                    is_user = is_user_namespace(space, packages)
                _look_into_function(x, todo, bindings, find if is_user else lambda y: y)
        elif cls is types.MethodType:
            todo += (x.__self__, x.__func__)
        elif isinstance(x, _CONTAINERS):
            _look_into_container(x, todo, bindings, find)
        elif issubclass(cls, functools.partial):
            todo += (x.func, x.args, x.keywords)
        elif cls is types.ModuleType or isinstance(x, type):
            key.append(id(x))
            code.append(x)
        else:
            key.append(id(cls))
            code.append(cls)
            own = instance_dict(x)
            if not _is_library_class(cls):
                _look_into_container(own, todo, bindings, find)
            else:  # functools.lru_cache, `jit`; np.vectorize
                todo += [own[name] for name in ("__wrapped__", "pyfunc") if name in own]
    return key, code, bindings


@weak_cache
def _is_library_class(cls: type) -> bool:
    return is_library_class(cls) and not is_namespace_class(cls)


def _look_into_function(
    f: types.FunctionType, todo: list[Any], bindings: list[Binding], find: Callable[[Any], Any]
) -> None:
    for cell in f.__closure__ or ():
        x = cell_contents(cell)
        if type(x) in PLAIN_CLASSES:
            continue
        drop_in = find(x)
        if drop_in is not x:
            bindings.append(AttributeBinding(cell, "cell_contents", x, drop_in))
            todo += [x] if leads_further(x) else []
        elif (id(cell), "cell_contents") in ACTIVE:
            bindings.append(ACTIVE[id(cell), "cell_contents"])
        else:
            todo.append(x)
    for name, given in (("__defaults__", f.__defaults__), ("__kwdefaults__", f.__kwdefaults__)):
        if not given:
            continue
        if (id(f), name) in ACTIVE:
            bindings.append(ACTIVE[id(f), name])
            continue
        values = given.values() if isinstance(given, dict) else given
        made = [x if type(x) in PLAIN_CLASSES else find(x) for x in values]
        if any(x is not y for x, y in zip(values, made, strict=True)):
            new: Any = dict(zip(given, made, strict=True)) if type(given) is dict else tuple(made)
            bindings.append(AttributeBinding(f, name, given, new))
        todo += values


def _look_into_container(
    x: Any, todo: list[Any], bindings: list[Binding], find: Callable[[Any], Any]
) -> None:
    """Look at the items of a container; drop-ins can be put into lists and dicts."""
    is_dict = isinstance(x, dict)
    values = itertools.islice(dict.values(x) if is_dict else x, _MAX_ITEMS)
    if PLAIN_CLASSES.issuperset(map(type, values)) or (is_dict and "__builtins__" in x):
        return
    if id(x) in ACTIVE:
        bindings.append(ACTIVE[id(x)])
    exchanged: Exchanged = []
    for name, y in [*itertools.islice(dict.items(x) if is_dict else enumerate(x), _MAX_ITEMS)]:
        cls = type(y)
        if cls in PLAIN_CLASSES or (cls is tuple and PLAIN_CLASSES.issuperset(map(type, y))):
            continue
        drop_in = find(y)
        if drop_in is y:
            todo.append(y)
        else:
            exchanged.append((name, y, drop_in))
            todo += [y] if leads_further(y) else []
    if exchanged and (is_dict or type(x) is list):
        bindings.append(ItemBindings(x, exchanged))
