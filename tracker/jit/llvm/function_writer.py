"""A writer of LLVM functions with structured control: loops, conditions, early exits.

Integers are i64; a value is the text of an SSA name or literal. Loop counters are phis; every other
variable is an alloca, which LLVM turns into a register.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from tracker.jit.llvm.text_writer import TextWriter, loop_lines
from tracker.support.structs import record

_SUFFIXES = {"double": "f64", "float": "f32"}  # of intrinsics
_VECTOR = re.compile(r"<(\d+) x (\w+)>")


@record(frozen=True)
class RoutineText:
    """A function for a module of its own: its declaration for other modules, its text there, and
    the texts of what it calls."""

    name: str
    declaration: str
    text: str
    parts: frozenset[str]


class FunctionWriter(TextWriter):
    """One function, `result @name(parameters)`; what it loads and stores is of `element_type`,
    unless that is said."""

    element_type = "i64"

    def __init__(
        self,
        name: str,
        parameters: Sequence[str],
        *,
        linkage: str = "internal ",
        result: str = "void",
        attributes: str = "noinline",
    ) -> None:
        super().__init__()
        self.name = name
        self.parameters = parameters
        self.linkage = linkage
        self.result = result
        self.attributes = attributes
        self.cells: list[str] = []
        self._types: dict[str, str] = {}  # of variables
        self.declared: set[str] = set()

    def text(self) -> str:
        signature = f"{self.result} @{self.name}({', '.join(self.parameters)})"
        head = " ".join([f"define {self.linkage}{signature}", *self.attributes.split(), "{"])
        return "\n".join([head, *self.cells, *self.lines, "}"])

    def routine(self, parts: Iterable[str] = ()) -> RoutineText:
        """The function with what it calls."""
        types = ", ".join(parameter.rpartition(" ")[0] for parameter in self.parameters)
        declaration = f"declare {self.result} @{self.name}({types})"
        self.linkage = ""
        return RoutineText(
            self.name, declaration, self.text(), frozenset(self.declared.union(parts))
        )

    # Values

    def add(self, a: object, b: object) -> str:
        return self.let(f"add i64 {a}, {b}")

    def sub(self, a: object, b: object) -> str:
        return self.let(f"sub i64 {a}, {b}")

    def mul(self, a: object, b: object) -> str:
        return self.let(f"mul i64 {a}, {b}")

    def select(self, condition: str, a: object, b: object) -> str:
        return self.let(f"select i1 {condition}, i64 {a}, i64 {b}")

    def is_null(self, pointer: str) -> str:
        return self.let(f"icmp eq ptr {pointer}, null")

    def compare(self, relation: str, a: object, b: object) -> str:
        """slt, sle, eq, ne ... of integers; olt, une ... of floats."""
        kind = "fcmp" if relation[0] in "ou" and relation not in ("ult", "ule") else "icmp"
        return self.let(f"{kind} {relation} {'double' if kind == 'fcmp' else 'i64'} {a}, {b}")

    def call(self, kind: str, name: str, arguments: Sequence[str]) -> str:
        """Call a function; `arguments` are written with their types."""
        types = ", ".join(argument.split()[0] for argument in arguments)
        self.declared.add(f"declare {kind} @{name}({types})")
        if kind == "void":
            self.emit(f"call void @{name}({', '.join(arguments)})")
            return ""
        return self.let(f"call {kind} @{name}({', '.join(arguments)})")

    def multiply_add(self, a: str, b: str, c: str, kind: str = "") -> str:
        """a * b + c of real numbers or vectors, rounded once where the processor does that fast."""
        kind = kind or self.element_type
        vector = _VECTOR.fullmatch(kind)
        scalar = kind if vector is None else vector[2]
        suffix = ("" if vector is None else f"v{vector[1]}") + _SUFFIXES[scalar]
        self.declared.add(f"declare {kind} @llvm.fmuladd.{suffix}({kind}, {kind}, {kind})")
        return self.let(f"call {kind} @llvm.fmuladd.{suffix}({kind} {a}, {kind} {b}, {kind} {c})")

    # Vectors

    def splat(self, count: int, kind: str, x: object) -> str:
        """A vector of `count` times the same number."""
        vector, zeros = f"<{count} x {kind}>", f"<{count} x i32> zeroinitializer"
        one = self.let(f"insertelement {vector} poison, {kind} {x}, i64 0")
        return self.let(f"shufflevector {vector} {one}, {vector} poison, {zeros}")

    def vector_of(self, kind: str, numbers: Sequence[str]) -> str:
        """A vector of different numbers."""
        vector = "poison"
        for lane, x in enumerate(numbers):
            whole = f"<{len(numbers)} x {kind}> {vector}"
            vector = self.let(f"insertelement {whole}, {kind} {x}, i64 {lane}")
        return vector

    # Memory

    def address(self, pointer: str, index: object, kind: str = "") -> str:
        return self.let(f"getelementptr {kind or self.element_type}, ptr {pointer}, i64 {index}")

    def load(self, pointer: str, index: object = 0, kind: str = "") -> str:
        kind = kind or self.element_type
        return self.let(f"load {kind}, ptr {self.address(pointer, index, kind)}{_alignment(kind)}")

    def store(self, value: object, pointer: str, index: object = 0, kind: str = "") -> None:
        kind = kind or self.element_type
        at = self.address(pointer, index, kind)
        self.emit(f"store {kind} {value}, ptr {at}{_alignment(kind)}")

    def field(self, thing: str, offset: int, kind: str = "ptr") -> str:
        """A field of a struct, by its offset in bytes."""
        return self.load(self.address(thing, offset, "i8"), kind=kind)

    def copy_bytes(self, target: str, source: str, size: object) -> None:
        arguments = [f"ptr {target}", f"ptr {source}", f"i64 {size}", "i1 false"]
        self.call("void", "llvm.memcpy.p0.p0.i64", arguments)

    def clear_bytes(self, target: str, size: object) -> None:
        arguments = [f"ptr {target}", "i8 0", f"i64 {size}", "i1 false"]
        self.call("void", "llvm.memset.p0.i64", arguments)

    def variable(self, value: object, kind: str = "i64") -> str:
        """A variable on the stack."""
        name = self.array(kind)
        self._types[name] = kind
        self.set(name, value)
        return name

    def array(self, kind: str) -> str:
        """Room on the stack for a value of a type."""
        name = f"%cell{self.fresh_number()}"
        self.cells.append(f"  {name} = alloca {kind}")
        return name

    def cells_of(self, kind: str, values: Sequence[object]) -> str:
        """Values in consecutive cells on the stack."""
        cells = self.array(f"[{len(values)} x {kind}]")
        for at, value in enumerate(values):
            self.store(value, cells, at, kind)
        return cells

    def extend(self, cell: str, by: object) -> str:
        """Add to a variable; its value before."""
        before = self.get(cell)
        self.set(cell, self.add(before, by))
        return before

    def get(self, cell: str, kind: str = "") -> str:
        return self.let(f"load {kind or self._types[cell]}, ptr {cell}")

    def set(self, cell: str, value: object, kind: str = "") -> None:
        self.emit(f"store {kind or self._types[cell]} {value}, ptr {cell}")

    def extend_word(self, words: str, index: object) -> str:
        """Add 1 to an integer in memory; its value before."""
        cell = self.address(words, index, "i64")
        before = self.let(f"load i64, ptr {cell}")
        self.emit(f"store i64 {self.add(before, 1)}, ptr {cell}")
        return before

    # Control

    @contextmanager
    def loop(self, first: object, last: object, *, step: object = 1) -> Iterator[str]:
        """for i in range(first, last, step)."""
        tag = self.fresh_number()
        some = self.compare("slt", first, last)
        head, end = loop_lines(str(tag), first, last, step, ("add nsw", "slt"))
        self.lines += [f"  br i1 {some}, label %pre{tag}, label %done{tag}", *head]
        yield f"%i{tag}"
        self.lines += end

    @contextmanager
    def each_of_stack(
        self, shape: Sequence[int], strides: Mapping[str, Sequence[int]]
    ) -> Iterator[list[str]]:
        """Loops over a stack of this shape; yields the addresses in each step. `strides`: pointers,
        and their distances along each axis."""
        with ExitStack() as loops:
            index = [loops.enter_context(self.loop(0, extent)) for extent in shape]
            moved = []
            for pointer, steps in strides.items():
                flat: object = 0
                for i, step in zip(index, steps, strict=True):
                    flat = self.add(flat, self.mul(i, step)) if step else flat
                moved.append(self.address(pointer, flat))
            yield moved

    @contextmanager
    def repeat(self) -> Iterator[str]:
        """An endless loop; yields what `leave_if` takes."""
        tag = self.fresh_number()
        self.lines += [f"  br label %loop{tag}", f"loop{tag}:"]
        yield f"done{tag}"
        self.lines += [f"  br label %loop{tag}", f"done{tag}:"]

    def leave_if(self, condition: str, loop: str) -> None:
        """Leave a loop."""
        tag = self.fresh_number()
        self.lines += [f"  br i1 {condition}, label %{loop}, label %stay{tag}", f"stay{tag}:"]

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        tag = self.fresh_number()
        self.lines += [f"  br i1 {condition}, label %then{tag}, label %past{tag}", f"then{tag}:"]
        yield
        self.lines += [f"  br label %past{tag}", f"past{tag}:"]

    def logical_not(self, condition: str) -> str:
        return self.let(f"xor i1 {condition}, true")

    def ret(self, value: object = 0) -> None:
        self.emit("ret void" if self.result == "void" else f"ret {self.result} {value}")

    def leave(self, value: object = 0) -> None:
        """Return in the middle of the function."""
        self.ret(value)
        self.label(f"unused{self.fresh_number()}")

    def return_if(self, condition: str, value: object) -> None:
        """Return at once."""
        tag = self.fresh_number()
        self.emit(f"br i1 {condition}, label %leave{tag}, label %stay{tag}")
        self.label(f"leave{tag}")
        self.ret(value)
        self.label(f"stay{tag}")


FunctionBody = Callable[[FunctionWriter], object]


def c_function(
    name: str, parameters: str, result: str = "void", linkage: str = ""
) -> Callable[[FunctionBody], Callable[[], FunctionWriter]]:
    """Decorator: from a body, which gives what is returned, if not 0, to a function that writes the
    text of a function that C code may call."""
    own = parameters.split(", ") if parameters else ()

    def decorate(body: FunctionBody) -> Callable[[], FunctionWriter]:
        def write() -> FunctionWriter:
            c = FunctionWriter(name, own, linkage=linkage, result=result, attributes="nounwind")
            value = body(c)
            c.ret(0 if value is None else value)
            return c

        return write

    return decorate


def functions_text(functions: Sequence[FunctionWriter], variables: str = "") -> str:
    """A module of functions, which may call each other, and its global variables."""
    own = {function.name for function in functions}
    declared = set[str]().union(*(function.declared for function in functions))
    outside = sorted(line for line in declared if line.split("@")[1].split("(")[0] not in own)
    return "\n".join([variables, *outside, *(function.text() for function in functions)])


def _alignment(kind: str) -> str:
    """Complex numbers are aligned as their parts."""
    return "" if kind[0] != "<" else ", align 4" if "float" in kind else ", align 8"
