"""Transforms of functions beyond derivatives: `vmap`, `jacobian`, `hessian`.

`vmap.py` traces a function at one row (`control.body`) and replays the trace on all rows:
`batching_replay.py` walks the equations, `batching_rules.py` batches single ops, and
`batching_purity.py` decides whether one row can speak for all. `jacobians.py` maps pullbacks and
pushforwards over a basis. May import `control`, `autodiff`, and what `tracker.jit.tracing` offers.
"""
