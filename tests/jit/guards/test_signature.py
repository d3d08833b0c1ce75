"""Signatures: what makes two calls alike, what no native entry takes."""

import dataclasses
import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker import tree
from tracker.jit.guards import signature as sig
from tracker.jit.guards.constants import ConstantKey
from tracker.jit.guards.signature import ArrayLeaf, ScalarLeaf, UnsupportedLeaf, signature_of


def of(*args, **kwargs):
    return signature_of(args, kwargs)[0]


@dataclasses.dataclass
class Pair:
    a: object
    b: object


def test_leaves_and_slots():
    x = np.ones((2, 3), np.float32)
    signature, leaves = signature_of((x, 1.0, [2j, "k"]), {"n": np.int32(4)})
    assert leaves[0] is x and leaves[1:] == [1.0, 2j, "k", np.int32(4)]
    assert signature.leaves == (
        ArrayLeaf(np.dtype("f4"), (2, 3)),
        ScalarLeaf(float),
        ScalarLeaf(complex),
        ConstantKey("k"),
        ScalarLeaf(np.int32),
    )
    assert signature.offsets == (0, 1, 2, 4, 4, 5)
    assert signature.names == ("n",) and signature.positional_count == 3
    assert signature.structures[2] == tree.flatten([0, 0])[1]
    assert str(signature.leaves[0]) == "float32[2,3]" and str(signature.leaves[1]) == "float"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1.0,), (1,)),
        ((True,), (1,)),
        ((1.0,), (np.float64(1),)),
        ((np.ones(3),), (np.ones(4),)),
        ((np.ones(3),), (np.ones(3, "f4"),)),
        ((np.ones(1),), (np.ones(()),)),
        (([1.0],), ((1.0,),)),
        (({"a": 1.0, "b": 1.0},), ({"b": 1.0, "a": 1.0},)),
        ((Pair(1.0, 2.0),), ([1.0, 2.0],)),
        (("a",), ("b",)),
        (("a",), (b"a",)),
        ((None,), (len,)),
        ((1.0, 2.0), (1.0,)),
        (([1.0], 2.0), ([1.0, 2.0],)),
    ],
)
def test_unlike_calls(one, other):
    assert of(*one) != of(*other)
    assert of(*one) == of(*one) and hash(of(*one)) == hash(of(*one))


def test_names_and_their_order_count():
    assert of(a=1.0, b=2.0) == of(a=3.0, b=4.0)
    assert of(a=1.0, b=2.0) != of(b=2.0, a=1.0)
    assert of(1.0) != of(a=1.0)


@pytest.mark.parametrize(
    ("x", "why"),
    [
        (np.ones(3).astype(">f8"), "f8"),
        (np.ones(2, object), "'O'"),
        (np.ones(2, "M8[s]"), "M8"),
        (np.array(["a"]), "U1"),
        (np.ones((1, 1)).view(np.matrix), "matrix"),
        (np.longdouble(1), "longdouble"),
        (np.frombuffer(bytes(17), np.uint8)[1:].view("f8"), "aligned"),
        (2**63, "64 bits"),
        (-(2**63) - 1, "64 bits"),
    ],
)
def test_what_no_entry_takes(x, why):
    signature = of(x)
    assert not signature.is_native and isinstance(signature.leaves[0], UnsupportedLeaf)
    assert why in signature.leaves[0].reason


def test_static_arguments():
    def static(x):
        return signature_of((x,), {}, frozenset({0}))[0]

    assert static(3) == static(3) != static(4)
    assert static(1) != static(True) and static(1) != static(1.0)
    assert static(0.0) != static(-0.0) and static(float("nan")) == static(float("nan"))
    named, _ = signature_of((), {"n": [1]}, frozenset({"n"}))
    assert named.leaves == (ConstantKey(named.leaves[0].value),) or named.leaves[0].value == [1]


def test_statics_by_identity():
    class Thing:
        def __eq__(self, other):
            raise AssertionError("compared")

        __hash__ = None

    a, b = Thing(), Thing()
    assert of(a) == of(a) != of(b)
    assert of(None) == of(None) and of(...) == of(...)
    kept, seen = of(a), weakref.ref(a)
    del a
    gc.collect()
    assert seen() is None and kept.leaves[0].value is None
    assert kept == kept and kept != of(Thing()) and kept != of(None)
    assert "None" in repr(kept.leaves[0])


values = st.recursive(
    st.one_of(
        st.floats(),
        st.integers(-(2**62), 2**62),
        st.booleans(),
        st.none(),
        st.text(max_size=2),
        st.complex_numbers(),
        st.sampled_from([np.float32(1), np.int8(2), np.ones(2), np.ones((2, 1), "i4")]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=8,
)


@given(st.lists(values, max_size=3))
def test_a_rebuilt_value_has_an_equal_signature(args):
    signature, leaves = signature_of(args, {})
    rebuilt, at = [], 0
    for structure in signature.structures:
        rebuilt.append(tree.unflatten(structure, leaves[at : at + structure.count]))
        at += structure.count
    assert at == len(leaves) == len(signature.leaves)
    again, _ = signature_of(rebuilt, {})
    assert again == signature and hash(again) == hash(signature)
    assert signature.is_native


def test_output_slots():
    f8 = np.dtype("f8")
    outputs = sig.Outputs(
        tree.flatten([0] * 6)[1],
        (
            sig.ArrayOut(f8, (3,)),
            sig.ScalarOut(complex),
            sig.ConstantOut(None),
            sig.ScalarOut(np.float32),
            sig.InputOut(0),
            sig.AliasOut(0),
        ),
    )
    assert outputs.offsets == (0, 1, 3, 3, 4, 4, 4)
