"""How results lie in memory: as the plain function's do, in whatever order its arguments lie."""

import numpy as np
import pytest

import tracker
import tracker.numpy as tnp

RNG = np.random.default_rng(4)


def order_of(x):
    """Strides (an axis of extent 1 may have any) and flags."""
    wide = tuple(stride for stride, n in zip(x.strides, x.shape, strict=True) if n != 1)
    return wide, x.flags.c_contiguous, x.flags.f_contiguous


def assert_same(got, want):
    """Equal numbers, dtypes, and places in memory, leaf by leaf."""
    found = {name: (order_of(got[name]), got[name].dtype) for name in want}
    assert found == {name: (order_of(x), x.dtype) for name, x in want.items()}
    for name, x in want.items():
        np.testing.assert_allclose(got[name], x, rtol=1e-12, atol=1e-12, err_msg=name)


def elementwise(x):
    return {
        "exp": np.exp(x),
        "sum": x + 1,
        "condition": x > 0.5,
        "where": np.where(x > 0.5, x, 0.0),
        "row by row": x + x[0],
        "complex": x * 1j,
        "integers": np.floor(3 * x).astype(int),
        "copy": x.copy(),
        "copy K": x.T.copy("K"),
        "shifted": np.exp(x[1:]),
        "backwards": np.exp(x[::-1]),
        "transposed": np.sin(x).T,
    }


def shaping(x):
    return {
        "joined": np.concatenate([x, x]),
        "side by side": np.concatenate([x, 2 * x], axis=1),
        "stacked": np.stack([x, -x]),
        "padded": np.pad(x, 1),
        "deleted": np.delete(x, 0, axis=0),
        "rerolled": np.roll(x, 1, axis=1),
        "repeated": np.repeat(x, 2, axis=0),
        "columns": x[:, [0, 2, 1]],
        "rows": x[[1, 0]],
        "triangle": np.triu(x),
        "ravel K": (x * 2).ravel("K"),
        "ravel A": (x * 2).ravel("A"),
        "reshaped": x.reshape(-1, x.shape[0]) * 1.0,
    }


def folding(x):
    return {
        "columns": x.sum(axis=0),
        "rows": x.sum(axis=1),
        "kept": x.max(axis=-1, keepdims=True),
        "running": np.cumsum(x, axis=0),
        "sorted": np.sort(x, axis=0),
        "positions": np.argsort(x, axis=0),
        "logarithms": np.logaddexp.accumulate(x, axis=1),
        "pieces of columns": np.add.reduceat(x, [0, 2], axis=0),
        "pieces of rows": np.add.reduceat(x, [2, 0, 1], axis=1),
        "quantiles": np.nanquantile(x, [0.2, 0.7, 0.8], axis=1),
        "kept quantiles": np.nanpercentile(x, [[20], [70]], axis=0, keepdims=True),
        "outer": np.multiply.outer(x, x[0]),
        "product": np.tensordot(x, x, axes=([0], [0])),
        "deviations": x - x.mean(axis=1, keepdims=True),
    }


def writing(x):
    put = x * 1.0
    put[0] = 3.0
    added = x.copy("K")
    added += x
    scattered = np.exp(x)
    scattered[[1, 0, 1]] += 1.0
    return {"put": put, "added": added, "scattered": scattered}


def matrices(x):
    some = x[..., :3, :3]
    positive = some @ some.mT + np.eye(3)
    return {
        "factor": np.linalg.cholesky(positive),
        "upper factor": np.linalg.cholesky(positive, upper=True),
        "upper complex factor": np.linalg.cholesky(positive + 0j, upper=True),
        "inverse": np.linalg.inv(positive),
        "power 0": np.linalg.matrix_power(some, 0),
        "power 3": np.linalg.matrix_power(some, 3),
    }


def asked_for(x):
    """What takes a memory order as an argument, or makes an array after another one."""
    a, b = np.zeros_like(x), np.full_like(x, 2.0)
    a[1:] = x[1:]
    b += x
    return {
        **{f"copy {o}": x.copy(o) for o in "CFAK"},
        **{f"np.copy {o}": np.copy(x, o) for o in "CFAK"},
        **{f"np.array {o}": tnp.array(x, order=o) for o in "CFAK"},
        **{f"asarray {o}": tnp.asarray(x * 1.0, order=o) for o in "CFAK"},
        **{f"astype {o}": x.astype(np.float32, o) for o in "CFAK"},
        **{f"as it was {o}": x.astype(x.dtype, o) for o in "CFAK"},
        **{f"exp {o}": np.exp(x, order=o) for o in "CFAK"},
        **{f"add {o}": np.add(x, 1.0, order=o) for o in "CFAK"},
        **{f"parts {o}": np.modf(x, order=o)[0] for o in "CFAK"},
        **{f"like {o}": np.ones_like(x, order=o) for o in "CFAK"},
        **{f"empty {o}": tnp.full(x.shape, x[0], order=o) for o in "CF"},
        "filled": a,
        "full": b,
        "zeros": tnp.zeros(x.shape, order="F") + x,
        "reshaped": x.reshape(-1, x.shape[0], order="F") * 1.0,
        "ascontiguousarray": tnp.ascontiguousarray(x * 1.0),
        "asfortranarray": tnp.asfortranarray(x * 1.0),
        "require": tnp.require(x * 1.0, requirements="F"),
        "select": np.select([x > 0.5, x > 0.2], [x, 2 * x], 0.0),
        "choose": np.choose((x > 0.5).astype(int), [x, -x]),
        "piecewise": np.piecewise(x, [x > 0.5], [lambda t: 2 * t, lambda t: t]),
        "rounded": np.round(x, 1),
        "slopes": np.gradient(x, axis=0),
        "einsum": np.einsum("ij...,ij...->ij...", x, x, order="F"),
    }


LAYOUTS = {
    "C": lambda *n: RNG.random(n),
    "Fortran": lambda *n: np.asfortranarray(RNG.random(n)),
    "every second": lambda *n: np.asfortranarray(RNG.random([2 * m for m in n]))[
        tuple(slice(None, None, 2) for _ in n)
    ],
    "backwards": lambda *n: np.asfortranarray(RNG.random(n))[::-1],
    "turned": lambda a, *n: np.moveaxis(RNG.random((*n, a)), -1, 0),
}


@pytest.mark.parametrize("shape", [(4, 3), (7, 9), (4, 3, 5)], ids=str)
@pytest.mark.parametrize("f", [elementwise, shaping, folding, writing, matrices, asked_for])
def test_results_have_the_plain_functions_memory_order(f, shape):
    compiled = tracker.jit(f)
    for make in (*LAYOUTS.values(), *LAYOUTS.values()):
        x = make(*shape)
        assert_same(compiled(x), f(x))


@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS)
def test_eager_results_have_numpys_memory_order(make):
    x = make(4, 3)
    for f in (elementwise, shaping, folding, writing, matrices, asked_for):

        def loss(x, f=f):
            made = f(x)
            assert_same({name: tracker.data(y) for name, y in made.items()}, f(tracker.data(x)))
            return np.sum(made[next(iter(made))])

        tracker.gradient(loss, x)


def test_an_unknown_memory_order_is_refused_as_numpy_does():
    for f in (lambda x: x.copy("Q"), lambda x: np.exp(x, order="Q"), lambda x: x.astype(int, "Q")):
        with pytest.raises(ValueError, match="order must be one of 'C', 'F', 'A', or 'K'"):
            tracker.gradient(lambda x, f=f: np.sum(f(x)), np.ones((2, 2)))


def large(x):
    return {"map": np.sin(x) * x, "fold": x.sum(axis=0), "turned": x.T * 2.0, "mask": x > 0.5}


def twice(x):
    y = np.exp(x)
    return {"same": y, "turned": y.T, "F": y.copy("F"), "C": y.copy("C")}


def host(x):
    spectrum = np.fft.fft(x, axis=0)
    return {"host": spectrum, "after": np.abs(spectrum), "before": x * 2.0}


@pytest.mark.parametrize(
    "f, shape", [(elementwise, (4, 1, 5)), (large, (600, 700)), (twice, (9, 5)), (host, (8, 12))]
)
def test_results_of_other_kinds_have_the_plain_functions_memory_order(f, shape):
    """Axes of one element, large arrays, one value in two orders, parts that NumPy computes."""
    compiled, x = tracker.jit(f), RNG.random(shape)
    others = [np.moveaxis(RNG.random((50, 60, 200)), 0, 1)] if f is large else []
    for y in (x, np.asfortranarray(x), *others):
        for _ in range(3):
            assert_same(compiled(y), f(y))


def test_gradients_have_the_eager_memory_order():
    def f(x, w):
        return np.sum(np.sin(x @ w) ** 2) + np.sum(x**3)

    x, w = np.asfortranarray(RNG.random((40, 6))), RNG.random((8, 6)).T
    for arguments in ((x, w), (x.copy("C"), w), (x, w.copy("C"))):
        compiled = tracker.jit(lambda *xs: tracker.gradient(f, *xs))
        want = dict(enumerate(tracker.gradient(f, *arguments)))
        for _ in range(3):
            assert_same(dict(enumerate(compiled(*arguments))), want)


def test_writes_into_arguments_of_any_order():
    @tracker.jit
    def f(x, y):
        y[...] = x * 2.0
        y[0] += 1.0

    for x in (RNG.random((7, 9)), np.asfortranarray(RNG.random((7, 9)))):
        for room in (np.zeros((7, 9)), np.zeros((9, 7)).T, np.zeros((14, 9))[::2]):
            for _ in range(3):
                room[...] = 0.0
                f(x, room)
                np.testing.assert_array_equal(room, x * 2.0 + np.eye(7, 1))


def test_a_view_of_what_was_computed_keeps_the_order_of_its_axes():
    def f(x):
        y = np.exp(x)
        return y[::2, 1:], y[::-1], np.broadcast_to(y[0], y.shape)

    compiled = tracker.jit(f)
    for x in (RNG.random((8, 9)), np.asfortranarray(RNG.random((8, 9)))):
        for _ in range(3):
            for got, want in zip(compiled(x), f(x), strict=True):
                assert order_of(got) == order_of(want.copy("K"))
                np.testing.assert_allclose(got, want, rtol=1e-15)


def test_a_value_that_is_two_results_is_written_twice_by_the_loop_that_computes_it():
    slope = tracker.value_and_grad(lambda x, y: np.sum(np.sin(x + y)), (0, 1))
    fast = tracker.jit(slope, strict=True)
    x, y = RNG.normal(size=(2, 40, 50))
    for _ in range(2):
        _, (a, b) = fast(x, y)
        np.testing.assert_allclose(a, np.cos(x + y), rtol=1e-12)
        np.testing.assert_array_equal(a, b)
        assert not np.may_share_memory(a, b)
    assert "1 kernel(s)" in fast.explain(x, y)
