"""`scipy.cluster`: its functions refuse tracked values by name."""

from __future__ import annotations

import scipy.cluster

from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy.cluster import hierarchy as hierarchy
from tracker.scipy.cluster import vq as vq

__getattr__ = scipy_fallback(scipy.cluster)
