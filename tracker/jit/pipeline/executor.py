"""The executor: runs native segments and NumPy calls in turn, for programs that are not one call.

`executor` runs a program's stages over a table of values; a `CompiledLoop` runs a loop, of a flat
list of values.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.errors import RuleError
from tracker.ir.graph import Const, Function, Guard, Var
from tracker.ir.lowering import Loop
from tracker.jit.abi import native_callable
from tracker.jit.abi.frame_call import FrameCall
from tracker.jit.codegen.artifact import Bodies, LoweredProgram
from tracker.jit.guards import signature
from tracker.jit.guards.signature import (
    ArrayLeaf,
    ArrayOut,
    Leaf,
    Outputs,
    ScalarLeaf,
    ScalarOut,
    Signature,
    array_out,
    scalar_out,
)
from tracker.jit.kernels.python_callbacks import host_function
from tracker.jit.llvm.engine import OPTIMISED, QUICK
from tracker.jit.pipeline.link import CompiledTrace, LinkedProgram, bind, bind_frame
from tracker.jit.pipeline.lowered_cache import load_or_lower
from tracker.jit.pipeline.partition import HostCall, Segment
from tracker.jit.pipeline.program import CallingLayout, Program
from tracker.jit.runtime.progress import compile_stage
from tracker.jit.schedule.cost import operation_count
from tracker.jit.schedule.plan_data import FrameSlots
from tracker.jit.tracing.trace import GuardFailed
from tracker.ops.shape.memory_order import MemoryOrder, in_memory_order
from tracker.random.draw_ops import RollbackLog, has_lasting_effect
from tracker.support.structs import field, record, replace
from tracker.tape.observers import CALL_FAILURES
from tracker.tape.record import GUARD_CONVERSIONS
from tracker.tree import LEAF, Structure

if TYPE_CHECKING:
    from tracker.jit.pipeline.meter import Meter

_MAX_QUICK_OPERATIONS = 10**8  # that take as long as optimising the code


class CompiledLoop:
    """The native code of a function that runs a loop, and captures nothing: compiled quickly, and
    optimised once it has much to compute, all calls together. (It does not look at the clock: a
    program computes the same numbers in every run.)

    steps  of the loop that were run, or are about to
    """

    def __init__(self, function: Function) -> None:
        self.steps = 0
        self._program = Program(function)
        lengths = [eqn.params["length"] for eqn in function.eqns if isinstance(eqn.op.lower, Loop)]
        self._length = max(math.prod(lengths), 1)
        self._operations = 0.0  # of a step, once they are counted
        self._level = QUICK
        self._calls: dict[tuple[Leaf, ...], Callable[..., tuple[Any, ...] | None]] = {}
        self._last: FrameCall | None = None

    def __call__(self, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """The results for a flat list of values; None where a guard fails."""
        if self._wanted_level() != self._level:
            self._level = self._wanted_level()
            self._calls.clear()
            self._last = None
        if self._last is not None and self._last.fits(values):
            return self._last(values)
        plain = [_plain_layout(x) for x in values]
        leaves = tuple(map(signature.leaf_of, plain))
        if leaves not in self._calls:
            self._calls[leaves] = self._compiled(leaves)
        call = self._calls[leaves]
        self._last = call if isinstance(call, FrameCall) else None
        return call(plain)

    def _wanted_level(self) -> int:
        has_much = self.steps * self._operations > _MAX_QUICK_OPERATIONS
        return OPTIMISED if has_much else self._level

    def _level_for(self, operations: int) -> int:
        """The level for a call of so many operations."""
        self._operations = operations / self._length
        self._level = self._wanted_level()
        return self._level

    def _compiled(self, leaves: tuple[Leaf, ...]) -> Callable[..., tuple[Any, ...] | None]:
        """What runs the function: one native call, if all of it is native. (No pass runs where its
        text is in the cache.)"""
        native = tuple([leaf for leaf in leaves if isinstance(leaf, ArrayLeaf | ScalarLeaf)])
        if len(native) < len(leaves):
            return lambda _: None  # an int beyond 64 bits
        program, outputs = _in_layout(self._program, native)
        with compile_stage("compiling with LLVM", program.traced.name):
            lowered = _lowered(program, self._level)
            if lowered is None:
                return self._executed()
            before, level = self._level, self._level_for(lowered.operations)
            lowered = lowered if level == before else _lowered(program, level)
            assert lowered is not None
            return bind_frame(program, lowered, native, outputs, level)

    def _executed(self) -> Callable[..., tuple[Any, ...] | None]:
        level = self._level_for(operation_count(self._program.function))
        execute = executor(self._program, level=level).run
        assert execute is not None

        def run(values: Sequence[Any]) -> tuple[Any, ...] | None:
            try:
                return execute(values)
            except GuardFailed:
                return None

        return run


def executor(
    program: Program,
    orders: Sequence[MemoryOrder] = (),
    lengths_vary: bool = False,
    level: int = OPTIMISED,
    meter: Meter | None = None,
) -> CompiledTrace:
    """Run the stages in turn, over a table of values; results have the memory orders `orders`.
    `lengths_vary`: see `compile_call`. `meter`: what times the steps."""
    function = program.function
    wanted = dict(zip(function.outputs, orders, strict=False))
    pieces: list[LinkedProgram] = []
    hosts: list[HostCall] = []
    steps: list[Callable[[dict[Var, Any]], None]] = []
    for stage in program.stages:
        if isinstance(stage, HostCall):
            hosts.append(stage)
            step = _host_step(stage)
            steps.append(step if meter is None else meter.timed(stage, step))
        elif isinstance(stage, Guard):
            steps.append(_guard_step(stage))
        elif any(isinstance(step, Guard) for step in stage.function.body) or stage.outputs:
            orders_of_stage = [wanted.get(v) for v in stage.outputs]
            part = Program.of_segment(_own_function(stage))
            call = _NativeCall(part, level, orders_of_stage, lengths_vary, pieces, meter)
            steps.append(_segment_step(stage, call))
    parameters = (*function.inputs, *function.captures)

    def run(values: Sequence[Any]) -> tuple[Any, ...]:
        table = dict(zip(parameters, values, strict=True))
        with RollbackLog() as log:
            try:
                for step in steps:
                    step(table)
            except GuardFailed:  # another trace draws these numbers again
                log.roll_back()
                raise
        results = [a.value if isinstance(a, Const) else table[a] for a in function.outputs]
        results[: len(orders)] = map(in_memory_order, results, orders)
        return tuple(results)

    return CompiledTrace(program, pieces, hosts, run=run)


def _host_step(stage: HostCall) -> Callable[[dict[Var, Any]], None]:
    eqn, function = stage.eqn, host_function(stage.eqn)

    def step(table: dict[Var, Any]) -> None:
        xs = [o.value if isinstance(o, Const) else table[o] for o in eqn.operands]
        try:
            table[eqn.out] = function(*xs)
        except RuleError:
            raise
        except CALL_FAILURES as error:
            if has_lasting_effect(eqn.op):
                raise
            raise GuardFailed from error

    return step


def _guard_step(guard: Guard) -> Callable[[dict[Var, Any]], None]:
    convert, operand = GUARD_CONVERSIONS[guard.kind], guard.operand
    assert isinstance(operand, Var)

    def step(table: dict[Var, Any]) -> None:
        if convert(table[operand]) != guard.expected:
            raise GuardFailed

    return step


def _guard_failed(*_: Any) -> type[GuardFailed]:
    return GuardFailed


def _own_function(segment: Segment) -> Function:
    """The function of a segment, which is given all that it reads, and gives all that is read."""
    function = segment.function
    return replace(function, inputs=segment.inputs, captures=(), outputs=segment.outputs)


def _segment_step(segment: Segment, call: _NativeCall) -> Callable[[dict[Var, Any]], None]:
    def step(table: dict[Var, Any]) -> None:
        results = call.run([table[v] for v in segment.inputs])
        table.update(zip(segment.outputs, results, strict=True))

    return step


@record(eq=False)
class _NativeCall:
    """A program as a native call, compiled when it first runs: only then are the classes of its
    inputs known.

    orders  of the results in memory
    pieces  gets what is linked
    """

    program: Program
    level: int
    orders: Sequence[MemoryOrder] = ()
    lengths_vary: bool = False
    pieces: list[LinkedProgram] = field(default_factory=list)
    meter: Meter | None = None
    calls: dict[Signature, Any] = field(default_factory=dict)
    last: Callable[..., Any] = _guard_failed  # the call for the last classes

    def run(self, values: Sequence[Any]) -> Sequence[Any]:
        """The results for a flat list of values."""
        results = self.last(*values)
        found: Sequence[Any] = self._run_by_class(values) if results is GuardFailed else results
        return found

    def _code(self, call: Signature) -> Any:
        """The native function for calls of this signature."""
        if not call.is_native:  # an int beyond 64 bits
            raise GuardFailed
        if call not in self.calls:
            self.calls[call] = self._compiled(call)
        return self.calls[call]

    def _run_by_class(self, values: Sequence[Any]) -> Any:
        plain = [_plain_layout(x) for x in values]
        call, leaves = signature.signature_of(plain, {})
        native_call = self._code(call)
        if native_call is self.last and all(map(operator.is_, plain, values)):
            raise GuardFailed  # it has failed already
        results = native_call(*leaves)
        if results is GuardFailed:
            raise GuardFailed
        self.last = native_call
        return results

    def _compiled(self, call: Signature) -> Any:
        program, leaves = _in_layout(self.program, call.leaves, self.orders, self.lengths_vary)
        structure = Structure(tuple, (), (LEAF,) * len(leaves), len(leaves))
        outputs, name = Outputs(structure, leaves), program.traced.name
        with compile_stage("compiling with LLVM", name):
            if self.meter is None:
                lowered = _lowered(program, self.level)
                assert lowered is not None
                linked = bind(program, lowered, call, outputs, level=self.level)
            else:
                linked = self.meter.bind(program, call, outputs)
        self.pieces.append(linked)
        return native_callable.make_builtin(linked.entry, name, _guard_failed)


def _in_layout(
    program: Program,
    inputs: Sequence[Leaf],
    orders: Sequence[MemoryOrder] = (),
    lengths_vary: bool = False,
) -> tuple[Program, tuple[ArrayOut | ScalarOut, ...]]:
    """The program in the frame of a call with these leaves, and the leaves of its results."""
    results = program.traced.outputs
    orders = orders or [None] * len(results)
    outputs = tuple(
        [
            array_out(v.type, order) if v.type.shape else scalar_out(v.type, v.type.weak)
            for v, order in zip(results, orders, strict=True)
        ]
    )
    offsets = signature.slot_offsets(inputs)
    slots = FrameSlots(
        inputs=offsets[:-1],
        input_is_array=tuple(isinstance(leaf, ArrayLeaf) for leaf in inputs),
        captures=(),
        capture_is_array=(),
        outputs=tuple(offsets[-1] + at for at in signature.slot_offsets(outputs)[:-1]),
        output_is_array=tuple(isinstance(leaf, ArrayOut) for leaf in outputs),
    )
    strides = tuple(map(signature.leaf_strides, inputs))
    layout = CallingLayout(slots, strides, tuple(orders), lengths_vary)
    return program.in_layout(layout), outputs


def _lowered(program: Program, level: int) -> LoweredProgram | None:
    return load_or_lower(program, Bodies.APART if level == QUICK else Bodies.INSIDE)


def _plain_layout(x: Any) -> Any:
    """A value as a native segment takes it, which gives numbers for arrays without axes."""
    if isinstance(x, np.ndarray):
        if not x.ndim:
            return x[()]
        if isinstance(signature.array_leaf(x), signature.ArrayLeaf):
            return x
        return np.array(x, dtype=x.dtype.newbyteorder("="), order="C")
    return np.bool_(x) if type(x) is bool else x  # a Python bool would be part of the signature
