"""Programs: functions of numbers and arrays as they were recorded, run by JAX.

A `JaxProgram` is one trace. `Smooth` is a function with derivatives in forward mode to any order,
and `with_pullback` gives reverse mode: the derivatives are programs too, of tracker's own
derivatives, so that kinks, custom rules and constants are what they are in tracker. They are traced
when JAX first asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from itertools import compress
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from tracker import tree
from tracker.autodiff.pullbacks import jvp, pullback
from tracker.autodiff.reverse import strong_zeros_at_once
from tracker.config import current
from tracker.errors import CompileError, UnsupportedError, message
from tracker.interop.replay import CONSTANT, DtypeMap, Replay
from tracker.ir.fingerprint import fingerprint
from tracker.ir.graph import Atom, Eqn, Function, Guard, Var, operands_of
from tracker.ir.passes import manager
from tracker.ir.passes.common_subexpressions import common_subexpressions
from tracker.ir.passes.dead_code import dead_code
from tracker.ir.passes.loops.shared_bodies import dedupe_bodies
from tracker.ir.types import Type, type_of
from tracker.jit import AliasOut, ConstantOut, InputOut, TracedRun, traced_run
from tracker.support.structs import record, replace
from tracker.tape.record import aval_of, data_of

Flat = Callable[..., Any]  # of numbers and arrays, to any structure of them
_PASSES = (
    dedupe_bodies,
    common_subexpressions,
    dead_code,
)


@record(frozen=True)
class Options:
    """How programs run: the dtypes, and the precision of products."""

    kind: DtypeMap
    precision: str | None


class JaxProgram:
    """One trace of a function at examples, called with JAX's arrays in their place.

    It gives the leaves of the result, NaN if a condition of the trace does not hold, and whether
    they all hold. conditions: their texts; constants: the values that do not depend on arguments;
    types: those of the results.
    """

    def __init__(self, f: Flat, examples: Sequence[Any], options: Options) -> None:
        self.examples, self.options = examples, options
        with strong_zeros_at_once():
            run = traced_run(f, tuple(map(_copied, examples)), {})
        _refuse_effects(run, getattr(f, "__name__", "the function"))
        trace = run.required_trace
        self.function, self.structure = _simplified(trace.function), trace.structure
        nothing = [None] * self.structure.count  # in place of values, which would keep the tape
        self.template = tree.unflatten(self.structure, nothing, run.result)
        self.results = _renewed(trace.outputs, self.function.outputs)
        self.arguments = [n if n < len(examples) else None for n in trace.inputs]
        captured = [n for n in trace.inputs if n >= len(examples)] + trace.captures
        found = (run.leaves[c] if isinstance(c, int) else c for c in captured)
        self.captured = [_copied(data_of(x)) for x in found]
        self.constants: dict[Var, Any] = {}
        self.types = list(map(self._type, self.results))
        kind = options.kind
        specs = [jax.ShapeDtypeStruct(np.shape(x), kind(np.result_type(x))) for x in examples]
        jax.eval_shape(self._trace_once, *specs)

    def __call__(self, *xs: Any) -> tuple[list[Any], Any]:
        replay = self.start(xs)
        with self.precision:
            replay.steps(self.function.body)
            made = self.read_results(replay, xs)
        return marked(made, replay.ok), jnp.asarray(replay.ok)

    def rebuild(self, leaves: Sequence[Any]) -> Any:
        """The result, of its leaves."""
        return tree.unflatten(self.structure, leaves, self.template)

    @property
    def precision(self) -> Any:
        return jax.default_matmul_precision(self.options.precision)

    def start(self, xs: Sequence[Any]) -> Replay:
        """A replay that knows the arguments, and what does not depend on them."""
        replay = Replay(self.options.kind)
        replay.values.update(self.constants)
        captured = iter(self.captured)
        given = [next(captured) if n is None else xs[n] for n in self.arguments]
        variables = *self.function.inputs, *self.function.captures
        replay.values.update(zip(variables, (*given, *captured), strict=True))
        return replay

    def _trace_once(self, *xs: Any) -> list[Any]:
        """A run that finds what has no rule, the conditions, and the constants."""
        replay = self.start(xs)
        replay.steps(self.function.body)
        self.conditions = list(replay.conditions)
        self.constants = {v: x for v, x in replay.values.items() if isinstance(x, CONSTANT)}
        return self.read_results(replay, xs)

    def read_results(
        self, replay: Replay, xs: Sequence[Any], which: slice = slice(None)
    ) -> list[Any]:
        """Leaves of the result."""
        return [self._read(result, replay, xs) for result in self.results[which]]

    def _read(self, result: Any, replay: Replay, xs: Sequence[Any]) -> Any:
        if result.atom is not None:
            return replay.typed(replay.read(result.atom), result.atom.type)
        if isinstance(result.leaf, AliasOut):
            return self._read(self.results[result.leaf.leaf], replay, xs)
        x = xs[result.leaf.leaf] if isinstance(result.leaf, InputOut) else result.leaf.value
        return replay.typed(x, self._type(result))

    def _type(self, result: Any) -> Type:
        """The type of a leaf of the result; refuses what is neither computed nor a number."""
        if result.atom is not None:
            return cast(Type, result.atom.type)
        leaf = result.leaf
        if isinstance(leaf, AliasOut):
            return self._type(self.results[leaf.leaf])
        if isinstance(leaf, InputOut) and leaf.leaf < len(self.examples):
            return type_of(self.examples[leaf.leaf])
        if isinstance(leaf, ConstantOut) and tree.is_numeric(leaf.value):
            return type_of(leaf.value)
        is_object = isinstance(leaf, ConstantOut)
        what = type(leaf.value).__name__ if is_object else "container that it captures"
        raise UnsupportedError(
            f"the function returns a {what}", "Return numbers and arrays, or copies"
        )

    def is_same(self, other: JaxProgram) -> bool:
        """Whether both were traced with the same captured state."""
        one, two = fingerprint(self.function), fingerprint(other.function)
        same = one == two if one and two else str(self.function) == str(other.function)
        pairs = zip(self.captured, other.captured, strict=False)
        return same and all(np.array_equal(a, b, equal_nan=is_float(a)) for a, b in pairs)


def _simplified(function: Function) -> Function:
    """The function with fewer equations: XLA's time to compile grows with their number."""
    return manager.run(function, _PASSES, check=current().check)


def _renewed(results: Sequence[Any], atoms: Sequence[Atom]) -> list[Any]:
    """The results, read from the outputs of another version of the function."""
    arriving = iter(atoms)
    return [r if r.atom is None else replace(r, atom=next(arriving)) for r in results]


def _copied(x: Any) -> Any:
    return np.copy(x) if isinstance(x, np.ndarray) else x


def is_float(x: Any) -> bool:
    """Of NumPy's numbers and arrays, and of JAX's."""
    return bool(jnp.issubdtype(jnp.result_type(x), jnp.inexact))


def marked(ys: Sequence[Any], ok: Any) -> list[Any]:
    """Results, with NaN for all floats unless `ok`. A product, for tangents must be linear."""
    if ok is True:
        return list(ys)
    factor = jnp.where(ok, 1.0, jnp.nan)
    return [y * factor.astype(y.dtype) if is_float(y) else y for y in ys]


def _refuse_effects(run: TracedRun, name: str) -> None:
    if run.trace is None:
        raise CompileError(message(f"{name} cannot be converted: {run.failure_reason}"))
    if run.trace.writes or run.trace.state_writes or not run.trace.is_stable:
        what = "its arguments" if run.trace.writes else "what it captures"
        raise UnsupportedError(
            f"{name} writes into {what}", "Return the new values: JAX's arrays are constant"
        )


# Derivatives in forward mode ----------------------------------------------------------------------


class Smooth:
    """A function in JAX with derivatives in forward mode. `call` is as that of its program."""

    def __init__(self, f: Flat, examples: Sequence[Any], options: Options) -> None:
        self.f, self.examples, self.options = f, examples, options
        self.program = JaxProgram(f, examples, options)
        self.moving = list(map(is_float, examples))
        self.call = with_pushforward(self.program, self.push)

    def push(self, xs: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """The tangents of the floats among the results, given those of all arguments."""
        found: list[Any] = self._tangent.call(*xs, *compress(ts, self.moving))[0]
        return found

    @cached_property
    def _tangent(self) -> Smooth:
        f, count, moving = self.f, len(self.examples), self.moving

        def push(*given: Any) -> Any:
            tangents = iter(given[count:])
            along = [next(tangents) if moves else None for moves in moving]
            found = tree.leaves(jvp(f, given[:count], along)[1], objects=True)
            return tuple(t for t in found if is_float(aval_of(t)))

        return Smooth(push, [*self.examples, *compress(self.examples, moving)], self.options)


def with_pushforward(run: Callable[..., Any], push: Callable[..., Any]) -> Any:
    """`run`, which gives a list of results and anything else. JAX takes the tangents of the floats
    in that list from `push(arguments, tangents)`; all other tangents are zero."""
    function: Any = jax.custom_jvp(run)

    def rule(xs: Any, ts: Any) -> Any:
        made = function(*xs)
        arrived = iter(push(xs, ts))
        zeros = [jax.tree.map(_zero_tangent, x) for x in made]
        both = zip(made[0], zeros[0], strict=True)
        zeros[0] = [next(arrived) if is_float(y) else zero for y, zero in both]
        return made, tuple(zeros)

    function.defjvp(rule)
    return function


def _zero_tangent(x: Any) -> Any:
    return jnp.zeros_like(x) if is_float(x) else np.zeros(x.shape, jax.dtypes.float0)


# Reverse mode -------------------------------------------------------------------------------------


def with_pullback(value: Smooth) -> Any:
    """The function, with a derivative in reverse mode whose own derivatives are in forward mode."""
    pull = cache(lambda: Pullback(value))

    function = jax.custom_vjp(lambda *xs: value.call(*xs))

    def forward(*xs: Any) -> Any:
        made, ok, saved = pull().forward(*xs)
        return (made, ok), (xs, ok, saved)

    def backward(kept: Any, cotangents: Any) -> Any:
        seeds = list(map(jnp.conj, compress(cotangents[0], map(is_float, value.program.types))))
        (found,) = pull().backward(*kept, seeds)
        arrived = map(jnp.conj, found)
        return tuple(next(arrived) if moves else None for moves in value.moving)

    function.defvjp(forward, backward)
    return function


class Pullback:
    """The pullback of a function: a trace of value and cotangents together, in two parts.

    `forward` runs the equations that do not depend on the seeds, and gives the results, whether the
    conditions hold, and the values that `backward` reads. (JAX has the conjugate of our cotangents
    of complex numbers.)
    """

    def __init__(self, value: Smooth) -> None:
        self.value = value
        seeds = [np.ones(t.shape, t.dtype)[()] for t in value.program.types if is_float(t)]
        self.examples = [*value.examples, *seeds]
        if not value.program.is_same(JaxProgram(value.f, value.examples, value.options)):
            raise UnsupportedError(
                "what the function captures has changed since it was converted",
                "Call tracker.to_jax again, or pass as an argument what changes",
            )
        self.both = _value_and_cotangents(value.f, value.moving)
        self.program = JaxProgram(self.both, self.examples, value.options)
        self.known, self.late, self.saved = _split(self.program, len(value.examples))
        self.forward = with_pushforward(self._forward, value.push)
        self.backward = with_pushforward(self._backward, self._push)

    def _forward(self, *xs: Any) -> Any:
        replay = self.program.start([*xs, *self.examples[len(xs) :]])
        with self.program.precision:
            replay.steps(self.known)
            made = self.program.read_results(replay, xs, slice(len(self.value.program.types)))
        saved = [replay.values[var] for var in self.saved]
        return marked(made, replay.ok), jnp.asarray(replay.ok), saved

    def _backward(self, xs: Any, ok: Any, saved: Any, seeds: Any) -> Any:
        given = [*xs, *seeds]
        replay = self.program.start(given)
        replay.values.update(zip(self.saved, saved, strict=True))
        replay.check(ok, "", "")
        with self.program.precision:
            replay.steps(self.late)
            rest = slice(len(self.value.program.types), None)
            found = self.program.read_results(replay, given, rest)
        return (marked(found, replay.ok),)

    def _push(self, given: Any, tangents: Any) -> list[Any]:
        (xs, *_, seeds), (of_xs, *_, of_seeds) = given, tangents
        return self._cotangents.push([*xs, *seeds], [*of_xs, *of_seeds])

    @cached_property
    def _cotangents(self) -> Smooth:
        both = self.both
        return Smooth(lambda *given: both(*given)[1], self.examples, self.value.options)


def _value_and_cotangents(f: Flat, moving: list[bool]) -> Flat:
    """The function of arguments and seeds that gives the leaves of the result, and the cotangents
    of the arguments that are `moving`. Its closure has the function itself, where a trace looks for
    user code."""

    def both(*given: Any) -> Any:
        y, back = pullback(f, *given[: len(moving)])
        leaves, structure = tree.flatten(y, objects=True)
        seeds = iter(given[len(moving) :])
        along = [next(seeds) if is_float(aval_of(leaf)) else None for leaf in leaves]
        found = back(tree.unflatten(structure, along, y))
        return tuple(leaves), tuple(compress(found, moving))

    return both


def _split(program: JaxProgram, first_seed: int) -> tuple[list[Any], list[Any], list[Var]]:
    """The steps that do not depend on the seeds, those that do, and the variables of the first that
    the second read."""
    inputs = zip(program.function.inputs, program.arguments, strict=True)
    late = {var for var, n in inputs if n is not None and n >= first_seed}
    known: list[Eqn | Guard] = []
    rest: list[Eqn | Guard] = []
    for step in program.function.body:
        depends = any(atom in late for atom in operands_of(step))
        (rest if depends else known).append(step)
        if depends and isinstance(step, Eqn):
            late.add(step.out)
    made = {step.out for step in known if isinstance(step, Eqn)} - program.constants.keys()
    read: dict[Any, None] = {atom: None for step in rest for atom in operands_of(step)}
    read.update((result.atom, None) for result in program.results)
    return known, rest, [atom for atom in read if atom in made]
