"""Writing the text of an LLVM function line by line."""

from __future__ import annotations


class SsaNames:
    """Fresh SSA names of one function."""

    def __init__(self) -> None:
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"


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
