"""`scipy.fft` on tracked values: NumPy's transforms with SciPy's keywords, and cosine and sine
transforms (`dct.py`). Names that are not defined here are SciPy's own.

`workers`, `overwrite_x` and `plan` do not change results and are ignored. As in SciPy, the
transforms of float32 are complex64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.fft

from tracker.scipy._bridge.dropin import DROP_INS, drop_in
from tracker.scipy._bridge.fallback import as_array, scipy_fallback
from tracker.scipy._bridge.scipy_source import Rebinding
from tracker.scipy.fft import dct as _dct  # noqa: F401

if TYPE_CHECKING:
    from scipy.fft import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(scipy.fft)


def _define_one_axis(name: str) -> None:
    theirs = getattr(np.fft, name)

    @drop_in(scipy.fft, name)
    def transform(
        x: Any,
        n: Any = None,
        axis: int = -1,
        norm: Any = None,
        overwrite_x: bool = False,
        workers: Any = None,
        *,
        plan: Any = None,
    ) -> Any:
        return theirs(as_array(x), n, axis, norm)


def _define_n_axis(name: str, axes: Any, conjugate_of: str | None = None) -> None:
    """The transform of this name; with `conjugate_of`, as the reversed conjugate of that one."""
    theirs = getattr(np.fft, conjugate_of or name)

    @drop_in(scipy.fft, name)
    def transform(
        x: Any,
        s: Any = None,
        axes: Any = axes,
        norm: Any = None,
        overwrite_x: bool = False,
        workers: Any = None,
        *,
        plan: Any = None,
    ) -> Any:
        x = as_array(x)
        if s is not None and axes is None:  # the last axes, one for each length
            axes = tuple(range(np.ndim(x) - len(s), np.ndim(x)))
        if conjugate_of is None:
            return theirs(x, s, axes, norm)
        norm = _OPPOSITE[norm]
        if name.startswith("i"):
            return np.conjugate(theirs(x, s, axes, norm))
        return theirs(np.conjugate(x), s, axes, norm)


_OPPOSITE = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}
for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _define_one_axis(_name)
for _suffix, _axes in (("2", (-2, -1)), ("n", None)):
    for _name in ("fft", "ifft", "rfft", "irfft"):
        _define_n_axis(_name + _suffix, _axes)
    _define_n_axis(f"hfft{_suffix}", _axes, "irfftn")
    _define_n_axis(f"ihfft{_suffix}", _axes, "rfftn")


Rebinding().drop_in(scipy.fft, "fftfreq fftshift ifftshift rfftfreq")
globals().update(DROP_INS[scipy.fft])
