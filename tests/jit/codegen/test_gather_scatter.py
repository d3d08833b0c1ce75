"""Reading and writing by arrays, compiled: NumPy's elements, NumPy's errors, no host call."""

import re

import numpy as np
import pytest
from compiled import agree
from equality import assert_same
from hypothesis import given
from hypothesis import strategies as st

import tracker as tr
from tracker import gradient, jit

SHAPES = [(5,), (40,), (3, 4), (7, 30), (2, 3, 2), (4, 5, 6)]


@st.composite
def indices(draw, shape):
    """An index with at least one array in it that suits the shape."""
    batch = draw(st.sampled_from([(3,), (1,), (2, 2), (50,), ()]))
    parts, at = [], 0
    arrays = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    while at < len(shape):
        n = shape[at]
        if draw(st.integers(0, 5)) == 0:
            parts.append(None)
        if draw(st.integers(0, 5)) == 0 and ... not in [p for p in parts if p is ...]:
            parts.append(...)
        if at in arrays:
            kind = draw(st.sampled_from(["array", "array", "list", "mask", "narrow"]))
            if kind == "mask":
                mask = np.zeros(n, bool)
                count = int(np.prod(batch)) if len(batch) == 1 else 1
                mask[rng.permutation(n)[: min(count, n)]] = True
                parts.append(mask if int(mask.sum()) in (1, *batch) else np.array(0))
            else:
                own = batch if draw(st.booleans()) else batch[1:]
                array = rng.integers(-n, n, own)
                parts.append(array.astype(np.int8) if kind == "narrow" else array)
                if kind == "list":
                    parts[-1] = array.tolist()
        else:
            start, stop = sorted(rng.integers(-n, n + 1, 2).tolist())
            parts.append(draw(st.sampled_from([slice(None), slice(start, stop), rng.integers(n)])))
        at += 1
    return tuple(parts)


@st.composite
def readings(draw):
    shape = draw(st.sampled_from(SHAPES))
    x = np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape)
    key = draw(indices(shape))
    try:
        x[key]
    except IndexError:  # arrays that do not broadcast
        key = (np.array([0, -1, 0]),)
    return x, key


def is_native(compiled, *arguments):
    return "host:" not in compiled.explain(*arguments)


@given(reading=readings())
def test_any_index(reading):
    x, key = reading
    arrays = [part for part in key if isinstance(part, np.ndarray)]

    def filled(given_):
        rest = iter(given_)
        return tuple(next(rest) if isinstance(part, np.ndarray) else part for part in key)

    def f(x, *given_):
        return np.sin(x[filled(given_)] * 2.0) + 1.0

    def loss(x, *given_):
        return np.sum(np.square(f(x, *given_)))

    def writes(x, *given_):
        y = 2.0 * x
        y[filled(given_)] = x[filled(given_)] + 1.0
        np.add.at(y, filled(given_), 0.5)
        return y

    for function in (f, writes):
        compiled = agree(function, x, *arrays)
        assert is_native(compiled, x, *arrays)
    slopes = jit(lambda x, *given_: gradient(loss, x, *given_)[0])
    written = jit(lambda x: gradient(lambda x: np.sum(np.sin(writes(x, *arrays))), x)[0])
    for _ in range(2):
        assert_same(slopes(x, *arrays), gradient(loss, x, *arrays)[0], "gradient", 1e-11)
        want = gradient(lambda x: np.sum(np.sin(writes(x, *arrays))), x)[0]
        assert_same(written(x), want, "gradient of writes", 1e-11)
    assert is_native(slopes, x, *arrays)
    assert is_native(written, x)


@pytest.mark.parametrize("n", [10, 1000])
def test_an_index_out_of_range_raises_as_numpy_does(n):
    f = jit(lambda x, i: x[i] * 2.0)
    x = np.arange(float(n))
    assert_same(f(x, np.array([1, -n])), x[[1, -n]] * 2.0)
    assert_same(f(x, np.array([2, 1 - n])), x[[2, 1 - n]] * 2.0)
    for wrong in (n, -n - 1):
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 0"):
            f(x, np.array([0, wrong]))
    with pytest.raises(IndexError):
        gradient(lambda x, i: np.sum(f(x, i)), x, np.array([0, n]))
    assert f.cache_info().traces == 1


def test_unused_gathers_are_checked():
    f = jit(lambda x, i: x[i][:2])
    x = np.arange(100.0)
    f(x, np.array([1, 2, 3]))
    with pytest.raises(IndexError):
        f(x, np.array([1, 2, 100]))


def test_writing_out_of_range_leaves_the_array_alone():
    def f(x, i):
        x[i] = 1.0
        return np.sum(x)

    compiled = jit(f)
    compiled(np.zeros(50), np.array([3, 4]))
    x = np.zeros(50)
    with pytest.raises(IndexError):
        compiled(x, np.array([3, 50]))
    assert not x.any()


def test_captured_indices_are_read_at_every_call():
    i, mask = np.array([0, 1]), np.array([True, False, True, False])

    @jit
    def f(x):
        return x[i], x[mask]

    x = np.arange(4.0)
    f(x)
    i[:] = [3, -2]
    mask[:] = [False, True, True, False]
    assert_same(f(x), (np.array([3.0, 2.0]), np.array([1.0, 2.0])))
    mask[0] = True  # another shape: another trace
    assert_same(f(x)[1], np.array([0.0, 1.0, 2.0]))
    i[0] = 4
    with pytest.raises(IndexError):
        f(x)


def test_sums_at_repeated_positions_are_reproducible():
    rng = np.random.default_rng(0)
    i, g = rng.integers(0, 50, 20_000), rng.normal(size=20_000)

    @jit
    def f(i, g):
        y = np.zeros(50, like=g)
        np.add.at(y, i, g)
        return y

    want = np.zeros(50)
    np.add.at(want, i, g)
    f(i, g)
    for _ in range(3):
        assert (f(i, g) == want).all()


def test_the_last_of_several_writes_wins():
    def f(x, v, i):
        x = x * 1.0
        x[i] = v
        return x

    rng = np.random.default_rng(0)
    x, v, i = rng.normal(size=100), rng.normal(size=500), rng.integers(-100, 100, 500)
    compiled = agree(f, x, v, i)
    agree(lambda *a: tr.gradient(lambda x, v, i: np.sum(f(x, v, i) ** 2), *a)[:2], x, v, i)
    assert is_native(compiled, x, v, i)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64])
def test_narrow_and_unsigned_indices(kind):
    x, i = np.arange(300.0), np.array([3, 100, 7], kind)
    f = agree(lambda x, i: x[i], x, i)
    assert is_native(f, x, i)


def test_a_mask_of_several_axes_and_of_rows():
    def f(x):
        y = x * 2.0
        y[x > 0.5] = 0.25
        return np.sum(x[x > 0.0]) + np.sum(y[x[:, 0] > 0.0])

    x = np.random.default_rng(0).normal(size=(30, 4))
    compiled = agree(f, x)
    slopes = agree(lambda x: gradient(f, x)[0], x)
    assert is_native(compiled, x)
    assert is_native(slopes, x)


def test_computed_positions_are_used_as_indices():
    def f(x):
        rows, columns = np.nonzero(x > 0.5)
        (few,) = np.where(x[:, 0] > 0.0)
        return np.sum(x[rows, columns]) + np.sum(x[few] * x[np.flatnonzero(x[:, 1] < 0.0)][:1])

    x = np.random.default_rng(0).normal(size=(30, 4))
    compiled = agree(f, x, others=[(x[::-1].copy(),), (x[:, [0, 1, 3, 2]].copy(),)])
    agree(lambda x: gradient(f, x)[0], x, others=[(x[::-1].copy(),), (x[:, [0, 1, 3, 2]].copy(),)])
    assert compiled.cache_info().traces == 1
    assert is_native(compiled, x)


@pytest.mark.parametrize("n", [6, 60])
def test_a_traced_integer_is_a_position_and_not_a_constant(n):
    def f(x, i):
        return x[i] * x[i - 1, 1] + np.sum(x[:, i % 3])

    compiled = jit(f)
    slopes = jit(lambda x, i: gradient(lambda x: np.sum(f(x, i)), x)[0])
    x = np.random.default_rng(0).normal(size=(n, 3))
    for i in range(-n + 1, n):
        assert_same(compiled(x, i), f(x, i))
        assert_same(slopes(x, i), gradient(lambda x, i=i: np.sum(f(x, i)), x)[0])
    assert compiled.cache_info().traces == slopes.cache_info().traces == 1
    assert is_native(slopes, x, 1)
    with pytest.raises(IndexError, match=f"index {n} is out of bounds for axis 0 with size {n}"):
        compiled(x, n)


@pytest.mark.parametrize("n", [5, 50])
def test_a_slice_by_a_traced_integer_is_a_view(n):
    def f(x, i):
        y = 2.0 * x
        row = y[i]
        row[:2] = x[0, 0]
        row *= 3.0
        y[i, 2] = 1.0
        view = y[:, i % 3]
        y += 1.0
        return y, row, view * x[i, 0]

    def loss(x, i):
        return sum(np.sum(np.sin(part)) for part in f(x, i))

    x = np.random.default_rng(0).normal(size=(n, 3))
    compiled = agree(f, x, 1, others=[(x, -1), (x, n - 2), (x, 0)])
    agree(lambda x, i: gradient(loss, x, i)[0], x, 1, others=[(x, -1), (x, n - 2), (x, 0)])
    assert compiled.cache_info().traces == 1


def test_a_flag_as_an_index_is_a_guard():
    agree(lambda x: x[x[0] > 0.0], np.ones(3), others=[(-np.ones(3),), (np.ones(3),)])


def test_a_gathered_value_is_stored_before_the_next_gather():
    """Each step reads the one before in two ways: recomputed for both, two steps would be four."""

    def f(x, i):
        for shift in (1, 2, 3, 4):
            x = x[i] * 0.9 + np.roll(x, shift)
        return x

    rng = np.random.default_rng(0)
    x, i = rng.normal(size=50_000), rng.permutation(50_000)
    fast = agree(f, x, i, tolerance=1e-13)
    loops = re.findall(r"kernel over 50000, level \d+: \d+ fused \(([^)]*)\)", fast.explain(x, i))
    assert sum(loop.count("taken") for loop in loops) == 4
    assert len([loop for loop in loops if "taken" in loop]) == 4


def test_a_literal_position_is_one_of_a_slice():
    """What a loop over rows writes beside its moving subscripts needs no scatter."""

    def f(u, edge):
        u = u.copy()
        for step in range(len(edge)):
            u[0, :] = edge[step]
            u[-1, 1:] += u[-2, :-1] * edge[step]
            u[1:, :] -= 0.5 * (u[1:, :] - u[:-1, :])
        return np.sum(u * u)

    u, edge = np.random.default_rng(0).normal(size=(7, 5)), np.linspace(0.1, 1.0, 40)
    compiled = jit(lambda u, edge: gradient(f, u, edge))
    agree(lambda u, edge: gradient(f, u, edge), u, edge)
    compiled(u, edge)
    ir = str(compiled.ir(u, edge))
    assert "loop 40" in ir and "scattered " not in ir and "taken" not in ir
