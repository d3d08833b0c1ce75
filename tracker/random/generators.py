"""Recording generators: NumPy's `Generator` and `RandomState`, whose draws under a trace are
equations (`draw_ops.py`). Elsewhere they behave as NumPy's own.

The draws of a generator that the traced function itself makes are constants of the trace, until it
draws with traced parameters: from there on its draws are recorded, and each call restarts it in the
state that it had there (`_RestartedGenerator`).

`patch_globals` replaces the functions of `numpy.random` while a function is traced.
"""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.random as own

from tracker.errors import UnsupportedError
from tracker.ops.shape.create import buffer, join_tracked_list
from tracker.random.draw_ops import is_private, record_draw, record_seed, restore_state, state_of
from tracker.support.forks import register_at_fork
from tracker.tape.observers import has_active_transform
from tracker.tape.record import aval_of, data_of, holds_tracked
from tracker.tape.tracing.tracer import Tracer, active_tracers, current_tracer
from tracker.tape.tracked import Tracked

_default_rng = own.default_rng  # replaced by ours while a function is traced
_SIZE_AS_ARGS = {"rand": "random_sample", "randn": "standard_normal"}  # take the size as *args
_UNRECORDED_METHODS = {"bytes", "get_state", "spawn", "set_state"}
_REORDERS = {"shuffle", "permutation", "permuted"}


class _RecordingGenerator:
    """Base of `Generator` and `RandomState`.

    _wrapped           the generator of NumPy's that draws
    _creating_tracers  the tracers that were active when it was made: its draws are their constants
    """

    _wrapped: Any
    _creating_tracers: tuple[Tracer, ...]
    _gives_buffers = True  # whether draws in a derivative can be written into
    _is_seeded = False  # whether it alone draws from its bit generator

    def _start_recording(self, tracer: Tracer, method: str) -> None:
        """Record draws from here on in a trace that made this generator."""
        if not self._is_seeded:
            raise UnsupportedError(
                f"{method} of traced numbers from a generator that the traced function makes "
                "of a bit generator",
                "Make the generator outside and pass it, or use default_rng with a seed",
            )
        self._wrapped = _RestartedGenerator(self._wrapped)
        self._creating_tracers = tuple(
            each for each in self._creating_tracers if each is not tracer
        )
        record_draw(self._wrapped, "begin", {})

    def __reduce__(self) -> Any:
        _refuse(self, "copy")
        return self._wrapped.__reduce__()


class _RestartedGenerator(threading.local):
    """A generator that a traced function makes, from its first draw with traced parameters: each
    call restarts it there. Each thread has its own."""

    def __init__(self, source: Any) -> None:
        is_state = isinstance(source, own.mtrand.RandomState)
        bits = source._bit_generator if is_state else source.bit_generator
        self._wrapped = (own.mtrand.RandomState if is_state else own.Generator)(type(bits)(0))
        self._start = state_of(source)

    def begin(self) -> None:
        restore_state(self._wrapped, self._start)

    def get_state(self, legacy: bool = True) -> Any:
        return state_of(self._wrapped)

    def set_state(self, state: Any) -> None:
        restore_state(self._wrapped, state)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)


class Generator(_RecordingGenerator, own.Generator):
    """`numpy.random.Generator`; under a trace its draws are recorded."""

    def __init__(self, bit_generator: Any) -> None:
        super().__init__(bit_generator)
        self._wrapped = own.Generator(bit_generator)
        self._creating_tracers = active_tracers()

    @property
    def bit_generator(self) -> Any:
        _refuse(self, "bit_generator")
        self._is_seeded = False
        return self._wrapped.bit_generator


class _RandomStateMeta(type):
    """Makes NumPy's own RandomStates instances of our class, which replaces theirs."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, own.mtrand.RandomState)


class RandomState(_RecordingGenerator, own.mtrand.RandomState, metaclass=_RandomStateMeta):
    """`numpy.random.RandomState`; under a trace its draws are recorded."""

    def __init__(self, seed: Any = None, *, like: Any = None) -> None:
        if like is None:
            _check_seed(seed, "RandomState")
            super().__init__(_bit_generator_of_seed(_plain_seed(seed)))
            self._wrapped = own.mtrand.RandomState(self._bit_generator)
            self._is_seeded = not _is_bit_generator(seed)
        else:
            super().__init__(like._bit_generator)
            self._wrapped = like
        self._creating_tracers = active_tracers() if like is None else ()


def _bit_generator_of_seed(seed: Any) -> Any:
    """The bit generator for a seed. NumPy's constructor would ask the system for a seed before it
    uses the given one."""
    if seed is None or _is_bit_generator(seed):
        return seed
    bits = own.MT19937(0)
    bits._legacy_seeding(seed)
    return bits


def _is_bit_generator(seed: Any) -> bool:
    """Whether `seed` is a bit generator, from which others may draw, too."""
    return hasattr(seed, "capsule")


def wrap_generator(x: Any) -> Any:
    """A generator that records the draws of one of NumPy's."""
    if isinstance(x, own.Generator):
        drawn = Generator(x.bit_generator)
        drawn._wrapped, drawn._creating_tracers, drawn._gives_buffers = x, (), False
        return drawn
    state = RandomState(like=x)
    state._gives_buffers = False
    return state


def default_rng(seed: Any = None) -> Any:
    """`numpy.random.default_rng`, giving a `Generator` that records draws under a trace."""
    if isinstance(seed, Generator):
        return seed
    if isinstance(seed, own.Generator):
        return wrap_generator(seed)
    _check_seed(seed, "default_rng")
    drawn = Generator(_default_rng(_plain_seed(seed)).bit_generator)
    drawn._is_seeded = not _is_bit_generator(seed)
    return drawn


def _check_seed(seed: Any, who: str) -> None:
    if seed is None and current_tracer() is not None:
        raise UnsupportedError(
            f"{who}() without a seed in a traced function: each call would restart it",
            "Make it outside and pass it, or give it a seed",
        )


def _plain_seed(seed: Any) -> Any:
    """A seed of plain integers, which the trace guards."""
    if not holds_tracked(seed):
        return seed
    if isinstance(seed, Tracked) and not seed.ndim:
        return operator.index(seed)
    return [_plain_seed(part) for part in seed]


# Methods ----------------------------------------------------------------------------------------


@functools.cache
def _parameter_names(cls: type, method: str) -> tuple[str, ...]:
    """The names of a method's parameters, from the signature in its docstring."""
    doc = getattr(cls, method).__doc__ or ""
    inside = doc[doc.index("(") + 1 : doc.index(")")]
    return tuple(part.partition("=")[0].strip() for part in inside.split(","))


def _method(base: type, name: str) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        method, names = name, _parameter_names(base, name)
        if not has_active_transform() or is_private():
            return getattr(self._wrapped, name)(*args, **kwargs)
        if name in _SIZE_AS_ARGS:
            method, args, names = _SIZE_AS_ARGS[name], (args,) if args else (), ("size",)
        arguments = {
            key: join_tracked_list(x)
            for key, x in {**dict(zip(names, args, strict=False)), **kwargs}.items()
        }
        tracer = current_tracer()
        if tracer in self._creating_tracers and _depends_on_tracked(method, arguments):
            self._start_recording(tracer, method)
        if tracer is None or tracer in self._creating_tracers:
            return _unrecorded_draw(self._wrapped, method, arguments, self._gives_buffers)
        if method in _REORDERS:
            return _reorder(self._wrapped, method, arguments)
        if method == "choice" and np.ndim(aval_of(arguments["a"])):
            return _choice(self._wrapped, arguments)
        out = arguments.pop("out", None)
        drawn = record_draw(self._wrapped, method, arguments)
        return drawn if out is None else _into_out(out, drawn)

    call.__name__ = name
    call.__doc__ = getattr(base, name).__doc__
    return call


def _unrecorded_draw(
    source: Any, method: str, arguments: dict[str, Any], gives_buffers: bool
) -> Any:
    """A draw while nothing is recorded, or from a generator that the traced function made."""
    if not any(map(holds_tracked, arguments.values())):
        drawn = getattr(source, method)(**arguments)
        gives_buffers = gives_buffers and type(drawn) is np.ndarray and drawn.dtype.kind == "f"
        return buffer(drawn) if gives_buffers and "out" not in arguments else drawn
    if method in _REORDERS:
        return _reorder(source, method, arguments, plain=True)
    if method == "choice" and np.ndim(aval_of(arguments["a"])):
        return _choice(source, arguments, plain=not _depends_on_tracked(method, arguments))
    return record_draw(source, method, arguments)


def _depends_on_tracked(method: str, arguments: dict[str, Any]) -> bool:
    """Whether the drawn numbers depend on tracked values; not where tracked items are only picked
    or reordered by them."""
    picked = (
        {"x"} if method in _REORDERS else {"a"} if np.ndim(aval_of(arguments.get("a"))) else set()
    )
    return any(holds_tracked(x) for name, x in arguments.items() if name not in picked)


def _draw_or_record(source: Any, method: str, arguments: dict[str, Any], plain: bool) -> Any:
    return getattr(source, method)(**arguments) if plain else record_draw(source, method, arguments)


def _reorder(source: Any, method: str, arguments: dict[str, Any], plain: bool = False) -> Any:
    """`shuffle`, `permutation` and `permuted`: draw the order, and take the array in that order."""
    x, axis = arguments["x"], arguments.get("axis", None if method == "permuted" else 0)
    if not isinstance(x, Tracked):
        if method == "shuffle":
            raise UnsupportedError(
                f"shuffle of a {type(x).__name__} that is made in the traced function",
                "Use permutation, which gives a new array",
            )
        if not np.ndim(x) or method == "permuted":
            return record_draw(source, method, {**arguments, "x": data_of(x)})
        x = np.asarray(x)
    if not np.ndim(x):
        return _draw_or_record(source, method, {**arguments, "x": int(x)}, plain)
    if method == "permuted":
        indices = np.arange(np.size(x)).reshape(np.shape(x))
        order = _draw_or_record(source, method, {"x": indices, "axis": axis}, plain)
        return _into_out(arguments.get("out"), np.take(x, order))
    order = _draw_or_record(source, "permutation", {"x": np.shape(x)[axis]}, plain)
    drawn = _take(x, order, axis)
    if method == "permutation":
        return drawn
    x[...] = drawn
    return None


def _choice(source: Any, arguments: dict[str, Any], plain: bool = False) -> Any:
    """`choice` among the items of an array: draw their indices."""
    a, axis = arguments["a"], arguments.get("axis", 0)
    a = a if isinstance(a, Tracked) else np.asarray(a)
    drawn = {key: x for key, x in arguments.items() if key != "axis"} | {"a": np.shape(a)[axis]}
    return _take(a, _draw_or_record(source, "choice", drawn, plain), axis)


def _take(x: Any, order: Any, axis: int | None) -> Any:
    """`np.take` with a recorded order: NumPy dispatches on the array alone, so a plain array
    becomes a buffer first."""
    if isinstance(order, Tracked) and type(x) is np.ndarray and x.dtype.kind in "biufc":
        x = buffer(np.array(x))
    return np.take(x, order, axis=axis)


def _into_out(out: Any, drawn: Any) -> Any:
    if out is None:
        return drawn
    if not isinstance(out, Tracked):
        raise UnsupportedError("out= of a draw is a plain array", "Leave out= away")
    out[...] = drawn
    return out


def _refusing_method(base: type, name: str) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse(self, name)
        return getattr(self._wrapped, name)(*args, **kwargs)

    call.__name__ = name
    call.__doc__ = getattr(base, name).__doc__
    return call


def seed(self: Any, seed: Any = None) -> None:
    """Seed the generator; a seed chosen by the system differs on each call: not under a trace."""
    tracer = current_tracer()
    if seed is None or tracer is None or tracer in self._creating_tracers:
        _refuse(self, "seed")
        self._wrapped.seed(seed)
    else:
        record_seed(self._wrapped, join_tracked_list(seed))


def _refuse(source: _RecordingGenerator, what: str) -> None:
    """Refuse, under a trace, what reads or sets the state of a generator that it was given."""
    tracer = current_tracer()
    if tracer is not None and tracer not in source._creating_tracers:
        raise UnsupportedError(
            f"{what} of a generator under a trace", "Call it outside of the function"
        )


def _install() -> None:
    for cls, base in ((Generator, own.Generator), (RandomState, own.mtrand.RandomState)):
        for name in dir(base):
            if name.startswith("_") or not callable(getattr(base, name)):
                continue
            make = _refusing_method if name in _UNRECORDED_METHODS else _method
            setattr(cls, name, seed if name == "seed" else make(base, name))


_install()
GLOBAL = wrap_generator(own.mtrand._rand)
GLOBALS: dict[str, Any] = {
    name: getattr(GLOBAL, name)
    for name in own.__all__
    if getattr(getattr(own, name), "__self__", None) is own.mtrand._rand
} | {"default_rng": default_rng, "RandomState": RandomState}
for _name, _like in (("sample", "random_sample"), ("ranf", "random_sample"), ("seed", "seed")):
    GLOBALS[_name] = getattr(GLOBAL, _like)

# NumPy's global functions -------------------------------------------------------------------------

_lock = threading.Lock()
register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_patch_count = 0
_saved_globals: dict[str, Any] = {}


def patch_globals() -> None:
    """Make NumPy's global functions record draws, in threads that trace."""
    global _patch_count
    with _lock:
        _patch_count += 1
        if _patch_count == 1:
            _saved_globals.update((name, vars(own)[name]) for name in GLOBALS)
            vars(own).update(GLOBALS)


def restore_globals() -> None:
    """Restore NumPy's own functions when no thread traces any more."""
    global _patch_count
    with _lock:
        _patch_count -= 1
        if _patch_count == 0:
            vars(own).update(_saved_globals)
