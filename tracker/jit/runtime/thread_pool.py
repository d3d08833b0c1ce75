"""Threads for long loops: a small pool, written in LLVM IR, that machine code calls directly.

`@tk.parallel(task, context, n)` runs task(context, 0), ..., task(context, n - 1) and returns when
all have ended. The caller and the workers claim tasks one by one, so that the caller waits only for
tasks that a worker has begun: where other programs use the processors, and no worker is scheduled
in time, it runs all of them. Workers never touch Python, so any thread may hold the interpreter's
lock.

Invariants: one region runs at a time. If the pool is busy (another thread) or absent (a forked
child), the caller runs all tasks in order, with the same result. A task is given to exactly one
thread: a claim replaces the ticket (the region's number and the next task), and fails if it is not
the one that was read. Between regions the ticket has no task left, and only then are the fields
written that a claim relies on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from tracker.config import current
from tracker.jit.llvm import engine, object_cache
from tracker.jit.llvm.function_writer import FunctionWriter, c_function, functions_text
from tracker.jit.llvm.lock import locked_cache
from tracker.jit.runtime import c_symbols

NAME = "tk.parallel"
DECLARATION = f"declare void @{NAME}(ptr, ptr, i64)"
MAX_THREADS = 16  # beyond, memory bandwidth is the limit
PART_PARAMETERS = ("ptr %partials", "i64 %lo", "i64 %hi", "i64 %tid")  # of a function for a part

_CLOSED = 0xFFFFFFFF  # the next task of a region that is over: more than any has
_SPINS, _JOIN_SPINS = 4000, 20000  # before a worker sleeps, and the caller yields

_VARIABLES = """
@mutex = internal global [64 x i8] zeroinitializer, align 64
@wake = internal global [64 x i8] zeroinitializer, align 64
@ticket = internal global i64 0, align 64
@finished = internal global i64 0, align 64
@count = internal global i64 0, align 64
@task = internal global ptr null
@context = internal global ptr null
@pool.pid = internal global i32 -1
@pool.busy = internal global i64 0, align 64
"""


def _load_atomic(c: FunctionWriter, name: str, order: str, kind: str = "i64") -> str:
    return c.let(f"load atomic {kind}, ptr @{name} {order}, align 8")


def _store_atomic(
    c: FunctionWriter, name: str, value: object, order: str, kind: str = "i64"
) -> None:
    c.emit(f"store atomic {kind} {value}, ptr @{name} {order}, align 8")


def _region_of(c: FunctionWriter, ticket: str) -> str:
    return c.let(f"lshr i64 {ticket}, 32")


def _exchange(c: FunctionWriter, name: str, old: object, new: object, orders: str) -> str:
    """Whether a variable has been replaced."""
    pair = c.let(f"cmpxchg ptr @{name}, i64 {old}, i64 {new} {orders}, align 8")
    return c.let(f"extractvalue {{ i64, i1 }} {pair}, 1")


@c_function("run_tasks", "i64 %region", linkage="internal ")
def _run_tasks(c: FunctionWriter) -> None:
    """Claim tasks of a region and run them, until none is left."""
    with c.repeat() as claiming:
        seen = _load_atomic(c, "ticket", "acquire")
        c.leave_if(c.compare("ne", _region_of(c, seen), "%region"), claiming)
        following = c.let(f"and i64 {seen}, {_CLOSED}")
        count = _load_atomic(c, "count", "monotonic")
        task, context = (_load_atomic(c, name, "monotonic", "ptr") for name in ("task", "context"))
        c.leave_if(c.let(f"icmp uge i64 {following}, {count}"), claiming)
        with c.when(_exchange(c, "ticket", seen, c.add(seen, 1), "acq_rel acquire")):
            c.emit(f"call void {task}(ptr {context}, i64 {following})")
            c.let("atomicrmw add ptr @finished, i64 1 acq_rel")


@c_function("worker", "ptr %none", "ptr", "internal ")
def _worker(c: FunctionWriter) -> str:
    """Wait for the next region, at first without sleeping, and take part in it."""

    def region() -> str:
        return _region_of(c, _load_atomic(c, "ticket", "acquire"))

    last = c.variable(0)
    with c.repeat():
        spins = c.variable(0)
        with c.repeat() as spinning:
            c.leave_if(c.compare("ne", region(), c.get(last)), spinning)
            c.leave_if(c.compare("sge", c.extend(spins, 1), _SPINS), spinning)
        with c.when(c.compare("eq", region(), c.get(last))):
            c.call("i32", "pthread_mutex_lock", ["ptr @mutex"])
            with c.repeat() as sleeping:
                c.leave_if(c.compare("ne", region(), c.get(last)), sleeping)
                c.call("i32", "pthread_cond_wait", ["ptr @wake", "ptr @mutex"])
            c.call("i32", "pthread_mutex_unlock", ["ptr @mutex"])
        c.set(last, region())
        c.call("void", "run_tasks", [f"i64 {c.get(last)}"])
    return "null"


@c_function("tk.start", "i64 %n", "i1")
def _start(c: FunctionWriter) -> str:
    """Start n - 1 workers; false if one could not be had."""
    c.call("i32", "pthread_mutex_init", ["ptr @mutex", "ptr null"])
    c.call("i32", "pthread_cond_init", ["ptr @wake", "ptr null"])
    thread = c.array("i64")
    with c.loop(1, "%n"):
        arguments = [f"ptr {thread}", "ptr null", "ptr @worker", "ptr null"]
        status = c.call("i32", "pthread_create", arguments)
        c.return_if(c.let(f"icmp ne i32 {status}, 0"), "false")
        c.call("i32", "pthread_detach", [f"i64 {c.get(thread, 'i64')}"])
    c.store(c.call("i32", "getpid", []), "@pool.pid", kind="i32")
    return "true"


@c_function(NAME, "ptr %task, ptr %context, i64 %n")
def _parallel(c: FunctionWriter) -> None:
    home, pid = c.load("@pool.pid", kind="i32"), c.call("i32", "getpid", [])
    is_here = c.let(f"icmp eq i32 {home}, {pid}")
    with c.when(is_here), c.when(_exchange(c, "pool.busy", 0, 1, "acq_rel monotonic")):
        for name in ("task", "context"):
            _store_atomic(c, name, f"%{name}", "monotonic", "ptr")
        for name, value in (("count", "%n"), ("finished", "0")):
            _store_atomic(c, name, value, "monotonic")
        last = _region_of(c, _load_atomic(c, "ticket", "monotonic"))
        region = c.let(f"and i64 {c.add(last, 1)}, {_CLOSED}")
        first = c.let(f"shl i64 {region}, 32")
        c.call("i32", "pthread_mutex_lock", ["ptr @mutex"])
        _store_atomic(c, "ticket", first, "release")
        c.call("i32", "pthread_cond_broadcast", ["ptr @wake"])
        c.call("i32", "pthread_mutex_unlock", ["ptr @mutex"])
        c.call("void", "run_tasks", [f"i64 {region}"])
        spins = c.variable(0)
        with c.repeat() as joining:
            ended = _load_atomic(c, "finished", "acquire")
            c.leave_if(c.compare("eq", ended, "%n"), joining)
            with c.when(c.compare("sge", c.extend(spins, 1), _JOIN_SPINS)):
                c.set(spins, 0)
                c.call("i32", "sched_yield", [])
        _store_atomic(c, "ticket", c.let(f"or i64 {first}, {_CLOSED}"), "release")
        _store_atomic(c, "pool.busy", 0, "release")
        c.leave()
    with c.loop(0, "%n") as i:
        c.emit(f"call void %task(ptr %context, i64 {i})")


def thread_count() -> int:
    """How many threads share a long loop: TRACKER_THREADS, else the processors of this process."""
    if requested := current().threads:
        return min(requested, MAX_THREADS)
    try:
        return min(len(os.sched_getaffinity(0)), MAX_THREADS)
    except AttributeError:  # not on all systems
        return min(os.cpu_count() or 1, MAX_THREADS)


def store_frame(arguments: Sequence[str], frame: str) -> list[str]:
    """Lines that store typed arguments into a frame of 8-byte cells."""
    lines = []
    for at, argument in enumerate(arguments):
        lines.append(f"  {frame}.{at} = getelementptr i64, ptr {frame}, i64 {at}")
        lines.append(f"  store {argument}, ptr {frame}.{at}")
    return lines


def load_frame(parameters: Sequence[str]) -> list[str]:
    """Lines that load parameters, under their own names, from %frame."""
    lines = []
    for at, parameter in enumerate(parameters):
        kind, name = without_attributes(parameter).split()
        lines.append(f"  {name}.cell = getelementptr i64, ptr %frame, i64 {at}")
        lines.append(f"  {name} = load {kind}, ptr {name}.cell")
    return lines


def without_attributes(parameter: str) -> str:
    """A parameter as an argument: without its attributes."""
    words = parameter.split()
    return f"{words[0]} {words[-1]}"


def task_text(parameters: Sequence[str], extent: int, part: int) -> str:
    """@KERNEL.task, which a thread runs: it loads @KERNEL's arguments from a frame and calls it for
    the thread's part of a range, which is `part` long. The frame's last cell is @KERNEL's
    %partials."""
    loaded = [*parameters, "ptr %partials"]
    arguments = [*map(without_attributes, loaded), "i64 %lo", "i64 %hi", "i64 %tid"]
    return "\n".join(
        [
            "void @KERNEL.task(ptr %frame, i64 %tid) {",
            *load_frame(loaded),
            f"  %lo = mul i64 %tid, {part}",
            f"  %end = add i64 %lo, {part}",
            f"  %over = icmp ugt i64 %end, {extent}",
            f"  %hi = select i1 %over, i64 {extent}, i64 %end",
            f"  call void @KERNEL({', '.join(arguments)})",
            "  ret void",
            "}",
        ]
    )


@locked_cache
def _pool_module() -> engine.Module:
    text = functions_text((_run_tasks(), _worker(), _start(), _parallel()), _VARIABLES)
    module = object_cache.compile_or_load(text, level=engine.QUICK)
    c_symbols.call_c(module.address("tk.start"), "q", max(thread_count(), 2))
    return module


def symbols() -> dict[str, int]:
    """The symbols of a plan with parallel loops."""
    return {NAME: _pool_module().address(NAME)}
