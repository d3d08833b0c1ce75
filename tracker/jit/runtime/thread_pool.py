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
from tracker.jit.llvm.lock import locked_cache
from tracker.jit.runtime import c_symbols

NAME = "tk.parallel"
DECLARATION = f"declare void @{NAME}(ptr, ptr, i64)"
MAX_THREADS = 16  # beyond, memory bandwidth is the limit

_CLOSED = 0xFFFFFFFF  # the next task of a region that is over: more than any has
_SPINS, _JOIN_SPINS = 4000, 20000  # before a worker sleeps, and the caller yields

_POOL = rf"""
@mutex = internal global [64 x i8] zeroinitializer, align 64
@wake = internal global [64 x i8] zeroinitializer, align 64
@ticket = internal global i64 0, align 64
@finished = internal global i64 0, align 64
@count = internal global i64 0, align 64
@task = internal global ptr null
@context = internal global ptr null
@pool.pid = internal global i32 -1
@pool.busy = internal global i64 0, align 64
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @getpid()
declare i32 @sched_yield()

; Claim tasks of a region and run them, until none is left.
define internal void @run_tasks(i64 %region) {{
entry:
  br label %look
look:
  %seen = load atomic i64, ptr @ticket acquire, align 8
  %number = lshr i64 %seen, 32
  %open = icmp eq i64 %number, %region
  br i1 %open, label %read, label %done
read:
  %next = and i64 %seen, {_CLOSED}
  %n = load atomic i64, ptr @count monotonic, align 8
  %task = load atomic ptr, ptr @task monotonic, align 8
  %context = load atomic ptr, ptr @context monotonic, align 8
  %some = icmp ult i64 %next, %n
  br i1 %some, label %claim, label %done
claim:
  %after = add i64 %seen, 1
  %pair = cmpxchg ptr @ticket, i64 %seen, i64 %after acq_rel acquire, align 8
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %run, label %look
run:
  call void %task(ptr %context, i64 %next)
  %old = atomicrmw add ptr @finished, i64 1 acq_rel
  br label %look
done:
  ret void
}}

define internal ptr @worker(ptr %none) {{
entry:
  br label %outer
outer:
  %last = phi i64 [ 0, %entry ], [ %region, %run ]
  br label %spin
spin:
  %k = phi i64 [ 0, %outer ], [ %k1, %again ]
  %seen = load atomic i64, ptr @ticket acquire, align 8
  %now = lshr i64 %seen, 32
  %new = icmp ne i64 %now, %last
  br i1 %new, label %run, label %again
again:
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, {_SPINS}
  br i1 %more, label %spin, label %sleep
sleep:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %check
check:
  %read = load atomic i64, ptr @ticket acquire, align 8
  %later = lshr i64 %read, 32
  %same = icmp eq i64 %later, %last
  br i1 %same, label %wait, label %awake
wait:
  %w = call i32 @pthread_cond_wait(ptr @wake, ptr @mutex)
  br label %check
awake:
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %run
run:
  %region = phi i64 [ %now, %spin ], [ %later, %awake ]
  call void @run_tasks(i64 %region)
  br label %outer
}}

; Start n - 1 workers; false if one could not be had.
define i1 @tk.start(i64 %n) {{
entry:
  %a = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr @wake, ptr null)
  %thread = alloca i64
  br label %loop
loop:
  %i = phi i64 [ 1, %entry ], [ %i1, %made ]
  %go = icmp ult i64 %i, %n
  br i1 %go, label %make, label %done
make:
  %bad = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr null)
  %ok = icmp eq i32 %bad, 0
  br i1 %ok, label %made, label %failed
made:
  %t = load i64, ptr %thread
  %d = call i32 @pthread_detach(i64 %t)
  %i1 = add i64 %i, 1
  br label %loop
failed:
  ret i1 false
done:
  %pid = call i32 @getpid()
  store i32 %pid, ptr @pool.pid
  ret i1 true
}}

define void @tk.parallel(ptr %task, ptr %context, i64 %n) {{
entry:
  %home = load i32, ptr @pool.pid
  %pid = call i32 @getpid()
  %here = icmp eq i32 %home, %pid
  br i1 %here, label %ask, label %alone
ask:
  %got = cmpxchg ptr @pool.busy, i64 0, i64 1 acq_rel monotonic
  %free = extractvalue {{ i64, i1 }} %got, 1
  br i1 %free, label %share, label %alone
share:
  store atomic ptr %task, ptr @task monotonic, align 8
  store atomic ptr %context, ptr @context monotonic, align 8
  store atomic i64 %n, ptr @count monotonic, align 8
  store atomic i64 0, ptr @finished monotonic, align 8
  %before = load atomic i64, ptr @ticket monotonic, align 8
  %last = lshr i64 %before, 32
  %following = add i64 %last, 1
  %region = and i64 %following, {_CLOSED}
  %first = shl i64 %region, 32
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  store atomic i64 %first, ptr @ticket release, align 8
  %c = call i32 @pthread_cond_broadcast(ptr @wake)
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  call void @run_tasks(i64 %region)
  br label %join
join:
  %k = phi i64 [ 0, %share ], [ %k1, %spin ], [ 0, %yield ]
  %ended = load atomic i64, ptr @finished acquire, align 8
  %all = icmp eq i64 %ended, %n
  br i1 %all, label %finish, label %spin
spin:
  %k1 = add i64 %k, 1
  %long = icmp ugt i64 %k1, {_JOIN_SPINS}
  br i1 %long, label %yield, label %join
yield:
  %y = call i32 @sched_yield()
  br label %join
finish:
  %closed = or i64 %first, {_CLOSED}
  store atomic i64 %closed, ptr @ticket release, align 8
  store atomic i64 0, ptr @pool.busy release, align 8
  ret void
alone:
  %i = phi i64 [ 0, %entry ], [ 0, %ask ], [ %i1, %one ]
  %go = icmp ult i64 %i, %n
  br i1 %go, label %one, label %done
one:
  call void %task(ptr %context, i64 %i)
  %i1 = add i64 %i, 1
  br label %alone
done:
  ret void
}}
"""


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
    module = object_cache.compile_or_load(_POOL, level=engine.QUICK)
    c_symbols.call_c(module.address("tk.start"), "q", max(thread_count(), 2))
    return module


def symbols() -> dict[str, int]:
    """The symbols of a plan with parallel loops."""
    return {NAME: _pool_module().address(NAME)}
