"""Where SciPy's ufuncs are tested.

DOMAINS    elementwise ops of one or two operands: "r" or "c" (complex, too), then intervals
SAMPLES    other ops: operands; integers are not differentiated
QUADRATURES  derivatives known by numbers alone
ACCURACY   ufuncs: mpmath's function, relative error allowed, points (integers: not differentiated)
"""

import mpmath as mp
import numpy as np

UNIT = (0.05, 0.95)
AROUND = (-2.0, 2.0)
POSITIVE = (0.3, 4.0)

POLYNOMIALS = (
    *("legendre", "chebyt", "chebyu", "chebyc", "chebys", "sh_legendre", "sh_chebyt"),
    *("sh_chebyu", "hermite", "hermitenorm", "laguerre"),
)


def a(*values):
    return np.array(values)


_DOMAINS = {
    ("c", AROUND): (
        "erf erfc erfcx dawsn ndtr fresnel_s fresnel_c expm1_scipy sinpi cospi airy_ai "
        "airy_ai_slope airy_bi airy_bi_slope shi wrightomega"
    ),
    ("c", (-1.0, 1.0)): "erfi", ("r", (-0.9, 0.9)): "erfinv", ("r", (0.1, 1.9)): "erfcinv",
    ("r", UNIT): "ndtri logit kolmogi ellipkm1", ("r", (-4.0, -0.1)): "ndtri_exp",
    ("c", (-4.0, 4.0)): "log_ndtr", ("r", AROUND, AROUND): "owens_t",
    ("c", POSITIVE): "gamma loggamma psi airye_ai airye_ai_slope exp1 chi ci spence",
    ("r", POSITIVE): (
        "gammaln gammasgn cbrt_scipy entr y0 y1 i0e k0 k1 k0e k1e itj0y0_j itj0y0_y iti0k0_i "
        "iti0k0_k it2j0y0_j it2j0y0_y it2i0k0_i it2i0k0_k itstruve0 it2struve0 itmodstruve0 "
        "airye_bi airye_bi_slope ker kei kerp keip expi"
    ),
    ("c", (-1.8, -1.2)): "rgamma",
    ("r", POSITIVE, POSITIVE): "beta betaln poch rel_entr kl_div elliprc agm",
    ("r", (3.1, 6.0), (0.2, 2.5)): "binom", ("r", (1.4, 4.0), POSITIVE): "zeta",
    ("r", (1.4, 4.0)): "riemann_zeta zetac",
    ("r", AROUND): (
        "exp2_scipy exp10 cosm1 expit log_expit exprel j0 j1 i0_scipy i1 ber bei berp beip si"
    ),
    ("c", (-0.7, 2.0)): "log1p_scipy", ("r", (0.1, 0.4)): "round_scipy",
    ("r", (-80.0, 80.0)): "sindg cosdg tandg", ("r", (10.0, 80.0)): "cotdg",
    ("c", POSITIVE, POSITIVE): "xlogy xlog1py", ("r", (0.3, 0.9), (-2.1, -1.0)): "huber",
    ("r", POSITIVE, AROUND): "pseudo_huber powm1 boxcox boxcox1p",
    ("r", (0.1, 0.9), (0.1, 0.9)): "inv_boxcox inv_boxcox1p", ("r", AROUND, (0.05, 0.4)): "tklmbda",
    ("r", (0.4, 2.0)): "kolmogorov", ("r", (-4.0, -0.3)): "i1e",
    ("r", (-2.0, 0.9)): "ellipk ellipe", ("r", AROUND, (-2.0, 0.9)): "ellipkinc ellipeinc",
    ("r", AROUND, (0.1, 0.9)): "ellipj_sn ellipj_cn ellipj_dn",
    ("r", (-1.4, 1.4), (0.1, 0.9)): "ellipj_ph",
}  # fmt: skip
DOMAINS = {name: domain for domain, names in _DOMAINS.items() for name in names.split()}

SAMPLES = {
    "mills": [(0.7,), (a(0.7, -1.9),)],
    **{f"itairy_{part}": [(1,)] for part in ("ai", "bi", "ai_left", "bi_left")},
    "gammainccinv": [(0.7, 0.4)], "gammaincinv": [(0.7, 0.4)], "gammaincc": [(0.7, 1.1)],
    "gammainc": [(0.7, 1.1), (a(3.0, 1.5), 0.7)], "stdtrit": [(2.3, 0.3)],
    "stdtr": [(2.3, -1.1), (a(3.0, 1.5), 0.7)], "chdtriv": [(0.4, 1.7)], "chdtri": [(2.3, 0.4)],
    "chdtrc": [(2.3, 1.1)], "chdtr": [(2.3, 1.1)],
    "gdtr": [(0.7, 1.3, 2.1), (a(0.7, 2.0), 1.3, a(2.1, 0.2))], "gdtrc": [(0.7, 1.3, 2.1)],
    "gdtria": [(0.3, 1.3, 2.1)], "gdtrib": [(0.7, 0.4, 2.1)], "gdtrix": [(0.7, 1.3, 0.6)],
    "betainc": [(0.7, 1.3, 0.4), (a(0.7, 5.0), 1.3, a(0.2, 0.9))], "betaincc": [(0.7, 1.3, 0.4)],
    "betaincinv": [(0.7, 1.3, 0.4)], "betainccinv": [(0.7, 1.3, 0.4)], "btdtria": [(0.4, 1.3, 0.3)],
    "btdtrib": [(0.7, 0.6, 0.3)], "fdtr": [(3.0, 4.5, 1.2), (a(3.0, 1.0), 4.5, a(0.3, 2.0))],
    "fdtrc": [(3.0, 4.5, 1.2)], "fdtri": [(3.0, 4.5, 0.3)], "fdtridfd": [(3.0, 0.6, 1.2)],
    "stdtridf": [(0.8, 1.0)], "bdtr": [(2, 5, 0.3)], "bdtrc": [(2, 5, 0.3)], "bdtri": [(2, 5, 0.3)],
    "bdtrik": [(0.6, 7.0, 0.3)], "bdtrin": [(2.0, 0.4, 0.3)], "nbdtr": [(2, 5, 0.3)],
    "nbdtrc": [(2, 5, 0.3)], "nbdtri": [(2, 5, 0.3)], "nbdtrik": [(0.6, 7.0, 0.3)],
    "nbdtrin": [(2.0, 0.4, 0.3)], "pdtr": [(2, 1.4), (a(2, 3), a(0.3, 4.0))], "pdtrc": [(2, 1.4)],
    "pdtri": [(2, 0.4)], "pdtrik": [(0.6, 3.5)],
    "chndtr": [(1.5, 3.0, 0.7), (a(1.5, 4.0), a(3.0, 0.4), a(0.7, 2.0))],
    "chndtrix": [(0.4, 3.0, 0.7)], "chndtrinc": [(1.5, 3, 0.2)], "chndtridf": [(2, 1, 1)],
    "ncfdtr": [(3.0, 5.0, 0.7, 1.1), (3, a(5.0, 0.7), a(0.7, 2.0), a(1.1, 0.4))],
    "ncfdtri": [(3.0, 5.0, 0.7, 0.3)], "ncfdtrinc": [(3, 5, 0, 1)], "ncfdtridfd": [(3, 1, 2, 1)],
    "ncfdtridfn": [(1, 3, 2, 1)],
    "nctdtr": [(3.0, 0.7, 1.1), (a(0.6, 40.0), a(0.7, -2.0), a(1.1, 0.4))],
    "nctdtrit": [(3.0, 0.7, 0.4)], "nctdtrinc": [(3, 0, 1)], "nctdtridf": [(1, 1, 1)],
    "smirnovp": [(5, 1)], "smirnov": [(5, 1)], "smirnovi": [(5, 1)],
    **{
        name: [(0.7, 1.3), (a(0.2, -1.3, 3.0), a(1.3, 0.2, 7.0)), (1.5, np.float32(1.25))]
        for name in ("jv", "yv", "iv", "jve", "yve", "ive", "struve", "modstruve")},
    **{name: [(2, 0.7), (0, a(0.4, 1.7)), (1, np.float32(1.25))] for name in ("yn", "kn")},
    "kv": [(0.7, 1.3), (a(0.7, 2.0), a(1.3, 0.2)), (2.3, 0.4 + 1j)],
    "kve": [(0.7, 1.3), (a(0.7, 2.0), a(1.3, 0.2)), (2.3, 0.4 + 1j)],
    **{
        name: [(2, 0.7 + 0.1j), (a(0.0, 2.6), a(0.4 + 1j, 1.7 + 0j))]
        for name in ("hankel1", "hankel2", "hankel1e", "hankel2e")},
    **{
        f"spherical_{name}{kind}": [(2, 0.7), (0, a(0.4, 1.7)), (1, 0.7 + 0.3j)]
        for name in ("jn", "yn", "in", "kn")
        for kind in ("", "_d")},
    "besselpoly": [(0.7, 1.0, 2.3), (a(0.7, 1.9), 0.2, 0.0)], "kelvin_be": [(0.7,), (a(0.7, 1.9),)],
    "kelvin_ke": [(0.7,), (a(0.7, 1.9),)], "kelvin_be_slope": [(0.7,), (a(0.7, 1.9),)],
    "kelvin_ke_slope": [(0.7,), (a(0.7, 1.9),)],
    **{
        f"{name}_{part}": [(1, 0.7), (2, a(0.3, 1.9))]
        for name in ("pbdv", "pbvv")
        for part in ("value", "slope")},
    **{f"pbwa_{part}": [(1.3, 0.7), (a(-0.4, 2.0), a(0.3, 1.9))] for part in ("value", "slope")},
    "mathieu_a": [(2, 3.0)], "mathieu_b": [(2, 3.0)],
    **{
        f"mathieu_{name}_{part}": [(2, 3.0, 0.7), (1, 2.5, a(0.3, 1.9))]
        for name in ("cem", "sem", "modcem1", "modcem2", "modsem1", "modsem2")
        for part in ("value", "slope")},
    **{
        f"{family}_{kind}_{part}": [(0 if kind == "rad2" else 1, 2, 3, x), (0, 1, 2, x + 0.2)]
        for family in ("pro", "obl")
        for kind, x in (("ang1", 0.4), ("rad1", 1.4), ("rad2", 1.4))
        for part in ("value", "slope")},
    **{
        f"{family}_{kind}_cv_{part}": [(1, 2, 3, 14, 2)]
        for family in ("pro", "obl")
        for kind in ("ang1", "rad1", "rad2")
        for part in ("value", "slope")},
    "pro_cv": [(1, 2, 3.0)], "obl_cv": [(1, 2, 3.0)],
    "elliprf": [(0.7, 1.3, 2.1), (a(0.7, 5.0), 1.3, a(0.2, 0.9))],
    "elliprd": [(0.7, 1.3, 2.1), (a(0.7, 5.0), 1.3, a(0.2, 0.9))],
    "elliprg": [(0.7, 1.3, 2.1), (a(0.7, 5.0), 1.3, a(0.2, 0.9))],
    "elliprj": [(0.7, 1.3, 2.1, 0.4), (a(0.7, 5.0), 1.3, a(0.2, 0.9), 1.0)],
    "expn": [(2, 0.7), (0, a(0.4, 1.7)), (1, 0.3)],
    "hyp0f1": [(2.0, 0.7), (a(0.4, -1.3), a(0.4, 1.7)), (1.5, 0.7 + 0.3j)],
    "hyp1f1": [(1.0, 2.0, 0.7), (a(-1.3, 2.0), 0.6, a(0.4, -1.7))],
    "hyperu": [(1, 2, 0.7), (2, 1, a(0.4, 1.7))],
    "hyp2f1": [(1.0, 2.0, 3.0, 0.2), (a(2.3, -0.7), 1.2, 4.0, a(0.4, -1.7))],
    "wright_bessel": [(1.2, 2.0, 0.7)], "log_wright_bessel": [(1.2, 2.0, 0.7)],
    "lpmv": [(1, 2.3, 0.7), (0, 3.0, a(0.4, -0.7)), (0, 0, 0.3)], "lambertw": [(2, 0, 1)],
    **{f"eval_{name}": [(3, 0.7), (0, a(0.4, -0.2)), (1, np.float64(0.3))] for name in POLYNOMIALS},
    **{
        f"eval_{name}": [(2.3, 0.7), (0, a(0.4, -0.2)), (a(1.0, 3.4), 0.3)]
        for name in POLYNOMIALS
        if "hermite" not in name},
    "eval_genlaguerre": [(2.3, 1.2, 0.7), (0, -0.3, a(0.4, 0.9)), (2.0, 1.0, 0.4)],
    "eval_gegenbauer": [(2.3, 1.2, 0.7), (0, 0.7, a(0.4, 0.9)), (2.0, 1.0, 0.4)],
    "eval_jacobi": [(2.3, 1.2, 0.3, 0.7), (0, 1, -0.4, a(0.4, 0.9)), (2.0, 1.0, 2.0, 0.4)],
    "eval_sh_jacobi": [(2.3, 1.3, 0.6, 0.7), (2, 2.0, 1.5, 0.4)],
    "wofz": [(0.4 + 0.3j,), (a(0.4 + 0.3j, -1 + 2j),), (20.0 + 1j,)],
    "voigt_profile": [(0.3, 0.7, 0.4), (a(0.3, -2.0), 0.7, a(0.4, 0.1))],
    "nrdtrimn": [(0.3, 0.7, 0.4), (a(0.3, 0.9), 0.7, a(0.4, 0.1))],
    "nrdtrisd": [(0.3, 0.7, 0.4), (0.2, a(0.3, 0.9), a(0.4, 0.1))],
    "modfresnelp_f": [(0.4,), (a(0.3, 2.0),)], "modfresnelp_k": [(0.4,), (a(0.3, 2.0),)],
    "modfresnelm_f": [(0.4,), (a(0.3, 2.0),)], "modfresnelm_k": [(0.4,), (a(0.3, 2.0),)],
    "radian": [(3.0, 4.0, 5.0), (a(3.0, 1.0), 4.0, 5.0)],
}  # fmt: skip


def _erfcx(x):
    return mp.exp(x * x) * mp.erfc(x)


def _dawsn(x):
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def _boxcox(x, p):
    return mp.expm1(p * mp.log(x)) / p if p else mp.log(x)


def _binom(n, k):
    return mp.gamma(n + 1) * mp.rgamma(k + 1) * mp.rgamma(n - k + 1)


def _mixture(c, term):
    """The sum of term(k) with Poisson weights of mean c / 2."""
    weights = (mp.exp(-c / 2) * (c / 2) ** k / mp.factorial(k) for k in range(60 + 2 * int(c)))
    return mp.fsum(w * term(k) for k, w in enumerate(weights))


def _chndtr(x, k, c):
    return _mixture(c, lambda j: mp.gammainc(k / 2 + j, 0, x / 2, regularized=True))


def _ncfdtr(n, d, c, f):
    w = n * f / (d + n * f)
    return _mixture(c, lambda j: mp.betainc(n / 2 + j, d / 2, 0, w, regularized=True))


# Derivatives by quadrature in 30 digits, which takes seconds: ufunc, point, argument, derivative.
QUADRATURES = (
    ("nctdtr", (3.0, 0.7, 1.1), 0, 0.0130468192564489),
    ("nctdtr", (0.5, -1.0, 4.0), 0, 0.0845675826929891),
    ("nctdtr", (60.0, 3.0, 4.0), 0, 0.000302701850472989),
    ("nctdtr", (4.0, 20.0, 30.0), 0, 0.0466384684231102),
    ("nctdtr", (12.0, 0.2, -1.5), 0, -0.000856064521820003),
    ("besselpoly", (0.7, 1.0, 2.3), 1, -0.00827948402089),
    ("besselpoly", (4.0, 0.5, 0.2), 1, -0.086298134153),
    ("besselpoly", (0.7, 1.0, 2.3), 2, -0.0551346808051),
    ("besselpoly", (4.0, 0.5, 0.2), 2, -0.0158003324992),
)

ORDERS = (0.3, 0.5), (0.0, 2.0), (2.5, 10.0), (7.0, 0.01), (30.0, 40.0), (-1.4, 2.0)

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
        lambda p, q: mp.log(mp.beta(p, q)), 2e-13,
        *((0.3, 0.7), (5.0, 2.0), (1e6, 0.5), (1e3, 99.0))),
    "binom": (
        _binom, 1e-12,
        *((7.3, 2.1), (3.0, 5.0), (20.0, 7.0), (4.0, -1.0), (1.0, 171.0), (30.0, 200.0)),
        *((5.0, -300.0),)),
    "poch": (
        lambda x, m: mp.gamma(x + m) / mp.gamma(x), 1e-12, *((0.4, 2.5), (3.0, 4.0), (50.0, 1.5))),
    "zeta": (mp.zeta, 1e-12, (1.1, 0.4), (2.0, 1.0), (2.5, 30.0), (7.0, 0.1), (20.0, 3.0)),
    "_riemann_zeta": (mp.zeta, 1e-11, -7.3, -2.0, -0.5, 0.0, 0.3, 1.5, 4.0, 25.0),
    "xlogy": (lambda x, y: x * mp.log(y), 1e-14, (0.3, 0.7), (2.0, 1e-3)),
    "logit": (lambda x: mp.log(x / (1 - x)), 1e-14, 1e-9, 0.3, 0.5, 0.9),
    "expit": (lambda x: 1 / (1 + mp.exp(-x)), 1e-14, -700.0, -1.0, 0.0, 3.0, 50.0),
    "log_expit": (lambda x: -mp.log1p(mp.exp(-x)), 1e-14, -700.0, -1.0, 0.0, 3.0, 50.0),
    "pseudo_huber": (
        lambda d, r: d * d * (mp.sqrt(1 + (r / d) ** 2) - 1), 1e-13,
        *((1.0, 0.3), (2.0, -5.0), (1.0, 1e-5), (0.1, 50.0))),
    "exprel": (lambda x: mp.expm1(x) / x, 1e-13, -30.0, -1.1, -0.3, 1e-5, 0.9, 1.1, 30.0),
    "boxcox": (_boxcox, 1e-13, (3.0, 0.5), (0.2, -1.5), (7.0, 1e-7), (1e5, 2.0)),
    "inv_boxcox": (
        lambda x, p: mp.exp(mp.log1p(p * x) / p), 1e-12, *((0.3, 0.5), (2.0, 1e-6), (5.0, 0.4))),
    "powm1": (lambda x, y: x**y - 1, 1e-14, (2.0, 0.5), (0.3, -2.0)),
    "voigt_profile": (
        lambda x, s, g: (
            mp.re(
                mp.exp(-(((x + 1j * g) / (s * mp.sqrt(2))) ** 2))
                * mp.erfc(-1j * (x + 1j * g) / (s * mp.sqrt(2))))
            / (s * mp.sqrt(2 * mp.pi))),
        1e-9, (0.3, 0.7, 0.4), (5.0, 0.2, 0.3)),
    "gammainc": (
        lambda p, x: mp.gammainc(p, 0, x, regularized=True), 1e-11,
        *((0.01, 0.5), (0.01, 1e-15), (1e3, 1.1e3), (1e4, 1e4), (0.3, 1e-8), (0.3, 5.0)),
        *((1.0, 1.0), (3.0, 2.0), (3.0, 12.0), (50.0, 40.0), (50.0, 70.0), (400.0, 405.0)),
        *((0.05, 1e-12), (2.0, 1e-3))),
    "gammaincc": (
        lambda p, x: mp.gammainc(p, x, mp.inf, regularized=True), 1e-11,
        *((0.3, 5.0), (3.0, 12.0), (10.0, 40.0))),
    "betainc": (
        lambda p, q, x: mp.betainc(p, q, 0, x, regularized=True), 1e-10,
        *((0.3, 0.7, 0.4), (0.02, 0.05, 0.5), (0.05, 0.02, 1e-7), (0.3, 4.0, 0.999)),
        *((1e3, 2e3, 0.34), (2.0, 3.0, 0.1), (2.0, 3.0, 0.9), (40.0, 60.0, 0.42)),
        *((300.0, 0.5, 0.99), (0.5, 25.0, 0.01), (5.0, 1.0, 1e-3))),
    "j0": (mp.j0, 1e-12, 0.0, 0.3, 5.0, 30.0), "j1": (mp.j1, 1e-12, 0.0, 0.3, 5.0, 30.0),
    "y1": (lambda x: mp.bessely(1, x), 1e-12, 0.3, 5.0, 30.0),
    "i1": (lambda x: mp.besseli(1, x), 1e-12, 0.0, 0.3, 5.0, 30.0),
    "i0e": (lambda x: mp.exp(-x) * mp.besseli(0, x), 1e-12, 0.3, 5.0, 99.0, 101.0, 1e5),
    "i1e": (lambda x: mp.exp(-x) * mp.besseli(1, x), 2e-12, 0.3, 5.0, 99.0, 101.0, 1e5),
    "k0e": (lambda x: mp.exp(x) * mp.besselk(0, x), 2e-12, 1e-3, 5.0, 99.0, 101.0, 1e5),
    "k1e": (lambda x: mp.exp(x) * mp.besselk(1, x), 2e-12, 1e-3, 5.0, 99.0, 101.0, 1e5),
    "jv": (mp.besselj, 1e-12, (0, 2.0), (3, 0.5), (7, 20.0), *ORDERS),
    "iv": (mp.besseli, 1e-12, (0, 2.0), (3, 0.5), (7, 20.0), *ORDERS),
    "yv": (mp.bessely, 1e-12, *ORDERS),
    "ive": (lambda v, x: mp.exp(-x) * mp.besseli(v, x), 1e-12, *ORDERS),
    "kv": (mp.besselk, 1e-11, (0.3, 0.7), (2.5, 1e-3), (0.5, 30.0), (20.0, 3.0), (1.5, 100.0)),
    "kve": (
        lambda v, x: mp.exp(x) * mp.besselk(v, x), 1e-11,
        *((0.3, 0.7), (9.0, 500.0), (100.0, 2.0))),
    "struve": (mp.struveh, 1e-11, (0, 2.0), (1, 0.5), (2, 9.0), (0.3, 2.0), (7.5, 20.0)),
    "modstruve": (mp.struvel, 1e-11, (0, 2.0), (1, 0.5), (2, 9.0), (0.3, 2.0), (7.5, 20.0)),
    "hyp0f1": (mp.hyp0f1, 1e-10, (0.3, -30.0), (2.5, 0.1), (7.0, 60.0), (-1.4, 2.0)),
    "ellipk": (mp.ellipk, 1e-12, -30.0, -0.5, 0.0, 1e-9, 0.5, 0.999),
    "ellipe": (mp.ellipe, 1e-12, -30.0, -0.5, 0.0, 1e-9, 0.5, 0.999),
    "ellipkm1": (lambda p: mp.ellipk(1 - p), 1e-12, 1e-9, 0.3, 0.999),
    "ellipkinc": (mp.ellipf, 1e-12, (0.3, 0.5), (1.5, 0.9), (5.0, 0.3), (-2.0, -3.0), (0.7, 0.0)),
    "ellipeinc": (mp.ellipe, 1e-12, (0.3, 0.5), (1.5, 0.9), (5.0, 0.3), (-2.0, -3.0), (0.7, 0.0)),
    "elliprf": (mp.elliprf, 1e-12, (0.3, 0.7, 2.0), (1.0, 1.0, 1.0), (1e-6, 1.0, 1e4)),
    "elliprd": (mp.elliprd, 1e-12, (0.3, 0.7, 2.0), (1.0, 1.0, 1.0), (1e-3, 1.0, 1e3)),
    "elliprg": (mp.elliprg, 1e-12, (0.3, 0.7, 2.0), (1.0, 1.0, 1.0), (1e-3, 1.0, 1e3)),
    "elliprj": (mp.elliprj, 1e-12, (0.3, 0.7, 2.0, 0.5), (1.0, 1.0, 1.0, 1.0)),
    "elliprc": (mp.elliprc, 1e-12, (0.3, 0.7), (2.0, 0.1), (1.0, 1.0)),
    "agm": (mp.agm, 1e-12, (0.3, 0.7), (1.0, 1.0), (100.0, 1e-3)),
    "exp1": (mp.e1, 1e-13, 1e-5, 0.3, 20.0), "expi": (mp.ei, 1e-13, -3.0, 1e-5, 0.3, 20.0),
    "expn": (mp.expint, 1e-12, (1, 0.3), (0, 2.0), (4, 5.0)),
    "spence": (lambda z: mp.polylog(2, 1 - z), 1e-13, 1e-5, 0.3, 0.95, 1.0, 1.2, 20.0),
    "hyp1f1": (
        mp.hyp1f1, 1e-10,
        *((1, 2, 0.3), (2, 3, -5.0), (0.3, 0.6, -20.0), (-0.7, 4.2, 3.0), (10.0, 1.5, 20.0))),
    "hyp2f1": (
        mp.hyp2f1, 1e-10,
        *((1, 2, 3, 0.3), (2, 3, 4, -5.0), (0.3, 0.6, 0.8, 0.9), (-0.7, 4.2, 2.5, -5.0)),
        *((3.0, 1.5, 5.0, 0.5),)),
    "wright_bessel": (
        lambda p, q, x: mp.nsum(
            lambda k: x**k / mp.factorial(k) * mp.rgamma(p * k + q), [0, mp.inf]),
        1e-9, (0.7, 1.5, 2.0), (2.2, 0.6, 0.1)),
    "lpmv": (lambda m, v, x: mp.legenp(v, m, x), 1e-10, (1, 2.3, 0.4), (0, 9.0, -0.6)),
    "wrightomega": (lambda z: mp.lambertw(mp.exp(z)), 1e-13, -3.0, 0.2, 50.0),
    "eval_legendre": (
        mp.legendre, 1e-10, *((3, 0.4), (10, -0.7), (0.0, 0.4), (3.3, -0.7), (9.0, 0.9))),
    "eval_chebyt": (mp.chebyt, 1e-10, (0.5, 0.4), (3.0, -0.7)),
    "eval_genlaguerre": (mp.laguerre, 1e-10, (0.5, 0.4, 1.0), (9.0, -0.6, 5.0)),
    "eval_gegenbauer": (mp.gegenbauer, 1e-9, (0.5, 0.4, 0.1), (9.0, 1.7, -0.7)),
    "eval_jacobi": (mp.jacobi, 1e-9, (0.5, 0.4, -0.6, 0.1), (9.0, 1.7, 2.0, -0.7)),
    "chdtr": (lambda v, x: mp.gammainc(v / 2, 0, x / 2, regularized=True), 1e-11, (3.0, 2.0)),
    "stdtr": (
        lambda n, t: (
            mp.mpf(1) / 2
            + mp.sign(t)
            / 2
            * mp.betainc(mp.mpf(1) / 2, n / 2, 0, t * t / (n + t * t), regularized=True)),
        1e-10,
        *((3.0, 0.5), (0.7, -2.0), (50.0, 1.2), (5.0, 1e-4), (2.5, -30.0))),
    "fdtr": (
        lambda n, d, x: mp.betainc(n / 2, d / 2, 0, n * x / (d + n * x), regularized=True), 1e-10,
        (3.0, 4.0, 0.7), (30.0, 10.0, 1.5)),
    "chndtr": (_chndtr, 1e-9, (2.0, 3.0, 0.7), (0.1, 0.5, 4.0), (20.0, 12.0, 4.0)),
    "ncfdtr": (_ncfdtr, 1e-9, (3.0, 5.0, 0.7, 1.1), (0.5, 20.0, 4.0, 1.3), (12.0, 0.7, 0.2, 5.0)),
    "kolmogorov": (
        lambda y: 2 * mp.nsum(lambda k: (-1) ** (k - 1) * mp.exp(-2 * k * k * y * y), [1, mp.inf]),
        1e-12, *(0.5, 0.79, 0.81, 2.0)),
}  # fmt: skip
