"""The verifier: valid functions pass, and each broken invariant has its error."""

import ir_programs as programs
import numpy as np
import pytest
from hypothesis import given, settings

from tracker.errors import IRError
from tracker.ir.graph import Const, Eqn, Function, Guard, Var
from tracker.ir.op import OPS
from tracker.ir.text import parse
from tracker.ir.types import Type
from tracker.ir.verify import verify
from tracker.support.structs import replace

F64 = np.dtype(float)
VECTOR = Type((3,), F64)


@settings(deadline=None, max_examples=100)
@given(programs.programs())
def test_good_functions_pass(function):
    verify(function)


def test_good_guards_nested_functions_and_variadic_ops_pass():
    verify(
        parse("""
        function f(x: f64[3], n: i64[]) captures (d: f64[3]) {
          function body(a: f64[3]) {
            b: f64[3] = sin a
            return (b, 1.0)
          }
          c: f64[9] = concatenate x d x {axis=0}
          s: f64[] = sum c {axis=(0,), keepdims=False}
          t: bool[] = greater s 0
          guard bool t == True
          guard int n == 3
          guard round s == -1
          guard hash s == 0.5
          return (c, n, 2.0, f32(1.0))
        }""")
    )


@pytest.mark.parametrize(
    "line, why",
    [
        ("y: f64[3] = add x", "add takes 2 operands, and is given 1"),
        ("y: f64[3] = sin x x", "sin does not take"),
        ("y: f64[4] = sin x", r"sin gives f64\[3\], and y is said to be f64\[4\]"),
        ("y: f32[3] = sin x", r"sin gives f64\[3\], and y is said to be f32\[3\]"),
        ("y: f64[3] = add x z", r"add does not take \(f64\[3\] f64\[4\]\) with these params: "),
        ("y: f64[3] = sum x {axes=0}", "sum does not take"),
        ("guard bool x == True", "a guard looks at one number, not at f64"),
        ("guard bool n == 1", "a bool guard cannot expect 1"),
        ("guard float n == 1", "a guard is of kind bool, int, .*, not 'float'"),
    ],
)
def test_bad_steps(line, why):
    function = parse(
        f"function f(x: f64[3], z: f64[4], n: i64[]) {{\n{line}\nreturn (x)\n}}",
    )
    with pytest.raises(IRError, match=why) as caught:
        verify(function)
    assert f"->  {line.split(' {')[0]}" in str(caught.value)


def _negatives(*pairs):
    return tuple(Eqn(OPS["negative"], (a,), {}, b) for a, b in pairs)


def test_variables_are_defined_once_and_before_use():
    x, y, z = (Var(VECTOR, name) for name in "xyz")
    with pytest.raises(IRError, match="y is used, and not defined before"):
        verify(Function("f", (x,), (), _negatives((y, z), (x, y)), (z,)))
    with pytest.raises(IRError, match="y is defined a second time"):
        verify(Function("f", (x,), (), _negatives((x, y), (x, y)), (y,)))
    with pytest.raises(IRError, match="x is defined a second time"):
        verify(Function("f", (x,), (), _negatives((x, x)), (x,)))
    with pytest.raises(IRError, match="x is an input or capture twice"):
        verify(Function("f", (x,), (x,), (), (x,)))
    with pytest.raises(IRError, match=r"z is used, and not defined before[^>]*->  return \(z\)"):
        verify(Function("f", (x,), (), (), (z,)))


def test_literals_are_scalars_of_their_own_type():
    x, y = Var(VECTOR, "x"), Var(VECTOR, "y")
    for literal, why in [
        (Const(2.0, Type((), F64)), r"the literal 2.0 is float, and not f64\[\]"),
        (Const.of(np.zeros(3)), "an array cannot be a literal"),
        (Const("a", Type((), F64)), "str has no IR type"),
    ]:
        body = (Eqn(OPS["add"], (x, literal), {}, y),)
        with pytest.raises(IRError, match=why):
            verify(Function("f", (x,), (), body, (y,)))


def test_nested_functions():
    x, y = Var(VECTOR, "x"), Var(VECTOR, "y")
    inner = parse("function g(x: f64[3]) {\n y: f32[3] = sin x\n return (y)\n}")
    with pytest.raises(IRError, match="sin gives"):
        verify(Function("f", (x,), (), (), (x,), {"g": inner}))
    with pytest.raises(IRError, match="'g' is entered as 'h'"):
        verify(Function("f", (x,), (), (), (x,), {"h": inner}))
    op = replace(OPS["sin"], infer=lambda x, *, body: x)
    call = Eqn(op, (x,), {"body": inner}, y)
    with pytest.raises(IRError, match="@g is not among the nested functions"):
        verify(Function("f", (x,), (), (call,), (y,)))


def test_an_error_shows_five_neighbours():
    steps = [f"v{k}: f64[3] = negative {f'v{k - 1}' if k else 'x'}" for k in range(20)]
    steps[10] = "v10: f64[4] = negative v9"
    function = parse("\n".join(["function f(x: f64[3]) {", *steps, "return (x)", "}"]))
    with pytest.raises(IRError) as caught:
        verify(function)
    shown = str(caught.value).splitlines()
    assert shown[1:] == [
        "  function f(x: f64[3])",
        "    ...",
        *[f"    {step}" for step in steps[5:10]],
        f"->  {steps[10]}",
        *[f"    {step}" for step in steps[11:16]],
        "    ...",
    ]


def test_a_step_of_another_class_is_an_error():
    x = Var(VECTOR, "x")
    with pytest.raises(IRError, match="a step is an equation or a guard, not a str"):
        verify(Function("f", (x,), (), ("y = x",), (x,)))


def test_params_that_python_calls_equal_are_inferred_separately():
    """`True == 1 == 1.0`: what infer said of one says nothing of the other."""
    scalar = Type((), F64)

    def infer(x, *, k):
        return scalar if k is True else x

    op = replace(OPS["sin"], infer=infer)
    x, y, z = Var(VECTOR, "x"), Var(scalar, "y"), Var(VECTOR, "z")
    body = (Eqn(op, (x,), {"k": True}, y), Eqn(op, (x,), {"k": 1}, z))
    verify(Function("f", (x,), (), body, (y, z)))
    guard = Guard(Const.of(True), "bool", True)
    verify(Function("f", (x,), (), (guard,), (x,)))
