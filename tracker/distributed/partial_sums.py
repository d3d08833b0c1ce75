"""Partial sums over shards, added up in an order that depends on the number of shards alone.

The shards are the leaves of a binary tree: node (level, index) is the sum of the 2**level shards
from index * 2**level on. A partial sum holds the nodes that some shards make complete; adding
more shards, in any order, adds siblings only, so the additions of a node are always the same ones.
Summands that are in memory at a time: at most two for each level, for consecutive shards.
"""

from __future__ import annotations

import operator
from typing import Any

from tracker import tree

Nodes = dict[tuple[int, int], Any]


def merge(nodes: Nodes, more: Nodes) -> Nodes:
    """The nodes of both, which have no shard in common."""
    merged = dict(nodes)
    for (level, index), summand in more.items():
        while (level, index ^ 1) in merged:
            summand = add(summand, merged.pop((level, index ^ 1)))
            level, index = level + 1, index // 2
        merged[level, index] = summand
    return merged


def total(nodes: Nodes) -> Any:
    """The sum of all shards: nodes without a sibling are added from the right."""
    summands = [nodes[at] for at in sorted(nodes, key=lambda at: at[1] << at[0])]
    found = summands.pop()
    while summands:
        found = add(summands.pop(), found)
    return found


def add(a: Any, b: Any) -> Any:
    """The sum of two structures; None, the gradient of what is no number, stays None."""
    return tree.map(lambda x, y: None if x is None else operator.add(x, y), a, b)
