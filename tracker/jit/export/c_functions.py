"""The code of exported functions: C functions around plans, as LLVM text.

`object_units` is the start. A plan reads a frame; its C function stores arguments and held arrays
there. A function of several sizes is traced and planned for each: plans that differ in numbers only
(`jit/llvm/size_parameters.py`) share code, and a table of these numbers is passed to it.

Invariants: a C function returns 0, 1 where a guard or routine of the plan fails, or 2 for other
sizes. LAPACK is called with the integers and names of the library that will be linked.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tracker.ir.types import Type
from tracker.jit.kernels import portable_blas
from tracker.jit.lapack.routines import routine_texts
from tracker.jit.llvm.function_writer import FunctionWriter
from tracker.jit.llvm.size_parameters import sizes_as_parameter
from tracker.jit.runtime import blas
from tracker.jit.scalar.values import memory_type
from tracker.support.structs import record

_OUTSIDE_SIZES = 2
_WORD_BYTES = 8
_CALLED = re.compile(r"@(\w+)(?=\()")


@record()
class SizedFunction:
    """A C function at one choice of sizes.

    inputs, outputs   the parameters, by name
    frame             what the plan reads: the type of a parameter, in order, or a held array
    texts             the modules of the plan
    symbols           the functions that the plan calls
    """

    inputs: list[tuple[str, Type]]
    outputs: list[tuple[str, Type]]
    frame: list[Any]
    texts: list[str]
    symbols: frozenset[str]


@record()
class CFunction:
    """A C function: the values of each of its sizes, and a `SizedFunction` for each choice."""

    name: str
    sizes: dict[str, list[int]]
    by_sizes: list[SizedFunction]

    @property
    def first(self) -> SizedFunction:
        return self.by_sizes[0]


def is_address(type: Type) -> bool:
    """Whether an argument is passed by its address. How C passes a complex number differs between
    processors."""
    return bool(type.shape) or type.dtype.kind == "c"


def definitions(symbol: str, spelling: str = "{}") -> dict[str, str]:
    """The text of each function that defines what a plan calls, by symbol; empty if it cannot be in
    an object file. `spelling`: of the names of LAPACK."""
    library = blas.find()
    found = portable_blas.definitions(symbol, 64 if library is None else library.int_bits)
    if found:
        return found

    def spelled(match: re.Match[str]) -> str:
        name = match[1]
        return f"@{blas.spelled(name, spelling) if name in blas.NAMES else name}"

    texts = routine_texts(symbol, f"i{blas.SPELLINGS[spelling]}")
    return {own: _CALLED.sub(spelled, text) for own, text in texts.items()}


def object_units(functions: Iterable[CFunction], spelling: str) -> dict[str, list[str]]:
    """The functions of an object file: the texts of their modules by name."""
    units: dict[str, list[str]] = {}
    for function in functions:
        units |= _function_units(function)
        for symbol in {symbol for one in function.by_sizes for symbol in one.symbols}:
            units |= {own: [text] for own, text in definitions(symbol, spelling).items()}
    return units


def _function_units(function: CFunction) -> dict[str, list[str]]:
    """The C function, and the code that it calls: one function for all sizes of equal texts."""
    codes: dict[tuple[str, ...], str] = {}
    constants: dict[bytes, str] = {}
    called, data = [], []
    for one in function.by_sizes:
        texts, table = sizes_as_parameter(one.texts) if function.sizes else (one.texts, b"")
        texts = [portable_blas.with_plain_products(text) for text in texts]
        texts[0] += _frame_function(one, len(table) // _WORD_BYTES, bool(function.sizes))
        called.append(codes.setdefault(tuple(texts), f"{function.name}.{len(codes)}"))
        held = [array.tobytes() for array in one.frame if not isinstance(array, Type)]
        names = [constants.setdefault(x, f"@{function.name}.held{len(constants)}") for x in held]
        data.append(_data_literal(table, names))
    units = {
        name: [texts[0].replace("@frame(", f"@{name}("), *texts[1:]]
        for texts, name in codes.items()
    }
    dispatch = _dispatch(function, called, data)
    units[function.name] = ["\n".join([*_constant_lines(constants), dispatch])]
    return units


def _frame_function(one: SizedFunction, table_words: int, takes_sizes: bool) -> str:
    """The function that stores its parameters and the held arrays, whose addresses follow the
    table, in a frame."""
    c = _c_function("frame", ["ptr %sizes", *_parameters(one)])
    slots = c.array(f"[{max(len(one.frame) + len(one.outputs), 1)} x i64]")
    inputs, held = iter(range(len(one.inputs))), itertools.count(table_words)
    for at, cell in enumerate(one.frame):
        if isinstance(cell, Type):
            kind, x = _cell_value(c, f"%x{next(inputs)}", cell)
        else:
            kind, x = "ptr", c.load("%sizes", next(held), "ptr")
        c.store(x, c.address(slots, at), kind=kind)
    for at, _ in enumerate(one.outputs):
        c.store(f"%x{len(one.inputs) + at}", slots, len(one.frame) + at, "ptr")
    status = c.let(f"call i64 @plan({'ptr %sizes, ' * takes_sizes}ptr {slots})")
    c.ret(c.let(f"zext i1 {c.compare('ne', status, 0)} to i32"))
    return f"\n{c.text()}\n"


def _c_function(name: str, parameters: Sequence[str]) -> FunctionWriter:
    return FunctionWriter(name, parameters, linkage="", result="i32", attributes="")


def _parameters(one: SizedFunction) -> list[str]:
    kinds = ["ptr" if is_address(type) else memory_type(type.dtype) for _, type in one.inputs]
    kinds += ["ptr"] * len(one.outputs)
    return [f"{kind} %x{at}" for at, kind in enumerate(kinds)]


def _cell_value(c: FunctionWriter, x: str, type: Type) -> tuple[str, str]:
    """A parameter as its cell holds it: addresses and floats as they are, other numbers widened to
    64 bits; the type first."""
    kind = "ptr" if is_address(type) else memory_type(type.dtype)
    if kind in ("ptr", "i64") or type.dtype.kind == "f":
        return kind, x
    word = "sext" if type.dtype.kind == "i" else "zext"
    return "i64", c.let(f"{word} {kind} {x} to i64")


def _data_literal(table: bytes, held: Sequence[str]) -> str:
    """A table and the addresses of held arrays, as a constant."""
    words = struct.unpack(f"<{len(table) // _WORD_BYTES}q", table)
    numbers = ", ".join(f"i64 {word}" for word in words)
    pointers = ", ".join(f"ptr {name}" for name in held)
    kind = f"{{ [{len(words)} x i64], [{len(held)} x ptr] }}"
    return f"{kind} {{ [{len(words)} x i64] [{numbers}], [{len(held)} x ptr] [{pointers}] }}"


def _constant_lines(constants: dict[bytes, str]) -> Iterator[str]:
    for content, name in constants.items():
        literal = "".join(f"\\{byte:02X}" for byte in content)
        yield f'{name} = private constant [{len(content)} x i8] c"{literal}", align 64'


def _dispatch(function: CFunction, called: list[str], data: list[str]) -> str:
    """The C function: it finds its sizes, and calls the code for them with their data."""
    name, parameters = function.name, _parameters(function.first)
    types = ", ".join(["ptr", *(parameter.split()[0] for parameter in parameters)])
    lines = [f"declare i32 @{each}({types})" for each in dict.fromkeys(called)]
    lines += _choice_tables(name, called, data)
    sizes = [f"i64 %size.{at}" for at in range(len(function.sizes))]
    c, choice = _c_function(name, [*sizes, *parameters]), "0"
    for at, values in enumerate(function.sizes.values()):
        found = _find_size(c, at, values)
        choice = c.add(c.mul(choice, len(values)), found)
    code, own = (c.load(f"@{name}.{table}", choice, "ptr") for table in ("code", "data"))
    c.ret(c.let(f"call i32 {code}({', '.join([f'ptr {own}', *parameters])})"))
    if function.sizes:
        c.label("outside")
        c.ret(_OUTSIDE_SIZES)
    return "\n".join([*lines, c.text(), ""])


def _choice_tables(name: str, called: list[str], data: list[str]) -> Iterator[str]:
    for at, each in enumerate(data):
        yield f"@{name}.data{at} = private constant {each}"
    for table, addresses in (
        ("code", [f"ptr @{each}" for each in called]),
        ("data", [f"ptr @{name}.data{at}" for at in range(len(data))]),
    ):
        literal = f"[{len(data)} x ptr] [{', '.join(addresses)}]"
        yield f"@{name}.{table} = private constant {literal}"


def _find_size(c: FunctionWriter, at: int, values: list[int]) -> str:
    """The position of a size in its values."""
    cases = [f"i64 {value}, label %size{at}.{i}" for i, value in enumerate(values)]
    c.emit(f"switch i64 %size.{at}, label %outside [ {' '.join(cases)} ]")
    for i, _ in enumerate(values):
        c.label(f"size{at}.{i}")
        c.emit(f"br label %known{at}")
    c.label(f"known{at}")
    return c.let("phi i64 " + ", ".join(f"[ {i}, %size{at}.{i} ]" for i, _ in enumerate(values)))
