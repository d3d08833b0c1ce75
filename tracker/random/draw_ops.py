"""The op `draw`; rolling draws back; noticing unrecorded draws.

When a guard fails in the middle of a call, another trace takes over and must draw the same numbers
again: `RollbackLog` restores the states of generators. While a function is traced, `DrawMonitor`
notices draws that no equation stands for, which make the trace invalid.

Invariants: equations of draws are never dropped, merged or reordered; a trace with unrecorded draws
is never compiled.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tracker import tree
from tracker.errors import EVALUATION_ERRORS, UnsupportedError
from tracker.ir.lowering import Host
from tracker.ir.op import Joint, Op, has_effect
from tracker.ir.types import type_of
from tracker.ops.declare.declare import declare
from tracker.ops.declare.rule_helpers import match_tangent, project
from tracker.tape.record import alias_to_primal, aval_of, data_of, record_result, value_of
from tracker.tape.tracing.tracer import UnsupportedInBody, current_tracer, record_call_failure
from tracker.tape.tracked import Tracked
from tracker.tape.value import CLOSED, NO_PARAMS, Value, is_constant

_WORDS = 624  # words that a Mersenne twister makes at a time

_Result = TypeVar("_Result")

# States of generators ---------------------------------------------------------------------------


def state_of(source: Any) -> Any:
    """The state of a Generator, a RandomState, or Python's `random`."""
    bits = getattr(source, "bit_generator", None)
    if bits is not None:
        return bits.state
    if hasattr(source, "getstate"):
        return source.getstate()
    return source.get_state(legacy=False)


def _bit_generator_of(source: Any) -> Any:
    """The bit generator of one of NumPy's generators."""
    return getattr(source, "bit_generator", getattr(source, "_bit_generator", None))


def restore_state(source: Any, state: Any) -> None:
    if hasattr(source, "setstate"):
        source.setstate(state)
    elif hasattr(source, "set_state"):
        source.set_state(state)
    else:
        source.bit_generator.state = state


def _is_same_state(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return all(_is_same_state(a[key], b[key]) for key in a)
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)


class _ThreadState(threading.local):
    logs: tuple[RollbackLog, ...] = ()
    monitor: DrawMonitor | None = None
    is_private = False


_thread = _ThreadState()


class RollbackLog:
    """Within it, stores each generator's state before its first draw in this thread."""

    def __init__(self) -> None:
        self.states: dict[int, tuple[Any, Any]] = {}

    def __enter__(self) -> RollbackLog:
        self.outer, _thread.logs = _thread.logs, (*_thread.logs, self)
        return self

    def __exit__(self, *_: object) -> None:
        _thread.logs = self.outer

    def has_draws(self) -> bool:
        """Whether numbers were drawn."""
        return any(
            not _is_same_state(state, state_of(source)) for source, state in self.states.values()
        )

    def roll_back(self) -> None:
        """Restore the states: the draws are undone."""
        for source, state in reversed(self.states.values()):
            restore_state(source, state)

    def forget(self) -> None:
        """No run follows that repeats what was rolled back: sources that would replay it drop
        it."""
        for source, _ in self.states.values():
            if hasattr(source, "forget"):
                source.forget()


def is_logged() -> bool:
    """Whether this thread may have to roll back what it draws now."""
    return bool(_thread.logs)


def before_draw(source: Any) -> None:
    """Numbers are about to be drawn from a generator."""
    for journal in _thread.logs:
        if id(source) not in journal.states:
            _log_state(source, state_of(source))
            break


def _log_state(source: Any, state: Any) -> None:
    for journal in _thread.logs:
        journal.states.setdefault(id(source), (source, state))


class UnrecordedDraws(UnsupportedError):
    """Random numbers were drawn where a trace could not see it."""


class DrawMonitor:
    """While a function is traced: tells whether these generators, or the global ones, gave numbers
    that no equation stands for."""

    def __init__(self, sources: Sequence[Any]) -> None:
        self.sources = [*sources, *_global_sources()]
        self.accept_all()
        for source, state in zip(self.sources, self.states, strict=True):
            _log_state(source, state)

    def __enter__(self) -> DrawMonitor:
        self.outer, _thread.monitor = _thread.monitor, self
        return self

    def __exit__(self, *_: object) -> None:
        _thread.monitor = self.outer

    def accept_all(self) -> None:
        """All draws so far have been recorded."""
        self.states = [state_of(source) for source in self.sources]

    def accept(self, source: Any) -> None:
        """The draws from this generator have been recorded."""
        for at in self._indices_of(source):
            self.states[at] = state_of(self.sources[at])

    def check_source(self, source: Any) -> None:
        """Raise if unrecorded numbers were drawn from this generator; other generators are checked
        at the end."""
        for at in self._indices_of(source):
            if not _is_same_state(self.states[at], state_of(self.sources[at])):
                raise self._unrecorded(source)

    def _indices_of(self, source: Any) -> list[int]:
        """The indices, among the sources, of a generator and of those with the same bit
        generator."""
        bits = _bit_generator_of(source)
        return [
            at
            for at, known in enumerate(self.sources)
            if known is source or (bits is not None and _bit_generator_of(known) is bits)
        ]

    def check(self) -> None:
        """Raise if unrecorded numbers were drawn from any generator."""
        for source in _global_sources():
            if not any(source is known for known in self.sources) and not _is_unused(source):
                raise self._unrecorded(source)
        for source, state in zip(self.sources, self.states, strict=True):
            if not _is_same_state(state, state_of(source)):
                raise self._unrecorded(source)

    @staticmethod
    def _unrecorded(source: Any) -> UnrecordedDraws:
        return UnrecordedDraws(
            f"random numbers were drawn from {source!r} where a trace cannot see it",
            "Pass the generator as an argument, or draw from tracker.numpy.random",
        )


def draws_privately(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Decorator for a function that an op evaluates and that draws numbers for itself: it draws
    whenever the op is evaluated, as in a plain call, and no equation stands for the draws."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> _Result:
        monitor, before = _thread.monitor, _thread.is_private
        if monitor is not None:
            monitor.check()
        _thread.is_private = True
        try:
            return function(*args, **kwargs)
        finally:
            _thread.is_private = before
            if monitor is not None:
                monitor.accept_all()

    return call


def is_private() -> bool:
    """Whether an op that draws numbers for itself is being evaluated."""
    return _thread.is_private


def import_generators() -> None:
    """Import the global generators before a function is traced that may draw from them. NumPy
    imports its own at the first `np.random`; a trace that is running then would miss it."""
    importlib.import_module("numpy.random")  # which imports Python's


def _is_unused(source: Any) -> bool:
    """Whether a global generator that was just imported has given no numbers yet: none of its
    seeded words are used."""
    state = state_of(source)
    if isinstance(state, dict):
        return bool(state["state"]["pos"] == _WORDS and not state["has_gauss"])
    return bool(state[1][-1] == _WORDS and state[2] is None)


def _global_sources() -> list[Any]:
    sources: list[Any] = []
    if "numpy.random" in sys.modules:
        sources.append(np.random.mtrand._rand)
    if "random" in sys.modules:
        sources.append(sys.modules["random"])
    return sources


# Recording generators -----------------------------------------------------------------------------


def is_python_random(x: Any) -> bool:
    """Whether `x` is a generator of Python's `random`, with a state."""
    module = sys.modules.get("random")
    if module is None or isinstance(x, module.SystemRandom):
        return False
    return isinstance(x, module.Random)


def is_numpy_generator(x: Any) -> bool:
    """Whether `x` is a generator of NumPy's (not one of ours)."""
    module = sys.modules.get("numpy.random")
    return module is not None and type(x) in (module.Generator, module.mtrand.RandomState)


def is_bit_source(x: Any) -> bool:
    """Whether `x` is what NumPy's generators draw bits from: its state changes with each draw. (No
    placeholder exists for it while tracing.)"""
    module = sys.modules.get("numpy.random")
    return module is not None and isinstance(x, (module.BitGenerator, module.SeedSequence))


def recording_generator(x: Any) -> Any:
    """A generator that records the draws of one of NumPy's."""
    from tracker.random import generators

    return generators.wrap_generator(x)


def recording_argument(x: Any) -> Any:
    """An argument of a function that is differentiated; NumPy's generators, and bound methods of
    them, as ones that accept tracked values."""
    if tree.is_method(x) and is_numpy_generator(x.__self__):
        return getattr(recording_generator(x.__self__), x.__name__)
    return recording_generator(x) if is_numpy_generator(x) else x


class PatchedGlobals:
    """While a function is traced, NumPy's global functions record draws in this thread."""

    def __enter__(self) -> None:
        self.is_patched = "numpy.random" in sys.modules
        if self.is_patched:
            from tracker.random import generators

            generators.patch_globals()

    def __exit__(self, *_: object) -> None:
        if self.is_patched:
            from tracker.random import generators

            generators.restore_globals()


# The op -----------------------------------------------------------------------------------------


def _evaluate(
    *operands: Any, source: Any, method: str, names: Sequence[str], given: Any, type: Any
) -> Any:
    before_draw(source)
    made = getattr(source, method)(**given, **dict(zip(names, operands, strict=True)))
    return _SEED_RESULT if method in ("seed", "begin") else made


def _prepare(**params: Any) -> Callable[..., Any]:
    """The draw of a generator of NumPy's as a function of its operands."""
    source, given, names = params["source"], params["given"], params["names"]
    if not is_numpy_generator(source) or params["method"] == "seed":
        return functools.partial(_evaluate, **params)
    drawn = getattr(source, params["method"])

    def draw(*operands: Any) -> Any:
        before_draw(source)
        if not names:
            return drawn(**given)
        return drawn(**given, **dict(zip(names, operands, strict=True)))

    return draw


# Derivatives of a draw in the parameters of its distribution, the underlying standard draw held
# fixed (reparametrisation; Kingma and Welling, Auto-encoding variational Bayes, 2014).
_LOCATION: dict[str, Callable[[Any, Any], Any]] = {
    "loc": lambda y, p: np.ones_like(y),
    "scale": lambda y, p: (y - p["loc"]) / p["scale"],
}
_SCALE: dict[str, Callable[[Any, Any], Any]] = {"scale": lambda y, p: y / p["scale"]}


def _exponent(y: Any, p: Any) -> Any:
    """The derivative in `a` of a draw of the form e**(1 / a)."""
    return -y * np.log(np.where(y > 0, y, 1.0)) / p["a"]


_DERIVATIVES: dict[str, dict[str, Callable[[Any, Any], Any]]] = {
    **dict.fromkeys(("normal", "laplace", "logistic", "gumbel"), _LOCATION),
    **dict.fromkeys(("exponential", "rayleigh", "gamma"), _SCALE),
    "weibull": {"a": _exponent},
    "power": {"a": _exponent},
    "pareto": {"a": lambda y, p: _exponent(1 + y, p)},
    "multivariate_normal": {"mean": lambda y, p: np.ones_like(y)},
    "uniform": {
        "low": lambda y, p: (p["high"] - y) / (p["high"] - p["low"]),
        "high": lambda y, p: (y - p["low"]) / (p["high"] - p["low"]),
    },
    "lognormal": {
        "mean": lambda y, p: y,
        "sigma": lambda y, p: y * (np.log(y) - p["mean"]) / p["sigma"],
    },
}
_DEFAULT_PARAMETERS = {"loc": 0.0, "scale": 1.0, "low": 0.0, "high": 1.0, "mean": 0.0, "sigma": 1.0}


def _draw_derivative(name: str, y: Any, xs: Sequence[Any], params: Any) -> Any:
    """The derivative of a draw in the parameter `name`."""
    method = params["method"]
    rule = _DERIVATIVES.get(method, {}).get(name)
    if rule is None:
        raise UnsupportedError(
            f"a draw from {method} has no derivative in {name}",
            f"Use tracker.data({name}) where no gradient is wanted, or compute the draw from "
            "standard_normal or random",
        )
    known = {
        **_DEFAULT_PARAMETERS,
        **params["given"],
        **dict(zip(params["names"], xs, strict=True)),
    }
    return rule(y, known)


def _is_float(x: Any) -> bool:
    return np.result_type(aval_of(x)).kind in "fc"


def _vjp(g: Any, y: Any, xs: Any, wanted: Any, times: Any, **params: Any) -> list[Any]:
    return [
        project(times(g, _draw_derivative(name, y, xs, params)), x)
        if want and _is_float(x) and _is_float(y)  # counts have no derivative
        else None
        for name, x, want in zip(params["names"], xs, wanted, strict=True)
    ]


def _jvp(ts: Any, y: Any, xs: Any, times: Any, **params: Any) -> Any:
    if not _is_float(y):
        return None
    parts = [
        match_tangent(times(t, _draw_derivative(name, y, xs, params)), y)
        for name, t in zip(params["names"], ts, strict=True)
        if t is not None
    ]
    return sum(parts[1:], start=parts[0])


draw = declare(
    "draw",
    infer=lambda *types, type, **_: type,
    evaluate=_evaluate,
    jvp=Joint(_jvp),
    vjp=Joint(_vjp),
    lower=Host("NumPy's generators draw, in the function's order", effect=True, prepare=_prepare),
)


def has_lasting_effect(op: Op) -> bool:
    """Whether an op has an effect that cannot be rolled back, as draws can."""
    return op is not draw and has_effect(op)


_CONSTANT_ARGUMENTS = (
    "size",
    "axis",
    "dtype",
    "method",
    "replace",
    "shuffle",
    "endpoint",
    "check_valid",
)


_SEED_RESULT = np.zeros((), bool)  # the result of the equation for a seeding


def record_seed(source: Any, seed: Any) -> None:
    """Seed a generator and record that: what it draws from then on, and its state at the end, are
    the same on each call."""
    record_draw(source, "seed", {"seed": seed})


def record_draw(source: Any, method: str, arguments: dict[str, Any]) -> Any:
    """Draw numbers and record the draw; `arguments` by name, some of them tracked."""
    tracer = current_tracer()
    if tracer is not None and tracer.is_body_trace:
        raise UnsupportedInBody("the body draws random numbers")
    given = {
        name: _plain_argument(x) for name, x in arguments.items() if name in _CONSTANT_ARGUMENTS
    }
    operands = {}
    for name, x in arguments.items():
        if isinstance(x, Tracked) or (isinstance(x, np.ndarray) and x.dtype.kind in "biuf"):
            if name not in given:
                operands[name] = _without_history(x)
        elif name not in given:
            given[name] = x
    params = {"source": source, "method": method, "names": tuple(operands), "given": given}
    monitor = _thread.monitor
    if monitor is not None:
        monitor.check_source(source)
    before_draw(source)
    try:
        data = _evaluate(*map(data_of, operands.values()), **params, type=None)
    except EVALUATION_ERRORS as error:
        numbers = operands.values()
        record_call_failure(error, [value_of(x) if isinstance(x, Tracked) else x for x in numbers])
        raise
    if not tree.is_numeric(data):
        raise UnsupportedError(f"{method} drew a {type(data).__name__}", "Draw numbers")
    if monitor is not None:
        monitor.accept(source)
    return record_result(draw, tuple(operands.values()), {**params, "type": type_of(data)}, data)


def _without_history(x: Any) -> Any:
    """An operand that depends on no argument (`np.eye(2)` in a derivative) as a constant."""
    if not isinstance(x, Tracked) or not is_constant(value_of(x)):
        return x
    if current_tracer() is None:
        return data_of(x)
    return alias_to_primal(Value(value_of(x).data, CLOSED, (), NO_PARAMS), x)


def _plain_argument(x: Any) -> Any:
    """A size or a flag as plain Python, which a trace then guards."""
    if isinstance(x, Tracked):
        plain = data_of(x)
        if np.ndim(plain):
            return tuple(int(e) for e in x)
        return bool(x) if np.result_type(plain).kind == "b" else int(x)
    if isinstance(x, (tuple, list)):
        return tuple(map(_plain_argument, x))
    return x
