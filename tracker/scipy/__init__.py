"""SciPy's functions on tracked values: a submodule for each of SciPy's, of the same name.

Functions that convert their arguments to arrays are written anew in NumPy; names that a submodule
does not define are SciPy's own, and calls without tracked arguments go to SciPy. This is the only
package that needs SciPy. The ways of differentiating SciPy are in `_bridge/`; start there, then
read any submodule. Nothing below (tape, derivatives, compiler) imports this package.

>>> import tracker
>>> from tracker.scipy import special
>>> tracker.gradient(lambda x: special.logsumexp(x), [0.0, 0.0])
(array([0.5, 0.5]),)
"""

import importlib
from typing import TYPE_CHECKING, Any

try:
    import scipy as _scipy
except ImportError as error:  # pragma: no cover (a test runs it in a process of its own)
    raise ImportError(
        "tracker.scipy needs SciPy, which is not installed. Type: pip install 'tracker-grad[scipy]'"
    ) from error

SUBMODULES = (
    "cluster",
    "cluster.hierarchy",
    "cluster.vq",
    "constants",
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "sparse.linalg",
    "spatial",
    "spatial.distance",
    "spatial.transform",
    "special",
    "stats",
)

if TYPE_CHECKING:
    from scipy import *  # noqa: F403

    from tracker.scipy import cluster as cluster
    from tracker.scipy import constants as constants
    from tracker.scipy import fft as fft
    from tracker.scipy import integrate as integrate
    from tracker.scipy import interpolate as interpolate
    from tracker.scipy import linalg as linalg
    from tracker.scipy import ndimage as ndimage
    from tracker.scipy import optimize as optimize
    from tracker.scipy import signal as signal
    from tracker.scipy import sparse as sparse
    from tracker.scipy import spatial as spatial
    from tracker.scipy import special as special
    from tracker.scipy import stats as stats
else:

    def __getattr__(name: str) -> Any:
        if name in SUBMODULES:
            return importlib.import_module(f"tracker.scipy.{name}")
        return getattr(_scipy, name)


def __dir__() -> list[str]:
    return dir(_scipy)
