"""Rules that users write: every mode, every nesting, compiled; and what wrong ones are told."""

import ctypes
import gc
import math
import re
import weakref

import numpy as np
import pytest

import tracker
from tracker import custom_gradient, gradient, hessian, jit, jvp, param, rrule, scalar_rule, track
from tracker.autodiff.custom_rules import registered_rule
from tracker.ir.op import NUMPY
from tracker.testing import check_rule

V = np.array([0.5, -1.0, 2.0])
HERE = r"test_custom_rules\.py:\d+"


def cube(x):
    return x * x * x


@rrule(cube)
def _(x):
    return x**3, lambda dy: (dy * 3 * x**2,)


def square(x):
    return x * x


@tracker.frule(square)
def _(tangents, x):
    return x**2, 2 * x * tangents[0]


def both_ways(x, y):
    return x * np.sin(y)


@rrule(both_ways)
def _(x, y):
    return x * np.sin(y), lambda dy: (dy * np.sin(y), np.sum(dy * x * np.cos(y)))


@tracker.frule(both_ways)
def _(tangents, x, y):
    return x * np.sin(y), tangents[0] * np.sin(y) + x * np.cos(y) * tangents[1]


def log1pexp(x):
    return np.logaddexp(0.0, x)


scalar_rule(log1pexp, lambda x: 1 / (1 + np.exp(-x)))


def scaled(a, b):
    return 2.0 * a * b


scalar_rule(scaled, lambda a, b: 2.0 * b, lambda a, b: 2.0 * a)


@custom_gradient
def pair(x, y):
    return {"product": x * y, "sum": x + y}, lambda d: (
        d["product"] * y + d["sum"],
        d["product"] * x + d["sum"],
    )


@custom_gradient(host=True)
def box(x, y):
    values = np.array([math.sin(float(e)) for e in x])
    return values * y, lambda dy: (dy * np.cos(x) * y, float(np.sum(dy * values)))


CASES = {
    "rrule": (lambda x: np.sum(track(cube, np.sin(x))), lambda x: np.sum(np.sin(x) ** 3)),
    "frule": (lambda x: np.sum(track(square, np.sin(x))), lambda x: np.sum(np.sin(x) ** 2)),
    "both": (
        lambda x: np.sum(track(both_ways, x, x[0]) * x), lambda x: np.sum(x * x * np.sin(x[0]))),
    "scalar": (lambda x: np.sum(track(log1pexp, x) * x), lambda x: np.sum(np.logaddexp(0, x) * x)),
    "broadcast": (
        lambda x: np.sum(track(scaled, x, x[1]) ** 2), lambda x: np.sum((2 * x * x[1]) ** 2)),
    "structure": (
        lambda x: (lambda r: np.sum(r["product"] * r["sum"]))(pair(x, x[::-1])),
        lambda x: np.sum(x * x[::-1] * (x + x[::-1]))),
    "one of two": (lambda x: np.sum(pair(x, V)["product"] ** 2), lambda x: np.sum((x * V) ** 2)),
    "forwarddiff": (
        lambda x: tracker.forwarddiff(lambda a: np.sum(a**3) * a, x)[1],
        lambda x: np.sum(x**3) * x[1]),
    "checkpoint": (
        lambda x: tracker.checkpoint(lambda a: np.sum(np.tanh(a * x[0]) ** 2), x),
        lambda x: np.sum(np.tanh(x * x[0]) ** 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_mode_and_nesting(name):
    f, plain = CASES[name]
    want, hess = gradient(plain, V)[0], hessian(plain, V)
    assert f(V) == pytest.approx(plain(V))
    np.testing.assert_allclose(gradient(f, V)[0], want)
    y, dy = jvp(f, (V,), (V,))
    assert y == pytest.approx(plain(V))
    assert dy == pytest.approx(want @ V)
    np.testing.assert_allclose(hessian(f, V), hess, atol=1e-12)
    np.testing.assert_allclose(tracker.hessian_reverse(f, V), hess, atol=1e-12)
    np.testing.assert_allclose(
        gradient(lambda x: jvp(f, (x,), (V,))[1], V)[0], hess @ V, atol=1e-12
    )
    assert jvp(lambda x: jvp(f, (x,), (V,))[1], (V,), (V,))[1] == pytest.approx(V @ hess @ V)
    third = gradient(lambda x: np.sum(hessian(plain, x)), V)[0]
    np.testing.assert_allclose(
        gradient(lambda x: np.sum(hessian(f, x)), V)[0], third, rtol=1e-9, atol=1e-11
    )


@pytest.mark.parametrize("name", CASES)
def test_compiled(name):
    f, plain = CASES[name]
    native = jit(f, strict=True)
    for x in (V, V * 2):
        assert native(x) == pytest.approx(plain(x))
        np.testing.assert_allclose(gradient(native, x)[0], gradient(plain, x)[0])
        np.testing.assert_allclose(
            jit(lambda a: hessian(f, a), strict=True)(x), hessian(plain, x), atol=1e-12
        )
        dy = jit(lambda a: jvp(f, (a,), (a,))[1], strict=True)(x)
        assert dy == pytest.approx(gradient(plain, x)[0] @ x)


def test_every_mode_uses_the_rule():
    """A rule that is wrong on purpose gives its own derivative in every mode."""

    @custom_gradient
    def odd(x):
        return x * x, lambda dy: (dy * 100.0,)

    assert odd(3.0) == 9.0
    assert gradient(odd, 3.0) == gradient(jit(odd), 3.0) == (100.0,)
    assert gradient(lambda x: odd(x) * x, 3.0) == (309.0,)
    assert gradient(jit(lambda x: odd(x) * x), 3.0) == (309.0,)
    assert jvp(odd, (3.0,), (1.0,)) == (9.0, 100.0)
    p = param(3.0)
    tracker.back(odd(p) * 2)
    assert p.grad == 200.0
    assert gradient(lambda x: gradient(odd, x)[0] * x, 3.0) == (100.0,)


def test_black_boxes():
    def f(x, y):
        return np.sum(box(x, y) ** 2)

    def plain(x, y):
        return np.sum((np.sin(x) * y) ** 2)

    want = gradient(plain, V, 2.0)
    native = jit(f)
    for g in (f, native):
        for scale in (1.0, 2.0):
            gx, gy = gradient(g, V * scale, 2.0)
            np.testing.assert_allclose(gx, gradient(plain, V * scale, 2.0)[0])
            assert gy == pytest.approx(gradient(plain, V * scale, 2.0)[1])
    assert native(V, 2.0) == pytest.approx(plain(V, 2.0))
    assert "host=True runs in Python" in native.explain(V, 2.0)
    slope = want[0] @ V + want[1]
    assert jvp(f, (V, 2.0), (V, 1.0))[1] == pytest.approx(slope)
    assert jit(lambda x, y: jvp(f, (x, y), (x, 1.0))[1])(V, 2.0) == pytest.approx(slope)
    for call in (hessian, tracker.hessian_reverse):
        with pytest.raises(tracker.RuleError, match=r"box has a first derivative only.*host=True"):
            call(lambda x: f(x, 2.0), V)
    # a param elsewhere is no reason to run it again, or to hand it tracked values
    p = param(2.0)
    np.testing.assert_allclose(gradient(lambda x: f(x, 2.0) * p, V)[0], 2 * want[0])


def test_black_box_with_several_results():
    @custom_gradient(host=True)
    def split(x):
        return (float(x[0]) ** 2, np.array(x[1:]) * 2), lambda d: (
            np.concatenate([[2 * d[0] * x[0]], 2 * d[1]]),
        )

    def f(x):
        a, b = split(x)
        return a * np.sum(b)

    want = gradient(lambda x: x[0] ** 2 * np.sum(2 * x[1:]), V)[0]
    for g in (f, jit(f)):
        np.testing.assert_allclose(gradient(g, V)[0], want)
    assert jvp(f, (V,), (V,))[1] == pytest.approx(want @ V)


def test_structures_go_in_and_out():
    @custom_gradient
    def affine(model, x):
        return model["w"] @ x + model["b"], lambda dy: (
            {"w": np.outer(dy, x), "b": dy},
            model["w"].T @ dy,
        )

    model = {"w": np.arange(6.0).reshape(2, 3), "b": np.ones(2)}

    def f(m, x):
        return np.sum(affine(m, x) ** 2)

    def plain(m, x):
        return np.sum((m["w"] @ x + m["b"]) ** 2)

    for g in (f, jit(f)):
        have, want = gradient(g, model, V), gradient(plain, model, V)
        for a, b in zip(tracker.tree.leaves(have), tracker.tree.leaves(want), strict=True):
            np.testing.assert_allclose(a, b)


def test_float32_and_complex():
    x = V.astype(np.float32)
    assert gradient(lambda x: np.sum(track(cube, x)), x)[0].dtype == np.float32
    assert jvp(lambda x: track(cube, x), (x,), (x,))[1].dtype == np.float32

    @custom_gradient
    def times_i(z):
        return 1j * z, lambda dy: (-1j * dy,)

    z = np.array([1 + 2j, 0.5j])

    def f(z, wrap):
        return np.sum(np.abs(wrap(z) + z) ** 2 * [1.0, 2.0])

    want = gradient(lambda z: f(z, lambda z: 1j * z), z)[0]
    np.testing.assert_allclose(gradient(lambda z: f(z, times_i), z)[0], want)
    np.testing.assert_allclose(jvp(times_i, (z,), (z,))[1], 1j * z)


def test_zeros_stay_strong():
    def root(x):
        return np.sqrt(x)

    scalar_rule(root, lambda x: 0.5 / np.sqrt(x))
    x = np.array([0.0, 4.0])
    with np.errstate(divide="ignore"):
        found = gradient(lambda x: np.sum(np.where(x > 0, track(root, x), 0.0)), x)[0]
    np.testing.assert_allclose(found, [0.0, 0.25])


def test_ufuncs_of_the_users_own_take_rules():
    half = np.frompyfunc(lambda v: v / 2, 1, 1)
    with pytest.raises(tracker.UnsupportedError, match=r"tracker\.rrule"):
        gradient(lambda x: np.sum(half(x)), V)
    before = dict(NUMPY)
    try:

        @rrule(half)
        def _(x):
            return half(x).astype(float), lambda dy: (7.0 * dy,)

        assert gradient(lambda x: np.sum(half(x)), V)[0].tolist() == [7.0] * 3
    finally:
        NUMPY.clear()
        NUMPY.update(before)
    assert gradient(lambda x: track(np.sin, x), 0.0) == (1.0,)


def test_plain_arguments_are_plain():
    assert track(cube, 2.0) == 8.0
    assert type(track(cube, V)) is np.ndarray
    assert pair(2.0, 3.0) == {"product": 6.0, "sum": 5.0}
    with pytest.raises(tracker.RuleError, match=rf"<lambda> has no rule.*rrule.*{HERE}"):
        track(lambda x: x, 2.0)


def test_rules_may_not_change_what_they_are_given():
    @custom_gradient
    def greedy(x):
        x[0] = 9.0
        return np.sum(x), lambda dy: (np.ones(3) * dy,)

    with pytest.raises(ValueError, match="read-only"):
        gradient(greedy, V)
    with pytest.raises(tracker.RuleError, match="greedy writes into an argument"):
        jit(lambda x: gradient(greedy, x)[0])(V)


def test_plain_arguments_may_change_later():
    @custom_gradient
    def weighted(x, w):
        return np.sum(x * w), lambda dy: (dy * w, None)

    w = np.ones(3)
    _, back = tracker.pullback(lambda x: weighted(x, w), V)
    w[:] = 100.0
    assert back(1.0)[0].tolist() == [1.0, 1.0, 1.0]


# Wrong rules --------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer, what", [
    (lambda dy, x: dy, r"gave a float64 from back, for 1 positional"),
    (lambda dy, x: (dy, dy), r"gave a tuple of 2 from back, for 1 positional"),
    (lambda dy, x: (dy * np.ones(2),), r"shape \(2,\); its shape is \(3,\)"),
    (lambda dy, x: (dy * x * 1j,), r"dtype complex128; its dtype is float64"),
    (lambda dy, x: ("text",), r"a cotangent that is a str"),
    (lambda dy, x: (x["a"],), r"failed in back: IndexError"),
    (lambda dy, x: ([dy],), r"a cotangent that is a list"),
])  # fmt: skip
def test_errors_in_back_name_the_rule(answer, what):
    @custom_gradient
    def broken(x):
        return np.sum(x), lambda dy: answer(dy, x)

    for run in (lambda: gradient(broken, V), lambda: tracker.back(broken(param(V)))):
        with pytest.raises(tracker.RuleError, match=rf"the rule of broken.*{what}") as caught:
            run()
        assert re.search(HERE, str(caught.value))


def test_other_broken_contracts():
    @custom_gradient
    def no_pair(x):
        return x

    for x in (V, param(V)):
        with pytest.raises(tracker.RuleError, match=r"rule of no_pair returned a .*pair"):
            no_pair(x)

    def slow(x):
        return x

    for result, text in (
        ((V, np.ones(7)), r"slow gave a tangent of shape \(7,\)"),
        (V, r"rule of slow returned .*pair \(y, dy\)"),
        ((V, (V, V)), r"slow gave 2 tangent\(s\) for 1 result"),
    ):
        tracker.frule(slow)(lambda tangents, x, result=result: result)
        with pytest.raises(tracker.RuleError, match=text):
            jvp(lambda x: track(slow, x), (V,), (V,))
    with pytest.raises(tracker.RuleError, match="a rule was to be registered for a float"):
        rrule(2.0)
    for register in (rrule, lambda f: scalar_rule(f, np.cos)):
        with pytest.raises(tracker.RuleError, match=r"has no hash\. Name a Python function"):
            register(ctypes.CDLL(None).sin)
    with pytest.raises(tracker.RuleError, match="got no derivatives"):
        scalar_rule(slow)
    with pytest.raises(tracker.RuleError, match=r"got 1 argument\(s\).*names 2"):
        track(scaled, param(2.0))
    with pytest.raises(tracker.RuleError, match="elementwise, and got a str"):
        track(scaled, param(2.0), "text")

    @custom_gradient
    def nested(m):
        return m["a"] * 2.0, lambda dy: ({"b": dy},)

    with pytest.raises(tracker.RuleError, match="another structure"):
        gradient(nested, {"a": 1.0})


def test_gradients_that_would_be_lost_are_refused():
    w = param(2.0)

    @custom_gradient
    def captures(x):
        return x * w, lambda dy: (dy * w,)

    with pytest.raises(tracker.RuleError, match=r"captures uses a tracked value that is not among"):
        gradient(captures, 3.0)
    scalar_rule(captures, lambda x: w)
    with pytest.raises(tracker.RuleError, match="not among its arguments"):
        gradient(lambda x: track(captures, x), 3.0)
    with pytest.raises(tracker.RuleError, match=r"keyword y.*by position"):
        pair(2.0, y=w)


def test_a_rule_with_random_draws_is_refused_in_second_derivatives():
    rng = np.random.default_rng(0)

    @custom_gradient
    def noisy(x):
        mask = rng.random(3)
        return np.sum(x * mask), lambda dy: (dy * mask,)

    assert gradient(noisy, V)[0].shape == (3,)
    with pytest.raises(tracker.RuleError, match=r"noisy gave another value.*random"):
        hessian(lambda x: noisy(x) ** 2, V)


def test_exceptions_of_a_body_are_not_wrapped():
    @custom_gradient
    def picky(x):
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        gradient(picky, 2.0)


def test_conversion_errors_in_rules_suggest_host():
    @custom_gradient
    def plain_only(x):
        return np.sum(x), lambda dy: (np.array([math.sin(e) for e in x]) * float(dy),)

    assert gradient(plain_only, V)[0].shape == (3,)
    with pytest.raises(tracker.RuleError, match=r"forward mode.*host=True"):
        jvp(plain_only, (V,), (V,))
    with pytest.raises(tracker.ConversionError) as caught:
        hessian(plain_only, V)
    assert "host=True" in "".join(caught.value.__notes__)


def test_nobacksies():
    @custom_gradient
    def once(x):
        return x * x, lambda dy: (tracker.nobacksies("once", 2 * dy * x),)

    assert gradient(once, 3.0) == (6.0,)
    with pytest.raises(tracker.RuleError, match="once has a first derivative only"):
        gradient(lambda x: gradient(once, x)[0], 3.0)
    assert tracker.nobacksies("name", 2.0) == 2.0


def test_a_custom_gradient_goes_with_its_rule():
    """A process may unpickle many."""

    def rule_of_one():
        made = custom_gradient(lambda x: (x, lambda dy: (2.0 * dy,)))
        assert gradient(lambda x: track(made, x), 3.0) == (2.0,)
        return weakref.ref(registered_rule(made))

    alive = rule_of_one()
    gc.collect()
    assert alive() is None


def test_check_rule():
    assert check_rule(cube, V)
    assert check_rule(square, V)
    assert check_rule(log1pexp, V)
    assert check_rule(pair, 2.0, 3.0)
    assert check_rule(box, V, 2.0, order=1)

    def wrong(x):
        return x * x

    @rrule(wrong)
    def _(x):
        return x * x, lambda dy: (3 * dy * x,)

    with pytest.raises(AssertionError, match=r"argument 0"):
        check_rule(wrong, 2.0)

    @rrule(wrong)
    def _(x):
        return x * x * x, lambda dy: (3 * dy * x**2,)

    with pytest.raises(AssertionError, match="the rule of wrong gives another value"):
        check_rule(wrong, 2.0)


def test_collect_and_stack():
    x = param(2.0)
    y = tracker.collect([[x, x * x], [1.0, 0.0]])
    assert y.shape == (2, 2)
    tracker.back(np.sum(y * [[1.0, 2.0], [3.0, 4.0]]))
    assert x.grad == 1.0 + 2.0 * 4.0
    cells = np.empty(2, object)
    cells[0], cells[1] = x, 3.0
    assert tracker.data(tracker.collect(cells)).tolist() == [2.0, 3.0]
    assert tracker.collect([1.0, 2.0]).tolist() == [1.0, 2.0]
    assert tracker.data(tracker.stack([x, 3.0])).tolist() == [2.0, 3.0]
    assert tracker.jacobian(lambda x: tracker.stack([x, 2 * x], axis=1), V)[0].shape == (6, 3)


def test_rules_inside_structured_loops():
    @custom_gradient
    def odd(x):
        return x * 1.0, lambda dy: (dy * 2.0,)

    def f(x):
        carry, _ = tracker.scan(lambda c, v: (odd(c) * v, c), x, np.array([1.0, 2.0, 3.0]))
        return carry

    def g(x):
        with tracker.ignore_derivatives():
            carry, _ = tracker.scan(lambda c, v: (c * v, c), x, np.array([1.0, 2.0, 3.0]))
        return carry * x

    for wrap in (lambda h: h, jit):
        assert gradient(wrap(f), 1.0) == (48.0,)
        assert gradient(wrap(g), 2.0) == (12.0,)
        assert wrap(g)(2.0) == 24.0


@pytest.mark.parametrize("name", CASES)
def test_mapped(name):
    f, plain = CASES[name]
    rows = np.stack([V, 2 * V, V + 1])
    for wrap in (lambda g: g, jit):
        found = wrap(lambda x: tracker.vmap(lambda a: gradient(f, a)[0])(x))(rows)
        np.testing.assert_allclose(found, [gradient(plain, row)[0] for row in rows])
        found = wrap(lambda x: gradient(lambda y: np.sum(tracker.vmap(f)(y)), x)[0])(rows)
        np.testing.assert_allclose(found, [gradient(plain, row)[0] for row in rows])


def test_a_black_box_keeps_its_shapes():
    @custom_gradient(host=True)
    def first(x, n):
        return np.array(x[: int(n)]), lambda dy: (np.zeros(3), None)

    f = jit(lambda x, n: np.sum(first(x, n)))
    assert f(V, 2.0) == -0.5
    with pytest.raises(tracker.RuleError, match=r"first gave f64\[1\]; while .* it gave f64\[2\]"):
        f(V, 1.0)


def test_defaults_and_methods():
    @custom_gradient
    def power(x, n=2, *, scale=1.0):
        return scale * x**n, lambda dy: (dy * scale * n * x ** (n - 1), None)

    for f in (power, jit(power)):
        assert gradient(f, 3.0) == (6.0,)
        assert gradient(lambda x, f=f: f(x, n=3, scale=2.0), 3.0) == (54.0,)
        assert gradient(f, 3.0, 3.0)[0] == 27.0

    class Layer:
        def __init__(self, w):
            self.w = w

        @custom_gradient
        def __call__(self, x):
            return np.sum(self.w * x), lambda dy: (None, dy * self.w)

    assert gradient(Layer(V), V)[0].tolist() == V.tolist()


def test_integers_have_derivatives_through_rules():
    @custom_gradient
    def squared(n):
        return n * n, lambda dy: (2 * dy * n,)

    assert gradient(squared, 3) == (6.0,)
    assert gradient(lambda n: 2 * squared(n), [1, 2][1]) == (8.0,)

    @custom_gradient
    def best(x):
        i = np.argmax(x)
        return (x[i], i), lambda d: (d[0] * (np.arange(3) == i),)

    def f(x):
        value, where = best(x)
        return value * 2 + x[where]

    for g in (f, jit(f)):
        assert gradient(g, V)[0].tolist() == [0, 0, 3]


def test_constants_of_the_derivative_may_be_captured():
    def scaled(w, x):
        @custom_gradient
        def f(a):
            return a * w, lambda dy: (dy * w,)

        return gradient(f, x)[0] + f(x)

    native = jit(scaled, strict=True)
    for w in (3.0, 4.0):
        assert scaled(w, 2.0) == native(w, 2.0) == 3 * w
    # but not what an outer derivative is taken in
    for call in (lambda: gradient(scaled, 3.0, 2.0), lambda: gradient(native, 3.0, 2.0)):
        with pytest.raises(tracker.RuleError, match="rule of f uses a tracked value that is not"):
            call()


POINT = np.array([0.3, -0.8, 1.2])


def by_reverse(h, y):
    @rrule(h)
    def _(x):
        return h(x), lambda dy: (dy * y * np.cos(x),)


def by_forward(h, y):
    @tracker.frule(h)
    def _(tangents, x):
        return h(x), y * np.cos(x) * tangents[0]


@pytest.mark.parametrize("register", [by_reverse, by_forward])
@pytest.mark.parametrize("inner", ["gradient", "jvp"])
@pytest.mark.parametrize("compiled", [False, True])
def test_outer_values_used_only_in_back_have_gradients(register, inner, compiled):
    """An outer derivative's value in `back`: the inner derivative depends on it."""

    def slope(y):
        def bent(x):
            return np.sin(x)

        register(bent, y)

        def f(x):
            return np.sum(x[:2] * track(bent, x[1:])) + track(bent, x)[0] * 2.0

        if inner == "gradient":
            return np.sum(gradient(f, POINT)[0] ** 2)
        return jvp(f, (POINT,), (POINT + 1.0,))[1] ** 2

    a, b = POINT[:2]
    s, k = np.sin(POINT), np.cos(POINT)  # the gradient's entries are u + v y
    u, v = np.array([s[1], s[2], 0.0]), np.array([2.0 * k[0], a * k[1], b * k[2]])
    y = 0.7
    if inner == "gradient":
        want = 2.0 * np.sum((u + v * y) * v)
    else:
        t = POINT + 1.0
        want = 2.0 * ((u + v * y) @ t) * (v @ t)
    of = jit(slope) if compiled else slope
    for _ in range(2):
        assert gradient(of, y)[0] == pytest.approx(want)
        assert jvp(of, (y,), (1.0,))[1] == pytest.approx(want)
    assert jit(lambda y: gradient(slope, y))(y)[0] == pytest.approx(want)
