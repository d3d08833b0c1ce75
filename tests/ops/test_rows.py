"""The generic test of every op: each check of `op_rows.CHECKS` on each sample of each row."""

import importlib
import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_rows import CHECKS, grid

from tracker import pullback, testing
from tracker.ir.lowering import Reduce
from tracker.ir.op import OPS
from tracker.ir.types import type_of
from tracker.tape.record import apply
from tracker.tape.tracing import lazy

FAMILIES = [
    *("scipy_signal", "special_ufuncs", "unary", "binary", "reduce", "predicates", "shape"),
    *("getitem", "einsum", "sort", "partition", "linalg", "cumulative", "calculus", "fft"),
    *("edit", "scipy_linalg"),
]
ROWS = [row for name in FAMILIES for row in importlib.import_module(f"test_{name}").ROWS]
CASES = [
    pytest.param(row.op, sample, id=f"{row.op.name}: {sample}")
    for row in ROWS
    for sample in row.samples
]
EXTREMES = [
    pytest.param(row.op, sample, id=f"{row.op.name}{tuple(map(float, sample.operands))}")
    for row in ROWS
    for sample in row.extremes
]
ELEMENTWISE = [pytest.param(row, id=row.op.name) for row in ROWS if row.domain is not None]


# Control flow, random draws and warnings have tests of their own, and so have splines and sums over
# MPI's ranks, whose ops are defined when they are imported.
ELSEWHERE = {"pick", "loop", "while", "branch", "draw", "warn_coinciding", "warn_vanishing"}


def test_every_op_has_a_row():
    others = {op.name for op in set(OPS.values()) - {row.op for row in ROWS}}
    assert others - {"point_value", "psum"} == ELSEWHERE


@pytest.mark.parametrize("op, sample", CASES)
def test_sample(op, sample):
    for check in CHECKS:
        check(op, sample.operands, sample.params)


@pytest.mark.parametrize("op, sample", EXTREMES)
def test_extreme(op, sample):
    testing.check_extremes(op, sample.operands, sample.params)


def _has_forms(op):
    return isinstance(op.lower, Reduce) or getattr(op.lower, "order", "") != ""


LAYOUTS = {
    "C": lambda x: x,
    "F": np.asfortranarray,
    "backwards": lambda x: np.flip(np.flip(x).copy()),
    "spread": lambda x: np.repeat(x[..., None], 2, -1)[..., 0],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape) if x.ndim else x,
}


@pytest.mark.parametrize("op, sample", [case for case in CASES if _has_forms(case.values[0])])
def test_abstract_values_have_the_layout_of_results(op, sample):
    """The abstract value of a lazy result has the class, type and strides of the computed one."""
    for one, other in itertools.product(LAYOUTS.values(), repeat=2):
        layouts = itertools.cycle((one, other))
        given_ = [
            next(layouts)(x) if type(x) is np.ndarray and x.ndim and x.dtype != bool else x
            for x in sample.operands
        ]
        form = lazy.result_aval(op, given_, sample.params)
        if form is None:
            continue
        try:
            with np.errstate(all="ignore"):
                found = op.evaluate(*given_, **sample.params)
        except np.linalg.LinAlgError:
            continue
        assert type(form) is type(found)
        assert (form.shape, form.dtype) == (found.shape, found.dtype)
        steps = zip(form.shape, form.strides, found.strides, strict=True)
        assert all(have == want for n, have, want in steps if n > 1), (form.strides, found.strides)


LINEAR_CASES = [case for case in CASES if case.values[0].linear]


@pytest.mark.parametrize("op, sample", LINEAR_CASES)
def test_pullbacks_of_linear_ops_read_no_numbers_of_floats(op, sample):
    is_float = [np.result_type(x).kind in "fc" for x in sample.operands]

    def cotangents(floats):
        def f(*now):
            given_ = iter(now)
            xs = [next(given_) if m else x for x, m in zip(sample.operands, is_float, strict=True)]
            return apply(op, tuple(xs), sample.params)

        y, pull = pullback(f, *floats)
        return pull(np.arange(1, np.size(y) + 1, dtype=np.result_type(y)).reshape(np.shape(y)))

    floats = [x for x, m in zip(sample.operands, is_float, strict=True) if m]
    of_zeros = cotangents([x * 0 for x in floats])
    for one, other in zip(cotangents(floats), of_zeros, strict=True):
        np.testing.assert_array_equal(one, other)


KINDS = ["?", "i1", "u1", "i4", "i8", "u8", "f2", "f4", "f8", "g", "F", "D"]
NUMBERS = [*(np.ones(2, kind) for kind in KINDS), np.float32(1), np.int16(1), 1, 1.0, 1j]


def outcome(f):
    """What a call returns, or TypeError if it is refused."""
    try:
        with np.errstate(all="ignore"):
            return f()
    except TypeError:
        return TypeError


@pytest.mark.parametrize("row", ELEMENTWISE)
def test_types_of_every_dtype_and_pair(row):
    """`infer` gives NumPy's type or refuses as NumPy does; cotangents fit their operands."""
    op = row.op
    for xs in itertools.product(NUMBERS, repeat=len(row.domain)):
        declared = outcome(lambda xs=xs: op.infer(*map(type_of, xs)))
        found = outcome(lambda xs=xs: type_of(op.evaluate(*xs)))
        assert declared == found, [type_of(x) for x in xs]
        kinds = "fc" if row.complex else "f"
        if found is TypeError or op.constant or found.dtype.kind not in kinds:
            continue
        for at, x in enumerate(xs):
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _, pull = pullback(lambda *now: apply(op, now), *xs)
                c = pull(np.ones(found.shape, found.dtype)[()])[at]
            if c is not None and np.result_type(x).kind in "fc":
                assert type_of(c) == type_of(x), [type_of(x) for x in xs]


DTYPES = [np.float64, np.float64, np.float32]
SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@st.composite
def operands(draw, row):
    """Operands of shapes that broadcast, with values of the row's domain."""
    whole = draw(SHAPES)
    out = []
    for at, interval in enumerate(row.domain):
        shape = tuple(n if draw(st.booleans()) else 1 for n in whole)
        shape = shape[draw(st.integers(0, len(shape))) :] if draw(st.booleans()) else shape
        n = int(np.prod(shape, dtype=int))
        steps = draw(st.lists(st.integers(0, 40), min_size=n, max_size=n))
        values = grid(interval, np.reshape(np.array(steps, dtype=int), shape), at)
        if row.complex and draw(st.booleans()):
            out.append((values + 0.4j * np.cos(values))[()])
        else:
            out.append(np.asarray(values).astype(draw(st.sampled_from(DTYPES)))[()])
    return tuple(out)


@pytest.mark.parametrize("row", ELEMENTWISE)
@settings(max_examples=min(settings.default.max_examples // 2, 100))  # of each of many rows
@given(data=st.data())
def test_elementwise(row, data):
    drawn = data.draw(operands(row))
    for check in CHECKS:
        check(row.op, drawn, {})
