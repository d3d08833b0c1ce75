"""Derivatives of sums over shards of data that are on many workers, and sums over MPI's ranks.

`worker.py` is what runs at a worker, on its shards; `partial_sums.py` adds up in an order that
depends on the number of shards alone; `step.py` is the derivative that users call. An engine
(`processes.py`, `executors.py`, `dask_client.py`, `ray_actors.py`, `mpi_ranks.py`; `engines.py` has
their protocol) keeps the shards and starts the work. `psum.py` is a sum inside a function. Start at
`value_and_grad`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from tracker.distributed.psum import psum
from tracker.distributed.step import ShardedDerivative

__all__ = ["ShardedDerivative", "psum", "value_and_grad"]


def value_and_grad(
    loss: Callable[..., Any],
    shards: Any,
    engine: Any = None,
    reduce: Literal["sum", "mean"] = "sum",
    progress: Callable[[int, int], object] | None = None,
) -> ShardedDerivative:
    """The value and gradient of a sum over shards of data, computed by many workers.

    Parameters
    ----------
    loss : callable
        `loss(params, shard, *args)` gives the number of one shard. It is sent once, as `pickle` or
        cloudpickle has it; each worker compiles its derivatives.
    shards : sequence or dask collection
        The shards, of any type. They are sent once, and stay with their workers. With a dask
        client also futures, or an array or dataframe (or a tuple or dict of them), whose
        partitions are the shards; with ray also object references; with MPI the rank's own shards.
    engine : int, Executor, Client, "ray", or Comm, optional
        How many processes to start on this machine, by default one for each processor; or a
        `concurrent.futures.Executor`; a `dask.distributed.Client`; "ray", for the cluster that
        `ray.init` has joined; an `mpi4py.MPI.Comm`, all of whose ranks must call.
    reduce : {"sum", "mean"}
        Whether the losses of the shards are added up or averaged.
    progress : callable, optional
        Called with (done, all) while a step runs, as workers finish. With MPI, on each rank.

    Returns
    -------
    ShardedDerivative
        A function: `step(params, *args)` gives (value, gradient in params), `step.hvp(params, v,
        *args)` the product of the Hessian and `v`.

    See Also
    --------
    psum, tracker.value_and_grad

    Notes
    -----
    Sums are pairwise, in an order that depends on the number of shards alone, not on the number of
    workers, nor on who is first. A shard that is lost with its worker is sent and computed again,
    except with MPI, where a lost rank ends the program.

    Examples
    --------
    >>> def loss(w, shard):
    ...     x, y = shard
    ...     return np.sum((x @ w - y) ** 2)
    >>> x, y = np.arange(8.0).reshape(4, 2), np.ones(4)
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     step = value_and_grad(loss, [(x[:2], y[:2]), (x[2:], y[2:])], pool)
    ...     step(np.array([0.0, 0.5]))
    (np.float64(9.0), array([44., 52.]))
    """
    return ShardedDerivative(loss, shards, engine, reduce, progress)


def __dir__() -> list[str]:
    return __all__
