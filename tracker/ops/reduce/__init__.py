"""Reductions over any axes: sums, products, extremes, predicates, softmax.

`reduce.py` has the ops and NumPy's keywords around them, start there. Axes are canonical in every
op: `axis` is a sorted tuple of non-negative ints. `short_axes.py` makes eager reductions over short
axes of large arrays fast.
"""
