"""What runs at a worker: the derivatives of the loss on its shards, added up.

A `PackedLoss` is the loss as bytes. A worker makes the function and its compiled derivatives at the
first request and keeps them, by the digest of the bytes: a request brings numbers only.

Invariant: the functions here run in any process that can import this package.
"""

from __future__ import annotations

import hashlib
import importlib.util
import pickle
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tracker import tree
from tracker.autodiff.gradients import value_and_grad
from tracker.config import config
from tracker.distributed.partial_sums import Nodes, merge
from tracker.errors import UnsupportedError
from tracker.jit import jit
from tracker.support.structs import record
from tracker.transforms.jacobians import hvp

_MAX_COMPILED = 16  # kept in a process
Derivatives = dict[tuple[str, bool], Callable[..., Any]]  # by name, and whether compiled
_compiled: dict[bytes, Derivatives] = {}


@record(frozen=True)
class PackedLoss:
    """A loss as bytes, with their digest."""

    payload: bytes
    digest: bytes

    def derivatives(self) -> Derivatives:
        """Its derivatives, made once in a process."""
        found = _compiled.get(self.digest)
        if found is None:
            while len(_compiled) >= _MAX_COMPILED:
                _compiled.pop(next(iter(_compiled)), None)
            loss = pickle.loads(self.payload)
            found = _compiled[self.digest] = derivatives_of(loss)
        return found


def derivatives_of(loss: Callable[..., Any]) -> Derivatives:
    """The derivatives of a loss, as functions of (shard, params, ...)."""

    def product(params: Any, v: Any, shard: Any, *args: Any) -> Any:
        return hvp(lambda p: loss(p, shard, *args), params, v)

    made = Derivatives()
    for compiled, f, g in (False, loss, product), (True, jit(loss), jit(product)):
        made["value_and_grad", compiled] = _shard_first(value_and_grad(f), 1)
        made["hvp", compiled] = _shard_first(g, 2)
    return made


def _shard_first(f: Callable[..., Any], count: int) -> Callable[..., Any]:
    """`f(first, ..., shard, *args)` as a function of (shard, first, ..., *args)."""
    return lambda shard, *args: f(*args[:count], shard, *args[count:])


def pack(loss: Callable[..., Any]) -> PackedLoss:
    """The loss as bytes: by its name, if workers can import it, else by value."""
    payload, key = _pickled(loss)
    return PackedLoss(payload, hashlib.blake2b(payload + key, digest_size=16).digest())


def _pickled(loss: Callable[..., Any]) -> tuple[bytes, bytes]:
    """The bytes of the loss, and what tells it from others of the same bytes."""
    by_value = importlib.util.find_spec("cloudpickle") is not None
    is_script = hasattr(sys.modules["__main__"], "__file__")
    reason = "a notebook's functions have no module that a worker could import"
    if getattr(loss, "__module__", None) != "__main__" or (is_script and not by_value):
        try:
            return pickle.dumps(loss, 5), b"%d" % id(loss)  # a module may be loaded again
        except Exception as error:
            reason = str(error)
    if by_value:
        return importlib.import_module("cloudpickle").dumps(loss, 5), b""
    raise UnsupportedError(
        f"{getattr(loss, '__qualname__', loss)!r} cannot be sent to a worker: {reason}",
        "Define it in a module, or pip install cloudpickle",
    )


@record(frozen=True)
class Request:
    """One step: the name of a derivative, its arguments after the shard, whether to compile."""

    name: str
    args: tuple[Any, ...]
    jit: bool

    @property
    def nbytes(self) -> int:
        """The size of its arrays."""
        return sum(getattr(x, "nbytes", 0) for x in tree.leaves(self.args))


def evaluate(
    derivatives: Derivatives,
    numbers: Iterable[int],
    shards: Iterable[Any],
    request: Request,
    threads: int,
) -> Nodes:
    """The sums over the shards with these numbers, by this many threads."""
    f, nodes = derivatives[request.name, request.jit], Nodes()
    with config(jit=request.jit, threads=threads):
        for number, shard in zip(numbers, shards, strict=True):
            try:
                found = f(shard, *request.args)
            except Exception as error:
                error.add_note(f"in shard {number}")
                raise
            nodes = merge(nodes, {(0, number): found})
    return nodes


def evaluate_sent(
    loss: PackedLoss, numbers: Iterable[int], shards: Iterable[Any], request: Request, threads: int
) -> Nodes:
    """The same for a loss that was sent as bytes."""
    return evaluate(loss.derivatives(), numbers, shards, request, threads)
