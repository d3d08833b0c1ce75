"""A tool of GradBench (github.com/gradbench/gradbench): all twelve evals, in plain NumPy.

It answers GradBench's messages, one JSON object a line: `python benchmarks/gradbench`. An eval's
functions are in `EVALS`, by name; each is a `Case`: how its input is read, what is timed, and how
the result is written. Reading and writing are not timed; compiling, in the first run, is.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from typing import Any

import arrays
import descent
import hand
import programs

EVALS = {**arrays.EVALS, **programs.EVALS, **hand.EVALS, **descent.EVALS}


def evaluate(module: str, function: str, given: Any) -> dict[str, Any]:
    """Run a function as often as its input asks."""
    case = EVALS[module][function]
    arguments = case.read(given)
    options = given if isinstance(given, dict) else {}
    timings: list[dict[str, Any]] = []
    spent = 0
    while len(timings) < options.get("min_runs", 1) or spent < 1e9 * options.get("min_seconds", 0):
        start = time.perf_counter_ns()
        result = case.run(*arguments)
        took = time.perf_counter_ns() - start
        timings.append({"name": "evaluate", "nanoseconds": took})
        spent += took
    return {"success": True, "output": case.write(result), "timings": timings}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    kind = message["kind"]
    if kind == "start":
        return {"tool": "tracker"}
    if kind == "define":
        return {"success": message["module"] in EVALS}
    if kind != "evaluate":
        return {}
    try:
        return evaluate(message["module"], message["function"], message["input"])
    except Exception:
        return {"success": False, "error": traceback.format_exc()}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        print(json.dumps({"id": message["id"], **answer(message)}), flush=True)


if __name__ == "__main__":
    main()
