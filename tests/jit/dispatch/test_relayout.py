"""Arrays in layouts that no entry takes: what a call returns of them lies where they do."""

import sys

import numpy as np
import pytest
from unusual import unaligned

from tracker import jit

_X = np.arange(24.0).reshape(2, 3, 4)
_RECORDS = np.zeros((2, 3), [("n", "i2"), ("x", "f8", (4,))])
_RECORDS["x"] = _X
GIVEN = {
    "byte-swapped": lambda: _X.astype(">f8"),
    "byte-swapped, Fortran": lambda: np.asfortranarray(_X.astype(">f4")),
    "misaligned": lambda: unaligned(_X),
    "misaligned, reversed": lambda: unaligned(_X)[::-1, :, ::-1],
    "misaligned, gaps": lambda: unaligned(np.repeat(_X, 2, 1))[:, ::2],
    "misaligned, turned": lambda: unaligned(_X).transpose(2, 0, 1),
    "misaligned integers": lambda: unaligned(_X.astype("i4")),
    "field": lambda: _RECORDS.copy()["x"],
    "field, reversed": lambda: _RECORDS.copy()["x"][:, ::-1],
    "byte-swapped complex": lambda: (_X * (1 + 2j)).astype(">c16"),
    "misaligned complex": lambda: unaligned(_X * (1 + 2j))[:, ::-1],
    "byte-swapped, overlapping": lambda: np.lib.stride_tricks.sliding_window_view(
        np.arange(9.0).astype(">f8"), (3,)
    ),
}
VIEWS = {
    "itself": lambda x: x,
    "part": lambda x: x[1:, ::-1],
    "element": lambda x: x[1:2, 1:2],
    "last": lambda x: x[-1],
    "turned": lambda x: x.T[::2],
    "reshaped": lambda x: x.reshape(-1)[3::2],
    "extended": lambda x: x[:, None],
    "real": lambda x: x.real[1:],
    "imag": lambda x: x.imag[1:],
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", VIEWS)
def test_views_are_views_of_what_was_given(given, name):
    f = VIEWS[name]
    fast = jit(lambda x: {"view": [f(x)], "computed": x * 2})
    for _ in range(2):
        x = GIVEN[given]()
        want, got = f(x), fast(x)
        if name == "imag" and not np.iscomplexobj(x):
            np.testing.assert_array_equal(got["view"][0], want)
            continue
        (view,) = got["view"]
        np.testing.assert_array_equal(view, want)
        assert np.shares_memory(view, x) == np.shares_memory(want, x)
        assert (view is x) == (want is x)
        if np.shares_memory(want, x):
            assert view.dtype == want.dtype
            places = [
                [step for step, n in zip(each.strides, each.shape, strict=True) if n > 1]
                for each in (view, want)
            ]
            assert places[0] == places[1]
            assert view.__array_interface__["data"] == want.__array_interface__["data"]
        np.testing.assert_array_equal(got["computed"], x * 2)


def test_what_was_given_read_only_is_returned_read_only():
    x = np.arange(3.0).astype(">f8")
    x.flags.writeable = False
    fast = jit(lambda x: (x, x[1:], x * 2))
    for _ in range(2):
        same, view, made = fast(x)
        assert same is x
        assert not view.flags.writeable
        assert made.flags.writeable


FOLDED = {
    "one row": ((4, 3), (0, 8)),
    "windows": ((4, 3), (8, 8)),
    "two rows in three": ((4, 4), (16, 8)),
    "one element": ((3,), (0,)),
    "none shared": ((4, 3), (32, 8)),
}


def _sets_a_row(x):
    x[0] = 5.0
    return x.sum()


def _carries_on(x):
    x[1:] = x[:-1] * 2
    return x * 1


def _raises(x):
    x[0] = 5.0
    if x[-1].sum() > 1:
        raise ValueError(str(x))
    return x


@pytest.mark.parametrize("order", [None, ">"])
@pytest.mark.parametrize("folded", FOLDED)
@pytest.mark.parametrize("f", [_sets_a_row, _carries_on, _raises])
def test_writes_into_arrays_whose_elements_share_memory(f, folded, order):
    shape, strides = FOLDED[folded]
    fast = jit(f)
    for _ in range(3):
        results = []
        for call in (f, fast):
            raw = np.arange(30.0)
            raw = raw if order is None else raw.astype(raw.dtype.newbyteorder(order))
            x = np.lib.stride_tricks.as_strided(raw, shape, strides)
            try:
                results.append((raw, call(x)))
            except ValueError as error:
                results.append((raw, str(error)))
        for got, want in zip(*results, strict=True):
            np.testing.assert_array_equal(got, want)


def test_arrays_that_share_memory_are_traced_once(monkeypatch):
    traced, module = [], sys.modules["tracker.jit.dispatch.jitted"]
    stage = module.trace_call
    monkeypatch.setattr(module, "trace_call", lambda *a, **k: traced.append(a) or stage(*a, **k))

    def f(x, y):
        x += y
        return x.sum()

    fast, x, y = jit(f), np.ones(50), np.ones(50)
    for _ in range(5):
        assert fast(x, x) == 2 * f(y, np.zeros(50))
        f(y, y)
    assert len(traced) == 1
    assert fast(x, np.ones(50)) == x.sum()
    assert len(traced) == 2


BYTES = {
    "tobytes": lambda x: x.tobytes(),
    "bytes": lambda x: bytes(x),
    "memoryview": lambda x: memoryview(x).tobytes(),
    "bytes of a copy": lambda x: x.copy().tobytes(),
    "view": lambda x: x.view("u1"),
    "swapped": lambda x: x.byteswap(),
}


@pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")
@pytest.mark.parametrize("name", BYTES)
def test_the_plain_function_gets_the_callers_array(name):
    x, fast = np.arange(3).astype(">i4"), jit(BYTES[name])
    want = BYTES[name](x)
    for _ in range(3):
        got = fast(x)
        assert np.array_equal(got, want)
        assert getattr(got, "dtype", None) == getattr(want, "dtype", None)
