"""What each op is in JAX: one file per family, as in `tracker/ops`. `RULES` has the rules by name.

Ops without a rule are expanded into others where their declaration says how (`ir.lowering.Expand`).
"""

from tracker.interop.jax_ops import along_axis as _along_axis  # noqa: F401
from tracker.interop.jax_ops import control as _control  # noqa: F401
from tracker.interop.jax_ops import elementwise as _elementwise  # noqa: F401
from tracker.interop.jax_ops import indexing as _indexing  # noqa: F401
from tracker.interop.jax_ops import linalg as _linalg  # noqa: F401
from tracker.interop.jax_ops import shape as _shape  # noqa: F401
from tracker.interop.jax_ops import special as _special  # noqa: F401
from tracker.interop.jax_ops.table import RULES as RULES
