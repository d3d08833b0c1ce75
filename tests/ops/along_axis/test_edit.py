"""Joining, cutting, padding, choosing; sorting, unique values and sets; array methods."""

import math

import numpy as np
import pytest
from cases import check
from op_rows import row, sample, x, z

import tracker
from tracker import UnsupportedError, jit, param
from tracker.ops.along_axis import edit

A, B, V, W = x(2, 3), x(2, 3, seed=1), x(5), x(3, seed=1)
C = x(2, 3, 4)
S = x(3, 3)
M = np.array([[True, False, True], [False, False, True]])
ZEROS = np.array([0.0, 0.0, 1.5, 0.0, -2.0, 0.0])
REPEATS = np.array([1.5, -1.0, 1.5, 2.0, -1.0])

ROWS = [
    row("searchsorted", sample(np.sort(x(4)), x(2, 3), side="left")),
    row(
        "key_places",
        sample(np.array([1, 1, 4], np.uint8), np.array([[0, 1], [2, 9]], np.uint8), right=True),
        sample(np.array([1, 1, 4], np.uint64), np.array([0, 1, 9], np.uint64), right=False),
    ),
    row("argpartition", sample(x(2, 3), kth=1, axis=0), sample(x(3), kth=[0, 1])),
    row("lexsort", sample(x(2, 3), axis=0), sample(x(2, 3))),
    row("isin", sample(x(2, 3), x(3)), sample(x(3), x(2), invert=True)),
    row(
        "unique_order",
        sample(x(4), axis=0, equal_nan=True),
        sample(x(2, 3), axis=1, equal_nan=False),
    ),
    row("gcd", sample(np.arange(3), np.int64(6)), sample(4, 6)),
    row("lcm", sample(np.arange(3), np.int64(6)), sample(4, 6)),
    row("bitwise_count", sample(np.arange(3))),
]


def callback(vector, widths, axis, kwargs):
    vector[: widths[0]] = kwargs["fill"]
    vector[len(vector) - widths[1] :] = vector[widths[0]] * 2


PADS = {
    "constant": {"constant_values": ((1.0, 2.0), (3.0, 4.0))}, "edge": {}, "wrap": {},
    "reflect": {}, "symmetric": {}, "linear_ramp": {"end_values": (5.0, -3.0)},
    "maximum": {"stat_length": 2}, "minimum": {}, "mean": {"stat_length": ((1, 2), (2, 1))},
    "median": {},
}  # fmt: skip

CASES = {
    # joining
    "append": (lambda a, b: np.append(a, b) ** 2, A, V),
    "append axis": (lambda a: np.append(a, [[1, 2, 3.0]], axis=0) ** 2, A),
    "block": (lambda a, b: np.block([[a, a[:, :1]], [b[None], 2.0]]) ** 2, A, W),
    "block flat": (lambda a: np.block([a, 1.0, a]) ** 2, W),
    "dstack": (lambda a, b: np.dstack([a, b]) ** 2, A, B),
    "dstack of rows": (lambda a: np.dstack((a, W)) ** 2, W),
    "atleast_3d": (lambda a, b: np.atleast_3d(a, b), W, A),
    "unstack": (lambda a: np.unstack(a, axis=1)[1] ** 2, A),
    "meshgrid": (lambda a, b: np.meshgrid(a, b)[0] * np.meshgrid(a, b)[1], V, W),
    "meshgrid ij": (lambda a, b: np.meshgrid(a, b, indexing="ij", sparse=True), V, W),
    "ix_": (lambda a: a[np.ix_([1, 0], [True, False, True])] ** 2, A),
    "ix_ of floats": (lambda a: np.multiply(*np.ix_(a, a)), W),
    "diagflat": (lambda a: np.diagflat(a, 1) ** 2, A),
    "rollaxis": (lambda a: np.rollaxis(a, 2) * np.rollaxis(a, 1, 3).sum(), C),
    "rot90": (lambda a: np.rot90(a) * np.rot90(a, 3) + np.rot90(a, 2).T * np.rot90(a, 4).T, A),
    "rot90 axes": (lambda a: np.rot90(a, axes=(1, 2)) ** 2, C),
    "concatenate dtype": (
        lambda a: np.concatenate([a, a], dtype=np.float32, casting="same_kind"),
        W.astype(np.float32)),
    # cutting
    "delete": (lambda a: np.delete(a, 1, axis=1) ** 2, A),
    "delete many": (lambda a: np.delete(a, [0, -1]) ** 2, A),
    "delete slice": (lambda a: np.delete(a, slice(None, None, 2)) ** 2, V),
    "delete mask": (lambda a: np.delete(a, a[:, 0] > 9, axis=0) ** 2, A),
    "insert": (lambda a, b: np.insert(a, 1, b, axis=0) ** 2, A, W),
    "insert column": (lambda a, b: np.insert(a, [1], b, axis=1) ** 2, A, x(2, 2)),
    "insert number": (lambda a, s: np.insert(a, -1, s) ** 2, V, 0.5),
    "insert many": (lambda a, b: np.insert(a, [3, 0, 3], b) ** 2, V, W),
    "insert at slice": (lambda a, b: np.insert(a, slice(0, 3), b) ** 2, V, W),
    "insert at mask": (lambda a, b: np.insert(a, np.arange(5) > 3, b) ** 2, V, 1.5),
    "trim_zeros": (lambda a: np.trim_zeros(np.where(ZEROS == 0, 0.0, a)) ** 2, ZEROS + 1),
    "trim_zeros front": (lambda a: np.trim_zeros(a * (ZEROS != 0), "f") ** 2, ZEROS + 1),
    "resize method": (lambda a: resized(a, (2, 2)) ** 2, V),
    # padding
    **{
        f"pad {m}": (lambda a, m=m, k=k: np.pad(a, ((1, 2), (2, 1)), m, **k) ** 2, A + A**2 / 20)
        for m, k in PADS.items()},
    "pad far": (lambda a: np.pad(a, (5, 7), "reflect") * np.pad(a, (5, 7), "symmetric"), W),
    "pad odd": (lambda a: np.pad(a, (2, 1), "reflect", reflect_type="odd") ** 2, W),
    "pad odd symmetric": (lambda a: np.pad(a, 3, "symmetric", reflect_type="odd") ** 2, W),
    "pad odd far": (lambda a: np.pad(a, (5, 6), "reflect", reflect_type="odd") ** 2, W),
    "pad number": (lambda a, s: np.pad(a, 1, constant_values=s) ** 2, A, 0.5),
    "pad dict": (lambda a: np.pad(a, {-1: (1, 2)}) ** 2, A),
    "pad function": (lambda a: np.pad(a, (1, 2), callback, fill=3.0) ** 2, A),
    "sliding_window_view": (
        lambda a: (
            np.lib.stride_tricks.sliding_window_view(a, 2, axis=1).sum(-1) ** 2
            * np.lib.stride_tricks.sliding_window_view(a, (2, 2)).sum((0, -1))),
        A),
    # choosing
    "select": (lambda a, b: np.select([a > 1, a < 0], [a * b, b], default=a), A, B),
    "choose": (lambda a, b: np.choose([[0, 1, 1], [1, 0, 1]], [a, b]), A, B),
    "choose modes": (
        lambda a: (
            np.choose([3, 1, -1], [a, a**2], mode="wrap")
            * np.choose([3, 1, -1], (a, a**2), mode="clip")),
        W),
    "compress": (lambda a: np.compress([True, False, True], a, axis=1) ** 2, A),
    "compress method": (lambda a: a.compress(M.ravel()) ** 2, A),
    "extract": (lambda a: np.extract(M, a) ** 2, A),
    "piecewise": (
        lambda a: np.piecewise(a, [a < -1, a > 1], [lambda t: t**2, 3.0, lambda t: -t]), A),
    "piecewise arguments": (
        lambda a: np.piecewise(a, [a < 0], [lambda t, s: t * s, lambda t, s: t + s], 2.5), V),
    "apply_along_axis": (lambda a: np.apply_along_axis(lambda r: r[:2] * r.sum(), 1, a), A),
    "apply_along_axis number": (lambda a: np.apply_along_axis(np.std, 0, a), A),
    "apply_over_axes": (lambda a: np.apply_over_axes(np.sum, a, [0, 2]) ** 2, C),
    # order
    "partition": (lambda a: np.partition(a, 2) * a, V),
    "partition axis": (lambda a: np.partition(a, [0, 1], axis=0) ** 2, A),
    "partition flat": (lambda a: np.partition(a, 3, axis=None)[3] ** 2, A),
    "argpartition": (lambda a: a[np.argpartition(a, 2)][2] * a.argpartition(1)[1], V),
    "sort kinds": (lambda a: np.sort(a, kind="stable") * np.sort(a, stable=True), V),
    "sort_complex": (np.sort_complex, z(4)),
    "lexsort": (lambda a, b: a[np.lexsort((a, b))] * b, V, V[::-1] ** 2),
    "searchsorted": (
        lambda a: np.searchsorted([-1.0, 0.5], a) * a + a.argsort().searchsorted(2), V),
    "unique": (lambda a: np.unique(np.concatenate([a, a[:2]])) ** 2, V),
    "unique all": (
        lambda a: np.unique(a, True, True, True)[0][np.unique(a, True, True, True)[2]] * a, V),
    "unique rows": (lambda a: np.unique(np.concatenate([a, a]), axis=0) ** 2, A),
    "unique_values": (lambda a: np.sort(np.unique_values(a)) ** 2, V),
    "unique_inverse": (lambda a: np.unique_inverse(a).values[np.unique_inverse(a)[1]] * a, V),
    "unique_counts": (lambda a: np.unique_counts(a).values * np.unique_counts(a).counts, V),
    "unique_all": (lambda a: np.unique_all(a).values * a[np.unique_all(a).indices], V),
    "union1d": (lambda a: np.union1d(a, W) ** 2, V),
    "intersect1d": (lambda a: np.intersect1d(a, np.append(a[1:3], 7.0)) ** 2, V),
    "intersect1d places": (lambda a: np.intersect1d(a, a[1:3], return_indices=True)[0] ** 2, V),
    "setdiff1d": (lambda a: np.setdiff1d(a, a[1:3]) ** 2, V),
    "setxor1d": (lambda a: np.setxor1d(a, a[1:3]) ** 2, V),
    "isin": (lambda a: np.isin(a, a[1:3]) * a, V),
    # tests and text
    "infinities": (lambda a: a * np.isposinf(a) + a * ~np.isneginf(a), V),
    "array_equiv": (lambda a: a * np.array_equiv(a, a) + a * np.array_equiv(a, [1, 2]), V),
    "indices from": (lambda a: a[np.triu_indices_from(a, 1)] * a[np.tril_indices_from(a, -1)], S),
    "diag_indices_from": (lambda a: a[np.diag_indices_from(a)] ** 2, S),
    "where of one": (lambda a: a[np.where(a > 0)] ** 2, V),
    "common type": (lambda a: a * np.common_type(a)(1), V),
    "integers": (
        lambda a: a[np.gcd([4, 6], 2) - 2][0] * a[np.ravel_multi_index(([1], [0]), (2, 2))], V),
    "clip forms": (
        lambda a, lo: np.clip(a, lo, 1.0) + np.clip(a, None, lo + 1) + a.clip(min=lo, max=1.2), V,
        -0.7),
    "round forms": (lambda a: np.around(a, 1) * a + a.round(-1) + np.round(a, decimals=0), V),
}  # fmt: skip


def resized(a, shape):
    b = a.copy()
    b.resize(shape, refcheck=False)
    return b


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    check(CASES[name])


@pytest.mark.parametrize("order", ["C", "F"])
def test_edits_of_few_runs_keep_numpys_layout(order):
    """Deletions, insertions and paddings of few runs of elements, with NumPy's memory order."""
    v = np.asarray(np.arange(20.0).reshape(4, 5), order=order)
    calls = [
        lambda a, m=m, w=w: np.pad(a, w, mode=m)
        for m in ("edge", "reflect", "symmetric", "wrap")
        for w in (1, 3, (0, 2), 9)
    ]
    calls += [
        lambda a, o=o, k=k: np.delete(a, o, k)
        for o in (0, -1, 2, slice(1, 3), slice(None, None, 2))
        for k in (None, 0, -1)
    ]
    calls += [
        lambda a, o=o, k=k: np.insert(a, o, 3, k) for o in (0, -1, 2, [1]) for k in (None, 0, -1)
    ]
    for call in calls:
        want = call(v)
        compiled = jit(call)
        for got in (tracker.data(call(param(v))), compiled(v), compiled(v)):
            np.testing.assert_array_equal(got, want)
            assert (got.dtype, got.strides) == (want.dtype, want.strides)


def test_unique_gives_numpys_places():
    for given in (REPEATS, np.array([np.nan, 1.0, np.nan]), np.array([[2.0, 1], [1, 2]])):
        for keywords in ({}, {"equal_nan": False}):
            ours = np.unique(param(given), True, True, True, **keywords)
            theirs = np.unique(given, True, True, True, **keywords)
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(tracker.data(a), b)
                assert np.shape(a) == np.shape(b)


@pytest.mark.parametrize("cut", [np.array_split, np.split])
def test_a_missing_axis_raises_numpys_message(cut):
    for given in (V, param(V), param(V[0])):
        with pytest.raises(IndexError, match="tuple index out of range"):
            cut(given, 3, 1)


@pytest.mark.parametrize("write", [np.save, np.savetxt, np.savez, np.savez_compressed])
def test_storing_is_refused_by_name(write):
    with pytest.raises(UnsupportedError, match=rf"np.*{write.__name__}.*tracker\.data"):
        write("nowhere", param(V))


def test_dates_are_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"np.is_busday works on dates"):
        np.is_busday(param(V))


def test_text_of_tracked_values():
    t = param(np.array([1.0, 2.5]))
    assert np.array_str(t) == np.array_str(t.data)
    assert np.array2string(t, precision=1) == np.array2string(t.data, precision=1)
    assert np.array_repr(t) == np.array_repr(t.data)


@pytest.mark.parametrize("places, runs", [
    ([4, 0, 1, 2, 3, 4, 0], [(4, 1, 1), (0, 1, 5), (0, 1, 1)]),
    ([2, 3, 0, 1, 2, 3, 0, 1], [(2, 1, 2), (0, 1, 4), (0, 1, 2)]),
    ([0, 0, 0, 1, 2, 2], [(0, 0, 3), (1, 1, 2), (2, 1, 1)]), ([0, 4, 8, 7], [(0, 4, 3), (7, 1, 1)]),
    ([5, 0], [(5, 1, 1), (0, 1, 1)]),
])  # fmt: skip
def test_runs_of_positions(places, runs):
    """Two distant positions are no run: the gradient of such a slice would need a division."""
    assert edit._runs(np.array(places)) == runs


@pytest.mark.parametrize("dtype", ["i8", "i2", "u1"])
@pytest.mark.parametrize("mode", ["mean", "median", "linear_ramp", "maximum"])
def test_padding_of_integers_rounds_as_numpy(mode, dtype):
    """Means are rounded, ramps are floored."""
    for numbers in ([17, 6], [5, 8, 2, 3], [100, 3, 50, 42, 7]):
        a = np.array(numbers).astype(dtype)
        for given in (a, -a, np.stack([a, a[::-1]])):
            want = np.pad(given, 3, mode=mode)
            compiled = jit(lambda x: np.pad(x, 3, mode=mode))
            for _ in range(2):
                got = compiled(given)
                assert got.dtype == want.dtype and np.array_equal(got, want)


@pytest.mark.parametrize("mode", [lambda f: f, tracker.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("repeats", [0, 1, 3, np.int32(2), np.array([2]), np.array(3)], ids=repr)
@pytest.mark.parametrize("shape, axis", [((3, 4), 0), ((3, 4), -1), ((3, 4), None), ((), None)])
def test_of_one_count(mode, shape, axis, repeats):
    x = np.arange(1.0, 1 + math.prod(shape)).reshape(shape)
    want = np.repeat(x, repeats, axis)
    f = mode(
        lambda x: tracker.withgradient(lambda x: np.sum(np.repeat(x, repeats, axis) * want), x)
    )
    again = mode(lambda x: np.repeat(x, repeats, axis) * 1)
    for _ in range(2):
        y, (g,) = f(x)
        assert y == np.sum(want * want)
        np.testing.assert_array_equal(g, int(np.ravel(repeats)[0]) * x)
        np.testing.assert_array_equal(again(x), want)


@pytest.mark.parametrize("repeats", [-1, [1, -1, 1]], ids=str)
def test_of_less_than_nothing(repeats):
    with pytest.raises(ValueError, match="negative"):
        tracker.gradient(lambda x: np.sum(np.repeat(x, repeats)), np.ones(3))
