"""`scipy.cluster`: its functions refuse tracked values by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import scipy.cluster

from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy.cluster import hierarchy as hierarchy
from tracker.scipy.cluster import vq as vq

if TYPE_CHECKING:
    from scipy.cluster import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(scipy.cluster)
