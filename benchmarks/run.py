"""All benchmarks, as one table in Markdown. Run: make bench"""

from __future__ import annotations

import compile_time
import compiled
import eager
import startup


def table() -> list[tuple[str, str, str]]:
    """(what, ours, best of the others) by row."""
    rows = []
    for case, times in compiled.rows().items():
        rows.append(
            (f"value and gradient, {case}", f"{times['tracker']:.2f} us", _other(times, "us"))
        )
    for case, times in eager.rows().items():
        rows.append(
            (f"eager, per operation, {case}", f"{times['tracker']:.1f} us", _other(times, "us"))
        )
    for n, (first, ready) in compile_time.rows().items():
        times = f"{1e3 * first:.0f} ms, {1e3 * ready:.0f} ms"
        rows.append((f"first result, machine code, {n} dependent scalar operations", times, ""))
    seconds, _ = startup.import_cost()
    rows.append(("`import tracker`, beyond NumPy's own", f"{1e3 * seconds:.0f} ms", ""))
    first, second = startup.first_calls()
    rows.append(("first function that a process compiles", f"{1e3 * first:.0f} ms", ""))
    rows.append(("second function that a process compiles", f"{1e3 * second:.0f} ms", ""))
    seconds, peak = startup.deep_chain_apart(1_000_000)
    rows.append(("eager chain of 1,000,000 operations", f"{seconds:.1f} s, {peak:.0f} MB", ""))
    return rows


def _other(times: dict[str, float], unit: str) -> str:
    return ", ".join(f"{who} {t:.1f} {unit}" for who, t in times.items() if who != "tracker")


if __name__ == "__main__":
    print("| what | tracker | others |\n|---|---|---|")
    for row in table():
        print("| " + " | ".join(row) + " |")
