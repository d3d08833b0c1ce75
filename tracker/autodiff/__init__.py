"""Derivatives: reverse and forward mode, custom rules, checkpointing, and the public functions.

May import the tape, the ops and `random`; never the compiler, which hooks in by attributes of its
callables (`boundary.compiled_derivative`).

Start at `gradients.py` (public functions) and `boundary.py` (what all derivatives of a function
share: lift the arguments, run, lower the results). `reverse.py` and `forward.py` walk the tape;
`sparse_cotangents.py` adds sparse cotangents. `pullbacks.py` serves results of any structure,
`params.py` the implicit style, `leaves.py` the `param`/`back` style. `custom_rules.py` registers
users' rules, `custom_rule_calls.py` runs them, `call_ops.py` makes their ops; `checkpoint.py` and
`stop_gradient.py` build on these. `finite_differences.py` is what `tracker.testing` compares with.
"""
