"""Hand-written plans, and the checks of native calls that need only NumPy and llvmlite.

`PYTHONPATH=tests/common python tests/jit/smoke_native.py` runs every check in any Python;
`abi/test_native_callable.py` runs them too.
"""

import copy
import dataclasses
import gc
import sys
import weakref
from collections import OrderedDict, namedtuple

import numpy as np
from concurrently import at_once

from tracker import tree
from tracker.jit.abi import loader, native_callable
from tracker.jit.abi.entry import PlanTraits
from tracker.jit.guards.signature import (
    AliasOut,
    ArrayOut,
    ConstantOut,
    InputOut,
    Outputs,
    ScalarOut,
    signature_of,
)

F8 = np.dtype("f8")
Point = namedtuple("Point", "x y")
JITTED = native_callable.make_type(
    "tracker.smoke_native.Jitted",
    {"__repr__": lambda self: "<jitted>", "answer": property(lambda s: 42)},
)


@dataclasses.dataclass
class Body:
    mass: float
    place: np.ndarray


class Bag(list):
    """A list subclass: only Python knows its children."""


def slow(*args, **kwargs):
    return "slow", args, kwargs


def shape_of(x):
    return tree.flatten(x)[1]


def slot(number):
    return f"  %s{number} = getelementptr i64, ptr %s, i64 {number}\n"


def plan(body):
    return f"define internal i64 @plan(ptr %s) {{\n{body}}}\n"


NOTHING = plan("  ret i64 0\n")
REFUSE = plan("  ret i64 1\n")


def copying(*pairs, type_="i64"):
    """Copy slots to slots."""
    lines = [slot(n) for n in sorted({n for pair in pairs for n in pair})]
    for k, (a, b) in enumerate(pairs):
        lines.append(f"  %v{k} = load {type_}, ptr %s{a}\n  store {type_} %v{k}, ptr %s{b}\n")
    return plan("".join(lines) + "  ret i64 0\n")


def scaling(source, target, count, factor):
    """target[i] = factor * source[i] for arrays in two slots."""
    return plan(
        slot(source)
        + slot(target)
        + f"""  %x = load ptr, ptr %s{source}
  %y = load ptr, ptr %s{target}
  br label %loop
loop:
  %i = phi i64 [0, %0], [%next, %step]
  %more = icmp slt i64 %i, {count}
  br i1 %more, label %step, label %done
step:
  %xi = getelementptr double, ptr %x, i64 %i
  %yi = getelementptr double, ptr %y, i64 %i
  %v = load double, ptr %xi
  %w = fmul double %v, {float(factor)}
  store double %w, ptr %yi
  %next = add i64 %i, 1
  br label %loop
done:
  ret i64 0
"""
    )


def entry(text, args, leaves, structure=tree.LEAF, kwargs=None, **options):
    signature, _ = signature_of(args, kwargs or {})
    return entry_for(text, signature, Outputs(structure, tuple(leaves)), **options)


def entry_for(*call, **options):
    return loader.compile_entry(loader.prepare_entry(*call, **options))


def jitted(*entries, cls=JITTED, fallback=slow):
    made = native_callable.new_callable(cls, fallback)
    for one in entries:
        native_callable.push_entry(made, one)
    return made


def compiled(text, args, leaves, structure=tree.LEAF, kwargs=None, **options):
    return jitted(entry(text, args, leaves, structure, kwargs, **options))


def took_slow_path(result):
    return type(result) is tuple and len(result) == 3 and result[0] == "slow"


def check_scalars():
    for x in (2.5, -7, 1 + 2j, np.float64(2.5), np.float32(1.5), np.int8(-3)):
        check_scalar(x)
    for x in (np.uint8(200), np.int64(-(2**63)), np.uint64(2**64 - 1), np.bool_(True)):
        check_scalar(x)
    for x in (np.complex128(1 + 2j), np.complex64(3 - 1j), np.float16(0.5), np.longlong(5)):
        check_scalar(x)


def check_bools():
    """A Python bool is a flag: each value has a specialisation of its own."""
    f = compiled(copying((0, 1)), (True, 2.5), [ScalarOut(float)])
    assert f(True, 2.5) == 2.5
    assert took_slow_path(f(False, 2.5))
    assert took_slow_path(f(np.True_, 2.5))


def check_scalar(x):
    cls = type(x)
    parts = 2 if isinstance(x, (complex, np.complexfloating)) else 1
    f = compiled(copying(*((k, k + parts) for k in range(parts))), (x,), [ScalarOut(cls)])
    result = f(x)
    assert type(result) is cls and result == x
    for other in ("text", None, np.ones(1), object()):
        assert took_slow_path(f(other))


def check_int_limits():
    f = compiled(copying((0, 1)), (1,), [ScalarOut(int)])
    for x in (0, -1, 2**62, 2**63 - 1, -(2**63)):
        assert f(x) == x
    for x in (2**63, -(2**63) - 1, 10**40, True, 1.0, np.int64(1)):
        assert took_slow_path(f(x)), x


def check_arrays():
    x = np.arange(6.0).reshape(2, 3)
    f = compiled(scaling(0, 1, 6, 3.0), (x,), [ArrayOut(F8, (2, 3))])
    result = f(x)
    assert result is not x and result.flags.owndata and result.dtype == F8
    np.testing.assert_array_equal(result, 3 * x)
    assert f(x) is not result
    odd = np.zeros(2 * 6 * 8 + 1, np.uint8)[1 : 1 + 48].view("f8").reshape(2, 3)
    refused = [
        x.T,
        x.T.copy(),
        x.ravel(),
        x[None],
        x.astype("f4"),
        x.astype(">f8"),
        x.astype("i8"),
        x.view(np.matrix),
        np.zeros((4, 3))[::2],
        np.zeros((2, 6))[:, ::2],
        np.float64(1),
        np.array(1.0),
        np.zeros((0, 3)),
        odd,
        x.tolist(),
        x.astype(object),
        x.astype("M8[s]"),
        3.0,
    ]
    for other in refused:
        assert took_slow_path(f(other)), other
    frozen = x.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(f(frozen), 3 * x)


def check_dtype_objects():
    """A dtype that is equal but another object (unpickled, with metadata) is accepted."""
    x = np.arange(3.0)
    f = compiled(scaling(0, 1, 3, 2.0), (x,), [ArrayOut(F8, (3,))])
    for dtype in (copy.deepcopy(F8), np.dtype("f8", metadata={"unit": "m"}), F8.newbyteorder("<")):
        np.testing.assert_array_equal(f(x.astype(dtype)), 2 * x)
    longs = np.arange(3, dtype=np.longlong)
    g = compiled(NOTHING, (np.arange(3),), [ConstantOut("hit")])
    assert g(longs) == "hit" and took_slow_path(g(longs.view(np.ulonglong)))


def check_small_and_empty_shapes():
    for shape in ((), (0,), (3, 0), (1,), (1, 1, 1, 1, 1, 1)):
        x = np.full(shape, 2.0)
        f = compiled(scaling(0, 1, x.size, 5.0), (x,), [ArrayOut(F8, shape)])
        result = f(x)
        assert type(result) is np.ndarray and result.shape == shape
        np.testing.assert_array_equal(result, 5 * x)
        assert took_slow_path(f(np.ones((2, 2))))


def check_keywords():
    f = compiled(
        copying((0, 3), (1, 4), (2, 5)),
        (1.0,),
        [ScalarOut(float)] * 3,
        shape_of((0, 0, 0)),
        {"a": 2.0, "b": 3.0},
    )
    assert f(1.0, a=2.0, b=3.0) == (1.0, 2.0, 3.0)
    not_interned = {"".join(["", "a"]): 2.0, "".join(["", "b"]): 3.0}
    assert f(1.0, **not_interned) == (1.0, 2.0, 3.0)
    assert f(1.0, b=3.0, a=2.0) == ("slow", (1.0,), {"b": 3.0, "a": 2.0})
    assert f(1.0, 2.0, b=3.0) == ("slow", (1.0, 2.0), {"b": 3.0})
    assert f(1.0, a=2.0) == ("slow", (1.0,), {"a": 2.0})
    assert f() == ("slow", (), {})
    g = compiled(NOTHING, (1.0,), [ConstantOut("hit")])
    no_names = {}
    assert g(1.0) == "hit" and g(1.0, **no_names) == "hit"
    assert took_slow_path(g(1.0, a=1)) and took_slow_path(g(x=1.0))


def check_structures():
    args = ({"w": [1.0, 2.0], "p": Point(3.0, (4.0,))}, [5.0])
    kinds = [ScalarOut(float)] * 5
    f = compiled(copying(*((k, k + 5) for k in range(5))), args, kinds, shape_of(args))
    result = f(*args)
    assert result == args and type(result[0]["p"]) is Point and list(result[0]) == ["w", "p"]
    for other in (
        ({"p": Point(3.0, (4.0,)), "w": [1.0, 2.0]}, [5.0]),
        ({"w": [1.0], "p": Point(3.0, (4.0,))}, [5.0]),
        ({"w": (1.0, 2.0), "p": Point(3.0, (4.0,))}, [5.0]),
        ({"w": [1.0, 2.0], "p": (3.0, (4.0,))}, [5.0]),
        ({"w": [1.0, 2.0], "p": Point(3.0, (4.0,)), "q": 1.0}, [5.0]),
        ({"w": [1.0, 2.0]}, [5.0]),
        (OrderedDict(args[0]), [5.0]),
        (args[0], Bag([5.0])),
    ):
        assert took_slow_path(f(*other)), other
    for empty in ((), [], {}):
        g = compiled(NOTHING, (empty,), [], shape_of(empty))
        assert g(empty) == empty and type(g(empty)) is type(empty)
        assert took_slow_path(g(1.0))


def check_python_containers():
    """Containers that only Python can open and build."""
    x = np.arange(3.0)
    body, bag, keyed, ordered = Body(2.0, x), Bag([x, x]), {1: x, (2, 3): x}, OrderedDict(a=x)
    args = (body, bag, keyed, ordered)
    count = len(tree.leaves(args))
    leaves = [InputOut(k) for k in range(count)]
    f = compiled(NOTHING, args, leaves, shape_of(args))
    back = f(*args)
    assert [type(one) for one in back] == [type(one) for one in args]
    assert back[0].mass == 2.0 and back[0].place is x and back[1][1] is x
    assert list(back[2]) == [1, (2, 3)] and back[3]["a"] is x
    assert took_slow_path(f(Body(2, x), bag, keyed, ordered))
    assert took_slow_path(f(body, Bag([x]), keyed, ordered))
    assert took_slow_path(f(body, bag, {1: x, 2: x}, ordered))
    assert took_slow_path(f(body, bag, keyed, OrderedDict(b=x)))


def check_statics():
    for value, equal, others in (
        ("mode", "".join(["mo", "de"]), ["Mode", b"mode", None]),
        (None, None, [0, False]),
        (len, len, [max]),
        (slow, slow, [lambda: 0]),
        (np.float64, np.float64, [np.float32]),
    ):
        f = compiled(NOTHING, (value, 1.0), [ConstantOut("hit")])
        assert f(value, 1.0) == f(equal, 1.0) == "hit"
        for other in others:
            assert took_slow_path(f(other, 1.0)), other
    static = frozenset({0})
    for value, others in ((10**30, [10**30 + 1, 1.0]), (0.0, [-0.0, 1.0, 0]), (1, [True, 1.0, 2])):
        signature, _ = signature_of((value,), {}, static)
        hit = Outputs(tree.LEAF, (ConstantOut("hit"),))
        f = jitted(entry_for(NOTHING, signature, hit))
        assert f(type(value)(str(value))) == "hit"
        for other in others:
            assert took_slow_path(f(other)), other


def check_static_objects_are_not_kept():
    class Thing:
        pass

    thing = Thing()
    f = compiled(NOTHING, (thing,), [ConstantOut("hit")])
    assert f(thing) == "hit"
    seen = weakref.ref(thing)
    address = id(thing)
    del thing
    assert seen() is None
    others = [Thing() for _ in range(100)]
    assert any(id(other) == address for other in others) or sys.version_info >= (3, 12)
    assert all(took_slow_path(f(other)) for other in others)


def check_outputs():
    x, token = np.arange(3.0), object()
    leaves = [ConstantOut(token), InputOut(0), ArrayOut(F8, (3,)), AliasOut(2), ConstantOut(None)]
    f = compiled(scaling(0, 1, 3, 2.0), (x,), leaves, shape_of((0, [0, 0], {"k": 0, 2: 0})))
    a, (b, c), d = f(x)
    assert a is token and b is x and c is d["k"] and d[2] is None
    np.testing.assert_array_equal(c, 2 * x)
    built = Outputs(shape_of(Bag([0.0])), (ScalarOut(float),), lambda s, kids: (s.cls, kids))
    g = jitted(entry_for(copying((0, 1)), signature_of((1.0,), {})[0], built))
    assert g(7.0) == (Bag, (7.0,))


def check_captures():
    captured = np.arange(3.0)
    f = compiled(scaling(1, 2, 3, 2.0), (1.0,), [ArrayOut(F8, (3,))], captures=[captured])
    np.testing.assert_array_equal(f(0.0), [0, 2, 4])
    captured += 1
    np.testing.assert_array_equal(f(0.0), [2, 4, 6])
    for shape in ((3, 1), (5,), ()):
        captured.resize(shape, refcheck=False)
        assert took_slow_path(f(0.0))
    captured.resize(3, refcheck=False)
    captured[:] = [1, 2, 3]
    np.testing.assert_array_equal(f(0.0), [2, 4, 6])
    strided = np.arange(6.0)[::2]
    g = compiled(NOTHING, (1.0,), [ConstantOut("hit")], captures=[strided])
    assert g(0.0) == "hit"


def check_chain():
    """Three entries: guards fail one after the other, then the slow path."""
    keeps = "  %x = load double, ptr %s\n  %no = fcmp {} double %x, 0.0\n  br i1 %no, "
    keeps += "label %bad, label %good\nbad:\n  ret i64 1\ngood:\n  ret i64 0\n"
    a = entry(plan(keeps.format("ole")), (1.0,), [ConstantOut("positive")])
    b = entry(plan(keeps.format("oge")), (1.0,), [ConstantOut("negative")])
    c = entry(NOTHING, (1,), [ConstantOut("integer")])
    f = jitted(a, b, c)
    assert native_callable.entries(f) == (c, b, a)
    assert [f(2.0), f(-2.0), f(2)] == ["positive", "negative", "integer"]
    assert f(float("nan")) == "negative"
    assert took_slow_path(f(0.0)) and took_slow_path(f("x"))
    native_callable.remove_all_entries(f)
    assert took_slow_path(f(2.0)) and native_callable.entries(f) == ()


def check_exceptions():
    def fails(*_):
        raise KeyError("slow")

    f = native_callable.new_callable(JITTED, fails)
    assert_raises(KeyError, f, 1.0)
    unpaid = plan("  call void @PyErr_SetNone(ptr @boom)\n  ret i64 -1\n")
    unpaid = "declare void @PyErr_SetNone(ptr)\n@boom = external global i8\n" + unpaid
    x = np.arange(3.0)
    symbols = {"boom": id(ZeroDivisionError)}
    g = compiled(unpaid, ([x],), [ArrayOut(F8, (3,))], symbols=symbols)
    before = sys.getrefcount(x)
    for _ in range(100):
        assert_raises(ZeroDivisionError, g, [x])
    assert sys.getrefcount(x) == before

    def refuses(structure, children):
        raise OSError(children)

    broken = Outputs(
        shape_of(([0, 0], Bag([0, 0]))), (ArrayOut(F8, (3,)), InputOut(0)) * 2, refuses
    )
    h = jitted(entry_for(NOTHING, signature_of((x,), {})[0], broken))
    for _ in range(100):
        assert_raises(OSError, h, x)
    assert sys.getrefcount(x) == before


def assert_raises(error, f, *args):
    try:
        f(*args)
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def check_methods():
    class Model:
        scale = compiled(NOTHING, ("self", 2.0), [ConstantOut("never")])

    model = Model()
    assert model.scale(2.0) == ("slow", (model, 2.0), {})
    bound = model.scale
    assert bound.__self__ is model and bound.__func__ is Model.__dict__["scale"]
    assert Model.scale is Model.__dict__["scale"]
    native_callable.push_entry(Model.scale, entry(NOTHING, (model, 2.0), [ConstantOut("native")]))
    assert model.scale(2.0) == bound(2.0) == Model.scale(model, 2.0) == "native"
    assert took_slow_path(Model().scale(2.0))


def check_type():
    f = compiled(NOTHING, (1.0,), [ConstantOut("hit")])
    assert callable(f) and repr(f) == "<jitted>" and f.answer == 42
    f.note = "kept"
    assert vars(f) == {"note": "kept"} and type(f).__module__ == "tracker.smoke_native"
    assert_raises(TypeError, JITTED)
    assert_raises(TypeError, type, "Sub", (JITTED,), {})
    assert_raises(TypeError, copy.copy, f)
    assert_raises(ValueError, native_callable.make_type, "m.T", {"__call__": None})
    assert weakref.ref(f)() is f
    assert_raises(ValueError, native_callable.push_entry, jitted(), native_callable.entries(f)[0])


def check_builtin():
    f = native_callable.make_builtin(
        entry(scaling(0, 1, 3, 2.0), (np.ones(3),), [ArrayOut(F8, (3,))]), "kernel", slow
    )
    assert type(f) is type(len) and f.__name__ == "kernel"
    np.testing.assert_array_equal(f(np.ones(3)), [2, 2, 2])
    assert f(1, k=2) == ("slow", (1,), {"k": 2})


def check_collectable():
    """Cycles through the slow callable, the dict and an entry's objects are collected."""
    for tie in (tie_by_slow, tie_by_dict, tie_by_constant):
        seen = weakref.ref(tie())
        gc.collect()
        assert seen() is None, tie.__name__


def tie_by_slow():
    def fallback(x):
        return f, x

    f = jitted(fallback=fallback)
    return f


def tie_by_dict():
    f = compiled(NOTHING, (1.0,), [ConstantOut("hit")])
    f.itself = f
    return f


def tie_by_constant():
    f = native_callable.new_callable(JITTED, slow)
    native_callable.push_entry(f, entry(NOTHING, (1.0,), [ConstantOut(f)]))
    assert f(1.0) is f
    return f


def check_code_outlives_calls():
    """Removing entries, or the last reference, inside a call must not free its code."""

    class Meddler:
        def __init__(self, data):
            self.data = data

    def children(meddler):
        native_callable.remove_all_entries(f)
        gc.collect()
        return (meddler.data,), None

    tree.register(Meddler, children, lambda _, kids: Meddler(*kids))
    f = native_callable.new_callable(JITTED, slow)
    for _ in range(6):
        one = entry(NOTHING, (Meddler(1.0),), [ConstantOut("hit")])
        native_callable.push_entry(f, one)
        del one
        assert f(Meddler(2.0)) == "hit"
        assert took_slow_path(f(Meddler(2.0)))
    del tree._REGISTERED[Meddler]


def check_references():
    """Many calls of every kind leave the counts of all objects as they were."""
    x, token = np.arange(3.0), object()
    args = ({"a": x, "b": [x, 2.5]}, Point(x, "k"), Body(1.0, x))
    leaves = [ConstantOut(token), ArrayOut(F8, (3,)), AliasOut(1), ScalarOut(float)]
    leaves += [ScalarOut(np.float64), ScalarOut(bool), InputOut(0)]
    structure = shape_of((0, {"k": 0, "l": 0}, [0, Point(0, 0)], Bag([0])))
    count = len(tree.leaves(args))
    hit = compiled(zeroing(count, 4), args, leaves, structure)
    refused = compiled(REFUSE, args, leaves, structure)
    watched = [x, token, F8, Point, Bag, slow, np.float64, args[0], args[0]["b"], args[1]]
    for f in (hit, refused, compiled(NOTHING, (1.0,), [ConstantOut(1)])):
        call_often(f, args, 100)
        before = [sys.getrefcount(one) for one in watched]
        call_often(f, args, 25_000)
        after = [sys.getrefcount(one) for one in watched]
        assert before == after, (before, after)


def zeroing(first, count):
    """Zero in every output slot but the array's."""
    lines = "".join(slot(n) + f"  store i64 0, ptr %s{n}\n" for n in range(first, first + count))
    return plan(lines.replace(f"  store i64 0, ptr %s{first}\n", "") + "  ret i64 0\n")


def call_often(f, args, times):
    for _ in range(times):
        f(*args)


def check_threads():
    x = np.arange(1000.0)
    for release in (False, True):
        leaves = [ArrayOut(F8, (1000,))]
        f = compiled(
            scaling(0, 1, 1000, 2.0), (x,), leaves, traits=PlanTraits(releases_gil=release)
        )
        wrong = []

        def work(f=f, wrong=wrong):
            for k in range(300):
                if (f(x + k) != 2 * (x + k)).any():
                    wrong.append(k)

        at_once(*[work] * 4)
        assert not wrong


CHECKS = [
    one
    for name, one in list(globals().items())
    if name.startswith("check_") and name != "check_scalar"
]

if __name__ == "__main__":
    for check in CHECKS:
        check()
    print(f"{len(CHECKS)} checks passed on Python {sys.version.split()[0]}, NumPy {np.__version__}")
