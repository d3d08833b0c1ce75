"""The directive `coverage-table`: the rows of `coverage_table` as a table with a search field."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import coverage_table
from docutils import nodes
from docutils.parsers.rst import Directive

SCRIPT = (Path(__file__).parent / "coverage_page.js").read_text()
CODE = "`"


def table() -> str:
    """HTML. Without JavaScript it is a plain table."""
    jax = coverage_table.HAS_JAX
    rows = [
        f'<tr><td><code>{escape(space)}.{escape(name)}</code></td><td class="{status}">'
        f"{status}</td>{_jax_cell(space, name, status) if jax else ''}<td>{_code(why)}</td></tr>"
        for space, found in coverage_table.rows().items()
        for name, status, why in found
        if status != "not a function"
    ]
    statuses = "".join(f"<option>{s}</option>" for s in ("differentiable", "constant", "refused"))
    return (
        '<p><input class="coverage-search" type="search" placeholder="name, or part of it" '
        'aria-label="search the table"> <select class="coverage-status" aria-label="status">'
        f'<option value="">all</option>{statuses}</select> '
        f'<span class="coverage-count" aria-live="polite">{len(rows)} functions</span></p>'
        '<table class="table coverage"><thead><tr><th>function</th><th>with tracked values</th>'
        f"{'<th>by <code>to_jax</code></th>' if jax else ''}<th>how, or why</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
        f"{_ops_in_jax() if jax else ''}<script>{SCRIPT}</script>"
    )


def _jax_cell(space: str, name: str, status: str) -> str:
    known = status in ("differentiable", "constant")
    return f"<td>{coverage_table.in_jax(space, name) if known else ''}</td>"


def _ops_in_jax() -> str:
    missing = coverage_table.ops_without_rule()
    names = ", ".join(f"<code>{escape(name)}</code>" for name in missing)
    return (
        f"<p>Of the {len(coverage_table.OPS)} ops that functions are composed of, "
        f"<code>to_jax</code> has no rule for {len(missing)}: {names}.</p>"
    )


def _code(text: str) -> str:
    """`code` between backticks."""
    parts = escape(text).split(CODE)
    return "".join(f"<code>{p}</code>" if odd % 2 else p for odd, p in enumerate(parts))


class CoverageTable(Directive):
    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", table(), format="html")]


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("coverage-table", CoverageTable)
    return {"parallel_read_safe": True}
