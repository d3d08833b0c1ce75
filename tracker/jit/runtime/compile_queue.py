"""Compiling beside the program: what a first call has traced it has also computed, so its result
need not wait for machine code.

Owns: `Job`, `enqueue` and `start`, `run_now`, and `drain`. Start at `Job`.

Invariants: one thread compiles at a time; a job that cannot have a thread of its own is done at
once, by its caller; one that no thread has taken, by who asks for it: it may have been interrupted
before it had a thread, or be a child of fork, where its thread is not there (nobody forks while a
job is under way); a program that ends waits for the text that LLVM has in hand, and for no more.
What the compiler refuses, it refuses each time; any other exception (of a signal handler, of memory
or of the stack) says nothing of the work, which is done anew by the next who asks.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import tracker.jit.llvm.engine  # noqa: F401  (its hook of `os.fork` must be older than ours)
from tracker.errors import TrackerError

_Result = TypeVar("_Result")
_COMPILE_LOCK = threading.RLock()
_MAX_THREADS = 4  # jobs that wait for each other; who wants more does the work himself
_START_DELAY = 0.0003  # seconds until a thread begins with its job
_threads: list[threading.Thread] = []
_unfinished: dict[int, Job[Any]] = {}  # by id, those that a thread is to do


class Job(Generic[_Result]):
    """Work that gives a result; who asks for it waits for the thread that has taken the work, or
    does it. An exception that is not the compiler's leaves the work to the next who asks."""

    def __init__(self, work: Callable[[], _Result]) -> None:
        self._work: Callable[[], _Result] | None = work
        self._results: list[_Result] = []
        self._error: TrackerError | None = None
        self._thread_done = threading.Event()
        self._is_assigned = self._is_running = False

    def run(self) -> None:
        """Do the work, now and here, unless it is done. What the compiler refuses, those hear who
        ask for the result; any other exception is raised here."""
        with _COMPILE_LOCK:
            if self._work is None:
                return
            self._is_running = True
            try:
                self._results.append(self._work())
            except TrackerError as error:
                self._error = error
            finally:
                self._is_running = False
            self._work = None
            _unfinished.pop(id(self), None)

    def run_in_thread(self) -> None:
        """Do the work in a thread that nothing interrupts, unless somebody is at it: a thread that
        waits for him would keep for a while what he may want to be gone; or the program ends."""
        if self._is_running or not threading.main_thread().is_alive():
            return
        self._is_assigned = True
        try:
            with contextlib.suppress(Exception):  # who asks does the work himself, and hears of it
                self.run()
        finally:
            self._thread_done.set()

    @property
    def has_result(self) -> bool:
        return bool(self._results)

    def wait(self) -> None:
        if self._is_assigned:
            self._thread_done.wait()
        self.run()

    def forget_thread(self) -> None:
        """This is a child of fork, and the thread that was to do the work is not in it."""
        self._is_assigned = False

    def result(self) -> _Result:
        """What the work gave; the compiler's error, made anew, if it refused."""
        self.wait()
        if self._error is not None:
            raise type(self._error)(*self._error.args) from self._error
        return self._results[0]


def run_now(work: Callable[[], _Result]) -> Job[_Result]:
    """A job that is done; its error is raised here."""
    job = Job(work)
    job.run()
    job.result()
    return job


def enqueue(work: Callable[[], _Result]) -> Job[_Result]:
    """A job that is to be begun, by `start`, in the context of now."""
    job = Job(functools.partial(contextvars.copy_context().run, work))
    _unfinished[id(job)] = job
    return job


def start(job: Job[Any]) -> None:
    """Have a thread of its own do a job that is not done, unless too many are under way: then it
    is done here. An error is for those who ask for the result."""
    if id(job) in _unfinished and not _start_thread(job):
        job.run()


def _start_thread(job: Job[Any]) -> bool:
    _threads[:] = [thread for thread in _threads if thread.is_alive()]
    if len(_threads) >= _MAX_THREADS or not threading.main_thread().is_alive():
        return False
    thread = threading.Thread(target=_thread_main, args=(weakref.ref(job),), name="tracker-compile")
    try:
        thread.start()
    except RuntimeError:  # the interpreter is ending, or the system has no more threads
        return False
    _threads.append(thread)
    return True


def _thread_main(found: weakref.ref[Job[Any]]) -> None:
    """Do a job, once who began it has gone on: a thread that starts has the interpreter's lock for
    a switch interval (5 ms), and the call would return no sooner. Then it may be done, and gone."""
    time.sleep(_START_DELAY)
    job = found()
    if job is not None:
        job.run_in_thread()


def drain() -> None:
    """Wait for all jobs, and for the ends of their threads."""
    for thread in tuple(_threads):  # others may start more
        if thread is not threading.current_thread():
            thread.join()


def _before_fork() -> None:
    drain()
    _COMPILE_LOCK.acquire()  # another thread may have begun to compile meanwhile


def _after_fork_in_child() -> None:
    _COMPILE_LOCK.release()
    for job in _unfinished.values():
        job.forget_thread()
    _unfinished.clear()


os.register_at_fork(
    before=_before_fork, after_in_parent=_COMPILE_LOCK.release, after_in_child=_after_fork_in_child
)
