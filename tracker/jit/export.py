"""Compiled functions for programs without Python: an object file and its C header.

A function becomes two C functions, its value and its value with gradient, which take and fill plain
C arrays. `_value_function` traces one; `_wrapper` turns C arguments into the frame that a plan
reads.

Invariants: the object file needs only the C library's math and memory. Captured arrays are embedded
with their contents at export. A C function returns 0, or 1 where the Python function would have
taken another branch than at the example arguments.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracker import tree
from tracker.autodiff.gradients import value_and_grad
from tracker.config import config
from tracker.errors import CompileError, message
from tracker.ir.graph import Function, Var
from tracker.ir.types import Type
from tracker.jit.codegen.lower import lower
from tracker.jit.dispatch.jitted import plain_function
from tracker.jit.guards.signature import ArrayFlags
from tracker.jit.kernels import portable_blas
from tracker.jit.llvm import engine
from tracker.jit.pipeline.loop_carried import planned
from tracker.jit.pipeline.partition import host_reasons
from tracker.jit.pipeline.passes import optimise
from tracker.jit.runtime import blas
from tracker.jit.scalar.values import memory_type
from tracker.jit.schedule.plan_data import FrameSlots
from tracker.jit.tracing.trace import TracedRun, trace_call
from tracker.ops.shape.memory_order import c_strides
from tracker.support.structs import record
from tracker.tape.record import data_of

_C_TYPES = {
    "float64": "double",
    "float32": "float",
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


@record()
class _CFunction:
    """A C function: its parameters and results as (name, type), and its LLVM IR."""

    name: str
    inputs: list[tuple[str, Type]]
    outputs: list[tuple[str, Type]]
    texts: list[str]


_C_KEYWORDS = {
    *("auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else"),
    *("enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register"),
    *("restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef"),
    *("union", "unsigned", "void", "volatile", "while"),
}
_RESULT_NAME = re.compile(r"value\d*")


def export(
    f: Callable[..., Any],
    *args: Any,
    path: str | os.PathLike[str],
    name: str | None = None,
    native: bool = False,
    **kwargs: Any,
) -> tuple[Path, Path]:
    """Write `path`.o and `path`.h: `f` and its gradient as C functions, linked without Python.

    Parameters
    ----------
    f : callable
        A function of arrays and numbers.
    *args, **kwargs
        Examples: their shapes and dtypes are those that the C functions will take. Structures
        become one parameter per number or array.
    path : str or path
        Of the two files, without a suffix.
    name : str, optional
        Of the C function; by default that of `f`. The gradient, where `f` gives a real number, is
        `<name>_gradient`.
    native : bool
        Whether the code is for this machine's processor, rather than for any of its kind.

    Returns
    -------
    tuple of pathlib.Path
        The object file and the header.

    Raises
    ------
    CompileError
        Something needs NumPy or Python; the message names the operation.

    Notes
    -----
    Arrays are contiguous, in C order. Both functions return 0, or 1 where Python code would have
    taken another branch than at the examples.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _, header = export(lambda x: np.sum(x**2), np.ones(3), path=folder + "/f", name="f")
    ...     print([line for line in header.read_text().splitlines() if line.startswith("int")])
    ['int f(const double *x, double *value);',
     'int f_gradient(const double *x, double *value, double *d_x);']
    """
    function = plain_function(f)
    known = name or _identifier(getattr(function, "__name__", "_").strip("_<>") or "function")
    known = "function" if known == "lambda" else known
    if known != _identifier(known):
        raise CompileError(
            message(f"{known!r} is no name that a C function can have", "Give export another name=")
        )
    names = _argument_names(function, args, kwargs)
    with config(threads=1):
        value = _value_function(known, function, args, kwargs, names)
        entries = [value]
        if _has_gradient(value):
            entries.append(_gradient_function(f"{known}_gradient", function, args, kwargs, names))
    object_code = engine.export_object({e.name: e.texts for e in entries}, native)
    target = Path(path)
    made = target.with_name(target.name + ".o"), target.with_name(target.name + ".h")
    made[0].write_bytes(object_code)
    made[1].write_text(_header(function, entries))
    return made


def _argument_names(
    f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """A C name for each leaf of the arguments, and the leaf."""
    try:
        bound = list(inspect.signature(f).bind(*args, **kwargs).arguments.items())
        if len(bound) != len(args) + len(kwargs):
            raise TypeError
    except (TypeError, ValueError):
        bound = [*((f"x{i}", arg) for i, arg in enumerate(args)), *kwargs.items()]
    wanted: list[str] = []
    found: list[Any] = []
    for name, arg in bound:
        leaves = tree.leaves(arg)
        whole = len(leaves) == 1 and leaves[0] is arg
        wanted += [_identifier(name if whole else f"{name}_{i}") for i in range(len(leaves))]
        found += leaves
    return list(zip(_unique_names(wanted), found, strict=True))


def _unique_names(names: list[str]) -> list[str]:
    """Names that differ from each other, and from those of results: value, d_name."""
    for at, name in enumerate(names):
        others = {*names[:at], *names[at + 1 :]}
        if name in others or _RESULT_NAME.fullmatch(name) or any(name == f"d_{n}" for n in others):
            return _unique_names([*names[:at], f"{name}_", *names[at + 1 :]])
    return names


def _identifier(name: str) -> str:
    """A name as a C identifier."""
    ascii = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"{ascii}_" if ascii in _C_KEYWORDS or ascii[:1].isdigit() else ascii


def _has_gradient(entry: _CFunction) -> bool:
    types = [type for _, type in entry.outputs]
    return len(types) == 1 and not types[0].shape and types[0].dtype.kind == "f"


def _gradient_function(
    name: str,
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    names: list[tuple[str, Any]],
) -> _CFunction:
    """The value, and the gradient of every positional argument's floats."""
    moving: list[str] = []

    def both(*args: Any, **kwargs: Any) -> Any:
        value, grads = value_and_grad(f, argnums=tuple(range(len(args))))(*args, **kwargs)
        found = tree.leaves(grads)
        moving[:] = [n for (n, _), g in zip(names, found, strict=False) if g is not None]
        return value, [g for g in found if g is not None]

    entry = _value_function(name, both, args, kwargs, names)
    result_names = ["value", *(f"d_{n}" for n in moving)]
    entry.outputs = [(n, type) for n, (_, type) in zip(result_names, entry.outputs, strict=True)]
    return entry


def _value_function(
    name: str,
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    names: list[tuple[str, Any]],
) -> _CFunction:
    """Trace a function and generate its C function."""
    traced = trace_call(f, args, kwargs, name=name)
    function = optimise(traced.required_trace.function)
    if traced.required_trace.writes:
        raise CompileError(
            message(f"{name} writes into its arguments", "Return the new arrays instead")
        )
    if any(isinstance(each, ArrayFlags) for each in traced.required_trace.conditions):
        raise CompileError(
            message(
                f"{name} reads flags of its arguments, which C arrays do not have",
                "Pass what they say as an argument",
            )
        )
    for eqn, why in host_reasons(function).items():
        if why:
            raise CompileError(
                message(
                    f"{eqn.op.name} -> {eqn.out.type} in {name} needs NumPy ({why})",
                    "Compute it outside, and pass it as an argument",
                    eqn.where,
                )
            )
    atoms = [out.atom for out in traced.required_trace.outputs if out.atom is not None]
    if len(atoms) != len(traced.required_trace.outputs):
        raise CompileError(
            message(f"{name} returns something that is no number or array it computed")
        )
    inputs = [(names[n][0], function.inputs[i].type) for i, n in _passed_inputs(traced, len(names))]
    many = len(atoms) > 1
    outputs = [(f"value{i}" if many else "value", a.type) for i, a in enumerate(function.outputs)]
    for own, type in (*inputs, *outputs):
        if type.dtype.name not in _C_TYPES:
            raise CompileError(
                message(
                    f"{own} of {name} is {type}, which has no type in C's header",
                    "Pass, and return, the real and the imaginary part",
                )
            )
    return _CFunction(name, inputs, outputs, _module_texts(name, traced, function, len(names)))


def _passed_inputs(run: TracedRun, argument_count: int) -> list[tuple[int, int]]:
    """The (input of the function, leaf number) of the inputs that the caller passes."""
    return [(i, n) for i, n in enumerate(run.required_trace.inputs) if n < argument_count]


def _module_texts(name: str, run: TracedRun, function: Function, argument_count: int) -> list[str]:
    """The modules of one C function."""
    variables = [*function.inputs, *function.captures]
    results = [atom.type for atom in function.outputs]
    n, m = len(function.inputs), len(variables)
    slots = FrameSlots(
        tuple(range(n)),
        tuple(bool(v.type.shape) for v in function.inputs),
        tuple(range(n, m)),
        tuple(True for _ in function.captures),
        tuple(range(m, m + len(results))),
        tuple(True for _ in results),
    )
    plan = planned(function, [c_strides(v.type.shape) for v in variables])
    lowered = lower(plan, slots)
    lost = portable_blas.missing({*lowered.symbols, *(loop.symbol for loop in lowered.ufunc_loops)})
    if lost:
        raise CompileError(
            message(
                f"{name} calls {', '.join(lost)}, which cannot go into an object file",
                "Compute it outside, and pass it as an argument",
            )
        )
    library = blas.find()
    bits = 64 if library is None else library.int_bits
    texts = [lowered.text + _wrapper(name, run, variables, results, n, argument_count)]
    texts += [loops.text for loops in lowered.kernel_modules]
    return [
        portable_blas.with_definitions(text, _called_symbols(text, lowered.symbols), bits)
        for text in texts
    ]


def _called_symbols(text: str, symbols: frozenset[str]) -> set[str]:
    return {symbol for symbol in symbols if f"@{symbol}(" in text}


def _wrapper(
    name: str,
    run: TracedRun,
    variables: list[Var],
    results: list[Type],
    n: int,
    argument_count: int,
) -> str:
    """The C function: it stores its arguments and the captured arrays in a frame."""
    parameters, lines, constants = [], [], []
    for at, var in enumerate(variables):
        source = run.required_trace.inputs[at] if at < n else run.required_trace.captures[at - n]
        cell = f"%cell{at}"
        lines.append(f"  {cell} = getelementptr i64, ptr %slots, i64 {at}")
        if at < n and isinstance(source, int) and source < argument_count:
            kind = "ptr" if var.type.shape else memory_type(var.type.dtype)
            parameters.append(f"{kind} %in{at}")
            lines += _store_lines(f"%in{at}", var.type, cell)
            continue
        held = run.leaves[source] if isinstance(source, int) else source
        held = np.asarray(data_of(held), dtype=var.type.dtype, order="C")
        constants.append(
            f"@{name}.held{at} = private constant [{held.nbytes} x i8] "
            f"{_byte_literal(held)}, align 64"
        )
        if var.type.shape or at >= n:
            lines.append(f"  store ptr @{name}.held{at}, ptr {cell}")
        else:
            kind = memory_type(var.type.dtype)
            lines.append(f"  %held{at} = load {kind}, ptr @{name}.held{at}")
            lines += _store_lines(f"%held{at}", var.type, cell)
    for at, _ in enumerate(results):
        cell = f"%result{at}"
        parameters.append(f"ptr %out{at}")
        lines.append(f"  {cell} = getelementptr i64, ptr %slots, i64 {len(variables) + at}")
        lines.append(f"  store ptr %out{at}, ptr {cell}")
    size = max(len(variables) + len(results), 1)
    return "\n".join(
        [
            "",
            *constants,
            f"define i32 @{name}({', '.join(parameters)}) {{",
            f"  %slots = alloca [{size} x i64], align 16",
            *lines,
            "  %status = call i64 @plan(ptr %slots)",
            "  %answer = trunc i64 %status to i32",
            "  ret i32 %answer",
            "}",
            "",
        ]
    )


def _store_lines(value: str, type: Type, cell: str) -> list[str]:
    """Store a parameter in its slot: addresses and floats as they are, other numbers widened to 64
    bits."""
    if type.shape:
        return [f"  store ptr {value}, ptr {cell}"]
    kind = memory_type(type.dtype)
    if type.dtype.kind == "f" or kind == "i64":
        return [f"  store {kind} {value}, ptr {cell}"]
    word = "sext" if type.dtype.kind == "i" else "zext"
    wide = f"{cell}.wide"
    return [f"  {wide} = {word} {kind} {value} to i64", f"  store i64 {wide}, ptr {cell}"]


def _byte_literal(array: Any) -> str:
    return 'c"' + "".join(f"\\{byte:02X}" for byte in array.tobytes()) + '"'


# The header ---------------------------------------------------------------------------------------


def _header(f: Callable[..., Any], entries: Sequence[_CFunction]) -> str:
    code = getattr(f, "__code__", None)
    where = "" if code is None else f" ({Path(code.co_filename).name}:{code.co_firstlineno})"
    guard = f"{entries[0].name.upper()}_H"
    lines = [
        f"/* {getattr(f, '__name__', 'function')}{where}, compiled by tracker.",
        " * Arrays are contiguous, in C order. A function returns 0; or 1, if the Python function",
        " * would have taken another branch than at the arguments it was exported with. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "#include <stdint.h>",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
    ]
    for entry in entries:
        lines += ["", *_declaration(entry)]
    return "\n".join([*lines, "", "#ifdef __cplusplus", "}", "#endif", "#endif", ""])


def _declaration(entry: _CFunction) -> list[str]:
    parameters, notes = [], []
    for name, type in entry.inputs:
        kind = _C_TYPES[type.dtype.name]
        parameters.append(f"const {kind} *{name}" if type.shape else f"{kind} {name}")
        if type.shape:
            notes.append(f"{name}{''.join(f'[{n}]' for n in type.shape)}")
    for name, type in entry.outputs:
        parameters.append(f"{_C_TYPES[type.dtype.name]} *{name}")
        if type.shape:
            notes.append(f"{name}{''.join(f'[{n}]' for n in type.shape)}")
    shapes = [f"/* {', '.join(notes)} */"] if notes else []
    return [*shapes, f"int {entry.name}({', '.join(parameters)});"]
