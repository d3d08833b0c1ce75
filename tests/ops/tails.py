"""The table of `test_tails.py`: elementwise functions as mpmath has them, and where.

An op that is not here needs `"name": Row(function, mpmath's, open intervals, one per operand)`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import scipy.special as sc

from tracker import nn, special
from tracker.ops.activation import logistic_density
from tracker.ops.binary import cosine
from tracker.ops.special import error
from tracker.ops.unary import arctan_slope, one_less_square, sech_squared
from tracker.tape import apply

REAL = (-np.inf, np.inf)
POSITIVE = (0.0, np.inf)
INSIDE = (-1.0, 1.0)
UNIT = (0.0, 1.0)


@dataclass(frozen=True)
class Row:
    """A function, what it is, where it is smooth, and the largest operand that is asked for."""

    function: Callable[..., Any]
    exact: Callable[..., Any]
    domains: tuple[tuple[float, float], ...] = (REAL,)
    most: float = 1e300


def _log1pexp(x):
    return mp.log1p(mp.exp(x))


def _gelu(x):
    return x / (1 + mp.exp(-2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3)))


ROWS = {
    "exp": Row(np.exp, mp.exp, most=1e3),
    "exp2": Row(np.exp2, lambda x: mp.power(2, x), most=1e3),
    "expm1": Row(np.expm1, mp.expm1, most=1e3),
    "log": Row(np.log, mp.log, (POSITIVE,)),
    "log2": Row(np.log2, lambda x: mp.log(x) / mp.log(2), (POSITIVE,)),
    "log10": Row(np.log10, lambda x: mp.log(x) / mp.log(10), (POSITIVE,)),
    "log1p": Row(np.log1p, mp.log1p, ((-1.0, np.inf),)),
    "sqrt": Row(np.sqrt, mp.sqrt, (POSITIVE,)),
    "cbrt": Row(np.cbrt, lambda x: mp.sign(x) * mp.cbrt(abs(x))),
    "square": Row(np.square, lambda x: x * x),
    "reciprocal": Row(np.reciprocal, lambda x: 1 / x),
    "sin": Row(np.sin, mp.sin, most=1e8),
    "cos": Row(np.cos, mp.cos, most=1e8),
    "tan": Row(np.tan, mp.tan, most=1e8),
    "arcsin": Row(np.arcsin, mp.asin, (INSIDE,)),
    "arccos": Row(np.arccos, mp.acos, (INSIDE,)),
    "arctan": Row(np.arctan, mp.atan),
    "sinh": Row(np.sinh, mp.sinh, most=1e3),
    "cosh": Row(np.cosh, mp.cosh, most=1e3),
    "tanh": Row(np.tanh, mp.tanh, most=350.0),
    "arcsinh": Row(np.arcsinh, mp.asinh),
    "arccosh": Row(np.arccosh, mp.acosh, ((1.0, np.inf),)),
    "arctanh": Row(np.arctanh, mp.atanh, (INSIDE,)),
    "arctan_slope": Row(lambda x: apply(arctan_slope, (x,)), lambda x: 1 / (1 + x * x)),
    "one_less_square": Row(lambda x: apply(one_less_square, (x,)), lambda x: (1 - x) * (1 + x)),
    "logistic_density": Row(
        lambda x: apply(logistic_density, (x,)), lambda x: 1 / (2 + 2 * mp.cosh(x)), most=1e3
    ),
    "sech_squared": Row(
        lambda x: apply(sech_squared, (np.tanh(x), x)), lambda x: mp.sech(x) ** 2, most=350.0
    ),
    "gelu": Row(nn.gelu, _gelu, most=19.0),
    "sech": Row(special.sech, mp.sech, most=700.0),
    "sigmoid": Row(nn.sigmoid, lambda x: 1 / (1 + mp.exp(-x)), most=1e3),
    "softplus": Row(nn.softplus, _log1pexp, most=1e3),
    "logsigmoid": Row(nn.logsigmoid, lambda x: -_log1pexp(-x), most=1e3),
    "elu": Row(nn.elu, lambda x: mp.expm1(x), ((-np.inf, 0.0),), most=1e3),
    "gelu exact": Row(lambda x: nn.gelu(x, approximate=False), lambda x: x * mp.ncdf(x), most=1e3),
    "sinc": Row(np.sinc, lambda x: mp.sinpi(x) / (mp.pi * x), most=30),
    "cbrt_scipy": Row(sc.cbrt, lambda x: mp.sign(x) * mp.cbrt(abs(x))),
    "exp2_scipy": Row(sc.exp2, lambda x: mp.power(2, x), most=1e3),
    "exp10": Row(sc.exp10, lambda x: mp.power(10, x), most=1e3),
    "expm1_scipy": Row(sc.expm1, mp.expm1, most=1e3),
    "log1p_scipy": Row(sc.log1p, mp.log1p, ((-1.0, np.inf),)),
    "cosm1": Row(sc.cosm1, lambda x: mp.cos(x) - 1, most=1e8),
    "expit": Row(sc.expit, lambda x: 1 / (1 + mp.exp(-x)), most=1e3),
    "logit": Row(sc.logit, lambda x: mp.log(x / (1 - x)), (UNIT,)),
    "log_expit": Row(sc.log_expit, lambda x: -_log1pexp(-x), most=1e3),
    "entr": Row(sc.entr, lambda x: -x * mp.log(x), (POSITIVE,)),
    "exprel": Row(sc.exprel, lambda x: mp.expm1(x) / x, most=1e3),
    "erf": Row(sc.erf, mp.erf, most=50),
    "erfc": Row(sc.erfc, mp.erfc, most=50),
    "erfcx": Row(sc.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), most=1e3),
    "erfi": Row(sc.erfi, mp.erfi, most=50),
    "dawsn": Row(sc.dawsn, lambda x: mp.exp(-x * x) * mp.erfi(x) * mp.sqrt(mp.pi) / 2, most=30),
    "ndtr": Row(sc.ndtr, mp.ncdf, most=50),
    "log_ndtr": Row(sc.log_ndtr, lambda x: mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2), most=1e3),
    "mills": Row(
        error.mills,
        lambda x: mp.sqrt(2 / mp.pi) * mp.exp(-x * x / 2) / mp.erfc(-x / mp.sqrt(2)),
        most=50,
    ),
    "divide": Row(np.divide, lambda a, b: a / b, (REAL, REAL)),
    "multiply": Row(np.multiply, lambda a, b: a * b, (REAL, REAL)),
    "power": Row(np.power, mp.power, (POSITIVE, REAL), most=1e3),
    "float_power": Row(np.float_power, mp.power, (POSITIVE, REAL), most=1e3),
    "arctan2": Row(np.arctan2, mp.atan2, (REAL, POSITIVE)),
    "cosine": Row(
        lambda a, b: apply(cosine, (a, b)), lambda a, b: a / mp.sqrt(a * a + b * b), (REAL, REAL)
    ),
    "hypot": Row(np.hypot, lambda a, b: mp.sqrt(a * a + b * b), (REAL, REAL)),
    "logaddexp": Row(np.logaddexp, lambda a, b: a + _log1pexp(b - a), (REAL, REAL), most=1e3),
    "logaddexp2": Row(
        np.logaddexp2,
        lambda a, b: a + mp.log1p(mp.power(2, b - a)) / mp.log(2),
        (REAL, REAL),
        most=1e3,
    ),
}
