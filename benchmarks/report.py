"""README's table, the page on performance and its plots, from the results. Run: make bench-report

python benchmarks/report.py [RESULTS]
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from check import FACTORS

ROOT = Path(__file__).parent.parent
PAGE = Path("docs", "explanation", "performance.md")
MARKERS = "<!-- benchmarks: begin -->\n", "<!-- benchmarks: end -->"
_SPEED = "speed.svg"
_PLOTS = {
    _SPEED: "time in units of tracker's",
    "time_by_size.svg": "time against size",
    "first_call.svg": "first call against length",
}
_FASTER = 1.05  # a peer is faster where its time is less than ours by this factor
_LARGER = {"us": "ms", "ms": "s", "MB": "GB"}

Results = dict[str, Any]
Row = tuple[str, str, dict[str, dict[str, Any]]]  # case, figure, library -> entry


def rows(results: Results) -> list[Row]:
    """Of cases that ours runs."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for entry in results["figures"]:
        found.setdefault((entry["case"], entry["figure"]), {})[entry["library"]] = entry
    return [(*key, of) for key, of in found.items() if "tracker" in of]


def shown(number: float, unit: str) -> str:
    """Three digits."""
    while number >= 1000.0 and unit in _LARGER:
        number, unit = number / 1000.0, _LARGER[unit]
    return f"{float(f'{number:.3g}'):g} {unit}"


def _what(case: str, figure: str) -> str:
    return case if figure in ("call", "import") else f"{case}: {figure}"


def table(
    of: list[Row], columns: list[str], cell: Callable[[dict[str, Any]], str]
) -> Iterator[str]:
    yield f"| what | {' | '.join(columns)} |".replace("numpy", "NumPy, value only")
    yield "|---" * (len(columns) + 1) + "|"
    for case, figure, entries in of:
        cells = (cell(entries[name]) if name in entries else "" for name in columns)
        yield f"| {_what(case, figure)} | {' | '.join(cells)} |"


def _median(entry: dict[str, Any]) -> str:
    return shown(entry["median"], entry["unit"])


def _median_and_minimum(entry: dict[str, Any]) -> str:
    return f"{_median(entry)} ({shown(entry['minimum'], entry['unit'])})"


def _columns(results: Results) -> list[str]:
    present = {entry["library"] for entry in results["figures"]}
    return ["tracker", *sorted(present - {"tracker", "numpy"}), *sorted(present & {"numpy"})]


def _conditions(results: Results) -> str:
    machine = results["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    runs = max(entry["runs"] for entry in results["figures"])
    absent = " and ".join(results["absent"])
    text = (
        f"{results['date'][:10]}: {machine['processor']}, {machine['cores']} cores, "
        f"{results['threads']} threads, {machine['system']}; {versions}. "
        f"{'One run' if runs == 1 else f'Median of {runs} runs'}, in processes of their own"
    )
    text += ", shortened" if results["quick"] else ""
    text += f"; load per core before: {results['load']:.1f}."
    text += f" Not installed, and left out: {absent}." if absent else ""
    return textwrap.fill(text, 100)


def readme_block(results: Results) -> str:
    """The picture, its conditions, and its numbers."""
    picture = f"![{_PLOTS[_SPEED]}]({PAGE.with_name(_SPEED).as_posix()})"
    numbers = table(_compiled_calls(results), _columns(results), _median)
    return "\n".join([picture, "", _conditions(results), "", *numbers]) + "\n"


def _compiled_calls(results: Results) -> list[Row]:
    """The calls of compiled functions that head the list."""
    return [
        row
        for row in rows(results)
        if row[1] == "call"
        and row[2]["tracker"]["headline"]
        and row[2]["tracker"]["group"] != "eager"
    ]


def with_block(text: str, block: str) -> str:
    """A text with another block between its markers."""
    begin, end = MARKERS
    before, rest = text.split(begin)
    return before + begin + block + end + rest.split(end)[1]


def losses(results: Results) -> list[tuple[float, str, str]]:
    """(how many times faster, peer, what) where a peer is faster, the greatest first."""
    found = []
    for case, figure, entries in rows(results):
        for peer in entries.keys() - {"tracker", "numpy"}:
            ratio = entries["tracker"]["median"] / entries[peer]["median"]
            if ratio > _FASTER:
                found.append((ratio, peer, _what(case, figure)))
    return sorted(found, reverse=True)


def _where_we_lose(results: Results) -> Iterator[str]:
    peers = [name for name in _columns(results) if name not in ("tracker", "numpy")]
    if not peers:
        yield "No peer was installed: these results say nothing about it."
        return
    lost = losses(results)
    for peer in peers:
        count = sum(peer in entries for _, _, entries in rows(results))
        by_peer = sum(name == peer for _, name, _ in lost)
        limit = f"{_FASTER - 1:.0%}"
        yield f"{peer} is faster (or smaller) by more than {limit} in {by_peer} of {count}."
    if lost:
        yield "\n| what | faster | by a factor of |\n|---|---|---|"
        for ratio, peer, what in lost:
            yield f"| {what} | {peer} | {ratio:.2g} |"


def page(results: Results) -> str:
    """The page on performance."""
    lines = [
        "# Performance",
        "",
        "Written by `make bench-report` from `benchmarks/results.json`, which `make bench` writes.",
        "",
        _conditions(results),
        "",
        "## Where others are faster",
        "",
        *_where_we_lose(results),
        "",
        *(f"![{what}]({name})\n" for name, what in _PLOTS.items()),
    ]
    groups = dict.fromkeys(entries["tracker"]["group"] for _, _, entries in rows(results))
    for group in groups:
        of = [row for row in rows(results) if row[2]["tracker"]["group"] == group]
        title = f"## {group[0].upper()}{group[1:]}"
        lines += [title, "", *table(of, _columns(results), _median_and_minimum), ""]
    failed = [f"- {f['case']}, {f['library']}: {f['reason']}" for f in results["failures"]]
    factors = [f"- {figure}: {factor}" for figure, factor in FACTORS.items()]
    lines += ["## Not measured", "", *failed, ""] if failed else []
    return "\n".join([*lines, _METHOD, *factors]) + "\n"


_METHOD = """\
## How it is measured

A cell is the median over the runs and, in parentheses, their minimum. Each case runs in a process
of its own for each library and each run, without caches of compiled code; in it the least of
several repeats counts. NumPy arrays go in; value and gradient come out, of `tracker.jit` and
`jax.jit`, and of torch and autograd as they are. Under C++ are derivatives written by hand
(`benchmarks/hand_written.cpp`), on one thread, timed within C++. All libraries must compute the
same numbers. The column of NumPy is the time of the plain function, without a gradient. Eager cost,
forward and backward, is for each operation. jax takes part where it compiles; its loops are
`lax.scan`.

A long program is compiled quickly first, and optimised in the background from the third call on. A
time of a call is taken when that is done. A first call ("first result") returns what the trace
computed, and "machine code" is the time from the start of the first call to the end of the first
one that machine code serves: the second, which waits for it, or the third. Both are in a process
that has compiled another function before, but for "first function of a process".

`make bench-check` measures again and compares with these results. It divides each minimum by that
of plain NumPy for the same case in the same run (of a first call: by the time of importing NumPy),
which another machine or another load changes less than the time itself. It fails if a quotient has
grown by more than its factor:
"""


def plots(results: Results, folder: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "tracker", "svg.fonttype": "none"})
    speed, calls, firsts = _PLOTS
    _plot_speed(folder / speed, results)
    _plot(folder / calls, "elements", lambda e: not _is_length(e) and _is_call(e), results)
    _plot(folder / firsts, "operations", lambda e: _is_length(e) and _is_first(e), results)


def _is_length(entry: dict[str, Any]) -> bool:
    """Its size is that of the program, not of arrays."""
    return bool(entry["group"] == "first calls")


def _is_call(entry: dict[str, Any]) -> bool:
    return bool(entry["figure"] == "call")


def _is_first(entry: dict[str, Any]) -> bool:
    return entry["figure"] in ("first result", "machine code")


def _plot_speed(path: Path, results: Results) -> None:
    """A group of bars for each call, a bar for each other library: its time in units of ours."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    of = _compiled_calls(results)[::-1]
    others = _columns(results)[1:]
    height = 0.8 / max(len(others), 1)
    figure, axis = plt.subplots(figsize=(8, 1.2 + 0.42 * len(of)))
    for number, name in enumerate(others):
        shown = [(i, e) for i, (_, _, e) in enumerate(of) if name in e]
        axis.barh(
            [i + 0.4 - (number + 0.5) * height for i, _ in shown],
            [e[name]["median"] / e["tracker"]["median"] - 1.0 for _, e in shown],
            height,
            left=1.0,
            label="NumPy, value only" if name == "numpy" else name,
        )
    axis.axvline(1.0, color="black", linewidth=1.0)
    axis.set(xscale="log", xlabel="time of a call / tracker's (more than 1: slower than tracker)")
    axis.set_yticks(range(len(of)), [case for case, _, _ in of])
    axis.xaxis.set_major_locator(LogLocator())
    axis.xaxis.set_major_formatter("{x:g}")
    axis.minorticks_off()
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 0.93))
    figure.legend(loc="upper center", ncols=len(others), frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _plot(
    path: Path, along: str, belongs: Callable[[dict[str, Any]], bool], results: Results
) -> None:
    """A panel for each program, a line for each library and figure, both axes logarithmic."""
    import matplotlib.pyplot as plt

    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    unit = ""
    for entry in results["figures"]:
        if entry["size"] is not None and belongs(entry):
            unit = entry["unit"]
            line = entry["library"] + (f", {entry['figure']}" if entry["figure"] != "call" else "")
            lines = panels.setdefault(entry["case"].split(",")[0], {})
            lines.setdefault(line, []).append((entry["size"], entry["median"]))
    if not panels:
        path.unlink(missing_ok=True)
        return
    figure, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 4), squeeze=False)
    for axis, (title, lines) in zip(axes[0], panels.items(), strict=True):
        for line, points in lines.items():
            axis.loglog(*zip(*sorted(points), strict=True), marker="o", label=line)
        axis.set(title=title, xlabel=along, ylabel=unit)
        axis.minorticks_off()
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def write(results: Results, root: Path = ROOT) -> None:
    """README.md, the page on performance and the plots, in a project's folder."""
    readme = root / "README.md"
    readme.write_text(with_block(readme.read_text(), readme_block(results)))
    (root / PAGE).write_text(page(results))
    plots(results, (root / PAGE).parent)


if __name__ == "__main__":
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "results.json"
    write(json.loads(given.read_text()))
