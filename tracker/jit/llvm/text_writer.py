"""Writing the text of an LLVM function line by line, and finding functions in a text."""

from __future__ import annotations

from collections.abc import Iterator


def function_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where each function of a text begins and ends."""
    at = 0
    while (end := text.find("\n}", at)) >= 0:
        yield max(text.find("define ", at, end), at), end + 2
        at = end + 2


class SsaNames:
    """Fresh SSA names of one function."""

    def __init__(self) -> None:
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"


def loop_lines(
    tag: str, first: object, last: object, step: object, words: tuple[str, str]
) -> tuple[list[str], list[str]]:
    """The lines around the body of a loop over a range that is not empty, in the form that
    `loop_widening.py` looks for; its counter is `%i<tag>`. `words`: its addition and comparison."""
    add, less = words
    head = [
        f"pre{tag}:",
        f"  br label %loop{tag}",
        f"loop{tag}:",
        f"  %i{tag} = phi i64 [ {first}, %pre{tag} ], [ %n{tag}, %latch{tag} ]",
    ]
    return head, [
        f"  br label %latch{tag}",
        f"latch{tag}:",
        f"  %n{tag} = {add} i64 %i{tag}, {step}",
        f"  %c{tag} = icmp {less} i64 %n{tag}, {last}",
        f"  br i1 %c{tag}, label %loop{tag}, label %done{tag}",
        f"done{tag}:",
    ]


class TextWriter:
    """The lines of one function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names = SsaNames()

    def emit(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def let(self, instruction: str) -> str:
        """A new SSA name for an instruction."""
        name = self._names.fresh()
        self.emit(f"{name} = {instruction}")
        return name

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def fresh_number(self) -> int:
        """A number for labels, which no SSA name of the function has."""
        self._names.count += 1
        return self._names.count
