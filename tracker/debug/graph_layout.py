"""Layered drawing of a directed acyclic graph (Sugiyama's method). Start at `arrange`.

Four steps: assign layers by longest path, a source right above its first consumer; insert a bend
where an edge crosses a layer; order each layer by the mean position of its neighbours, alternating
downwards and upwards; place nodes by least squares that keep order and distance.

Invariant: the layout depends on the graph only, not on hashes or the machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tracker.support.structs import field, record

_GAP = 22.0  # between neighbours in a layer
_LAYER_GAP = 42.0
_SWEEPS = 8
_CHARACTER = 7.3  # width of a character of the label
_LINE = 16.0


@record(eq=False)
class Node:
    """A box: lines of text (the first is the title), a kind (its colour), a tooltip."""

    lines: list[str]
    kind: str
    tooltip: str = ""
    layer: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max((len(line) for line in self.lines), default=0) * _CHARACTER + 22.0

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 12.0


class _Bend(Node):
    """The point where a long edge crosses a layer."""

    def __init__(self, layer: int) -> None:
        super().__init__([], "bend", layer=layer)
        self.tall = 0.0

    @property
    def width(self) -> float:
        return 6.0

    @property
    def height(self) -> float:
        return self.tall


@record(eq=False)
class Edge:
    """An arrow with a label; `arrange` fills in `path`, its nodes and bends."""

    start: Node
    end: Node
    label: str = ""
    path: list[Node] = field(default_factory=list)


@record()
class Picture:
    nodes: list[Node]
    edges: list[Edge]
    width: float
    height: float


def arrange(nodes: Sequence[Node], edges: Sequence[Edge]) -> Picture:
    """Place all nodes, which are given in topological order."""
    layers = _assign_layers(nodes, edges)
    _insert_bends(layers, edges)
    below: dict[Node, list[Node]] = {}
    above: dict[Node, list[Node]] = {}
    for edge in edges:
        for a, b in itertools.pairwise(edge.path):
            below.setdefault(a, []).append(b)
            above.setdefault(b, []).append(a)
    for layer in layers:
        _place_layer(layer, [float(k) * 100 for k in range(len(layer))])
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            _order_layer(layer, above if down else below)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            neighbours = [(above if down else below).get(n, []) for n in layer]
            _place_layer(
                layer, [_mean(near, n.x) for n, near in zip(layer, neighbours, strict=True)]
            )
    y = 0.0
    for layer in layers:
        tall = max(node.height for node in layer)
        for node in layer:
            node.y = y + tall / 2
            if isinstance(node, _Bend):
                node.tall = tall
        y += tall + _LAYER_GAP
    left = min((n.x - n.width / 2 for layer in layers for n in layer), default=0.0)
    for layer in layers:
        for node in layer:
            node.x -= left
    width = max((n.x + n.width / 2 for layer in layers for n in layer), default=0.0)
    return Picture(list(nodes), list(edges), width, max(y - _LAYER_GAP, 0.0))


def _assign_layers(nodes: Sequence[Node], edges: Sequence[Edge]) -> list[list[Node]]:
    into: dict[Node, list[Node]] = {}
    out: dict[Node, list[Node]] = {}
    for edge in edges:
        into.setdefault(edge.end, []).append(edge.start)
        out.setdefault(edge.start, []).append(edge.end)
    for node in nodes:
        node.layer = max((n.layer + 1 for n in into.get(node, ())), default=0)
    for node in nodes:
        if node not in into and node in out:
            node.layer = min(n.layer for n in out[node]) - 1
    layers: list[list[Node]] = [[] for _ in range(max((n.layer for n in nodes), default=-1) + 1)]
    for node in nodes:
        layers[node.layer].append(node)
    return layers


def _insert_bends(layers: list[list[Node]], edges: Sequence[Edge]) -> None:
    for edge in edges:
        edge.path = [edge.start]
        for layer in range(edge.start.layer + 1, edge.end.layer):
            bend = _Bend(layer)
            layers[layer].append(bend)
            edge.path.append(bend)
        edge.path.append(edge.end)


def _order_layer(layer: list[Node], neighbours: dict[Node, list[Node]]) -> None:
    layer.sort(key=lambda node: _mean(neighbours.get(node, []), node.x))
    _place_layer(layer, [_mean(neighbours.get(node, []), node.x) for node in layer])


def _mean(nodes: list[Node], default: float) -> float:
    return sum(n.x for n in nodes) / len(nodes) if nodes else default


def _place_layer(layer: list[Node], targets: list[float]) -> None:
    """Place nodes as near to the targets as order and distance allow (isotonic regression)."""
    offsets, at = [], 0.0
    for k, node in enumerate(layer):
        if k:
            at += layer[k - 1].width / 2 + node.width / 2 + _GAP
        offsets.append(at)
    blocks: list[tuple[float, int]] = []  # mean, count
    for want, offset in zip(targets, offsets, strict=True):
        mean, count = want - offset, 1
        while blocks and blocks[-1][0] >= mean:
            other, n = blocks.pop()
            mean, count = (mean * count + other * n) / (count + n), count + n
        blocks.append((mean, count))
    k = 0
    for mean, count in blocks:
        for _ in range(count):
            layer[k].x = mean + offsets[k]
            k += 1
