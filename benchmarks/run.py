"""All benchmarks, beside NumPy and every peer that is installed. Run: make bench

    python benchmarks/run.py [NAME ...] [--runs 5] [--quick] [--output FILE]

Each case is measured in a process of its own for each library, without caches of compiled code, and
all of that several times. Within a process the least of several repeats counts; over the processes,
median and minimum are kept. The file has each figure, and what they were measured on.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import math
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from libraries import LIBRARIES, PEERS, is_installed, version
from library_cases import CASES

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
RESULTS = HERE / "results.json"
_LIMIT = 60.0  # seconds for a case in a library


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(": ")[1] for line in lines if "model name" in line), platform.machine())


def environment() -> dict[str, Any]:
    """The machine, versions, threads and date."""
    import llvmlite.binding

    import tracker
    from tracker.config import current

    versions = {
        "Python": platform.python_version(),
        "NumPy": importlib.metadata.version("numpy"),
        "tracker": tracker.__version__,
        "LLVM": ".".join(map(str, llvmlite.binding.llvm_version_info)),
        **{peer: version(peer) for peer in PEERS if is_installed(peer)},
    }
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "machine": {
            "processor": _processor(),
            "cores": cores,
            "system": f"{platform.system()} {platform.machine()}",
        },
        "versions": versions,
        "absent": [peer for peer in PEERS if not is_installed(peer)],
        "threads": current().threads or cores,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "load": os.getloadavg()[0] / (cores or 1),
    }


def _apart(name: str, library: str, quick: bool) -> dict[str, Any] | None:
    """A case in a library, in a process of its own; RuntimeError if it fails."""
    command = [sys.executable, str(HERE / "measure.py"), name, library]
    paths = [str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    where = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "TRACKER_CACHE": "0",
        "JAX_PLATFORMS": "cpu",
    }
    try:
        done = subprocess.run(
            command + ["--quick"] * quick, capture_output=True, text=True, timeout=_LIMIT, env=where
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"took more than {_LIMIT:.0f} s") from None
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def _checked(
    measured: dict[str, Any] | None, name: str, summaries: dict[str, list[float]]
) -> dict[str, Any]:
    """The figures; RuntimeError if the numbers computed are not those of the other libraries."""
    if measured is None:
        return {}
    ours = measured["summary"]
    wanted = summaries.get(name, ours)
    for one, other in zip(ours, wanted, strict=False):  # NumPy has no gradient to compare
        if not math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-8):
            raise RuntimeError(f"computed {ours}, not {wanted}")
    summaries[name] = max(wanted, ours, key=len)
    return measured["figures"]


def own_failures(results: dict[str, Any]) -> list[str]:
    """What ours, or NumPy, could not do."""
    return [
        f"{each['case']}, {each['library']}: {each['reason']}"
        for each in results["failures"]
        if each["library"] not in PEERS
    ]


def measure_all(
    names: list[str], runs: int | None, quick: bool, *, with_peers: bool = True
) -> dict[str, Any]:
    """What is written to the file."""
    found: dict[tuple[str, str, str], list[tuple[float, str]]] = {}
    failures: dict[tuple[str, str], str] = {}
    where = environment()
    left_out = where["absent"] if with_peers else PEERS
    libraries = [name for name in LIBRARIES if name not in left_out]
    if with_peers and left_out:
        print(f"not installed, and left out: {', '.join(left_out)}", file=sys.stderr)
    summaries: dict[str, list[float]] = {}
    for repetition in range(runs or (1 if quick else 5)):
        for name in names:
            print(f"run {repetition + 1}: {name}", file=sys.stderr, flush=True)
            for library in (each for each in libraries if (name, each) not in failures):
                try:
                    figures = _checked(_apart(name, library, quick), name, summaries)
                except RuntimeError as error:
                    failures[name, library] = str(error)
                    print(f"{name}, {library}: {error}", file=sys.stderr, flush=True)
                    continue
                for figure, number in figures.items():
                    found.setdefault((name, library, figure), []).append(number)
    return {
        **where,
        "quick": quick,
        "failures": [{"case": c, "library": p, "reason": why} for (c, p), why in failures.items()],
        "figures": list(_figures(found)),
    }


def _figures(
    found: dict[tuple[str, str, str], list[tuple[float, str]]],
) -> Iterator[dict[str, Any]]:
    for (name, library, figure), numbers in found.items():
        case = CASES[name]
        values = [value for value, _ in numbers]
        yield {
            "case": name,
            "group": case.group,
            "size": case.size,
            "headline": case.is_headline,
            "library": library,
            "figure": figure,
            "unit": numbers[0][1],
            "median": float(f"{statistics.median(values):.4g}"),
            "minimum": float(f"{min(values):.4g}"),
            "runs": len(values),
        }


def selected(words: list[str]) -> list[str]:
    """The cases of which a word is part of the name or the group; all, without words."""
    names = [
        name
        for name, case in CASES.items()
        if not words or any(word in name or word in case.group for word in words)
    ]
    if not names:
        raise SystemExit(f"no case has {' or '.join(words)} in its name; there are {list(CASES)}")
    return names


def as_text(results: dict[str, Any]) -> str:
    """JSON with a line for each figure."""
    figures = ",\n  ".join(json.dumps(entry) for entry in results["figures"])
    head = json.dumps({k: v for k, v in results.items() if k != "figures"}, indent=1)
    return f'{head.removesuffix("}").rstrip()},\n "figures": [\n  {figures}\n ]\n}}\n'


def parser(description: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("names", nargs="*", help="parts of names of cases, or of groups")
    made.add_argument("--runs", type=int, help="default 5; of --quick, 1")
    made.add_argument("--quick", action="store_true", help="short repeats, for development")
    return made


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("--output", type=Path, default=RESULTS)
    asked = options.parse_args()
    results = measure_all(selected(asked.names), asked.runs, asked.quick)
    asked.output.write_text(as_text(results))
    sys.exit(len(own_failures(results)) > 0)
