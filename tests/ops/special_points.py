"""Where SciPy's ufuncs are tested.

DOMAINS    elementwise ops of one or two operands: "r" or "c" (complex, too), then intervals
SAMPLES    other ops: operands; integers are not differentiated
ACCURACY   ufuncs: mpmath's function, relative error allowed, points (integers: not differentiated)
"""

import mpmath as mp
import numpy as np

UNIT = (0.05, 0.95)
AROUND = (-2.0, 2.0)
POSITIVE = (0.3, 4.0)


def a(*values):
    return np.array(values)


DOMAINS = {
    "erf": ("c", AROUND),
    "erfc": ("c", AROUND),
    "erfcx": ("c", AROUND),
    "erfi": ("c", (-1.0, 1.0)),
    "erfinv": ("r", (-0.9, 0.9)),
    "erfcinv": ("r", (0.1, 1.9)),
    "dawsn": ("c", AROUND),
    "ndtr": ("c", AROUND),
    "ndtri": ("r", UNIT),
    "ndtri_exp": ("r", (-4.0, -0.1)),
    "log_ndtr": ("c", (-4.0, 4.0)),
    "owens_t": ("r", AROUND, AROUND),
    "fresnel_s": ("c", AROUND),
    "fresnel_c": ("c", AROUND),
    "gamma": ("c", POSITIVE),
    "gammaln": ("r", POSITIVE),
    "loggamma": ("c", POSITIVE),
    "rgamma": ("c", (-1.8, -1.2)),
    "gammasgn": ("r", POSITIVE),
    "psi": ("c", POSITIVE),
    "beta": ("r", POSITIVE, POSITIVE),
    "betaln": ("r", POSITIVE, POSITIVE),
    "binom": ("r", (3.1, 6.0), (0.2, 2.5)),
    "poch": ("r", POSITIVE, POSITIVE),
    "zeta": ("r", (1.4, 4.0), POSITIVE),
    "riemann_zeta": ("r", (1.4, 4.0)),
    "zetac": ("r", (1.4, 4.0)),
    "cbrt_scipy": ("r", POSITIVE),
    "exp2_scipy": ("r", AROUND),
    "exp10": ("r", AROUND),
    "expm1_scipy": ("c", AROUND),
    "log1p_scipy": ("c", (-0.7, 2.0)),
    "round_scipy": ("r", (0.1, 0.4)),
    "sindg": ("r", (-80.0, 80.0)),
    "cosdg": ("r", (-80.0, 80.0)),
    "tandg": ("r", (-80.0, 80.0)),
    "cotdg": ("r", (10.0, 80.0)),
    "sinpi": ("c", AROUND),
    "cospi": ("c", AROUND),
    "cosm1": ("r", AROUND),
    "expit": ("r", AROUND),
    "logit": ("r", UNIT),
    "log_expit": ("r", AROUND),
    "xlogy": ("c", POSITIVE, POSITIVE),
    "xlog1py": ("c", POSITIVE, POSITIVE),
    "entr": ("r", POSITIVE),
    "rel_entr": ("r", POSITIVE, POSITIVE),
    "kl_div": ("r", POSITIVE, POSITIVE),
    "huber": ("r", (0.3, 0.9), (-2.1, -1.0)),
    "pseudo_huber": ("r", POSITIVE, AROUND),
    "exprel": ("r", AROUND),
    "powm1": ("r", POSITIVE, AROUND),
    "boxcox": ("r", POSITIVE, AROUND),
    "boxcox1p": ("r", POSITIVE, AROUND),
    "inv_boxcox": ("r", (0.1, 0.9), (0.1, 0.9)),
    "inv_boxcox1p": ("r", (0.1, 0.9), (0.1, 0.9)),
}

SAMPLES = {
    "wofz": [(0.4 + 0.3j,), (a(0.4 + 0.3j, -1 + 2j),), (20.0 + 1j,)],
    "voigt_profile": [(0.3, 0.7, 0.4), (a(0.3, -2.0), 0.7, a(0.4, 0.1))],
    "nrdtrimn": [(0.3, 0.7, 0.4), (a(0.3, 0.9), 0.7, a(0.4, 0.1))],
    "nrdtrisd": [(0.3, 0.7, 0.4), (0.2, a(0.3, 0.9), a(0.4, 0.1))],
    "modfresnelp_f": [(0.4,), (a(0.3, 2.0),)],
    "modfresnelp_k": [(0.4,), (a(0.3, 2.0),)],
    "modfresnelm_f": [(0.4,), (a(0.3, 2.0),)],
    "modfresnelm_k": [(0.4,), (a(0.3, 2.0),)],
    "radian": [(3.0, 4.0, 5.0), (a(3.0, 1.0), 4.0, 5.0)],
}


def _erfcx(x):
    return mp.exp(x * x) * mp.erfc(x)


def _dawsn(x):
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def _boxcox(x, p):
    return mp.expm1(p * mp.log(x)) / p if p else mp.log(x)


def _binom(n, k):
    return mp.gamma(n + 1) * mp.rgamma(k + 1) * mp.rgamma(n - k + 1)


ACCURACY = {
    "erf": (mp.erf, 1e-14, -5.0, -0.3, 0.0, 1e-9, 0.7, 3.0),
    "erfc": (mp.erfc, 2e-13, -2.0, 0.5, 5.0, 20.0),
    "erfcx": (_erfcx, 3e-13, -3.0, 0.0, 0.5, 4.0, 9.9, 10.1, 50.0, 1e4),
    "erfi": (mp.erfi, 1e-13, -2.0, 0.1, 5.0),
    "erfinv": (mp.erfinv, 1e-12, -0.99, -1e-8, 0.3, 0.999),
    "dawsn": (_dawsn, 3e-13, -30.0, -3.0, 0.0, 0.9, 5.0, 9.9, 10.1, 20.0),
    "ndtr": (mp.ncdf, 1e-13, -20.0, -1.0, 0.0, 3.0),
    "log_ndtr": (lambda x: mp.log(mp.ncdf(x)), 1e-12, -30.0, -5.0, 0.0, 2.0, 10.0),
    "gamma": (mp.gamma, 1e-12, -2.5, -0.01, 0.3, 1.0, 5.0, 100.5),
    "gammaln": (lambda x: mp.log(abs(mp.gamma(x))), 1e-13, 1e-5, 0.2, 1.0, 3.0, 50.0, 1e6),
    "rgamma": (mp.rgamma, 1e-12, -2.5, -1.0, 0.0, 0.4, 3.0, 20.0),
    "psi": (mp.digamma, 1e-13, -1.5, 0.01, 1.0, 7.0, 1e4),
    "beta": (mp.beta, 1e-12, (0.3, 0.7), (5.0, 2.0), (1e4, 0.5), (100.0, 3.0)),
    "betaln": (
        lambda p, q: mp.log(mp.beta(p, q)),
        2e-13,
        (0.3, 0.7),
        (5.0, 2.0),
        (1e6, 0.5),
        (1e3, 99.0),
    ),
    "binom": (_binom, 1e-12, (7.3, 2.1), (3.0, 5.0), (20.0, 7.0), (4.0, -1.0)),
    "poch": (
        lambda x, m: mp.gamma(x + m) / mp.gamma(x),
        1e-12,
        (0.4, 2.5),
        (3.0, 4.0),
        (50.0, 1.5),
    ),
    "zeta": (mp.zeta, 1e-12, (1.1, 0.4), (2.0, 1.0), (2.5, 30.0), (7.0, 0.1), (20.0, 3.0)),
    "_riemann_zeta": (mp.zeta, 1e-11, -7.3, -2.0, -0.5, 0.0, 0.3, 1.5, 4.0, 25.0),
    "xlogy": (lambda x, y: x * mp.log(y), 1e-14, (0.3, 0.7), (2.0, 1e-3)),
    "logit": (lambda x: mp.log(x / (1 - x)), 1e-14, 1e-9, 0.3, 0.5, 0.9),
    "expit": (lambda x: 1 / (1 + mp.exp(-x)), 1e-14, -700.0, -1.0, 0.0, 3.0, 50.0),
    "log_expit": (lambda x: -mp.log1p(mp.exp(-x)), 1e-14, -700.0, -1.0, 0.0, 3.0, 50.0),
    "pseudo_huber": (
        lambda d, r: d * d * (mp.sqrt(1 + (r / d) ** 2) - 1),
        1e-13,
        (1.0, 0.3),
        (2.0, -5.0),
        (1.0, 1e-5),
        (0.1, 50.0),
    ),
    "exprel": (lambda x: mp.expm1(x) / x, 1e-13, -30.0, -1.1, -0.3, 1e-5, 0.9, 1.1, 30.0),
    "boxcox": (_boxcox, 1e-13, (3.0, 0.5), (0.2, -1.5), (7.0, 1e-7), (1e5, 2.0)),
    "inv_boxcox": (
        lambda x, p: mp.exp(mp.log1p(p * x) / p),
        1e-12,
        (0.3, 0.5),
        (2.0, 1e-6),
        (5.0, 0.4),
    ),
    "powm1": (lambda x, y: x**y - 1, 1e-14, (2.0, 0.5), (0.3, -2.0)),
    "voigt_profile": (
        lambda x, s, g: (
            mp.re(
                mp.exp(-(((x + 1j * g) / (s * mp.sqrt(2))) ** 2))
                * mp.erfc(-1j * (x + 1j * g) / (s * mp.sqrt(2)))
            )
            / (s * mp.sqrt(2 * mp.pi))
        ),
        1e-9,
        (0.3, 0.7, 0.4),
        (5.0, 0.2, 0.3),
    ),
}
