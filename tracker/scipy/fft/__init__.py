"""`scipy.fft` on tracked values: NumPy's transforms with SciPy's keywords, and cosine and sine
transforms (`dct.py`). Names that are not defined here are SciPy's own.

`workers`, `overwrite_x` and `plan` do not change results and are ignored. As in SciPy, the
transforms of float32 are complex64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft

from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, scipy_fallback
from tracker.scipy.fft.dct import dct as dct
from tracker.scipy.fft.dct import dctn as dctn
from tracker.scipy.fft.dct import dst as dst
from tracker.scipy.fft.dct import dstn as dstn
from tracker.scipy.fft.dct import idct as idct
from tracker.scipy.fft.dct import idctn as idctn
from tracker.scipy.fft.dct import idst as idst
from tracker.scipy.fft.dct import idstn as idstn

__getattr__ = scipy_fallback(scipy.fft)


def _one_axis_transform(name: str) -> Callable[..., Any]:
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

    return transform


def _n_axis_transform(name: str, axes: Any, conjugate_of: str | None = None) -> Callable[..., Any]:
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

    return transform


_OPPOSITE = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}
fft = _one_axis_transform("fft")
ifft = _one_axis_transform("ifft")
rfft = _one_axis_transform("rfft")
irfft = _one_axis_transform("irfft")
hfft = _one_axis_transform("hfft")
ihfft = _one_axis_transform("ihfft")
fft2 = _n_axis_transform("fft2", (-2, -1))
ifft2 = _n_axis_transform("ifft2", (-2, -1))
rfft2 = _n_axis_transform("rfft2", (-2, -1))
irfft2 = _n_axis_transform("irfft2", (-2, -1))
hfft2 = _n_axis_transform("hfft2", (-2, -1), "irfftn")
ihfft2 = _n_axis_transform("ihfft2", (-2, -1), "rfftn")
fftn = _n_axis_transform("fftn", None)
ifftn = _n_axis_transform("ifftn", None)
rfftn = _n_axis_transform("rfftn", None)
irfftn = _n_axis_transform("irfftn", None)
hfftn = _n_axis_transform("hfftn", None, "irfftn")
ihfftn = _n_axis_transform("ihfftn", None, "rfftn")


@drop_in(scipy.fft)
def fftshift(x: Any, axes: Any = None) -> Any:
    return np.fft.fftshift(as_array(x), axes)


@drop_in(scipy.fft)
def ifftshift(x: Any, axes: Any = None) -> Any:
    return np.fft.ifftshift(as_array(x), axes)
