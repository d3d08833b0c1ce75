"""Rewrite rules: per rule what it rewrites; rewrites that are absent because they are inexact."""

import ir_programs as programs
import numpy as np
import pytest
from hypothesis import given, settings

from tracker.ir.graph import Const, Eqn, Var
from tracker.ir.op import OPS
from tracker.ir.passes import rewriter
from tracker.ir.passes.dead_code import dead_code
from tracker.ir.passes.manager import run
from tracker.ir.passes.memory_ssa import ArrayWrite, WriteHistory
from tracker.ir.passes.simplify import simplify
from tracker.ir.text import parse
from tracker.ir.types import Type
from tracker.ops.indexing.canonical import canonical_index
from tracker.support.structs import replace

INPUTS = (
    "x: f64[3], y: f64[3], m: f64[2,3], s: f64[], row: f64[1,3], "
    "p: f32[3], n: i64[3], z: c128[3], b: bool[3], w: float, q: f64[100], t: f64[70]"
)
BACK = "{index=(slice(99, None, -1),)}"
SUM = "{axis=(0,), keepdims=False}"

# Per rule: steps before and after, separated by semicolons; the result is r, or a lone atom.
RULE_TABLE = """
neutral_operand
    r: f64[3] = multiply x 1 -> x
    r: f64[3] = multiply 1.0 x -> x
    r: f64[3] = strong_multiply x 1.0 -> x
    r: f64[3] = multiply x f64(1.0) -> x
    r: float = multiply w 1.0 -> w
    r: f64[3] = add x -0.0 -> x
    r: f64[3] = add -0.0 x -> x
    r: i64[3] = add n 0 -> n
    r: f64[3] = subtract x 0.0 -> x
    r: f64[3] = subtract x 0 -> x
involution
    a: f64[3] = negative x; r: f64[3] = negative a -> x
    a: bool[3] = logical_not b; r: bool[3] = logical_not a -> b
    a: c128[3] = conjugate z; r: c128[3] = conjugate a -> z
identity_function
    r: f64[3] = conjugate x -> x
    r: f64[3] = real x -> x
    r: f64[3] = copy x -> x
    r: f64[3] = identity x -> x
    r: c128[3] = positive z -> z
add_negative
    a: f64[3] = negative y; r: f64[3] = add x a -> r: f64[3] = subtract x y
    a: f64[3] = negative x; r: f64[3] = add a y -> r: f64[3] = subtract y x
multiply_by_minus_one
    r: f64[3] = multiply -1 x -> r: f64[3] = negative x
divide_by_power_of_two
    r: f64[3] = divide x 1 -> x
    r: f64[3] = divide n 1 -> r: f64[3] = multiply n 1.0
    r: f64[3] = divide x 4 -> r: f64[3] = multiply x 0.25
    r: f32[3] = divide p f32(-0.5) -> r: f32[3] = multiply p f32(-2.0)
finite_multiply
    r: f64[3] = finite_multiply x y -> r: f64[3] = multiply x y
strong_multiply_by_literal
    r: f64[3] = strong_multiply x 3.0 -> r: f64[3] = multiply x 3.0
power_by_literal
    r: f64[3] = power x 2 -> r: f64[3] = square x
    r: f64[3] = power x 1.0 -> x
    r: f64[3] = power x 0 -> r: f64[3] = broadcast_to f64(1.0) {shape=(3,)}
where_constant
    r: f64[3] = where True x y -> x
    r: f64[3] = where b x x -> x
    r: f64[3] = where False x s -> r: f64[3] = broadcast_to s {shape=(3,)}
    r: f64[3] = where False x 2.0 -> r: f64[3] = broadcast_to f64(2.0) {shape=(3,)}
same_type
    r: f64[3] = reshape x {shape=(3,)} -> x
    r: f64[3] = astype x {dtype=f64} -> x
    r: f64[3] = broadcast_to x {shape=(3,)} -> x
repeated_view
    a: f64[3,1] = reshape x {shape=(3,1)}; r: f64[1,3] = reshape a {shape=(1,3)} -> r:
        f64[1,3] = reshape x {shape=(1,3)}
    a: f64[2,3] = broadcast_to x {shape=(2,3)}; r: f64[4,2,3] = broadcast_to a
        {shape=(4,2,3)} -> r: f64[4,2,3] = broadcast_to x {shape=(4,2,3)}
transpose_of_transpose
    a: f64[3,2] = transpose m {axes=(1,0)}; r: f64[2,3] = transpose a {axes=(1,0)} -> m
    r: f64[2,3] = transpose m {axes=(0,1)} -> m
filled_array
    r: f64[3] = zeros_like x {shape=(3,), dtype=f64} -> r: f64[3] = broadcast_to f64(0.0)
        {shape=(3,)}
    r: f64[] = ones_like s {shape=(), dtype=f64} -> f64(1.0)
matmul_of_empty
    a: f64[0] = getitem x {index=(slice(0, 0, 1),)}; r: f64[] = matmul a a -> f64(0.0)
mean_of_empty
    a: f64[0] = getitem x {index=(slice(0, 0, 1),)}; r: f64[] = mean a SUM -> f64(nan)
reduction_of_empty
    a: f64[0] = getitem x {index=(slice(0, 0, 1),)}; r: f64[] = prod a SUM -> f64(1.0)
matmul_of_broadcast
    c: f64[3,2] = transpose m {axes=(1, 0)}; a: f64[4,3] = broadcast_to x {shape=(4,3)}; r:
        f64[4,2] = matmul a c -> c: f64[3,2] = transpose m {axes=(1, 0)}; a: f64[1,3] =
        broadcast_to x {shape=(1,3)}; d: f64[1,2] = matmul a c; r: f64[4,2] = broadcast_to d
        {shape=(4,2)}
broadcast_operand
    a: f64[3] = ones_like y {shape=(3,), dtype=f64}; r: f64[3] = subtract x a -> r: f64[3] =
        subtract x f64(1.0)
    a: f64[2,3] = broadcast_to x {shape=(2,3)}; r: f64[2,3] = multiply a m -> r: f64[2,3] =
        multiply x m
    a: f64[3] = broadcast_to 2.0 {shape=(3,)}; r: bool[3] = less p a -> r: bool[3] = less p f64(2.0)
map_of_splats
    a: f64[3] = broadcast_to s {shape=(3,)}; r: f64[3] = exp a -> a: f64[] = exp s; r:
        f64[3] = broadcast_to a {shape=(3,)}
view_of_splat
    a: f64[3] = broadcast_to s {shape=(3,)}; r: f64[1,3] = reshape a {shape=(1,3)} -> r:
        f64[1,3] = broadcast_to s {shape=(1,3)}
    a: f64[3] = broadcast_to s {shape=(3,)}; r: f64[] = getitem a {index=(1,)} -> s
    a: f64[1] = reshape s {shape=(1,)}; c: f64[3] = broadcast_to a {shape=(3,)}; r: f64[3] =
        add x c -> r: f64[3] = add x s
full_slice
    r: f64[3] = getitem x {index=(slice(0, 3, 1),)} -> x
    r: f64[3] = embed x {index=(slice(0, 3, 1),), shape=(3,)} -> x
    r: f64[3] = put x y {index=(slice(0, 3, 1),)} -> y
    r: f64[3] = put x s {index=(slice(0, 3, 1),)} -> r: f64[3] = broadcast_to s {shape=(3,)}
embed_of_flip
    r: f64[3] = embed x {index=(slice(2, None, -1),), shape=(3,)} -> r: f64[3] = getitem x
        {index=(slice(2, None, -1),)}
    r: f64[2,3] = embed m {index=(slice(0, 2, 1), slice(2, None, -1)), shape=(2,3)} -> r: f64[2,3]
        = getitem m {index=(slice(0, 2, 1), slice(2, None, -1))}
put_of_transpose
    a: f64[3,2] = transpose m {axes=(1, 0)}; r: f64[3,2] = put a s {index=(slice(1, 3, 1),
        slice(0, 2, 1))} -> a: f64[2,3] = put m s {index=(slice(0, 2, 1), slice(1, 3, 1))}; r:
        f64[3,2] = transpose a {axes=(1, 0)}
    a: f64[3,2] = transpose m {axes=(1, 0)}; c: f64[3,1] = reshape x {shape=(3,1)}; d:
        f64[3,2] = put a c {index=(slice(0, 3, 1), slice(1, 2, 1))}; r: f64[2,3] = transpose d
        {axes=(1, 0)} -> c: f64[3,1] = reshape x {shape=(3,1)}; a: f64[1,3] = transpose c
        {axes=(1, 0)}; d: f64[2,3] = put m a {index=(slice(1, 2, 1), slice(0, 3, 1))}; d
forward_store
    a: f64[100] = put q t {index=(slice(80, 10, -1),)}; r: f64[3] = getitem a {index=(slice(11,
        17, 2),)} -> r: f64[3] = getitem t {index=(slice(69, 64, -2),)}
    a: f64[2,3] = put m x {index=(1, slice(0, 3, 1))}; r: f64[] = getitem a {index=(1, 2)} -> r:
        f64[] = getitem x {index=(2,)}
    a: f64[3] = put x s {index=(1,)}; r: f64[] = getitem a {index=(1,)} -> s
    a: f64[3] = put x s {index=(1,)}; r: f64[2] = getitem a {index=(slice(0, 3, 2),)} -> r:
        f64[2] = getitem x {index=(slice(0, 3, 2),)}
    a: f64[3] = embed s {index=(1,), shape=(3,)}; r: f64[] = getitem a {index=(2,)} -> f64(0.0)
    a: f64[3] = put x s {index=(1,)}; c: f64[3] = embed w {index=(0,), shape=(3,)}; d:
        f64[3] = add c a; r: f64[] = getitem d {index=(1,)} -> s
    a: f64[3] = put x s {index=(1,)}; c: f64[3] = embed s {index=(1,), shape=(3,)}; d:
        f64[3] = add a c; e: f64[3] = put d w {index=(2,)}; r: f64[] = getitem e
        {index=(1,)} -> r: f64[] = add s s
    a: f64[3] = put x s {index=(2,)}; c: f64[3] = embed s {index=(1,), shape=(3,)}; d:
        f64[3] = add a c; r: f64[] = getitem d {index=(1,)} -> a: f64[] = getitem x
        {index=(1,)}; r: f64[] = add a s
    a: f64[3] = embed s {index=(1,), shape=(3,)}; c: f64[3] = embed w {index=(1,),
        shape=(3,)}; d: f64[3] = add a c; r: f64[] = getitem d {index=(1,)} -> r: f64[] =
        add s w
    a: f64[3] = put x s {index=(1,)}; c: f64[3] = put x w {index=(1,)}; r: f64[] = getitem c
        {index=(0,)} -> r: f64[] = getitem x {index=(0,)}
redundant_put
    a: f64[2] = getitem x {index=(slice(0, 2, 1),)}; r: f64[3] = put x a {index=(slice(0, 2,
        1),)} -> x
    a: f64[3] = put x s {index=(1,)}; c: f64[3] = put a w {index=(2,)}; r: f64[3] = put c s
        {index=(1,)} -> a: f64[3] = put x s {index=(1,)}; c: f64[3] = put a w {index=(2,)};
        c
put_through_view
    a: f64[100] = getitem q BACK; c: f64[100] = put a s {index=(2,)}; r: f64[100] = put q c
        BACK -> r: f64[100] = put q s {index=(97,)}
    a: f64[100] = getitem q BACK; c: f64[100] = embed t {index=(slice(2, 72, 1),),
        shape=(100,)}; d: f64[100] = add c a; e: f64[100] = put d s {index=(2,)}; r:
        f64[100] = put q e BACK -> a: f64[100] = embed t {index=(slice(97, 27, -1),),
        shape=(100,)}; c: f64[100] = add q a; r: f64[100] = put c s {index=(97,)}
getitem_through_view
    a: f64[100] = put q s {index=(3,)}; c: f64[100] = getitem a BACK; r: f64[] = getitem c
        {index=(96,)} -> s
embed_of_embed
    a: f64[4] = embed s {index=(1,), shape=(4,)}; r: f64[2,9] = embed a {index=(0, slice(7,
        None, -2)), shape=(2,9)} -> r: f64[2,9] = embed s {index=(0, 5), shape=(2,9)}
put_of_embed
    a: f64[3] = put x 0.0 {index=(slice(0, 3, 1),)}; r: f64[3] = add a y -> y
    a: f64[3] = put x 0.0 {index=(1,)}; c: f64[3] = embed s {index=(1,), shape=(3,)}; r:
        f64[3] = add c a -> r: f64[3] = put x s {index=(1,)}
    a: f64[2] = getitem x {index=(slice(0, 2, 1),)}; c: f64[2] = broadcast_to 0.0
        {shape=(2,)}; d: f64[3] = put x c {index=(slice(0, 2, 1),)}; e: f64[3] = embed a
        {index=(slice(0, 2, 1),), shape=(3,)}; r: f64[3] = add d e -> x
reduction_of_one
    r: f64[3] = sum row SUM -> a: f64[3] = reshape row {shape=(3,)}; r: f64[3] = add a 0.0
    r: f64[3] = max row SUM -> r: f64[3] = reshape row {shape=(3,)}
sum_of_splat
    a: f64[2,3] = broadcast_to -1.0 {shape=(2,3)}; r: f64[2] = sum a {axis=(1,),
        keepdims=False} -> r: f64[2] = broadcast_to f64(-3.0) {shape=(2,)}
    a: f64[3] = broadcast_to -0.0 {shape=(3,)}; r: f64[] = sum a SUM -> f64(0.0)
reduction_of_one
    r: i64[3] = sum n {axis=(), keepdims=False} -> n
"""


def parse_table():
    rows, name = [], ""
    for line in RULE_TABLE.replace("SUM", SUM).replace("BACK", BACK).strip().splitlines():
        if line.startswith(" " * 8):
            rows[-1][1] += " " + line.strip()
        elif line.startswith(" "):
            rows.append([name, line.strip()])
        else:
            name = line
    return [(name, *row.split(" -> ")) for name, row in rows]


ROWS = parse_table()
STAY = [
    "c: f64[1] = embed s {index=(0,), shape=(1,)}; a: f64[3] = add x c;"
    " r: f64[] = getitem a {index=(1,)}",
    "a: f64[3] = put x s {index=(1,)}; r: f64[3] = put a w {index=(1,)}",
    "a: f64[3] = put x s {index=(1,)}; c: f64[3] = put a w {index=(slice(0, 2, 1),)};"
    " r: f64[3] = put c s {index=(1,)}",
    "a: f64[2] = getitem x {index=(slice(0, 2, 1),)};"
    " r: f64[3] = put x a {index=(slice(1, 3, 1),)}",
    "a: f64[3] = put x 0.0 {index=(1,)}; c: f64[3] = embed s {index=(2,), shape=(3,)};"
    " r: f64[3] = add a c",
    "a: f64[3] = put x w {index=(1,)}; c: f64[3] = embed s {index=(1,), shape=(3,)};"
    " r: f64[3] = add a c",
    "r: f64[3] = add x 0.0",
    "r: f64[3] = add x 0",
    "r: f64[3] = subtract x -0.0",
    "r: f64[3] = subtract 0.0 x",
    "r: f64[3] = multiply x 0.0",
    "r: f64[3] = multiply p f64(1.0)",
    "r: f64[3] = divide x 3.0",
    "r: f64[3] = divide x 1e-320",
    "r: c128[3] = multiply z 1.0",
    "r: c128[3] = divide z 1",
    "r: c128[3] = power z 2",
    "r: f64[3] = power x 3",
    "r: f64[3] = strong_multiply x 0.0",
    "r: f64[3] = strong_multiply x inf",
    "r: f64[3] = strong_multiply x 1e-320",
    "r: f64[3] = where b x 2.0",
    "r: c128[3] = prod z {axis=(), keepdims=False}",
    "a: f64[3] = negative x; r: f64[3] = multiply a y",
    "a: f64[3] = negative x; r: f64[3] = multiply a 2",
    "a: i64[3] = negative n; r: f64[3] = multiply a 0.5",
    "a: i64[3] = negative n; r: f64[3] = add x a",
    "a: i64[3] = negative n; r: f64[3] = subtract x a",
    "a: i64[3] = negative n; c: f64[3] = negative x; r: f64[3] = divide a c",
    "a: f32[3] = astype x {dtype=f32}; r: f64[3] = astype a {dtype=f64}",
    "a: f64[3] = astype n {dtype=f64}; r: i64[3] = to_discrete a {dtype=i64}",
    "a: f64[3] = broadcast_to s {shape=(3,)}; r: f64[3] = power x a",
    "a: f64[2,3] = broadcast_to x {shape=(2,3)}; r: f64[2,3] = multiply a y",
    f"a: f64[3] = broadcast_to 0.1 {{shape=(3,)}}; r: f64[] = sum a {SUM}",
    f"a: f64[3] = broadcast_to 1e300 {{shape=(3,)}}; r: f64[] = sum a {SUM}",
    f"a: f64[3] = broadcast_to inf {{shape=(3,)}}; r: f64[] = sum a {SUM}",
    "r: f64[2] = getitem x {index=(slice(0, 2, 1),)}",
    "a: f64[3] = getitem x {index=(slice(2, None, -1),)}; c: f64[3] = put a s {index=(2,)};"
    "r: f64[3] = put x c {index=(slice(2, None, -1),)}",
    "a: f64[3] = broadcast_to 0.0 {shape=(3,)}; r: f64[3] = put x a {index=(slice(0, 3, 1),)}",
    "a: f64[3] = put x s {index=(slice(0, 2, 1),)};r: f64[2] = getitem a {index=(slice(1, 3, 1),)}",
    "a: f64[3] = put x s {index=(slice(0, 2, 1),)};r: f64[1] = getitem a {index=(slice(1, 2, 1),)}",
    "a: f64[3] = put x p {index=(slice(0, 3, 1),)};r: f64[2] = getitem a {index=(slice(1, 3, 1),)}",
    "a: f64[3,2] = transpose m {axes=(1, 0)};r: f64[3,2] = put a s {index=(1, slice(0, 2, 1))}",
    "a: f64[3,2] = transpose m {axes=(1, 0)};"
    "r: f64[3,2] = put a row {index=(slice(0, 3, 1), slice(0, 1, 1))}",
    f"a: f64[100] = getitem q {BACK}; r: f64[70] = getitem a {{index=(slice(0, 70, 1),)}}",
]


def function(steps, names="r"):
    """The function of a row: steps separated by semicolons; a lone atom is what is returned."""
    lines = [step.strip() for step in steps.split(";")]
    out = names
    if lines[-1].startswith("return "):
        out = lines.pop().removeprefix("return ")
    elif "=" not in lines[-1]:
        out = lines.pop()
    return parse("\n".join([f"function f({INPUTS}) {{", *lines, f"return ({out})", "}"]))


def simplified(text):
    return run(function(text), [simplify, dead_code], check=True)


@pytest.mark.parametrize("name, before, after", ROWS)
def test_rewrites(name, before, after):
    assert str(simplified(before)) == str(function(after))


@pytest.mark.parametrize("name, before, after", ROWS)
def test_each_row_needs_its_rule(name, before, after, monkeypatch):
    rules = [rule for rule in rewriter.RULES if rule.name != name]
    assert len(rules) == len(rewriter.RULES) - 1
    monkeypatch.setattr(rewriter, "RULES", rules)
    assert str(simplified(before)) != str(function(after))


def test_every_rule_has_a_row_and_a_docstring():
    assert {rule.name for rule in rewriter.RULES} == {row[0] for row in ROWS}
    assert all(rule.rewrite.__doc__ for rule in rewriter.RULES)


@pytest.mark.parametrize("steps", STAY)
def test_inexact_rewrites_are_absent(steps):
    assert str(simplified(steps)) == str(function(steps))


@pytest.mark.skipif(not np.signbit(np.power(np.float64(-0.0), 0.5)), reason="an older NumPy")
@pytest.mark.parametrize("exponent, op", [("0.5", "sqrt"), ("-1", "reciprocal")])
def test_roots(exponent, op):
    assert str(simplified(f"r: f32[3] = power p {exponent}")) == str(
        function(f"r: f32[3] = {op} p")
    )


def test_rules_apply_to_results_of_rules():
    """The seed of a gradient melts away."""
    steps = """
        a: f64[3] = ones_like x {shape=(3,), dtype=f64}; c: f64[3] = multiply a 2;
        d: f64[3] = multiply c 0.5; e: f64[3] = multiply y -1.0; g: f64[3] = add x e;
        h: f64[3] = multiply g d; r: f64[3] = divide h 2
    """
    assert str(simplified(steps)) == str(
        function("g: f64[3] = subtract x y; r: f64[3] = multiply g 0.5")
    )


def test_rules_for_undeclared_ops_do_not_apply(monkeypatch):
    for steps, op in [
        ("a: f64[3] = negative y; r: f64[3] = add x a", "subtract"),
        ("r: f64[3] = power x 2", "square"),
        ("r: f64[3] = zeros_like x {shape=(3,), dtype=f64}", "broadcast_to"),
        ("r: f64[3] = sum row {axis=(0,), keepdims=False}", "reshape"),
    ]:
        before = function(steps)
        with monkeypatch.context() as patch:
            patch.delitem(OPS, op)
            assert simplify(before) is before


LEVELS = {
    **dict.fromkeys(["power", "sum", "strong_multiply", "divide"], 5),
    "multiply": 3,
    **dict.fromkeys(["negative", "square"], 2),
    "reshape": 1,
    "broadcast_to": 0,
}


def measure(eqn, defs):
    """What every rewrite makes smaller; see the header of simplify.py."""

    def tree(atom):
        inner = defs._eqns.get(atom) if isinstance(atom, Var) else None
        return 0 if inner is None else 1 + sum(map(tree, inner.operands))

    return LEVELS.get(eqn.op.name, 4), sum(map(tree, eqn.operands))


def _watched(rule):
    def watch(eqn, defs):
        before = measure(eqn, defs)
        new = rule.rewrite(eqn, defs)
        assert not isinstance(new, Eqn) or measure(new, defs) < before, (rule.name, str(eqn.op))
        return new

    return replace(rule, rewrite=watch)


@settings(deadline=None, max_examples=10 * settings.default.max_examples)
@given(programs.programs())
def test_rewriting_ends(function):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewriter, "RULES", [_watched(rule) for rule in rewriter.RULES])
        once = run(function, [simplify, dead_code], check=True)
    assert str(run(once, [simplify, dead_code])) == str(once)


@pytest.mark.parametrize("shape", [(7,), (5, 4), (200, 300)])
def test_the_last_write_is_found(shape):
    """A reading of the newest version finds the write that it is from, or an older one's place."""
    rng = np.random.default_rng(0)
    history, base = WriteHistory(), Var(Type(shape, np.dtype(float)))
    newest, truth, versions = base, rng.random(shape), {}
    versions[base] = truth.copy()
    for _ in range(200):
        index = canonical_index(tuple(_random_part(rng, n) for n in shape), shape)
        value = Const.of(rng.random())
        out = Var(base.type)
        history.record_put(Eqn(OPS["put"], (newest, value), {"index": index}, out))
        truth[index] = value.value
        versions[out], newest = truth.copy(), out
        index = canonical_index(tuple(_random_part(rng, n) for n in shape), shape)
        found = history.last_write(newest, index)
        source = found.out if isinstance(found, ArrayWrite) else found.root
        np.testing.assert_array_equal(versions[source][index], truth[index])
        if isinstance(found, ArrayWrite) and found.index == index:
            np.testing.assert_array_equal(found.value.value, truth[index])


@pytest.mark.parametrize("shape", [(7,), (5, 4), (200, 300)])
def test_the_last_write_is_found_for_any_version(shape):
    """Of an older version, or of one of two that were made of the same; or it is not known. A write
    may be taken back."""
    rng = np.random.default_rng(0)
    history, base = WriteHistory(), Var(Type(shape, np.dtype(float)))
    versions, answers = {base: rng.random(shape)}, 0
    newest = base
    for _ in range(400):
        near = list(versions)[-3:]
        newest = near[rng.integers(len(near))]
        index = canonical_index(tuple(_random_part(rng, n) for n in shape), shape)
        value, out = Const.of(rng.random()), Var(base.type)
        history.record_put(Eqn(OPS["put"], (newest, value), {"index": index}, out))
        versions[out] = versions[newest].copy()
        versions[out][index] = value.value
        if rng.random() < 0.3:
            history.forget_last(out)
        index = canonical_index(tuple(_random_part(rng, n) for n in shape), shape)
        for version in near:
            found = history.last_write(version, index)
            if found is None:
                continue
            answers += 1
            source = found.out if isinstance(found, ArrayWrite) else found.root
            np.testing.assert_array_equal(versions[source][index], versions[version][index])
    assert answers > 100


def test_rows_of_a_large_table_are_disjoint():
    """Though its cells are blocks of several rows and columns, once columns were written, too."""
    base = Var(Type((400, 200), np.dtype(float)))
    history, versions = WriteHistory(), [base]

    def put(index):
        versions.append(Var(base.type))
        value = Var(Type((200,), base.type.dtype))
        index = canonical_index(index, base.type.shape)
        history.record_put(Eqn(OPS["put"], (versions[-2], value), {"index": index}, versions[-1]))

    for column in range(3):
        put((slice(None), column))
    for row in range(12):
        put((row, slice(None)))
        for back in range(min(row, 6)):
            index = canonical_index((row - back, slice(None)), base.type.shape)
            assert history.last_write(versions[-1], index).out is versions[-1 - back]


def _random_part(rng, n):
    if rng.random() < 0.7:
        return int(rng.integers(n))
    first, last = np.sort(rng.integers(0, n + 1, 2))
    step = int(rng.integers(1, 3))
    return (
        slice(int(last) - 1, None, -step)
        if rng.random() < 0.3 and last
        else slice(int(first), int(last), step)
    )
