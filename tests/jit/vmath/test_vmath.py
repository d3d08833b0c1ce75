"""Every function of `vmath` against mpmath, over its whole range, in both formats.

Each function is compiled twice: as a loop of the compiler calls it, and as straight-line code does.
`vmath_exact.py` has the exact results. The bounds are the module's own, `vmath.ULP`.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import re
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pairwise_parameters import crossed
from vmath_exact import NUMPY_NAMES, base, error, exact

from tracker.jit import vmath

TYPES = {"double": np.float64, "float": np.float32}
CASES = [(name, type) for name in vmath.NAMES for type in TYPES]
UNARY = [case for case in CASES if vmath.NAMES[case[0]] == 1]
BINARY = [case for case in CASES if vmath.NAMES[case[0]] == 2]
DEEP = os.environ.get("TRACKER_HYPOTHESIS") == "deep"
POINTS = 20_000 if DEEP else 250

# One loop, as the emitter of the compiler would write it.

LOOP = """
{declarations}
{definitions}
define void @loop(i64 %n, ptr noalias %out, {parameters}) {{
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %body, label %done
body:
  %i = phi i64 [0, %entry], [%next, %body]
{loads}
  %result = call {type} {symbol}({arguments})
  %to = getelementptr inbounds {type}, ptr %out, i64 %i
  store {type} %result, ptr %to
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %body, label %done
done:
  ret void
}}
"""


def loop_text(name: str, type: str, straight: bool = False) -> str:
    operands = range(vmath.NAMES[name])
    wanted, calls = ([], {(name, type): 100}) if straight else ([(name, type)], {})
    return LOOP.format(
        declarations="\n".join(sorted(vmath.intrinsics(wanted, calls))),
        definitions=vmath.definitions(wanted, calls),
        parameters=", ".join(f"ptr noalias %in{k}" for k in operands),
        loads="\n".join(
            f"  %from{k} = getelementptr inbounds {type}, ptr %in{k}, i64 %i\n"
            f"  %x{k} = load {type}, ptr %from{k}"
            for k in operands
        ),
        arguments=", ".join(f"{type} %x{k}" for k in operands),
        type=type,
        symbol=vmath.straight_symbol(name, type) if straight else vmath.symbol(name, type),
    )


def optimised(text: str, machine: llvm.TargetMachine, straight: bool = False) -> llvm.ModuleRef:
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=1 if straight else 3)
    options.loop_vectorization = not straight
    llvm.create_pass_builder(machine, options).getModulePassManager().run(
        module, llvm.create_pass_builder(machine, options)
    )
    return module


@cache
def host() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        jit=True,
    )


class Loop:
    """A compiled function of arrays; the engine is kept alive with its code."""

    def __init__(self, name: str, type: str, straight: bool = False) -> None:
        module = optimised(loop_text(name, type, straight), host(), straight)
        self.text = str(module)
        self.dtype = TYPES[type]
        self.engine = llvm.create_mcjit_compiler(module, host())
        self.engine.finalize_object()
        pointers = [ctypes.c_void_p] * (vmath.NAMES[name] + 1)
        address = self.engine.get_function_address("loop")
        self.call = ctypes.CFUNCTYPE(None, ctypes.c_int64, *pointers)(address)

    def __call__(self, *xs: object) -> np.ndarray:
        arrays = [np.ascontiguousarray(x, self.dtype) for x in np.broadcast_arrays(*xs)]
        out = np.empty_like(arrays[0])
        self.call(out.size, out.ctypes.data, *(x.ctypes.data for x in arrays))
        return out


loop = cache(Loop)

# What each function should give.


NUMPY_NAMES |= {"acosh": "arccosh", "atanh": "arctanh", "pow": "power", "atan2": "arctan2"}


def check(name: str, type: str, *xs: object) -> None:
    arrays = [np.asarray(x, TYPES[type]) for x in xs]
    if name in vmath.RANGE_LIMIT:
        limit = vmath.RANGE_LIMIT[name][type]
        arrays = [x[~(np.abs(x) > limit) | np.isinf(x)] for x in arrays]
    forms = {"loop": loop(name, type)(*arrays)}
    if not name.endswith("_near"):
        forms["straight"] = loop(name, type, straight=True)(*arrays)
    for at, operands in enumerate(zip(*arrays, strict=True)):
        want = exact(name, *map(float, operands))
        with np.errstate(over="ignore"):
            nearest = float(TYPES[type](float(want)))
        for form, results in forms.items():
            got = float(results[at])
            if got == nearest and got != 0:
                continue  # half a unit at most
            ulps = error(got, want, type, floor=1.0 if name in vmath.ABSOLUTE_ERROR else 0.0)
            assert ulps <= vmath.ULP[name], f"{name}({operands}) = {got!r}: {ulps:.3f} ulp, {form}"


# Where the arguments come from.

DENSE = {
    "exp": (-750, 720),
    "exp2": (-1080, 1030),
    "expm1": (-45, 720),
    "sigmoid": (-750, 50),
    "sech_squared": (-380, 380),
    "softplus": (-750, 50),
    "tanh": (-25, 25),
    "sinh": (-712, 712),
    "cosh": (-712, 712),
    "log": (0, 4),
    "log2": (0, 4),
    "log10": (0, 4),
    "log1p": (-1, 3),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atanh": (-1, 1),
    "acosh": (1, 5),
    "erf": (-7, 7),
    "erfc": (-7, 28),
    "sin": (-50, 50),
    "cos": (-50, 50),
    "tan": (-50, 50),
    "sinpi": (-50, 50),
    "cospi": (-50, 50),
    "pow": (0, 4),
    "lgamma": (-12, 12),
    "digamma": (-12, 12),
    "logaddexp": (-40, 40),
    "gamma": (-20, 172),
    "trigamma": (-12, 12),
    "erfcx": (-27, 60),
    "ndtr": (-39, 9),
    "log_ndtr": (-100, 9),
    "erfinv": (-1, 1),
    "erfcinv": (0, 2),
    "ndtri": (0, 1),
    "i0": (-30, 715),
    "i1": (-30, 715),
    "i0e": (-30, 715),
    "i1e": (-30, 715),
    "k0": (0, 730),
    "k1": (0, 730),
    "k0e": (0, 730),
    "k1e": (0, 730),
}
HALF_PI_MULTIPLES = [k * math.pi / 2 for k in (1, 2, 3, 4, 5, 710, 10**6)]
# The double closest to a multiple of pi / 2, relative to its size.
WORST_ANGLE = math.ldexp(6381956970095103, 797)
SPECIAL = [
    *(0.0, 1.0, 0.5, 2.0, 3.0, 10.0, 1000.0, 1 / 3, math.pi, math.e, math.inf, math.nan),
    *(5e-324, 1e-310, 2.2250738585072014e-308, 1.7976931348623157e308, 1e22, 1e300, 1e16),
    *(1e-45, 1e-40, 1.1754943508222875e-38, 3.4028234663852886e38, 88.72283, 103.97, 89.4),
    *(709.782712893384, 709.7827128933841, 745.1332191019411, 745.1332191019412, 708.4),
    *(710.4758600739439, 710.475860073944, 1e-8, 1e-5, 0.41421356, 2.4142135, 0.9999999999999999),
    *(4503599627370497.0, 9007199254740993.0, 26.5, 27.2, WORST_ANGLE, *HALF_PI_MULTIPLES),
]
EDGES = np.array([*SPECIAL, *(-x for x in SPECIAL)])


def edges(type: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        return EDGES.astype(TYPES[type])


def dense(name: str, type: str, seed: int = 0) -> np.ndarray:
    low, high = DENSE.get(base(name), (-4, 4))
    if type == "float":
        low, high = max(low, -110), min(high, 95)
    random = np.random.default_rng(seed)
    wide, narrow = random.uniform(low, high, POINTS), random.uniform(max(low, -1.5), 1.5, POINTS)
    return np.concatenate([wide, narrow])


def every_exponent(type: str, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    first, last, count = (-1074, 1023, POINTS) if type == "double" else (-149, 127, 277)
    exponents = np.linspace(first, last, max(count, POINTS) if DEEP else count)
    mantissas = random.uniform(1, 2, len(exponents)) * random.choice([-1, 1], len(exponents))
    return np.ldexp(mantissas, np.floor(exponents).astype(int))


ARGUMENTS = {"dense": dense, "exponents": lambda _, type: every_exponent(type)}
ARGUMENTS["edges"] = lambda _, type: edges(type)


@pytest.mark.parametrize("name, type", UNARY)
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_unary(name: str, type: str, arguments: str) -> None:
    check(name, type, ARGUMENTS[arguments](name, type))


@pytest.mark.parametrize("name, type", BINARY)
def test_binary(name: str, type: str) -> None:
    x, y = dense(name, type), dense(name, type, seed=1)
    check(name, type, x, y)
    check(name, type, x, np.round(10 * y))
    x = every_exponent(type)
    check(name, type, x, np.roll(x, 61))
    check(name, type, x, np.roll(x, 1))


@pytest.mark.parametrize("name, type", BINARY)
def test_binary_edges(name: str, type: str) -> None:
    pairs = np.array(list(itertools.product(edges(type), repeat=2)))
    random = np.random.default_rng(0)
    few = random.permutation(len(pairs))[: len(pairs) if DEEP else 1500]
    check(name, type, pairs[few, 0], pairs[few, 1])


def many_floats(seed: int, count: int) -> np.ndarray:
    """Floats of all sizes, evenly among their bits: about as many of each exponent."""
    random = np.random.default_rng(seed)
    step = 2**32 // count
    bits = np.arange(count, dtype=np.uint64) * step + random.integers(0, step, count, np.uint64)
    floats = bits.astype(np.uint32).view(np.float32)
    return np.where(np.isnan(floats), np.float32(np.nan), floats)  # none that signals


@pytest.mark.parametrize("name", vmath.NAMES)
def test_many_floats_beside_doubles(name: str) -> None:
    """The form for floats against the one for doubles, whose errors are negligible here."""
    count = 2**22 if DEEP else 2**16
    xs = [many_floats(0, count)]
    if vmath.NAMES[name] == 2:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            near = xs[0] * np.random.default_rng(1).lognormal(0, 3, count).astype(np.float32)
        xs = [np.r_[xs[0], xs[0]], np.r_[near, many_floats(2, count)[::-1]]]
    if name in vmath.RANGE_LIMIT:
        xs = [x[np.abs(x) <= vmath.RANGE_LIMIT[name]["float"]] for x in xs]
    got = loop(name, "float")(*xs).astype(np.float64)
    want = loop(name, "double")(*xs)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(want), 1.0 if name in vmath.ABSOLUTE_ERROR else 0.0)
        unit = np.ldexp(1.0, np.clip(np.frexp(size)[1], -125, 128) - 24)
        ulps = np.abs(np.clip(got, -(2.0**128), 2.0**128) - np.clip(want, -(2.0**128), 2.0**128))
        ulps = np.where(np.isnan(got) & np.isnan(want), 0.0, ulps / unit)
    worst = np.argmax(ulps)  # a NaN, if there is one
    at = [float(x[worst]) for x in xs]
    assert ulps[worst] <= vmath.ULP[name], f"{name}({at}) = {got[worst]}: {ulps[worst]:.3f} ulp"


@pytest.mark.parametrize("type", TYPES)
def test_pow_near_one_and_at_the_ends(type: str) -> None:
    """Where the error of the logarithm is multiplied most."""
    random = np.random.default_rng(0)
    end = 1080 if type == "double" else 155
    near = 1 + random.choice([-1, 1], POINTS) * 10 ** random.uniform(-7, -1, POINTS)
    x = np.concatenate([near, np.abs(every_exponent(type))]).astype(TYPES[type])
    x = x[x != 1]
    y = random.uniform(-end, end, x.size) / np.log2(x.astype(float))
    check("pow", type, x, np.clip(y, -1e30, 1e30))


def test_pow_table() -> None:
    """The list of C99 F.9.4.4, signs included, by NumPy, whose last bit the processor decides."""
    values = [0.0, 0.5, 1.0, 2.0, 3.0, 2.0**53 + 2, 1e300, math.inf, math.nan]
    values += [-value for value in values]
    x, y = map(np.ravel, np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        want = np.power(x, y)
    got = loop("pow", "double")(x, y)
    np.testing.assert_allclose(got, want, rtol=1e-15, atol=0)
    check("pow", "double", x, y)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


def test_lgamma_below_zero_keeps_the_digits_of_its_argument() -> None:
    """The mirrored argument 1 - x has fewer digits than x."""
    check("lgamma", "double", [-7.008327710849868, -3.7344575366336343, -1e-300, -5e-324, -0.5])


EQUAL = {
    "exp": [(0, 1)],
    "exp2": [(3, 8), (-1074, 5e-324), (1023, 2.0**1023)],
    "log2": [(8, 3), (5e-324, -1074), (2.0**-1022, -1022)],
    "log10": [(1000, 3), (1e22, 22), (0.1, -1)],
    "cbrt": [(27, 3), (-8, -2), (1e-300, 1e-100)],
    "sqrt": [(9, 3)],
    "cos": [(0, 1)],
    "sigmoid": [(0, 0.5), (1000, 1), (-1000, 0)],
    "tanh": [(1000, 1), (-1000, -1)],
    "sech_squared": [(0, 1), (400, 0), (-1e300, 0)],
    "erfc": [(0, 1), (-30, 2)],
    "sin": [(1e22, -0.8522008497671888), (1e300, -0.8178819121159085)],
}


@pytest.mark.parametrize("name, x, y", [(n, *pair) for n in EQUAL for pair in EQUAL[n]])
def test_exact_values(name: str, x: float, y: float) -> None:
    assert loop(name, "double")([x])[0] == y
    assert loop(name, "double", straight=True)([x])[0] == y


def floats(type: str) -> st.SearchStrategy[float]:
    return st.floats(width=64 if type == "double" else 32)


@pytest.mark.parametrize("name, type", CASES)
def test_any_float(name: str, type: str) -> None:
    @settings(max_examples=1000 if DEEP else 10, deadline=None, database=None)
    @given(st.lists(st.tuples(*[floats(type)] * vmath.NAMES[name]), min_size=1, max_size=8))
    def run(rows: list[tuple[float, ...]]) -> None:
        check(name, type, *zip(*rows, strict=True))

    run()


@pytest.mark.parametrize("name, type", CASES)
def test_result_does_not_depend_on_position(name: str, type: str) -> None:
    """The vector loop and its scalar remainder agree to the bit."""
    function, operands = loop(name, type), vmath.NAMES[name]
    xs = [np.roll(np.r_[edges(type), dense(name, type)], k).astype(TYPES[type]) for k in (0, 7)]
    whole = function(*xs[:operands])
    alone = [function(*([x[k]] for x in xs[:operands]))[0] for k in range(whole.size)]
    np.testing.assert_array_equal(whole, np.array(alone))


def target(cpu: str) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    triple = "x86_64-unknown-linux-gnu"
    return llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3)


@crossed(name=vmath.NAMES, type=TYPES, cpu=["x86-64-v3", "skylake-avx512"])
def test_vectorises(name: str, type: str, cpu: str) -> None:
    text = str(optimised(loop_text(name, type), target(cpu)))
    widened = type == "float" and "fpext float" in vmath.definitions([(name, type)])
    lanes = 256 // (64 if widened or type == "double" else 32)
    widths = [int(n) for n in re.findall(r"store <(\d+) x \w+>", text)]
    assert widths and max(widths) >= lanes
    assert "@vm." not in re.sub("@vm.(two_over_pi|factorials)", "", text)


def test_definitions_are_complete_and_deterministic() -> None:
    text = vmath.definitions(CASES)
    assert text == vmath.definitions(reversed(CASES)) == vmath.definitions(CASES * 2)
    assert "declare" not in text
    for name, type in CASES:
        assert text.count(f"define internal {type} {vmath.symbol(name, type)}(") == 1
    called = set(re.findall(r"call \w+ (@llvm[\w.]+)\(", text))
    assert called == {re.search(r"@[\w.]+", line)[0] for line in vmath.intrinsics(CASES)}
    calls = {case: number for number, case in enumerate(reversed(CASES))}
    everything = vmath.definitions(CASES, calls)
    assert everything == vmath.definitions(CASES[::-1], dict(reversed(calls.items())))
    assert everything.count("alwaysinline") == len(CASES) + 9  # few calls of a copy: up to eight
    assert set(vmath.ULP) == set(vmath.NAMES) >= vmath.ABSOLUTE_ERROR | set(vmath.RANGE_LIMIT)
    for wanted, copies, whole in ((CASES, {}, text), (CASES, calls, everything)):
        declared = sorted(vmath.intrinsics(wanted, copies))
        llvm.parse_assembly("\n".join([*declared, whole])).verify()
