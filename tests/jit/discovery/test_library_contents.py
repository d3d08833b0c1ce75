"""Captured pandas and xarray objects and sparse arrays: compiled functions see every change."""

import gc
import weakref

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray as xr

from tracker import jit
from tracker.jit.discovery.captured_state import find_captured_state
from tracker.jit.discovery.library_contents import contents_check

W = np.array([1.0, -2.0, 0.5])


def frame():
    return pd.DataFrame(
        {
            "a": [1.0, 2.0, 3.0],
            "b": [4.0, 5.0, 6.0],
            "text": ["x", "y", "x"],
            "object": pd.Series([1, "y", None], dtype=object),
            "day": pd.to_datetime(["2020-01-01", None, "2020-01-03"]),
            "category": pd.Categorical(["u", "v", "u"]),
            "nullable": pd.array([1.0, None, 3.0], dtype="Float64"),
            "flag": [True, False, True],
        }
    )


def data_set():
    return xr.Dataset({"a": ("t", [1.0, 2.0, 3.0])}, coords={"t": [0, 1, 2]})


def place(x, at, value):
    """x[at] = value, through the names in `at`."""
    *path, last = at
    for name in path:
        x = getattr(x, name) if isinstance(name, str) and hasattr(x, name) else x[name]
    if isinstance(last, str) and last.startswith("."):
        setattr(x, last[1:], value)
    else:
        x[last] = value


def groups():
    return frame().groupby("text")


CASES = {  # how it is made, what is read, where something is stored, and what
    "copied columns": (frame, lambda x: x[["b", "a"]].sum(axis=1), ("loc", (0, "a")), 9.0),
    "mean": (frame, lambda x: x["a"].mean(), ("iloc", (1, 0)), 7.0),
    "groups": (frame, lambda x: x.groupby("text")["a"].transform("sum"), ("loc", (1, "text")), "x"),
    "new column": (frame, lambda x: x.shape[1] * x["a"], ("c",), 1.0),
    "column": (frame, lambda x: x["a"], ("a",), [3.0, 1.0, 2.0]),
    "objects": (frame, lambda x: float(x["object"][0]) * x["a"], ("loc", (0, "object")), 5),
    "dates": (frame, lambda x: x["day"].dt.day.fillna(0.0), ("loc", (1, "day")), pd.Timestamp(0)),
    "codes": (frame, lambda x: x["category"].cat.codes, ("loc", (0, "category")), "v"),
    "nullable": (frame, lambda x: x["nullable"].fillna(0), ("loc", (1, "nullable")), 2.0),
    "bools": (frame, lambda x: np.where(x["flag"], x["a"], 0.0), ("loc", (0, "flag")), False),
    "names": (frame, lambda x: "c" in x.columns, (".columns",), list("abcdefgh")),
    "index": (frame, lambda x: x.index.to_numpy(), (".index",), [5, 6, 7]),
    "name of an index": (frame, lambda x: x.index.name == "n", ("index", ".name"), "n"),
    "attributes": (frame, lambda x: x.attrs.get("scale", 1.0), ("attrs", "scale"), 3.0),
    "series": (lambda: frame()["a"].copy(), lambda x: x.cumsum(), ("iloc", 2), 0.0),
    "name of a series": (lambda: frame()["a"], lambda x: x.name == "n", (".name",), "n"),
    "large": (
        lambda: pd.DataFrame(np.ones((3000, 4))).T.copy(),
        lambda x: x.to_numpy(copy=True).sum(),
        ("iloc", (2, 2)),
        5.0,
    ),
    "array of pandas": (
        lambda: pd.array([1.0, 2.0, 3.0], dtype="Float64"),
        lambda x: x.to_numpy(float),
        (1,),
        5.0,
    ),
    "data array": (lambda: data_set()["a"], lambda x: x.mean().item(), (1,), 5.0),
    "data set": (data_set, lambda x: x["a"].values, ("a", 0), 5.0),
    "new variable": (data_set, lambda x: len(x.data_vars), ("b",), 1.0),
    "groups made before": (groups, lambda x: x["a"].sum().sum(), ("obj", "loc", (0, "a")), 9.0),
    "window": (
        lambda: frame()["a"].rolling(2),
        lambda x: x.sum().dropna().sum(),
        ("obj", "iloc", 1),
        9.0,
    ),
    "variable": (lambda: xr.Variable("t", [1.0, 2.0, 3.0]), lambda x: x.mean().item(), (0,), 9.0),
    "csr": (lambda: scipy.sparse.csr_array(np.eye(3)), lambda x: x.toarray()[0], ("data", 0), 4.0),
    "coo": (
        lambda: scipy.sparse.coo_array(np.eye(3)),
        lambda x: x.toarray()[:, 0],
        ("coords", 0, 0),
        2,
    ),
    "dok": (lambda: scipy.sparse.dok_array(np.eye(3)), lambda x: x.toarray()[0], ((0, 2),), 4.0),
    "lil": (lambda: scipy.sparse.lil_array((3, 3)), lambda x: x.toarray()[0], ((0, 2),), 4.0),
}


@pytest.mark.parametrize("name", CASES)
def test_changes_are_seen(name):
    make, read, at, value = CASES[name]
    x = make()

    def f(w):
        return np.sum(np.asarray(read(x), dtype=float) * w)

    compiled = jit(f)
    before = [compiled(W) for _ in range(3)]
    assert before == [f(W)] * 3
    assert compiled.cache_info().traces == 1
    place(x, at, value)
    assert compiled(W) == f(W) != before[0]
    assert compiled(W) == f(W)
    assert compiled.cache_info().eager == 0


@pytest.mark.parametrize("make", [frame, data_set, lambda: scipy.sparse.csr_array(np.eye(3))])
def test_a_function_that_changes_what_it_captures(make):
    ours, plain = make(), make()

    def f(x, w):
        if isinstance(x, pd.DataFrame):
            x.loc[0, "a"] += 1.0
            x["new"] = 2.0 * x["a"]
            return np.sum(x["new"].to_numpy() * w)
        if isinstance(x, xr.Dataset):
            x["a"] = x["a"] + 1.0
            return np.sum(x["a"].values * w)
        x *= 2.0
        return np.sum(x.toarray() @ w)

    compiled = jit(lambda w: f(ours, w))
    with pytest.warns(RuntimeWarning, match="plain Python from now on"):
        assert [compiled(W) for _ in range(4)] == [f(plain, W) for _ in range(4)]


def test_arguments_are_compared_by_their_contents():
    compiled = jit(lambda w, x: np.sum(x["a"].to_numpy(copy=True) * w))
    x = frame()
    first = [compiled(W, x) for _ in range(2)]
    x.loc[0, "a"] = 9.0
    assert compiled(W, x) == first[0] + 8.0 * W[0]


def test_data_frames_are_not_looked_into_nor_kept_alive():
    x = frame()
    found = find_captured_state(lambda w, x=x: x["a"] * w)
    assert not found.names.may_write and len(found.sources) < 12
    assert contents_check(x) is contents_check(x)
    known = weakref.ref(x)
    del x, found
    gc.collect()
    assert known() is None


def test_no_rows_of_a_sparse_dict_are_made(monkeypatch):
    """Each is another dict of the kind, with rows that are: the search would not end."""
    found = scipy.sparse.dok_array(np.eye(3))

    def refuse(self):
        raise AssertionError

    monkeypatch.setattr(scipy.sparse.dok_array, "__iter__", refuse)
    f = jit(lambda x: found @ x)
    for _ in range(2):
        np.testing.assert_array_equal(f(np.arange(3.0)), np.arange(3.0))
