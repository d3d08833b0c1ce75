"""SciPy's special functions that JAX has, or that are short in terms of those."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp

from tracker.interop.jax_ops.table import functions, same_names

same_names(
    jsp,
    "i0e i1 i1e expit logit xlogy xlog1py entr rel_entr kl_div gammainc gammaincc betainc "
    "erf erfc erfinv ndtr ndtri log_ndtr gamma gammaln beta betaln zeta exp1 expi spence "
    "expn gammasgn",
)
# What older versions of JAX do not have, they refuse.
same_names(jsp, " ".join({"dawsn", "owens_t", "wofz"}.intersection(dir(jsp))))
if hasattr(jsp, "sici"):
    functions({"si": lambda x: jsp.sici(x)[0], "ci": lambda x: jsp.sici(x)[1]})
if hasattr(jsp, "fresnel"):
    functions({"fresnel_s": lambda x: jsp.fresnel(x)[0], "fresnel_c": lambda x: jsp.fresnel(x)[1]})


def _exprel(x: Any) -> Any:
    return jnp.where(x == 0, 1.0, jnp.expm1(x) / jnp.where(x == 0, 1.0, x))


def _boxcox(x: Any, power: Any) -> Any:
    small = jnp.abs(power) < 1e-19
    return jnp.where(small, jnp.log(x), jnp.expm1(power * jnp.log(x)) / jnp.where(small, 1, power))


def _boxcox1p(x: Any, power: Any) -> Any:
    log = jnp.log1p(x)
    small = jnp.abs(power) < 1e-19
    return jnp.where(small, log, jnp.expm1(power * log) / jnp.where(small, 1, power))


def _log_inv_boxcox(x: Any, power: Any) -> Any:
    return jnp.where(power == 0, x, jnp.log1p(power * x) / jnp.where(power == 0, 1, power))


def _huber(delta: Any, r: Any) -> Any:
    size = jnp.abs(r)
    found = jnp.where(size <= delta, 0.5 * r * r, delta * (size - 0.5 * delta))
    return jnp.where(delta < 0, jnp.inf, found)


def _pseudo_huber(delta: Any, r: Any) -> Any:
    ratio = r / jnp.where(delta == 0, 1, delta)
    return delta * delta * (ratio * ratio / (1 + jnp.sqrt(1 + ratio * ratio)))


def _mills(x: Any) -> Any:
    """The normal density over its distribution function; far left, Laplace's continued fraction."""
    t = jnp.maximum(-x, 5.0)
    tail = t
    for k in range(20, 0, -1):
        tail = t + k / tail
    near = jnp.exp(-0.5 * x * x - 0.5 * math.log(2 * math.pi) - jsp.log_ndtr(jnp.maximum(x, -5.0)))
    return jnp.where(x < -5.0, tail, near)


def _erfcx(x: Any) -> Any:
    return math.sqrt(2 / math.pi) / _mills(-math.sqrt(2) * x)


def _student_t(df: Any, t: Any) -> Any:
    tail = 0.5 * jsp.betainc(df / 2, 0.5, df / (df + t * t))
    return jnp.where(t < 0, tail, 1 - tail)


def _within_period(x: Any) -> Any:
    """pi times x, less even multiples of pi."""
    return math.pi * (x - 2 * jnp.rint(jnp.real(x) / 2))


def _radians(degrees: Any) -> Any:
    """The angle, less whole turns."""
    return jnp.deg2rad(degrees - 360 * jnp.rint(degrees / 360))


functions(
    {
        "erfcinv": lambda x: -jsp.ndtri(x / 2) / math.sqrt(2),
        "sindg": lambda x: jnp.sin(_radians(x)),
        "cosdg": lambda x: jnp.cos(_radians(x)),
        "radian": lambda d, m, s: jnp.deg2rad(d + m / 60 + s / 3600),
        "psi": jsp.digamma,
        "i0_scipy": jsp.i0,
        "erfcx": _erfcx,
        "mills": _mills,
        "log_expit": jax.nn.log_sigmoid,
        "cbrt_scipy": jnp.cbrt,
        "exp2_scipy": jnp.exp2,
        "expm1_scipy": jnp.expm1,
        "log1p_scipy": jnp.log1p,
        "exp10": lambda x: jnp.power(10.0, x),
        "round_scipy": jnp.rint,
        "cosm1": lambda x: -2 * jnp.square(jnp.sin(x / 2)),
        "exprel": _exprel,
        "powm1": lambda x, y: jnp.expm1(jsp.xlogy(y, x)),
        "boxcox": _boxcox,
        "boxcox1p": _boxcox1p,
        "inv_boxcox": lambda x, power: jnp.exp(_log_inv_boxcox(x, power)),
        "inv_boxcox1p": lambda x, power: jnp.expm1(_log_inv_boxcox(x, power)),
        "huber": _huber,
        "pseudo_huber": _pseudo_huber,
        "sinpi": lambda x: jnp.sin(_within_period(x)),
        "cospi": lambda x: jnp.cos(_within_period(x)),
        "rgamma": lambda x: jnp.where((x <= 0) & (x == jnp.rint(x)), 0, 1 / jsp.gamma(x)),
        "stdtr": _student_t,
        "fdtr": lambda m, n, x: jsp.betainc(m / 2, n / 2, m * x / (n + m * x)),
        "fdtrc": lambda m, n, x: jsp.betainc(n / 2, m / 2, n / (n + m * x)),
        "gdtr": lambda a, b, x: jsp.gammainc(b, a * x),
        "gdtrc": lambda a, b, x: jsp.gammaincc(b, a * x),
        "pdtr": lambda k, m: jsp.gammaincc(jnp.floor(k) + 1, m),
        "pdtrc": lambda k, m: jsp.gammainc(jnp.floor(k) + 1, m),
        "chdtr": lambda v, x: jsp.gammainc(v / 2, x / 2),
        "chdtrc": lambda v, x: jsp.gammaincc(v / 2, x / 2),
        "betaincc": lambda a, b, x: jsp.betainc(b, a, 1 - x),
        "loggamma": lambda x: jnp.where(x > 0, jsp.gammaln(x), jnp.nan),
        "binom": lambda n, k: jnp.exp(
            jsp.gammaln(n + 1) - jsp.gammaln(k + 1) - jsp.gammaln(n - k + 1)
        ),
    }
)
