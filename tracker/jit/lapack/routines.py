"""What is known of routines, and their machine code: workspace, symbols, addresses.

A routine is `i64 tk.<letter><name>(operands..., out, work, sizes...)`, for matrices of the numbers
that BLAS has the letter for; it returns 0, or another number where NumPy would raise. It is
compiled when it is first needed, once for a process.

Invariant: LAPACK's optimal workspace is queried, so that it blocks as it does for NumPy.
"""

from __future__ import annotations

import numpy as np

from tracker.ir.graph import Eqn
from tracker.ir.lowering import Routine
from tracker.jit.lapack import cholesky, eigen_svd, expm, lu, packed  # noqa: F401 (routines)
from tracker.jit.lapack.routine_writer import ROUTINES, MatrixKind
from tracker.jit.llvm import object_cache
from tracker.jit.llvm.lock import locked_cache
from tracker.jit.runtime import blas

_LETTERS = {np.dtype(np.float64): "d", np.dtype(np.complex128): "z"}
Sizes = tuple[int, ...]


def matrix_kind(letter: str) -> MatrixKind:
    """The kind of matrices of these numbers for the library of this process."""
    return MatrixKind(letter, f"i{blas.library().int_bits}")


def kind_of(eqn: Eqn) -> MatrixKind:
    """The kind of an equation's matrices."""
    return matrix_kind(_LETTERS[np.result_type(*(atom.type.dtype for atom in eqn.operands))])


def workspace_size(name: str, kind: MatrixKind, sizes: Sizes) -> tuple[Sizes, int]:
    """(sizes to pass on to LAPACK, words of scratch)."""
    entry = ROUTINES[name]
    elements, reals = (0, 0) if entry.scratch is None else entry.scratch(*sizes)
    if entry.query is None:
        return (), elements * kind.words_per_element + reals
    own = entry.query(kind, *sizes)
    words = (elements + own.numbers) * kind.words_per_element + reals + own.reals + own.integers
    return tuple(own), words


def factored_words(n: int, kind: MatrixKind) -> tuple[int, int]:
    """Words of a factored matrix of n rows: its factors, and the rest (see `lu.py`)."""
    return n * n * kind.words_per_element, 2 * n + 2


def routine_address(symbol: str, level: int) -> int:
    """The address of a routine by its symbol, compiled at a level."""
    letter, name = _letter_and_name(symbol)
    return _compiled_routine(name, letter, level)


def _letter_and_name(symbol: str) -> tuple[str, str]:
    both = symbol.removeprefix("tk.")
    return both[:1], both[1:]


@locked_cache
def _compiled_routine(name: str, letter: str, level: int) -> int:
    library, kind = blas.library(), matrix_kind(letter)
    ours, others = _called_symbols(name, kind)
    symbols = {call: library.symbols[call] for call in others}
    symbols |= {call: routine_address(call, level) for call in ours}
    text = _routine_text(name, kind)
    module = object_cache.compile_or_load(text, level=level, symbols=symbols)
    _MODULES.append(module)
    return module.address(kind.symbol(name))


_MODULES: list[object] = []  # never freed: other code calls them


def _routine_text(name: str, kind: MatrixKind) -> str:
    code = ROUTINES[name].write(kind)
    return "\n".join([*sorted(code.declared), code.text()])


def routine_texts(symbol: str, integer_type: str) -> dict[str, str]:
    """The texts of a routine and of those that it calls, by symbol, for a library with integers of
    this type; empty if there is no such routine."""
    letter, name = _letter_and_name(symbol)
    if letter not in "dz" or name not in ROUTINES:
        return {}
    kind = MatrixKind(letter, integer_type)
    texts = {symbol: _routine_text(name, kind)}
    for other in _called_symbols(name, kind)[0]:
        texts |= routine_texts(other, integer_type)
    return texts


def _called_symbols(name: str, kind: MatrixKind) -> tuple[list[str], list[str]]:
    """The symbols that a routine's text calls: of other routines, and of the library."""
    declared = sorted(ROUTINES[name].write(kind).declared)
    symbols = [line.split("@")[1].split("(")[0] for line in declared]
    return (
        [symbol for symbol in symbols if symbol.startswith("tk.")],
        [symbol for symbol in symbols if not symbol.startswith(("tk.", "llvm."))],
    )


def why_no_routine(eqn: Eqn, lower: Routine) -> str:
    """Why a routine cannot be called for this equation; empty if it can."""
    dtypes = {atom.type.dtype for atom in (*eqn.operands, eqn.out)}
    if not dtypes <= set(_LETTERS):
        return f"{eqn.op.name} of {', '.join(sorted(map(str, dtypes - set(_LETTERS))))}"
    if any(atom.type.size == 0 for atom in (*eqn.operands, eqn.out)):
        return f"{eqn.op.name} of nothing"
    if blas.find() is None:
        return f"no LAPACK: {blas.why_missing()}"
    kind = kind_of(eqn)
    return (missing_symbol("lu", kind) if lower.takes_factored else "") or missing_symbol(
        lower.name, kind
    )


def missing_symbol(name: str, kind: MatrixKind) -> str:
    """A function that a routine calls and the library lacks; empty if there is none."""
    library = blas.library()
    missing = sorted(_library_symbols(name, kind) - set(library.symbols))
    return f"no {missing[0]} in {library.path}" if missing else ""


def _library_symbols(name: str, kind: MatrixKind) -> set[str]:
    """The library functions that a routine calls, by itself or through other routines."""
    ours, others = _called_symbols(name, kind)
    inner = (_library_symbols(_letter_and_name(symbol)[1], kind) for symbol in ours)
    return set(others).union(*inner)
