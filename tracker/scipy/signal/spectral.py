"""SciPy's own filters, spectra and resampling, with this package's transforms and convolutions.
Windows, and filters that are designed from plain numbers, are plain."""

from __future__ import annotations

import functools
from typing import Any

import scipy.signal

from tracker.scipy import fft, linalg  # noqa: F401 (whose functions are used)
from tracker.scipy._bridge.fallback import is_tracked, to_plain
from tracker.scipy._bridge.scipy_source import Rebinding


def _short_time_transform(win: Any, *args: Any, **kwargs: Any) -> Any:
    window = to_plain(win, "scipy.signal.csd in its window")
    return _transform_class()(window, *args, **kwargs)


@functools.cache
def _transform_class() -> Any:
    theirs: Any = _REBINDING.class_(scipy.signal.ShortTimeFFT)

    class ShortTimeFFT(theirs):  # type: ignore[misc]
        def scale_to(self: Any, scaling: str) -> None:
            """As SciPy's method, which locks the scaled window: with a tracked sampling frequency
            that is a tracked array."""
            factor = {"psd": "fac_psd", "magnitude": "fac_magnitude"}.get(scaling)
            if factor is None or self._dual_win is not None:
                super().scale_to(scaling)
            elif self._scaling != scaling:
                self._win = self._win * getattr(self, factor)
                self._fac_mag = self._fac_psd = None
                self._scaling = scaling

    return ShortTimeFFT


_DESIGNS = ("get_window", "firwin", "cheby1")
_REBINDING = Rebinding(
    {
        "sp_fft": fft,
        "fft_lib": fft,
        "ShortTimeFFT": _short_time_transform,
        "float": lambda x: x * 1.0 if is_tracked(x) else float(x),
        **{name: getattr(scipy.signal, name) for name in _DESIGNS},
    }
)
_REBINDING.drop_in(
    scipy.signal,
    """
    coherence csd decimate filtfilt freqz hilbert istft periodogram resample resample_poly
    sosfilt_zi sosfiltfilt spectrogram stft welch wiener
    """,
)
