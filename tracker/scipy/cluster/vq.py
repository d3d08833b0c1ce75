"""`scipy.cluster.vq`: its functions refuse tracked values by name."""

from __future__ import annotations

import scipy.cluster.vq

from tracker.scipy._bridge.fallback import scipy_fallback

__getattr__ = scipy_fallback(scipy.cluster.vq)
