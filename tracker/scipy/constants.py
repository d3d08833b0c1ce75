"""`scipy.constants`: numbers, and functions that refuse tracked values by name."""

from __future__ import annotations

import scipy.constants

from tracker.scipy._bridge.fallback import scipy_fallback

__getattr__ = scipy_fallback(scipy.constants)
