"""The table of `test_tails.py`: elementwise functions, mpmath's versions, and domains.

A new op needs `"name": Row(function, mpmath's function, open intervals, one per operand)`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import scipy.special as sc

from tracker import nn, special
from tracker.ir.op import OPS
from tracker.ops.special import error
from tracker.tape.record import apply

REAL = (-np.inf, np.inf)
POSITIVE = (0.0, np.inf)
INSIDE = (-1.0, 1.0)
UNIT = (0.0, 1.0)


@dataclass(frozen=True)
class Row:
    """A function, its mpmath version, where it is smooth, and the magnitudes of the operands, from
    `least` to `most`. `orders`: the highest derivative."""

    function: Callable[..., Any]
    exact: Callable[..., Any]
    domains: tuple[tuple[float, float], ...] = (REAL,)
    most: float = 1e300
    least: float = 0.0
    orders: int = 2


def _op(name):
    """An op that no function of NumPy's is."""
    return lambda *xs: apply(OPS[name], xs)


def _log1pexp(x):
    return mp.log1p(mp.exp(x))


def _gelu(x):
    return x / (1 + mp.exp(-2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3)))


def _degrees(f):
    return lambda x: f(x * mp.pi / 180)


def _boxcox(x, p):
    return mp.expm1(p * mp.log(x)) / p


def _inv_boxcox(x, p):
    return mp.exp(mp.log1p(p * x) / p)


def _pseudo_huber(d, r):
    return d * d * (mp.sqrt(1 + (r / d) ** 2) - 1)


def _log_beta(a, b):
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


ROWS = {
    "exp": Row(np.exp, mp.exp, most=1e3),
    "exp2": Row(np.exp2, lambda x: mp.power(2, x), most=1e3),
    "expm1": Row(np.expm1, mp.expm1, most=1e3), "log": Row(np.log, mp.log, (POSITIVE,)),
    "log2": Row(np.log2, lambda x: mp.log(x) / mp.log(2), (POSITIVE,)),
    "log10": Row(np.log10, lambda x: mp.log(x) / mp.log(10), (POSITIVE,)),
    "log1p": Row(np.log1p, mp.log1p, ((-1.0, np.inf),)), "sqrt": Row(np.sqrt, mp.sqrt, (POSITIVE,)),
    "cbrt": Row(np.cbrt, lambda x: mp.sign(x) * mp.cbrt(abs(x))),
    "square": Row(np.square, lambda x: x * x),
    "reciprocal": Row(np.reciprocal, lambda x: 1 / x),
    "sin": Row(np.sin, mp.sin, most=1e8), "cos": Row(np.cos, mp.cos, most=1e8),
    "tan": Row(np.tan, mp.tan, most=1e8), "arcsin": Row(np.arcsin, mp.asin, (INSIDE,)),
    "arccos": Row(np.arccos, mp.acos, (INSIDE,)), "arctan": Row(np.arctan, mp.atan),
    "sinh": Row(np.sinh, mp.sinh, most=1e3), "cosh": Row(np.cosh, mp.cosh, most=1e3),
    "tanh": Row(np.tanh, mp.tanh, most=350.0), "arcsinh": Row(np.arcsinh, mp.asinh),
    "arccosh": Row(np.arccosh, mp.acosh, ((1.0, np.inf),)),
    "arctanh": Row(np.arctanh, mp.atanh, (INSIDE,)),
    "arctan_slope": Row(_op("arctan_slope"), lambda x: 1 / (1 + x * x)),
    "one_less_square": Row(_op("one_less_square"), lambda x: (1 - x) * (1 + x)),
    "logistic_density": Row(_op("logistic_density"), lambda x: 1 / (2 + 2 * mp.cosh(x)), most=1e3),
    "sech_squared": Row(
        lambda x: _op("sech_squared")(np.tanh(x), x), lambda x: mp.sech(x) ** 2, most=350.0),
    "gelu": Row(nn.gelu, _gelu, most=19.0), "sech": Row(special.sech, mp.sech, most=700.0),
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
    "erf": Row(sc.erf, mp.erf, most=50), "erfc": Row(sc.erfc, mp.erfc, most=50),
    "erfcx": Row(sc.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), most=1e3),
    "erfi": Row(sc.erfi, mp.erfi, most=50),
    "dawsn": Row(sc.dawsn, lambda x: mp.exp(-x * x) * mp.erfi(x) * mp.sqrt(mp.pi) / 2, most=30),
    "ndtr": Row(sc.ndtr, mp.ncdf, most=50),
    "log_ndtr": Row(sc.log_ndtr, lambda x: mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2), most=1e3),
    "mills": Row(
        error.mills, lambda x: mp.sqrt(2 / mp.pi) * mp.exp(-x * x / 2) / mp.erfc(-x / mp.sqrt(2)),
        most=50),
    "divide": Row(np.divide, lambda a, b: a / b, (REAL, REAL)),
    "multiply": Row(np.multiply, lambda a, b: a * b, (REAL, REAL)),
    "power": Row(np.power, mp.power, (POSITIVE, REAL), most=1e3),
    "float_power": Row(np.float_power, mp.power, (POSITIVE, REAL), most=1e3),
    "arctan2": Row(np.arctan2, mp.atan2, (REAL, POSITIVE), most=1e20),
    "cosine": Row(_op("cosine"), lambda a, b: a / mp.sqrt(a * a + b * b), (REAL, REAL)),
    "hypot": Row(np.hypot, lambda a, b: mp.sqrt(a * a + b * b), (REAL, REAL)),
    "logaddexp": Row(np.logaddexp, lambda a, b: a + _log1pexp(b - a), (REAL, REAL), most=1e3),
    "logaddexp2": Row(
        np.logaddexp2, lambda a, b: a + mp.log1p(mp.power(2, b - a)) / mp.log(2), (REAL, REAL),
        most=1e3),
    # What SciPy has, where its own values have digits
    "sindg": Row(sc.sindg, _degrees(mp.sin), most=1e3),
    "cosdg": Row(sc.cosdg, _degrees(mp.cos), most=1e3),
    "tandg": Row(sc.tandg, _degrees(mp.tan), most=1e3),
    "cotdg": Row(sc.cotdg, _degrees(mp.cot), most=1e3, least=1e-3),
    "sinpi": Row(sc._ufuncs._sinpi, mp.sinpi, most=1e3),
    "cospi": Row(sc._ufuncs._cospi, mp.cospi, most=1e3),
    "xlogy": Row(sc.xlogy, lambda x, y: x * mp.log(y), (REAL, POSITIVE), 1e3, 1e-3),
    "xlog1py": Row(sc.xlog1py, lambda x, y: x * mp.log1p(y), (REAL, POSITIVE), 1e3, 1e-3),
    "rel_entr": Row(sc.rel_entr, lambda x, y: x * mp.log(x / y), (POSITIVE,) * 2, 1e3, 1e-3),
    "kl_div": Row(sc.kl_div, lambda x, y: x * mp.log(x / y) - x + y, (POSITIVE,) * 2, 1e3, 1e-3),
    # Its second derivative cancels where |r| and delta are far apart.
    "pseudo_huber": Row(sc.pseudo_huber, _pseudo_huber, (POSITIVE, REAL), 1e3, 1e-3, orders=1),
    "powm1": Row(sc.powm1, lambda x, y: mp.power(x, y) - 1, (POSITIVE, REAL), most=1e3),
    "boxcox": Row(sc.boxcox, _boxcox, (POSITIVE, REAL), most=1e3),
    "boxcox1p": Row(sc.boxcox1p, lambda x, p: _boxcox(1 + x, p), (POSITIVE, REAL), 1e3, 1e-3),
    "inv_boxcox": Row(sc.inv_boxcox, _inv_boxcox, (POSITIVE, POSITIVE), most=1e3),
    "inv_boxcox1p": Row(
        sc.inv_boxcox1p, lambda x, p: _inv_boxcox(x, p) - 1, (POSITIVE, POSITIVE), most=1e3),
    "erfinv": Row(sc.erfinv, mp.erfinv, (INSIDE,), 1, 1e-3),
    "gamma": Row(sc.gamma, mp.gamma, (POSITIVE,), most=170, least=1e-30),
    "gammaln": Row(sc.gammaln, mp.loggamma, (POSITIVE,), 50, 1e-3),
    "loggamma": Row(sc.loggamma, mp.loggamma, (POSITIVE,), 50, 1e-3),
    "rgamma": Row(sc.rgamma, mp.rgamma, (POSITIVE,), least=1e-9, most=100),
    "psi": Row(sc.psi, mp.digamma, (POSITIVE,), 50, 1e-3),
    "beta": Row(sc.beta, mp.beta, (POSITIVE, POSITIVE), 10, 1e-3),
    "betaln": Row(sc.betaln, _log_beta, (POSITIVE, POSITIVE), least=1e-3, most=100),
    "exp1": Row(sc.exp1, mp.e1, (POSITIVE,), least=1e-9, most=500),
    "expi": Row(sc.expi, mp.ei, (POSITIVE,), least=1e-9, most=500),
    "shi": Row(lambda x: sc.shichi(x)[0], mp.shi, (REAL,), 50, 1e-3),
    "chi": Row(lambda x: sc.shichi(x)[1], mp.chi, (POSITIVE,), least=1e-9, most=500),
    "si": Row(lambda x: sc.sici(x)[0], mp.si, least=1e-3, most=500),
    "ci": Row(lambda x: sc.sici(x)[1], mp.ci, (POSITIVE,), least=1e-3, most=500),
    "j0": Row(sc.j0, mp.j0, least=1e-3, most=100), "j1": Row(sc.j1, mp.j1, least=1e-3, most=100),
    "y0": Row(sc.y0, lambda x: mp.bessely(0, x), (POSITIVE,), 10, 0.1),
    "y1": Row(sc.y1, lambda x: mp.bessely(1, x), (POSITIVE,), 10, 0.1, orders=1),
    "i0_scipy": Row(sc.i0, lambda x: mp.besseli(0, x), (REAL,), 50, 1e-3),
    "i1": Row(sc.i1, lambda x: mp.besseli(1, x), (REAL,), 50, 1e-3),
    "k0": Row(sc.k0, lambda x: mp.besselk(0, x), (POSITIVE,), 1, 0.1),
    "k1": Row(sc.k1, lambda x: mp.besselk(1, x), (POSITIVE,), 1, 0.1),
    "airy_ai": Row(lambda x: sc.airy(x)[0], mp.airyai, (REAL,), 10, 0.1),
    "airy_bi": Row(lambda x: sc.airy(x)[2], mp.airybi, least=1e-3, most=30),
    "ellipk": Row(sc.ellipk, mp.ellipk, ((-np.inf, 1.0),), least=1e-3, most=30),
    "ellipe": Row(sc.ellipe, mp.ellipe, ((-np.inf, 1.0),), least=1e-3, most=30),
    "ndtri": Row(sc.ndtri, lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), (UNIT,), least=1e-3),
    "spence": Row(sc.spence, lambda z: mp.polylog(2, 1 - z), (POSITIVE,), least=1e-3, most=30),
    "fresnel_s": Row(lambda x: sc.fresnel(x)[0], mp.fresnels, least=1e-3, most=10),
    "fresnel_c": Row(lambda x: sc.fresnel(x)[1], mp.fresnelc, least=1e-3, most=10),
}  # fmt: skip

# Ops without a row, by the reason.
EXCUSED = {
    "piecewise: not of the magnitude of the operands, or with jumps and kinks": (
        *("absolute", "fabs", "copysign", "heaviside", "maximum", "minimum", "fmax", "fmin"),
        *("remainder", "fmod", "huber")),
    "of complex values, or scaled ones whose scale is that of SciPy": (
        *("hankel1", "hankel2", "hankel1e", "hankel2e", "wofz", "jve", "yve", "kelvin_be"),
        *("kelvin_ke", "kelvin_be_slope", "kelvin_ke_slope", "modfresnelp_f", "modfresnelp_k"),
        *("modfresnelm_f", "modfresnelm_k", "airye_ai", "airye_ai_slope", "airye_bi"),
        *("airye_bi_slope", "erfcinv", "wrightomega")),
    "oscillating, or as smooth as a row of its kin: differences at ordinary points": (
        *("airy_ai_slope", "airy_bi_slope", "itairy_ai", "itairy_bi", "itairy_ai_left"),
        *("itairy_bi_left", "ber", "bei", "berp", "beip", "ker", "kei", "kerp", "keip"),
        *("pbwa_value", "pbwa_slope", "itj0y0_j", "itj0y0_y", "iti0k0_i", "iti0k0_k"),
        *("it2j0y0_j", "it2j0y0_y", "it2i0k0_i", "it2i0k0_k", "itstruve0", "it2struve0"),
        *("itmodstruve0", "ellipj_sn", "ellipj_cn", "ellipj_dn", "ellipj_ph", "tklmbda", "owens_t"),
        *("besselpoly", "log_wright_bessel", "nrdtrimn", "nrdtrisd", "ndtri_exp", "zetac")),
    "a derivative in an order or degree, by interpolation or quadrature": (
        *("jv", "yv", "iv", "ive", "kv", "kve", "struve", "modstruve", "hyp0f1", "hyp1f1"),
        *("hyp2f1", "wright_bessel", "binom", "poch", "zeta", "riemann_zeta", "eval_legendre"),
        *("eval_chebyt", "eval_chebyu", "eval_chebyc", "eval_chebys", "eval_sh_legendre"),
        *("eval_sh_chebyt", "eval_sh_chebyu", "eval_laguerre", "eval_genlaguerre"),
        *("eval_gegenbauer", "eval_jacobi", "eval_sh_jacobi")),
    "a distribution of several parameters, or its inverse": (
        *("gammainc", "gammaincc", "gammaincinv", "gammainccinv", "betainc", "betaincc"),
        *("betaincinv", "betainccinv", "btdtria", "btdtrib", "gdtr", "gdtrc", "gdtria", "gdtrib"),
        *("gdtrix", "chdtr", "chdtrc", "chdtri", "chdtriv", "fdtr", "fdtrc", "fdtri", "fdtridfd"),
        *("stdtr", "stdtrit", "stdtridf", "bdtrik", "bdtrin", "nbdtrik", "nbdtrin", "pdtrik"),
        *("chndtr", "chndtrix", "chndtridf", "chndtrinc", "ncfdtr", "ncfdtridfn", "ncfdtridfd"),
        *("ncfdtrinc", "ncfdtri", "nctdtr", "nctdtridf", "nctdtrinc", "nctdtrit", "kolmogorov"),
        *("kolmogi", "voigt_profile")),
    "an integral of several parameters, of which mpmath's is as slow as its derivative": (
        *("elliprf", "elliprc", "elliprd", "elliprj", "elliprg", "ellipkm1", "ellipkinc"),
        *("ellipeinc", "agm")),
    "a scaled Bessel function, whose slope far out is a series: `special_points.ACCURACY`": (
        *("i0e", "i1e", "k0e", "k1e"),),
}  # fmt: skip
