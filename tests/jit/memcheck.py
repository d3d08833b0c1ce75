"""The native calls under valgrind's memcheck: no access outside a block, no unset value.

Run: make memcheck (or python tests/jit/memcheck.py [programs]; needs Linux and valgrind)

One process compiles the workload into a cache, a second runs it under memcheck from that cache, so
that no time goes into compiling under valgrind. The code is for a processor without AVX, because
valgrind does not know all AVX instructions (`vmovq` between registers above the eighth);
`guarded.py` checks the code for this processor. Python allocates with malloc, so each NumPy buffer
is a block whose ends memcheck knows.

Findings are invalid writes and frees anywhere, and any error in code without a symbol (generated
code) or in its callees. (The C library compares strings by words past their ends, and Python and
LLVM use unset bits, all harmlessly; test_endurance.py checks that memory does not grow.) First a
plan that reads past the end of its argument must be found: a run without that finding proves
nothing.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import tomllib
import warnings
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[2]
PROGRAMS = 20
ANYWHERE = ("InvalidWrite", "InvalidFree", "InvalidJump", "MismatchedFree")
CPU = "x86-64-v2" if platform.machine() == "x86_64" else "generic"


# The processes ------------------------------------------------------------------------------------


def main(programs: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        environment = {
            **os.environ,
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *_places()])),
            "TRACKER_CACHE_DIR": str(Path(folder, "cache")),
            "TRACKER_THREADS": "2",
            "OPENBLAS_NUM_THREADS": "1",
        }
        environment.pop("TRACKER_CACHE", None)
        quiet = ["-q", "--leak-check=no", "--num-callers=40"]
        memcheck = ["valgrind", *quiet, "--xml=yes", f"--xml-file={report}"]

        def run(*command: str) -> list[str]:
            subprocess.run(command, env=environment, check=True)
            return list(findings(report.read_text())) if command[0] == "valgrind" else []

        child = [sys.executable, __file__]
        planted = run(*memcheck, *child, "--planted")
        run(*child, "--work", str(programs))
        errors = run(*memcheck, *child, "--work", str(programs))
    for error in errors:
        print(error, end="\n\n")
    print(f"memcheck: {len(errors)} findings; of the planted one {len(planted)}")
    return 0 if planted and not errors else 1


def _places() -> list[Path]:
    """Where tests find what they share."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    return [ROOT / place for place in options["pythonpath"]]


def findings(report: str) -> Iterator[str]:
    """The errors in valgrind's report that are ours."""
    for error in xml.fromstring(report).iter("error"):
        frames = [
            (each.findtext("fn"), each.findtext("obj")) for each in error.iterfind("stack[1]/*")
        ]
        kind = error.findtext("kind") or ""
        if kind.startswith("Leak"):  # valgrind looks for these whenever it writes XML
            continue
        if kind in ANYWHERE or _is_generated(frames):
            text = error.findtext("what") or error.findtext("xwhat/text")
            named = [f"    {name or '(generated)'} {library or ''}" for name, library in frames]
            told = [each.text for each in error.iter("auxwhat") if each.text]
            yield "\n".join([f"{kind}: {text}", *named[:12], *told])


def _is_generated(frames: list[tuple[str | None, str | None]]) -> bool:
    """Whether generated code (no symbol, no file) caused an error, or its callee outside Python."""
    for function, library in frames:
        if not function and not library:
            return True
        if library is None or "libpython" in library or Path(library).name.startswith("python"):
            return False
    return False


# The workload -------------------------------------------------------------------------------------


def work(programs: int) -> None:
    _use_cpu()
    import memcheck_work

    warnings.simplefilter("ignore")
    memcheck_work.run(programs)


def _use_cpu() -> None:
    """Compile for a processor that valgrind emulates."""
    import llvmlite.binding as llvm

    llvm.get_host_cpu_name = lambda: CPU
    llvm.get_host_cpu_features = lambda: SimpleNamespace(flatten=lambda: "")


def plant() -> None:
    """Generated code that reads past the end of its argument."""
    import numpy as np
    from smoke_native import ScalarOut, compiled, plan, slot

    body = slot(0) + slot(1)
    body += """  %x = load ptr, ptr %s0
  %past = getelementptr double, ptr %x, i64 8
  %v = load double, ptr %past
  store double %v, ptr %s1
  ret i64 0
"""
    compiled(plan(body), (np.ones(8),), [ScalarOut(float)])(np.ones(8))


if __name__ == "__main__":
    if "--planted" in sys.argv:
        plant()
    elif "--work" in sys.argv:
        work(int(sys.argv[2]))
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else PROGRAMS))
