"""`tracker.nn`: values against formulas and PyTorch's definitions, derivatives, extremes, jit."""

import itertools

import numpy as np
import pytest

import tracker
from tracker import gradient, jit, nn, value_and_grad
from tracker.testing import gradcheck

RNG = np.random.default_rng(0)


def draw(*shape):
    return RNG.normal(size=shape)


def check(f, *args, order=2):
    """Derivatives are right, and the compiled function and gradient equal the eager ones."""
    assert gradcheck(f, *args, order=order, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jit(f)(*args), f(*args), rtol=1e-10, atol=1e-12)
    weights = draw(*np.shape(f(*args)))

    def loss(*args):
        return np.sum(f(*args) * weights)

    fast = gradient(jit(loss), *args)
    for made, want in zip(fast, gradient(loss, *args), strict=True):
        np.testing.assert_allclose(made, want, rtol=1e-9, atol=1e-11)


ELEMENTWISE = {
    nn.sigmoid: lambda x: 1 / (1 + np.exp(-x)),
    nn.logsigmoid: lambda x: -np.log1p(np.exp(-x)),
    nn.softplus: lambda x: np.log1p(np.exp(x)),
    nn.relu: lambda x: np.maximum(x, 0),
    nn.leaky_relu: lambda x: np.where(x > 0, x, 0.01 * x),
    nn.elu: lambda x: np.where(x > 0, x, np.exp(x) - 1),
    nn.gelu: lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
}
NORMALISED = {
    nn.softmax: lambda x: np.exp(x) / np.sum(np.exp(x), -1, keepdims=True),
    nn.logsoftmax: lambda x: x - np.log(np.sum(np.exp(x), -1, keepdims=True)),
    nn.logsumexp: lambda x: np.log(np.sum(np.exp(x), -1)),
}
BOTH = {**ELEMENTWISE, **NORMALISED}


@pytest.mark.parametrize("f", BOTH, ids=lambda f: f.__name__)
def test_formula(f):
    x = draw(4, 5) * 2
    np.testing.assert_allclose(f(x), BOTH[f](x), rtol=1e-12, atol=1e-15)
    check(f, x)
    small = f(x.astype(np.float32))
    assert small.dtype == np.float32
    for g in (f, jit(f)):
        slope = gradient(lambda x, g=g: np.sum(g(x) ** 2), x.astype(np.float32))[0]
        assert slope.dtype == np.float32
    np.testing.assert_allclose(small, f(x), rtol=1e-5, atol=1e-6)
    assert f([1.0, 2.0]).shape == np.shape(BOTH[f](np.array([1.0, 2.0])))
    assert f(np.array([1, 2])).dtype.kind == ("i" if f is nn.relu else "f")


@pytest.mark.parametrize("f", ELEMENTWISE, ids=lambda f: f.__name__)
def test_extremes(f):
    """No overflow, no NaN, no warning; NaN stays NaN."""
    x = np.array([-1e300, -1e4, -800.0, -40.0, -1e-300, 1e-300, 40.0, 800.0, 1e4, 1e300])
    for g in (f, jit(f)):
        y = g(x)
        slope = gradient(lambda x, g=g: np.sum(g(x) / 1e9), x)[0]
        assert np.all(np.isfinite(y)) and np.all(np.isfinite(slope))
        assert np.all(np.isnan(g(np.array([np.nan]))))
    assert np.all(np.isfinite(f(x[1:-1].astype(np.float32))))
    assert np.isfinite(f(1.0)) and np.shape(f(1.0)) == ()


def test_tails_keep_their_digits():
    assert nn.sigmoid(-700.0) == np.exp(-700.0) and nn.sigmoid(1e4) == 1.0
    np.testing.assert_allclose(gradient(nn.sigmoid, 40.0)[0], np.exp(-40.0), rtol=1e-14)
    np.testing.assert_allclose(nn.logsigmoid(-1e5), -1e5)
    np.testing.assert_allclose(nn.logsigmoid(50.0), -np.exp(-50.0), rtol=1e-14)
    np.testing.assert_allclose(nn.softplus(-50.0), np.exp(-50.0), rtol=1e-14)
    np.testing.assert_allclose(gradient(nn.softplus, -60.0)[0], np.exp(-60.0), rtol=1e-13)


def test_a_saturated_class_has_its_derivative():
    """Rows of first and second derivatives add up to 0, element by element."""
    x = np.array([[40.0, 0.0, -3.0], [1.0, 2.0, 45.0]])
    weights = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    rest = np.array([np.exp(-40) + np.exp(-43), np.exp(-43) + np.exp(-44)])
    for f in (nn.softmax, nn.logsoftmax):

        def slope(x, f=f):
            return gradient(lambda x: np.sum(f(x) * weights), x)[0]

        for g in (slope, jit(slope)):
            np.testing.assert_allclose(g(x)[weights == 1], rest, rtol=1e-14)
            np.testing.assert_allclose(g(x).sum(1), 0, atol=1e-15 * rest.max())
        tangents = tracker.jvp(f, (x,), (weights,))[1]
        np.testing.assert_allclose(tangents[weights == 1], rest, rtol=1e-14)
        second = tracker.jvp(slope, (x,), (weights,))[1]
        np.testing.assert_allclose(second[weights == 1], -rest, rtol=1e-14)


def test_logsumexp_of_infinity_and_of_a_saturated_class():
    def slope(x):
        return gradient(lambda x: np.sum(nn.logsumexp(x)), x, check_finite=False)[0]

    for g in (slope, jit(slope)):
        np.testing.assert_array_equal(g(np.array([1.0, np.inf, -np.inf])), [0, 1, 0])
        np.testing.assert_array_equal(g(np.array([np.inf, 1.0, np.inf])), [0.5, 0, 0.5])
    curvature = tracker.jvp(slope, (np.array([40.0, 0.0]),), (np.array([1.0, 0.0]),))[1]
    np.testing.assert_allclose(curvature, [np.exp(-40), -np.exp(-40)], rtol=1e-14)


def test_kinks():
    """The derivative of the left side."""
    for f, want in ((nn.relu, 0.0), (nn.leaky_relu, 0.01), (nn.elu, 1.0), (nn.gelu, 0.5)):
        assert gradient(f, 0.0)[0] == want == gradient(jit(f), 0.0)[0]
    assert gradient(lambda x: nn.leaky_relu(x, 0.3), 0.0)[0] == 0.3
    assert gradient(lambda x: nn.elu(x, 2.0), -1.0)[0] == 2 * np.exp(-1.0)


def test_gelu_exact():
    special = pytest.importorskip("scipy.special")
    x = draw(6) * 3

    def exact(x):
        return nn.gelu(x, approximate=False)

    np.testing.assert_allclose(exact(x), x * special.ndtr(x), rtol=1e-13)
    np.testing.assert_allclose(nn.gelu(x), exact(x), atol=1e-3)
    check(exact, x)
    assert exact(-40.0) == 0.0 and exact(1e300) == 1e300


def test_softmax_of_infinities():
    inf = np.inf
    x = np.array([[1e4, 1e4, -1e4], [-inf, 0.0, 0.0], [-inf, -inf, 3.0]])
    for f in (nn.softmax, jit(nn.softmax)):
        np.testing.assert_allclose(f(x), [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]])
    for f in (nn.logsumexp, jit(nn.logsumexp)):
        np.testing.assert_allclose(f(x), [1e4 + np.log(2), np.log(2), 3.0])
        assert f(np.full(3, -inf)) == -inf and f(np.array([1.0, inf])) == inf
        slope = gradient(lambda x, f=f: np.sum(f(x)), x)[0]
        np.testing.assert_allclose(slope, nn.softmax(x), atol=1e-15)
        _, back = tracker.pullback(f, np.full(2, -inf))
        np.testing.assert_array_equal(back(1.0)[0], [0.0, 0.0])
    np.testing.assert_allclose(nn.logsoftmax(x)[1:], [[-inf, *[-np.log(2)] * 2], [-inf, -inf, 0]])


@pytest.mark.parametrize("axis", [0, 1, (0, 2), None])
def test_axes(axis):
    x = draw(2, 3, 4)
    total = np.sum(np.exp(x), axis=axis, keepdims=True)
    np.testing.assert_allclose(nn.softmax(x, axis), np.exp(x) / total)
    np.testing.assert_allclose(nn.logsoftmax(x, axis), x - np.log(total))
    np.testing.assert_allclose(nn.logsumexp(x, axis, keepdims=True), np.log(total))
    np.testing.assert_allclose(nn.logsumexp(x, axis=axis), np.log(np.sum(np.exp(x), axis=axis)))
    check(lambda x: nn.logsumexp(x, axis), x, order=1)


# Convolution --------------------------------------------------------------------------------------


def by_hand(x, w, stride, edges, dilation, groups):
    """The definition, loop by loop."""
    x = np.pad(x, ((0, 0), (0, 0), *edges))
    outputs, depth, *kernel = w.shape
    extent = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    ]
    y = np.zeros((len(x), outputs, *extent))
    for o in range(outputs):
        first = o // (outputs // groups) * depth
        for place in np.ndindex(*extent):
            at = tuple(
                slice(p * s, p * s + (k - 1) * d + 1, d)
                for p, s, k, d in zip(place, stride, kernel, dilation, strict=True)
            )
            part = x[(slice(None), slice(first, first + depth), *at)]
            y[(slice(None), o, *place)] = np.sum(part * w[o], axis=tuple(range(1, part.ndim)))
    return y


CONVOLUTIONS = {
    "plain 1d": ((2, 3, 7), (4, 3, 3), {}),
    "stride 1d": ((2, 3, 8), (4, 3, 2), {"stride": 3, "padding": 2}),
    "plain 2d": ((2, 2, 6, 5), (3, 2, 3, 2), {}),
    "everything 2d": (
        (2, 4, 7, 8),
        (6, 2, 3, 2),
        {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 3), "groups": 2},
    ),
    "edges 2d": ((1, 2, 5, 5), (2, 2, 2, 2), {"padding": [(0, 1), (2, 0)]}),
    "same 2d": ((1, 1, 4, 5), (1, 1, 3, 4), {"padding": "same"}),
    "valid 2d": ((1, 1, 4, 5), (1, 1, 3, 4), {"padding": "valid"}),
    "depthwise": ((2, 3, 5, 5), (6, 1, 3, 3), {"groups": 3, "padding": 1}),
    "3d": ((1, 2, 4, 3, 5), (2, 2, 2, 2, 3), {"stride": (1, 1, 2), "padding": 1}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_conv(name):
    xs, ws, how = CONVOLUTIONS[name]
    x, w = draw(*xs), draw(*ws)
    rank = len(xs) - 2
    sizes = {
        key: value if isinstance(value, tuple) else (value,) * rank
        for key, value in {"stride": 1, "dilation": 1, **how}.items()
        if key in ("stride", "dilation")
    }
    edges = how.get("padding", 0)
    if edges == "same":
        edges = [(1, 1), (1, 2)]
    elif edges == "valid":
        edges = [(0, 0)] * rank
    elif not isinstance(edges, list):
        edges = [(p, p) for p in (edges if isinstance(edges, tuple) else (edges,) * rank)]
    want = by_hand(x, w, sizes["stride"], edges, sizes["dilation"], how.get("groups", 1))
    np.testing.assert_allclose(nn.conv(x, w, **how), want, atol=1e-12)
    backwards = w[(..., *(slice(None, None, -1),) * rank)]
    np.testing.assert_allclose(nn.conv(x, backwards, flipped=True, **how), want, atol=1e-12)
    check(lambda x, w: nn.conv(x, w, **how), x, w)
    f32 = nn.conv(x.astype(np.float32), w.astype(np.float32), **how)
    assert f32.dtype == np.float32
    if rank == 1 and not how:  # the mathematical convolution
        flipped = nn.conv(x, w, flipped=True)
        np.testing.assert_allclose(
            flipped[0, 0], sum(np.convolve(x[0, c], w[0, c], "valid") for c in range(3))
        )


def test_depthwiseconv():
    x, w = draw(2, 3, 6), draw(6, 1, 3)
    np.testing.assert_allclose(
        nn.depthwiseconv(x, w, stride=2, padding=1), nn.conv(x, w, stride=2, padding=1, groups=3)
    )
    check(lambda x, w: nn.depthwiseconv(x, w, dilation=2), x, w)


@pytest.mark.parametrize("how", [{}, {"stride": 1}, {"stride": (2, 1), "padding": (1, 0)}])
def test_pools(how):
    x = draw(2, 3, 5, 6)
    k = (2, 3)
    step = how.get("stride", k)
    step = step if isinstance(step, tuple) else (step,) * 2
    edge = how.get("padding", (0, 0))
    for pool, fill, take in ((nn.maxpool, -np.inf, np.max), (nn.meanpool, 0.0, np.mean)):
        padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in edge)), constant_values=fill)
        view = np.lib.stride_tricks.sliding_window_view(padded, k, axis=(2, 3))
        want = take(view[:, :, :: step[0], :: step[1]], axis=(4, 5))
        np.testing.assert_allclose(pool(x, k, **how), want)
        check(lambda x, pool=pool: pool(x, k, **how), x)
        assert pool(x.astype(np.float32), k, **how).dtype == np.float32
    for rank in (1, 3):
        x = draw(1, 2, *(4,) * rank)
        assert nn.maxpool(x, 2).shape == (1, 2, *(2,) * rank)
        np.testing.assert_allclose(np.mean(nn.meanpool(x, 2)), np.mean(x))
    assert nn.maxpool(np.arange(4).reshape(1, 1, 4), 2, padding=1).tolist() == [[[0, 2, 3]]]


def test_ties_of_a_pool_share():
    slope = gradient(lambda x: np.sum(nn.maxpool(x, 2)), np.ones((1, 1, 2, 2)))[0]
    np.testing.assert_array_equal(slope, np.full((1, 1, 2, 2), 0.25))


def test_refusals():
    x, w = np.ones((1, 2, 5)), np.ones((2, 2, 3))
    for call, text in (
        (lambda: nn.conv(x, np.ones((2, 3, 3))), r"shape \(1, 2, 5\) with weights of shape"),
        (lambda: nn.conv(np.ones(3), w), "one to three spatial dimensions"),
        (lambda: nn.conv(x, w, stride=0), "Give positive integers"),
        (lambda: nn.conv(x, w, padding=(1, 2)), "one per dimension"),
        (lambda: nn.conv(x, w, padding=-1), "one per dimension"),
        (lambda: nn.conv(x, w, padding="full"), "'same' or 'valid'"),
        (lambda: nn.conv(x, np.ones((3, 1, 1)), groups=2), "cannot be divided into"),
        (lambda: nn.conv(x, w, dilation=3), "does not fit"),
        (lambda: nn.maxpool(x, 6), "maxpool: a window of extents"),
        (lambda: nn.dropout(x, 1.5, rng=RNG), "Give a probability"),
        (lambda: nn.batchnorm(x, np.ones(2), np.ones(2), np.ones(2)), "Give both"),
        (lambda: nn.batchnorm(x, np.ones(3), np.ones(2)), "2 channels"),
        (lambda: nn.crossentropy(np.ones((2, 3)), np.ones(2)), "Give probabilities"),
        (lambda: nn.crossentropy(np.ones((2, 3)), [0, 1], reduction="max"), "'mean', 'sum'"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    for labels in ([0, 3], [0, -1]):
        with pytest.raises(IndexError, match="3 classes"):
            nn.crossentropy(np.ones((2, 3)), labels)


# Layers -------------------------------------------------------------------------------------------


def test_dropout():
    x = draw(50, 40) + 5.0

    def f(x, rng):
        return nn.dropout(x, 0.3, rng=rng)

    y = f(x, np.random.default_rng(1))
    kept = y != 0
    assert 0.6 < np.mean(kept) < 0.8
    np.testing.assert_allclose(y[kept], x[kept] / 0.7)
    slope = gradient(lambda x: np.sum(f(x, np.random.default_rng(1))), x)[0]
    np.testing.assert_allclose(slope, kept / 0.7)
    np.testing.assert_array_equal(nn.dropout(x, 0.0, rng=RNG), x)
    np.testing.assert_array_equal(nn.dropout(x, 1.0, rng=RNG), 0 * x)
    assert f(x.astype(np.float32), RNG).dtype == np.float32


def test_dropout_draws_anew_in_compiled_code():
    x = np.ones(20)

    def loss(x, rng):
        return np.sum(nn.dropout(x, 0.5, rng=rng) ** 2)

    fast, slow = value_and_grad(jit(loss)), value_and_grad(loss)
    a, b = np.random.default_rng(2), np.random.default_rng(2)
    seen = []
    for _ in range(4):
        value, slope = fast(x, a)
        plain, want = slow(x, b)
        assert value == plain
        np.testing.assert_array_equal(slope, want)
        seen.append(slope)
    assert any(np.any(p != q) for p, q in itertools.pairwise(seen))


def test_batchnorm():
    x, scale, shift = draw(4, 3, 5) * 2 + 1, draw(3), draw(3)
    y = nn.batchnorm(x, scale, shift)
    mean, var = np.mean(x, (0, 2)), np.var(x, (0, 2))

    def each(v):
        return v[None, :, None]

    want = (x - each(mean)) / np.sqrt(each(var) + 1e-5) * each(scale) + each(shift)
    np.testing.assert_allclose(y, want)
    np.testing.assert_allclose(nn.batchnorm(x, scale, shift, mean, var), want)
    rows = np.moveaxis(x, 1, -1)
    np.testing.assert_allclose(nn.batchnorm(rows, scale, shift, axis=-1), np.moveaxis(want, 1, -1))
    check(nn.batchnorm, x, scale, shift)
    check(nn.batchnorm, x, scale, shift, mean, var, order=1)
    assert nn.batchnorm(x.astype(np.float32), *np.float32([scale, shift])).dtype == np.float32
    one = gradient(lambda x: np.sum(nn.batchnorm(x, scale, shift)), np.ones((2, 3)))[0]
    assert np.all(np.isfinite(one))  # no variance at all


def test_crossentropy():
    logits, labels = draw(6, 4), RNG.integers(0, 4, 6)
    onehot = np.eye(4)[labels]
    want = -np.log(nn.softmax(logits))[np.arange(6), labels]
    for f in (nn.crossentropy, jit(nn.crossentropy)):
        np.testing.assert_allclose(f(logits, labels), np.mean(want))
        np.testing.assert_allclose(f(logits, onehot), np.mean(want))
    np.testing.assert_allclose(nn.crossentropy(logits, labels, reduction="none"), want)
    np.testing.assert_allclose(nn.crossentropy(logits, onehot, reduction="sum"), np.sum(want))
    np.testing.assert_allclose(
        nn.crossentropy(logits.T, labels, axis=0, reduction="none"), want, rtol=1e-12
    )
    assert nn.crossentropy(logits[0], 2).shape == ()
    check(lambda logits: nn.crossentropy(logits, labels), logits)
    check(nn.crossentropy, logits, nn.softmax(draw(6, 4)))
    slope = gradient(nn.crossentropy, logits, labels)[0]
    np.testing.assert_allclose(slope, (nn.softmax(logits) - onehot) / 6, atol=1e-15)
    fast = jit(nn.crossentropy)
    fast(logits, labels)
    with pytest.raises(IndexError, match="4 classes"):
        fast(logits, labels + 9)
    assert np.isfinite(nn.crossentropy(np.array([[1e4, -1e4]]), [1]))


def test_vmap_of_conv():
    x, w = draw(3, 2, 2, 6), draw(3, 4, 2, 3)
    made = tracker.vmap(lambda x, w: nn.maxpool(nn.conv(x, w), 2))(x, w)
    want = np.stack([nn.maxpool(nn.conv(a, b), 2) for a, b in zip(x, w, strict=True)])
    np.testing.assert_allclose(made, want)


def test_a_network_runs_natively():
    """A compiled convolutional network calls no NumPy function."""

    def loss(w, b, d, x, y):
        z = nn.maxpool(nn.relu(nn.conv(x, w) + b[:, None, None]), 2)
        return nn.crossentropy(np.reshape(z, (len(x), -1)) @ d, y)

    args = draw(3, 1, 3, 3), draw(3), draw(27, 4), draw(5, 1, 8, 8), RNG.integers(0, 4, 5)
    fast = value_and_grad(jit(loss, strict=True), (0, 1, 2, 3))
    value, slopes = fast(*args)
    plain, wants = value_and_grad(loss, (0, 1, 2, 3))(*args)
    np.testing.assert_allclose(value, plain, rtol=1e-12)
    for slope, want in zip(slopes, wants, strict=True):
        np.testing.assert_allclose(slope, want, rtol=1e-9, atol=1e-12)
