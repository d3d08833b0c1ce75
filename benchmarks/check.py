"""A new run beside the last results that are kept, in units of NumPy's time. Run: make bench-check

    python benchmarks/check.py [NAME ...] [--new FILE] [--kept FILE] [--runs 5] [--quick]

A ratio is our minimum by that of plain NumPy for the same case in the same run: no time of another
machine or another day counts. What seems slower is measured twice, and the better ratio counts.
What changed by more than its factor is listed; the exit status is 1 if anything became slower by
more than it, 2 if there was nothing to compare.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

FACTORS = {"call": 1.3, "first result": 1.5, "machine code": 1.5, "import": 1.5, "memory": 1.2}


_BASES = {"first result": "import", "machine code": "import"}


class Change(NamedTuple):
    case: str
    figure: str
    kept: float  # in units of NumPy's
    new: float

    @property
    def factor(self) -> float:
        return self.new / self.kept

    @property
    def is_slower(self) -> bool:
        return self.factor > FACTORS[self.figure]

    @property
    def is_faster(self) -> bool:
        return self.factor < 1 / FACTORS[self.figure]


def ratios(results: dict[str, Any]) -> dict[tuple[str, str], float]:
    """(case, figure) -> ours by NumPy's. A first call has NumPy's import for a measure: that too
    happens once, and a busy machine slows it as much."""
    least = {(e["library"], e["case"], e["figure"]): e["minimum"] for e in results["figures"]}
    found = {}
    for (library, case, figure), number in least.items():
        base = least.get(("numpy", case, _BASES.get(figure, figure)))
        if library == "tracker" and base is not None:
            found[case, figure] = number / base
    return found


def compared(kept: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """What is in both, the most slowed first."""
    before, after = ratios(kept), ratios(new)
    found = [Change(*key, before[key], after[key]) for key in before if key in after]
    return sorted(found, key=lambda change: change.factor, reverse=True)


def better(changes: list[Change], again: list[Change]) -> list[Change]:
    """Of figures that were measured twice, the lower ratio."""
    second = {(change.case, change.figure): change for change in again}
    return [
        min(change, second.get((change.case, change.figure), change), key=lambda c: c.factor)
        for change in changes
    ]


def report(changes: list[Change]) -> int:
    """Print what changed, and return the exit status."""
    for change in changes:
        if change.is_slower or change.is_faster:
            what = "slower" if change.is_slower else "faster"
            print(
                f"{what}: {change.case}, {change.figure}: {change.kept:.3g} -> {change.new:.3g}"
                f" of NumPy's (factor {change.factor:.2f}, allowed {FACTORS[change.figure]})"
            )
    slower = sum(change.is_slower for change in changes)
    print(f"{len(changes)} figures compared, {slower} slower")
    return 2 if not changes else int(slower > 0)


if __name__ == "__main__":
    import run

    options = run.parser(__doc__)
    options.add_argument("--new", type=Path, help="results of a run that is done")
    options.add_argument("--kept", type=Path, default=run.RESULTS)
    asked = options.parse_args()
    kept = json.loads(asked.kept.read_text())

    def measured(names: list[str]) -> dict[str, Any]:
        return run.measure_all(names, asked.runs, asked.quick, with_peers=False)

    new = json.loads(asked.new.read_text()) if asked.new else measured(run.selected(asked.names))
    changes = compared(kept, new)
    slower = list(dict.fromkeys(change.case for change in changes if change.is_slower))
    if slower and not asked.new:
        changes = better(changes, compared(kept, measured(slower)))
    for failure in run.own_failures(new):
        print(f"not measured: {failure}")
    sys.exit(report(changes) or int(len(run.own_failures(new)) > 0))
