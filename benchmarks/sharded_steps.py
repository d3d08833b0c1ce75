"""The overhead of a step of `tracker.distributed` over the engine's own empty step.

    python benchmarks/sharded_steps.py [executor] [dask] [ray]
    mpiexec -n 2 python benchmarks/sharded_steps.py mpi

The empty step sends the parameters to every worker and gets an array of their size back, with the
engine's own calls and nothing else. The step has a loss that costs nothing, so that what it takes
longer is what `tracker.distributed` adds. Both are timed in turns; the medians count.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

import tracker
from tracker import distributed

WORKERS = (1, 2)
SIZES = (1_000, 100_000)  # parameters
ROUNDS, STEPS = 15, 10


def loss(w: Any, shard: Any) -> Any:
    return w[0] * shard


def echo(w: Any) -> Any:
    """The work of an empty step: what has the size of a value and a gradient."""
    return float(w[0]), w


def time_of(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(STEPS):
        step()
    return (time.perf_counter() - start) / STEPS


def compare(workers: int, engine: Any, empty: Callable[[Any], object], report: bool = True) -> None:
    """Print the times of the empty step and of a step, for each size."""
    for size in SIZES:
        w = np.linspace(0.0, 1.0, size)
        shards = [1.0] if _is_mpi(engine) else [1.0] * workers
        step = distributed.value_and_grad(loss, shards, engine)
        for _ in range(3):
            step(w), empty(w)
        pairs = [(time_of(lambda: empty(w)), time_of(lambda: step(w))) for _ in range(ROUNDS)]  # noqa: B023
        theirs, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
        if report:
            print(
                f"  {workers} workers, {size:7} parameters: empty step {theirs * 1e6:8.0f} us, "
                f"step {ours * 1e6:8.0f} us, {ours / theirs - 1:+.0%}"
            )
        step.close()


def _is_mpi(engine: Any) -> bool:
    return type(engine).__module__.startswith("mpi4py")


def executor() -> None:
    for workers in WORKERS:
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:

            def empty(w: Any) -> Any:
                return [f.result() for f in [pool.submit(echo, w) for _ in range(workers)]]  # noqa: B023

            compare(workers, workers, empty)


def dask() -> None:
    from distributed import Client, LocalCluster

    for workers in WORKERS:
        with (
            LocalCluster(workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            where = list(client.scheduler_info()["workers"])

            def empty(w: Any) -> Any:
                sent = [client.submit(echo, w, workers=[at], pure=False) for at in where]  # noqa: B023
                return client.gather(sent)

            compare(workers, client, empty)


def ray() -> None:
    import ray

    class Echo:
        def echo(self, w: Any) -> Any:
            return echo(w)

    ray.init(num_cpus=2 * max(WORKERS), include_dashboard=False)
    for workers in WORKERS:
        actors = [ray.remote(Echo).remote() for _ in range(workers)]

        def empty(w: Any) -> Any:
            return ray.get([actor.echo.remote(w) for actor in actors])  # noqa: B023

        compare(workers, "ray", empty)
    ray.shutdown()


def mpi() -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    compare(comm.size, comm, comm.allreduce, comm.rank == 0)


if __name__ == "__main__":
    for name in sys.argv[1:] or ("executor", "dask", "ray"):
        print(f"{name}, tracker {tracker.__version__}", flush=True)
        {"executor": executor, "dask": dask, "ray": ray, "mpi": mpi}[name]()
