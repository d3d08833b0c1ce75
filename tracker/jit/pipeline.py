"""From an `ir.Function` to something callable: passes, partition, plan, text, machine code.

Owns: `optimise`, `compile_call` (a whole call with its argument structures) and `compile_values` (a
function of a flat tuple of values, for the executor). Start at `compile_call`.

A function that can be lowered whole becomes one native entry. Otherwise an `Executor` runs its
native segments and NumPy's calls in turn.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tracker.config import current
from tracker.draws import Journal
from tracker.ir import passes, repeats
from tracker.ir.expand import expand
from tracker.ir.factoring import factor_products
from tracker.ir.graph import Atom, Const, Function, Guard, Var
from tracker.ir.joining import batch_products, join_products
from tracker.ir.layouts import common_layouts
from tracker.ir.prune import unused_results
from tracker.ir.simplify import simplify
from tracker.ir.widening import widen
from tracker.jit import blas, cache, callable, engine, memory, native, parallel, rare, signature
from tracker.jit.layout import Plan, Slots
from tracker.jit.lower import lower
from tracker.jit.partition import HostCall, Segment, partition, why_host
from tracker.jit.plan import make_plan
from tracker.jit.signature import (
    ArrayOut,
    ConstOut,
    InputOut,
    OutLeaf,
    Outputs,
    SameOut,
    ScalarOut,
    Signature,
)
from tracker.jit.staging import GuardFailed, Output, Trace
from tracker.jit.strides import MemoryOrder, c_strides, is_packed, kept_order, wide_strides
from tracker.records import field, record
from tracker.tree import LEAF, Structure


def _roll(function: Function) -> Function:
    """Loops of what repeats itself, in a body that is long enough for it."""
    if len(function.body) < repeats.SHORT:
        return function
    rolled: Function = rare.roll(lambda eqn: not why_host(eqn)).body(function)
    return rolled


PASSES = (
    expand,
    widen,
    passes.common_subexpressions,
    passes.constant_folding,
    simplify,
    batch_products,
    join_products,
    factor_products,
    passes.common_subexpressions,
    passes.dead_code,
    unused_results,
    passes.dead_code,
    common_layouts,
    passes.Pass("roll", _roll),
    passes.dead_code,
)


@record()
class Piece:
    """A compiled native segment, for `explain`."""

    plan: Plan
    modules: tuple[Any, ...]
    entry: Any
    scratch: int


@record()
class Compiled:
    """What compiling a trace gave. `entry` is the native entry of a function lowered whole, else
    `run` executes stages; `seconds` are those of each step."""

    function: Function
    pieces: list[Piece]
    hosts: list[HostCall]
    entry: Any = None
    run: Callable[[Sequence[Any]], tuple[Any, ...]] | None = None
    seconds: dict[str, float] = field(default_factory=dict)


def optimise(function: Function) -> Function:
    """The function after all passes."""
    settings = current()
    _dump("trace", lambda: str(function))
    done = passes.run(function, PASSES, check=settings.check)
    _dump("ir", lambda: str(done))
    return done


def _dump(stage: str, text: Callable[[], str]) -> None:
    """Print a stage that the user asked to see (TRACKER_DUMP, `tracker.config(dump=...)`)."""
    if stage in current().dump:
        print(f"--- {stage}\n{text()}", file=sys.stderr)


def compile_call(trace: Trace) -> Compiled:
    """Compile a trace for the calls that it holds for."""
    started = time.perf_counter()
    function = optimise(trace.function)
    optimised = time.perf_counter()
    stages = partition(function)
    first = stages[0] if stages else None
    whole = isinstance(first, Segment) and first.function is function
    if whole and _is_direct(trace):
        piece = _native_call(trace, function)
        done = Compiled(function, [piece], [], entry=piece.entry)
    else:
        done = _executor(function, stages, _orders(trace))
    done.seconds = {"passes": optimised - started, "code": time.perf_counter() - optimised}
    return done


def _is_direct(trace: Trace) -> bool:
    """Whether a native entry can serve: it reads no params, and arrays where they lie."""
    return trace.call.native and not any(trace.owners) and all(map(_is_readable, trace.captures))


def _is_readable(array: Any) -> bool:
    return isinstance(array, int) or isinstance(signature.array_leaf(array), signature.Array)


def _native_call(trace: Trace, function: Function) -> Piece:
    call = trace.call
    leaves = [call.leaves[number] for number in trace.inputs]
    atoms = iter(function.outputs)
    out_leaves = [_out_leaf_of(out, atoms) for out in trace.outputs]
    orders = _orders(trace)
    written = tuple(
        (number, _array_out(atom, order))
        for number, atom, order in zip(
            trace.writes, atoms, orders[len(orders) - len(trace.writes) :], strict=True
        )
    )
    outputs = Outputs(trace.structure, tuple(out_leaves), writes=written, apart=trace.apart)
    inputs = call.offsets
    first = inputs[-1]
    arrays = [array for array in trace.captures if not isinstance(array, int)]
    fresh = iter(range(first, first + len(arrays)))
    out_first = first + len(arrays)
    shown = [i for i, out in enumerate(trace.outputs) if out.atom is not None]
    slots = Slots(
        tuple(inputs[number] for number in trace.inputs),
        tuple(isinstance(leaf, signature.Array) for leaf in leaves),
        tuple(inputs[c] if isinstance(c, int) else next(fresh) for c in trace.captures),
        tuple(
            not isinstance(c, int) or isinstance(call.leaves[c], signature.Array)
            for c in trace.captures
        ),
        (
            *(out_first + outputs.offsets[i] for i in shown),
            *(out_first + outputs.offsets[-1] + i for i in range(len(written))),
        ),
        (*(isinstance(out_leaves[i], ArrayOut) for i in shown), *(True for _ in written)),
    )
    sources = (*trace.inputs, *trace.captures)
    strides = [_strides(call.leaves[s] if isinstance(s, int) else s) for s in sources]
    return _piece(function, slots, call, outputs, arrays, strides, orders)


def _orders(trace: Trace) -> list[MemoryOrder]:
    """How the outputs of a trace's function are to lie: as in the plain function; of what is
    written, as the array that it is written into, if that has no gaps."""
    orders = [out.order for out in trace.outputs if out.atom is not None]
    return orders + [_without_gaps(trace.call.leaves[number]) for number in trace.writes]


def _without_gaps(leaf: signature.Leaf) -> MemoryOrder:
    if not isinstance(leaf, signature.Array) or leaf.strides is None:
        return None
    strides = _strides(leaf)
    return strides if is_packed(wide_strides(strides, leaf.shape), leaf.shape) else None


def _out_leaf_of(out: Output, atoms: Iterator[Atom]) -> OutLeaf:
    if out.kind == "constant":
        return ConstOut(out.constant)
    if out.kind == "input":
        return InputOut(out.constant)
    if out.kind == "view":
        layout: OutLeaf = out.constant.out
        return layout
    if out.kind == "same":
        return SameOut(out.constant)
    return _out_leaf(out.kind, next(atoms), out.order)


def _piece(
    function: Function,
    slots: Slots,
    call: Signature,
    outputs: Outputs,
    captures: Sequence[Any],
    strides: Sequence[tuple[int, ...]],
    wanted: Sequence[MemoryOrder],
) -> Piece:
    plan = make_plan(function, strides, wanted)
    lowered = lower(plan, slots)
    loans = native.loop_symbols(lowered.borrowed)
    symbols = dict(loans)
    library = blas.find() if lowered.symbols else None
    for name in lowered.symbols:
        if library is not None and name in library.symbols:
            symbols[name] = library.symbols[name]
        elif name in memory.NAMES:
            symbols.update(memory.symbols())
        elif name == parallel.NAME:
            symbols.update(parallel.symbols())
        else:
            symbols[name] = rare.routine_address(name)
    modules: list[engine.Module] = []
    keep: list[Any] = []
    for each in lowered.loops:
        kernels, table = native.without_sizes(each.text)
        bound = {**native.addresses(table), **loans}
        loops = cache.compile_or_load(kernels, level=each.level, symbols=bound)
        symbols.update((name, loops.address(name)) for name in each.exports)
        modules.append(loops)
        keep += [loops, *table.values()]
    size = sum(v.type.size for v in function.inputs) + lowered.scratch // 8
    entry = native.compile_entry(
        lowered.text,
        call,
        outputs,
        captures,
        symbols=symbols,
        keep=keep,
        release_gil=size > 50_000,
        raises=bool(lowered.borrowed),
        level=lowered.level,
    )
    for module in (entry.module, *modules):
        for stage in current().dump & {"llvm", "asm"}:
            _dump(stage, functools.partial(getattr, module, stage))
    return Piece(plan, (entry.module, *modules), entry, lowered.scratch)


def _strides(array: Any) -> tuple[int, ...]:
    """Those of an array, or of the leaf that stands for one, in elements; a number has none."""
    if isinstance(array, signature.Scalar):
        return ()
    if array.strides is None:
        return c_strides(array.shape)
    return tuple(stride // array.dtype.itemsize for stride in array.strides)


def _array_out(atom: Atom, order: MemoryOrder) -> ArrayOut:
    type = atom.type
    strides = None if order is None else tuple(step * type.dtype.itemsize for step in order)
    return ArrayOut(type.dtype, type.shape, strides)


def _out_leaf(kind: str, atom: Atom, order: MemoryOrder = None) -> OutLeaf:
    type = atom.type
    if kind == "array":
        return _array_out(atom, order)
    if kind == "python":
        return ScalarOut({"f": float, "i": int, "c": complex, "b": bool}[type.dtype.kind])
    return ScalarOut(type.dtype.type)


# Functions of values -----------------------------------------------------------------------------


def compile_values(function: Function) -> Callable[[Sequence[Any]], tuple[Any, ...] | None]:
    """A function of a flat list of values; it gives None where a guard does not hold."""
    done = optimise(function)
    run = _executor(done, partition(done)).run
    assert run is not None

    def values(xs: Sequence[Any]) -> tuple[Any, ...] | None:
        try:
            return run(xs)
        except GuardFailed:
            return None

    return values


def _executor(
    function: Function, stages: list[Segment | HostCall], orders: Sequence[MemoryOrder] = ()
) -> Compiled:
    """Run the stages in turn, over a table of values; results lie as `orders` says."""
    wanted = dict(zip(function.outputs, orders, strict=False))
    pieces: list[Piece] = []
    hosts: list[HostCall] = []
    steps: list[Callable[[dict[Var, Any]], None]] = []
    for stage in stages:
        if isinstance(stage, HostCall):
            hosts.append(stage)
            steps.append(_host_step(stage))
        elif any(isinstance(step, Guard) for step in stage.function.body) or stage.outputs:
            steps.append(_Lazy(stage, pieces, [wanted.get(v) for v in stage.outputs]))
    parameters = (*function.inputs, *function.captures)

    def run(values: Sequence[Any]) -> tuple[Any, ...]:
        table = dict(zip(parameters, values, strict=True))
        with Journal() as drawn:
            try:
                for step in steps:
                    step(table)
            except GuardFailed:  # another trace draws these numbers
                drawn.undo()
                raise
        found = [a.value if isinstance(a, Const) else table[a] for a in function.outputs]
        found[: len(orders)] = map(_laid, found, orders)
        return tuple(found)

    return Compiled(function, pieces, hosts, run=run)


def _laid(x: Any, order: MemoryOrder) -> Any:
    """A result in the memory order that it is to have."""
    if type(x) is not np.ndarray or kept_order(x) == order:
        return x
    if order is None:
        return np.ascontiguousarray(x)
    laid = np.ndarray(x.shape, x.dtype, strides=tuple(step * x.itemsize for step in order))
    laid[...] = x
    return laid


def _host_step(stage: HostCall) -> Callable[[dict[Var, Any]], None]:
    eqn = stage.eqn

    def step(table: dict[Var, Any]) -> None:
        xs = [o.value if isinstance(o, Const) else table[o] for o in eqn.operands]
        table[eqn.out] = eqn.op.evaluate(*xs, **eqn.params)

    return step


class _Lazy:
    """A segment, compiled when it first runs: only then are its inputs' exact classes known."""

    def __init__(self, segment: Segment, pieces: list[Piece], orders: list[MemoryOrder]) -> None:
        self.segment = segment
        self.orders = orders
        self.pieces = pieces
        self.calls: dict[Any, Any] = {}
        self.last: Callable[..., Any] = _guard_failed  # the call that took the last values

    def __call__(self, table: dict[Var, Any]) -> None:
        values = [table[v] for v in self.segment.inputs]
        results = self.last(*values)
        if results is GuardFailed:
            results = self._by_class(values)
        table.update(zip(self.segment.outputs, results, strict=True))

    def _by_class(self, values: Sequence[Any]) -> Any:
        """The results by the call that is made for values of these classes and layouts."""
        call, leaves = signature.signature_of([_plain_layout(x) for x in values], {})
        if not call.native:  # an int that has outgrown 64 bits
            raise GuardFailed
        native_call = self.calls.get(call)
        if native_call is None:
            native_call = self.calls[call] = self._compile(call)
        results = native_call(*leaves)
        if results is GuardFailed:
            raise GuardFailed
        self.last = native_call
        return results

    def _compile(self, call: Signature) -> Any:
        segment = self.segment
        leaves = tuple(
            _array_out(v, order)
            if v.type.shape
            else _out_leaf("python" if v.type.weak else "numpy", v)
            for v, order in zip(segment.outputs, self.orders, strict=True)
        )
        structure = Structure(tuple, (), (LEAF,) * len(leaves), len(leaves))
        outputs = Outputs(structure, leaves)
        first = call.offsets[-1]
        slots = Slots(
            call.offsets[:-1],
            tuple(isinstance(leaf, signature.Array) for leaf in call.leaves),
            (),
            (),
            tuple(first + at for at in outputs.offsets[:-1]),
            tuple(isinstance(leaf, ArrayOut) for leaf in leaves),
        )
        function = Function(
            segment.function.name, segment.inputs, (), segment.function.body, segment.outputs
        )
        strides = [_strides(leaf) for leaf in call.leaves]
        piece = _piece(function, slots, call, outputs, (), strides, self.orders)
        self.pieces.append(piece)
        return callable.builtin(piece.entry, segment.function.name, _guard_failed)


def _guard_failed(*_: Any) -> type[GuardFailed]:
    return GuardFailed


def _plain_layout(x: Any) -> Any:
    """A value as a native segment takes it."""
    if isinstance(x, np.ndarray):
        if isinstance(signature.array_leaf(x), signature.Array):
            return x
        return np.array(x, dtype=x.dtype.newbyteorder("="), order="C")
    return np.bool_(x) if type(x) is bool else x  # Python's own would be part of the signature
