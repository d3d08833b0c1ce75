"""The body of a loop, from the equations of its symbolic iteration.

- Subscripts with the index are affine forms (`tape/tracing/loop_index.py`): reads of other arrays
  there are rows of the loop (`affine_subscripts.py`), and arrays that iterations write are divided
  into lines (`moving_arrays.py`), so that no array is copied in each iteration, and the pullback
  keeps lines only. Where that fails, the array is carried: parts of it are read and written at
  positions that the iteration computes, in its memory, and the pullback restores what iterations
  have overwritten (`control/undo_log.py`).
- Slices whose extents move (`A[i, :i]`) have the extent of their axis in the body, and the
  positions that mean something (`growing_values.py`), as have views of them (`growing_views.py`).
  So have arrays of which each iteration makes a shorter one (`shrinking_arrays.py`), and the lines
  of inner loops whose iterations are independent (`vectorised_loop.py`). Which code may see them is
  known beforehand (`iteration_state.py`), and an iteration that asks for such an extent stands for
  no other iterations. The products of rows with such slices of a matrix (`X[:, i] @ X[:, i:]`) are
  one product, before the loop.
- Slices between numbers of arrays (`x[starts[i] : starts[i + 1]]`) have the extent of the longest
  one (`ragged_slices.py`), and are otherwise like those.
- What a mask selects (`x[mask]`) differs in number from iteration to iteration: the body has all of
  `x`, and elementwise ops, sums, means and writes at the same mask read what is selected
  (`selections.py`).
- What depends on plain numbers alone is plain after the loop, too (`constants.py`).

Imports nothing of `python_loops` outside of this folder. Start at `iteration_body.py`.

Invariant: what is not known to be the same in all iterations raises `NotRollable`.
"""
