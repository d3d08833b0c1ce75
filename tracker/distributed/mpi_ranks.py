"""The engine on MPI: each rank has its own shards, and gets the whole sum.

Shards are numbered in the order of the ranks. Ranks exchange partial sums in a hypercube: after
log2(size) rounds all have the same nodes, bit by bit. A rank whose loss raises still takes part,
and all ranks raise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from mpi4py import MPI

from tracker.config import current
from tracker.distributed.engines import as_list, processors
from tracker.distributed.partial_sums import Nodes, merge
from tracker.distributed.worker import Request, derivatives_of, evaluate
from tracker.errors import UnsupportedError
from tracker.jit import limit_threads


class MpiEngine:
    """See `Engine`."""

    def __init__(self, comm: MPI.Comm, loss: Callable[..., Any], shards: Any) -> None:
        self._comm = comm
        self._shards = as_list(shards, may_be_empty=True)
        counts = comm.allgather(len(self._shards))
        self.shard_count = sum(counts)
        if not self.shard_count:
            raise UnsupportedError("no rank has a shard", "Give a list of them to each")
        first = sum(counts[: comm.rank])
        self._numbers = range(first, first + len(self._shards))
        self._derivatives = derivatives_of(loss)
        share = _processors_of_rank(comm)
        self._threads = current().threads or share
        limit_threads(share)

    def start(self, request: Request) -> list[Any]:
        try:
            return [
                evaluate(self._derivatives, self._numbers, self._shards, request, self._threads)
            ]
        except Exception as error:
            return [error]

    def completed(self, handles: list[Any]) -> Iterator[Any]:
        return iter(handles)

    def merge(self, left: Any, right: Any) -> Any:
        """The sum of what two ranks have; the error, if one has raised."""
        for each in (left, right):
            if isinstance(each, Exception):
                return each
        return merge(left, right)

    def gather(self, handles: list[Any], request: Request) -> list[Nodes]:
        comm, (own,) = self._comm, handles
        rank, size = comm.rank, comm.size
        core = 1 << size.bit_length() - 1  # ranks from here on send theirs to one below first
        if rank >= core:
            comm.send(own, rank - core)
            own = comm.recv(source=rank - core)
        else:
            if rank + core < size:
                own = self.merge(own, comm.recv(source=rank + core))
            for step in range(core.bit_length() - 1):
                other = rank ^ 1 << step
                own = self.merge(own, comm.sendrecv(own, other, source=other))
            if rank + core < size:
                comm.send(own, rank + core)
        if isinstance(own, Exception):
            raise own
        return [own]

    def close(self) -> None:
        self._shards = []


def _processors_of_rank(comm: MPI.Comm) -> int:
    """How many processors this rank has for itself: those that it may use, shared with the ranks of
    this machine that may use them, too."""
    own = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(processors()))
    here = comm.Split_type(MPI.COMM_TYPE_SHARED)
    sharers = sum(not own.isdisjoint(other) for other in here.allgather(own))
    here.Free()
    return max(1, len(own) // sharers)
