"""Passes over loops: re-rolling of unrolled Python loops, and pruning of what loops leave.

A trace holds a copy of a loop's body per iteration, and its pullback another. `reroll.py` makes
`loop` equations of them again, in four steps: `repeat_detection.py` finds runs of equal steps,
`rotate.py` chooses where a period begins, `recurrences.py` finds how operands move from iteration
to iteration (the result is a `LoopCandidate`, `loop_candidates.py`), and `live_outs.py` which
results later steps need; `stacking.py` writes stacks of slices. `prune_results.py` and
`rematerialize.py` then reduce what a loop stacks for its pullback. `batch.py` writes loops that sum
products, and carry nothing, on all rows. `shared_bodies.py` makes one body of those that loops (and
branches) have, up to numbers.

These passes know `ir` and `ir.passes`. Start at `reroll.py`.
"""
