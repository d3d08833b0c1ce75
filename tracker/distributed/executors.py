"""The engine on `concurrent.futures`: processes of our own, or the user's executor.

A worker keeps the shards that it was sent, under a key; a step sends the key, and the shards only
to a worker that has not got them (a new process, or another one of the user's pool). Our own
processes are pools of one, so that each has its shards, and a lost one is replaced alone.
"""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

from tracker.config import current
from tracker.distributed.engines import as_list, consecutive, processors
from tracker.distributed.partial_sums import Nodes, merge
from tracker.distributed.worker import PackedLoss, Request, evaluate_sent, pack
from tracker.errors import TrackerError, message
from tracker.jit import limit_threads
from tracker.support.structs import record

_MAX_BLOCKS = 256  # kept in a process; what is dropped is sent again
_MAX_LOSSES = 3  # of one worker in one step
_blocks: dict[tuple[int, int, int], Block] = {}
_engine_numbers = itertools.count()


class LostWorkerError(TrackerError, BrokenExecutor):
    """A worker ended before it gave a result, and is not started again."""


@record(frozen=True)
class Block:
    """The shards of a worker, with their numbers."""

    loss: PackedLoss
    numbers: range
    shards: list[Any]


def run_block(
    key: tuple[int, int, int], block: Block | None, request: bytes, threads: int
) -> Nodes | None:
    """At a worker: the sums over a block; None if it is not sent, and not here."""
    if block is None:
        block = _blocks.get(key)
        if block is None:
            return None
    elif key not in _blocks:
        while len(_blocks) >= _MAX_BLOCKS:
            _blocks.pop(next(iter(_blocks)), None)
        _blocks[key] = block
    return evaluate_sent(block.loss, block.numbers, block.shards, pickle.loads(request), threads)


@record()
class Pending:
    """The handle of a block that is computed."""

    number: int
    request: bytes
    future: Future[Nodes | None]


class ExecutorEngine:
    """See `Engine`."""

    def __init__(
        self, engine: Executor | int | None, loss: Callable[..., Any], shards: Any
    ) -> None:
        given = as_list(shards)
        self.shard_count = len(given)
        self._executor = engine if isinstance(engine, Executor) else None
        workers = _worker_count(engine)
        packed, parts = pack(loss), consecutive(len(given), workers)
        self._blocks = [Block(packed, part, given[part.start : part.stop]) for part in parts]
        self._threads = current().threads or max(1, processors() // len(parts))
        self._pools = [self._executor or self._new_pool() for _ in parts]
        self._is_sent = [False] * len(parts)
        self._key = os.getpid(), next(_engine_numbers)

    def start(self, request: Request) -> list[Any]:
        packed = pickle.dumps(request, 5)  # once for all workers
        return [
            Pending(number, packed, self._submit(number, packed, not sent))
            for number, sent in enumerate(self._is_sent)
        ]

    def completed(self, handles: list[Any]) -> Iterator[Any]:
        return as_completed([pending.future for pending in handles])

    def merge(self, left: Any, right: Any) -> Any:
        return merge(self._result(left), self._result(right))

    def gather(self, handles: list[Any], request: Request) -> list[Nodes]:
        return [self._result(handle) for handle in handles]

    def close(self) -> None:
        for number in range(len(self._blocks)):
            _blocks.pop((*self._key, number), None)  # of an executor of threads
        for pool in self._pools if self._executor is None else ():
            pool.shutdown()

    def _submit(self, number: int, request: bytes, with_block: bool) -> Future[Nodes | None]:
        for losses in itertools.count(1):
            block = self._blocks[number] if with_block else None
            key = *self._key, number
            try:
                future = self._pools[number].submit(run_block, key, block, request, self._threads)
            except BrokenExecutor as error:  # the worker was lost since the last step
                self._replace(number, losses, error)
                with_block = True
            else:
                self._is_sent[number] = True
                return future
        raise AssertionError

    def _result(self, pending: Pending | Nodes) -> Nodes:
        if not isinstance(pending, Pending):
            return pending
        number, losses = pending.number, itertools.count(1)
        while True:
            try:
                found = pending.future.result()
            except BrokenExecutor as error:
                self._replace(number, next(losses), error)
                found = None
            if found is not None:
                return found
            pending.future = self._submit(number, pending.request, True)

    def _replace(self, number: int, losses: int, error: BrokenExecutor) -> None:
        """Start another process for one that was lost."""
        if self._executor is not None:
            raise LostWorkerError(
                message(
                    f"{type(self._executor).__name__} has lost a worker, and takes no more work",
                    "Give value_and_grad a number of processes instead: engine=4. Those are "
                    "started again",
                )
            ) from error
        if losses > _MAX_LOSSES:
            raise LostWorkerError(
                message(
                    f"the worker of shards {_span(self._blocks[number].numbers)} was lost "
                    f"{losses} times: it ended before it gave a result",
                    'Begin the program\'s main part with if __name__ == "__main__":, look whether '
                    "memory is short, or compute this shard here: loss(params, shards[k])",
                )
            ) from error
        self._pools[number] = self._new_pool()

    def _new_pool(self) -> Executor:
        return ProcessPoolExecutor(
            1, get_context("spawn"), initializer=limit_threads, initargs=(self._threads,)
        )


def _worker_count(engine: Executor | int | None) -> int:
    if isinstance(engine, Executor):
        return getattr(engine, "_max_workers", None) or processors()
    if engine is not None and engine < 1:
        raise ValueError(f"engine={engine!r}; a number of processes is at least 1")
    return engine or processors()


def _span(numbers: range) -> str:
    return f"{numbers.start} to {numbers.stop - 1}"
