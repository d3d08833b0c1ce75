"""Indexing: views, gathers, scatters and in-place writes.

Values are immutable: `x[key] = v` computes a new value (`put`, `scatter`) and gives it to the
tracked array `x`; `views_and_writes.py` adds NumPy's aliasing between arrays and their views. An
index is a static parameter of its op, with `HOLE` in place of every index array, which is an
operand.

- `getitem.py`: the ops, in adjoint pairs; `gather_scatter.py`: what they are compiled to
- `canonical.py`: a user's subscript as such an index; `subscripts.py`: the choice of op
- `views_and_writes.py`, `view_functions.py`: assignment, views, and the NumPy functions that
  return views
- `take_repeat.py`: `take`, `repeat`, `split` and others, composed of these
"""
