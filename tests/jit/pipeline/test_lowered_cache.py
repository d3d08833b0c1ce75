"""A lowered program is found by the next process, and never by another program."""

import json
import os

import fresh_python
import numpy as np
import pytest
from tables import functions_of

import tracker
from tracker.control import scan
from tracker.jit.codegen.artifact import deserialize
from tracker.jit.llvm import engine, object_cache
from tracker.jit.pipeline import lowered_cache
from tracker.jit.runtime import blas
from tracker.jit.runtime.compile_queue import drain

X = np.linspace(0.1, 1.7, 12).reshape(3, 4)
W = np.linspace(-1.0, 1.0, 8).reshape(4, 2)


@pytest.fixture
def made(monkeypatch):
    """What programs were lowered by the compiler, and not found."""
    programs = []
    real = lowered_cache.Program.lower

    def lower(program, bodies):
        programs.append(program)
        return real(program, bodies)

    monkeypatch.setattr(lowered_cache.Program, "lower", lower)
    return programs


def programs(folder):
    return sorted(folder.glob("*.program"))


class Functions:
    def straight(x, w):
        return np.sum(np.tanh(x) * np.exp(-x)) * 0.5

    def products(x, w):
        return np.sum(np.tanh(x @ w) ** 2)

    def solved(x, w):
        return np.sum(np.linalg.solve(w.T @ w + np.eye(2), x[:2, 0]))

    def looped(x, w):
        return np.sum(scan(lambda c, row: (np.sin(c) * 0.3 + row, None), x[0], x)[0])

    def repeated(x, w):
        y = x[0]
        for row in range(40):
            y = np.sin(y) * 0.9 + x[row % 3]
        return np.sum(y)

    def guarded(x, w):
        return np.sum(x) if np.sum(x) > 0.0 else np.sum(x * x)

    def gathered(x, w):
        return np.sum(x[:, np.array([2, 0, 2])] ** 2)

    def captured(x, w):
        return np.sum(x * X)

    def written(x, w):
        y = x * 2.0
        y[1:, ::2] = 3.0 * x[:2, 1::2]
        return np.sum(y * y)


def gradient(f):
    return tracker.jit(lambda x, w: tracker.withgradient(lambda y: f(y, w), x))


def run(fast, *args):
    first = fast(*args)
    drain()
    return first, fast(*args)


def assert_same(a, b):
    for one, other in zip(a, b, strict=True):
        assert np.array_equal(one[0], other[0])
        assert np.array_equal(one[1], other[1])


@functions_of(Functions)
def test_a_known_program_is_not_lowered_again(folder, made, f):
    first = run(gradient(f), X, W)
    assert len(made) == 1
    assert len(programs(folder)) == 1
    assert_same(run(gradient(f), X, W), first)
    assert len(made) == 1


def long_looped(x, w):
    """A loop that runs in machine code while it is traced."""

    def step(c, row):
        for _ in range(80):
            c = np.sin(c) * 0.9 + row @ w
        return c, np.sum(c)

    last, sums = scan(step, x[0, :2], np.concatenate([x] * 60))
    return np.sum(last) + np.sum(sums**2)


def test_bodies_that_two_programs_have_are_in_the_file(folder):
    first = run(gradient(long_looped), X, W)
    bodies = [object_cache.read(file.name, deserialize).bodies for file in programs(folder)]
    assert any(bodies)
    assert_same(run(gradient(long_looped), X, W), first)


LONG_LOOP = """
import numpy as np, tracker
from tracker.jit.runtime.compile_queue import drain
def f(x):
    for _ in range(600):
BODY
    return np.sum(x * SCALE)
g = tracker.jit(lambda x: tracker.gradient(f, x))
g(np.ones(3))
drain()
"""


def test_a_body_that_a_known_loop_has_is_apart_in_another_program(folder):
    """It is compiled once for both."""
    counts = []
    for scale in ("2.0", "3.0", "4.0"):
        body = "        x = np.sin(x) * 0.9\n" * 160
        fresh_python.run(LONG_LOOP.replace("BODY", body).replace("SCALE", scale))
        found = [object_cache.read(file.name, deserialize) for file in programs(folder)]
        counts.append(sum(bool(program.bodies) for program in found))
    assert counts[1] > counts[0] > 0
    assert counts[2] - counts[1] == counts[1] - counts[0]


def test_different_programs_are_lowered(folder, made, monkeypatch):
    calls = [
        (gradient(Functions.straight), X, W),
        (gradient(Functions.straight), X[:2], W),  # another shape
        (gradient(Functions.straight), X.astype(np.float32), W),  # dtype
        (gradient(Functions.straight), np.asfortranarray(X), W),  # layout
        (gradient(Functions.straight), X[:, ::2], W),
        (gradient(lambda x, w: Functions.straight(x, w) * 2.0), X, W),  # program
        (tracker.jit(lambda x, w: Functions.straight(x, w)), X, W),
    ]
    for count, (fast, *args) in enumerate(calls, 1):
        run(fast, *args)
        assert len(made) == count
    changes = [
        (lowered_cache, "source_fingerprint", lambda: "other files"),
        (engine, "host_description", lambda: "another machine"),
        (np, "__version__", "99"),
    ]
    for count, (place, name, value) in enumerate(changes, len(calls) + 1):
        monkeypatch.setattr(place, name, value)
        run(gradient(Functions.straight), X, W)
        assert len(made) == count
    with tracker.config(threads=3):
        run(gradient(Functions.straight), X, W)
    assert len(made) == count + 1


def test_a_captured_array_is_not_part_of_the_program(folder, made):
    def over(array):
        return tracker.jit(lambda x: np.sum(x * array))

    first, second = X + 1.0, X * 3.0
    assert run(over(first), X)[1] == pytest.approx(np.sum(X * first))
    assert run(over(second), X)[1] == pytest.approx(np.sum(X * second))
    assert len(made) == 1


def test_another_blas_is_another_program(folder, made, monkeypatch):
    run(gradient(Functions.products), X, W)
    run(gradient(Functions.straight), X, W)
    monkeypatch.setenv("TRACKER_BLAS", "off")
    assert blas.find() is None
    run(gradient(Functions.straight), X, W)
    assert len(made) == 2  # it has no use for BLAS
    run(gradient(Functions.products), X, W)
    assert len(made) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:-4] + b"\0\1\2\3",
        lambda data: b"{}\n" + data,
        lambda data: os.urandom(4096),
    ],
)
def test_a_damaged_file_is_replaced(folder, made, damage):
    expected = run(gradient(Functions.straight), X, W)
    (path,) = programs(folder)
    good = path.read_bytes()
    path.write_bytes(damage(good))
    assert_same(run(gradient(Functions.straight), X, W), expected)
    assert len(made) == 2
    assert path.read_bytes() == good


@pytest.mark.parametrize("fact", ["lengths", "modules", "symbols", "scratch"])
def test_an_incomplete_file_is_replaced(folder, made, fact):
    expected = run(gradient(Functions.straight), X, W)
    (path,) = programs(folder)
    good = path.read_bytes()
    header, _, data = good.partition(b"\n")
    facts = json.loads(header)
    del facts[fact]
    path.write_bytes(json.dumps(facts).encode() + b"\n" + data)
    assert_same(run(gradient(Functions.straight), X, W), expected)
    assert len(made) == 2
    assert path.read_bytes() == good


def test_dumped_or_checked_programs_run_every_step(folder, made, capsys):
    run(gradient(Functions.straight), X, W)
    with tracker.config(dump="ir"):
        run(gradient(Functions.straight), X, W)
    assert "function" in capsys.readouterr().err
    with tracker.config(check=True):
        run(gradient(Functions.straight), X, W)
    assert len(made) == 3


def test_a_cached_program_can_be_explained(folder, made):
    texts = []
    for _ in range(2):
        fast = gradient(Functions.products)
        run(fast, X, W)
        lines = fast.explain(X, W).splitlines()
        texts.append([line for line in lines if "times:" not in line])
        assert "define" in fast.llvm(X, W)
        assert str(fast.ir(X, W)).startswith("function")
    assert texts[0] == texts[1]
    assert len(made) == 1


def test_programs_with_host_calls_have_no_file(folder):
    def hosted(x):
        return np.sum(x.astype(np.longdouble) * 2)

    fast = tracker.jit(hosted)
    assert run(fast, X)[1] == pytest.approx(hosted(X))
    assert "host:" in fast.explain(X)
    assert not programs(folder)


def test_without_a_folder_there_are_no_files(folder, monkeypatch, made):
    monkeypatch.setenv("TRACKER_CACHE", "0")
    run(gradient(Functions.straight), X, W)
    run(gradient(Functions.straight), X, W)
    assert len(made) == 2
    assert not folder.exists()


PROGRAM = """
import sys, numpy as np, tracker
f = tracker.jit(lambda x: tracker.withgradient(lambda y: np.sum(np.tanh(y @ y) * y), x))
x = np.linspace(0.0, 1.0, 400).reshape(20, 20)
for _ in range(10):  # the first ones are interpreted
    value, (gradient,) = f(x)
late = LATE
print(value.tobytes(), gradient.tobytes(), [m for m in late if f"tracker.{m}" in sys.modules])
"""
LATE = ["jit.schedule.plan", "jit.codegen.lower", "jit.scalar.real", "ir.passes.simplify"]
LOOP = PROGRAM.replace("np.sum(np.tanh(y @ y) * y)", "repeated(y)").replace(
    "f = ",
    """
def repeated(y):
    for _ in range(3000):
        y = np.tanh(y @ y) * y
    return np.sum(y)
f = """,
)


@pytest.mark.parametrize(
    ("program", "late"),
    [(PROGRAM, [*LATE, "jit.pipeline.partition"]), (LOOP, LATE)],
    ids=["array ops", "a loop run natively"],
)
def test_the_second_process_does_not_import_the_compiler(folder, program, late):
    code = program.replace("LATE", str(late))
    outputs = [fresh_python.run(code).stdout for _ in range(2)]
    assert outputs[0].endswith(f"{late}\n")
    assert outputs[1] == outputs[0].replace(f"{late}\n", "[]\n")
