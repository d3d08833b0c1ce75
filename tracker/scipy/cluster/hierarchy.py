"""`scipy.cluster.hierarchy` on tracked values: its functions refuse them by name."""

from __future__ import annotations

import scipy.cluster.hierarchy

from tracker.scipy._bridge.fallback import scipy_fallback

__getattr__ = scipy_fallback(scipy.cluster.hierarchy)
