"""Passes: rewrites from an `ir.Function` to an equivalent, cheaper one.

`manager.py` defines a pass, what passes require of one another, and the driver. The order is in
`jit/pipeline/pass_order.py`:

- written out: `expand.py` (composite ops), `linalg_dtypes.py` (casts around linear algebra)
- cleaned up: `dead_code.py`, `common_subexpressions.py`, `simplify.py` with `slice_rules.py`
  (rewrite rules), `rewriter.py` (how rules are applied, constant folding), `memory_ssa.py` (which
  write an element of an array comes from)
- reduced: `matmul_rewrites.py`, `scatter.py`, `dead_stores.py`
- rolled into loops: `loops/`; `contractions.py` makes matrix products of what is left of some

Passes know `ir` only. Start at `manager.py`.
"""
