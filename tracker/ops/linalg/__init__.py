"""Linear algebra: all of `numpy.linalg`, by subject. Importing this package declares it.

`triangles` has what the others share: triangles and diagonals of matrices, Hermitian parts, dtypes.

Conventions. The gradient of a function of a complex matrix is df/dx + i df/dy, so a rule uses
adjoints (conjugate transposes) throughout. `cholesky`, `eigh` and `eigvalsh` read one triangle of
their argument, as LAPACK does; so do the derivatives: the gradient is exactly zero in the triangle
that is not read, and (g + g^H)/2 is the symmetric gradient that other systems give.
"""

from tracker.ops.linalg import (
    decompositions,
    determinant,
    eigen_svd,
    norm,
    pinv_lstsq,
    solve,
    triangles,
)

__all__ = ["decompositions", "determinant", "eigen_svd", "norm", "pinv_lstsq", "solve", "triangles"]
