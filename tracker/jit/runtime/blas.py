"""The BLAS that NumPy has loaded, or else SciPy's: its path, the width of its integers, its
addresses.

TRACKER_BLAS=off switches it off, TRACKER_BLAS=/path/lib.so forces a library. Start at `find`.

Invariants: a library is used only after its dgemm has multiplied two matrices correctly; a library
that the user names is first tried in a subprocess, because a corrupt file may kill the process that
loads it; a missing or bad library raises nothing here.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tracker.jit.runtime import c_symbols
from tracker.support.structs import record

_LAPACK = ("potrf", "getrf", "gesdd", "geqrf", "gelsd", "geqp3", "gbsv", "geev")
_REAL_LAPACK, _COMPLEX_LAPACK = ("syevd", "orgqr"), ("heevd", "ungqr")
NAMES = (
    *(f"cblas_{kind}{routine}" for kind in "sdcz" for routine in ("gemm", "gemv", "syrk")),
    *(f"cblas_{kind}{routine}" for kind in "dz" for routine in ("trsm", "trsv")),
    *(f"d{routine}_" for routine in (*_LAPACK, *_REAL_LAPACK)),
    *(f"z{routine}_" for routine in (*_LAPACK, *_COMPLEX_LAPACK)),
)
# The forms of a name in different builds, and the width of integers in each.
SPELLINGS = {
    "scipy_{}64_": 64,
    "{}64_": 64,
    "{}_64": 64,
    "{}$NEWLAPACK$ILP64": 64,  # Accelerate
    "scipy_{}": 32,
    "{}": 32,
}
_THREAD_SETTERS = tuple(
    spelling.format("openblas_set_num_threads") for spelling in SPELLINGS if "$" not in spelling
)
_LINKED_TO_BLAS = (
    "numpy.linalg._umath_linalg",
    "numpy._core._multiarray_umath",
    "scipy.linalg.cython_blas",
)
_ROW_MAJOR, _NO_TRANSPOSE = 101, 111
_SUBPROCESS_SECONDS = 60


@record(frozen=True)
class Blas:
    """A working library: the form of its names, and the addresses of `cblas_dgemm` and so on."""

    path: str
    spelling: str
    int_bits: int
    symbols: dict[str, int]


def find() -> Blas | None:
    """The BLAS to call, or None (`why_missing()` says why)."""
    return _search(os.environ.get("TRACKER_BLAS", ""))[0]


def library() -> Blas:
    """The BLAS to call, where a check has shown that there is one."""
    found = find()
    assert found is not None, why_missing()
    return found


def why_missing() -> str:
    """Why `find` gives None; empty when it gives a library."""
    return _search(os.environ.get("TRACKER_BLAS", ""))[1]


@functools.cache
def _search(setting: str) -> tuple[Blas | None, str]:
    if setting.lower() == "off":
        return None, "TRACKER_BLAS=off"
    if setting:
        reason = _examine_in_subprocess(setting)
        return (None, f"TRACKER_BLAS={setting}: {reason}") if reason else examine(setting)
    reasons = []
    for path in _candidate_paths():
        found, reason = examine(path)
        if found is not None:
            return found, ""
        reasons.append(f"{path}: {reason}")
    return None, "; ".join(reasons) or "no BLAS library is loaded in this process"


def examine(path: str) -> tuple[Blas | None, str]:
    """Load a library and check it; None and the reason if it cannot be used."""
    for spelling, bits in SPELLINGS.items():
        spellings = {name: spelled(name, spelling) for name in NAMES}
        try:
            found = c_symbols.library_symbols(path, tuple(spellings.values()))
        except OSError as error:
            return None, f"cannot be loaded ({error})"
        symbols = {name: found[key] for name, key in spellings.items() if key in found}
        if "cblas_dgemm" not in symbols:
            continue
        if not _is_dgemm_right(symbols["cblas_dgemm"], bits):
            return None, "its dgemm gives a wrong product"
        return Blas(path, spelling, bits, symbols), ""
    return None, "it has no cblas_dgemm under any known name"


def spelled(name: str, spelling: str) -> str:
    """A name in the form of a build."""
    bare = "$" in spelling  # without the underscore that ends names in Fortran
    return spelling.format(name.rstrip("_") if bare else name)


def _is_dgemm_right(dgemm: int, bits: int) -> bool:
    """Whether dgemm computes [[1, 2], [3, 4]] @ [[5, 6], [7, 8]]."""
    a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0], [7.0, 8.0]])
    c = np.full((2, 2), np.nan)
    width = "q" if bits == 64 else "i"
    c_symbols.call_c(
        dgemm,
        "iii" + 3 * width + "dp" + width + "p" + width + "dp" + width,
        *(_ROW_MAJOR, _NO_TRANSPOSE, _NO_TRANSPOSE, 2, 2, 2),
        *(1.0, a.ctypes.data, 2, b.ctypes.data, 2, 0.0, c.ctypes.data, 2),
    )
    return bool((c == [[19.0, 22.0], [43.0, 50.0]]).all())


def _examine_in_subprocess(path: str) -> str:
    """Examine a library in a subprocess; the reason why it cannot be used, or nothing."""
    if not Path(path).is_file():
        return "there is no such file"
    import subprocess

    code = (
        "import sys; from tracker.jit.runtime import blas; "
        "sys.exit(blas.examine(sys.argv[1])[1] or 0)"
    )
    paths = os.pathsep.join(filter(None, sys.path))
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, path],
            env={**os.environ, "PYTHONPATH": paths, "TRACKER_BLAS": "off"},
            capture_output=True,
            text=True,
            timeout=_SUBPROCESS_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"trying it failed ({error})"
    if done.returncode < 0:
        return f"loading it kills the process (signal {-done.returncode})"
    lines = done.stderr.strip().splitlines() or ["it failed without a message"]
    return lines[-1] if done.returncode else ""


def limit_threads(count: int) -> None:
    """Let OpenBLAS use this many threads in this process, unless the environment says how many:
    the libraries that are loaded now, and through the environment those that are loaded later."""
    if not {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}.isdisjoint(os.environ):
        return
    os.environ["OPENBLAS_NUM_THREADS"] = str(count)
    for path in _candidate_paths(loaded=True):
        with contextlib.suppress(OSError):
            for setter in c_symbols.library_symbols(path, _THREAD_SETTERS).values():
                c_symbols.call_c(setter, "i", count)


def _candidate_paths(loaded: bool = False) -> Iterator[str]:
    """Libraries to try: what NumPy's wheel has beside it, then the extension modules of NumPy and
    SciPy that are linked to a BLAS, through which the names of that BLAS are found. `loaded`: only
    of modules that are imported."""
    package = Path(np.__file__).parent
    for where in (package.parent / "numpy.libs", package / ".dylibs"):
        if where.is_dir():
            yield from (str(p) for p in sorted(where.iterdir()) if "blas" in p.name.lower())
    for name in _LINKED_TO_BLAS:
        if loaded and name not in sys.modules:
            continue
        with contextlib.suppress(ImportError, ValueError):  # no SciPy
            found = importlib.util.find_spec(name)
            if found is not None and found.origin:
                yield found.origin
