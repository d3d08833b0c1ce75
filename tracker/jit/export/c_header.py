"""The C header of exported functions."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

from tracker.jit.export.c_functions import CFunction, is_address

C_TYPES = {
    "float64": "double",
    "float32": "float",
    "complex128": "TRACKER_COMPLEX(double)",
    "complex64": "TRACKER_COMPLEX(float)",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint64": "uint64_t",
    "uint32": "uint32_t",
    "uint16": "uint16_t",
    "uint8": "uint8_t",
    "bool": "uint8_t",
}

_LINE = 90  # columns
_COMPLEX = """#ifndef TRACKER_COMPLEX
#ifdef __cplusplus
#include <complex>
#define TRACKER_COMPLEX(real) std::complex<real>
#else
#define TRACKER_COMPLEX(real) real _Complex
#endif
#endif"""


def header_text(
    f: Callable[..., Any], functions: Sequence[CFunction], libraries: Sequence[str]
) -> str:
    """The header. `libraries`: the functions of BLAS and LAPACK that the code calls."""
    code = getattr(f, "__code__", None)
    where = "" if code is None else f" ({Path(code.co_filename).name}:{code.co_firstlineno})"
    guard = f"{functions[0].name.upper()}_H"
    declared = [line for function in functions for line in ("", *_declaration(function))]
    lines = [
        f"/* {getattr(f, '__name__', 'function')}{where}, compiled by tracker.",
        " * Arrays are contiguous, in C order; results do not overlap arguments.",
        " * A function returns 0; 1 if the Python function would have taken another branch than at",
        " * the arguments it was exported with, or would have raised.",
    ]
    for name, values in functions[0].sizes.items():
        lines.append(f" * {name}: {_values_text(values)}; for others, a function returns 2.")
    if libraries:
        lines += [
            " * Link with LAPACK (-lopenblas, or -llapack -lblas, or -llapack -lcblas -lblas):",
            *(f" * {line}" for line in textwrap.wrap(f"{', '.join(libraries)}.", _LINE)),
        ]
    lines[-1] += " */"
    lines += [f"#ifndef {guard}", f"#define {guard}", "#include <stdint.h>"]
    passed = [type for each in functions for _, type in (*each.first.inputs, *each.first.outputs)]
    if any(type.dtype.kind == "c" for type in passed):
        lines.append(_COMPLEX)
    lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", *declared]
    return "\n".join([*lines, "", "#ifdef __cplusplus", "}", "#endif", "#endif", ""])


def _values_text(values: list[int]) -> str:
    if len(values) > 2 and values == list(range(values[0], values[-1] + 1)):
        return f"{values[0]} to {values[-1]}"
    return " or ".join(map(str, values))


def _declaration(function: CFunction) -> list[str]:
    parameters = [f"int64_t {name}" for name in function.sizes]
    notes = []
    for at, (name, type) in enumerate(function.first.inputs):
        kind = C_TYPES[type.dtype.name]
        parameters.append(f"const {kind} *{name}" if is_address(type) else f"{kind} {name}")
        extents = _extents(function, [one.inputs[at][1].shape for one in function.by_sizes])
        notes += [f"{name}{extents}"] if extents else []
    for at, (name, type) in enumerate(function.first.outputs):
        parameters.append(f"{C_TYPES[type.dtype.name]} *{name}")
        extents = _extents(function, [one.outputs[at][1].shape for one in function.by_sizes])
        notes += [f"{name}{extents}"] if extents else []
    shapes = [f"/* {', '.join(notes)} */"] if notes else []
    return [*shapes, f"int {function.name}({', '.join(parameters)});"]


def _extents(function: CFunction, shapes: list[tuple[int, ...]]) -> str:
    """The shape of an array in C, given its shape at each choice of sizes."""
    choices = [
        dict(zip(function.sizes, choice, strict=True))
        for choice in product(*function.sizes.values())
    ]
    axes = zip(*shapes, strict=True)
    return "".join(f"[{_extent(choices, list(extents))}]" for extents in axes)


def _extent(choices: list[dict[str, int]], extents: list[int]) -> str:
    """An extent as a product of up to two sizes times a number plus a number."""
    for count in range(3):
        for names in combinations_with_replacement(choices[0], count):
            sizes = [math.prod(choice[name] for name in names) for choice in choices]
            low, high = sizes.index(min(sizes)), sizes.index(max(sizes))
            step = (extents[high] - extents[low]) // max(sizes[high] - sizes[low], 1)
            first = extents[low] - step * sizes[low]
            if all(step * n + first == k for n, k in zip(sizes, extents, strict=True)):
                return _affine_text(step, " * ".join(names), first)
    return f"{min(extents)} to {max(extents)}"


def _affine_text(step: int, size: str, first: int) -> str:
    if not step:
        return str(first)
    text = size if step == 1 else f"{step} * {size}"
    return f"{text} {'+' if first > 0 else '-'} {abs(first)}" if first else text
