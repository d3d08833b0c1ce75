"""The engine on ray: an actor for each processor of the cluster keeps its shards.

Shards are in ray's object store. ray starts the actor of a lost process again, which takes its
shards from the store, and repeats the step there.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import ray

from tracker.distributed.engines import as_list, consecutive
from tracker.distributed.partial_sums import Nodes, merge
from tracker.distributed.worker import Request, evaluate_sent, pack
from tracker.support.structs import record

_MAX_LOSSES = 3  # of one actor in one step
_MAX_PACKED = 100_000  # bytes; more are put into the object store once, and not copied


class ShardActor:
    """The worker of some shards."""

    def __init__(self, numbers: range, references: list[ray.ObjectRef]) -> None:
        self._numbers = numbers
        self._loss, *self._shards = ray.get(references)

    def evaluate(self, request: bytes | Request) -> bytes | Nodes:
        found = evaluate_sent(self._loss, self._numbers, self._shards, _unpacked(request), 1)
        return pickle.dumps(found, 5) if isinstance(request, bytes) else found

    def merge(self, left: bytes | Nodes, right: bytes | Nodes) -> Nodes:
        return merge(_unpacked(left), _unpacked(right))


def _unpacked(sent: Any) -> Any:
    """Small things are sent as bytes of our own, which ray hands on as they are."""
    return pickle.loads(sent) if isinstance(sent, bytes) else sent


_remote_actor: Any = ray.remote(max_restarts=-1, max_task_retries=_MAX_LOSSES)(ShardActor)


@record(frozen=True)
class ActorResult:
    """The handle of what an actor computes."""

    actor: Any
    reference: Any


class RayEngine:
    """See `Engine`."""

    def __init__(self, _: Any, loss: Callable[..., Any], shards: Any) -> None:
        if not ray.is_initialized():
            ray.init()
        given = as_list(shards)
        self.shard_count = len(given)
        self._references = [x if isinstance(x, ray.ObjectRef) else ray.put(x) for x in given]
        workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._loss = ray.put(pack(loss))  # kept for actors that start again
        self._actors = [
            _remote_actor.remote(part, [self._loss, *self._references[part.start : part.stop]])
            for part in consecutive(len(given), workers)
        ]

    def start(self, request: Request) -> list[Any]:
        is_small = request.nbytes <= _MAX_PACKED
        sent = pickle.dumps(request, 5) if is_small else ray.put(request)
        return [ActorResult(actor, actor.evaluate.remote(sent)) for actor in self._actors]

    def completed(self, handles: list[Any]) -> Iterator[Any]:
        waiting = [handle.reference for handle in handles]
        while waiting:
            done, waiting = ray.wait(waiting)
            yield from done

    def merge(self, left: Any, right: Any) -> Any:
        made = left.actor.merge.remote(left.reference, right.reference)
        return ActorResult(left.actor, made)

    def gather(self, handles: list[Any], request: Request) -> list[Nodes]:
        return [_unpacked(found) for found in ray.get([handle.reference for handle in handles])]

    def close(self) -> None:
        for actor in self._actors:
            ray.kill(actor)
