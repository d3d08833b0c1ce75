"""`ShardedDerivative`: one step, on any engine."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from tracker import tree
from tracker.config import current
from tracker.distributed.engines import make_engine
from tracker.distributed.partial_sums import Nodes, merge, total
from tracker.distributed.worker import Request
from tracker.errors import UnsupportedError

if TYPE_CHECKING:
    from tracker.support.type_variables import A

_MAX_GATHERED = 8  # partial sums, each as large as the gradient


class ShardedDerivative:
    """The value and gradient of a loss summed over shards: a function of the parameters.

    `value_and_grad` makes it. `step(params, *args)` gives (value, gradient), `step.hvp(params, v,
    *args)` the Hessian times `v`; `args` are passed on to the loss of each shard. `step.shards` is
    the number of shards. `step.close()`, or the end of a `with` block, lets the workers go.
    """

    def __init__(
        self,
        loss: Callable[..., Any],
        shards: Any,
        engine: Any,
        reduce: str,
        progress: Callable[[int, int], object] | None,
    ) -> None:
        if reduce not in ("sum", "mean"):
            raise ValueError(f"reduce={reduce!r}; valid are 'sum' and 'mean'")
        self._engine = make_engine(engine, loss, shards)
        self._progress = progress
        self._lock = threading.Lock()  # workers answer one step at a time
        self.shards = self._engine.shard_count
        self._divisor = self.shards if reduce == "mean" else None
        self._is_closed = False

    @overload
    def __call__(self, params: A, *args: Any) -> tuple[Any, A]: ...
    @overload
    def __call__(self, params: Any, *args: Any) -> tuple[Any, Any]: ...
    def __call__(self, params: Any, *args: Any) -> tuple[Any, Any]:
        value, gradient = self._sum("value_and_grad", (params, *args))
        return value, gradient

    @overload
    def hvp(self, params: A, v: Any, *args: Any) -> A: ...
    @overload
    def hvp(self, params: Any, v: Any, *args: Any) -> Any: ...
    def hvp(self, params: Any, v: Any, *args: Any) -> Any:
        """The Hessian of the summed loss at `params` times `v`, in the structure of `params`."""
        return self._sum("hvp", (params, v, *args))

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            "a sharded derivative cannot be pickled: it holds its workers",
            "Send the loss and the shards, and call tracker.distributed.value_and_grad there",
        )

    def close(self) -> None:
        """Let the workers and their shards go."""
        self._is_closed = True
        self._engine.close()

    def __enter__(self) -> ShardedDerivative:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sum(self, name: str, args: tuple[Any, ...]) -> Any:
        if self._is_closed:
            raise UnsupportedError(
                "this step is closed, and its workers are gone",
                "Call it inside the `with` block, or before step.close()",
            )
        with self._lock:
            found = total(self._reduced(Request(name, args, current().jit)))
        if self._divisor is None:
            return found
        return tree.map(lambda x: None if x is None else x / self._divisor, found)

    def _reduced(self, request: Request) -> Nodes:
        """The sums of all shards. While there are many partial sums, workers add up those of
        neighbours; the last few are added up here."""
        engine = self._engine
        handles = engine.start(request)
        if self._progress is not None:
            for done, _ in enumerate(engine.completed(handles), 1):
                self._progress(done, len(handles))
        while len(handles) > _MAX_GATHERED:
            pairs = zip(handles[::2], handles[1::2], strict=False)
            merged = [engine.merge(left, right) for left, right in pairs]
            handles = merged + handles[2 * len(merged) :]
        return functools.reduce(merge, engine.gather(handles, request))
