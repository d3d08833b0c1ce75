"""`scipy.cluster.vq` on tracked values: its functions refuse them by name."""

from __future__ import annotations

import scipy.cluster.vq

from tracker.scipy._bridge.fallback import scipy_fallback

__getattr__ = scipy_fallback(scipy.cluster.vq)
