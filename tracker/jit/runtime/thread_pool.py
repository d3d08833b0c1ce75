"""Threads for long loops: a small pool, written in LLVM IR, that machine code calls directly.

`@tk.parallel(task, context, n)` runs task(context, 0), ..., task(context, n - 1), task 0 on the
calling thread, and returns when all have ended. Workers never touch Python, so any thread may hold
the interpreter's lock.

Invariants: one region runs at a time. If the pool is busy (another thread) or absent (a forked
child), the caller runs all tasks in order, with the same result. A task is given to exactly one
thread.
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

_POOL = r"""
%pool = type { [64 x i8], [64 x i8], ptr, ptr, i64, i64, i64, i64 }
@pool = internal global %pool zeroinitializer, align 64
@pool.pid = internal global i32 -1
@pool.busy = internal global i64 0, align 64
@pool.workers = internal global i64 0
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

define internal ptr @worker(ptr %arg) {
entry:
  %id = ptrtoint ptr %arg to i64
  %wake = getelementptr %pool, ptr @pool, i64 0, i32 1
  %taskp = getelementptr %pool, ptr @pool, i64 0, i32 2
  %contextp = getelementptr %pool, ptr @pool, i64 0, i32 3
  %turnp = getelementptr %pool, ptr @pool, i64 0, i32 4
  %leftp = getelementptr %pool, ptr @pool, i64 0, i32 5
  %countp = getelementptr %pool, ptr @pool, i64 0, i32 6
  br label %outer
outer:
  %seen = phi i64 [ 0, %entry ], [ %turn, %next ]
  br label %spin
spin:
  %k = phi i64 [ 0, %outer ], [ %k1, %again ]
  %now = load atomic i64, ptr %turnp acquire, align 8
  %new = icmp ne i64 %now, %seen
  br i1 %new, label %run, label %again
again:
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, 4000
  br i1 %more, label %spin, label %sleep
sleep:
  %l = call i32 @pthread_mutex_lock(ptr @pool)
  br label %check
check:
  %later = load atomic i64, ptr %turnp acquire, align 8
  %same = icmp eq i64 %later, %seen
  br i1 %same, label %wait, label %awake
wait:
  %w = call i32 @pthread_cond_wait(ptr %wake, ptr @pool)
  br label %check
awake:
  %u = call i32 @pthread_mutex_unlock(ptr @pool)
  br label %run
run:
  %turn = phi i64 [ %now, %spin ], [ %later, %awake ]
  %count = load i64, ptr %countp
  %mine = icmp ult i64 %id, %count
  br i1 %mine, label %work, label %next
work:
  %task = load ptr, ptr %taskp
  %context = load ptr, ptr %contextp
  call void %task(ptr %context, i64 %id)
  br label %next
next:
  %old = atomicrmw sub ptr %leftp, i64 1 acq_rel
  br label %outer
}

; Start n - 1 workers; false if one could not be had.
define i1 @tk.start(i64 %n) {
entry:
  %wake = getelementptr %pool, ptr @pool, i64 0, i32 1
  %a = call i32 @pthread_mutex_init(ptr @pool, ptr null)
  %b = call i32 @pthread_cond_init(ptr %wake, ptr null)
  %thread = alloca i64
  br label %loop
loop:
  %i = phi i64 [ 1, %entry ], [ %i1, %made ]
  %go = icmp ult i64 %i, %n
  br i1 %go, label %make, label %done
make:
  %arg = inttoptr i64 %i to ptr
  %bad = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %arg)
  %ok = icmp eq i32 %bad, 0
  br i1 %ok, label %made, label %failed
made:
  %t = load i64, ptr %thread
  %d = call i32 @pthread_detach(i64 %t)
  store i64 %i, ptr @pool.workers
  %i1 = add i64 %i, 1
  br label %loop
failed:
  ret i1 false
done:
  %pid = call i32 @getpid()
  store i32 %pid, ptr @pool.pid
  ret i1 true
}

define void @tk.parallel(ptr %task, ptr %context, i64 %n) {
entry:
  %leftp = getelementptr %pool, ptr @pool, i64 0, i32 5
  %home = load i32, ptr @pool.pid
  %pid = call i32 @getpid()
  %here = icmp eq i32 %home, %pid
  br i1 %here, label %ask, label %alone
ask:
  %got = cmpxchg ptr @pool.busy, i64 0, i64 1 acq_rel monotonic
  %free = extractvalue { i64, i1 } %got, 1
  br i1 %free, label %share, label %alone
share:
  %wake = getelementptr %pool, ptr @pool, i64 0, i32 1
  %taskp = getelementptr %pool, ptr @pool, i64 0, i32 2
  %contextp = getelementptr %pool, ptr @pool, i64 0, i32 3
  %turnp = getelementptr %pool, ptr @pool, i64 0, i32 4
  %countp = getelementptr %pool, ptr @pool, i64 0, i32 6
  %workers = load i64, ptr @pool.workers
  store ptr %task, ptr %taskp
  store ptr %context, ptr %contextp
  store i64 %n, ptr %countp
  store atomic i64 %workers, ptr %leftp release, align 8
  %l = call i32 @pthread_mutex_lock(ptr @pool)
  %old = atomicrmw add ptr %turnp, i64 1 acq_rel
  %c = call i32 @pthread_cond_broadcast(ptr %wake)
  %u = call i32 @pthread_mutex_unlock(ptr @pool)
  call void %task(ptr %context, i64 0)
  ; tasks that there is no worker for
  %have = add i64 %workers, 1
  br label %rest
rest:
  %r = phi i64 [ %have, %share ], [ %r1, %extra ]
  %over = icmp ult i64 %r, %n
  br i1 %over, label %extra, label %join
extra:
  call void %task(ptr %context, i64 %r)
  %r1 = add i64 %r, 1
  br label %rest
join:
  %k = phi i64 [ 0, %rest ], [ %k1, %spin ], [ 0, %yield ]
  %left = load atomic i64, ptr %leftp acquire, align 8
  %all = icmp eq i64 %left, 0
  br i1 %all, label %finish, label %spin
spin:
  %k1 = add i64 %k, 1
  %long = icmp ugt i64 %k1, 20000
  br i1 %long, label %yield, label %join
yield:
  %y = call i32 @sched_yield()
  br label %join
finish:
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
}
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
        kind, name = _without_attributes(parameter).split()
        lines.append(f"  {name}.cell = getelementptr i64, ptr %frame, i64 {at}")
        lines.append(f"  {name} = load {kind}, ptr {name}.cell")
    return lines


def _without_attributes(parameter: str) -> str:
    """A parameter without its attributes."""
    words = parameter.split()
    return f"{words[0]} {words[-1]}"


def task_text(parameters: Sequence[str], extent: int, part: int) -> str:
    """@KERNEL.task, which a thread runs: it loads @KERNEL's arguments from a frame and calls it for
    the thread's part of a range, which is `part` long. The frame's last cell is @KERNEL's
    %partials."""
    loaded = [*parameters, "ptr %partials"]
    arguments = [*map(_without_attributes, loaded), "i64 %lo", "i64 %hi", "i64 %tid"]
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
