"""The engine on processes of our own, which answer through pipes.

A process keeps its shards, and answers one request at a time. A process that is lost is replaced by
a new one, which gets the same shards. A pool would hand tasks to its processes by threads of its
own, which takes longer than a small gradient.
"""

from __future__ import annotations

import contextlib
import multiprocessing.connection
import os
import pickle
import signal
import weakref
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined]
from typing import Any

from tracker.distributed.engines import (
    Block,
    LostWorkerError,
    make_blocks,
    processors,
    threads_of_each,
)
from tracker.distributed.partial_sums import Nodes, merge
from tracker.distributed.worker import Request, evaluate_sent
from tracker.errors import UnsupportedError
from tracker.jit import limit_threads

_MAX_LOSSES = 3  # of one process in one step
_SECONDS_TO_END = 5.0  # for a process that is let go


def answer_requests(connection: Connection, threads: int) -> None:
    """In a process: take the shards, and answer requests until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # interrupts whoever waits for the answer
    limit_threads(threads)
    with contextlib.suppress(EOFError, OSError):
        block = connection.recv()
        while True:
            request = connection.recv_bytes()
            connection.send_bytes(_answer(block, request, threads))


def _answer(block: Block, request: bytes, threads: int) -> bytes:
    """The pickle of the sums over a block, or of the error that came instead."""
    try:
        found = evaluate_sent(
            block.loss, block.numbers, block.shards, pickle.loads(request), threads
        )
        return pickle.dumps(found, 5)
    except Exception as error:
        try:
            return pickle.dumps(ExceptionWithTraceback(error, error.__traceback__), 5)
        except Exception:  # it holds what cannot be sent
            text = RuntimeError(f"{type(error).__name__}: {error}")
            return pickle.dumps(ExceptionWithTraceback(text, error.__traceback__), 5)


class WorkerProcess:
    """A process with its shards, as those see it who ask it."""

    def __init__(self, block: Block, threads: int) -> None:
        self._block, self._threads = block, threads
        self._request, self._is_asked = b"", False
        self._start()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def ask(self, request: bytes) -> None:
        """Send a request."""
        if self._is_asked and self._received() is None:  # an error elsewhere has ended that step
            self._start()
        self._request = request
        self._send()

    def answer(self) -> Nodes:
        """The answer to the request. If the process is lost, a new one is asked."""
        for _ in range(_MAX_LOSSES + 1):
            received = self._received()
            if received is not None:
                break
            self._start()
            self._send()
        else:
            raise LostWorkerError(
                f"the worker of shards {self._block.span} was lost {_MAX_LOSSES + 1} times: it "
                "ended before it gave a result",
                'Begin the program\'s main part with if __name__ == "__main__":, look whether '
                "memory is short, or compute this shard here: loss(params, shards[k])",
            )
        found: Nodes | Exception = pickle.loads(received)
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        """Let the process go, which ends when it has answered."""
        self.connection.close()
        self._process.join(_SECONDS_TO_END)
        self._process.kill()

    def _start(self) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=answer_requests, args=(theirs, self._threads))
        self._process.start()
        theirs.close()
        self._has_shards = False

    def _send(self) -> None:
        with contextlib.suppress(OSError):  # `_received` tells of lost processes
            if not self._has_shards:
                self.connection.send(self._block)
                self._has_shards = True
            self.connection.send_bytes(self._request)
        self._is_asked = True

    def _received(self) -> bytes | None:
        """The next answer; None if the process is lost."""
        received = None
        try:
            received = self.connection.recv_bytes()
        except (EOFError, OSError):
            self._process.join()
        except BaseException:  # half an answer is left in the pipe
            self._process.kill()
            self.connection.close()
            raise
        self._is_asked = False
        return received


class ProcessEngine:
    """See `Engine`."""

    def __init__(self, count: int | None, loss: Callable[..., Any], shards: Any) -> None:
        if count is not None and count < 1:
            raise ValueError(f"engine={count!r}; a number of processes is at least 1")
        blocks = make_blocks(loss, shards, count or processors())
        self.shard_count = sum(len(block.numbers) for block in blocks)
        threads = threads_of_each(len(blocks))
        self.workers = [WorkerProcess(block, threads) for block in blocks]
        self._owner = os.getpid()
        self._finalizer = weakref.finalize(self, _close, self.workers)

    def start(self, request: Request) -> list[Any]:
        if os.getpid() != self._owner:
            raise UnsupportedError(
                "this sharded derivative belongs to the process that this one was forked from",
                "Call tracker.distributed.value_and_grad here",
            )
        packed = pickle.dumps(request, 5)  # once for all workers
        for worker in self.workers:
            worker.ask(packed)
        return list(self.workers)

    def completed(self, handles: list[Any]) -> Iterator[Any]:
        waiting = [worker.connection for worker in handles]
        while waiting:
            done = multiprocessing.connection.wait(waiting)
            yield from done
            waiting = [connection for connection in waiting if connection not in done]

    def merge(self, left: Any, right: Any) -> Any:
        return merge(_nodes(left), _nodes(right))

    def gather(self, handles: list[Any], request: Request) -> list[Nodes]:
        return [_nodes(handle) for handle in handles]

    def close(self) -> None:
        self._finalizer()


def _nodes(handle: WorkerProcess | Nodes) -> Nodes:
    return handle.answer() if isinstance(handle, WorkerProcess) else handle


def _close(workers: list[WorkerProcess]) -> None:
    for worker in workers:
        worker.close()
