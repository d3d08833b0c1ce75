"""The engine on an executor of the user's.

A worker keeps the shards that it was sent, under a key; a step sends the key, and the shards only
if the worker that takes the task has not got them.
"""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
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
from tracker.support.structs import record

_MAX_BLOCKS = 256  # kept in a process; what is dropped is sent again
_blocks: dict[tuple[int, int, int], Block] = {}
_engine_numbers = itertools.count()


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

    def __init__(self, executor: Executor, loss: Callable[..., Any], shards: Any) -> None:
        self._executor = executor
        workers = getattr(executor, "_max_workers", None) or processors()
        self._blocks = make_blocks(loss, shards, workers)
        self.shard_count = sum(len(block.numbers) for block in self._blocks)
        self._threads = threads_of_each(len(self._blocks))
        self._is_sent = [False] * len(self._blocks)
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

    def _submit(self, number: int, request: bytes, with_block: bool) -> Future[Nodes | None]:
        block = self._blocks[number] if with_block else None
        try:
            future = self._executor.submit(
                run_block, (*self._key, number), block, request, self._threads
            )
        except BrokenExecutor as error:  # since the last step
            raise self._lost() from error
        self._is_sent[number] = True
        return future

    def _result(self, pending: Pending | Nodes) -> Nodes:
        if not isinstance(pending, Pending):
            return pending
        try:
            found = pending.future.result()
            if found is None:
                found = self._submit(pending.number, pending.request, True).result()
        except BrokenExecutor as error:
            raise self._lost() from error
        assert found is not None
        return found

    def _lost(self) -> LostWorkerError:
        return LostWorkerError(
            f"{type(self._executor).__name__} has lost a worker, and takes no more work",
            "Give value_and_grad a number of processes instead: engine=4. Those are started again",
        )
