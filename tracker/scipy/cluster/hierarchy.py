"""`scipy.cluster.hierarchy`: its functions refuse tracked values by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import scipy.cluster.hierarchy

from tracker.scipy._bridge.fallback import scipy_fallback

if TYPE_CHECKING:
    from scipy.cluster.hierarchy import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(scipy.cluster.hierarchy)
