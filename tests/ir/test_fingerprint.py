"""Equal functions have one fingerprint in any process; different functions have different ones."""

import fresh_python
import numpy as np
import pytest

import tracker
from tracker.control import scan
from tracker.ir.fingerprint import fingerprint
from tracker.ir.graph import Const, Eqn, Function, Guard, Var
from tracker.ir.op import OPS
from tracker.ir.text import parse
from tracker.support.structs import replace

TEXT = """
function f(x: f64[3], k: f64[]) {
  a: f64[3] = multiply x 2.0
  b: f64[] = sum a {axis=(0), keepdims=False}
  c: bool[] = less b k
  guard bool c == True
  return (a, b)
}
"""
ALTERED = {
    "op": ("multiply x", "add x"),
    "literal": ("2.0", "3.0"),
    "sign of zero": ("2.0", "-0.0"),
    "zero": ("2.0", "0.0"),
    "class of a literal": ("2.0", "f64(2.0)"),
    "an integer": ("2.0", "2"),
    "a NaN": ("2.0", "nan"),
    "operand": ("less b k", "less k b"),
    "param": ("keepdims=False", "keepdims=True"),
    "expected": ("== True", "== False"),
    "order of results": ("return (a, b)", "return (b, a)"),
    "fewer results": ("return (a, b)", "return (b)"),
    "shape": ("f64[3]", "f64[4]"),
    "dtype": ("f64[3]", "f32[3]"),
}


def text(*change):
    altered = TEXT.replace(*change) if change else TEXT
    return altered.replace("b: f64[]", "b: f64[1]") if "keepdims=True" in altered else altered


@pytest.mark.parametrize("change", ALTERED.values(), ids=ALTERED)
def test_a_change_changes_the_fingerprint(change):
    assert text(*change) != TEXT
    assert fingerprint(parse(text(*change))) not in (None, fingerprint(parse(TEXT)))


def test_all_changes_have_different_fingerprints():
    marks = {fingerprint(parse(text(*change))) for change in ALTERED.values()}
    assert len(marks) == len(ALTERED)


def test_names_and_source_lines_are_ignored():
    renamed = TEXT.replace(" a:", " some:").replace("sum a", "sum some").replace("(a,", "(some,")
    assert fingerprint(parse(renamed)) == fingerprint(parse(TEXT))
    function = parse(TEXT)
    moved = tuple(replace(step, where="elsewhere.py:7") for step in function.body)
    assert fingerprint(replace(function, body=moved, name="g")) == fingerprint(function)


def test_inputs_and_captures_differ():
    function = parse(TEXT)
    first, second = function.inputs
    captured = replace(function, inputs=(first,), captures=(second,))
    assert fingerprint(captured) != fingerprint(function)


def looped(x, factor=0.5):
    return np.sum(scan(lambda c, row: (c * row + factor, None), x[0], x)[0])


def test_nested_functions_are_covered():
    x = np.ones((5, 3))
    marks = [fingerprint(tracker.trace(lambda x, k=k: looped(x, k), x)) for k in (0.5, 0.5, 0.7)]
    assert marks[0] == marks[1] != marks[2]
    assert None not in marks


def test_opaque_params_and_undeclared_ops_have_no_fingerprint():
    x, out = Var(parse(TEXT).inputs[0].type), Var(parse(TEXT).inputs[0].type)
    opaque = Eqn(OPS["sin"], (x,), {"where": object()}, out)
    assert fingerprint(Function("f", (x,), (), (opaque,), (out,))) is None
    other = replace(OPS["sin"], method=None)  # of that name, and not the one that is declared
    undeclared = Eqn(other, (x,), {}, out)
    assert fingerprint(Function("f", (x,), (), (undeclared,), (out,))) is None


def test_unusual_literals():
    def of(value):
        out = Var(Const.of(value).type)
        guard = Guard(Const.of(True), "bool", True)
        step = Eqn(OPS["positive"], (Const.of(value),), {}, out)
        return fingerprint(Function("f", (), (), (guard, step), (out,)))

    values = [1, 1.0, 1 + 0j, np.float32(1), np.int8(1), 2**80, float("inf"), complex(0, -0.0), 0j]
    marks = [of(value) for value in values]
    assert None not in marks
    assert len(set(marks)) == len(values)


def test_the_fingerprint_is_the_same_in_other_processes():
    code = (
        "import numpy as np, tracker; from tracker.ir.fingerprint import fingerprint; "
        "f = lambda x: tracker.gradient(lambda y: np.sum(np.tanh(y) * 0.3)**2, x); "
        "print(fingerprint(tracker.trace(f, np.ones(4))))"
    )
    found = {fresh_python.run(code, PYTHONHASHSEED=seed).stdout for seed in ("1", "2")}
    assert len(found) == 1
    assert "None" not in found.pop()
