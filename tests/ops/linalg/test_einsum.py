"""`np.einsum` in both call forms, and the other products composed of `np.matmul`.

A case is a function of arrays: NumPy's numbers, dtype and shape on tracked values, and `gradcheck`.
"""

import re

import numpy as np
import pytest
from cases import check_numbers
from compiled import agree
from hypothesis import given
from hypothesis import strategies as st
from op_rows import row, sample, x, z

import tracker
from tracker import gradient, jit, param
from tracker.testing import gradcheck

A, B, C, V, W = x(2, 3), x(3, 4), x(2, 3, 4), x(3), x(4)
Q, R = x(3, 3), x(2, 3, 3)

CASES = {
    "matrix product": (lambda a, b: np.einsum("ij,jk->ik", a, b), A, B),
    "implicit": (lambda a, b: np.einsum("ij,jk", a, b) + np.einsum("ij, jk", a, b), A, B),
    "implicit order": (lambda a: np.einsum("ba", a), A),
    "transposed": (lambda a, b: np.einsum("ji,kj->ki", a, b) * 2, A.T, B.T),
    "sum": (lambda a: np.einsum("ij->", a) * np.einsum("ij->j", a), A),
    "trace": (lambda a: np.einsum("ii", a) * np.einsum("ii->i", a), Q),
    "trace of stacks": (lambda a: np.einsum("...ii->...", a) + np.einsum("kii->k", a), R),
    "three times": (lambda a: np.einsum("iii->i", a), x(3, 3, 3)),
    "repeated and contracted": (lambda a, b: np.einsum("ii,ij->j", a, b), Q, B),
    "elementwise": (lambda a, b: np.einsum("ij,ij->ij", a, b) ** 2, A, x(2, 3, seed=1)),
    "inner": (lambda a, b: np.einsum("ij,ij", a, b) + np.einsum("ij,ij->i", a, b), A, A + 1),
    "outer": (lambda a, b: np.einsum("i,j->ji", a, b), V, W),
    "batched": (lambda a, b: np.einsum("bij,bjk->bik", a, b), C, x(2, 4, 2)),
    "batch last": (lambda a, b: np.einsum("ijb,jkb->ikb", a, b), C, x(3, 2, 4)),
    "ellipsis": (lambda a, b: np.einsum("...ij,...jk->...ik", a, b), C, x(4, 2)),
    "ellipsis broadcast": (lambda a, b: np.einsum("...i,...i->...", a, b), C, x(1, 4)),
    "ellipsis implicit": (lambda a, b: np.einsum("i...,i...", a, b), C, A[:, :, None]),
    "ellipsis moved": (lambda a: np.einsum("i...->...i", a), C),
    "ellipsis of extent one": (
        lambda a, b: np.einsum("...ij,...jk->...ik", a, b), x(2, 1, 2, 3), x(4, 3, 2)),
    "three": (lambda a, b, c: np.einsum("ij,jk,k->i", a, b, c), A, B, W),
    "three optimised": (lambda a, b, c: np.einsum("ij,jk,k->i", a, b, c, optimize=True), A, B, W),
    "optimal": (lambda a, b, c: np.einsum("ij,jk,k->i", a, b, c, optimize="optimal"), A, B, W),
    "path": (
        lambda a, b, c: np.einsum(
            "ij,jk,k->i", a, b, c,
            optimize=np.einsum_path("ij,jk,k->i", a, b, c, optimize="greedy")[0]),
        A, B, W),
    "path at once": (
        lambda a, b, c: np.einsum("ij,jk,k->i", a, b, c, optimize=["einsum_path", (0, 1, 2)]), A, B,
        W),
    "four": (lambda a, b: np.einsum("i,ij,jk,k", V, a, b, W), Q, B),
    "lists": (lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [2, 0]), A, B),
    "lists implicit": (lambda a, b: np.einsum(a, [0, 1], b, [1, 2]), A, B),
    "lists ellipsis": (lambda a: np.einsum(a, [Ellipsis, 1, 1], [Ellipsis]), R),
    "kept and summed": (lambda a, b: np.einsum("ijk,kl->jl", a, b), C, x(4, 5)),
    "unused axis": (lambda a, b: np.einsum("ij,kl->ik", a, b), A, B),
    "bilinear": (lambda a, b: np.einsum("bi,ijk,bk->bj", a, x(3, 2, 4), b), A, x(2, 4)),
    "attention": (lambda a, b: np.einsum("bqhd,bkhd->bhqk", a, b), x(2, 3, 2, 2), x(2, 4, 2, 2)),
    "complex": (lambda a, b: np.einsum("ij,jk->ik", a, b), z(2, 3), z(3, 2)),
    "real by complex": (lambda a, b: np.einsum("ij,jk->ki", a, b), A, z(3, 2)),
    "float32": (lambda a: np.einsum("ij,kj->ik", a, a), np.float32(A)),
    "by float64": (lambda a: np.einsum("ij,kj->ik", a, a, dtype=np.float64), np.float32(A)),
    "integers": (lambda a: np.einsum("ij,jk->ik", a, np.arange(6).reshape(3, 2)), A),
    # the rest
    "tensordot": (lambda a, b: np.tensordot(a, b) + np.tensordot(a, b, 2), C, x(3, 4, 5)),
    "tensordot one": (lambda a, b: np.tensordot(a, b, axes=1), C, x(4, 2)),
    "tensordot none": (lambda a, b: np.tensordot(a, b, 0), A, V),
    "tensordot axes": (lambda a, b: np.tensordot(a, b, ([0, -1], [1, 0])), C, x(4, 2, 3)),
    "tensordot axis": (lambda a, b: np.tensordot(a, b, axes=(1, 0)), C, B),
    "kron": (lambda a, b: np.kron(a, b), A, x(3, 2)),
    "kron mixed": (lambda a, b: np.kron(a, b) @ np.kron(b, a).T, V, A),
    "kron scalar": (lambda a, b: np.kron(a, b), V, np.float64(2.0)),
    "cross": (lambda a, b: np.cross(a, b) * np.cross(b, V), x(4, 3), x(4, 3, seed=1)),
    "cross axes": (lambda a, b: np.cross(a, b, axisa=0, axisb=-1, axisc=0), x(3, 4), x(4, 3)),
    "cross axis": (lambda a, b: np.cross(a, b, axis=0), x(3, 4), x(3, 4, seed=1)),
    "vdot": (lambda a, b: np.vdot(a, b) + np.vdot(a, b.T.T), z(2, 3), z(2, 3) * 1j),
    "dot out": (lambda a, b: np.dot(a, b, out=np.zeros_like(a @ b)), A, B),
    "outer out": (lambda a, b: np.outer(a, b, out=np.zeros_like(np.outer(a, b))), V, W),
    "einsum out": (lambda a, b: np.einsum("ij,jk", a, b, out=np.zeros_like(a @ b)), A, B),
    "vecdot": (lambda a: np.vecdot(a, V) * np.vecdot(a, a), C[..., :3]),
    "vecdot axis": (lambda a: np.vecdot(a, V[:, None], axis=-2), C),
    "vecdot keepdims": (lambda a: np.vecdot(a, W, keepdims=True), C),
    "vecdot complex": (lambda a, b: np.vecdot(a, b), z(2, 3), z(3)),
    "matmul axes": (lambda a: np.matmul(a, B, axes=[(2, 1), (0, 1), (0, 1)]), C),
    "matmul out": (lambda a: np.matmul(a, B, out=np.zeros_like(a @ B)), A),
    "matmul dtype": (lambda a: np.matmul(a, a.T, dtype=np.float64), np.float32(A)),
}  # fmt: skip
if hasattr(np, "matvec"):
    CASES["matvec"] = (lambda a, b: np.matvec(a, b) * np.matvec(C, W), C, x(2, 4))
    CASES["vecmat"] = (lambda a, b: np.vecmat(a, b) + np.vecmat(V, C), x(2, 3), C)
    CASES["vecmat complex"] = (lambda a, b: np.vecmat(a, b), z(3), z(3, 2))


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    f, *args = CASES[name]
    narrow = any(np.result_type(a) == np.float32 for a in args)
    check_numbers(f, args, 1e-6 if narrow else 1e-12, 1e-12)
    assert gradcheck(f, *args, order=2)


@st.composite
def equations(draw):
    """Subscripts and extents: letters may repeat, be summed, be shared by any of the operands."""
    extents = dict(zip("abcd", draw(st.permutations([1, 2, 3, 2])), strict=True))
    parts = draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=4))
    used = sorted(set("".join(parts)))
    result = "".join(draw(st.permutations(used)))[: draw(st.integers(0, len(used)))]
    shapes = [tuple(extents[letter] for letter in part) for part in parts]
    return ",".join(parts) + draw(st.sampled_from(["", "->" + result])), shapes


@given(equations())
def test_any_equation(drawn):
    text, shapes = drawn
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in shapes]
    found = tracker.data(np.einsum(text, *map(param, arrays)))
    want = np.einsum(text, *arrays)
    assert np.shape(found) == np.shape(want)
    np.testing.assert_allclose(found, want, rtol=1e-11, atol=1e-11)
    assert gradcheck(lambda *xs: np.einsum(text, *xs), *arrays)


@pytest.mark.parametrize("call, text", [
    (lambda: np.einsum("ij,jk", param(A)), "got 1 operand.*2 subscript"),
    (lambda: np.einsum("ijk", param(A)), "name 3 axes; the operand has 2"),
    (lambda: np.einsum("ij,jk", param(A), A), "'j'.*has extents 3 and 2"),
    (lambda: np.einsum("ii", param(A[:1])), "'i'.*has extents 1 and 3"),
    (lambda: np.einsum("ij->k", param(A)), "cannot have subscript 'k' in the result"),
    (lambda: np.einsum("ij->ii", param(A)), "cannot have subscript 'i' in the result"),
    (lambda: np.einsum("i.j", param(A)), "no ellipsis"),
    (lambda: np.einsum("i$", param(A)), "invalid subscript '\\$'"),
    (lambda: np.einsum("i...->i", param(A)), "drop the axes of an ellipsis"),
    (lambda: np.einsum(param(A), [0, 60]), "not within the range"),
    (lambda: np.tensordot(param(A), B, ([0], [0])), "shape-mismatch for sum"),
    (lambda: np.cross(param(W), W), "3-dimensional vectors"),
    (lambda: np.linalg.cross(param(A[:, :2]), A[:, :2]), "3-dimensional vectors"),
    (lambda: np.linalg.outer(param(A), V), "must be one-dimensional"),
    (lambda: np.linalg.multi_dot([param(A)]), "at least two arrays"),
])  # fmt: skip
def test_errors(call, text):
    with pytest.raises(ValueError, match=text):
        call()


MISFITS = [
    ("vecdot", (), (4,)), ("vecdot", (1,), (3,)),  # not spread: these axes are summed
    ("vecdot", (2, 3), (2, 1)), ("matvec", (3,), (3,)), ("matvec", (2, 3), (1,)),
    ("vecmat", (3,), (3,)), ("vecmat", (1,), (3, 2)), ("matmul", (), (3,)), ("matmul", (2, 3), ()),
    ("matmul", (3, 4), (3, 4)),
]  # fmt: skip
HERE = [case for case in MISFITS if hasattr(np, case[0])]  # matvec and vecmat: since NumPy 2.2


@pytest.mark.parametrize("name, first, second", HERE)
def test_misfitting_operands_raise_numpys_errors(name, first, second):
    f, arrays = getattr(np, name), (np.ones(first), np.ones(second))
    with pytest.raises(ValueError) as error:
        f(*arrays)
    for call in (lambda *xs: gradient(lambda *ys: np.sum(f(*ys)), *xs), jit(lambda *xs: f(*xs))):
        with pytest.raises(ValueError, match=re.escape(str(error.value))):
            call(*arrays)


@pytest.mark.parametrize("dtype", ["i4", "u1", "?", "f4"])
def test_sums_keep_the_dtype_of_their_terms(dtype):
    a = np.ones((3, 4), dtype)

    def f(a):
        one = np.einsum("ij->i", a), np.einsum("ij->", a), np.einsum("ii", a[:, :3])
        return (
            *one,
            np.einsum("ij,ij->", a, a),
            np.einsum("ij,kj->ik", a, a),
            np.einsum("...->...", a),
        )

    agree(f, a, tolerance=0)


@pytest.mark.parametrize("text", ["ji,jk->k", "ij,jk,kl->il", "ij,ij->", "i,ij->j"])
@pytest.mark.parametrize("short, long", [("f4", "f8"), ("f4", "c16"), ("f2", "f4"), ("c8", "f8")])
def test_sums_of_mixed_floats_are_as_precise_as_numpys(text, short, long):
    terms = text.split("->")[0].split(",")
    kinds = [short, long, short]
    extents = {"i": 5, "j": 4, "k": 3, "l": 2}
    arrays = [
        (np.random.default_rng(at).normal(size=[extents[i] for i in term]) * 10).astype(kind)
        for at, (term, kind) in enumerate(zip(terms, kinds, strict=False))
    ]
    agree(lambda *a: np.einsum(text, *a), *arrays, tolerance=50 * np.finfo(long).eps)
    for array, found in zip(
        arrays, gradient(lambda *a: np.sum(abs(np.einsum(text, *a))), *arrays), strict=True
    ):
        assert found.dtype == array.dtype


SHAPES = [
    *(((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((4, 2, 3), (3, 2))),
    *(((2, 3), (4, 3, 2)), ((4, 1, 2, 3), (2, 3, 2)), ((3,), (4, 3, 2)), ((4, 2, 3), (3,))),
    *(((0, 3), (3, 2)), ((2, 0), (0, 3)), ((0,), (0,))),
    *(((2, 3, 1, 4), (4, 3)), ((9, 8), (2, 8, 1)), ((9, 8), (2, 0, 8, 1)), ((0, 2, 3), (3, 2))),
]

ROWS = [
    row(
        "matmul",
        *(sample(x(*a), x(*b, seed=1)) for a, b in SHAPES),
        *(sample(z(*a), z(*b)) for a, b in SHAPES[:8]),
        sample(x(2, 3), z(3, 2)),
        sample(z(3), x(3)),
        sample(z(2, 3, 1, 4), z(4, 3)),
        sample(z(9, 8), z(2, 8, 1)),
    )
]
