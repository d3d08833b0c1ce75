"""Rows of the ops that move elements, cast, copy and fill."""

import re

import numpy as np
from op_rows import row, sample, x, z

from tracker import gradient, jit, trace, withgradient
from tracker.ops.shape.windows import overlaps, windows

F64 = np.dtype(np.float64)
F32 = np.dtype(np.float32)
C128 = np.dtype(np.complex128)

ROWS = [
    row(
        "reshape", sample(x(2, 3), shape=(3, 2)), sample(x(1, 1), shape=()),
        sample(x(), shape=(1,)), sample(x(0, 2), shape=(3, 0)), sample(z(4), shape=(2, 2))),
    row(
        "transpose", sample(x(2, 3), axes=(1, 0)), sample(x(2, 3, 4), axes=(2, 0, 1)),
        sample(x(), axes=()), sample(x(2, 0), axes=(1, 0)), sample(z(2, 3), axes=(1, 0))),
    row(
        "broadcast_to", sample(x(3), shape=(2, 3)), sample(x(2, 1), shape=(4, 2, 3)),
        sample(x(), shape=(2, 2)), sample(1.5, shape=(3,)), sample(x(1), shape=(0,)),
        sample(z(1), shape=(3,))),
    row(
        "concatenate", sample(x(2), x(3), axis=0), sample(x(2, 1), x(2, 3), x(2, 0), axis=1),
        sample(x(2), axis=0), sample(z(2), x(2), axis=0),
        sample(x(2).astype(np.float32), x(2), axis=0), sample(np.arange(2), x(2), axis=0)),
    row(
        "stack", sample(1.5, x(), x(), axis=0), sample(x(2), x(2, seed=1), axis=1),
        sample(x(2, 3), axis=1), sample(z(2), x(2), np.arange(2), axis=0),
        sample(x(2).astype(np.float32), x(2), axis=0), sample(x(0), x(0), axis=1)),
    row(
        "astype", sample(x(3), dtype=F32), sample(x(3).astype(np.float32), dtype=F64),
        sample(x(3), dtype=C128), sample(1.5, dtype=F64), sample(np.arange(3), dtype=F64),
        sample(x(), dtype=F32), sample(x(0, 2), dtype=F32)),
    row("to_discrete", sample(x(3), dtype=np.dtype(np.int64)), sample(x(), dtype=np.dtype(bool))),
    row("after", sample(x(3), 2.5), sample(2.5, x(2)), sample(z(2), x(2))),
    row("identity", sample(x(3)), sample(2.5), sample(z(2)), sample(np.arange(3))),
    row("constant", sample(x(3)), sample(2.5), sample(z(2)), sample(np.arange(3))),
    row("item", sample(x()), sample(x().astype(np.float32)), sample(2.5), sample(z())),
    row("copy", sample(x(3)), sample(x()), sample(z(2, 2)), sample(x(0)), sample(np.arange(3))),
    row(
        "zeros_like", sample(x(3), shape=(3,), dtype=F64), sample(x(), shape=(2, 2), dtype=F32),
        sample(2.0, shape=(), dtype=F64)),
    row(
        "ones_like", sample(x(3), shape=(3,), dtype=F64), sample(x(), shape=(2, 2), dtype=F32),
        sample(2.0, shape=(), dtype=F64)),
]  # fmt: skip


W = {"kernel": (2, 3), "stride": (2, 1), "dilation": (1, 2)}
ROWS += [
    row(
        "windows", sample(x(2, 3, 5), kernel=(3,), stride=(1,), dilation=(1,)),
        sample(x(2, 1, 6, 7), **W),
        sample(x(1, 2, 4, 5, 6), kernel=(2, 1, 3), stride=(1, 2, 3), dilation=(2, 1, 1)),
        sample(x(2, 3, 5).astype(np.float32), kernel=(2,), stride=(3,), dilation=(1,)),
        sample(x(40, 30), kernel=(3, 5), stride=(1, 1), dilation=(1, 1))),
    row(
        "overlaps", sample(x(2, 3, 3, 3), extents=(5,), stride=(1,), dilation=(1,)),
        sample(x(2, 2, 3, 3, 3), extents=(6, 7), stride=(2, 1), dilation=(1, 2)),
        sample(x(3, 5, 38, 26), extents=(40, 30), stride=(1, 1), dilation=(1, 1)),
        sample(x(2, 2, 2).astype(np.float32), extents=(6,), stride=(3,), dilation=(2,))),
    row("logistic_density", sample(x(2, 3)), sample(0.3), extremes=[-1e4, 1e4, -800.0, 40.0]),
    row("sigmoid", domain=[(-3, 3)], complex=True, extremes=[-1e4, 1e4, -800.0, 40.0]),
    row(
        "softmax", sample(x(3), axis=(0,), shared=False), sample(x(2, 3), axis=(1,), shared=True),
        sample(x(2, 3), 1 + x(2, 3) ** 2, axis=(0, 1), shared=True)),
    row("logsoftmax", sample(x(3), axis=(0,)), sample(x(2, 3), axis=(0,))),
    row(
        "logsumexp", sample(x(3), axis=(0,)), sample(x(2, 3, 2), axis=(0, 2)),
        sample(x(2, 3), x(2, 3, seed=1), axis=(1,))),
    row("held", sample(x(3)), sample(x(2, 2).astype(np.float32)), sample(1.5)),
]  # fmt: skip


def test_windows_against_numpy():
    a = x(3, 8, 9)
    for stride in ((1, 1), (2, 3)):
        made = windows.evaluate(a, kernel=(3, 2), stride=stride, dilation=(1, 1))
        want = np.lib.stride_tricks.sliding_window_view(a, (3, 2), axis=(1, 2))
        want = np.moveaxis(want[:, :: stride[0], :: stride[1]], (3, 4), (1, 2))
        np.testing.assert_array_equal(made, want)


def test_sliding_windows_allocate_nothing():
    """Neither an array of positions nor one of windows is allocated."""

    def f(a):
        return np.sum(np.lib.stride_tricks.sliding_window_view(a, (5, 4)) ** 2)

    a = x(300, 200)
    assert "captures" not in str(trace(f, a))
    fast = jit(lambda a: withgradient(f, a))
    for _ in range(2):
        total, (slope,) = fast(a)
    np.testing.assert_allclose(total, f(a), rtol=1e-12)
    np.testing.assert_allclose(slope, gradient(f, a)[0], rtol=1e-12)
    (scratch,) = re.findall(r"at most ([0-9,]+) of scratch", fast.explain(a))
    assert int(scratch.replace(",", "")) < a.nbytes


def test_overlaps_is_the_adjoint():
    a, how = x(3, 8, 9), {"stride": (2, 1), "dilation": (1, 3)}
    made = windows.evaluate(a, kernel=(3, 2), **how)
    g = x(*made.shape, seed=1)
    back = overlaps.evaluate(g, extents=(8, 9), **how)
    np.testing.assert_allclose(np.sum(made * g), np.sum(a * back), rtol=1e-12)
