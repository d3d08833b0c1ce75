"""The text of a Graphviz picture of a function.

Boxes are equations, ellipses are inputs and captures, edges carry types, guards and outputs are
sinks. Nested functions are named, not drawn.
"""

from __future__ import annotations

import json

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var
from tracker.ir.literals import print_type, print_value
from tracker.ir.text import Printer


def dot(function: Function) -> str:
    """Graphviz text; `dot -Tsvg` draws it."""
    printer = Printer(function)
    lines = [f"digraph {_quote(function.name)} {{", "  node [shape=box, fontname=monospace];"]
    for variables, style in ((function.inputs, "solid"), (function.captures, "dashed")):
        names = map(printer.atom, variables)
        lines.extend([_node(name, name, f"shape=ellipse, style={style}") for name in names])
    for k, step in enumerate(function.body):
        if isinstance(step, Eqn):
            name = printer.atom(step.out)
            lines.append(_node(name, _label(step, printer)))
            lines.extend(_edges(step.operands, name, printer))
        else:
            lines.extend(_guard(step, f"guard {k}", printer))
    lines.append(_node("return", "return", "shape=ellipse, style=bold"))
    lines.extend(_edges(function.outputs, "return", printer))
    return "\n".join([*lines, "}"])


def _label(eqn: Eqn, printer: Printer) -> str:
    shown = [a if isinstance(a, Var) else print_value(a.value) for a in eqn.operands]
    literals = [text for text in shown if isinstance(text, str)]
    params = [f"{k}={print_value(v, printer.functions)}" for k, v in eqn.params.items()]
    head = f"{printer.atom(eqn.out)} = {' '.join([eqn.op.name, *literals])}"
    return "\n".join([head, *params, *([eqn.where] if eqn.where else [])])


def _guard(guard: Guard, name: str, printer: Printer) -> list[str]:
    label = f"guard {guard.kind} == {print_value(guard.expected)}"
    return [_node(name, label, "shape=octagon"), *_edges((guard.operand,), name, printer)]


def _edges(atoms: tuple[Atom, ...], to: str, printer: Printer) -> list[str]:
    return [
        f"  {_quote(printer.atom(atom))} -> {_quote(to)} [label={_quote(print_type(atom.type))}];"
        for atom in atoms
        if isinstance(atom, Var)
    ]


def _node(name: str, label: str, style: str = "") -> str:
    return (
        f"  {_quote(name)} [{', '.join([f'label={_quote(label)}', *([style] if style else [])])}];"
    )


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
