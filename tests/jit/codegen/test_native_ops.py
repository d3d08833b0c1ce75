"""Ops that were once left to NumPy run natively: every sample of their rows, without a host call;
those of a row as one program, in the deep profile each by itself.

`SETTLED` lists the families.
"""

import importlib
import itertools
import warnings

import numpy as np
import pytest
from compiled import assert_native
from equality import assert_same
from pairwise_parameters import DEEP

from tracker import jit, pullback
from tracker.tape.record import apply

SETTLED = {
    "test_getitem": None,  # every op of the family
    "test_unary": {
        "sign",
        "floor",
        "ceil",
        "trunc",
        "rint",
        "isnan",
        "isinf",
        "isfinite",
        "signbit",
        "invert",
        "logical_not",
        "absolute",
        "square",
        *("tan", "tanh", "log2", "log10", "log1p", "expm1"),
        *("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"),
        "negative",
    },
    "test_binary": {
        "floor_divide",
        "remainder",
        "fmod",
        "heaviside",
        "left_shift",
        "right_shift",
        "fmax",
        "fmin",
        "copysign",
        "less",
        "equal",
        "add",
        "subtract",
        "multiply",
        "maximum",
        "where",
    },
    "test_reduce": {"sum", "mean", "prod"},
    "test_sort": None,
    "test_partition": None,
    "test_fft": {"nextafter", "spacing", "ldexp", "exponent"},
    "test_edit": {
        "gcd",
        "lcm",
        "bitwise_count",
        "searchsorted",
        "key_places",
        "lexsort",
        "isin",
        "unique_order",
    },
    "test_cumulative": {
        "cumsum",
        "cumprod",
        "recurrence",
        "latest_extreme",
        "running_maximum",
        "running_minimum",
        "nanargmax",
        "nanargmin",
    },
    "test_special_ufuncs": {
        *("erf", "erfc", "erfcx", "erfinv", "erfcinv", "ndtr", "ndtri", "log_ndtr"),
        *("i0_scipy", "i1", "i0e", "i1e", "gammaln", "psi", "sinpi", "cospi"),
        *("expit", "logit", "log_expit", "xlogy", "xlog1py", "entr", "rel_entr", "kl_div"),
        *("huber", "pseudo_huber", "exprel", "exp10", "cosm1", "round_scipy"),
        *("boxcox", "boxcox1p", "inv_boxcox", "inv_boxcox1p", "gamma", "rgamma", "loggamma"),
    },
    "test_predicates": {"any", "all", "argmax", "argmin", "count_nonzero"},
}


def cases():
    """An op and samples that are compiled as one program: a row's, in the deep profile each."""
    for family, names in SETTLED.items():
        for row in importlib.import_module(family).ROWS:
            if names is None or row.op.name in names:
                samples = [s for s in row.samples if s.operands]
                if family == "test_special_ufuncs":  # complex: SciPy's own
                    samples = [s for s in samples if not any(map(np.iscomplexobj, s.operands))]
                together = [samples] if samples else []
                for some in [[s] for s in samples] if DEEP else together:
                    texts = f": {some[0]}" if DEEP else ""
                    yield pytest.param(row.op, some, id=f"{row.op.name}{texts}")


def differentiable(op, sample):
    rules = op.vjp
    return [
        i
        for i, x in enumerate(sample.operands)
        if rules[min(i, len(rules) - 1)] is not None and np.result_type(x).kind in "fc"
    ]


def of_sample(op, sample):
    """The op at the sample's parameters, and its pullback by the operands that have one."""
    places = differentiable(op, sample)

    def f(*xs):
        return apply(op, xs, sample.params)

    def pulled(seed, *xs):
        def moving(*moved):
            now = list(xs)
            for i, x in zip(places, moved, strict=True):
                now[i] = x
            return f(*now)

        return pullback(moving, *(xs[i] for i in places))[1](seed)

    return f, pulled if places else None


def beside(functions, arguments):
    """One function of the arguments of several."""
    ends = np.cumsum([len(a) for a in arguments]).tolist()
    cuts = [slice(i, j) for i, j in zip([0, *ends], ends, strict=False)]
    return lambda *xs: tuple(f(*xs[cut]) for f, cut in zip(functions, cuts, strict=True))


def check_native(functions, arguments, wanted, what):
    compiled = jit(beside(functions, arguments))
    for _ in range(2):
        found = compiled(*itertools.chain(*arguments))
        for got, want in zip(found, wanted, strict=True):
            assert_same(got, want, what, 1e-12)
    assert_native(compiled, *itertools.chain(*arguments))


@pytest.mark.crossed
@pytest.mark.parametrize("op, samples", list(cases()))
def test_row(op, samples):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = [op.evaluate(*s.operands, **s.params) for s in samples]
        functions, pullbacks = zip(*(of_sample(op, s) for s in samples), strict=True)
        check_native(functions, [s.operands for s in samples], values, "result")
        given = [
            (pull, (np.ones(np.shape(y), np.result_type(y))[()], *s.operands))
            for pull, y, s in zip(pullbacks, values, samples, strict=True)
            if pull is not None
        ]
        if given:
            pulls, arguments = zip(*given, strict=True)
            wanted = [pull(*xs) for pull, xs in given]
            check_native(pulls, arguments, wanted, "cotangents")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("h", [0.5, np.float64(0.5), np.array(0.5), np.array([0.5])], ids=repr)
def test_a_uniform_exponent_takes_roots_as_numpy_does(dtype, h):
    """NumPy's loop gives sqrt(x) for a half, also of -0.0 and -inf, where pow gives other signs."""
    _check_powers(dtype, h)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("h", [-2.5, -2, -1.5, -1, -0.5, 1.5, 2.5, 3, 3.5])
def test_powers_by_few_products(dtype, h):
    _check_powers(dtype, h)


def _check_powers(dtype, h):
    x = np.array([-0.0, 0.0, 4.0, -np.inf, np.inf, -2.0, np.nan, 3.0, 0.7], dtype)
    ends = np.finfo(dtype)
    x = np.concatenate([x, [ends.max, ends.tiny, *(ends.max ** dtype(k / 7) for k in range(1, 7))]])

    for f in (lambda x, h: x**h, lambda x, h: np.power(x, h), lambda x, h: np.power(x[:1], h)):
        fast = jit(f, strict=True)
        for _ in range(2):
            with np.errstate(all="ignore"):
                got, want = fast(x, h), f(x, h)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=3 * ends.eps, atol=ends.smallest_subnormal)
            numbers = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])
