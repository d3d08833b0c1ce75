"""Passes: how they change the text of programs; the driver."""

import ir_programs as programs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracker.errors import IRError
from tracker.ir.graph import Eqn, Function, Var
from tracker.ir.op import OPS
from tracker.ir.passes.common_subexpressions import common_subexpressions
from tracker.ir.passes.dead_code import dead_code
from tracker.ir.passes.expand import expand
from tracker.ir.passes.manager import Pass, run
from tracker.ir.passes.simplify import simplify
from tracker.ir.text import parse
from tracker.ir.types import Type
from tracker.support.structs import replace

ALL = [simplify, common_subexpressions, dead_code]


# What a pass makes of a program: lines that it drops begin with -, lines that it writes with +.
CHANGES = {
    "dead code": (dead_code, """
  function f(x: f64[3]) {
    a: f64[3] = sin x
    b: f64[3] = cos x
-   c: f64[3] = negative a
    d: f64[] = sum b {axis=(0,), keepdims=False}
    e: bool[] = greater d 0.0
    guard bool e == True  # m.py:1
-   g: f64[3] = exp c
    return (a)
  }"""),
    "dead code in nested functions": (dead_code, """
  function f(x: f64[3]) {
-   function unused(a: f64[3]) {
-     return (a)
-   }
    return (x)
  }"""),
    "common subexpressions": (common_subexpressions, """
  function f(x: f64[3], n: i64[]) {
    a: f64[3] = multiply x 2.0
-   b: f64[3] = multiply x 2.0
    c: f64[3] = multiply 2.0 x
    d: f64[] = sum a {axis=(0,), keepdims=False}
    guard int n == 3
-   e: f64[] = sum b {axis=(0,), keepdims=False}
-   g: f64[1] = sum b {axis=(0,), keepdims=True}
+   g: f64[1] = sum a {axis=(0,), keepdims=True}
-   guard int n == 3
    guard int n == 4
-   return (a, b, c, d, e, g)
+   return (a, a, c, d, d, g)
  }"""),
    "literals are common only if type and bits are": (common_subexpressions, """
  function f(x: f64[3]) {
    a: f64[3] = add x 0.0
    b: f64[3] = add x -0.0
    c: f64[3] = add x 0
    d: f64[3] = add x f64(0.0)
    e: f64[3] = add x nan
-   g: f64[3] = add x nan
    h: f64[3] = add x nan:010000000000f87f
-   return (a, b, c, d, e, g, h)
+   return (a, b, c, d, e, e, h)
  }"""),
    "constant folding": (simplify, """
  function f(x: f64[3]) {
-   a: f64[] = multiply f64(2.0) 3.0
-   b: f64[] = exp a
-   c: float = add 1.0 2
-   d: int = multiply 3 4
-   e: bool[] = greater b 1
-   guard bool e == True
-   guard bool e == False
+   guard bool bool(True) == False
    guard int f64(nan) == 1
-   g: f64[3] = broadcast_to a {shape=(3,)}
+   g: f64[3] = broadcast_to f64(6.0) {shape=(3,)}
-   h: f64[] = divide f64(1.0) 0.0
    i: float = divide 1.0 0.0
-   j: f32[] = divide f32(0.0) f32(0.0)
-   k: f64[3] = multiply x c
+   k: f64[3] = multiply x 3.0
-   return (b, d, h, i, j, k)
+   return (f64(403.4287934927351), 12, f64(inf), i, f32(nan:0000c0ff), k)
  }"""),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name):
    each, text = CHANGES[name]
    lines = text.strip("\n").split("\n")
    before, after = (
        parse("\n".join(line[2:] for line in lines if line[0] in marks)) for marks in (" -", " +")
    )
    assert str(run(before, [each], check=True)) == str(after)


def test_passes_go_into_nested_functions():
    op = replace(OPS["sin"], name="call", infer=lambda x, *, body: x)
    inner = parse("function g(a: f64[3]) {\n b: f64[3] = sin a\n return (a)\n}")
    x, y = Var(Type((3,), np.dtype(float)), "x"), Var(Type((3,), np.dtype(float)), "y")
    function = Function("f", (x,), (), (Eqn(op, (x,), {"body": inner}, y),), (y,), {"g": inner})
    after = run(function, ALL, check=True)
    (eqn,) = after.eqns
    assert eqn.params["body"] is after.functions["g"]
    assert not after.functions["g"].body and inner.body


@pytest.mark.parametrize("each", [common_subexpressions, simplify])
def test_opaque_params_are_neither_merged_nor_evaluated(each):
    op = replace(OPS["sin"], evaluate=lambda x, *, rng: rng.random())
    function = parse(
        "function f() {\n a: f64[] = sin f64(1.0)\n b: f64[] = sin f64(1.0)\n return (a, b)\n}"
    )
    rng = np.random.default_rng()
    body = tuple(Eqn(op, e.operands, {"rng": rng}, e.out) for e in function.eqns)
    function = replace(function, body=body)
    assert each(function) is function


def test_the_driver_verifies():
    function = parse("function f(x: f64[3]) {\n a: f64[3] = sin x\n return (x)\n}")
    broken = Pass("broken", lambda f: replace(f, outputs=(Var(f.inputs[0].type, "v"),)))
    with pytest.raises(IRError, match="v is used"):
        run(function, [dead_code, broken], check=True)
    assert str(run(function, [dead_code])) == "function f(x: f64[3]) {\n  return (x)\n}"
    assert run(function, [broken]).outputs[0].name == "v"


def test_a_pass_is_skipped_on_its_own_result():
    asked = []
    look = Pass("look", lambda f: asked.append(f) or f)
    anew = Pass("anew", lambda f: replace(f, body=f.body))
    f = parse("function f(x: f64[3]) {\n a: f64[3] = sin x\n return (a)\n}")
    run(f, [look, look, dead_code, look, anew, look])
    assert asked[0] is f and len(asked) == 2


@pytest.mark.parametrize("each", ALL)
def test_an_unchanged_function_is_returned_itself(each):
    function = parse("function f(x: f64[3]) {\n a: f64[3] = sin x\n return (a)\n}")
    assert each(function) is function


@settings(deadline=None, max_examples=10 * settings.default.max_examples)
@given(programs.programs(), st.integers(0, 2**32))
def test_no_pass_changes_a_value(function, seed):
    values = programs.arguments(function, seed)
    expected, before = programs.evaluate(function, values), str(function)
    for each in ALL:
        function = run(function, [each], check=True)
        for a, b in zip(expected, programs.evaluate(function, values), strict=True):
            assert programs.same_bits(a, b), f"{each.name}: {a} became {b}\n{before}\n{function}"


def test_an_expansion_of_another_type_is_an_error():
    """Compiled code would read its bytes as what they are not."""
    said = Var(Type((3,), np.dtype(np.complex64)))
    x = Var(Type((3,), np.dtype(np.float64)))
    params = {"axis": 0, "inverse": False, "norm": "backward"}
    function = Function("f", (x,), (), (Eqn(OPS["fourier"], (x,), params, said, ""),), (said,))
    with pytest.raises(IRError, match=r"fourier gives c64\[3\], and is expanded to c128\[3\]"):
        expand(function)
