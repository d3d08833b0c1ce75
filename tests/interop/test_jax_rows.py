"""Every row of the op tests, run by JAX: the same numbers and cotangents, or an error that names
the op."""

import warnings

import numpy as np
import pytest
import test_rows
from op_rows import Sample

import tracker
from tracker import UnsupportedError, tree
from tracker.ops.declare.bundle import unbundle
from tracker.tape.record import apply

jax = pytest.importorskip("jax")

from tracker.interop import to_jax  # noqa: E402
from tracker.interop.replay import has_rule  # noqa: E402

# JAX has these for real numbers only: the op, or its derivative.
REAL = {
    *("erf", "erfc", "erfcx", "ndtr", "log_ndtr", "gamma", "loggamma", "psi", "spence", "exp1"),
    *("rgamma", "dawsn", "fresnel_s", "fresnel_c", "si", "ci"),
    *("argmax", "argmin"),
}
SUBNORMAL = {"argsort", "sort_key"}  # XLA takes numbers below 2.2e-308 as 0


def samples(row):
    """One sample of an elementwise op for each combination of scalars, arrays and dtypes."""
    if row.domain is None:
        return row.samples
    return {
        tuple((type(x), np.result_type(x), np.ndim(x) > 0) for x in sample.operands): sample
        for sample in row.samples
    }.values()


CASES = [
    pytest.param(row.op, sample, id=f"{row.op.name}: {sample}")
    for row in test_rows.ROWS
    for sample in samples(row)
]


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def is_refused(op, sample):
    is_complex = any(np.iscomplexobj(x) for x in sample.operands)
    return not has_rule(op) or (is_complex and op.name in REAL)


def is_moved(op, at, x):
    """Whether an operand is an argument: not Python numbers that have no derivative."""
    rules = op.vjp if isinstance(op.vjp, tuple) else (op.vjp,)
    has_derivative = op.constant or rules[min(at, len(rules) - 1)] is not None
    return tree.is_numeric(x) and (has_derivative or hasattr(x, "dtype"))


def as_function(op, sample):
    """The op as a function of its numbers, and these."""
    moved = [i for i, x in enumerate(sample.operands) if is_moved(op, i, x)]

    def f(*given):
        now = list(sample.operands)
        for i, x in zip(moved, given, strict=True):
            now[i] = x
        y = apply(op, tuple(now), sample.params)
        return unbundle(y) if type(tracker.data(y)) is tuple else y

    return f, [sample.operands[i] for i in moved]


def assert_same(found, wanted):
    found, wanted = np.asarray(found), np.asarray(tracker.data(wanted))
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10)


def is_float(x):
    return np.result_type(x).kind in "fc"


@pytest.mark.parametrize("op, sample", CASES)
def test_row(op, sample):
    if op.name in SUBNORMAL:
        numbers = (np.where(np.abs(x) < 1e-300, np.zeros_like(x), x) for x in sample.operands)
        sample = Sample(tuple(numbers), sample.params)
    f, xs = as_function(op, sample)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if is_refused(op, sample):
            with pytest.raises(UnsupportedError, match=r"to_jax has no rule for .*Compute it out"):
                jax.vjp(to_jax(f, *xs, checks="checkify"), *map(jax.numpy.asarray, xs))
            return
        wanted = f(*xs)
        assert_same(to_jax(f, *xs, checks="checkify")(*xs), wanted)
        floats = [i for i, x in enumerate(xs) if is_float(x)]
        if op.constant or not floats or not is_float(tracker.data(wanted)):
            return
        seed = np.random.default_rng(0).normal(size=np.shape(wanted))
        seed = seed.astype(np.result_type(tracker.data(wanted)))
        wanted = tracker.pullback(f, *xs)[1](seed)
        found = jax.vjp(to_jax(f, *xs), *map(jax.numpy.asarray, xs))[1](jax.numpy.asarray(seed))
        for i in floats:
            assert_same(np.conj(found[i]), wanted[i])
