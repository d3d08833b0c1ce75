"""Planning: one pass over the equations of a function that assigns locations and makes kernels.

Kernels are found by (space, level): all values of one shape that are ready at one level share one
loop nest (`elementwise_fusion.py`). `placement.py` stores and copies values, and `inplace.py` plans
updates in place. Start at `Planner.plan_step`.

Invariants: levels never decrease along uses, so the order of levels is a legal schedule; planning
is linear in the number of equations (a cheap expression is inlined, an expensive one is stored).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tracker.ir.graph import (
    Atom,
    Const,
    Eqn,
    Function,
    Guard,
    Var,
    calls_python,
    has_side_effects,
    may_bail_out,
)
from tracker.ir.lowering import (
    Branch,
    Compact,
    Contract,
    LiteralTable,
    Loop,
    Lowering,
    Map,
    Pick,
    Reduce,
    Scan,
    Scatter,
    View,
    While,
)
from tracker.ir.types import Bundle
from tracker.jit.schedule.cost import (
    CostModel,
    is_math,
    read_in_slices,
    rows_of_loop,
)
from tracker.jit.schedule.elementwise_fusion import (
    fuse_map,
    fuse_reduction_input,
    fuse_view,
    strided_alias,
)
from tracker.jit.schedule.inplace import InPlaceBuffer, InPlaceBuffers
from tracker.jit.schedule.placement import Placement
from tracker.jit.schedule.plan_data import (
    UNROLL_LIMIT,
    Buffer,
    CarryMoves,
    ControlFlow,
    Expression,
    InMemory,
    Kernel,
    Location,
    Plan,
    Store,
    Unrolled,
    UnrollLimits,
    buffer_location,
    carry_moves,
    memory_of,
)
from tracker.jit.schedule.reduction_fusion import fuse_reductions
from tracker.jit.schedule.row_windows import RowWindow, row_window
from tracker.jit.schedule.scan import plan_scan, reversed_scans
from tracker.jit.schedule.shared_plans import kept_plan
from tracker.jit.schedule.steps import StepPlanners
from tracker.jit.schedule.write_chains import arrays_to_keep
from tracker.ops.shape.memory_order import MemoryOrder, c_strides

_VECTOR_LIMIT = 4  # elements; unroll limit of vectors where transcendental functions are vectorised
_EQNS_PER_MATH = 40  # equations of vectors per transcendental one; beyond, they are unrolled
_MAX_MATH_LOOPS = 40  # transcendental functions of vectors; beyond, they are unrolled
_BODY_LIMIT = (
    16  # elements; unroll limit in a loop's body, which should stay in the instruction cache
)
_MAX_UNROLLED = 12_000  # elements of all unrolled values of straight-line code
_MAX_UNROLLED_IN_BODY = 500  # elements of all unrolled values of a body, or of the code around it


def make_plan(
    function: Function,
    strides: Sequence[tuple[int, ...]] | None = None,
    output_orders: Sequence[MemoryOrder] = (),
    lengths_vary: bool = False,
    *,
    step_planners: StepPlanners,
    body: bool = False,
    carried: CarryMoves = (),
) -> Plan:
    """Plan a function all of whose equations can be lowered.

    strides: those of its inputs, then of its captures, in elements (default: C order);
    output_orders: those wanted of its outputs (None or left out: C order); lengths_vary: the code
    is to serve other lengths, too, so little is unrolled; step_planners: for equations that are not
    loop nests; body: of a loop or branch; carried: the arrays of a loop that its body updates
    where they are.
    """
    if strides is None:
        strides = [c_strides(v.type.shape) for v in (*function.inputs, *function.captures)]
    limit = _BODY_LIMIT if body else _VECTOR_LIMIT if lengths_vary else UNROLL_LIMIT
    limits = _unroll_limits(function, limit, body)
    planner = Planner(function, strides, output_orders, limits, step_planners, body, carried)
    for step in planner.in_place.chains.body:
        planner.plan_step(step)
    planner.finish()
    return planner.plan


def _unroll_limits(function: Function, limit: int, body: bool) -> UnrollLimits:
    """The unroll limits of a function: lower in a long program, to keep its code short."""
    sizes = Counter(eqn.out.type.size for eqn in function.eqns)
    most = _MAX_UNROLLED_IN_BODY if body or function.functions else _MAX_UNROLLED
    while limit > 1 and sum(n * size for size, n in sizes.items() if size <= limit) > most:
        limit //= 2
    return UnrollLimits(_VECTOR_LIMIT if _prefers_vector_loops(function, limit) else limit, limit)


def _prefers_vector_loops(function: Function, limit: int) -> bool:
    """Whether vectors that could be unrolled have transcendental functions, which are faster by
    fours: not so many that loops would take seconds to compile, nor so few that the rest is quick
    arithmetic, which loops would hold up."""
    vectors = [
        eqn
        for eqn in function.eqns
        if eqn.out.type.ndim == 1 and _VECTOR_LIMIT < eqn.out.type.size <= limit
    ]
    math = sum(map(is_math, vectors))
    return 0 < math <= _MAX_MATH_LOOPS and len(vectors) <= _EQNS_PER_MATH * math


class Planner(Placement):
    """Plans a function equation by equation."""

    def __init__(
        self,
        function: Function,
        strides: Sequence[tuple[int, ...]],
        output_orders: Sequence[MemoryOrder],
        unroll_limits: UnrollLimits,
        step_planners: StepPlanners,
        body: bool,
        carried: CarryMoves,
    ) -> None:
        super().__init__(function, output_orders, unroll_limits, body)
        self.cost = CostModel(self)
        self.step_planners = step_planners
        self.row_operands: set[Var] = set()
        self.bodies: dict[tuple[Function, CarryMoves], Plan] = {}
        self.reversed_scans = reversed_scans(function)
        self.sliced_bases: set[Atom] = set()
        self.calls_python = function.calls_python
        self.guard_level = 0  # the level from which all guards so far have been checked
        self.effect_level = 0  # the level of the last step with an effect
        if any(isinstance(eqn.op.lower, Contract) for eqn in function.eqns):
            self.row_operands = step_planners.row_operands(function)
        if any(isinstance(eqn.op.lower, Contract | Loop) for eqn in function.eqns):
            self.sliced_bases = read_in_slices(function)
        inputs, outputs = function.inputs, function.outputs
        moves = {inputs[at]: outputs[to] for at, to in carried}
        self.in_place = InPlaceBuffers(self, function, unroll_limits, moves)
        self.factors: dict[Any, tuple[Buffer, Buffer, int]] = {}  # see `jit/lapack/plan.py`
        self.gapless: dict[Any, Location] = {}  # likewise
        self.transposed: dict[Any, Location] = {}  # buffers, see `row_windows.py`
        for number, var in enumerate(function.inputs):
            self.add_parameter(var, "input", number, strides[number])
        for number, var in enumerate(function.captures, start=len(function.inputs)):
            self.add_parameter(var, "capture", number - len(function.inputs), strides[number])
        for at, to in carried:
            self._keep_in_place(inputs[at], to)

    def _keep_in_place(self, var: Var, output: int) -> None:
        """Have an input read in the memory of the output that is made of it."""
        self.add_parameter(var, "output", output, c_strides(var.type.shape))
        buffer = memory_of(self.locations[var])
        self.in_place.buffers[buffer] = InPlaceBuffer(buffer, -1)

    def plan_step(self, step: Eqn | Guard) -> None:
        """Plan one step of the function."""
        if isinstance(step, Guard):
            level = self.ready_level(step.operand)
            self.guard_level = max(self.guard_level, level)
            self.plan.unrolled.setdefault(level, []).append(step)
            return
        chains = self.in_place.chains
        if step.out in chains.never_made:
            return
        eqn = self.in_place.with_valid_operands(step)
        self.plan.definitions[eqn.out] = eqn
        if eqn.out in chains.updates:
            self.in_place.plan_update(eqn.out, chains.updates[eqn.out])
            return
        self._plan_eqn(eqn, eqn.op.lower, [o for o in eqn.operands if isinstance(o, Var)])
        self.in_place.record_reads(eqn)
        if self.calls_python and may_bail_out(eqn):
            self.guard_level = max(self.guard_level, self.computed_level(eqn.out))

    def _plan_eqn(self, eqn: Eqn, lower: Lowering, operands: list[Var]) -> None:
        plan_step = self.step_planners.by_lowering.get(type(lower))
        is_small = not isinstance(eqn.out.type, Bundle) and self.unroll_limits.admits(eqn.out.type)
        if plan_step is not None:
            plan_step(self, eqn)
        elif isinstance(lower, Pick):
            self.locations[eqn.out] = self.bundles[operands[0]][eqn.params["at"]]
        elif isinstance(lower, LiteralTable):
            buffer = self.buffer(eqn.out.type, "table")
            buffer.values = eqn.params["values"]
            self.locations[eqn.out] = buffer_location(buffer)
        elif isinstance(lower, (Loop, While, Branch)):
            self._plan_control(eqn, operands)
        elif isinstance(lower, Scatter):
            self._plan_scatter(eqn, lower)
        elif isinstance(lower, Compact):
            self._plan_compact(eqn)
        elif isinstance(lower, Reduce) and not (is_small and all(map(self.is_unrolled, operands))):
            fuse_reduction_input(self, eqn, operands[0])
        elif isinstance(lower, Scan) and not is_small:
            plan_scan(self, eqn, self.reversed_scans)
        elif is_small:
            self._plan_unrolled(eqn, operands)
        elif isinstance(lower, View):
            fuse_view(self, eqn, operands)
        else:
            fuse_map(self, eqn, operands)

    def add_unrolled(self, eqn: Eqn, level: int) -> None:
        """Compute an equation in registers, at a level."""
        self.locations[eqn.out] = Unrolled(level)
        self.plan.unrolled.setdefault(level, []).append(eqn)

    def _plan_unrolled(self, eqn: Eqn, operands: list[Var]) -> None:
        """An unrolled equation. A view reads expressions in place; others read stored values."""
        reads_expressions = isinstance(eqn.op.lower, View)
        level = 0
        for o in operands:
            if reads_expressions or not isinstance(self.locations[o], Expression):
                level = max(level, self.available_level(o))
            else:
                level = max(level, self.store(o))
        self.add_unrolled(eqn, level)

    def store_or_alias(self, o: Var, operands: list[Var]) -> None:
        """Have an operand of a product or loop in memory. A view of a stored value, of another
        operand, or of a value that they read in slices is read in place: BLAS takes its strides,
        and recognises a product with its own transpose."""
        location = self.locations[o]
        if not isinstance(location, Expression):
            return
        eqn = self.plan.definitions[o]
        base = eqn.operands[0] if len(eqn.operands) == 1 else None
        if isinstance(eqn.op.lower, View) and isinstance(base, Var) and location.buffer is None:
            if base in operands or base in self.sliced_bases:
                self.store_or_alias(base, operands)
            alias = strided_alias(self, eqn, base)
            if alias is not None:
                self.locations[o] = alias
                return
        self.store(o)

    # Loops and branches

    def _plan_control(self, eqn: Eqn, operands: list[Var]) -> None:
        assert isinstance(eqn.out.type, Bundle)
        parts = eqn.out.type.parts
        locations = self._body_operands(eqn, operands)
        level = max((location.ready for location in locations.values()), default=0)
        if self.calls_python and calls_python(eqn):
            level = max(level, self.guard_level)
            if has_side_effects(eqn):  # callbacks run after all other steps of their level
                level = self.effect_level = max(level, self.effect_level + 1)
        results: list[Location] = [self.new_location(part, level + 1) for part in parts]
        self.bundles[eqn.out] = results
        saved = eqn.params.get("keep")
        spares: list[Buffer | None] = []
        if saved is not None:  # not a branch
            # a while also has a count
            carries = eqn.params.get("carries", len(results) - len(saved) - 1)
            for at, part in enumerate(parts[:carries]):
                moves = part.shape and at not in saved
                spares.append(self.buffer(part, "scratch") if moves else None)
        first_carry = eqn.params.get("consts", eqn.params.get("body_consts", 0))
        carried = carry_moves(first_carry, spares)
        bodies = {
            name: self._body_plan(nested, carried if name == "body" else ())
            for name, nested in eqn.params.items()
            if isinstance(nested, Function)
        }
        control = ControlFlow(
            eqn=eqn,
            operands=locations,
            results=results,
            spares=spares,
            bodies=bodies,
            first_carry=first_carry,
        )
        self.plan.controls.setdefault(level, []).append(control)

    def _body_operands(self, eqn: Eqn, operands: list[Var]) -> dict[Var, Location]:
        """Where the bodies of a loop or branch read its operands."""
        rows = rows_of_loop(eqn)
        found: dict[Var, Location] = {}
        windows: dict[Any, dict[Var, RowWindow]] = {}
        for o in operands:
            if o in rows:
                self.store_or_alias(o, operands)
            window = self._row_window(o) if o in rows else None
            if window is None:
                found[o] = self.body_operand(o, by_rows=o in rows)
                continue
            updates = self.in_place.update_count(window.buffer)
            windows.setdefault((window.buffer, updates, window.order), {})[o] = window
        for key, group in windows.items():
            if key not in self.transposed and len(group) == 1:
                (o,) = group
                found[o] = self.body_operand(o)
                continue
            for o, window in group.items():
                if key not in self.transposed:
                    self.transposed[key] = self._transpose(window, self.locations[o].ready)
                found[o] = window.within(self.transposed[key])
        return found

    def _row_window(self, var: Var) -> RowWindow | None:
        """The window that an operand is whose rows would have to be copied."""
        location = self.stored(var)
        rows = c_strides(var.type.shape)[1:]
        if isinstance(location, Unrolled) or location.strides[1:] == rows or not var.type.size:
            return None
        return row_window(location, var.type.shape) if self._is_dense(memory_of(location)) else None

    def _is_dense(self, buffer: Buffer) -> bool:
        """Whether the elements of a buffer follow each other: arguments may have any strides."""
        parameters = (*self.plan.function.inputs, *self.plan.function.captures)
        return buffer.role == "scratch" or any(
            location.buffer is buffer and location.strides == c_strides(var.type.shape)
            for var in parameters
            if not isinstance(location := self.locations[var], Expression)
        )

    def _transpose(self, window: RowWindow, ready: int) -> Location:
        """A copy of a buffer with its axes in the order of a window."""
        ready = max(ready, self.in_place.ready_level(window.buffer))
        whole = Var(window.buffer.type.with_shape(window.extents))
        self.locations[whole] = InMemory(ready, window.buffer, window.whole)
        return self.copy(whole)

    def _body_plan(self, function: Function, carried: CarryMoves) -> Plan:
        """The plan of a body, which loops and branches may share."""
        carried = arrays_to_keep(function, carried)
        plan = self.bodies.get((function, carried)) or kept_plan(function, carried)
        if plan is None:
            plan = make_plan(function, step_planners=self.step_planners, body=True, carried=carried)
            plan.carried = carried
        self.bodies[function, carried] = plan
        return plan

    # Loops that write in an order of their own, or by computed index

    def _plan_scatter(self, eqn: Eqn, lower: Scatter) -> None:
        """A copy of the base, then a loop that writes the elements."""
        value = eqn.operands[lower.value]
        self.store_if_expensive(value)
        level = self.operand_level(eqn.operands)
        location = self.allocate(eqn.out, level + 1, self.strides_of(eqn.out))
        space = lower.update_shape(*(o.type for o in eqn.operands), **eqn.params)
        base = None if lower.base is None else eqn.operands[lower.base]
        self.add_write(Kernel(eqn.out.type.shape, level, stores=[Store(base, location)]))
        self.add_write(Kernel(space, level, stores=[Store(value, location, eqn=eqn)]))

    def _plan_compact(self, eqn: Eqn) -> None:
        """A loop that stores the positions of true elements."""
        (mask,) = eqn.operands
        self.store_if_expensive(mask)
        level = self.operand_level(eqn.operands)
        location = self.allocate(eqn.out, level + 1)
        self.add_write(Kernel(mask.type.shape, level, stores=[Store(mask, location, eqn=eqn)]))

    # Outputs

    def place_output(self, atom: Atom, strides: tuple[int, ...]) -> None:
        """Have a result computed in its own memory; unrolled results are stored at the end."""
        number = len(self.plan.outputs)
        if isinstance(atom, Const) or self.is_unrolled(atom):
            self.plan.outputs.append(strides)
            return
        location = self.stored(atom)
        buffer = location.buffer
        assert buffer is not None
        if buffer in self.in_place.buffers and (buffer.role, buffer.slot) == ("output", number):
            self.plan.outputs.append(buffer)
            return
        is_whole = buffer.type.nbytes == atom.type.nbytes and location.start == 0
        fits = is_whole and location.strides == strides
        if buffer.role != "scratch" or not fits:
            buffer = self.buffer(atom.type, "output")
            if fits and isinstance(location, Expression):  # one value as two outputs: stored twice
                target = buffer_location(buffer, strides=strides)
                location.kernel.stores.append(Store(atom, target))
            else:
                self.copy(atom, buffer, strides)
        buffer.role, buffer.slot = "output", number
        self.plan.outputs.append(buffer)

    def finish(self) -> None:
        """Locate the outputs, drop dead members of kernels, fuse reductions."""
        for atom, order in self.outputs:  # a view of an array that was updated since is a copy
            self.place_output(
                self.in_place.valid_operand(atom), order or c_strides(atom.type.shape)
            )
        for kernel in self.plan.kernels:
            kernel.members = self._live_members(kernel)
        self.plan.kernels = [k for k in self.plan.kernels if k.stores or k.reductions]
        fuse_reductions(self.plan)
        plan = self.plan
        steps = (plan.products, plan.calls, plan.controls, plan.writes)
        highest = [*plan.unrolled, *(kernel.level + 1 for kernel in plan.kernels)]
        highest += [level + 1 for levels in steps for level in levels]
        plan.level_count = max(highest, default=0) + 1

    def _live_members(self, kernel: Kernel) -> list[Eqn]:
        """The members that stores and reductions of this kernel reach at the kernel's own index."""
        live = {store.value for store in kernel.stores}
        live.update(o for eqn in kernel.reductions for o in eqn.operands)
        members = []
        for eqn in reversed(kernel.members):
            if eqn.out in live:
                members.append(eqn)
                if isinstance(eqn.op.lower, Map):
                    live.update(eqn.operands)
        return members[::-1]
