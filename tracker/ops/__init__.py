"""The ops: everything that NumPy computes on tracked arrays. Importing this package declares them
all.

One file per family; folders by what the ops do: `shape`, `elementwise`, `reduce`, `indexing`,
`along_axis`, `linalg`, `signal`, and `special` (SciPy's ufuncs, imported with the first of them).
Ops may import the IR, the tape and each other in this order, never jit or autodiff. To add one,
read `declare/`, then a neighbour in its family's file, and give it a row in the family's test.
`ufunc_protocol.py` handles ufunc calls with keywords, and ufunc methods; `no_derivative.py` has
functions whose results are never differentiated, `labelled.py` and
`sparse_operands.py` objects of pandas, xarray and `scipy.sparse`.
"""

from tracker.ops import labelled, linalg, no_derivative, sparse_operands, ufunc_protocol  # noqa: F401
from tracker.ops.along_axis import (  # noqa: F401
    argextremes,
    calculus,
    cumulative,
    edit,
    nan_reductions,
    partition,
    quantiles,
    search_and_sets,
    sort,
    statistics,
)
from tracker.ops.declare import bundle  # noqa: F401
from tracker.ops.elementwise import activation, binary, comparison, float_parts, select, unary  # noqa: F401
from tracker.ops.indexing import getitem, take_repeat  # noqa: F401
from tracker.ops.linalg import einsum, matmul, tensor_products  # noqa: F401
from tracker.ops.reduce import predicates, reduce, softmax  # noqa: F401
from tracker.ops.shape import constructors, create, ranges, shape, windows  # noqa: F401
from tracker.ops.signal import convolution, fft, polynomial  # noqa: F401
