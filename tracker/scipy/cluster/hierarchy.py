"""`scipy.cluster.hierarchy`: its functions refuse tracked values by name."""

from __future__ import annotations

import scipy.cluster.hierarchy

from tracker.scipy._bridge.fallback import scipy_fallback

__getattr__ = scipy_fallback(scipy.cluster.hierarchy)
