"""The text form: what it looks like, that it parses back, and its errors."""

import ir_programs as programs
import numpy as np
import pytest
from hypothesis import given, settings

from tracker.errors import IRError
from tracker.ir.graph import Const, Eqn, Function, Var
from tracker.ir.graphviz import dot
from tracker.ir.op import OPS
from tracker.ir.structural_keys import const_key
from tracker.ir.text import parse, print_function
from tracker.ir.types import Type

LOSS = """\
function loss(x: f64[3], w: f64[3]) captures (data: f64[10,3]) {
  a: f64[3] = multiply x w                      # model.py:12
  b: f64[] = sum a {axis=(0,), keepdims=False}  # model.py:12
  c: bool[] = greater b 0.0
  guard bool c == True                          # model.py:13
  d: f64[3] = add a 2.0
  return (b, 2.0)
}"""
NESTED = """\
function outer(x: f64[3], n: int) {
  function body(a: f64[3]) {
    b: f64[3] = sin a
    return (b)
  }
  y: f64[3] = negative x {call=@body, pair=(@body, 1), keep=[None, ...]}
  return (y, n)
}"""


BUNDLE = """\
function pair(x: (f64[3], float, (i64[], c64[2]))) {
  y: float = pick x {at=1}
  return (y)
}"""


@pytest.mark.parametrize("text", [LOSS, NESTED, BUNDLE])
def test_reads_back(text):
    assert str(parse(text)) == text


def test_nested_functions_are_shared_with_the_params():
    function = parse(NESTED)
    (eqn,) = function.eqns
    assert eqn.params["call"] is eqn.params["pair"][0] is function.functions["body"]


@settings(deadline=None, max_examples=6 * settings.default.max_examples)
@given(programs.any_function())
def test_any_function_reads_back(function):
    text = print_function(function)
    again = parse(text)
    assert print_function(again) == text
    assert programs.canonical(again) == programs.canonical(function)


@settings(deadline=None, max_examples=6 * settings.default.max_examples)
@given(programs.SCALARS)
def test_literals_keep_their_bits(value):
    (literal,) = parse(print_function(Function("f", (), (), (), (Const.of(value),)))).outputs
    assert type(literal.value) is type(value)
    assert const_key(literal) == const_key(Const.of(value))


@pytest.mark.parametrize(
    "value, text",
    [
        (2, "2"),
        (2.0, "2.0"),
        (-0.0, "-0.0"),
        (1e-5, "1e-05"),
        (float("-inf"), "-inf"),
        (float("nan"), "nan"),
        (True, "True"),
        (complex(-0.0, 1), "complex(-0.0,1.0)"),
        (np.float32(0.1), "f32(0.1)"),
        (np.bool_(True), "bool(True)"),
        (np.complex64(1 - 2j), "c64(1.0,-2.0)"),
        (np.uint64(2**64 - 1), "u64(18446744073709551615)"),
    ],
)
def test_literals(value, text):
    assert print_function(Function("f", (), (), (), (Const.of(value),))) == (
        f"function f() {{\n  return ({text})\n}}"
    )


def test_names_are_kept_filled_in_and_told_apart():
    scalar = Type((), np.dtype(float))
    x, y, z, w = Var(scalar, "x"), Var(scalar), Var(scalar, "x"), Var(scalar, "w[0]")
    body = (Eqn(OPS["add"], (x, y), {}, z), Eqn(OPS["add"], (z, x), {}, w))
    assert print_function(Function("f", (x, y), (), body, (w,))) == (
        "function f(x: f64[], a: f64[]) {\n"
        "  x_1: f64[] = add x a\n"
        "  w_0_: f64[] = add x_1 x\n"
        "  return (w_0_)\n"
        "}"
    )


def test_an_opaque_param_is_printed_but_not_parsed():
    x, y = Var(Type((), np.dtype(float)), "x"), Var(Type((), np.dtype(float)), "y")
    body = (Eqn(OPS["sin"], (x,), {"rng": np.random.default_rng()}, y),)
    text = print_function(Function("f", (x,), (), body, (y,)))
    assert "y: f64[] = sin x {rng=<object: Generator>}" in text
    with pytest.raises(IRError, match="line 2: an opaque object"):
        parse(text)


def _in_function(line):
    return f"function f(xs: f64[3]) {{\n  {line}\n  return (xs)\n}}"


@pytest.mark.parametrize(
    "text, why",
    [
        (_in_function("y: f64[3] = sine xs"), "line 2: there is no op 'sine'; did you mean .*sin"),
        (_in_function("y: f64[3] = sin x"), "'x' is not defined; did you mean xs"),
        (_in_function("y: f63[3] = sin xs"), "there is no type 'f63'; did you mean f64"),
        (_in_function("xs: f64[3] = sin xs"), "'xs' is already defined"),
        (_in_function("y: f64[3] sin xs"), "expected '=', found 'sin'\n .*sin xs\n *\\^"),
        (_in_function("y: f64[3] = sin xs {k=@g}"), "there is no nested function 'g'"),
        (_in_function("y: f64[3] = sin xs }"), "expected the end of the line, found '}'"),
        ("function f() {\n  return (1)", "line 2: the text ends before the function does"),
        ("function f() {\n  return (1)\n}\nmore", "line 4: expected the end of the line"),
        ("", "line 1: the text ends"),
    ],
)
def test_errors_name_the_line(text, why):
    with pytest.raises(IRError, match=why):
        parse(text)


def test_the_picture_has_every_step():
    text = dot(parse(LOSS))
    assert text.startswith('digraph "loss" {') and text.endswith("}")
    for part in (
        '"a" [label="a = multiply\\nmodel.py:12"];',
        '"x" -> "a" [label="f64[3]"];',
        'label="guard bool == True"',
        '"b" -> "return" [label="f64[]"];',
    ):
        assert part in text
