"""Passes over loops, which traces write (`control`).

`shared_bodies.py` makes one body of those that loops (and branches) have, up to numbers.
`added_zeros.py` writes additions of zeros to carried arrays once, before the loop,
`prune_results.py` drops what nothing reads of what loops stack, and `batch.py` writes loops that
sum products, and carry nothing, on all rows.

These passes know `ir` and `ir.passes`. Start at `prune_results.py`.
"""
