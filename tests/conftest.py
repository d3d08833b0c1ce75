"""Hypothesis profiles, and fixtures that fail any test that leaves something behind."""

import os
import threading
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tracker import tape
from tracker.ir import op
from tracker.ops import special  # noqa: F401  (declared late otherwise: in the middle of a test)
from tracker.scipy import signal  # noqa: F401  (as above)
from tracker.scipy import special as _special  # noqa: F401  (as above)

os.environ["TRACKER_CACHE"] = "0"  # tests compile; test_cache.py has folders of its own

_QUIET = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", max_examples=10, derandomize=True, database=None, **_QUIET)
settings.register_profile("dev", max_examples=50, **_QUIET)
settings.register_profile("deep", max_examples=1000, **_QUIET)
settings.load_profile(os.environ.get("TRACKER_HYPOTHESIS", "ci"))


def _state():
    """Everything global that a test could leave changed."""
    return {
        "listeners": tape._listeners,
        "stage": tape.current_stage(),
        "np.errstate": (np.geterr(), np.geterrcall()),
        "np.printoptions": np.get_printoptions(),
        "ops": dict(op.OPS),
        "NumPy table": dict(op.NUMPY),
        "method table": dict(op.METHODS),
        "ufunc table": dict(op.UFUNCS),
        "threads": {t for t in threading.enumerate() if not t.daemon},
        "warning filters": list(warnings.filters),
    }


@pytest.fixture(autouse=True)
def nothing_left_behind():
    before = _state()
    yield
    after = _state()
    changed = [name for name in before if before[name] != after[name]]
    assert not changed, f"the test left these changed: {', '.join(changed)}"
