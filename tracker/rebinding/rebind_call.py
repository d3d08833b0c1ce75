"""The exchange around a call of user code.

An `ExchangePlan` has the bindings that a call needs. It is found again by the code that the
function and the arguments lead to (`reachable`), and made anew once one of its namespaces has
changed.

Invariants: whatever happens in the call, its bindings are released; an interrupt (Ctrl-C) between
the steps is no exception. In a forked child, what other threads have exchanged is restored.
"""

from __future__ import annotations

import builtins
import functools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from tracker.config import current
from tracker.rebinding.bindings import ACTIVE, AttributeBinding, Binding
from tracker.rebinding.drop_in_lookup import (
    CALLED_BY_NUMPY,
    PLAIN_CLASSES,
    drop_in_for,
    follow_changes,
    leads_further,
)
from tracker.rebinding.namespaces import Namespace, namespace_of
from tracker.rebinding.numba_compile import watch_numba
from tracker.rebinding.reachable_objects import reachable
from tracker.rebinding.user_code import NAMESPACES, Packages, is_user_namespace
from tracker.support.forks import register_at_fork
from tracker.tape.observers import ObserversSuspended
from tracker.tape.tracing.tracer import current_tracer

_MAX_PLANS = 1000
_LOCK = threading.RLock()
_PLANS: dict[Any, ExchangePlan] = {}
_NO_ARGUMENTS: Mapping[str, Any] = {}


class ExchangePlan:
    """The bindings that calls need which lead to the same code.

    namespaces  of that code, each with its version then; other bindings are in `bindings`
    code        what they lead to, which is kept alive: the key has its ids
    classes     among that, without which the plan ends
    """

    __slots__ = ("bindings", "classes", "code", "namespaces", "packages")

    def __init__(self, code: list[Any], packages: Packages) -> None:
        self.code, self.packages = code, packages
        self.classes: list[weakref.ref[type]] = []
        self.namespaces: list[tuple[Namespace, int]] = []
        self.bindings: list[Binding] = []
        self._follow()
        self.bindings = list({binding.key: binding for binding in self.bindings}.values())
        if any(space.imports for space, _ in self.namespaces):
            self.bindings.append(IMPORTS)

    def _follow(self) -> None:
        """Follow the code to all namespaces."""
        seen: set[int] = set()
        todo = [*self.code]
        while todo:
            x = todo.pop()
            if type(x) is tuple:
                code, space = x
                known = self._enter(space, seen, todo)
                if known is not None:
                    known.add_code(code)
            elif id(x) in seen:
                continue
            elif isinstance(x, type):
                seen.add(id(x))
                for cls in x.__mro__:
                    self._enter_class(cls, seen, todo)
            elif isinstance(x, types.ModuleType):
                self._enter(vars(x), seen, todo)

    def _enter(self, space: dict[str, Any], seen: set[int], todo: list[Any]) -> Namespace | None:
        """The namespace of user code with these globals; None for those of a library."""
        if not is_user_namespace(space, self.packages):
            return None
        found = namespace_of(space)
        if id(space) not in seen:
            seen.add(id(space))
            if not found.version or not found.is_current():
                found.look(self.packages)
            self.namespaces.append((found, found.version))
            self.bindings += found.bindings
            todo += found.code
        return found

    def _enter_class(self, cls: type, seen: set[int], todo: list[Any]) -> None:
        space = getattr(sys.modules.get(cls.__module__), "__dict__", None)
        if space is None:  # a namespace that is no module
            functions = (x for x in vars(cls).values() if type(x) is types.FunctionType)
            space = next((f.__globals__ for f in functions), None)
        if space is None or self._enter(space, seen, todo) is None:
            return
        members: list[Any] = []
        for name, raw in list(vars(cls).items()):
            active: Any = ACTIVE.get((id(cls), name))
            if active is not None and raw is active.drop_in:
                raw = active.original
            x = raw.__func__ if isinstance(raw, (staticmethod, classmethod)) else raw
            drop_in = x if type(x) in PLAIN_CLASSES else drop_in_for(x)
            if name in CALLED_BY_NUMPY and type(x) is types.FunctionType:
                self.bindings.append(AttributeBinding(cls, name, x, CALLED_BY_NUMPY[name](x)))
                members.append(x)
            elif drop_in is not x:
                new = type(raw)(drop_in) if x is not raw else drop_in
                self.bindings.append(AttributeBinding(cls, name, raw, new))
                members += [x] if leads_further(x) else []
            elif isinstance(x, property):
                members += (x.fget, x.fset, x.fdel)
            else:
                members.append(getattr(x, "func", x))
        _, code, bindings = reachable(members, self.packages)
        self.bindings += bindings
        todo += code


class ExchangedCall:
    """A call of user code, with the bindings that it has exchanged. `thread`: what `_running` has
    in its thread."""

    __slots__ = ("bindings", "is_held", "outer", "plan", "thread")

    def __init__(self, plan: ExchangePlan, bindings: Sequence[Binding]) -> None:
        self.plan, self.bindings = plan, bindings
        self.thread = _running.__dict__
        self.is_held = False

    def hold(self) -> bool:
        """Bind the drop-ins; false if the plan is out of date."""
        self.is_held = is_current = True
        self.outer = self.thread["call"]
        self.thread["call"] = self
        with _LOCK:
            for space, version in self.plan.namespaces:
                space.holders.add(self)
                if not space.install() or space.version != version:
                    is_current = False
            if self.bindings and not self._hold_bindings():
                is_current = False
        return is_current

    def _hold_bindings(self) -> bool:
        """Bind the drop-ins of the bindings; false if one is out of date. (One that another call
        holds stays what it is.)"""
        is_current = True
        self.bindings = [ACTIVE.setdefault(binding.key, binding) for binding in self.bindings]
        for binding in self.bindings:
            is_held = bool(binding.holders)
            binding.holders.add(self)
            if not binding.install() and not is_held:
                is_current = False
        return is_current

    def release(self) -> None:
        if self.thread["call"] is self:
            self.thread["call"] = self.outer
        with _LOCK:
            for space, _ in self.plan.namespaces:
                space.holders.discard(self)
                if not space.holders:
                    space.restore()
            for binding in self.bindings:
                binding.holders.discard(self)
                if not binding.holders:
                    binding.restore()
                    ACTIVE.pop(binding.key, None)
        self.is_held = False

    def reach(self, module: types.ModuleType) -> None:
        """Hold what an imported module leads to, too."""
        with _LOCK:
            plan = ExchangePlan([module], self.plan.packages)
            spaces = [space for space, _ in plan.namespaces]
            self.bindings = [*self.bindings, *spaces, *plan.bindings]
            self._hold_bindings()


class _Running(threading.local):
    """The innermost call in this thread."""

    def __init__(self) -> None:
        self.call: ExchangedCall | None = None


_running = _Running()


def call_exchanged(
    f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] = _NO_ARGUMENTS
) -> Any:
    """`f(*args, **kwargs)`, with drop-ins in place of what its code knows of NumPy, SciPy and
    `math`. A derivative or a trace runs in this thread."""
    packages = current().plain
    if packages is None:
        return f(*args, **kwargs)
    plan = _plan_of_globals(f, args, kwargs, packages)
    if plan is not None:
        bindings: Sequence[Binding] = plan.bindings
    else:
        f = drop_in_for(f)
        args = [x if type(x) in PLAIN_CLASSES else drop_in_for(x) for x in args]
        kwargs = {name: drop_in_for(x) for name, x in kwargs.items()}
        plan, bindings = _plan_for([f, *args, *kwargs.values()], packages)
    call = ExchangedCall(plan, bindings)
    try:
        try:
            while not call.hold():
                call.release()
                call.plan, call.bindings = _new_plan([f, *args, *kwargs.values()], packages)
            return f(*args, **kwargs)
        finally:
            call.release()
    finally:
        if call.is_held:  # a signal came before the release
            call.release()


def _plan_of_globals(
    f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], packages: Packages
) -> ExchangePlan | None:
    """The plan of a call that leads to no code but what the globals of the function lead to; None
    of another call, or if there is none. (On the path of every derivative.)"""
    if type(f) is not types.FunctionType or f.__closure__ or f.__defaults__ or kwargs:
        return None
    for x in args:
        if type(x) not in PLAIN_CLASSES:
            return None
    plan = _PLANS.get((id(f.__code__), id(f.__globals__), packages))
    return None if f.__kwdefaults__ else plan


@contextmanager
def exchange_suspended() -> Iterator[None]:
    """A context in which this thread has exchanged nothing: for user code that libraries call."""
    calls: list[ExchangedCall] = []
    try:
        while (call := _running.call) is not None:
            calls.append(call)
            call.release()
        yield
    finally:
        while calls:
            calls[-1].hold()
            calls.pop()


def prepare_exchange(f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Import what `call_exchanged` will need."""
    packages = current().plain
    if packages is not None:
        _plan_for([drop_in_for(x) for x in (f, *args, *kwargs.values())], packages)
        follow_changes()


def _plan_for(objects: list[Any], packages: Packages) -> tuple[ExchangePlan, Sequence[Binding]]:
    """The plan for a function and its arguments, and all bindings but for namespaces."""
    key, _, bindings = reachable([*objects])
    plan = _PLANS.get((*key, packages))
    if plan is None:
        return _new_plan(objects, packages)
    return plan, [*plan.bindings, *bindings] if bindings else plan.bindings


def _new_plan(objects: list[Any], packages: Packages) -> tuple[ExchangePlan, Sequence[Binding]]:
    """The same, made anew."""
    tracer = current_tracer()
    with _LOCK, nullcontext() if tracer is None else tracer.unmonitored():
        ids, code, bindings = reachable([*objects], packages)
        plan = ExchangePlan(code, packages)
        if len(_PLANS) >= _MAX_PLANS:
            _PLANS.clear()
        key = (*ids, packages)
        _PLANS[key] = plan
        classes = [x for x in code if isinstance(x, type)]
        plan.code = [x for x in code if not isinstance(x, type)]
        plan.classes = [weakref.ref(cls, functools.partial(_PLANS.pop, key)) for cls in classes]
        follow_changes()
        watch_numba(exchange_suspended)
    return plan, [*plan.bindings, *bindings]


# Imports ------------------------------------------------------------------------------------------


class _Imports(Binding):
    """`builtins.__import__`, which gives drop-ins to functions of user code."""

    __slots__ = ("original",)

    def is_current(self) -> bool:
        return True

    def install(self) -> bool:
        found = self.holder["__import__"]
        if found is not _import:
            self.original = found
            self.holder["__import__"] = _import
        return True

    def restore(self) -> None:
        if self.holder["__import__"] is _import:
            self.holder["__import__"] = self.original


IMPORTS = _Imports(vars(builtins), "__import__")


def _import(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    """`__import__` of a statement. The code of a module that is imported meanwhile runs as if
    nothing were differentiated."""
    call = _running.call
    if call is None or globals is locals or not is_user_namespace(globals, call.plan.packages):
        return IMPORTS.original(name, globals, locals, fromlist, level)
    with ObserversSuspended():
        module = IMPORTS.original(name, globals, locals, fromlist, level)
    drop_in = drop_in_for(module)
    if drop_in is module:
        call.reach(module)
    return drop_in


def _release_other_threads() -> None:
    """In a forked child, release what threads hold that it has not."""
    _LOCK.release()
    spaces = [space for known in [*NAMESPACES.values()] if (space := known()) is not None]
    for call in {call for binding in (*spaces, *ACTIVE.values()) for call in binding.holders}:
        if call.thread is not vars(_running):
            call.release()


register_at_fork(
    before=_LOCK.acquire,
    after_in_parent=_LOCK.release,
    after_in_child=_release_other_threads,
)
