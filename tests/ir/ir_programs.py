"""Random IR functions, and helpers that compare and run functions.

`any_function` draws functions for the text form, whose types need not fit; `programs` draws
functions that verify, and that `evaluate` can run.
"""

from __future__ import annotations

import warnings

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import tracker.ops  # noqa: F401  (declares the ops)
from tracker.ir.graph import Const, Eqn, Function, Guard, Var
from tracker.ir.op import OPS
from tracker.ir.structural_keys import const_key, params_key
from tracker.ir.types import DTYPES, PYTHON_DTYPES, Type, type_of

# Anything that has a text -------------------------------------------------------------------------

NAMES = st.from_regex(r"[a-z_][a-z0-9_.]{0,3}", fullmatch=True) | st.sampled_from(
    ("", "inf", "nan", "f64", "return", "guard", "True", "<lambda>", "w[0]", "é", "complex", "a")
)
WHERE = st.sampled_from(["", "model.py:12", "/tmp/a b#c/{x}.py:3", "  padded  ", "<stdin>:1"])


def _bits(dtype):
    raw = st.binary(min_size=dtype.itemsize, max_size=dtype.itemsize)
    if dtype.kind == "b":
        return st.booleans().map(np.bool_)
    if dtype.char in "gG":  # not every bit pattern is a long double
        return st.floats().map(dtype.type)
    return raw.map(lambda bytes: np.frombuffer(bytes, dtype)[0])


SCALARS = st.one_of(
    st.booleans(), st.integers(), st.floats(), st.complex_numbers(), *map(_bits, DTYPES.values())
)
PARAMS = st.recursive(
    st.one_of(
        SCALARS,
        st.none(),
        st.just(...),
        st.text(),
        st.sampled_from([*DTYPES.values(), np.dtype("M8[s]"), np.dtype("U3"), np.dtype(">f8")]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.builds(slice, inner, inner, inner),
    ),
    max_leaves=4,
)
TYPES = st.one_of(
    st.builds(
        lambda shape, dtype: Type(tuple(shape), dtype),
        st.lists(st.integers(0, 12), max_size=3),
        st.sampled_from([*DTYPES.values(), np.dtype("M8[s]")]),
    ),
    st.sampled_from([Type((), dtype, True) for dtype in PYTHON_DTYPES.values()]),
)


@st.composite
def any_function(draw, depth=1, name=None):
    def variables(least):
        types = draw(st.lists(TYPES, min_size=least, max_size=3))
        return [Var(type, draw(NAMES)) for type in types]

    inputs, captures = variables(1), variables(0)
    nested = {}
    if depth:
        for k in range(draw(st.integers(0, 2))):
            nested[f"f{k}"] = draw(any_function(depth - 1, f"f{k}"))
    known = inputs + captures
    atoms = lambda: st.one_of(st.sampled_from(known), SCALARS.map(Const.of))  # noqa: E731
    params = PARAMS | st.sampled_from(list(nested.values())) if nested else PARAMS
    body = []
    for _ in range(draw(st.integers(0, 5))):
        if draw(st.integers(0, 4)) == 0:
            kind, expected = draw(st.sampled_from([("bool", True), ("bool", False), ("int", -3)]))
            body.append(Guard(draw(atoms()), kind, expected, draw(WHERE)))
            continue
        out = Var(draw(TYPES), draw(NAMES))
        body.append(
            Eqn(
                OPS[draw(st.sampled_from(sorted(OPS)))],
                tuple(draw(st.lists(atoms(), max_size=3))),
                draw(st.dictionaries(st.sampled_from(["axis", "shape", "k"]), params, max_size=2)),
                out,
                draw(WHERE),
            )
        )
        known.append(out)
    outputs = tuple(draw(st.lists(atoms(), max_size=3)))
    name = name or draw(st.sampled_from(["loss", "<lambda>", "f.<locals>.g"]))
    return Function(name, tuple(inputs), tuple(captures), tuple(body), outputs, nested)


def canonical(function):
    """Equal for functions that differ in the identity and names of their variables only."""
    number = {}

    def define(var):
        number[var] = len(number)
        return var.type

    def atom(a):
        return const_key(a) if isinstance(a, Const) else number[a]

    def param(value):
        if not isinstance(value, Function):
            return params_key({"": value})
        return ("nested", next(k for k, f in function.functions.items() if f is value))

    def step(s):
        if isinstance(s, Guard):
            return ("guard", atom(s.operand), s.kind, params_key({"": s.expected}), s.where)
        operands = tuple(map(atom, s.operands))
        params = tuple((k, param(v)) for k, v in s.params.items())
        return (s.op, operands, params, define(s.out), s.where)

    return (
        function.name,
        tuple(map(define, function.inputs)),
        tuple(map(define, function.captures)),
        tuple(map(step, function.body)),
        tuple(map(atom, function.outputs)),
        tuple((k, canonical(f)) for k, f in function.functions.items()),
    )


# Functions that run -------------------------------------------------------------------------------

SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -0.3, 1e-320, 1e300, np.inf, -np.inf, np.nan]
SHAPES = [(), (3,), (1,), (2, 3), (1, 3), (2, 1)]
UNARY = [
    *("negative", "positive", "absolute", "square", "sqrt", "reciprocal", "copy", "exp", "tanh"),
    *("conjugate", "real", "logical_not", "sign"),
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "copysign",
    "strong_multiply",
    "finite_multiply",
    "greater",
    "equal",
]


@st.composite
def programs(draw):
    """A function with inputs of several dtypes, in which the rewritable patterns are frequent."""
    dtypes = st.sampled_from(["f8", "f8", "f4", "i8", "i2", "c16", "?"])
    inputs = [
        Var(Type(draw(st.sampled_from(SHAPES)), np.dtype(draw(dtypes))))
        for _ in range(draw(st.integers(1, 3)))
    ]
    known, body = list(inputs), []
    for _ in range(draw(st.integers(1, 14))):
        op, operands, params = draw(_right_hand_side(known))
        try:
            type = OPS[op].infer(*[a.type for a in operands], **params)
        except Exception:
            continue
        if not type.weak:
            body.append(Eqn(OPS[op], operands, params, Var(type), f"p.py:{len(body)}"))
            known.append(body[-1].out)
    outputs = tuple(draw(st.lists(st.sampled_from(known[-4:]), min_size=1, max_size=3)))
    return Function("program", tuple(inputs), (), tuple(body), outputs)


@st.composite
def _right_hand_side(draw, known):
    recent = st.sampled_from(known[-3:] * 2 + known)
    literal = st.one_of(
        st.sampled_from([0, 1, -1, 2, 0.0, -0.0, 1.0, -1.0, 2.0, 0.25, 3.0, True]),
        st.sampled_from(SPECIAL).map(np.float64),
        st.sampled_from([0.0, 1.0, -2.0]).map(np.float32),
        st.sampled_from([np.int64(1), np.complex128(1), np.bool_(True)]),
    ).map(Const.of)
    x = draw(recent)
    match draw(
        st.sampled_from(
            ["unary", "binary", "binary", "literal", "literal", "shape", "shape", "fill", "where"]
        )
    ):
        case "unary":
            return draw(st.sampled_from(UNARY)), (x,), {}
        case "binary":
            return draw(st.sampled_from(BINARY)), (x, draw(recent)), {}
        case "literal":
            pair = [x, draw(literal)]
            if draw(st.booleans()):
                pair.reverse()
            elif x.type.shape and draw(st.booleans()):
                floats = [0.5, -1, 2.0, 1.0, np.float64(2)] if x.type.dtype.kind in "fc" else []
                exponent = draw(st.sampled_from([0, 1, 2, 3, *floats]))
                return "power", (x, Const.of(exponent)), {}
            return draw(st.sampled_from(BINARY)), tuple(pair), {}
        case "fill":
            source = draw(st.one_of(recent, literal))
            shape = draw(st.sampled_from(SHAPES))
            if draw(st.booleans()):
                own = source.type.shape
                wider = [s for s in [*SHAPES, own] if _broadcasts(own, s)]
                shape = draw(st.sampled_from(wider))
                return "broadcast_to", (source,), {"shape": shape}
            name = draw(st.sampled_from(["zeros_like", "ones_like"]))
            return name, (x,), {"shape": shape, "dtype": x.type.dtype}
        case "where":
            condition = draw(st.one_of(recent, st.booleans().map(Const.of)))
            return "where", (condition, x, draw(st.one_of(recent, literal))), {}
    return draw(_view(x))


def _broadcasts(shape, to):
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


@st.composite
def _view(draw, x):
    shape, axes = x.type.shape, list(range(x.type.ndim))
    match draw(st.sampled_from(["reshape", "transpose", "getitem", "astype", "sum"])):
        case "reshape":
            same_size = [s for s in [*SHAPES, (3, 2), (6,), shape] if np.prod(s) == x.type.size]
            return "reshape", (x,), {"shape": draw(st.sampled_from(same_size))}
        case "transpose":
            return "transpose", (x,), {"axes": tuple(draw(st.permutations(axes)))}
        case "getitem":
            index = [draw(st.sampled_from([slice(0, n, 1), slice(0, n, 2), 0])) for n in shape]
            return "getitem", (x,), {"index": tuple(index)}
        case "astype":
            dtype = np.dtype(draw(st.sampled_from(["f8", "f4", "c16"])))
            return "astype", (x,), {"dtype": dtype}
    axis = tuple(draw(st.lists(st.sampled_from(axes), unique=True)) if axes else ())
    name = draw(st.sampled_from(["sum", "prod", "max"]))
    return name, (x,), {"axis": axis, "keepdims": draw(st.booleans())}


def arguments(function, seed):
    """Values for the inputs, half of them special."""
    rng = np.random.default_rng(seed)
    return [_argument(var.type, rng) for var in function.inputs]


def _argument(type, rng):
    def part():
        return np.where(rng.random(type.shape) < 0.5, rng.choice(SPECIAL, type.shape), ordinary)

    ordinary = rng.normal(size=type.shape)
    if type.dtype.kind in "iub":
        return rng.integers(0 if type.dtype.kind == "b" else -3, 4, type.shape).astype(type.dtype)
    with np.errstate(all="ignore"):
        if type.dtype.kind == "c":
            return np.asarray(part() + 1j * ordinary, type.dtype)
        return np.asarray(part(), type.dtype)


def evaluate(function, values):
    """The outputs, by NumPy. Arrays are laid out afresh, so that sums add in the same order. All
    NaNs are one: their signs, which `copysign` reads, are not values."""
    known = dict(zip(function.inputs, values, strict=True))

    def value(atom):
        return atom.value if isinstance(atom, Const) else known[atom]

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for eqn in function.eqns:
            result = eqn.op.evaluate(*map(value, eqn.operands), **eqn.params)
            known[eqn.out] = made = np.array(result, order="C")
            for part in {"f": [made], "c": [made.real, made.imag]}.get(made.dtype.kind, ()):
                part[np.isnan(part)] = np.nan
            assume(type_of(known[eqn.out]) == eqn.out.type)  # `infer` is tested with the ops
    return [np.asarray(value(atom)) for atom in function.outputs]


def same_bits(a, b):
    """Equal to the sign of a zero; one NaN is like another."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "c":
        return same_bits(a.real, b.real) and same_bits(a.imag, b.imag)
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(
        np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b)
    )
