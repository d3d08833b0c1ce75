"""Bundles: several values that one equation gives, and how they are taken apart.

Owns: `pick`, the op that takes part number `at`, and `BundleParts`, what a cotangent or tangent of
a bundle is while a pass runs. An op with several results gives a tuple; users never see the handle
on it.

Invariant: a bundle's only consumer is `pick`.
"""

from __future__ import annotations

from typing import Any

from tracker.ir.lowering import Pick
from tracker.ir.op import Joint, define
from tracker.ir.types import Bundle, Type
from tracker.tape.record import apply, aval_of


class BundleParts(tuple[Any, ...]):
    """A cotangent or tangent of a bundle: one entry per part, None where nothing arrived."""

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


pick = define(
    "pick",
    numpy=[],
    method=None,
    entry=None,
    infer=_infer,
    evaluate=lambda bundle, at: bundle[at],
    jvp=Joint(lambda ts, y, xs, times, at: ts[0][at]),
    vjp=Joint(_vjp),
    lower=Pick(),
)


def unbundle(bundle: Any) -> list[Any]:
    """All parts of a bundle, tracked where the bundle is."""
    return [apply(pick, (bundle,), {"at": at}) for at in range(len(aval_of(bundle)))]
