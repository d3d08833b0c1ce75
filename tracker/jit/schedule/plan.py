"""Planning: one pass over the equations of a function that assigns locations and makes kernels.

Kernels are found by (space, level): all values of one shape that are ready at one level share one
loop nest. `placement.py` stores and copies values, `cost.py` decides when to store, and
`inplace.py` plans updates in place. Start at `Planner.plan_step`.

Invariants: levels never decrease along uses, so the order of levels is a legal schedule; planning
is linear in the number of equations (a cheap expression is inlined, an expensive one is stored).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
    Host,
    LiteralTable,
    LocateSelected,
    Loop,
    Lowering,
    Map,
    Pick,
    Reduce,
    Routine,
    Scan,
    Scatter,
    Search,
    Select,
    Sort,
    UfuncCall,
    View,
    While,
)
from tracker.ir.passes.loop_limits import MAX_REGISTER_ELEMENTS
from tracker.ir.types import Bundle
from tracker.jit.runtime import lazy_imports
from tracker.jit.schedule.affine import loop_index, view_formulas
from tracker.jit.schedule.cost import (
    SLOW_OPS_LIMIT,
    CostModel,
    is_math,
    is_slow,
    sliced_by_products,
    view_cost,
)
from tracker.jit.schedule.inplace import InPlaceBuffers
from tracker.jit.schedule.loop_fusion import fuse_reductions
from tracker.jit.schedule.placement import MATH_COST
from tracker.jit.schedule.plan_data import (
    UNROLL_LIMIT,
    Buffer,
    ControlFlow,
    Kernel,
    Location,
    Plan,
    Store,
    UnrollLimits,
    affine_location,
    buffer_location,
)
from tracker.ops.shape.memory_order import MemoryOrder, c_strides

_VECTOR_LIMIT = 8  # elements; unroll limit of vectors where transcendental functions are vectorised
_EQNS_PER_MATH = 40  # equations of vectors per transcendental one; beyond, they are unrolled
_MAX_MATH_LOOPS = 40  # transcendental functions of vectors; beyond, they are unrolled
_BODY_LIMIT = (
    16  # elements; unroll limit in a loop's body, which should stay in the instruction cache
)
_MAX_UNROLLED_IN_BODY = 500  # elements of all unrolled values of a body, or of the code around it
_MATH_WEIGHT = 30  # weight of a transcendental function: its code is long
_LINES_PER_OPERATION = 6  # lines of code per operation, address computations included


def make_plan(
    function: Function,
    strides: Sequence[tuple[int, ...]] | None = None,
    output_orders: Sequence[MemoryOrder] = (),
    lengths_vary: bool = False,
    *,
    body: bool = False,
    carried: Mapping[Var, Atom] | None = None,
    bodies: Mapping[Function, Plan] | None = None,
) -> Plan:
    """Plan a function all of whose equations can be lowered.

    strides: those of its inputs, then of its captures, in elements (default: C order);
    output_orders: those wanted of its outputs (None or left out: C order); lengths_vary: the code
    is to serve other lengths, too, so little is unrolled; body: of a loop or branch; carried:
    inputs of a body that are to be read before their memory is overwritten, with the results that
    will be written there; bodies: known plans of bodies.
    """
    if strides is None:
        strides = [c_strides(v.type.shape) for v in (*function.inputs, *function.captures)]
    most = _BODY_LIMIT if body else _VECTOR_LIMIT if lengths_vary else UNROLL_LIMIT
    planner = _Planner(function, strides, output_orders, _unroll_limits(function, most, body), body)
    planner.bodies.update(bodies or {})
    for old, new in (carried or {}).items():
        planner.forced_stores.add(new)
        planner.in_place.track_input(planner.places[old])
    for step in planner.in_place.chains.body:
        planner.step(step)
    planner.finish()
    return planner.plan


def _unroll_limits(function: Function, tiny: int, body: bool) -> UnrollLimits:
    """The unroll limits of a function: lower in a long program, to keep its code short."""
    sizes = Counter(eqn.out.type.size for eqn in function.eqns)
    unrolled = _MAX_UNROLLED_IN_BODY if body or function.functions else MAX_REGISTER_ELEMENTS
    while tiny > 1 and sum(n * size for size, n in sizes.items() if size <= tiny) > unrolled:
        tiny //= 2
    return UnrollLimits(_VECTOR_LIMIT if _prefers_vector_loops(function, tiny) else tiny, tiny)


def _prefers_vector_loops(function: Function, tiny: int) -> bool:
    """Whether vectors that could be unrolled have transcendental functions, which are faster by
    fours: not so many that loops would take seconds to compile, nor so few that the rest is quick
    arithmetic, which loops would hold up."""
    vectors = [
        eqn
        for eqn in function.eqns
        if eqn.out.type.ndim == 1 and _VECTOR_LIMIT < eqn.out.type.size <= tiny
    ]
    math = sum(map(is_math, vectors))
    return 0 < math <= _MAX_MATH_LOOPS and len(vectors) <= _EQNS_PER_MATH * math


class _Planner(CostModel):
    """Plans a function equation by equation."""

    def __init__(
        self,
        function: Function,
        strides: Sequence[tuple[int, ...]],
        wanted: Sequence[MemoryOrder],
        tiny: UnrollLimits,
        body: bool,
    ) -> None:
        super().__init__(function, wanted, tiny, body)
        self.row_product_operands: set[Var] = set()
        self.bodies: dict[Function, Plan] = {}
        self.turned: set[Var] | None = None  # see `reversed_scans`
        self.sliced_bases: set[Atom] = set()
        self.calls_back = function.calls_python
        self.checked = 0  # the level from which all guards so far have been checked
        self.drawn = 0  # the level of the last step with an effect
        if any(isinstance(eqn.op.lower, Contract) for eqn in function.eqns):
            self.row_product_operands = lazy_imports.gathered(function)
            self.sliced_bases = sliced_by_products(function)
        self.in_place = InPlaceBuffers(self, function, tiny)
        self.bundles: dict[Var, list[Location]] = {}
        self.factors: dict[Any, tuple[Buffer, Buffer, int]] = {}  # see `jit/lapack/plan.py`
        self.gapless: dict[Any, Location] = {}  # likewise
        for number, var in enumerate(function.inputs):
            self.add_parameter(var, "input", number, strides[number])
        for number, var in enumerate(function.captures, start=len(function.inputs)):
            self.add_parameter(var, "capture", number - len(function.inputs), strides[number])

    # One step

    def step(self, step: Eqn | Guard) -> None:
        if isinstance(step, Guard):
            level = self.ready_level(step.operand)
            self.checked = max(self.checked, level)
            self.plan.unrolled.setdefault(level, []).append(step)
            return
        changes = self.in_place.chains
        if step.out in changes.never_made:
            return
        eqn = self.in_place.with_valid_operands(step)
        self.plan.definitions[eqn.out] = eqn
        if eqn.out in changes.updates:
            self.in_place.plan_update(eqn.out, changes.updates[eqn.out])
            return
        self._plan_eqn(eqn, eqn.op.lower, [o for o in eqn.operands if isinstance(o, Var)])
        self.in_place.record_reads(eqn)
        if self.calls_back and may_bail_out(eqn):
            self.checked = max(self.checked, self._computed_level(eqn.out))

    def _computed_level(self, out: Var) -> int:
        """The level by which an equation has been computed."""
        bundle = self.bundles.get(out)
        return (
            self.ready_level(out) if bundle is None else max((p.ready for p in bundle), default=0)
        )

    def _plan_eqn(self, step: Eqn, lower: Lowering, operands: list[Var]) -> None:
        if isinstance(lower, Pick):
            self.places[step.out] = self.bundles[operands[0]][step.params["at"]]
        elif isinstance(lower, LiteralTable):
            buffer = self.buffer(step.out.type, "table")
            buffer.values = step.params["values"]
            self.places[step.out] = buffer_location(buffer)
        elif isinstance(lower, (Loop, While, Branch)):
            self._plan_control(step, operands)
        elif isinstance(lower, Contract):
            self._plan_product(step, operands)
        elif isinstance(lower, Routine):
            lazy_imports.plan_call(self, step, lower)
        elif isinstance(lower, Scatter):
            self._plan_scatter(step, lower)
        elif isinstance(lower, Compact):
            self._plan_compact(step)
        elif isinstance(lower, Sort):
            lazy_imports.plan_order(self, step)
        elif isinstance(lower, Select):
            lazy_imports.plan_choice(self, step)
        elif isinstance(lower, LocateSelected):
            lazy_imports.plan_source(self, step)
        elif isinstance(lower, Search):
            lazy_imports.plan_lookup(self, step)
        elif isinstance(lower, UfuncCall):
            lazy_imports.plan_loan(self, step)
        elif isinstance(lower, Host):
            lazy_imports.plan_callback(self, step)
        elif isinstance(lower, Reduce) and (
            any(map(self.is_not_unrolled, operands)) or not self.tiny.admits(step.out.type)
        ):
            self._plan_reduction(step, operands[0])
        elif isinstance(lower, Scan) and not self.tiny.admits(step.out.type):
            lazy_imports.plan_scan(self, step)
        elif self.tiny.admits(step.out.type):
            self._plan_unrolled(step, operands)
        elif isinstance(lower, View):
            self._plan_view(step, operands)
        else:
            self._plan_map(step, operands)

    def _plan_unrolled(self, eqn: Eqn, operands: list[Var]) -> None:
        """An unrolled equation. A view reads expressions in place; other equations read stored
        values."""
        through = isinstance(eqn.op.lower, View)
        level = 0
        for o in operands:
            whole = self.places[o].kind != "expression" or through
            level = max(level, self.reach(o) if whole else self.store(o))
        self.places[eqn.out] = Location("tiny", level)
        self.plan.unrolled.setdefault(level, []).append(eqn)

    def _plan_map(self, eqn: Eqn, operands: list[Var]) -> None:
        space = eqn.out.type.shape
        level = 0
        same = []
        for o in operands:
            place = self.places[o]
            if (
                self.is_mask_of_gather(o)
                or self.is_forced_store(o)
                or self.exceeds_math_depth(o, eqn)
            ):
                level = max(level, self.store(o))
            elif place.kind == "expression" and o.type.shape == space:
                assert place.home is not None
                same.append(o)
                level = max(level, place.home.level)
            elif self.repeats_slow_op(o, eqn):
                level = max(level, self.store(o))
            else:
                level = max(level, self.reach(o))
        kernel = self.kernel_with_room(space, level)
        crowded, level = kernel.level > level, kernel.level
        dear = is_math(eqn)
        own = MATH_COST if dear else 1
        kernel.weight += _MATH_WEIGHT if dear else 1
        for o in same:
            place = self.places[o]
            assert place.home is not None
            if place.home.level < level and not place.stored:
                most = (
                    min(self.recompute_limit_of(o), MATH_COST - 1)
                    if crowded
                    else self.recompute_limit_of(o)
                )
                if self.recompute_cost(o, level, most) > most:
                    self.store(o)
        shared = 0  # cost of members that the kernel computes anyway
        for o in operands:
            place = self.places[o]
            if place.home is kernel:
                shared += place.cost
            elif place.kind == "expression" and not place.stored:
                own += self.recompute_cost(o, level, place.cost)
        self.slow_ops[eqn.out] += is_slow(eqn)
        kernel.lines += (
            _MATH_WEIGHT + _LINES_PER_OPERATION * (own - MATH_COST)
            if dear
            else _LINES_PER_OPERATION * own
        )
        kernel.work += own
        self._add_expression(eqn, kernel, own + shared, operands)

    def _add_expression(self, eqn: Eqn, kernel: Kernel, cost: int, operands: list[Var]) -> None:
        kernel.members.append(eqn)
        counts = [self.slow_ops[o] for o in operands if not self.places[o].stored]
        self.slow_ops[eqn.out] += min(sum(counts), SLOW_OPS_LIMIT)
        place = self.places[eqn.out] = Location("expression", kernel.level, cost, kernel)
        place.chain = max(map(self.math_depth, operands), default=0) + is_math(eqn)
        kernel.chain = max(kernel.chain, place.chain)

    def _plan_view(self, eqn: Eqn, operands: list[Var]) -> None:
        for o in operands:
            if self.repeats_slow_op(o, eqn) or self.is_forced_store(o):
                self.store(o)
        if len(eqn.operands) == 1 and operands and eqn.out not in self.row_product_operands:
            o = operands[0]
            place = self.places[o]
            fresh = place.kind == "expression" and not place.stored
            if fresh and _is_reshape(eqn) and not _changes_unit_axes_only(eqn):
                self.store(o)
            alias = self._strided_alias(eqn, o)
            scattered = alias is None and place.kind == "memory" and _is_reshape(eqn)
            if scattered and not _changes_unit_axes_only(eqn):  # else each index needs a division
                copy = self.copied(o)
                strides = c_strides(eqn.out.type.shape)
                alias = Location("memory", copy.ready, 0, None, copy.buffer, strides, copy.start)
            if alias is not None:
                self.places[eqn.out] = alias
                return
        level = 0
        cost = view_cost(eqn)
        space = eqn.out.type.shape
        for o in operands:
            level = max(level, self.reach(o))
            place = self.places[o]
            if place.kind == "expression" and not place.stored:
                cost += place.cost
        kernel = self.kernel_at(space, level)
        kernel.lines += _LINES_PER_OPERATION * cost
        kernel.work += cost
        self._add_expression(eqn, kernel, cost, operands)

    def _strided_alias(self, eqn: Eqn, o: Var) -> Location | None:
        """The view as strides over the same memory, where strides can express it."""
        place = self.places[o]
        if not place.stored or not o.type.shape:  # a scalar has no memory
            return None
        shape = eqn.out.type.shape
        if _is_reshape(eqn) and place.strides == c_strides(o.type.shape):
            return Location(
                "memory", place.ready, 0, None, place.buffer, c_strides(shape), place.start
            )
        found = view_formulas(eqn, loop_index(shape), shape)
        if found is None or isinstance(found, list) or found[2] not in (None, True):
            return None
        return affine_location(place, found[1], len(shape), place.ready)

    def _plan_reduction(self, eqn: Eqn, o: Var) -> None:
        place = self.places[o]
        kernel = place.home or self.kernel_at(o.type.shape, place.ready)
        kernel.folds.append(eqn)
        ready = kernel.level + 1
        kind = "tiny" if self.tiny.admits(eqn.out.type) else "memory"
        buffer = self.buffer(eqn.out.type, "scratch")
        self.places[eqn.out] = Location(kind, ready, 0, None, buffer, self.order(eqn.out))

    def _plan_product(self, eqn: Eqn, operands: list[Var]) -> None:
        if lazy_imports.plan_rows(self, eqn):
            return
        level = 0
        most = max(o.type.size for o in (*operands, eqn.out))
        small = most <= self.tiny.array or (
            most <= UNROLL_LIMIT and lazy_imports.why_no_call(eqn) != ""
        )
        for o in operands:
            self._locate_factor(o, operands)
            level = max(level, self.places[o].ready if small else self.blas_operand(o).ready)
        if small:
            self.places[eqn.out] = Location("tiny", level)
            self.plan.unrolled.setdefault(level, []).append(eqn)
            return
        self.result(eqn.out, level + 1)
        self.plan.products.setdefault(level, []).append(eqn)

    def _locate_factor(self, o: Var, operands: list[Var]) -> None:
        """Have the factor of a product in memory. A view of a stored value, of the other factor, or
        of a value that products read often is read in place: BLAS takes its strides, and recognises
        a product with its own transpose."""
        if self.places[o].kind != "expression":
            return
        eqn = self.plan.definitions[o]
        base = eqn.operands[0] if len(eqn.operands) == 1 else None
        if isinstance(eqn.op.lower, View) and isinstance(base, Var) and not self.places[o].stored:
            if base in operands or base in self.sliced_bases:
                self._locate_factor(base, operands)
            alias = self._strided_alias(eqn, base)
            if alias is not None:
                self.places[o] = alias
                return
        self.store(o)

    # Loops and branches

    def _plan_control(self, eqn: Eqn, operands: list[Var]) -> None:
        assert isinstance(eqn.out.type, Bundle)
        wholes = {o: self.body_operand(o) for o in operands}
        level = max((place.ready for place in wholes.values()), default=0)
        if self.calls_back and calls_python(eqn):
            level = max(level, self.checked)
            if has_side_effects(eqn):  # callbacks run after all other steps of their level
                level = self.drawn = max(level, self.drawn + 1)
        results = []
        for part in eqn.out.type.parts:
            kind = "tiny" if self.tiny.admits(part) else "memory"
            buffer = self.buffer(part, "scratch")
            results.append(Location(kind, level + 1, 0, None, buffer, c_strides(part.shape)))
        self.bundles[eqn.out] = results
        keep = eqn.params.get("keep")
        spares: list[Buffer | None] = []
        if keep is not None:  # not a branch
            carries = eqn.params.get(
                "carries", len(results) - len(keep) - 1
            )  # a while also has a count
            for at, part in enumerate(eqn.out.type.parts[:carries]):
                moves = part.shape and at not in keep
                spares.append(self.buffer(part, "scratch") if moves else None)
        bodies = {
            name: self._body_plan(nested)
            for name, nested in eqn.params.items()
            if isinstance(nested, Function)
        }
        first = eqn.params.get("consts", eqn.params.get("body_consts", 0))
        control = ControlFlow(eqn, wholes, results, spares, bodies, first)
        self.plan.controls.setdefault(level, []).append(control)

    def _body_plan(self, function: Function) -> Plan:
        """The plan of a body, which loops and branches may share."""
        plan = self.bodies.get(function)
        if plan is None:
            plan = self.bodies[function] = make_plan(function, body=True)
        return plan

    # Loops that write in an order of their own, or by computed index

    def _plan_scatter(self, eqn: Eqn, lower: Scatter) -> None:
        """A copy of the base, then a loop that writes the elements."""
        self.store_if_dear(eqn.operands[lower.value])
        level = max((self.reach(o) for o in eqn.operands if isinstance(o, Var)), default=0)
        place = self.made(eqn.out, level, strides=self.order(eqn.out))
        space = lower.update_shape(*(o.type for o in eqn.operands), **eqn.params)
        base = None if lower.base is None else eqn.operands[lower.base]
        self.plan.writes.setdefault(level, []).extend(
            [
                Kernel(eqn.out.type.shape, level, stores=[Store(base, place)]),
                Kernel(space, level, stores=[Store(eqn.operands[lower.value], place, by=eqn)]),
            ]
        )

    def _plan_compact(self, eqn: Eqn) -> None:
        """A loop that stores the positions of true elements."""
        (mask,) = eqn.operands
        self.store_if_dear(mask)
        level = self.reach(mask) if isinstance(mask, Var) else 0
        place = self.made(eqn.out, level)
        kernel = Kernel(mask.type.shape, level, stores=[Store(mask, place, by=eqn)])
        self.plan.writes.setdefault(level, []).append(kernel)

    # Outputs

    def place_output(self, atom: Atom, strides: tuple[int, ...]) -> None:
        """Have a result computed in its own memory; unrolled results are stored at the end."""
        number = len(self.plan.outputs)
        if isinstance(atom, Const) or self.places[atom].kind == "tiny":
            self.plan.outputs.append(strides)
            return
        place = self.places[atom]
        if place.kind == "expression":
            self.store(atom)
        buffer = place.buffer
        assert buffer is not None
        whole = buffer.type.nbytes == atom.type.nbytes and place.start == 0
        fits = whole and place.strides == strides
        if buffer.role != "scratch" or not fits:
            buffer = self.buffer(atom.type, "output")
            if fits and place.home is not None:  # one value as two outputs is written twice
                place.home.stores.append(Store(atom, buffer_location(buffer, 0, strides)))
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
        self.plan.kernels = [k for k in self.plan.kernels if k.stores or k.folds]
        fuse_reductions(self.plan)
        highest = [k.level + 1 for k in self.plan.kernels]
        highest += [
            level + 1 for level in (*self.plan.writes, *self.plan.controls, *self.plan.calls)
        ]
        highest += [*self.plan.unrolled, *(level + 1 for level in self.plan.products)]
        self.plan.level_count = max(highest, default=0) + 1

    def _live_members(self, kernel: Kernel) -> list[Eqn]:
        """The members that stores and reductions of this kernel reach at the kernel's own index."""
        wanted = {s.value for s in kernel.stores if isinstance(s.value, Var)}
        wanted.update(o for e in kernel.folds for o in e.operands if isinstance(o, Var))
        out = []
        for eqn in reversed(kernel.members):
            if eqn.out in wanted:
                out.append(eqn)
                if isinstance(eqn.op.lower, Map):
                    wanted.update(o for o in eqn.operands if isinstance(o, Var))
        out.reverse()
        return out


def _is_reshape(eqn: Eqn) -> bool:
    """Whether a view keeps the C order of all elements."""
    return set(eqn.params) == {"shape"} and eqn.out.type.size == _operand_size(eqn)


def _operand_size(eqn: Eqn) -> int:
    return eqn.operands[0].type.size


def _changes_unit_axes_only(eqn: Eqn) -> bool:
    """Whether only axes of extent 1 come or go, so that indices map without division."""
    before = [n for n in eqn.operands[0].type.shape if n != 1]
    return before == [n for n in eqn.out.type.shape if n != 1]
