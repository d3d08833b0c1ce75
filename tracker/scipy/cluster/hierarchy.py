"""`scipy.cluster.hierarchy` on tracked values: its functions refuse them by name."""

from __future__ import annotations

import scipy.cluster.hierarchy

from tracker.scipy._bridge.fallback import passing

__getattr__ = passing(scipy.cluster.hierarchy)
