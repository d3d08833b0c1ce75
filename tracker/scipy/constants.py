"""`scipy.constants`: numbers, and conversions of units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import scipy.constants

from tracker.scipy._bridge.dropin import DROP_INS
from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy._bridge.scipy_source import Rebinding

if TYPE_CHECKING:
    from scipy.constants import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(scipy.constants)
Rebinding().drop_in(scipy.constants, "convert_temperature lambda2nu nu2lambda")
globals().update(DROP_INS[scipy.constants])
