"""Background compilation: a first call returns the numbers of its trace, and does not wait for
machine code.

`enqueue` makes a `Job`, `start` gives it a thread, `Job.result` waits for it.

Invariants:
- One thread compiles at a time.
- A job without a thread is done by the caller that needs its result: the thread could not be
  started, an interrupt came before it had one, or this is a forked child. No fork happens while a
  job runs.
- At exit a program waits for the text that LLVM is compiling, and for no more.
- A `TrackerError` is a job's result. Any other exception (of a signal handler, of memory, of the
  stack) says nothing about the work, and the next caller does it again.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import tracker.jit.llvm.engine  # noqa: F401  (its fork hook must be registered first)
from tracker.errors import TrackerError
from tracker.support.forks import register_at_fork

_Result = TypeVar("_Result")
_COMPILE_LOCK = threading.RLock()
_MAX_THREADS = 4  # with jobs; further jobs are done by their callers
_START_DELAY = 0.0003  # seconds
_SWITCH_INTERVAL = 0.0002  # seconds; usual are 5 ms
_HALF_US = 5e-7  # Python cuts off what is less than 1 us
_threads: list[threading.Thread] = []
_unfinished: dict[int, Job[Any]] = {}  # by id


class Job(Generic[_Result]):
    """Work with a result. A caller that needs the result waits for the job's thread, or does the
    work."""

    def __init__(self, work: Callable[[], _Result]) -> None:
        self._work: Callable[[], _Result] | None = work
        self._results: list[_Result] = []
        self._error: TrackerError | None = None
        self._thread_done = threading.Event()
        self._is_assigned = self._is_running = False

    def run(self) -> None:
        """Do the work here, unless it is done. A `TrackerError` is kept for `result`; any other
        exception is raised here."""
        if self.is_done:  # do not wait for other jobs
            return
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
        """Do the work in a thread that no signal interrupts, unless another thread is at it
        (waiting here would keep alive what that thread may want freed), or the program is ending.
        """
        if self._is_running or self.is_done or not threading.main_thread().is_alive():
            return
        self._is_assigned = True
        try:
            # an exception: `result` does the work again, and raises
            with contextlib.suppress(Exception), _frequent_switches():
                self.run()
        finally:
            self._thread_done.set()

    @property
    def has_result(self) -> bool:
        return bool(self._results)

    @property
    def is_done(self) -> bool:
        """Whether there is a result or an error."""
        return self._work is None

    def wait(self) -> None:
        if self._is_assigned:
            self._thread_done.wait()
        self.run()

    def forget_thread(self) -> None:
        """This is a forked child, which does not have the job's thread."""
        self._is_assigned = False

    def result(self) -> _Result:
        """The result; the compiler's error, raised anew, if there was one."""
        self.wait()
        if self._error is not None:
            raise type(self._error)(*self._error.args) from self._error
        return self._results[0]


def run_now(work: Callable[[], _Result]) -> Job[_Result]:
    """A finished job; its error is raised here."""
    job = Job(work)
    job.result()
    return job


def enqueue(work: Callable[[], _Result]) -> Job[_Result]:
    """A job for `start`, to run in the current context."""
    job = Job(functools.partial(contextvars.copy_context().run, work))
    _unfinished[id(job)] = job
    return job


def start(job: Job[Any]) -> None:
    """Give an unfinished job a thread; do it here if too many are running. Errors are raised by
    `Job.result`."""
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
    """Do a job, if it still exists, after a short delay: a starting thread holds the interpreter's
    lock for a switch interval (5 ms), and the call that started it would return no sooner."""
    time.sleep(_START_DELAY)
    job = found()
    if job is not None:
        job.run_in_thread()


@contextlib.contextmanager
def _frequent_switches() -> Iterator[None]:
    """Let other threads have the interpreter's lock soon. NumPy gives it up in each operation on
    more than 500 elements, and would wait for the compiler each time: 5 ms for 1 us of work."""
    with _COMPILE_LOCK:
        usual = sys.getswitchinterval()
        sys.setswitchinterval(min(usual, _SWITCH_INTERVAL) + _HALF_US)
        ours = sys.getswitchinterval()
        try:
            yield
        finally:
            if sys.getswitchinterval() == ours:  # nobody else has set it since
                sys.setswitchinterval(usual + _HALF_US)


def drain() -> None:
    """Wait for all jobs and their threads."""
    for thread in tuple(_threads):  # other threads may start more
        if thread is not threading.current_thread():
            thread.join()


def _before_fork() -> None:
    drain()
    _COMPILE_LOCK.acquire()  # another thread may have started compiling


def _after_fork_in_child() -> None:
    _COMPILE_LOCK.release()
    for job in _unfinished.values():
        job.forget_thread()
    _unfinished.clear()


register_at_fork(
    before=_before_fork, after_in_parent=_COMPILE_LOCK.release, after_in_child=_after_fork_in_child
)
