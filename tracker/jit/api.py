"""`@tracker.jit` and `tracker.trace`.

The object that users hold is a native callable (`jit/abi/native_callable.py`) with the methods
below: its calls go to machine code, and to `JittedState.call_slow` (`jit/dispatch/jitted.py`) only
when no compiled trace matches. Start at `jit`.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, overload

import numpy as np

from tracker.autodiff import gradients
from tracker.autodiff.boundary import set_identity_check
from tracker.errors import CompileError, UnsupportedError, message, warn
from tracker.ir.graph import DrawnFunction, Function
from tracker.jit.discovery.identity_checks import check_identity
from tracker.jit.discovery.impure_calls import PROFILER_IN_USE, is_profiler_in_use
from tracker.jit.discovery.purity_table import NONE_VOUCHED, VouchedCallables
from tracker.jit.dispatch.captured_state_snapshot import SavedState
from tracker.jit.dispatch.jitted import JittedState, plain_function
from tracker.jit.dispatch.specialization import Specialization
from tracker.jit.dispatch.trace_policy import JitOptions
from tracker.jit.pickling import reduce_jitted
from tracker.jit.runtime.availability import require_native, why_unavailable
from tracker.jit.tracing.gc_pause import infrequent_gc
from tracker.jit.tracing.placeholder_swap import TRACING_LOCK
from tracker.jit.tracing.trace import TracedRun, trace_call
from tracker.rebinding.drop_in_lookup import drop_in_for
from tracker.support.deferred_signals import SIGNALS_DEFERRED
from tracker.support.shown_text import ShownText, function_name
from tracker.support.weakrefs import WeakIdentityDict

if TYPE_CHECKING:
    from tracker.jit import type_protocols
    from tracker.jit.profile import Profile
    from tracker.jit.type_protocols import JitKeywords
    from tracker.support.type_variables import F, P

set_identity_check(check_identity)  # derivatives refuse functions that compare by identity


class CacheInfo(NamedTuple):
    """traces: compiled; signatures: argument types seen; slow: calls that no machine code served;
    eager: signatures that run in plain Python. Derivatives of the function count, too."""

    traces: int
    signatures: int
    slow: int
    eager: int


@overload
def jit(f: F, **keywords: Unpack[JitKeywords]) -> type_protocols.JittedFunction[F]: ...
@overload
def jit(**keywords: Unpack[JitKeywords]) -> Callable[[F], type_protocols.JittedFunction[F]]: ...
def jit(
    f: Callable[..., Any] | None = None,
    *,
    static: int | str | Iterable[int | str] = (),
    cache: bool | None = None,
    strict: bool = False,
    max_traces: int = 16,
    pure: Iterable[Any] = (),
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
) -> Any:
    """Compile a function of NumPy arrays and numbers, when it is called, to native code.

    Parameters
    ----------
    f : callable
        Called with arrays, numbers, or structures of them. Without it, a decorator:
        `@jit(strict=True)`.
    static : int, str, or iterable of them
        Names or positions (also in `*args`) of arguments that are constants of a trace: lists,
        tuples and dicts are compared by their contents, numbers by value, arrays and other objects
        by identity.
    cache : bool, optional
        Whether compiled kernels are kept on disk (None: as TRACKER_CACHE says).
    strict : bool
        Whether to raise where NumPy or plain Python would have to run something.
    max_traces : int
        After so many traces of one signature, plain Python runs, with a warning.
    pure : iterable
        Functions, classes and modules whose results depend on their arguments alone.
    static_argnums, static_argnames : int, str, or iterable of them
        More static arguments, as other libraries name them.

    Returns
    -------
    Jitted
        Called like `f`; `gradient`, `value_and_grad`, ... of it run compiled, too. It has methods
        that show what runs: `explain`, `profile`, `ir`, `llvm`, `asm`, `cache_info`, `clear_cache`.

    Raises
    ------
    CompileError
        On a call, if `strict`: something needs NumPy or Python.

    See Also
    --------
    trace, export, config

    Notes
    -----
    The first call traces `f` with the real values; later calls with arguments of the same
    structure, dtypes and shapes run machine code. Results are those of the plain function: Python
    branches on values are checked on every call, and another path is traced when it is first taken.
    The 256 signatures that were used last keep their traces.

    Machine code does not repeat the calls that a trace has made. So a function that calls what is
    not known to be pure (the clock, a file, a database, a library in C) runs in plain Python, with
    a warning. Make that call before, and pass its result as an argument. If the result depends on
    the arguments alone, `jit(pure=[lookup])` says so, and `lookup` is not inspected.

    Examples
    --------
    >>> @jit
    ... def f(x):
    ...     return np.sum(np.sin(x) ** 2)
    >>> f(np.zeros(3))
    np.float64(0.0)
    """
    static = [*_listed(static), *_listed(static_argnums), *_listed(static_argnames)]
    if f is None:
        return functools.partial(
            jit, static=static, cache=cache, strict=strict, max_traces=max_traces, pure=pure
        )
    if not callable(f):
        raise UnsupportedError(f"jit got a {type(f).__name__}", "Give it a function")
    return _make(
        f,
        JitOptions(
            _static_arguments(f, static), cache, strict, max_traces, _vouched_callables(pure)
        ),
    )


def _vouched_callables(vouched: Iterable[Any]) -> VouchedCallables:
    """The callables that the user declares pure."""
    given = [vouched] if callable(vouched) or isinstance(vouched, ModuleType) else list(vouched)
    for x in given:
        if not callable(x) and not isinstance(x, ModuleType):
            raise UnsupportedError(
                f"jit got pure=[{x!r}], which is no function",
                "Give it functions, classes or modules",
            )
    return VouchedCallables(given) if given else NONE_VOUCHED


def _listed(static: int | str | Iterable[int | str]) -> list[int | str]:
    return [static] if isinstance(static, (int, str)) else list(static)


def _static_arguments(f: Callable[..., Any], given: list[int | str]) -> frozenset[int | str]:
    """Static arguments by position and by name; those of `*args` have a position only, those of
    `**kwargs` a name only."""
    if not given:
        return frozenset()
    parameters = inspect.signature(f).parameters.values()
    kinds = {p.kind for p in parameters}
    names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    count = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    out: set[int | str] = set()
    for which in given:
        if inspect.Parameter.VAR_POSITIONAL in kinds and not isinstance(which, str):
            known = which >= 0  # positions from the end are unknown
        elif inspect.Parameter.VAR_KEYWORD in kinds and isinstance(which, str):
            known = which not in {p.name for p in parameters} or which in names
        else:
            known = which in names if isinstance(which, str) else -count <= which < count
        if not known:
            raise UnsupportedError(
                f"{function_name(f)} has no argument {which!r} to be static",
                f"Give names among {names}, or positions, counted from 0",
            )
        if not isinstance(which, str):
            which = which if which >= 0 else which + count
            out |= {which, names[which]} if which < count else {which}
        else:
            out |= {which, names.index(which)} if which in names[:count] else {which}
    return frozenset(out)


def _make(f: Callable[..., Any], options: JitOptions) -> Any:
    f = plain_function(f)  # of a jitted one
    state = JittedState(f, options)
    state.make = _make
    why = why_unavailable()
    if why:
        made = _Unsupported(state, why)
    else:
        cls = _jit_type()
        from tracker.jit.abi import native_callable as native

        _load_compiler()
        made = native.new_callable(cls, state.call_slow)
        state.traces.native = weakref.ref(made)
        _LIVE[made] = True
    functools.update_wrapper(made, f)
    made._jitted = state  # after the attributes of `f`: it may wrap another jitted function
    return made


@functools.cache
def _load_compiler() -> None:
    """Import what every first call needs, which takes longer than to compile a small function; the
    passes and the code generator, too, where no program is on disk yet. Our files are hashed. What
    imports llvmlite is imported within functions elsewhere, and found here by then."""
    modules = ["jit.dispatch.first_call", "jit.pipeline.compile", "jit.runtime.compile_queue"]
    modules += ["random.generators"]
    with SIGNALS_DEFERRED:
        from tracker.jit.llvm import object_cache
        from tracker.jit.pipeline import lowered_cache

        if object_cache.directory() is not None:
            lowered_cache.source_fingerprint()
        if not object_cache.has_files(".program"):
            modules += ["jit.codegen.lower", "jit.pipeline.pass_order"]
            modules += ["jit.pipeline.loop_carried", "jit.pipeline.executor"]
        for module in modules:
            import_module(f"tracker.{module}")
        drop_in_for(np)  # which makes those of all of NumPy


_LIVE: WeakIdentityDict[bool] = WeakIdentityDict()


@contextmanager
def in_python() -> Iterator[None]:
    """Within this context, jitted functions take the slow path: no machine code runs."""
    if not _LIVE:
        yield
        return
    from tracker.jit.abi import native_callable as native

    suspended = []
    try:
        for f in list(_LIVE):
            if native.suspend(f):
                suspended.append(f)  # noqa: PERF401  (what was suspended before an interrupt, too)
        yield
    finally:
        for f in suspended:
            native.resume(f)


@contextmanager
def visible_calls() -> Iterator[None]:
    """Within this context, profilers see each call of a jitted function as a frame that has its
    name, file and line, also of functions that were called before the profiler was activated.

    Examples
    --------
    >>> import cProfile
    >>> f = jit(lambda x: x * 2.0)
    >>> with visible_calls(), cProfile.Profile() as profile:
    ...     f(3.0)
    6.0
    """
    changed: list[JittedState] = []
    try:
        for f in list(_LIVE):
            changed.append(f._jitted)
            f._jitted.is_visible = True
            f._jitted.suspend(True)
        yield
    finally:
        for state in changed:
            state.is_visible = False


@functools.cache
def _jit_type() -> type:
    with infrequent_gc(), SIGNALS_DEFERRED:
        from tracker.jit.abi import native_callable as native

        return native.make_type("tracker.Jitted", _METHODS)


_SHARED_ARGUMENT = (
    "one of them is also what it reads elsewhere, or shares memory with it, and it compares or "
    "writes such objects"
)


def _specialization_for(self: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Specialization:
    require_native("there is no machine code")
    state: JittedState = self._jitted
    specialization = _lookup(state, args, kwargs)
    if specialization is None:
        raise CompileError(
            f"{state.name} runs in plain Python for these arguments: "
            f"{_why_plain(state, args, kwargs)}"
        )
    return specialization


def _lookup(
    state: JittedState, args: Sequence[Any], kwargs: dict[str, Any]
) -> Specialization | None:
    """As `JittedState.lookup`. `model.f.explain` is an attribute of the function alone: Python
    hands the object to calls only."""
    try:
        inspect.signature(state.function).bind(*args, **kwargs)
    except TypeError as error:
        text = f"{state.name} does not take these arguments: {error}"
        hint = "Give it what a call takes; of a method, the object, too: Model.f.explain(model, x)"
        raise TypeError(message(text, hint)) from None
    except ValueError:  # it has no signature
        pass
    return state.lookup(args, kwargs)


def _why_plain(state: JittedState, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """Why no machine code runs for arguments of which `lookup` has found no trace."""
    call, _ = state.signature_of(args, kwargs)
    passing = PROFILER_IN_USE if is_profiler_in_use() else _SHARED_ARGUMENT
    return state.groups[call].fallback_reason or passing


def _ir(self: Any, *args: Any, pullback: bool = False, **kwargs: Any) -> Function:
    """The function's IR after all passes, for arguments like these; with `pullback`, the joint IR
    of value and gradient."""
    require_native("there is no machine code")
    if pullback:
        return _ir(gradients.value_and_grad(self, tuple(range(len(args)))), *args, **kwargs)
    return _specialization_for(self, args, kwargs).compiled.function


def _llvm(self: Any, *args: Any, **kwargs: Any) -> str:
    """The optimised LLVM IR of the native code for arguments like these."""
    return _joined(_specialization_for(self, args, kwargs), "llvm")


def _asm(self: Any, *args: Any, **kwargs: Any) -> str:
    """The assembly of the native code for arguments like these."""
    return _joined(_specialization_for(self, args, kwargs), "asm")


def _joined(specialization: Specialization, what: str) -> str:
    modules = [module for piece in specialization.compiled.pieces for module in piece.modules]
    return "\n".join(getattr(module, what) for module in modules)


def _explain(self: Any, *args: Any, **kwargs: Any) -> str:
    """What arguments like these run: kernels, host calls, guards, times of compilation; or why the
    function runs in plain Python, with the line that makes it. A text, which notebooks show.

    >>> print(jit(lambda x: x * 2.0).explain(3.0).splitlines()[0])
    function: 1 trace(s) for these arguments
    """
    state: JittedState = self._jitted
    why = why_unavailable()
    specialization = None if why else _lookup(state, args, kwargs)
    if specialization is None:
        return ShownText(
            f"{state.name} runs in plain Python for these arguments\n"
            f"  why: {why or _why_plain(state, args, kwargs)}\n"
            "  jit(strict=True) makes this an error"
        )
    from tracker.jit.explain import explain

    call, _ = state.signature_of(args, kwargs)
    return explain(state.name, specialization, state.groups[call])


def _profile(self: Any, *args: Any, **kwargs: Any) -> Profile:
    """Where the time of calls like this one goes: a row per kernel, product, loop and NumPy call,
    with the user's lines, and one for all else of a call.

    The program is compiled once more, with a clock between its steps, and called for a fifth of a
    second; only once, if the function writes into arguments or state, or draws random numbers.
    Ordinary calls pay nothing.

    >>> found = jit(lambda x: np.sum(np.sin(x) ** 2)).profile(np.ones(1000))
    >>> [row.kernel for row in found.rows]
    ['kernel over 1000: 2 fused (sin square), folds sum', 'the call itself: ...
    """
    require_native("there is no machine code")
    from tracker.jit.profile import profile

    state: JittedState = self._jitted
    for is_retry in (False, True):
        first = _specialization_for(self, args, kwargs)
        call, leaves = state.signature_of(args, kwargs)
        others = [s for s in state.groups[call].specializations if s is not first]
        for each in (first, *reversed(others)):
            found = profile(state.name, each, call, leaves, args, kwargs)
            if found is not None:
                return found
        if not is_retry:
            self(*args, **kwargs)  # it takes a path that has no trace yet
    raise CompileError(
        f"no machine code of {state.name} takes these arguments as they lie in memory"
    )


def _cache_info(self: Any) -> CacheInfo:
    """How many traces, signatures, slow calls and eager signatures there are, of the function and
    of its derivatives."""
    state: JittedState = self._jitted
    groups = state.groups.values()
    own = (
        sum(len(group.specializations) for group in groups),
        len(groups),
        state.slow_calls,
        sum(bool(group.fallback_reason) for group in groups),
    )
    derived = map(_cache_info, state.derivatives.values())
    return CacheInfo(*map(sum, zip(own, *derived, strict=True)))


def _clear_cache(self: Any) -> None:
    """Drop all traces."""
    state: JittedState = self._jitted
    with TRACING_LOCK.lock:
        state.groups.clear()
        state.derivatives.clear()
        state.slow_calls = 0
        if state.traces.native is not None:
            from tracker.jit.abi import native_callable as native

            native.remove_all_entries(self)


def _repr(self: Any) -> str:
    state: JittedState = self._jitted
    count = sum(len(group.specializations) for group in state.groups.values())
    traces = f", {count} trace{'s' * (count != 1)}" if count else ""
    return f"<{state.traces.title}{traces}>"


def _saved_state(self: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> SavedState | None:
    state: JittedState = self._jitted
    call, leaves = state.signature_of(args, kwargs)
    return SavedState.of(state.groups.get(call), call, leaves)


_METHODS: dict[str, Any] = {
    "__repr__": _repr,
    "__reduce__": reduce_jitted,
    "__doc__": "A jitted function: see `tracker.jit`.",
    "ir": _ir,
    "llvm": _llvm,
    "asm": _asm,
    "explain": _explain,
    "profile": _profile,
    "cache_info": _cache_info,
    "clear_cache": _clear_cache,
    "_jitted": None,  # of an instance, its state
    "_tracker_attempt": lambda self, args, kwargs: self._jitted.rollback_log(args, kwargs),
    "_tracker_derive": lambda self, *recipe: self._jitted.derive(*recipe),
    "_tracker_reading": _saved_state,
}


class _Unsupported:
    """A jitted function where machine code is unavailable, which is a plain function to derivatives
    and to other jitted functions. Says why, once."""

    has_warned = False

    def __init__(self, state: JittedState, reason: str) -> None:
        self._jitted = state
        if not (state.options.strict or _Unsupported.has_warned):
            _Unsupported.has_warned = True
            text = f"{state.name} and all other jitted functions run in plain Python: {reason}"
            warn(text, RuntimeWarning)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._jitted.call_unsupported(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)


for _name, _method in _METHODS.items():
    if not _name.startswith("_tracker_"):
        setattr(_Unsupported, _name, _method)


def newest_trace(f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Function:
    """The optimised IR that a jitted function runs for these arguments; without any, the newest."""
    specializations = [s for group in f._jitted.groups.values() for s in group.specializations]
    if args or kwargs or not specializations:
        return _ir(f, *args, **kwargs)
    newest: Specialization = specializations[-1]
    return newest.compiled.function


def trace(f: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> Function:
    """The IR of `f` at these arguments, as it was recorded: an `ir.Function`, which prints.

    Parameters
    ----------
    f : callable
        Any function of arrays and numbers; a jitted one counts as the plain one.
    *args, **kwargs
        The arguments, which `f` is run with.

    Returns
    -------
    tracker.ir.graph.Function
        The equations as they were recorded, before any pass.

    See Also
    --------
    jit

    Examples
    --------
    >>> print(trace(lambda x: x * 2.0, np.ones(3)))
    function function_(a: f64[3]) {
      b: f64[3] = multiply a 2.0 ...
      return (b)
    }
    """
    return DrawnFunction.of(traced_run(f, args, kwargs).required_trace.function)


def traced_run(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> TracedRun:
    """A traced call of the plain function, whose effects are not applied."""
    with TRACING_LOCK.lock:
        return trace_call(plain_function(f), args, kwargs)
