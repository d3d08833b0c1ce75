"""The protocol of engines, and which engine users have named.

The module of an engine is imported when it is first named: the libraries are optional.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor
from typing import Any, Protocol

from tracker.config import current
from tracker.distributed.partial_sums import Nodes
from tracker.distributed.worker import PackedLoss, Request, pack
from tracker.errors import TrackerError, UnsupportedError, message
from tracker.support.structs import record


class LostWorkerError(TrackerError, BrokenExecutor):
    """A worker ended before it gave a result, and is not started again."""


class Engine(Protocol):
    """Keeps a loss and shards at workers, and runs steps on them.

    A handle stands for partial sums that a worker computes.
    """

    @property
    def shard_count(self) -> int:
        """How many shards there are, at all workers."""

    def start(self, request: Request) -> list[Any]:
        """Begin a step; a handle for each worker."""

    def completed(self, handles: list[Any]) -> Iterator[Any]:
        """The handles, as they are done."""

    def merge(self, left: Any, right: Any) -> Any:
        """The handle of the sum of two, computed where one of them is."""

    def gather(self, handles: list[Any], request: Request) -> list[Nodes]:
        """The partial sums, when they are there; `request` has begun the step."""

    def close(self) -> None:
        """Let the workers go."""


_FILES = {  # by the package of the object that names an engine
    "distributed": ("dask_client", "DaskEngine", "dask"),
    "ray": ("ray_actors", "RayEngine", "ray"),
    "mpi4py": ("mpi_ranks", "MpiEngine", "mpi"),
}


def make_engine(engine: Any, loss: Callable[..., Any], shards: Any) -> Engine:
    """The engine that the user has named, with a loss and shards."""
    if engine is None or isinstance(engine, int):
        name, cls, extra = "processes", "ProcessEngine", ""
    elif isinstance(engine, Executor):
        name, cls, extra = "executors", "ExecutorEngine", ""
    else:
        package = engine if isinstance(engine, str) else _package_of(engine)
        if package not in _FILES:
            raise UnsupportedError(
                f"there is no engine {engine!r}",
                "Give a number of processes, a concurrent.futures.Executor, a "
                "dask.distributed.Client, 'ray', or an mpi4py.MPI.Comm",
            )
        name, cls, extra = _FILES[package]
        if importlib.util.find_spec(package) is None:
            raise ImportError(
                message(
                    f"the engine {package!r} needs {package}",
                    f"pip install 'tracker-grad[{extra}]'",
                    "",
                )
            )
    module = importlib.import_module(f"tracker.distributed.{name}")
    made: Engine = getattr(module, cls)(engine, loss, shards)
    return made


def _package_of(engine: Any) -> str:
    """The package of the first class of an object that names an engine."""
    packages = [cls.__module__.partition(".")[0] for cls in type(engine).__mro__]
    return next((each for each in packages if each in _FILES), packages[0])


def as_list(shards: Any, may_be_empty: bool = False) -> list[Any]:
    """The shards of a sequence."""
    is_sequence = isinstance(shards, (list, tuple))
    parts = list(shards) if is_sequence else [shards]
    if any(hasattr(part, "__dask_graph__") and hasattr(part, "npartitions") for part in parts):
        raise UnsupportedError(
            "shards of dask stay on dask's workers",
            "Give one collection, or a tuple of them, and the dask.distributed.Client: "
            "value_and_grad(loss, (x, y), client)",
        )
    if not is_sequence or not (shards or may_be_empty):
        raise UnsupportedError(
            f"shards are a {type(shards).__name__}" + (" without elements" if is_sequence else ""),
            "Give a list with a part of the data for each shard: np.array_split(data, 8)",
        )
    return parts


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_of_each(workers: int) -> int:
    """The threads of each of so many workers on this machine: what the user has set, or an equal
    share."""
    return current().threads or max(1, processors() // workers)


def consecutive(count: int, workers: int) -> list[range]:
    """The numbers of the shards of each worker: consecutive ones, nearly as many for each."""
    workers = min(count, workers)
    ends = [count * k // workers for k in range(workers + 1)]
    return [range(a, b) for a, b in itertools.pairwise(ends)]


@record(frozen=True)
class Block:
    """The shards of a worker, with their numbers."""

    loss: PackedLoss
    numbers: Sequence[int]
    shards: list[Any]

    @property
    def span(self) -> str:
        return f"{self.numbers[0]} to {self.numbers[-1]}"


def make_blocks(loss: Callable[..., Any], shards: Any, workers: int) -> list[Block]:
    """A block for each worker, at most one for each shard."""
    packed, given = pack(loss), as_list(shards)
    return [
        Block(packed, part, given[part.start : part.stop])
        for part in consecutive(len(given), workers)
    ]
