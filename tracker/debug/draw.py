"""SVG pictures of tapes, traces and compiled plans.

`_tape_graph`, `_function_graph` and `_plan_graph` make graphs of boxes and arrows, which
`graph_layout.py` arranges. Start at `draw`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from typing import Any

from tracker.autodiff.boundary import split_method
from tracker.debug.graph_layout import Edge, Node, Picture, arrange
from tracker.debug.tape import TapeText, format_equation, recorded_values, type_name
from tracker.errors import UnsupportedError
from tracker.ir.graph import Eqn, Function, Guard, Var, operands_of
from tracker.ir.literals import print_type, print_value
from tracker.jit import Callback, HostCall, Plan, is_jitted, newest_trace, partition, planned, trace
from tracker.tape.tracked import Tracked
from tracker.tape.value import CLOSED, ParamState, Value

MAX_BOXES = 400  # in one picture
MAX_NOTEBOOK_BOXES = 200  # of larger ones, the text is shown
_COLOURS = {  # fill, border
    "input": ("#dbeafe", "#3b82f6"),
    "capture": ("#e0e7ff", "#6366f1"),
    "param": ("#dcfce7", "#22c55e"),
    "constant": ("#f1f5f9", "#94a3b8"),
    "op": ("#ffffff", "#64748b"),
    "kernel": ("#fef3c7", "#f59e0b"),
    "unrolled": ("#ecfccb", "#84cc16"),
    "product": ("#f3e8ff", "#a855f7"),
    "control": ("#ccfbf1", "#14b8a6"),
    "host": ("#fee2e2", "#ef4444"),
    "guard": ("#ffedd5", "#f97316"),
    "result": ("#1e293b", "#1e293b"),
}
_LEGEND = {
    "input": "argument",
    "capture": "captured",
    "param": "param",
    "constant": "constant",
    "kernel": "loop",
    "unrolled": "unrolled",
    "product": "BLAS, LAPACK",
    "control": "control flow",
    "host": "NumPy or Python",
    "guard": "guard",
}
Graph = tuple[str, list[Node], list[Edge]]


def draw(what: Any, path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> Path:
    """Draw a tape, a function's trace, or a compiled plan, as an SVG file; returns its path.

    Parameters
    ----------
    what : Tracked or callable
        A tracked value (its history is drawn), a jitted function (the loops, products and host
        calls that run for these arguments, or for those of the newest trace), or another function
        (its equations at these arguments).
    path : str or path
        Of the file.
    *args, **kwargs
        Arguments of a function.

    Returns
    -------
    pathlib.Path

    See Also
    --------
    dot, tape

    Notes
    -----
    A picture shows at most the last 400 boxes.

    Examples
    --------
    >>> draw(np.sum(np.sin(tracker.param([1.0, 2.0]))), path).name
    'picture.svg'
    """
    title, nodes, edges = _graph_of(what, args, kwargs)
    if len(nodes) > MAX_BOXES:
        title += f" (the last {MAX_BOXES} of {len(nodes)})"
        nodes = nodes[-MAX_BOXES:]
        shown = set(nodes)
        edges = [e for e in edges if e.start in shown and e.end in shown]
    target = Path(path)
    target.write_text(_svg(title, arrange(nodes, edges)), encoding="utf-8")
    return target


def notebook_svg(what: Tracked | Function) -> str | None:
    """The picture of a tape or trace in a notebook; None if it has too many boxes."""
    title, nodes, edges = _graph_of(what, (), {})
    if len(nodes) > MAX_NOTEBOOK_BOXES:
        return None
    return _svg(title, arrange(nodes, edges))


TapeText.drawer = notebook_svg


def _graph_of(what: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Graph:
    if isinstance(what, Tracked):
        return _tape_graph(what)
    if isinstance(what, Function):
        return _function_graph(what)
    function, bound = split_method(what)
    if is_jitted(function):
        found = newest_trace(function, (*bound, *args) if args else (), kwargs)
        return _plan_graph(found, function.__name__)
    if callable(what):
        return _function_graph(trace(what, *args, **kwargs))
    raise UnsupportedError(
        f"draw got a {type(what).__name__}",
        "Give a tracked value, a function with its arguments, a trace, or a jitted function",
    )


# Graphs -------------------------------------------------------------------------------------------


def _tape_graph(y: Tracked) -> Graph:
    values = recorded_values(y)
    boxes: dict[Value, Node] = {}
    edges = []
    for value in values:
        words = format_equation(value, dict.fromkeys(values, "·"))
        kind = "op"
        if value.op is None:
            kind = "param" if isinstance(value.params, ParamState) else "input"
        elif value.op is CLOSED or isinstance(value.op, str):
            kind = "constant"
        name = words.split(" ")[0]
        more = [part for part in (words[len(name) :].replace("·", "").strip(),) if part]
        boxes[value] = Node([name, *map(_shorten, more), type_name(value.data)], kind)
        edges += [
            Edge(boxes[o], boxes[value])
            for o in dict.fromkeys(o for o in value.operands if type(o) is Value)
        ]
    return f"tape of {type_name(values[-1].data)}", list(boxes.values()), edges


def _function_graph(function: Function) -> Graph:
    boxes: dict[Var, Node] = {}
    for kind, variables in (("input", function.inputs), ("capture", function.captures)):
        boxes.update((v, Node([v.name, print_type(v.type)], kind)) for v in variables)
    nodes, edges = list(boxes.values()), []
    for step in function.body:
        node = _step_node(step)
        nodes.append(node)
        operands = dict.fromkeys(operands_of(step))
        edges += [Edge(boxes[o], node) for o in operands if isinstance(o, Var)]
        if isinstance(step, Eqn):
            boxes[step.out] = node
    _add_result(function, lambda v: [boxes[v]], nodes, edges)
    return function.name, nodes, edges


def _step_node(step: Eqn | Guard) -> Node:
    if isinstance(step, Guard):
        return Node(["guard", f"{step.kind} is {step.expected}"], "guard", step.where)
    literals = [print_value(o.value) for o in step.operands if not isinstance(o, Var)]
    head = " ".join([step.op.name, *literals])
    params = ", ".join(f"{k}={print_value(v)}" for k, v in step.params.items())
    lines = [head, *([params] if params else []), print_type(step.out.type)]
    return Node(list(map(_shorten, lines)), "op", step.where)


def _add_result(
    function: Function, of: Callable[[Var], Iterable[Node]], nodes: list[Node], edges: list[Edge]
) -> None:
    outs = list(dict.fromkeys(o for o in function.outputs if isinstance(o, Var)))
    types = [print_type(out.type) for out in outs]
    lines = [", ".join(types[k : k + 3]) for k in range(0, min(len(types), 9), 3)]
    result = Node(["result", *lines, *(["..."] if len(types) > 9 else [])], "result")
    nodes.append(result)
    edges += [Edge(node, result) for node in dict.fromkeys(n for out in outs for n in of(out))]


def _plan_graph(function: Function, name: str) -> Graph:
    """The compiled plan: a box per loop, product, group of unrolled equations, and host call."""
    owner: dict[Var, Node] = {}
    checks: dict[Any, Node] = {}
    segments = [_segment_boxes(part, owner, checks) for part in partition(function)]
    arrows: dict[tuple[Node, Node], int] = {}
    sources: dict[Var, tuple[Node, ...]] = {}
    nodes = []
    for kind, variables in (("input", function.inputs), ("capture", function.captures)):
        for var in variables:
            node = Node([var.name, print_type(var.type)], kind)
            nodes.append(node)
            sources[var] = (node,)
    for step in function.body:
        if not isinstance(step, Eqn):
            continue
        box = owner.get(step.out)
        operands = dict.fromkeys(o for o in step.operands if isinstance(o, Var))
        if box is None:  # a view has no code
            sources[step.out] = tuple(dict.fromkeys(n for o in operands for n in sources[o]))
            continue
        sources[step.out] = (box,)
        for o in operands:
            for source in sources[o]:
                if source is not box:
                    key = (source, box)
                    arrows[key] = max(arrows.get(key, 0), o.type.nbytes)
    for operand, node in checks.items():
        arrows.update(((source, node), 0) for source in sources.get(operand, ()))
    nodes += [node for boxes in segments for node in boxes]
    edges = [Edge(a, b, _format_bytes(size)) for (a, b), size in arrows.items()]
    nodes, edges = _topological_order(nodes, edges)
    _add_result(function, lambda v: sources[v], nodes, edges)
    return f"{name}: what runs", nodes, edges


def _segment_boxes(stage: Any, owner: dict[Var, Node], checks: dict[Any, Node]) -> list[Node]:
    if isinstance(stage, HostCall):
        return [_host_box(stage.eqn, stage.why, owner)]
    if isinstance(stage, Guard):
        node = checks[stage.operand] = _step_node(stage)
        return [node]
    return list(_plan_boxes(planned(stage.function), owner, checks))


def _host_box(eqn: Eqn, why: str, owner: dict[Var, Node]) -> Node:
    lines = [eqn.op.name, _shorten(why), print_type(eqn.out.type)]
    node = owner[eqn.out] = Node(lines, "host", eqn.where)
    return node


def _plan_boxes(plan: Plan, owner: dict[Var, Node], checks: dict[Any, Node]) -> Iterable[Node]:
    """The boxes of one native segment. Fills `owner`, the box that computes each variable, and
    `checks`, the box of the guard on each operand."""
    for level, scalars in sorted(plan.unrolled.items()):
        eqns = [s for s in scalars if isinstance(s, Eqn)]
        guards = [s for s in scalars if isinstance(s, Guard)]
        if eqns:
            yield _group_box(f"{len(eqns)} unrolled", eqns, "unrolled", owner, f"level {level}")
        for guard in guards:
            node = checks[guard.operand] = _step_node(guard)
            yield node
    for products in plan.products.values():
        for eqn in (product.eqn for product in products):
            shapes = " @ ".join(print_type(o.type) for o in eqn.operands)
            node = owner[eqn.out] = Node(["product", shapes], "product", eqn.where)
            yield node
    for call in (call for calls in plan.calls.values() for call in calls):
        shapes = ", ".join(print_type(o.type) for o in call.eqn.operands)
        node = owner[call.eqn.out] = Node([call.name, shapes], "product", call.eqn.where)
        yield node
    for controls in plan.controls.values():
        for control in controls:
            eqn = control.eqn
            node = owner[eqn.out] = Node([eqn.op.name, "native"], "control", eqn.where)
            yield node
    for step in itertools.chain(*plan.writes.values()):
        if isinstance(step, Callback):
            yield _host_box(step.eqn, step.why, owner)
    for kernel in sorted(plan.kernels, key=lambda k: k.level):
        eqns = [eqn for piece in kernel.with_fused for eqn in (*piece.members, *piece.reductions)]
        if eqns:
            space = " x ".join(map(str, kernel.space)) or "1"
            yield _group_box(f"loop over {space}", eqns, "kernel", owner, f"level {kernel.level}")


def _group_box(title: str, eqns: list[Eqn], kind: str, owner: dict[Var, Node], note: str) -> Node:
    names = list(dict.fromkeys(eqn.op.name for eqn in eqns))
    shown = [" ".join(names[k : k + 4]) for k in range(0, min(len(names), 12), 4)]
    if len(names) > 12:
        shown[-1] += " ..."
    locations = list(dict.fromkeys(eqn.where for eqn in eqns if eqn.where))
    lines = sorted({f"{os.path.basename(p)}" for p in locations})[:2]
    node = Node([title, *shown, *lines], kind, "\n".join([note, *locations[:20]]))
    for eqn in eqns:
        owner[eqn.out] = node
    return node


def _topological_order(nodes: list[Node], edges: list[Edge]) -> tuple[list[Node], list[Edge]]:
    """The nodes in topological order, and the edges without those that close a cycle (of two boxes
    that run alternately)."""
    out: dict[Node, list[Node]] = {}
    for edge in edges:
        out.setdefault(edge.start, []).append(edge.end)
    order: list[Node] = []
    state: dict[Node, int] = {}
    for root in reversed(nodes):
        stack = [(root, iter(out.get(root, ())))]
        if state.get(root):
            continue
        state[root] = 1
        while stack:
            node, rest = stack[-1]
            following = next((n for n in rest if not state.get(n)), None)
            if following is None:
                state[node] = 2
                order.append(node)
                stack.pop()
            else:
                state[following] = 1
                stack.append((following, iter(out.get(following, ()))))
    order.reverse()
    position = {node: k for k, node in enumerate(order)}
    return order, [e for e in edges if position[e.start] < position[e.end]]


def _shorten(text: str, most: int = 34) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _format_bytes(size: int) -> str:
    if size < 1024:
        return ""
    return f"{size / 1024:.0f} kB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MB"


# SVG ----------------------------------------------------------------------------------------------

_MARGIN, _TOP = 28.0, 76.0
_STYLE = (
    "text{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;fill:#0f172a}"
    ".small{font-size:11px;fill:#64748b}.title{font-size:16px;font-weight:600}"
    "path{fill:none;stroke:#94a3b8;stroke-width:1.3}rect{stroke-width:1.2}"
)


def _svg(title: str, picture: Picture) -> str:
    kinds = [k for k in _LEGEND if any(n.kind == k for n in picture.nodes)]
    legend = sum(len(_LEGEND[k]) * 7.3 + 34 for k in kinds)
    width = max(picture.width, legend, len(title) * 9.8) + 2 * _MARGIN
    height = picture.height + _TOP + _MARGIN
    left = (width - picture.width) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0,0.5 L7,4 L0,7.5" '
        'style="stroke:#64748b;stroke-width:1.4"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff" stroke="none"/>',
        f'<text class="title" x="{_MARGIN}" y="32">{escape(title)}</text>',
        *_legend(kinds),
        f'<g transform="translate({left:.1f},{_TOP})">',
        *(_svg_arrow(edge) for edge in picture.edges),
        *(_svg_box(node) for node in picture.nodes),
        "</g></svg>",
    ]
    return "\n".join(parts)


def _legend(kinds: list[str]) -> Iterable[str]:
    x = _MARGIN
    for kind in kinds:
        fill, border = _COLOURS[kind]
        yield (
            f'<rect x="{x:.0f}" y="46" width="12" height="12" rx="3" fill="{fill}" '
            f'stroke="{border}"/><text class="small" x="{x + 18:.0f}" y="56">{_LEGEND[kind]}</text>'
        )
        x += len(_LEGEND[kind]) * 7.3 + 34


def _svg_arrow(edge: Edge) -> str:
    first, last = edge.path[0], edge.path[-1]
    points = [(first.x, first.y + first.height / 2)]
    for node in edge.path[1:-1]:  # straight down beside the boxes of a layer
        points += [(node.x, node.y - node.height / 2), (node.x, node.y + node.height / 2)]
    points.append((last.x, last.y - last.height / 2 - 2))
    d = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        middle = (y0 + y1) / 2
        curve = f" C{x0:.1f},{middle:.1f} {x1:.1f},{middle:.1f} {x1:.1f},{y1:.1f}"
        d += f" V{y1:.1f}" if x0 == x1 else curve
    drawn = f'<path d="{d}" marker-end="url(#tip)"/>'
    if edge.label:
        (x0, y0), (x1, y1) = points[-2:]
        x, y = (x0 + x1) / 2 + 5, (y0 + y1) / 2 + 4
        drawn += f'<text class="small" x="{x:.1f}" y="{y:.1f}">{escape(edge.label)}</text>'
    return drawn


def _svg_box(node: Node) -> str:
    fill, border = _COLOURS[node.kind]
    x, y = node.x - node.width / 2, node.y - node.height / 2
    parts = [
        f'<g><rect x="{x:.1f}" y="{y:.1f}" width="{node.width:.1f}" height="{node.height:.1f}" '
        f'rx="7" fill="{fill}" stroke="{border}"/>'
    ]
    if node.tooltip:
        parts.append(f"<title>{escape(node.tooltip)}</title>")
    dark = ' style="fill:#ffffff"' if node.kind == "result" else ""
    for k, line in enumerate(node.lines):
        small = ' class="small"' if k else ""
        parts.append(
            f'<text{small}{dark} text-anchor="middle" x="{node.x:.1f}" '
            f'y="{y + 18 + 16 * k:.1f}">{escape(line)}</text>'
        )
    return "".join(parts) + "</g>"
