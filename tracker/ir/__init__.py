"""The intermediate representation: typed equations in SSA form, and what an op is.

A `Function` (`graph.py`) is a straight line of equations and guards over variables; each equation
applies an `Op` (`op.py`) whose `Lowering` (`lowering.py`) says what loop the compiler makes of it.
Control flow is in nested functions, which params of equations refer to.

- `types.py`: shape, dtype and weakness of a value; `verify.py`: the invariants, checked.
- `text.py` (with `literals.py`, `lexer.py`): the text form, which reads back bit by bit.
- `structural_keys.py` and `fingerprint.py`: equality of params, and of functions across processes.
- `passes/`: rewrites of functions.

This folder knows `support` and `errors` only: neither the tape, nor the ops that are declared with
it, nor the compiler. Start at `graph.py`.
"""
