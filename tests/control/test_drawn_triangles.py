"""Loops over triangles, drawn: jitted as plain, and gradients as eager ones and as differences."""

import numpy as np
import pytest
from compiled import agree
from drawn_code import function_of
from hypothesis import given, settings
from hypothesis import strategies as st

import tracker
from tracker.control.python_loops import iterator, rolling
from tracker.control.python_loops.body import growing_values

N = 9
RNG = np.random.default_rng(3)
SQUARE, OTHER, VECTOR = (RNG.uniform(0.5, 1.5, shape) for shape in ((N, N), (N, N), N))

RANGES = [f"range({N})", f"range(1, {N})", f"range({N} - 1, -1, -1)", f"range({N} - 2, 0, -1)"]
RANGES += [f"range(0, {N}, 2)", f"range({N} - 1, 0, -2)"]
PARTS = [":i", ": i + 1", "i:", "i + 1 :", f"{N} - i :", "1:i"]
VALUES = [
    "x[{p}] * 0.3",
    "a[i, {p}] * x[i]",
    "np.sin(a[{p}, i])",
    "b[i] @ b[:, {p}] / 9",
    "b[{p}] @ b[i] / 9",
    "x @ b[:, {p}] / 9",
    "np.sum(x[{p}]) / 9",
    "x[{p}] @ b[{p}, i] / 9",
    "0.25",
]
PLACES = ["a[i, {p}]", "a[{p}, i]", "y[{p}]", "a[0, {p}]"]
WRITES = ["=", "+=", "-=", "*="]


@st.composite
def loops(draw):
    """The text of a function of a, b and x with a loop over a triangle."""
    lines = ["def drawn(a, b, x):", f"    y, s = np.ones({N}), 0.0"]
    lines.append(f"    for i in {draw(st.sampled_from(RANGES))}:")
    if draw(st.booleans()):
        lines.append("        s = s * 0.5 + np.sum(x[{p}] * a[i, {p}])")
    for _ in range(draw(st.integers(1, 3))):
        place, write, value = (draw(st.sampled_from(xs)) for xs in (PLACES, WRITES, VALUES))
        lines.append(f"        {place} {write} {value}")
    if draw(st.booleans()):
        lines += ["        for j in range(i):", f"            {draw(st.sampled_from(INNER))}"]
    lines.append("    return np.sum(a * a) + np.sum(np.cos(y)) + s")
    part = draw(st.sampled_from(PARTS))
    return "\n".join(lines).replace("{p}", part)


INNER = ["a[i, j] -= 0.1 * (a[i, :j] @ b[:j, j])", "y[: j + 1] += b[i, j] * b[j, : j + 1]"]


INNER_RANGES = ["range(i)", "range(i + 1)", f"range(i, {N})", f"range(i + 1, {N})"]
INNER_RANGES += ["range(i - 1, -1, -1)", f"range({N} - 1, i, -1)", f"range({N})"]
INNERMOST = ["range(j)", "range(i)", f"range(j, {N})", "range(j + 1)", f"range(j + 1, {N})"]
STARTS = ["0.0", "0", "1.5", "x[0]", "np.float32(0.5)"]
TERMS = ["a[i, j] * x[j]", "x[i - j]", "b[j, i] * y[j]", "0.1 * j * x[0]", "y[j]"]
READS = ["y[i] = t * 0.1", "y[i] = (x[i] - t) / b[i, i]", "a[i] = x * t", "s += np.sqrt(1 + t * t)"]


@st.composite
def sums(draw):
    """The text of a function of a, b and x with sums in a loop over a triangle."""
    lines = ["def drawn(a, b, x):", f"    y, s = np.ones({N}), 0.0"]
    lines.append(f"    for i in {draw(st.sampled_from(RANGES[:4]))}:")
    lines.append(f"        t = {draw(st.sampled_from(STARTS))}")
    lines.append(f"        for j in {draw(st.sampled_from(INNER_RANGES))}:")
    term = draw(st.sampled_from(TERMS))
    if draw(st.booleans()):
        lines.append("            u = 0.0")
        lines.append(f"            for k in {draw(st.sampled_from(INNERMOST))}:")
        lines.append("                u += b[i, k] * x[k] * 0.1")
        term = "u * x[i]"
    if draw(st.booleans()):
        lines += ["            if i == j:", "                y[j] = y[j] * 0.9"]
        lines += ["            else:", f"                t += {term}"]
    else:
        lines.append(f"            t += {term}")
    lines.append(f"        {draw(st.sampled_from(READS))}")
    lines.append("    return np.sum(a * a) + np.sum(np.cos(y)) + s")
    return "\n".join(lines)


VECTORS = ["x[{p}]", "a[{p}, i]", "a[i, {p}] * x[{p}]", "np.sin(b[{p}, 2])", "a[{p}][:, 3]"]
VECTORS += ["b[:, {p}][i, ::-1]", "np.sum(a[{p}], axis=1) / 9", "b[{p}].T[1].copy()"]
VECTORS += ["b[{p}] @ x / 9", "x @ a[:, {p}] / 9", "a[{p}, None, i][:, 0]"]
VECTORS += ["np.min(b[{p}], axis=1)", "b[i, None, {p}][0]"]
SQUARES = [
    "a[{p}, {q}] -= 0.1 * np.outer(v, w)",
    "a[{p}, {q}] += 0.1 * v[:, None] * w",
    "a[{p}, {q}] = 0.9 * a[{p}, {q}] + np.exp(-v)[..., None] * w[None] / 9",
    "a[{p}, {q}] *= np.where(b[{p}, {q}] > 1.0, 0.9, w)",
    "a[{q}, {p}] -= 0.1 * np.outer(v, w).T",
    "a[{p}, {q}][::-1, ::-1] -= 0.1 * v[:, None]",
    "a[{p}] -= 0.1 * np.outer(v, v @ a[{p}]) / 9",
    "a[:, {q}] -= 0.1 * np.outer(x, x @ a[:, {q}]) / 9",
    "a[{p}][:, 0] = v",
    "a[{p}][:, 1:3] += 0.1 * v[..., None]",
    "a[:, {q}][2] -= 0.1 * w",
    "a[{p}, {q}][:, -1] = 0.5 * v",
    "a[{p}, {q}][0] += 0.1 * w",
    "v = v.copy(); v[0] += 0.1; y[{p}] += v",
    "v = v * 0.9; v[1:] *= x[0]; y[{p}] += v",
    "m = a[{p}]; m[:, 4] *= 0.9; m[:, 4] += m[:, 5]",
    "e = np.zeros_like(v); e[0] += 0.1; y[{p}] += e * v - 0.1 * np.ones_like(v)",
    "a[{p}, {q}] -= 0.1 * a[{p}, i : i + 1] @ a[i : i + 1, {q}] / 9",
]
USES = [
    "y[{p}] += a[{p}, {q}] @ w / 9",
    "y[{q}] += v @ b[{p}, {q}] / 9",
    "y[{p}] -= a[{q}, {p}].T @ w / 9",
    "s += v @ a[{p}, {q}] @ w / 99",
    "s += np.linalg.norm(v) * np.linalg.norm(w)",
    "s += np.inner(v, v) + np.dot(w, w)",
    "s += np.max(v) * np.min(w)",
    "s += np.sum(np.max(a[{p}, {q}], axis=0)) / 9",
    "y[{p}] += np.max(b[{p}] * x, axis=1)",
    "s += np.prod(0.5 + v / (1 + v * v))",
    "s += 0.1 * np.any(v > 1.4) + 0.2 * np.all(w < 1.4)",
    "s += v[0] * w[-1] + np.sum(v[1:] * v[:-1])",
    "s += np.sum(a[{p}, {q}].T * v) + np.mean(a[{p}, {q}] * w, axis=1).sum()",
    "y += np.sum(b[{p}] * v[:, None], axis=0) / 9",
]
SECOND_PARTS = ["i + 1 :", "i:", ": i + 1", ":i", ":", "2:5"]


@st.composite
def views(draw):
    """The text of a function of a, b and x with a loop over squares, and views of them."""
    lines = ["def drawn(a, b, x):", f"    y, s = np.ones({N}), 0.0"]
    lines.append(f"    for i in {draw(st.sampled_from(RANGES))}:")
    vector, other = draw(st.sampled_from(VECTORS)), draw(st.sampled_from(VECTORS))
    lines += [f"        v = {vector}", f"        w = {other}".replace("{p}", "{q}")]
    for _ in range(draw(st.integers(1, 3))):
        lines.append(f"        {draw(st.sampled_from(SQUARES + USES))}")
    lines.append("    return np.sum(a * a) + np.sum(np.cos(y)) + s")
    part = draw(st.sampled_from(PARTS))
    second = draw(st.sampled_from([part, *SECOND_PARTS]))
    return "\n".join(lines).replace("{p}", part).replace("{q}", second)


LINES = ["a[j, {p}]", "c[j, {p}]", "c[{p}, j]", "a[{p}, j]"]
LINE_VALUES = [
    "a[j, {p}] * f",
    "np.sin(a[j, {p}]) * x[j]",
    "b[{p}, j] * a[i, {p}]",
    "c[j, {p}] - f",
]
LINE_VALUES += ["a[i, {p}] * b[j, i]", "np.log(np.abs(c[{p}, j]) + 0.5)", "a[{p}, i] * 0.1"]
ELEMENTS = ["a[j, i]", "y[j]", "c[j, 0]", "c[i, j]"]
TOTALS = ["y[i]", "s", "t", "c[i, 1]", "a[i, i]"]
NUMBERS = ["a[j, i] * x[i]", "b[i, j] * y[j]", "a[j] @ x / 9", "a[i] @ b[j] / 9", "x[j] - x[i]"]
NUMBERS += ["np.sum(a[j, {p}]) / 9", "np.max(b[j])", "(a[j, {p}] @ b[i, {p}]) / 9", "u * 0.5"]
NUMBERS += ["0.1 * (i - j) ** 2 * x[j]", "x[i] / (i + j + 1)", "np.cos(0.3 * i * j) * y[j]"]
NUMBERS += ["np.sum(a[j] @ (b[j][:, None] * x)) / 99", "(b[j][:, None] * x @ a[i])[1] / 9"]
NUMBERS += ["np.sqrt(np.abs(a[j, 0]) + 0.1)", "(b @ a[j])[2] / 9", "np.sum(b[j] * a[i]) / 9", "f"]


@st.composite
def lines_of_arrays(draw):
    """The text of a function of a, b and x with an inner loop over lines of arrays."""
    lines = ["def drawn(a, b, x):", f"    y, s, c = np.ones({N}), 0.0, b * 0.5"]
    lines += [
        f"    for i in {draw(st.sampled_from(RANGES[:4]))}:",
        "        f = x[i] * b[i, 0] * 0.1",
    ]
    lines.append(f"        t = {draw(st.sampled_from([*STARTS[:4], 'f']))}")
    lines.append(f"        for j in {draw(st.sampled_from(INNER_RANGES))}:")
    lines.append(f"            u = {draw(st.sampled_from(NUMBERS[:6]))}")
    for _ in range(draw(st.integers(1, 3))):
        write, number = draw(st.sampled_from(WRITES[:3])), draw(st.sampled_from(NUMBERS))
        line = f"{draw(st.sampled_from(LINES))} {write} {draw(st.sampled_from(LINE_VALUES))}"
        element = f"{draw(st.sampled_from(ELEMENTS))} {write} {number}"
        total = f"{draw(st.sampled_from(TOTALS))} += {number} * 0.1"
        halves = f"c[i, j] {write} {number}; c[j, i] = c[i, j] * 0.5"
        lines.append(f"            {draw(st.sampled_from([line, element, total, halves]))}")
    lines.append("        s = s * 0.5 + t * 0.1")
    lines.append("    return np.sum(np.cos(a) + np.cos(c)) + np.sum(np.cos(y)) + np.sin(s)")
    return "\n".join(lines).replace("{p}", draw(st.sampled_from([":", "2:5", *PARTS[:4]])))


SHORTER = ["[1:]", "[:-1]"]
SHORTER_SQUARES = ["[1:, 1:]", "[:-1, 1:]", "[1:, :-1]", "[:-1, :-1]"]
FUNCTIONS = ["np.sin({})", "np.sqrt(np.abs({}) + 0.1)", "{} ** 2 * 0.3", "1.0 / (1.0 + np.abs({}))"]
FUNCTIONS += ["np.log(np.abs({}) + 1.0)", "np.maximum({}, 0.6)", "({} - 0.2)", "{} * 0.5"]
JOINED = ["{} + {}", "{} - {}", "{} * {}", "{} / (1.5 + np.abs({}))"]
NOTED = ["s += np.mean(v * v)", "s = s * 0.9 + np.sum(np.cos(v))", "s += np.max(v)", "s += 0.1 * i"]


@st.composite
def trees(draw):
    """The text of a function of a, b and x with a loop over arrays that get shorter."""
    start, cuts = draw(st.sampled_from([("x", SHORTER), ("a", SHORTER_SQUARES)]))
    other = {"x": "b[0]", "a": "b"}[start]
    lines = ["def drawn(a, b, x):", f"    v, w, s = {start} * 1.1, {other} * 0.7, 0.0"]
    lines.append(
        f"    for i in {draw(st.sampled_from(['range(5)', 'range(8)', 'range(7, -1, -1)']))}:"
    )

    def expression(names):
        terms = [
            draw(st.sampled_from(FUNCTIONS)).format(name + draw(st.sampled_from(cuts)))
            for name in names
        ]
        return draw(st.sampled_from(JOINED)).format(*terms)

    if draw(st.booleans()):
        lines += [f"        u = {expression('vw')}", f"        w = {expression('ww')}"]
        lines.append("        v = u")
    else:
        lines.append(f"        v = {expression('vv')} + x[i] * 0.1")
    lines.append(f"        {draw(st.sampled_from(NOTED))}")
    lines.append("    return np.sum(np.cos(v)) + np.sin(s) + np.sum(np.cos(w))")
    return "\n".join(lines)


def copies():
    return [x.copy() for x in (SQUARE, OTHER, VECTOR)]


@pytest.fixture(autouse=True, scope="module")
def every_loop_pays():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iterator, "_MIN_TRIP_COUNT", 3)
        patch.setattr(rolling, "_MIN_EQUATIONS", 1)
        patch.setattr("tracker.control.step_runner._compile_cost", lambda body: 1)
        yield


@settings(deadline=None, max_examples=min(settings.default.max_examples // 4, 40))
@given(
    st.one_of(loops(), sums(), views(), lines_of_arrays(), trees()),
    st.sampled_from([16, growing_values.MAX_MASKED]),
)
def test_triangles(text, most_masked):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing_values, "MAX_MASKED", most_masked)
        check(function_of(text))


def check(f):
    plain, jitted = copies(), tracker.jit(f)
    try:
        want = f(*plain)
    except (IndexError, ValueError) as error:
        with pytest.raises(type(error)):
            jitted(*copies())
        return
    for _ in range(2):
        arrays = copies()
        np.testing.assert_allclose(jitted(*arrays), want, rtol=1e-12)
        for a, b in zip(arrays, plain, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    if np.isnan(want):  # the mean of nothing
        return
    eager = tracker.gradient(f, *copies())
    agree(lambda *args: tracker.gradient(f, *args), *copies(), tolerance=1e-9)
    directions = [np.cos(np.arange(x.size)).reshape(x.shape) for x in copies()]
    step = 1e-6
    sides = [
        f(*(x + sign * step * d for x, d in zip(copies(), directions, strict=True)))
        for sign in (1, -1)
    ]
    along = sum(np.sum(g * d) for g, d in zip(eager, directions, strict=True))
    np.testing.assert_allclose((sides[0] - sides[1]) / (2 * step), along, rtol=1e-4, atol=1e-4)
