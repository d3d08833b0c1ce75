"""tracker.debug: the first NaN is named, tapes and plans can be read and drawn."""

import re
import threading
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import tracker
from tracker import back, gradient, jit, param, withgradient
from tracker.debug import dot, draw, explain, nan_check, tape
from tracker.debug.graph_layout import Edge, Node, arrange

V = np.array([1.0, 0.0, 4.0])
X = np.linspace(0.1, 1.0, 1000)


def line_of(text):
    """The number of the line of this file that holds the text."""
    lines = Path(__file__).read_text().splitlines()
    return next(k for k, line in enumerate(lines, 1) if text in line)


def forward_nan(x):
    y = x + 1.0
    z = np.sqrt(y - 2.0)  # the forward culprit
    return np.sum(z * 2.0)


def backward_inf(x):
    y = np.sqrt(x)  # the backward culprit
    return np.sum(y * 3.0)


RUNS = {
    "gradient": lambda f: gradient(f, V),
    "withgradient": lambda f: withgradient(f, V),
    "back": lambda f: back(f(param(V))),
    "jitted": lambda f: gradient(jit(f), V),
    "jit of gradient": lambda f: jit(lambda x: gradient(f, x)[0])(V),
    "nested": lambda f: gradient(lambda x: np.sum(gradient(f, x)[0] * x), V),
}


@pytest.mark.parametrize("run", RUNS)
def test_the_first_value_that_is_not_finite_is_named(run):
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(tracker.NonFiniteError, match=r"sqrt gave nan at \[1\].*given -1\.0") as e,
        nan_check(),
    ):
        RUNS[run](forward_nan)
    assert f"test_debug.py:{line_of('# the forward culprit')}" in str(e.value)


@pytest.mark.parametrize("run", RUNS)
def test_the_first_cotangent_that_is_not_finite_is_named(run):
    with (
        pytest.raises(
            tracker.NonFiniteError, match=r"the derivative of sqrt gave inf at \[1\].*given 0\.0"
        ) as e,
        nan_check(),
    ):
        RUNS[run](backward_inf)
    assert f"test_debug.py:{line_of('# the backward culprit')}" in str(e.value)


def test_masked_and_input_nans_pass():
    def masked(x):
        return np.sum(np.where(x > 0, np.log(np.where(x > 0, x, 1.0)), 0.0))

    with nan_check():
        assert gradient(masked, V)[0].tolist() == [1.0, 0.0, 0.25]
        # what is not finite in the data is nobody's mistake
        assert np.isnan(gradient(lambda x: np.sum(x * np.nan), V, check_finite=False)[0]).all()
    with nan_check(inf=False):
        assert gradient(lambda x: np.sum(np.sqrt(x)), V)[0].tolist() == [0.5, np.inf, 0.25]


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_data_that_is_not_finite_is_named_if_the_loss_is_not(wrap, bad):
    data = np.array([1.0, bad, 2.0])

    def loss(w, data):
        shifted = data - w  # the first use
        return np.nansum(np.where(np.isfinite(shifted), shifted, 0.0)) + np.sum(shifted * 2.0)

    for call in (
        lambda: gradient(wrap(loss), 1.0, data),
        lambda: tracker.value_and_grad(wrap(lambda w: loss(w, data)))(1.0),
    ):
        with (
            pytest.raises(
                tracker.NonFiniteError, match=rf"subtract .*data with {bad} at \[1\]"
            ) as e,
            nan_check(),
        ):
            call()
        assert f"test_debug.py:{line_of('# the first use')}" in str(e.value)


def test_nan_check_suspends_native_code():
    f = jit(lambda x: np.sqrt(x - 1.0) * 0.0)
    with np.errstate(invalid="ignore"):
        f(V)
        with pytest.raises(tracker.NonFiniteError, match="sqrt gave nan"), nan_check():
            f(V)
        slow = f.cache_info().slow
        assert np.isnan(f(V)[1])
        assert f.cache_info().slow == slow

    @jit
    def doubled(x):
        x *= 2.0
        return np.sum(x)

    x = np.ones(2)
    with nan_check():
        assert doubled(x) == 4.0
    assert x.tolist() == [2.0, 2.0]


def test_nan_check_is_per_thread():
    found = []

    def other():
        with np.errstate(all="ignore"):
            found.append(gradient(backward_inf, V)[0])

    with nan_check():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert found[0][1] == np.inf


# Tapes --------------------------------------------------------------------------------------------


def test_tape():
    x = param([1.0, 2.0])
    y = np.sum(np.sin(x) * 3.0)
    shown = tape(y)
    assert str(shown).splitlines() == [
        "a: f64[2] = param",
        "b: f64[2] = sin a",
        "c: f64[2] = multiply b 3.0",
        "d: f64[] = sum c  axis=(0,), keepdims=False",
        "4 values, 56 bytes alive",
    ]
    assert (shown.values, shown.live_bytes) == (4, 56)
    back(y)
    assert str(tape(y)) == "a: f64[] = freed by back\n1 value, 8 bytes alive"
    with pytest.raises(tracker.NotTrackedError, match="no tape behind a plain float"):
        tape(2.0)

    ones = np.ones(2)

    def inside(x):
        assert "argument" in str(tape(x * ones))
        assert "<f64[2]>" in str(tape(x * ones))
        return np.sum(x)

    gradient(inside, V[:2])


def test_calls_with_rules_are_values_like_others():
    @tracker.custom_gradient
    def both(x, y):
        return (x * y, x + y), lambda d: (d[0] * y + d[1], d[0] * x + d[1])

    a, b = both(param(V), 2.0)
    shown = str(tape(np.sum(a * b)))
    assert "b: (f64[3], f64[3]) = both a\n" in shown
    assert "pick b  at=1" in shown


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: lambda *a: gradient(f, *a)])
def test_everything_can_be_drawn_and_explained(wrap, tmp_path):
    matrix = np.eye(20) + 0.1
    for f, x in [
        (lambda r: tracker.scan(lambda c, k: (np.sin(c * r) + k, c), 1.0, V)[0], 2.0),
        (lambda x: tracker.while_loop(lambda c: c < 100.0, lambda c: c * c, x), 3.0),
        (lambda x: tracker.cond(x > 0, lambda v: v * v, lambda v: -v, x), 3.0),
        (lambda a: np.sum(np.linalg.solve(a, np.ones(20)) ** 2), matrix),
        (lambda a: np.sum(np.linalg.svd(a)[1]), matrix),
        (lambda a: np.sum(tracker.vmap(lambda row: np.tanh(row) @ row)(a)), matrix),
        (lambda x: 1.0, 2.0),
    ]:
        native = jit(wrap(f))
        native(x)
        assert "result" in texts(draw(native, tmp_path / "picture.svg"))
        assert "result" in texts(draw(f, tmp_path / "picture.svg", x))
        assert "memory:" in explain(native, x)
        with nan_check():
            native(x)


def test_shared_arrays_count_once():
    x = param(np.ones(1000))
    assert tape(np.reshape(x, (10, 100))).live_bytes == 8000


# Pictures -----------------------------------------------------------------------------------------


@tracker.custom_gradient(host=True)
def outside(x):
    """What no compiler sees."""
    return np.tanh(x), lambda dy: (dy * (1 - np.tanh(x) ** 2),)


def network(x, w, b):
    h = np.tanh(x * w + b)
    s = np.sum(h * np.exp(-(x**2)))
    return s * np.mean(outside(x)) if s > 0 else s


SVG = "{http://www.w3.org/2000/svg}"


def texts(path):
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{SVG}svg"
    return " ".join(e.text or "" for e in root.iter(f"{SVG}text"))


def test_draw(tmp_path):
    path = tmp_path / "picture.svg"
    assert draw(np.sum(np.sin(param(V)) @ np.ones((3, 2))), path) == path
    shown = texts(path)
    for word in ("tape", "param", "sin", "matmul", "sum", "f64[3]"):
        assert word in shown
    draw(network, path, X, X, X)
    shown = texts(path)
    for word in ("network", "tanh", "guard", "tanh", "argument", "result"):
        assert word in shown
    f = jit(lambda *args: withgradient(network, *args))
    f(X, X, X)
    draw(f, path)
    shown = texts(path)
    for word in (
        "what runs",
        "loop over 1000",
        "outside",
        "host=True",
        "8 kB",
        "guard",
        "test_debug.py",
    ):
        assert word in shown
    large = np.linspace(0.1, 1.0, 20_000)
    f(large, large, large)
    draw(f, path, large, large, large)
    assert all(word in texts(path) for word in ("outside", "host=True", "loop over 20000"))
    product = jit(lambda a, b: np.tanh(a @ b))
    draw(product, path, np.ones((50, 40)), np.ones((40, 30)))
    assert "product" in texts(path)
    with pytest.raises(tracker.UnsupportedError, match="draw got a float"):
        draw(2.0, path)


def test_large_pictures_are_truncated(tmp_path):
    x = param(1.0)
    for _ in range(500):
        x = np.sin(x)
    assert "the last 400 of 501" in texts(draw(x, tmp_path / "long.svg"))


def words_of(picture):
    return " ".join(e.text or "" for e in ElementTree.fromstring(picture).iter(f"{SVG}text"))


def test_notebooks_show_traces_and_tapes():
    traced = tracker.trace(lambda x: np.sum(np.sin(x) * 2.0), V)
    assert repr(traced) == str(traced) and repr(traced).startswith("function function")
    shown = words_of(traced._repr_svg_())
    for word in ("argument", "f64[3]", "sin", "multiply 2.0", "sum", "result"):
        assert word in shown
    path = ElementTree.tostring(ElementTree.fromstring(traced._repr_svg_())).decode()
    assert f"test_debug.py:{line_of('np.sin(x) * 2.0), V)')}" in path
    y = np.sum(np.sin(param(V)))
    shown = tape(y)
    assert all(word in words_of(shown._repr_svg_()) for word in ("tape", "param", "sin", "sum"))
    del y
    assert shown._repr_svg_() is None  # a picture keeps no tape alive
    long = tracker.trace(lambda x: sum(np.sin(x * k) for k in range(99)), 2.0)
    assert long._repr_svg_() is None and "sin" in repr(long)
    optimised = jit(lambda x: np.sin(x) * 2.0).ir(V)
    assert repr(optimised).startswith("function") and not hasattr(optimised, "_repr_svg_")


def test_traces_can_be_drawn(tmp_path):
    path = draw(tracker.trace(lambda x: np.sin(x) * 2.0, V), tmp_path / "picture.svg")
    assert "sin" in texts(path) and "result" in texts(path)


def test_boxes_do_not_overlap():
    rng = np.random.default_rng(0)
    nodes = [Node([f"node {k}", "x" * int(rng.integers(1, 20))], "op") for k in range(60)]
    edges = [
        Edge(nodes[i], nodes[j]) for j in range(1, 60) for i in set(rng.integers(0, j, 2).tolist())
    ]
    picture = arrange(nodes, edges)
    for a in nodes:
        assert a.width / 2 - 1e-6 <= a.x <= picture.width - a.width / 2 + 1e-6
        for b in nodes:
            if a is not b:
                apart_x = abs(a.x - b.x) >= (a.width + b.width) / 2 - 1e-6
                assert apart_x or abs(a.y - b.y) >= (a.height + b.height) / 2 - 1e-6
    assert all(edge.start.y < edge.end.y for edge in edges)


def test_dot():
    assert dot(lambda x: np.sin(x) * 2.0, V).startswith('digraph "function" {')


# Explain ------------------------------------------------------------------------------------------


def test_explain_accounts_for_what_runs():
    f = jit(lambda x, w: np.sum(np.tanh(x * w)) * x)
    text = explain(f, X, X)
    first, second = re.findall(r"kernel over 1000, level \d+: (.*)", text)
    assert "tanh" in first
    assert "folds sum" in first
    assert "multiply" in second
    assert "reads 16,000 bytes, writes 0 bytes, 3,000 operations" in text
    assert "reads 8,000 bytes, writes 8,000 bytes, 1,000 operations" in text
    assert "memory: 16,000 bytes of arguments, 8,000 of results, at most" in text
    assert "lines:" in text
    assert "test_debug.py" in text
    assert "llvm codegen" in text


def test_explain_lists_materialized_values():
    def f(a):
        r = np.exp(np.sin(np.tanh(a)))
        return np.sum(np.outer(r, r) * np.outer(a, r), axis=1)

    text = jit(f).explain(np.linspace(0.0, 1.0, 300))
    assert re.search(r"kept: .*2,400 bytes\): the loop over 300x300 reads it", text)
    with_host = jit(lambda x: np.sum(outside(np.sin(x)) * x))
    small = with_host.explain(X)
    assert "one native call\n  host: outside" in small
    large = np.linspace(0.0, 1.0, 20_000)
    assert "compiled when they first run" in with_host.explain(large)
    with_host(large)
    assert "2 native segment(s) between 1 host call(s)\n" in with_host.explain(large)


def test_explain_refuses():
    with pytest.raises(tracker.UnsupportedError, match="explain got a function that is not comp"):
        explain(network, X)


def test_writes_of_a_compiled_function_in_nan_check():
    def f(x, y):
        y *= 2.0
        if y[0] > 3.0:
            raise ValueError("large")
        return x + 0.0

    g = jit(f)
    for first in (1.0, 2.0):
        for pair in (lambda v: (v, v), lambda v: (v[1:], v), lambda v: (v.copy(), v)):
            ours, plain = np.array([first, 1.0, 0.5]), np.array([first, 1.0, 0.5])
            with nan_check():
                if first > 1.0:
                    with pytest.raises(ValueError, match="large"):
                        g(*pair(ours))
                    with pytest.raises(ValueError, match="large"):
                        f(*pair(plain))
                else:
                    np.testing.assert_array_equal(g(*pair(ours)), f(*pair(plain)))
            np.testing.assert_array_equal(ours, plain)


def test_functions_compiled_in_nan_check_run_natively_afterwards():
    """Another thread may enter machine code for a function that is suspended."""
    f = tracker.jit(lambda x: np.sum(np.sin(x)))
    f(np.ones(3)), f(np.ones(3))
    with nan_check(), nan_check():
        thread = threading.Thread(target=lambda: [f(np.ones(4)) for _ in range(3)])
        thread.start()
        thread.join()
    slow = f.cache_info().slow
    for n in (3, 4, 3, 4):
        assert f(np.ones(n)) == pytest.approx(n * np.sin(1.0))
    assert f.cache_info().slow == slow
