"""Inline code that is the full name of something in the reference is a link to it."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.util.nodes import make_refnode


def link_names(app: Any, doctree: nodes.document, docname: str) -> None:
    known = app.env.get_domain("py").objects
    for literal in list(doctree.findall(nodes.literal)):
        name = literal.astext().lstrip("@").removesuffix("()")
        if name.startswith("tracker.") and name in known and not _is_linked(literal):
            to = known[name]
            node = make_refnode(app.builder, docname, to.docname, to.node_id, literal.deepcopy())
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
