"""Python loops of traced code, at the price of a few iterations.

Under a trace, `range`, `zip`, `enumerate`, `reversed` and arrays that a `for` statement iterates
give a `LoopIterator` (`iterator.py`). Between two iterations it has the frame of the loop, and
`rolling.py` makes one iteration symbolic: the loop's index, and plain numbers that the loop
carries, become tracked numbers. The interpreter runs this iteration as ever, on real numbers, and
its equations are recorded as ever. If the iteration can stand for those after it, one `loop`
equation (`control/loop.py`) makes them, its results go into names and arrays, and the iterator
ends; the equations of the iteration itself are dead code. Otherwise the iterator hands out the
remaining iterations one by one, as the plain loop. Loops over lists, tuples and plain arrays, also
those of comprehensions, get such an iterator once they have run for a while (`long_loops.py`).

Why an iteration may stand for others: an iteration is a function of symbolic numbers and of
concrete state. If the concrete state is afterwards what it was (`iteration_state.py`), and nothing
has learned what the symbolic numbers are (no guard, conversion, escape or error), then the next
iteration does the same with other numbers, and so on. What could change state unseen never starts a
symbolic iteration: the bytecode of the loop, and of functions that it calls, is read beforehand
(`loop_code.py`).

- Names are carried if the next iteration may read them (liveness in the bytecode). If a name that
  is not is read after the loop, the last iteration runs as a plain one. So are attributes that the
  code stores in objects of user classes, the parts of tuples, and those of lists, dicts and
  objects that an iteration has bound anew or stored into (`places.py`).
- Plain numbers stay plain: what they are after the loop is computed as Python does
  (`body/constants.py`). Integers that move by the same number in each iteration are indices of the
  loop like its own: an attempt that fails learns by how much (`LoopRoller._learn`). So it learns by
  how much arrays get shorter (`body/shrinking_arrays.py`).
- `body/` makes the body of the equation from those of the symbolic iteration.
- Lists to which iterations only append get rows of what the loop stacks (`growing_lists.py`). So
  do those that `sum`, `list`, `tuple`, `min` and `max` make of what a generator gives: where one is
  read, its loop appends to this list.
- Loops nest: rows and writes of an inner loop are equations of the outer iteration, with subscripts
  that are affine in the outer index. The trip count of an inner loop may be affine, too; then it is
  an operand, and what the loop reads and stacks has room for the greatest trip count. If its
  iterations are independent, it is no loop, but operations on arrays (`body/vectorised_loop.py`).
- The first iterations of an inner loop may differ: a sum that starts at `0.0` is no Python float
  after one of them, and `for k in range(j)` has no iterations. An attempt that fails because of
  them makes the next one begin after them (`LoopIterator.first`): they are then a part of the outer
  iteration, if there are as many in all outer iterations. So that there are, the last outer
  iterations may stay plain. So does the last iteration of an inner loop that alone passes a test
  like `i == j`.

Where iterations branch on values, the next ones are made symbolic, too, as long as they soon take
other paths; then the loop has a branch for each path that was seen, and ends before the first
iteration that takes another one. That runs as a plain one: it may leave the loop. A `while_`
equation counts the iterations, without derivatives, and the `loop` equation takes this number
(`recorded_loop.py`). `while` statements have no iterator; their iterations are counted from test to
test (`tested_loops.py`), as long as the tests in between tell that the loop was not left: a loop
around it may come back to the same test. Where what is tested is a plain number, the number of
iterations is known.

A symbolic iteration in which a loop is left is a part of the iteration around it, which computes
its number and must have as many iterations of it everywhere.

So an inner loop that branches is, to the iteration around it, either a loop of all paths, or one of
the paths that were seen and a test whether there were others (`paths.py`). An iteration whose inner
loops know more paths stands for those before it, which knew fewer: the loop has its body alone, but
begins where the first of them did. Where the trip count of the inner loop moves, the loop itself
says whether other paths were taken.

Iterations that print stand for no others (the shim of `print` says so): where some print, by
conditions on plain numbers, those between them are rolled.

Not rolled: subscripts that wrap around, iterations that read a list that they grow, or change one
that the loop goes through, paths that append other things than others do, comprehensions of sets
and dicts, generators that a loop reads, lists whose subscripts move with a loop; sums that start at
Python's numbers, and that only some iterations of an inner loop add to; where iterations branch on
values, quotients of plain numbers that may be by zero; of slices whose extents move all but
elementwise ops, reductions, products, views that no iteration clips and reads at such positions,
those that are selected from, or carried (arrays that get shorter by the same number each time are),
and where they are parts of large matrices that are not multiplied by rows (an op on the part is
faster); extremes of what may be nothing; of slices between numbers of arrays those that are
written, clipped, or in a loop within another one, and where few are nearly as long as the longest
one.

Invariant: results, writes, prints and exceptions are those of the plain loop. What is not known to
be the same in all iterations raises `NotRollable`, and nothing has happened.
"""

from tracker.control.python_loops.iterator import start as start
from tracker.control.python_loops.long_loops import at_sample as at_sample
from tracker.control.python_loops.tested_loops import at_test as at_test
