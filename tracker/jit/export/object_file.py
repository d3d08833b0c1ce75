"""Compiled functions for programs without Python: an object file and its C header.

A function becomes two C functions, its value and its value with gradient, which take and fill plain
C arrays. `_sized_function` traces and plans one, for each choice of sizes; `c_functions.py` writes
the code around plans, and `c_header.py` the header.

Invariant: the object file needs the C library's math and memory, and LAPACK where it factorises.
Captured arrays are embedded with their contents at export.
"""

from __future__ import annotations

import inspect
import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from tracker import tree
from tracker.autodiff.gradients import value_and_grad
from tracker.config import config
from tracker.errors import CompileError
from tracker.ir.graph import Function
from tracker.ir.op import UFUNCS
from tracker.ir.types import Type
from tracker.jit.codegen.artifact import LoweredProgram
from tracker.jit.codegen.lower import lower
from tracker.jit.dispatch.jitted import plain_function
from tracker.jit.export import c_functions
from tracker.jit.export.c_functions import CFunction, SizedFunction
from tracker.jit.export.c_header import C_TYPES, header_text
from tracker.jit.guards.signature import ArrayFlags
from tracker.jit.llvm import engine
from tracker.jit.pipeline.loop_carried import planned
from tracker.jit.pipeline.partition import host_reasons
from tracker.jit.pipeline.pass_order import optimise
from tracker.jit.profile import all_equations
from tracker.jit.runtime import blas
from tracker.jit.schedule.plan_data import FrameSlots
from tracker.jit.tracing.trace import Trace, TracedRun, trace_call
from tracker.ops.shape.memory_order import c_strides
from tracker.tape.record import data_of

_C_KEYWORDS = {
    *("auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else"),
    *("enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register"),
    *("restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef"),
    *("union", "unsigned", "void", "volatile", "while"),
}
_RESULT_NAME = re.compile(r"value\d*")
_Arguments = tuple[Sequence[Any], Mapping[str, Any]]


def export(
    f: Callable[..., Any],
    *args: Any,
    path: str | os.PathLike[str],
    name: str | None = None,
    native: bool = False,
    sizes: Mapping[str, Iterable[int]] | None = None,
    lapack: str = "{}",
    **kwargs: Any,
) -> tuple[Path, Path]:
    """Write `path`.o and `path`.h: `f` and its gradient as C functions, linked without Python.

    Parameters
    ----------
    f : callable
        A function of arrays and numbers.
    *args, **kwargs
        Examples: their shapes and dtypes are those that the C functions will take. Structures
        become one parameter per number or array. With `sizes`, a function of the sizes that gives
        the positional arguments.
    path : str or path
        Of the two files, without a suffix.
    name : str, optional
        Of the C function; by default that of `f`. The gradient, where `f` gives a real number, is
        `<name>_gradient`.
    native : bool
        Whether the code is for this machine's processor, rather than for any of its kind.
    sizes : mapping of str to iterable of int, optional
        Sizes that become parameters, and the values that each can have. `f` is traced at every
        choice of them; choices whose code differs in numbers only share it.
    lapack : str
        The form of names in the LAPACK library that will be linked, where `f` factorises or solves:
        `"{}"` (`dgetrf_`, integers of 32 bits) or, for instance, `"{}64_"` (64 bits).

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
    Arrays are contiguous, in C order; complex numbers are passed by address. Both functions return
    0; 1 where Python code would have taken another branch than at the examples, or a matrix is
    singular; 2 for sizes that were not exported.

    Examples
    --------
    >>> import tempfile
    >>> def declarations(*args, **options):
    ...     with tempfile.TemporaryDirectory() as folder:
    ...         _, header = export(*args, path=folder + "/f", name="f", **options)
    ...         lines = header.read_text().splitlines()
    ...     return [line for line in lines if line.startswith("int")]
    >>> declarations(lambda x: np.sum(x**2), np.ones(3))
    ['int f(const double *x, double *value);',
     'int f_gradient(const double *x, double *value, double *d_x);']

    For vectors of 2 to 100 numbers:

    >>> declarations(lambda x: np.sum(x**2), lambda n: np.ones(n), sizes={"n": range(2, 101)})[0]
    'int f(int64_t n, const double *x, double *value);'
    """
    function = plain_function(f)
    known = name or _identifier(getattr(function, "__name__", "_").strip("_<>") or "function")
    known = "function" if known == "lambda" else known
    if known != _identifier(known):
        raise CompileError(
            f"{known!r} is no name that a C function can have", "Give export another name="
        )
    if lapack not in blas.SPELLINGS:
        forms = ", ".join(map(repr, blas.SPELLINGS))
        raise CompileError(f"lapack={lapack!r} is none of {forms}", "Choose one of them")
    choices = _size_values(sizes or {})
    with config(threads=1):
        functions = _c_functions(known, function, args, kwargs, choices)
    units = c_functions.object_units(functions, lapack)
    object_code, outside = engine.export_object(units, [each.name for each in functions], native)
    target = Path(path)
    made = target.with_name(target.name + ".o"), target.with_name(target.name + ".h")
    libraries = {blas.spelled(each, lapack) for each in blas.NAMES}.intersection(outside)
    made[0].write_bytes(object_code)
    made[1].write_text(header_text(function, functions, sorted(libraries)))
    return made


# Sizes --------------------------------------------------------------------------------------------


def _size_values(sizes: Mapping[str, Iterable[int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name, values in sizes.items():
        is_result = _RESULT_NAME.fullmatch(name) or name.startswith("d_")
        if is_result or name != _identifier(name):
            what = f"{name!r} is no name that a size can have in C"
            raise CompileError(what, "Give it another name")
        try:
            found[name] = sorted({operator.index(value) for value in values})
        except TypeError:
            found[name] = []
        if not found[name] or found[name][0] < 0:
            what = f"the size {name} has the values {values!r}"
            raise CompileError(what, f"Write sizes={{{name!r}: range(2, 101)}}")
    return found


def _c_functions(
    name: str,
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    sizes: dict[str, list[int]],
) -> list[CFunction]:
    """The function and, where it has one, its gradient."""
    values, gradients = [], []
    for choice in product(*sizes.values()):
        here = dict(zip(sizes, choice, strict=True))
        own = _arguments_at(here, args) if sizes else args
        names = _argument_names(f, own, kwargs, tuple(sizes))
        values.append(_sized_function(name, f, (own, kwargs), names, bool(sizes)))
        if _has_gradient(values[-1]):
            gradient = _gradient_function(f"{name}_gradient", f, (own, kwargs), names, bool(sizes))
            gradients.append(gradient)
        for each in (values, gradients):
            _require_equal_types(name, each, here)
    functions = [CFunction(name, sizes, values)]
    if gradients:
        functions.append(CFunction(f"{name}_gradient", sizes, gradients))
    return functions


def _arguments_at(sizes: dict[str, int], args: Sequence[Any]) -> Sequence[Any]:
    example = f"lambda {', '.join(sizes)}: (np.ones({next(iter(sizes))}),)"
    if len(args) != 1 or not callable(args[0]):
        what = "with sizes=, export takes a function of the sizes instead of arguments"
        raise CompileError(what, f"Write {example}")
    try:
        inspect.signature(args[0]).bind(**sizes)
    except TypeError:
        what = f"the function that gives the arguments does not take {', '.join(sizes)} by name"
        raise CompileError(what, f"Write {example}") from None
    made = args[0](**sizes)
    return made if type(made) is tuple else (made,)


def _require_equal_types(name: str, found: list[SizedFunction], sizes: dict[str, int]) -> None:
    """Raise CompileError where more than extents depends on the sizes."""
    for kind in ("takes", "gives"):
        ours, theirs = (
            [
                f"{own} ({type.dtype}, {len(type.shape)} axes)"
                for one in each
                for own, type in (one.inputs if kind == "takes" else one.outputs)
            ]
            for each in (found[:1], found[-1:])
        )
        if ours != theirs:
            here = ", ".join(f"{size} = {value}" for size, value in sizes.items())
            what = f"at {here}, {name} {kind} {', '.join(theirs)}, but else {', '.join(ours)}"
            raise CompileError(what, "Let only extents depend on sizes")


# Names --------------------------------------------------------------------------------------------


def _argument_names(
    f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], sizes: tuple[str, ...]
) -> list[str]:
    """A C name for each leaf of the arguments, none that of a size."""
    try:
        bound = list(inspect.signature(f).bind(*args, **kwargs).arguments.items())
        if len(bound) != len(args) + len(kwargs):
            raise TypeError
    except (TypeError, ValueError):
        bound = [*((f"x{i}", arg) for i, arg in enumerate(args)), *kwargs.items()]
    wanted = [each for name, arg in bound for each in _leaf_names(name, tree.flatten(arg)[1])]
    return _unique_names(list(map(_identifier, wanted)), sizes)


def _leaf_names(name: str, structure: tree.Structure) -> Iterator[str]:
    """The names of the leaves of a structure called `name`, by keys, fields and positions."""
    if structure.cls is None:
        yield name
    for at, (label, child) in enumerate(zip(structure.labels(), structure.children, strict=True)):
        yield from _leaf_names(f"{name}_{label if isinstance(label, str) else at}", child)


def _unique_names(names: list[str], sizes: tuple[str, ...]) -> list[str]:
    """Names that differ from each other, and from those of sizes and results: value, d_name."""
    for at, name in enumerate(names):
        others = {*names[:at], *names[at + 1 :], *sizes}
        if name in others or _RESULT_NAME.fullmatch(name) or any(name == f"d_{n}" for n in others):
            return _unique_names([*names[:at], f"{name}_", *names[at + 1 :]], sizes)
    return names


def _identifier(name: str) -> str:
    ascii = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"{ascii}_" if ascii in _C_KEYWORDS or ascii[:1].isdigit() else ascii


# One C function -----------------------------------------------------------------------------------


def _has_gradient(entry: SizedFunction) -> bool:
    types = [type for _, type in entry.outputs]
    return len(types) == 1 and not types[0].shape and types[0].dtype.kind == "f"


def _gradient_function(
    name: str, f: Callable[..., Any], arguments: _Arguments, names: list[str], lengths_vary: bool
) -> SizedFunction:
    """The value, and the gradient of every positional argument's floats."""
    moving: list[str] = []

    def both(*args: Any, **kwargs: Any) -> Any:
        value, grads = value_and_grad(f, argnums=tuple(range(len(args))))(*args, **kwargs)
        found = tree.leaves(grads)
        moving[:] = [n for n, g in zip(names, found, strict=False) if g is not None]
        return value, [g for g in found if g is not None]

    entry = _sized_function(name, both, arguments, names, lengths_vary)
    result_names = ["value", *(f"d_{n}" for n in moving)]
    entry.outputs = [(n, type) for n, (_, type) in zip(result_names, entry.outputs, strict=True)]
    return entry


def _sized_function(
    name: str, f: Callable[..., Any], arguments: _Arguments, names: list[str], lengths_vary: bool
) -> SizedFunction:
    """Trace a function, and plan it."""
    args, kwargs = arguments
    traced = trace_call(f, args, kwargs, name=name)
    trace = traced.required_trace
    function = optimise(trace.function)
    _require_plain_values(name, trace)
    for eqn, why in host_reasons(function).items():
        if why:
            raise CompileError(
                f"{eqn.op.name} -> {eqn.out.type} in {name} needs NumPy ({why})",
                "Compute it outside, and pass it as an argument",
                eqn.where,
            )
    passed = [at for at, leaf in enumerate(trace.inputs) if leaf < len(names)]
    inputs = [(names[trace.inputs[at]], function.inputs[at].type) for at in passed]
    many = len(function.outputs) > 1
    outputs = [(f"value{i}" if many else "value", a.type) for i, a in enumerate(function.outputs)]
    for own, type in (*inputs, *outputs):
        if type.dtype.name not in C_TYPES:
            what = f"{own} of {name} is {type}, which has no type in C's header"
            raise CompileError(what, "Pass, and return, np.float64")
    frame = _frame(traced, function, set(passed))
    lowered = _lowered(function, frame, lengths_vary)
    _require_definitions(name, function, lowered)
    return SizedFunction(inputs, outputs, frame, lowered.texts, lowered.symbols)


def _require_plain_values(name: str, trace: Trace) -> None:
    """Raise CompileError for what C functions do not do: effects, flags, other objects."""
    if trace.writes:
        what, instead = "writes into its arguments", "Return the new arrays instead"
    elif trace.state_writes:
        what, instead = "changes what it captured", "Return the new values instead"
    elif any(isinstance(each, ArrayFlags) for each in trace.conditions):
        what = "reads flags of its arguments, which C arrays do not have"
        instead = "Pass what they say as an argument"
    elif any(out.atom is None for out in trace.outputs):
        what = "returns something that is no number or array it computed"
        instead = "Return numbers and new arrays only"
    else:
        return
    raise CompileError(f"{name} {what}", instead)


def _frame(run: TracedRun, function: Function, passed: set[int]) -> list[Any]:
    """What the plan reads: the type of a parameter, or an array that the object file holds."""
    trace, frame = run.required_trace, list[Any]()
    for at, var in enumerate((*function.inputs, *function.captures)):
        if at in passed:
            frame.append(var.type)
            continue
        source = [*trace.inputs, *trace.captures][at]
        held = run.leaves[source] if isinstance(source, int) else source
        frame.append(np.asarray(data_of(held), dtype=var.type.dtype, order="C"))
    return frame


def _lowered(function: Function, frame: list[Any], lengths_vary: bool) -> LoweredProgram:
    """The plan's code; it reads one cell for each entry of the frame, then one for each result."""
    n, m, results = len(function.inputs), len(frame), len(function.outputs)
    by_address = [not isinstance(each, Type) or c_functions.is_address(each) for each in frame]
    slots = FrameSlots(
        inputs=tuple(range(n)),
        input_is_array=tuple(by_address[:n]),
        captures=tuple(range(n, m)),
        capture_is_array=tuple(by_address[n:]),
        outputs=tuple(range(m, m + results)),
        output_is_array=(True,) * results,
    )
    variables = (*function.inputs, *function.captures)
    strides = [c_strides(v.type.shape) for v in variables]
    return lower(planned(function, strides, lengths_vary=lengths_vary), slots)


def _require_definitions(name: str, function: Function, lowered: LoweredProgram) -> None:
    """Raise CompileError where the code calls a function that no object file can hold."""
    ufuncs = {loop.ufunc for loop in lowered.ufunc_loops}
    lost = sorted(f"the ufunc {ufunc.__name__}" for ufunc in ufuncs)
    lost += sorted(symbol for symbol in lowered.symbols if not c_functions.definitions(symbol))
    if lost:
        callers = {*ufuncs, *(UFUNCS.get(ufunc) for ufunc in ufuncs)}
        eqns = all_equations(function)
        own = [e for e in eqns if {e.op, e.params.get("ufunc")} & callers - {None}]
        what = f"{name} calls {', '.join(lost)}, which cannot go into an object file"
        instead = "Compute it outside, and pass it as an argument"
        raise CompileError(what, instead, own[0].where if own else None)
