"""Functions made of SciPy's, under their names in Julia."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.special._elementary import _with_partials
from tracker.support.pickling import at_home

ROOT_2 = math.sqrt(2.0)


def logabsgamma(x: Any) -> tuple[Any, Any]:
    """log(abs(gamma(x))) and the sign of gamma(x)."""
    return sc.gammaln(x), sc.gammasgn(x)


def trigamma(x: Any) -> Any:
    """The derivative of digamma."""
    return sc.zeta(2.0, x)


@_with_partials(lambda y: 1 / trigamma(invdigamma(y)))
def invdigamma(y: Any) -> Any:
    """The positive x with digamma(x) = y, by Newton's method (Minka's start)."""
    high = y >= -2.22
    x = np.where(
        high, np.exp(np.where(high, y, 0.0)) + 0.5, -1 / np.where(high, -1.0, y - sc.psi(1))
    )
    for _ in range(7):
        x = x - (sc.psi(x) - y) / trigamma(x)
    return x


def _bell(x: Any) -> Any:
    return 2 / math.sqrt(math.pi) * np.exp(-np.square(x))


@_with_partials(lambda x, y: -_bell(x), lambda x, y: _bell(y))
def erf_between(x: Any, y: Any) -> Any:
    """erf(y) - erf(x), accurate also where both are nearly the same 1 or -1."""
    right, left = (x > 0.5) & (y > 0.5), (x < -0.5) & (y < -0.5)
    sign = np.where(left, -1.0, 1.0)
    tail = sign * (sc.erfc(sign * x) - sc.erfc(sign * y))
    return np.where(right | left, tail, sc.erf(y) - sc.erf(x))


def logerfc(x: Any) -> Any:
    """log(erfc(x))."""
    return sc.log_ndtr(-ROOT_2 * x) + math.log(2)


@_with_partials(lambda x: 2 * x - 2 / math.sqrt(math.pi) / sc.erfcx(x))
def logerfcx(x: Any) -> Any:
    """log(erfcx(x)), which does not overflow."""
    left = x < 0
    low, high = np.where(left, x, 0.0), np.where(left, 0.0, x)
    return np.where(left, logerfc(low) + np.square(low), np.log(sc.erfcx(high)))


def sinint(x: Any) -> Any:
    """The sine integral."""
    return sc.sici(x)[0]


def cosint(x: Any) -> Any:
    """The cosine integral."""
    return sc.sici(x)[1]


def _parts(f: Callable[..., Any], *names: str) -> list[Callable[[Any], Any]]:
    """The results of a function one by one, as functions of these names."""

    def part(at: int) -> Callable[[Any], Any]:
        return lambda x: f(x)[at]

    return [at_home(part(at), __name__, name) for at, name in enumerate(names)]


airyai, airyaiprime, airybi, airybiprime = _parts(
    sc.airy, "airyai", "airyaiprime", "airybi", "airybiprime"
)
airyaix, airyaiprimex, airybix, airybiprimex = _parts(
    sc.airye, "airyaix", "airyaiprimex", "airybix", "airybiprimex"
)
besseli, besselj, besselk, bessely = sc.iv, sc.jv, sc.kv, sc.yv
besselix, besseljx, besselkx, besselyx = sc.ive, sc.jve, sc.kve, sc.yve


def besselh(nu: Any, k: int, x: Any) -> Any:
    """The Hankel function number k, 1 or 2."""
    return (sc.hankel1, sc.hankel2)[k - 1](nu, x)


def besselhx(nu: Any, k: int, x: Any) -> Any:
    """As `besselh`, scaled by exp(-i x) for k = 1, by exp(i x) for k = 2."""
    return (sc.hankel1e, sc.hankel2e)[k - 1](nu, x)
