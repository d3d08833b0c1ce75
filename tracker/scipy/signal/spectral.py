"""SciPy's own filters, spectra and resampling, with this package's transforms and convolutions.
Windows, and filters that are designed from plain numbers, are plain."""

from __future__ import annotations

from typing import Any

import scipy.signal

from tracker.scipy import fft, linalg  # noqa: F401 (whose functions are used)
from tracker.scipy._bridge.fallback import to_plain
from tracker.scipy._bridge.scipy_source import Rebinding


def _short_time_transform(win: Any, *args: Any, **kwargs: Any) -> Any:
    window = to_plain(win, "scipy.signal.csd in its window")
    return _REBINDING.class_(scipy.signal.ShortTimeFFT)(window, *args, **kwargs)


_DESIGNS = ("get_window", "firwin", "cheby1")
_REBINDING = Rebinding(
    {
        "sp_fft": fft,
        "fft_lib": fft,
        "ShortTimeFFT": _short_time_transform,
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
