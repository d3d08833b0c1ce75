"""SciPy's own filter designs, linear systems and signals with parameters, on tracked numbers."""

from __future__ import annotations

import functools
from typing import Any

import scipy.signal
from scipy.signal import _filter_design, _ltisys

from tracker.numpy import _math
from tracker.scipy import linalg
from tracker.scipy._bridge.fallback import is_tracked
from tracker.scipy._bridge.scipy_source import Function, Rebinding
from tracker.scipy.linalg.matrix_functions import expm
from tracker.scipy.signal.lfilter import lfilter


class _Systems(Rebinding):
    """Rebinds the classes of linear systems, too: SciPy's functions make objects of them."""

    def of(self, value: Any) -> Any:
        if isinstance(value, type) and value.__module__ == _ltisys.__name__:
            return self.class_(value)
        return super().of(value)

    def accept_systems(self, name: str, run: Function) -> Function:
        """The function, also of SciPy's own systems: in a trace these may hold traced numbers."""

        @functools.wraps(run)
        def call(system: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(system, (scipy.signal.lti, scipy.signal.dlti)):
                made: Any = object.__new__(self.class_(type(system)))
                made.__dict__.update(vars(system))
                system = made
            return run(system, *args, **kwargs)

        return call


def _float(x: Any) -> Any:
    return x if is_tracked(x) else float(x)


_STAND_INS = {"linalg": linalg, "expm": expm, "lfilter": lfilter, "math": _math}
_TYPES: dict[str, Any] = {}
_DESIGNS = Rebinding({**_STAND_INS, "float": _float, "filter_dict": _TYPES})
_TYPES |= {
    name: [_DESIGNS.of(x) if callable(x) else x for x in row]
    for name, row in _filter_design.filter_dict.items()
}
_DESIGNS.drop_in(
    scipy.signal,
    """
    bilinear bilinear_zpk butter cheby1 cheby2 chirp deconvolve ellip firwin freqs freqz_sos
    freqz_zpk gausspulse group_delay iirfilter iirnotch iirpeak lombscargle lp2bp lp2bs lp2hp lp2lp
    normalize sos2tf sweep_poly zpk2sos zpk2tf
    """,
)
_SYSTEMS = _Systems(_STAND_INS)
_SYSTEMS.drop_in(
    scipy.signal,
    "bode cont2discrete dbode dfreqresp dimpulse dlsim dstep freqresp impulse lsim step",
    _SYSTEMS.accept_systems,
)
_SYSTEMS.drop_in(scipy.signal, "ss2tf")
