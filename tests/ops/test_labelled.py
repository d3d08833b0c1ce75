"""pandas and xarray objects beside tracked values, in programs that use them as operands, constants
and indices: gradients against differences of the plain function, eager and compiled."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tables import refused

from tracker import (
    ConversionError,
    UnsupportedError,
    data,
    gradient,
    istracked,
    jit,
    param,
    value_and_grad,
)
from tracker.testing import ngradient

RNG = np.random.default_rng(0)
DF = pd.DataFrame({"a": RNG.normal(size=4), "b": RNG.normal(size=4)}, index=list("wxyz"))
S, MASK, PLACES = DF["a"], DF["a"] > 0, pd.Series([1, 3, 1])
DAYS = pd.date_range("2020-01-01", periods=2)
KEYED = DF.assign(key=["x", "y", "x", "y"])
DA = xr.DataArray(S.to_numpy(), dims="time", coords={"time": np.arange(4)}, attrs={"units": "m"})
GRID = xr.DataArray(DF.to_numpy(), dims=("time", "kind"))
W4, W2 = RNG.normal(size=4), RNG.normal(size=2)


def in_place(labelled):
    def program(w):
        w = w * 1
        w += labelled
        w *= labelled
        return w**2

    return program


def stored(w):
    w = w * 2
    w[PLACES] = 0
    w[MASK] = S[MASK]
    return w**2


def grouped(w):
    total = 0
    for _, rows in KEYED.groupby("key"):
        total = total + np.sum(rows["a"] * w[0] + rows["b"].values * w[1])
    return total + KEYED.groupby("key")["a"].mean() @ w


def dated(w):
    t = (DAYS - pd.Timestamp("2020-01-01")).days
    return np.exp(-w * t) + t.to_numpy() * w


VECTOR = {  # of four numbers
    "series * t": lambda w: S * w,
    "t * series": lambda w: w * S,
    "series - t": lambda w: (S - w) ** 2,
    "t / series": lambda w: w / S,
    "series ** t": lambda w: S.abs() ** w,
    "t ** series": lambda w: abs(w) ** S,
    "series @ t": lambda w: S @ w,
    "t @ series": lambda w: w @ S,
    "series.dot": lambda w: S.dot(w),
    "t @ frame": lambda w: w @ DF,
    "series * number": lambda w: S * w[0],
    "number * series": lambda w: w[0] * S,
    "frame * number": lambda w: DF * w[0],
    "index * number": lambda w: PLACES.index * w[0],
    "array of pandas": lambda w: S.array * w,
    "nullable": lambda w: pd.Series([1.0, 2.0, 3.0, 4.0], dtype="Float64") * w,
    "ufunc": lambda w: np.add(S, w) ** 2,
    "ufunc reflected": lambda w: np.maximum(w, S),
    "np.exp(series) * t": lambda w: np.exp(S) * w,
    "np.dot": lambda w: np.dot(w, DF),
    "where": lambda w: np.where(S > 0, w, 2 * w),
    "where of two": lambda w: np.where(w > 0, S, 2 * w),
    "less": lambda w: np.where(w > S, w, 2 * w),
    "reflected less": lambda w: np.where(w < S, w, 2 * w),
    "equal": lambda w: (w == S) * w + w,
    "and": lambda w: np.where((w > 0) & MASK, w, 3 * w),
    "reflected and": lambda w: np.where(MASK & (w > 0), w, 3 * w),
    "mask": lambda w: w[MASK] ** 2,
    "pandas index": lambda w: w[pd.Index([0, 2])] ** 2,
    "series of places": lambda w: w[PLACES] ** 2,
    "nullable places": lambda w: w[pd.array([1, 2], dtype="Int64")],
    "codes": lambda w: w[pd.Series(["a", "b", "a"]).astype("category").cat.codes],
    "in place": in_place(S),
    "stored": stored,
    "concatenate": lambda w: np.concatenate([S, w]) ** 2,
    "stack": lambda w: np.stack([S, w]) ** 2,
    "interp": lambda w: np.interp(w, S.sort_values(), S),
    "rolling": lambda w: S.rolling(2).mean().dropna() * w[0],
    "number of a reduction": lambda w: w * S.mean() + S.std(),
    ".values": lambda w: (S * w).values,
    ".to_numpy()": lambda w: (w * S).to_numpy(dtype=float, copy=True),
    "data array * t": lambda w: DA * w,
    "t * data array": lambda w: w * DA,
    "data array - number": lambda w: (DA - w[0]) ** 2,
    "data array's ufunc": lambda w: np.add(DA, w) ** 2 + np.add(w, DA),
    "np.exp(data array) * t": lambda w: np.exp(DA) * w,
    "np.where(data array)": lambda w: np.where(DA > 0, w, 2 * w) + np.where(w < DA, w, 0.0),
    "data array as mask": lambda w: w[DA > 0] ** 2,
    "data array in place": in_place(DA),
    "data array's groups": lambda w: DA.groupby("time").mean().values * w,
    "data array's window": lambda w: DA.rolling(time=2).mean().dropna("time") * w[:3],
    "0-d data array": lambda w: w[0] * DA.sel(time=2) + DA.mean() * w[1],
    "variable": lambda w: DA.variable * w,
}
PAIR = {  # of two numbers
    "frame @ t": lambda w: DF @ w,
    "frame.dot": lambda w: DF.dot(w),
    "frame * t": lambda w: DF * w,
    "t * frame": lambda w: w * DF,
    "matmul": lambda w: np.matmul(DF, w),
    "einsum": lambda w: np.einsum("ij,j->", DF, w),
    "numbers @ t": lambda w: DF.to_numpy() @ w,
    "means": lambda w: DF.mean() * w,
    "row": lambda w: w * DF.loc["x"],
    "rows": lambda w: sum(np.sum(row * w) for _, row in DF.iterrows()),
    "groups": grouped,
    "dates": dated,
    "data array of two axes": lambda w: np.dot(GRID.values, w) + (GRID * w).sum(axis=1),
}
PROGRAMS = {name: (f, W4) for name, f in VECTOR.items()} | {
    name: (f, W2) for name, f in PAIR.items()
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f, w = PROGRAMS[name]

    def loss(w):
        return np.sum(np.asarray(f(w))) if type(w) is np.ndarray else np.sum(f(w))

    want = ngradient(loss, w)[0]
    (found,) = gradient(loss, w)
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, want, atol=1e-6)
    compiled = value_and_grad(jit(loss))
    for each in (w, w.copy()):
        value, slope = compiled(each)
        np.testing.assert_allclose(value, loss(w))
        np.testing.assert_allclose(slope, want, atol=1e-6)


METHODS = {  # whose defaults are others in pandas
    "std": (lambda w: (S * w).std(), W4),
    "var": (lambda w: (w - S).var(), W4),
    "of a ratio": (lambda w: (DF @ w).mean() / (DF @ w).std(), W2),
    "of a ufunc": (lambda w: np.exp(S * w).std() + np.clip(S * w, -0.5, 0.5).var(), W4),
    "of a slice": (lambda w: (S * w)[1:].std() + (S * w)[MASK.to_numpy()].var(), W4),
    "of cumulative sums": (lambda w: (S * w).cumsum().std() + np.cumsum(S * w).var(), W4),
    "np.std": (lambda w: np.std(S * w), W4),
    "of numbers": (lambda w: (S * w).values.std() + (DF.T @ w).to_numpy().std(), W4),
    "ddof": (lambda w: (S * w).std(ddof=0) + (S * w).var(ddof=2), W4),
    "of arrays": (lambda w: np.where(S > 0, S * w, w).std() + np.stack([S, w]).var() + w.std(), W4),
    "of columns": (lambda w: (DF * w).mean().max() + (DF * w).sum().std(), W2),
    "of rows": (lambda w: (DF * w).sum(axis=1).std() + (DF * w).max(axis=1).sum(), W2),
    "of transposed": (lambda w: (DF * w).T.sum().std(), W2),
    "of an array of it": (lambda w: np.asarray(S * w).std() + np.array(DF @ w[:2]).var(), W4),
    "of a product by np.dot": (lambda w: np.dot(DF * w, W2).std() + (DF * w).dot(W2).std(), W2),
    "of everything": (lambda w: np.sum(DF * w) + np.mean(DF * w) + np.dot(DF, w).std(), W2),
    "of an array's columns": (lambda w: (DF.to_numpy() * w).mean() + 1.0, W2),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_have_the_defaults_of_pandas(name):
    f, w = METHODS[name]
    want = ngradient(f, w)[0]
    for g in (f, jit(f)):
        value, slope = value_and_grad(g)(w)
        np.testing.assert_allclose(value, f(w))
        np.testing.assert_allclose(slope, want, atol=1e-6)


def test_methods_of_an_argument_have_the_defaults_of_pandas():
    np.testing.assert_allclose(
        gradient(lambda s: s.std(), S)[0], ngradient(lambda s: np.std(s, ddof=1), S.to_numpy())[0]
    )


def test_labels_that_match():
    t = param(W4)
    e, numbered = t * S, t * S.reset_index(drop=True)
    for made in (e[1:] * S[1:], e[[0, 2]] - S[[True, False, True, False]], numbered[2] * e[2]):
        assert istracked(made)
    assert istracked(np.diff(e))
    for made in (e.to_numpy()[1:] * e[:-1], e[1:] * param(W4)[1:], (t * DF.T)[:, 1:] @ DF[1:]):
        assert istracked(made)
    for made in (t * S * S, t * S - DF["b"], (t * S).values * S[::-1], t * DF.T * S, DA * t + DA):
        assert istracked(made)
    assert istracked(GRID * param(W2) * GRID[0]) and istracked(DF * param(W2) / DF.std())


def test_results_are_arrays_without_labels():
    for made in (S * param(W4), param(W4) - S, DF @ param(W2), DA * param(W4)):
        assert isinstance(made, np.ndarray) and not hasattr(made, "index")
    assert data((S.astype("f") * param(W4.astype("f"))).to_numpy()).dtype == np.float32


def test_arguments_count_as_their_arrays():
    (found,) = gradient(lambda s: np.sum(s.to_numpy() ** 2 + s.values), S)
    np.testing.assert_allclose(found, 2 * S.to_numpy() + 1)
    assert type(found) is np.ndarray


def test_plain_operands_are_left_to_pandas_and_xarray():
    gradient(np.sum, W4)  # their methods are wrapped by now
    assert S.dot(DF).index.equals(DF.columns)
    assert isinstance(DF @ W2, pd.Series) and isinstance(DA + W4, xr.DataArray)
    changed = S.copy()
    changed += 1
    pd.testing.assert_series_equal(changed, S + 1)


COUNTED, RANKED = S.reset_index(drop=True), S.set_axis([2, 1, 3, 5])
PAIRS = DF.set_axis(pd.MultiIndex.from_product([[0, 1, 2, 3], ["n"]]))
SORTS, BINS = pd.CategoricalIndex([1, 2]), pd.IntervalIndex.from_breaks([0, 1, 2, 3])


def with_item(labelled, key):
    labelled = labelled.copy()
    labelled[key] = 7.0
    return labelled.sum()


def with_place(labelled, key):
    labelled = labelled.copy()
    labelled.iloc[key] = 7.0
    return labelled.sum()


LOOKED_UP = {
    "item": lambda x, n: x * COUNTED[n] + x * RANKED[n],
    "label": lambda x, n: x * COUNTED.loc[n] * RANKED.loc[n],
    "labels": lambda x, n: x * COUNTED.loc[[n, 0]].sum(),
    "place": lambda x, n: x * S.iloc[n] + x * DF.iloc[n, 0] + x * DF.iloc[0, n % 2],
    "scalar": lambda x, n: x * COUNTED.at[n] + x * S.iat[n],
    "a label that may be missing": lambda x, n: x * COUNTED.get(n + 1, 0.5),
    "in": lambda x, n: x * (n in BINS) + 2 * (n in SORTS) + 3 * (n + 2 in COUNTED),
    "in the index": lambda x, n: x if n + 2 in COUNTED.index else -x,
    "location": lambda x, n: x * COUNTED.index.get_loc(n) + BINS.get_loc(n),
    "two labels": lambda x, n: x * PAIRS.loc[(n, "n"), "a"] + ((n, "n") in PAIRS.index),
    "computed": lambda x, n: x * COUNTED[n - 1] + RANKED[1 + n % 2],
    "stored": lambda x, n: x * with_item(COUNTED, n) + with_place(S, n),
}


@pytest.mark.parametrize("name", LOOKED_UP)
def test_integers_that_are_arguments_look_up(name):
    f = LOOKED_UP[name]
    made = [jit(f), lambda x, n: value_and_grad(f)(x, n)[0], value_and_grad(jit(f))]
    for n in (1, 2, 3, 1):
        both = [made[0](2.0, n), made[1](2.0, n), made[2](2.0, n)[0], gradient(f, 2.0, n)]
        np.testing.assert_allclose(both[:3], f(2.0, n))
        np.testing.assert_allclose(both[3][0], f(3.0, n) - f(2.0, n))
    assert made[0].cache_info().eager == 0


@pytest.mark.parametrize("name", LOOKED_UP)
def test_captured_integers_look_up(name):
    number = 1
    fast = jit(lambda x: LOOKED_UP[name](x, number))
    for number in (1, 2, 3, 1):
        np.testing.assert_allclose(fast(2.0), LOOKED_UP[name](2.0, number))


def neighbours(e):
    return e[1:] * e[:-1]


def by_label(e):
    return e[1] + e[2]


OTHER = DA.rename(time="x")
ORDERED = S.set_axis([1, 2, 3, 4])


def add_in_place(labelled):
    labelled = labelled.copy()
    labelled += param(W4)


test_refused = refused(
    {
        ConversionError: {
            "multiply of a Series and a tracked array with other": lambda: param(W4) * S * S[::-1],
            r"other labels, which .*x\.to_numpy": lambda: S[::-1] - np.exp(S * param(W4)),
            "of a DataFrame and a tracked": lambda: DF.mean() * param(W2) - DF[["b", "a"]],
            "multiply of two tracked arrays with other": lambda: neighbours(S * param(W4)),
            r"of two .* by label\. Align": lambda: gradient(lambda s: np.sum(s[::-1] - s), S),
            "add of two tracked arrays": lambda: param(W4) * S + np.exp(S[::-1]) * param(W4),
            "of two tracked arrays with": lambda: DA * param(W4) - OTHER * param(W4),
            "subtract of a Series and": lambda: (param(W4) * S)[1:] - S[:-1],
            r"x\[1\] of .* Use x\.to_numpy": lambda: by_label(ORDERED * param(W4)),
            "divide of a DataArray and": lambda: DA.rename(time="x") / (DA * param(W4)),
            r"store a tracked value into a Series\. Use x = x \+ t": lambda: add_in_place(S),
            r"into a DataArray\. Use x = x \+ t .*test_labelled": lambda: add_in_place(DA),
            r"pandas.Series.mul would .* Use operators: .*test_labelled": lambda: S.mul(param(W4)),
            r"pandas.DataFrame would .* Use operators": lambda: pd.DataFrame({"c": param(W4)}),
        },
        UnsupportedError: {
            "got a Series beside a tracked value": lambda: KEYED["key"] * param(W4),
            r"got a Series beside .*test_labelled": lambda: param(W4) * pd.Series(param(W4)),
        },
        IndexError: {"valid indices, not Series": lambda: param(W4)[KEYED["key"]]},
        AttributeError: {"attribute 'to_numpy' of 'float'": lambda: param(1.0).to_numpy()},
    }
)
