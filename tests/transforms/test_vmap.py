"""vmap: what calling the function on each row and stacking gives; with derivatives and jit."""

import random
import sys

import numpy as np
import pytest
from scipy.stats import gamma, norm

import tracker
import tracker.numpy as tnp
from tracker import UnsupportedError, cond, gradient, hessian, jit, scan, vmap, while_loop

RNG = np.random.default_rng(3)


def by_row(f, *args):
    found = [f(*(a[i] for a in args)) for i in range(len(args[0]))]
    return tracker.tree.map(lambda *rows: np.stack(rows), *found)


def branching(x):
    if np.sum(x) > 0:
        return np.sin(x) if x[0] > 0 else np.cos(x) * 2.0
    return np.sqrt(np.maximum(x, 0.0)) - x


def looping(x):
    n = 0
    while np.sum(x**2) > 1.0:
        x = x * 0.5
        n += 1
    return x * n


def writing(x):
    y = np.zeros_like(x)
    for i in range(len(x)):
        y[i] = x[i] * y[i - 1] + x[-i - 1]
    x[0] = 7.0
    return y + x


X = RNG.normal(size=(6, 4))
FUNCTIONS = {
    "plain": lambda x: np.exp(-x) @ np.outer(x, x) + np.mean(x, keepdims=True),
    "scalar": lambda x: np.linalg.norm(x) * np.prod(x),
    "branching": branching,
    "looping": looping,
    "writing": writing,
    "scanning": lambda x: scan(lambda c, v: (np.tanh(c * v + x[0]), c), 0.3, x),
    "reaching": lambda x: x[np.argmax(x)] + x[np.array([0, 1, 0])] @ np.arange(3.0),
    "sorting": lambda x: np.sort(x) * np.cumsum(x),
    "quantiles": lambda x: np.quantile(x, np.abs(np.sin(x[:2]))) * np.median(x) * x[0],
    "matrices": lambda x: np.linalg.solve(np.outer(x, x) + 3 * np.eye(4), x),
    "shapes": lambda x: np.reshape(x, (2, 2)).T[None, ::-1] + np.stack([x[:2], x[2:]], axis=1),
    "selecting": lambda x: np.sum(x[x > 0.1] ** 2) * x,
    "nothing of it": lambda x: np.arange(3.0),
    "structure": lambda x: {"a": x[0], "b": (x[1:], np.sum(x))},
}


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_vmap_is_a_stack_of_calls(f):
    want = by_row(f, X.copy())
    for mapped in (vmap(f), jit(vmap(f)), vmap(jit(f))):
        for _ in range(2):
            found = mapped(X)
            for a, b in zip(tracker.tree.leaves(found), tracker.tree.leaves(want), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def total(y):
    parts = [np.sum(np.cos(leaf)) for leaf in tracker.tree.leaves(y)]
    return sum(parts[1:], parts[0])


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "nothing of it"])
def test_derivatives(name):
    f = FUNCTIONS[name]
    want = np.stack([gradient(lambda x: total(f(x)), x.copy())[0] for x in X])
    ways = {
        "gradient of vmap": lambda: gradient(lambda x: total(vmap(f)(x)), X)[0],
        "vmap of gradient": lambda: vmap(lambda x: gradient(lambda x: total(f(x)), x)[0])(X),
        "jit of gradient of vmap": lambda: gradient(jit(lambda x: total(vmap(f)(x))), X)[0],
        "jit of vmap of gradient": lambda: jit(
            vmap(lambda x: gradient(lambda x: total(f(x)), x)[0])
        )(X),
    }
    for way, call in ways.items():
        np.testing.assert_allclose(call(), want, rtol=1e-9, atol=1e-11, err_msg=way)
    tangent = np.cos(np.arange(X.size)).reshape(X.shape)
    _, t = tracker.jvp(lambda x: total(vmap(f)(x)), (X,), (tangent,))
    np.testing.assert_allclose(t, np.sum(want * tangent), rtol=1e-9)


PRODUCTS = [  # of one row: the shapes of both factors
    ((3,), (3,)), ((5, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 2)), ((20, 30), (30,)),
    ((20, 30), (30, 3)), ((20, 30), (30, 12)), ((1, 300), (300, 1)), ((2, 20, 30), (30, 3)),
    ((20, 30), (2, 30, 3)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.complex128], ids=["real", "complex"])
@pytest.mark.parametrize("shapes", PRODUCTS, ids=str)
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)], ids=str)
def test_products(shapes, axes, dtype):
    """Factors that all rows share, and factors of each row; with derivatives."""
    count = 3
    factors = []
    for shape, axis in zip(shapes, axes, strict=True):
        full = shape if axis is None else (count, *shape)
        factor = RNG.normal(size=full)
        factors.append(factor * np.exp(1j * factor) if dtype is np.complex128 else factor)

    def by_row(a, b):
        rows = [
            np.matmul(*(f if axis is None else f[i] for f, axis in zip((a, b), axes, strict=True)))
            for i in range(count)
        ]
        return np.stack(rows)

    mapped = vmap(np.matmul, axes)
    want = by_row(*factors)
    for call in mapped, jit(mapped):
        for _ in range(2):
            np.testing.assert_allclose(call(*factors), want, rtol=1e-12, atol=1e-12)
    weight = RNG.normal(size=want.shape)
    loss = lambda f: lambda a, b: np.sum(weight * np.abs(f(a, b)) ** 2)  # noqa: E731
    wanted = gradient(loss(by_row), *factors)
    for found in gradient(loss(mapped), *factors), jit(gradient)(loss(mapped), *factors):
        for slope, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(slope, other, rtol=1e-11, atol=1e-11)


def test_axes():
    a, b = RNG.normal(size=(3, 5)), RNG.normal(size=(5, 2))
    np.testing.assert_allclose(vmap(vmap(np.dot, (None, 1)), (0, None))(a, b), a @ b)
    np.testing.assert_allclose(vmap(lambda x: x * 2, in_axes=1, out_axes=1)(a), a * 2)
    np.testing.assert_allclose(vmap(lambda x: x * 2, in_axes=-1)(a), (a * 2).T)
    tree = vmap(lambda d, c: {"s": d["x"] @ d["w"] + c}, in_axes=({"x": 0, "w": None}, None))
    found = tree({"x": a, "w": b}, 2.0)
    np.testing.assert_allclose(found["s"], a @ b + 2)
    shared = vmap(lambda x, w: (x + 1.0, w * 2.0), (0, None), out_axes=(0, None))(a, b)
    assert shared[1].shape == b.shape
    np.testing.assert_allclose(
        vmap(lambda x, k: x * k)(a, k=np.arange(3.0)), a * np.arange(3.0)[:, None]
    )


PASSING_ON = {
    "cond": lambda x, w: cond(x < 3, lambda x, w: (x * 2, w), lambda x, w: (x * 3, w), x, w),
    "switch": lambda x, w: tracker.switch(
        np.astype(x, int), [lambda x, w: (np.sin(x), w), lambda x, w: (-x, w)], x, w
    ),
    "while": lambda x, w: while_loop(
        lambda c: c[0] < x, lambda c: (c[0] + np.sum(c[1]), c[1]), (0.0, w)
    ),
    "loop, branching": lambda x, w: scan(
        lambda c, r: ((cond(c[0] > 0, np.sin, np.cos, c[0]) * r, c[1]), None), (x, w), np.ones(5)
    )[0],
    "loop, as often as the row says": lambda x, w: tracker.fori_loop(
        0, np.astype(x, int), lambda i, c: (c[0] * np.sum(c[1]), c[1]), (1.0, w)
    ),
}


@pytest.mark.parametrize("f", PASSING_ON.values(), ids=PASSING_ON)
def test_shared_operands_of_control_flow_stay_shared(f):
    xs, w = np.array([-1.0, 0.0, 4.0, 2.0]), np.array([3.0, 4.0])
    wanted = np.stack([f(x, w)[0] for x in xs])
    for mapped in (
        vmap(f, (0, None), out_axes=(0, None)),
        vmap(jit(f), (0, None), out_axes=(0, None)),
        jit(vmap(f, (0, None), out_axes=(0, None))),
    ):
        y, same = mapped(xs, w)
        np.testing.assert_allclose(y, wanted, rtol=1e-13)
        np.testing.assert_array_equal(same, w)


def test_nested_derivatives_of_every_row():
    f = lambda x: np.sum(np.sin(x) * x[0])  # noqa: E731
    want = np.stack([hessian(f, x) for x in X])
    np.testing.assert_allclose(vmap(lambda x: hessian(f, x))(X), want, rtol=1e-12)
    np.testing.assert_allclose(jit(vmap(lambda x: hessian(f, x)))(X), want, rtol=1e-12)
    values, grads = vmap(tracker.value_and_grad(f))(X)
    np.testing.assert_allclose(values, by_row(f, X))
    np.testing.assert_allclose(grads, by_row(lambda x: gradient(f, x)[0], X))


def test_captured_values_are_differentiated():
    w = RNG.normal(size=4)
    g = gradient(lambda w: np.sum(vmap(lambda x: np.tanh(w @ x))(X)), w)[0]
    want = gradient(lambda w: np.sum(np.tanh(X @ w)), w)[0]
    np.testing.assert_allclose(g, want)


def test_untraceable_functions_are_called_row_by_row():
    seen = []

    def f(x):
        seen.append(float(np.asarray(tracker.data(x)).sum()))
        return x * len(seen[-1:])

    np.testing.assert_allclose(vmap(f)(X), X)
    out = np.zeros(6)

    def outside(x, i):
        out[int(i)] = np.sum(x)
        return x

    vmap(outside)(X, np.arange(6))
    np.testing.assert_allclose(out, X.sum(1))


class Drawing:
    """What a function draws or changes at one row, the next one finds."""

    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.n, self.last, self.seen, self.left = 0, None, [], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        self.steps = iter(range(10))

    def draws(self, x):
        return x + self.rng.normal(size=2)

    def draws_globally(self, x):
        return x * np.random.normal() + random.random()

    def counts(self, x):
        self.n += 1
        return x * self.n

    def remembers(self, x):
        self.last, y = x + 1.0, x if self.last is None else self.last
        return y

    def appends(self, x):
        self.seen.append(np.sum(x))
        return x * len(self.seen)

    def takes(self, x):
        return x * self.left.pop()

    def goes_on(self, x):
        return x * next(self.steps)

    def is_given_the_generator(self, x):
        return vmap(lambda x, rng: x * rng.uniform(), (0, None))(x[None], self.rng)[0]

    @property
    def shown(self):
        return self.n, self.last, self.seen, self.left, self.rng.bit_generator.state


@pytest.mark.parametrize("name", [n for n in vars(Drawing) if n[0] != "_" and n != "shown"])
@pytest.mark.parametrize("kind", [vmap, lambda f: jit(vmap(f)), lambda f: vmap(jit(f))])
@pytest.mark.filterwarnings("ignore:.* runs in plain Python")
def test_side_effects_of_a_row_reach_the_next_row(name, kind):
    x = np.arange(12.0).reshape(6, 2)
    one, other = Drawing(), Drawing()
    np.random.seed(1)
    random.seed(1)
    want = by_row(getattr(one, name), x)
    np.random.seed(1)
    random.seed(1)
    np.testing.assert_allclose(kind(getattr(other, name))(x), want)
    assert repr(other.shown) == repr(one.shown)


def test_integers_and_masks():
    labels = np.array([2, 0, 3, 1, 1, 0])
    np.testing.assert_array_equal(vmap(lambda x, i: x[i])(X, labels), X[np.arange(6), labels])
    np.testing.assert_array_equal(vmap(lambda i: X[i])(labels), X[labels])
    np.testing.assert_allclose(
        vmap(lambda x: np.sum(np.where(x > 0, x, 0.0)))(X), np.where(X > 0, X, 0).sum(1)
    )
    np.testing.assert_allclose(vmap(lambda x: np.sum(x[x > 0]))(np.abs(X)), np.abs(X).sum(1))


def _grows(x):
    return while_loop(lambda s: np.sum(s) < 4.0, lambda s: np.append(s, x), np.ones(2))


@pytest.mark.parametrize("call, text", [
    (lambda: vmap(np.sin)(2.0), "cannot go along axis 0 of a float"),
    (lambda: vmap(np.add)(np.ones(2), np.ones(3)), r"arrays of \[2, 3\] rows"),
    (lambda: vmap(np.sin, in_axes=None)(np.ones(2)), "nothing to map over"),
    (lambda: vmap(np.add, in_axes=(0,))(np.ones(2), 1.0), "for 2 arguments"),
    (lambda: vmap(np.sin, out_axes=None)(np.ones(2)), "differs from row to row"),
    (lambda: vmap(np.sin, in_axes=((0, 0),))(np.ones(2)), "Give the same structure"),
    (lambda: vmap(_grows)(np.array([1.0, 4.0])), r"rows give results of shapes .*py:\d"),
])  # fmt: skip
def test_errors(call, text):
    with pytest.raises(UnsupportedError, match=text):
        call()


def test_rows_that_a_backward_pass_runs_again():
    """Captured leaves, which are closed by then, keep their gradients."""

    def f(x):
        return tracker.checkpoint(lambda a: np.sum(vmap(lambda r: x * r)(a)), np.arange(3.0))

    assert gradient(f, 0.7) == (3.0,)


def test_arrays_that_the_function_makes_are_plain():
    for f in (lambda x: tnp.array(0.5), lambda x: (x, tnp.array([0.5])), lambda x: tnp.zeros(2)):
        for mapped in (vmap(f), jit(vmap(f))):
            for y in tracker.tree.leaves(mapped(np.ones((3, 2)))):
                assert type(y) is np.ndarray and y.shape[0] == 3


@pytest.mark.parametrize("f", [lambda x: norm.cdf(x[0]), lambda x: np.sum(gamma.logpdf(x, 2.0))])
def test_distributions_run_once_for_all_rows(f, monkeypatch):
    rows = np.random.default_rng(0).random((50, 3))
    monkeypatch.setattr(sys.modules["tracker.transforms.vmap"], "_call_row_by_row", None)
    np.testing.assert_allclose(tracker.vmap(f)(rows), [f(x) for x in rows], rtol=1e-12)


def test_a_cache_of_numpy_s_is_no_state():
    """`np.vectorize` keeps a ufunc once it was called, as SciPy's distributions do."""
    gamma.entropy(2.0)
    f = jit(lambda x: np.sum(gamma.logpdf(x, 2.0)))
    for _ in range(3):
        assert f(np.ones(3)) == pytest.approx(-3.0)
    assert (f.cache_info().traces, f.cache_info().eager) == (1, 0)
