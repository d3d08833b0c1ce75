"""Linear algebra: matrix products, `numpy.linalg`, einsum.

`matmul.py` has the one op of all products; `tensor_products.py` and `einsum.py` are composed of it.
`solve.py`, `determinant.py`, `decompositions.py`, `eigen_svd.py`, `pinv_lstsq.py` and `norm.py` are
`numpy.linalg`; their ops lower to LAPACK (`Routine`). `triangles.py` has what they share: triangles
and diagonals, Hermitian parts, dtypes. `degenerate.py` has derivatives at coinciding eigenvalues.

Conventions. The gradient of a function of a complex matrix is df/dx + i df/dy, so rules use
adjoints (conjugate transposes). `cholesky`, `eigh` and `eigvalsh` read one triangle of their
argument, as LAPACK does, and so do the derivatives: the gradient is exactly zero in the other
triangle, and (g + g^H)/2 is the symmetric gradient of other systems.
"""

from tracker.ops.linalg import (  # noqa: F401
    decompositions,
    determinant,
    eigen_svd,
    norm,
    pinv_lstsq,
    solve,
    triangles,
)
