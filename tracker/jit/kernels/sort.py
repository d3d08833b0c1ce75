"""Sorting: rows of keys in order, or the positions that sort them.

Keys are unsigned integers (`Sort` in `ir/lowering.py` maps numbers to keys), so one routine serves
all dtypes: insertion sort for rows of a few keys, radix sort for longer ones, without a branch on a
key. Digits that all keys share are skipped. Many rows go through the networks of
`sorting_networks.py`.

Invariants: the sort is stable; keys are only read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracker.ir.graph import Eqn, Var
from tracker.ir.lowering import Sort
from tracker.ir.types import Type
from tracker.jit.kernels.sorting_networks import KeyRows, key_rows, sort_routine
from tracker.jit.llvm.function_writer import FunctionWriter, RoutineText
from tracker.jit.schedule.plan_data import Buffer
from tracker.jit.schedule.steps import result_buffer
from tracker.support.structs import record

if TYPE_CHECKING:
    from tracker.jit.schedule.plan import Planner
    from tracker.jit.schedule.steps import Driver

_MAX_INSERTION = 72  # keys; up to here rows are sorted by insertion
_WORD = np.dtype(np.uint64)


@record(eq=False)
class SortStep:
    """out = the sorted rows of the operand, or the positions that sort them."""

    eqn: Eqn
    scratch: Buffer

    def emit(self, driver: Driver) -> None:
        """Call the routine for all rows."""
        source = driver.readable(self.eqn.operands[0])
        target = driver.pointer(result_buffer(driver, self.eqn))
        scratch = driver.pointer(self.scratch)
        rows = _key_rows(self.eqn)
        arguments = f"ptr {source}, ptr {target}, ptr {scratch}, i64 {rows.count}"
        if rows.is_quick:
            routine = sort_routine(rows)
        else:
            many = rows.length > _MAX_INSERTION
            routine = _routine(rows.bits, many=many, positions=not rows.values)
            arguments += f", i64 {rows.length}"
        driver.needs.routines[routine.name] = routine
        driver.lines.append(f"  call void @{routine.name}({arguments})")


def plan_sort(planner: Planner, eqn: Eqn) -> None:
    """Have the keys in memory in C order; allocate scratch and the result."""
    (keys,) = eqn.operands
    assert isinstance(keys, Var)
    planner.contiguous(keys)
    rows = _key_rows(eqn)
    words = -(-rows.length * rows.bits * (1 if rows.values else 2) // 64)
    words = rows.scratch_words if rows.is_quick else words
    planner.add_routine_step(SortStep(eqn, planner.buffer(Type((words,), _WORD), "scratch")))


def _key_rows(eqn: Eqn) -> KeyRows:
    assert isinstance(eqn.op.lower, Sort)
    return key_rows(eqn.operands[0].type, eqn.op.lower.values)


def insertion_sort_text(bits: int, positions: bool = False) -> str:
    """The text of `void @tk.values.few.i<bits>(keys, out, n)`: insertion sort of a few keys; of
    their `positions`, `@tk.places.few.i<bits>`."""
    key = f"i{bits}"
    name, kept = ("places", "i64") if positions else ("values", key)
    parameters = ["ptr noalias %keys", "ptr noalias %out", "i64 %n"]
    c = FunctionWriter(f"tk.{name}.few.{key}", parameters, attributes="")
    with c.loop(0, "%n") as i:
        x, at = c.load("%keys", i, key), c.variable(i)
        with c.repeat() as shifting:
            c.leave_if(c.compare("eq", c.get(at), 0), shifting)
            before = c.sub(c.get(at), 1)
            moved = c.load("%out", before, kept)
            rival = c.load("%keys", moved, key) if positions else moved
            c.leave_if(c.let(f"icmp ule {key} {rival}, {x}"), shifting)
            c.store(moved, "%out", c.get(at), kept)
            c.set(at, before)
        c.store(i if positions else x, "%out", c.get(at), kept)
    c.ret()
    return c.text()


def _routine(bits: int, *, many: bool, positions: bool) -> RoutineText:
    """The routine for all rows."""
    key = f"i{bits}"
    name = f"{'places' if positions else 'values'}.{'many' if many else 'few'}.{key}"
    parameters = ["ptr %keys", "ptr %out", "ptr %room", "i64 %rows", "i64 %n"]
    c = FunctionWriter(f"tk.order.{name}", parameters)
    with c.loop(0, "%rows") as row:
        at = c.mul(row, "%n")
        keys, out = c.address("%keys", at, key), c.address("%out", at, "i64" if positions else key)
        room = "ptr %room, " if many else ""
        c.emit(f"call void @tk.{name}(ptr {keys}, ptr {out}, {room}i64 %n)")
    c.ret()
    sort = _radix_sort_texts(bits, positions) if many else {insertion_sort_text(bits, positions)}
    return c.routine(sort)


def _radix_sort_texts(bits: int, positions: bool) -> set[str]:
    """A pass over each digit of 8 bits, to and fro between two arrays of keys.

    Room: one of them; if the positions are the result, both. Positions have 32 bits on their way:
    two arrays of them are as long as the result, and lie there.
    """
    key, digits = f"i{bits}", bits // 8
    parameters = ["ptr %keys", "ptr %out", "ptr %room", "i64 %n"]
    name = f"tk.{'places' if positions else 'values'}.many.{key}"
    c = FunctionWriter(name, parameters, attributes="")

    def digit(x: str, shift: object) -> str:
        wide = x if bits == 64 else c.let(f"zext {key} {x} to i64")
        return c.let(f"and i64 {c.let(f'lshr i64 {wide}, {shift}')}, 255")

    counts = c.array(f"[{256 * digits} x i64]")
    c.clear_bytes(counts, 2048 * digits)
    own = c.address("%out", "%n", "i32") if positions else ""
    with c.loop(0, "%n") as i:
        x = c.load("%keys", i, key)
        if positions:
            c.store(c.let(f"trunc i64 {i} to i32"), own, i, "i32")
        for at in range(digits):
            c.extend_word(counts, c.add(digit(x, 8 * at), 256 * at))
    source, target = c.variable("%keys", "ptr"), c.variable("%room", "ptr")
    numbers, numbers_to = c.variable(own or "null", "ptr"), c.variable("%out", "ptr")
    other = c.address("%room", "%n", key) if positions else "%out"
    with c.loop(0, digits) as d:
        bucket, shift = c.address(counts, c.mul(d, 256), "i64"), c.mul(d, 8)
        keys, into = c.get(source), c.get(target)
        shared = c.load(bucket, digit(c.load(keys, 0, key), shift), "i64")
        with c.when(c.compare("ne", shared, "%n")):
            _add_up_counts(c, bucket)
            here, there = c.get(numbers), c.get(numbers_to)
            with c.loop(0, "%n") as i:
                x = c.load(keys, i, key)
                to = c.extend_word(bucket, digit(x, shift))
                c.store(x, into, to, key)
                if positions:
                    c.store(c.load(here, i, "i32"), there, to, "i32")
            given = c.let(f"icmp eq ptr {keys}, %keys")
            c.set(source, into)
            c.set(target, c.let(f"select i1 {given}, ptr {other}, ptr {keys}"))
            c.set(numbers, there)
            c.set(numbers_to, here)
    if positions:
        _widen_positions(c, c.get(numbers), own)
    else:
        last = c.get(source)
        with c.when(c.let(f"icmp ne ptr {last}, %out")):
            c.copy_bytes("%out", last, c.mul("%n", digits))
    c.ret()
    return {c.text(), *c.declared}


def _add_up_counts(c: FunctionWriter, bucket: str) -> None:
    """The first place for each digit: exclusive prefix sums of the counts."""
    total = c.variable(0)
    with c.loop(0, 256) as at:
        count = c.load(bucket, at, "i64")
        c.store(c.extend(total, count), bucket, at, "i64")


def _widen_positions(c: FunctionWriter, numbers: str, behind: str) -> None:
    """Positions of 64 bits from those of 32, which are in the first half of the result, or in the
    second: no place that is written holds one that is still to be read."""
    in_front = c.let(f"icmp eq ptr {numbers}, %out")
    last = c.sub("%n", 1)
    with c.when(in_front), c.loop(0, "%n") as step:
        i = c.sub(last, step)
        c.store(c.let(f"zext i32 {c.load('%out', i, 'i32')} to i64"), "%out", i, "i64")
    with c.when(c.logical_not(in_front)), c.loop(0, "%n") as i:
        c.store(c.let(f"zext i32 {c.load(behind, i, 'i32')} to i64"), "%out", i, "i64")
