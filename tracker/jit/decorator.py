"""`@tracker.jit` and `tracker.trace`.

Owns: `jit`, `trace`, and `Jitted`, the Python side of a jitted function: its traces, by signature,
and the slow path. The object users hold is native (`callable.py`): its calls go to machine code,
and come here only when no compiled trace fits.

The slow path traces the function on the values of the call, compiles the trace, and puts it in
front. A trace holds for one signature and one way through the guards. Start at `Jitted.slow`.
"""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tracker import gradients, tree
from tracker.config import current
from tracker.draws import Journal
from tracker.errors import CompileError, ConversionError, IRError, UnsupportedError, message
from tracker.ir.graph import Function, Guard
from tracker.jit import signature
from tracker.jit.places import with_places
from tracker.jit.reads import places_of
from tracker.jit.staging import Entangled, Trace, Write, stage, static_leaves
from tracker.jit.standins import LOCK
from tracker.tape import current_stage, current_watch, same_bytes
from tracker.tracked import Tracked

if TYPE_CHECKING:
    from tracker.jit.pipeline import Compiled


class CacheInfo(NamedTuple):
    """traces: compiled; signatures: argument types seen; slow: calls that machine code did not
    take;
    eager: signatures that are run in plain Python."""

    traces: int
    signatures: int
    slow: int
    eager: int


@dataclass(slots=True)
class Special:
    """One compiled trace, and its call in Python terms."""

    trace: Trace
    compiled: Compiled
    call: Callable[[Sequence[Any]], Any]

    def matches(self, other: Trace) -> bool:
        """Whether another trace holds no more often than this one."""
        return self.trace.call == other.call and str(self.trace.function) == str(other.function)


@dataclass(slots=True)
class Family:
    """All traces of one signature; `eager` says why it is run in plain Python, if it is."""

    specials: list[Special] = field(default_factory=list)
    eager: str = ""
    unsteady: int = 0  # calls that changed what they read


class Jitted:
    """The Python side of a jitted function."""

    def __init__(
        self, function: Callable[..., Any], static: frozenset[int | str], strict: bool, limit: int
    ) -> None:
        self.function = function
        self.static = static
        self.strict = strict
        self.limit = limit
        self.families: dict[signature.Signature, Family] = {}
        self.derived: dict[Any, Any] = {}
        self.is_derived = False  # a derivative: its results are plain, whatever it reads
        self.slow_calls = 0
        self.native: Any = None  # a weak reference to the native object

    def slow(self, *args: Any, **kwargs: Any) -> Any:
        """A call that no machine code took."""
        if current_stage() is not None or not current().jit:
            return self.function(*args, **kwargs)
        call, leaves = signature.signature_of(args, kwargs, self.static)
        if any(type(x) is Tracked for x in leaves):
            return self.function(*args, **kwargs)
        if current_watch() is not None:
            return self._watched(args, kwargs)
        self.slow_calls += 1
        if not call.native:
            return self._unusual(args, kwargs, call, leaves)
        with LOCK:
            family = self.families.setdefault(call, Family())
            if not family.eager:
                return self._special(family, call, leaves, args, kwargs)
        return self.function(*args, **kwargs)

    def _watched(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A call while values are watched: the function is traced, so that the watch sees what it
        computes, and nothing is compiled."""
        try:
            staged = stage(self.function, args, kwargs, self.static)
        except (Entangled, *_UNTRACEABLE):
            return self.function(*args, **kwargs)
        for write in staged.writes:
            write.carry_out()
        return staged.result

    def _unusual(
        self,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        call: signature.Signature,
        leaves: list[Any],
    ) -> Any:
        """Arguments that no entry takes as they lie: arrays are laid out anew, others run plain."""
        usual = [_usual(x) for x in leaves]
        if any(x is _NOT_USUAL for x in usual) or self._share_memory(call, leaves, usual):
            return self.function(*args, **kwargs)
        given = iter(usual)
        templates = (*args, *kwargs.values())
        rebuilt = [
            tree.unflatten(structure, [next(given) for _ in range(structure.count)], template)
            for structure, template in zip(call.structures, templates, strict=True)
        ]
        try:
            named = dict(zip(kwargs, rebuilt[len(args) :], strict=True))
            return self.native()(*rebuilt[: len(args)], **named)
        finally:  # what was written into a copy belongs into the caller's array
            for x, copy in zip(leaves, usual, strict=True):
                if x is not copy and not same_bytes(np.asarray(x, copy.dtype), copy):
                    x[...] = copy

    def _share_memory(self, call: signature.Signature, leaves: list[Any], usual: list[Any]) -> bool:
        """Whether an array to be laid out anew shares memory with another that the code sees."""
        with LOCK:
            places = places_of(self.function, static_leaves(call, leaves))
            _, everything = with_places(call, leaves, places)
        arrays = [(i, x) for i, x in enumerate(everything) if isinstance(x, np.ndarray)]
        return any(
            i != j and np.may_share_memory(x, y)
            for j, (x, copy) in enumerate(zip(leaves, usual, strict=True))
            if x is not copy
            for i, y in arrays
        )

    def lookup(
        self,
        call: signature.Signature,
        leaves: list[Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Special | None:
        """The first trace for a signature, made if need be; None if it runs in plain Python."""
        with LOCK:
            family = self.families.setdefault(call, Family())
            if not family.specials and not family.eager:
                self._special(family, call, leaves, args, kwargs, run=False)
            return family.specials[0] if family.specials else None

    def _special(
        self,
        family: Family,
        call: signature.Signature,
        leaves: list[Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        run: bool = True,
    ) -> Any:
        """Run a trace that holds, or make one."""
        done = _run_one(family, call, leaves)
        if done is not _NONE:
            return done
        if len(family.specials) >= self.limit:
            self._give_up(family, f"it has {self.limit} traces already", _last_branch(family))
            return self.function(*args, **kwargs)

        def on_error(error: Exception, writes: list[Write]) -> None:
            if not _is_untraceable(error):  # it is the user's: so is what was written
                for write in writes:
                    write.carry_out()

        drawn = Journal()

        def plain() -> Any:
            drawn.undo()  # the plain function draws these numbers again
            return self.function(*args, **kwargs) if run else None

        try:
            with drawn:
                staged = stage(
                    self.function, args, kwargs, self.static, _name(self.function), on_error
                )
        except Entangled:
            return plain()
        except Exception as error:
            if not _is_untraceable(error):
                raise
            if self.strict:
                raise CompileError(f"{_name(self.function)} cannot be traced: {error}") from error
            self._give_up(family, f"it cannot be traced: {error}", "")
            return plain()
        trace = staged.trace
        if any(trace.owners) and not self.is_derived:
            # The result must carry the param's history, as the plain function's does.
            family.eager = "it reads a param, whose history is recorded"
            return plain()
        if _overlap(trace, staged.leaves):
            return plain()
        if trace.lasting:
            self._compile(family, trace)
        else:
            family.unsteady += 1
            if family.unsteady == _PATIENCE:
                self._give_up(family, "each call changes what the next one reads", "")
        if not run:
            drawn.undo()
            return None
        for write in staged.writes:
            write.carry_out()
        return staged.result

    def _compile(self, family: Family, trace: Trace) -> None:
        from tracker.jit import callable as native
        from tracker.jit.pipeline import compile_call

        if any(each.matches(trace) for each in family.specials):
            return  # it holds no more often than the trace that has just failed
        compiled = compile_call(trace)
        if self.strict and compiled.hosts:
            lines = "; ".join(f"{h.eqn.op.name} ({h.why}) at {h.eqn.where}" for h in compiled.hosts)
            raise CompileError(f"{_name(self.function)} is strict, and NumPy would run {lines}")
        if compiled.entry is not None:
            native.push_entry(self.native(), compiled.entry)
        family.specials.append(Special(trace, compiled, _python_call(trace, compiled)))

    def _give_up(self, family: Family, why: str, where: str) -> None:
        family.eager = f"{why}{f' (branching at {where})' if where else ''}"
        warnings.warn(
            f"{_name(self.function)} runs in plain Python from now on for these arguments: "
            f"{family.eager}",
            RuntimeWarning,
            stacklevel=4,
        )

    def derive(self, key: Any, build: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Any:
        """A jitted function of this one's derivative, made once for each key."""
        made = self.derived.get(key)
        if made is None:
            made = self.derived[key] = _make(
                functools.wraps(self.function)(build(self.function)),
                self.static,
                self.strict,
                self.limit,
            )
            made._jitted.is_derived = True
        return made


_NOT_USUAL = object()
_NONE = object()
_PATIENCE = 3  # after so many calls that changed what they read, a function runs in plain Python
_UNTRACEABLE = (ConversionError, UnsupportedError, IRError)


def _is_untraceable(error: BaseException | None) -> bool:
    """Whether an error is tracing's own; NumPy wraps some in a ValueError, of which they are the
    cause."""
    while error is not None:
        if isinstance(error, _UNTRACEABLE):
            return True
        error = error.__cause__
    return False


def _usual(x: Any) -> Any:
    """An array in the layout that native code takes, if its class and dtype allow that."""
    if not isinstance(signature.leaf_of(x), signature.Foreign):
        return x
    if type(x) is not np.ndarray or x.dtype.newbyteorder("=") not in signature.DTYPES:
        return _NOT_USUAL
    copy = np.array(x, dtype=x.dtype.newbyteorder("="), order="C")
    copy.flags.writeable = x.flags.writeable
    return copy


def _run_one(family: Family, call: signature.Signature, leaves: list[Any]) -> Any:
    """The result of the first trace that holds; _NONE if none does."""
    from tracker.jit.pipeline import GuardFailed

    for special in family.specials:
        full, all_leaves = with_places(call, leaves, special.trace.call.places)
        if full == special.trace.call:
            try:
                return special.call(all_leaves)
            except GuardFailed:
                continue
    return _NONE


def _last_branch(family: Family) -> str:
    """The line of the last guard of the newest trace."""
    guards = [s for s in family.specials[-1].trace.function.body if isinstance(s, Guard)]
    return guards[-1].where if guards else ""


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__).replace("<lambda>", "function")


def _python_call(trace: Trace, compiled: Compiled) -> Callable[[Sequence[Any]], Any]:
    """How the slow path runs a trace: an executor's values in, structured results out."""
    from tracker.jit.pipeline import GuardFailed

    def call(leaves: Sequence[Any]) -> Any:
        if compiled.run is None or _overlap(trace, leaves):
            raise GuardFailed  # machine code has been asked already
        captured = [
            owner.value.data if owner else leaves[source] if isinstance(source, int) else source
            for source, owner in zip(trace.captures, trace.owners, strict=True)
        ]
        found = iter(compiled.run([*(leaves[number] for number in trace.inputs), *captured]))
        results: list[Any] = []
        for out in trace.outputs:
            if out.kind == "constant":
                results.append(out.constant)
            elif out.kind == "input":
                results.append(leaves[out.constant])
            elif out.kind == "same":
                results.append(results[out.constant])
            else:
                results.append(
                    _own(_in_class(out.kind, next(found)), [*leaves, *captured, *results])
                )
        for number, value in zip(trace.writes, list(found), strict=True):
            leaves[number][...] = value
        return tree.unflatten(trace.structure, results)

    return call


def _overlap(trace: Trace, leaves: Sequence[Any]) -> bool:
    """Whether an array that the function writes into shares memory with another argument."""
    return any(
        number != other and np.may_share_memory(leaves[number], leaves[other])
        for number in trace.writes
        for other, leaf in enumerate(trace.call.leaves)
        if isinstance(leaves[other], np.ndarray) and not isinstance(leaf, signature.Twin)
    )


def _in_class(kind: str, x: Any) -> Any:
    """A value as the class of result that the plain function gives."""
    if kind == "array":
        return np.asarray(x)
    if kind == "numpy":
        return np.asarray(x)[()]
    return np.asarray(x).item()


def _own(x: Any, leaves: Sequence[Any]) -> Any:
    """A result that shares no memory with an argument, the trace, or another result."""
    return (
        x.copy() if isinstance(x, np.ndarray) and (x.base is not None or _is_one(x, leaves)) else x
    )


def _is_one(x: Any, leaves: Sequence[Any]) -> bool:
    return any(x is leaf for leaf in leaves)


# The native object --------------------------------------------------------------------------------


def jit(
    f: Callable[..., Any] | None = None,
    *,
    static: Iterable[int | str] = (),
    strict: bool = False,
    max_traces: int = 16,
) -> Any:
    """Compile a function of NumPy arrays and numbers, when it is called, to native code.

    The first call traces `f` with the real values; later calls with arguments of the same
    structure, dtypes and shapes run machine code. Results are those of the plain function: a Python
    branch on a value is checked on every call, and another way through is traced when it is first
    taken. `gradient`, `value_and_grad`, ... of a jitted function run compiled, too.

    static      names or positions of arguments that are constants of a trace
    strict      raise CompileError where NumPy or plain Python would have to run something
    max_traces  after so many traces of one signature, plain Python runs, with a warning

    >>> @jit
    ... def f(x):
    ...     return np.sum(np.sin(x) ** 2)
    >>> f(np.zeros(3))
    np.float64(0.0)
    """
    if f is None:
        return functools.partial(jit, static=static, strict=strict, max_traces=max_traces)
    if not callable(f):
        raise UnsupportedError(message(f"jit got a {type(f).__name__}", "Give it a function"))
    return _make(f, _static(f, static), strict, max_traces)


def _static(f: Callable[..., Any], static: Iterable[int | str]) -> frozenset[int | str]:
    """Static arguments by position and by name."""
    given = [static] if isinstance(static, (int, str)) else list(static)
    if not given:
        return frozenset()
    names = list(inspect.signature(f).parameters)
    out: set[int | str] = set()
    for which in given:
        if isinstance(which, str) and which not in names:
            raise UnsupportedError(message(f"{_name(f)} has no argument {which!r} to be static"))
        at = names.index(which) if isinstance(which, str) else which
        out |= {at, names[at]}
    return frozenset(out)


def _make(f: Callable[..., Any], static: frozenset[int | str], strict: bool, limit: int) -> Any:
    from tracker.jit import callable as native

    state = Jitted(f, static, strict, limit)
    made = native.new(_jit_type(), state.slow)
    state.native = weakref.ref(made)
    made._jitted = state
    functools.update_wrapper(made, f)
    _LIVE.add(made)
    return made


_LIVE: weakref.WeakSet[Any] = weakref.WeakSet()


@contextmanager
def in_python() -> Iterator[None]:
    """Within it, jitted functions take the slow path: no machine code runs."""
    if not _LIVE:
        yield
        return
    from tracker.jit import callable as native

    suspended = [(f, native.suspend(f)) for f in list(_LIVE)]
    try:
        yield
    finally:
        for f, first in suspended:
            native.resume(f, first)


@functools.cache
def _jit_type() -> type:
    from tracker.jit import callable as native

    return native.make_type("tracker.Jitted", _METHODS)


def _specials(self: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Special:
    state: Jitted = self._jitted
    call, leaves = signature.signature_of(args, kwargs, state.static)
    special = state.lookup(call, leaves, args, kwargs)
    if special is None:
        raise CompileError(
            f"{_name(state.function)} runs in plain Python for these arguments: "
            f"{state.families[call].eager}"
        )
    return special


def _ir(self: Any, *args: Any, pullback: bool = False, **kwargs: Any) -> Function:
    """The function's IR after all passes, for arguments like these; with `pullback`, the joint IR
    of
    value and gradient."""
    if pullback:
        return _ir(gradients.value_and_grad(self, tuple(range(len(args)))), *args, **kwargs)
    return _specials(self, args, kwargs).compiled.function


def _llvm(self: Any, *args: Any, **kwargs: Any) -> str:
    """The optimised LLVM IR of the native code for arguments like these."""
    return _joined(_specials(self, args, kwargs), "llvm")


def _asm(self: Any, *args: Any, **kwargs: Any) -> str:
    """The assembly of the native code for arguments like these."""
    return _joined(_specials(self, args, kwargs), "asm")


def _joined(special: Special, what: str) -> str:
    modules = [module for piece in special.compiled.pieces for module in piece.modules]
    return "\n".join(getattr(module, what) for module in modules)


def _explain(self: Any, *args: Any, **kwargs: Any) -> str:
    """What arguments like these run: kernels, host calls, guards, times of compilation."""
    from tracker.jit.explain import explain

    state: Jitted = self._jitted
    special = _specials(self, args, kwargs)
    call, _ = signature.signature_of(args, kwargs, state.static)
    return explain(
        _name(state.function), special.trace, special.compiled, state.families[call].specials
    )


def _cache_info(self: Any) -> CacheInfo:
    """How many traces, signatures, slow calls and eager signatures there are."""
    state: Jitted = self._jitted
    families = state.families.values()
    return CacheInfo(
        sum(len(family.specials) for family in families),
        len(families),
        state.slow_calls,
        sum(bool(family.eager) for family in families),
    )


def _clear_cache(self: Any) -> None:
    """Forget all traces."""
    from tracker.jit import callable as native

    state: Jitted = self._jitted
    with LOCK:
        state.families.clear()
        state.derived.clear()
        state.slow_calls = 0
        native.reset(self)


def _repr(self: Any) -> str:
    return f"<jitted {_name(self._jitted.function)}>"


def _reduce(self: Any) -> Any:
    """Pickle by reference: a decorated function by its name, another with the plain function's."""
    state: Jitted = self._jitted
    module = sys.modules.get(getattr(self, "__module__", None) or "")
    found: Any = module
    for name in getattr(self, "__qualname__", "").split("."):
        found = getattr(found, name, None)
    if found is self:
        return self.__qualname__
    return _make, (state.function, state.static, state.strict, state.limit)


def _derive(self: Any, key: Any, build: Callable[..., Any]) -> Any:
    return self._jitted.derive(key, build)


_METHODS: dict[str, Any] = {
    "__repr__": _repr,
    "__reduce__": _reduce,
    "__doc__": "A jitted function: see `tracker.jit`.",
    "ir": _ir,
    "llvm": _llvm,
    "asm": _asm,
    "explain": _explain,
    "cache_info": _cache_info,
    "clear_cache": _clear_cache,
    "_tracker_derive": _derive,
}


def newest_trace(f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Function:
    """The optimised IR that a jitted function runs for these arguments; without any, the newest."""
    specials = [s for family in f._jitted.families.values() for s in family.specials]
    if args or kwargs or not specials:
        return _ir(f, *args, **kwargs)
    newest: Special = specials[-1]
    return newest.compiled.function


def trace(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Function:
    """The IR of `f` at these arguments, as it was recorded: an `ir.Function`, which prints.

    >>> print(trace(lambda x: x * 2.0, np.ones(3)))
    function function(a: f64[3]) {
      b: f64[3] = multiply a 2.0
      return (b)
    }
    """
    function = getattr(f, "_jitted", None)
    return stage(f if function is None else function.function, args, kwargs).trace.function
