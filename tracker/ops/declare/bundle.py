"""Bundles: the several results of one equation.

An op with several results returns a tuple; `pick` takes one entry of it. Users never see the
tracked bundle itself. `BundleParts` is the cotangent or tangent of a bundle during a pass.

Invariant: only `pick` consumes a bundle.
"""

from __future__ import annotations

from typing import Any

from tracker.ir.lowering import Pick
from tracker.ir.op import Joint
from tracker.ir.types import Bundle, Type
from tracker.ops.declare.declare import declare
from tracker.tape.record import apply, aval_of


class BundleParts(tuple[Any, ...]):
    """A cotangent or tangent of a bundle: one entry per result, None for zero."""

    __slots__ = ()

    def joined(self, other: BundleParts) -> BundleParts:
        """The sum, part by part."""
        return BundleParts(
            b if a is None else a if b is None else a + b for a, b in zip(self, other, strict=True)
        )


def _infer(bundle: Type, at: int) -> Type:
    assert isinstance(bundle, Bundle)
    return bundle.parts[at]


def _vjp(g: Any, y: Any, xs: Any, wanted: Any, times: Any, at: int) -> list[Any]:
    parts = [None] * len(aval_of(xs[0]))
    parts[at] = g
    return [BundleParts(parts)]


pick = declare(
    "pick",
    infer=_infer,
    evaluate=lambda bundle, at: bundle[at],
    jvp=Joint(lambda ts, y, xs, times, at: ts[0][at]),
    vjp=Joint(_vjp),
    lower=Pick(),
)


def unbundle(bundle: Any) -> list[Any]:
    """All entries of a bundle, tracked if the bundle is."""
    return [apply(pick, (bundle,), {"at": at}) for at in range(len(aval_of(bundle)))]
