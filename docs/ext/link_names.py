"""Inline code that is the full name of a function is a link: to the reference, or to the pages of
NumPy, SciPy and Python (through intersphinx, as far as their inventories are there)."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.ext.intersphinx import resolve_reference_any_inventory
from sphinx.util.nodes import make_refnode

ELSEWHERE = ("numpy.", "scipy.", "math.", "multiprocessing.", "functools.")


def link_names(app: Any, doctree: nodes.document, docname: str) -> None:
    known = app.env.get_domain("py").objects
    for literal in list(doctree.findall(nodes.literal)):
        name = literal.astext().lstrip("@").removesuffix("()")
        name = "numpy." + name.removeprefix("np.") if name.startswith("np.") else name
        node = None
        if _is_linked(literal):
            continue
        if name.startswith("tracker.") and name in known:
            to = known[name]
            node = make_refnode(app.builder, docname, to.docname, to.node_id, literal.deepcopy())
        elif name.startswith(ELSEWHERE):
            wanted = pending_xref("", refdomain="py", reftype="obj", reftarget=name)
            node = resolve_reference_any_inventory(app.env, False, wanted, literal.deepcopy())
        if node is not None:
            literal.replace_self(node)


def _is_linked(node: nodes.Node) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, (nodes.reference, nodes.title)):
            return True
    return False


def setup(app: Any) -> dict[str, Any]:
    app.connect("doctree-resolved", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
