"""The engine on dask.distributed: shards are futures, a step is a task for each worker.

Partitions of collections and the user's futures stay on the workers that have computed them; other
shards are scattered. dask computes again what a lost worker had computed. What was scattered to it
is scattered again here, and the step is repeated.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import Any

import dask
import numpy as np
from dask.delayed import Delayed
from distributed import Client, Future, as_completed, wait

from tracker import tree
from tracker.distributed.engines import Block, as_list, consecutive
from tracker.distributed.partial_sums import Nodes, merge
from tracker.distributed.worker import Request, evaluate_sent, pack
from tracker.errors import UnsupportedError

_MAX_LOSSES = 3  # of scattered data in one step
_MAX_INLINE = 8_000_000  # bytes that a step sends through the scheduler


Packed = tuple[Any, ...]  # a pickle, and its buffers as arrays, which dask sends without a copy


def evaluate_packed(block: Block, request: Request) -> Packed:
    """At a worker: the sums over a block."""
    return _packed(evaluate_sent(block.loss, block.numbers, block.shards, request, 1))


def merge_packed(left: Packed, right: Packed) -> Packed:
    return _packed(merge(_unpacked(left), _unpacked(right)))


def _packed(nodes: Nodes) -> Packed:
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(nodes, 5, buffer_callback=buffers.append)
    return text, *(np.asarray(buffer.raw()) for buffer in buffers)


def _unpacked(packed: Packed) -> Nodes:
    nodes: Nodes = pickle.loads(packed[0], buffers=packed[1:])
    return nodes


class DaskEngine:
    """See `Engine`."""

    def __init__(self, client: Client, loss: Callable[..., Any], shards: Any) -> None:
        self._client, self._loss = client, pack(loss)
        self._given = _partitions(client, shards)
        self.shard_count = len(self._given)
        self._place()

    def _place(self) -> None:
        """Find out where shards are; send those that are not anywhere."""
        if not (addresses := sorted(self._client.scheduler_info(n_workers=-1)["workers"])):
            raise UnsupportedError("the dask cluster has no workers", "client.wait_for_workers(1)")
        sent_loss = self._client.scatter(self._loss, broadcast=True, hash=False)
        self._shards = list(self._given)
        parts = consecutive(self.shard_count, len(addresses))
        for part, address in zip(parts, addresses, strict=False):
            if numbers := [k for k in part if not isinstance(self._given[k], Future)]:
                data = [self._given[k] for k in numbers]
                sent = self._client.scatter(data, workers=[address], hash=False)
                for k, future in zip(numbers, sent, strict=True):
                    self._shards[k] = future
        wait(self._shards)
        where = self._client.who_has(self._shards)
        numbers_at: dict[str, list[int]] = defaultdict(list)  # of the shards of each worker
        for k, future in enumerate(self._shards):
            numbers_at[min(where.get(future.key) or addresses)].append(k)
        self._blocks = {
            address: self._submit(
                address, Block, sent_loss, numbers, [self._shards[k] for k in numbers]
            )
            for address, numbers in numbers_at.items()
        }

    def start(self, request: Request) -> list[Any]:
        sent: Any = request
        if request.nbytes * len(self._blocks) > _MAX_INLINE:
            sent = self._client.scatter(request, broadcast=True, hash=False)
        return [
            self._submit(address, evaluate_packed, block, sent)
            for address, block in self._blocks.items()
        ]

    def _submit(self, address: str, f: Callable[..., Any], *args: Any) -> Future:
        """Call `f` at a worker, or at another one if that is lost."""
        return self._client.submit(
            f, *args, workers=[address], allow_other_workers=True, pure=False
        )

    def completed(self, handles: list[Any]) -> Iterator[Any]:
        return iter(as_completed(handles))

    def merge(self, left: Any, right: Any) -> Any:
        return self._client.submit(merge_packed, left, right, pure=False)

    def gather(self, handles: list[Any], request: Request) -> list[Nodes]:
        for losses in range(_MAX_LOSSES + 1):
            try:
                return [_unpacked(found) for found in self._client.gather(handles)]
            except CancelledError:  # scattered data is lost
                if losses == _MAX_LOSSES:
                    raise
                self._place()
                handles = self.start(request)
        raise AssertionError

    def close(self) -> None:
        del self._shards, self._blocks


def _partitions(client: Client, shards: Any) -> list[Any]:
    """The shards: futures, or data to be sent."""
    if isinstance(shards, list):
        if any(isinstance(shard, Delayed) for shard in shards):
            return list(client.compute(shards))
        return as_list(shards)
    parts, structure = tree.flatten(shards, dask.is_dask_collection)
    if not (parts and all(map(dask.is_dask_collection, parts))):
        return as_list(shards)
    columns = [_blocks_of(part) for part in parts]
    if len({len(column) for column in columns}) > 1:
        raise UnsupportedError(
            f"the collections have {' and '.join(str(len(c)) for c in columns)} partitions",
            "Give them the same ones: x.rechunk(...) or df.repartition(...)",
        )
    rows = [tree.unflatten(structure, row) for row in zip(*columns, strict=True)]
    return list(client.compute([dask.delayed(row) for row in rows]))


def _blocks_of(collection: Any) -> list[Any]:
    """The delayed partitions of an array, along its first axis, or of a dataframe."""
    found = collection.to_delayed()
    if not isinstance(found, list) and max(found.shape[1:], default=1) > 1:
        raise UnsupportedError(
            f"an array of {collection.numblocks} blocks is split along several axes",
            "Split it along the first one only: x.rechunk({1: -1})",
        )
    return list(found) if isinstance(found, list) else list(found.ravel())
