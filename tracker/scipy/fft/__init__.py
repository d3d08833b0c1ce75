"""`scipy.fft` on tracked values: NumPy's transforms with SciPy's keywords, and cosine and sine
transforms (`dct.py`). What is not defined here is SciPy's own.

`workers`, `overwrite_x` and `plan` make no difference to a result and are ignored. As SciPy's, the
transforms of float32 are complex64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft

from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, passing
from tracker.scipy.fft.dct import dct as dct
from tracker.scipy.fft.dct import dctn as dctn
from tracker.scipy.fft.dct import dst as dst
from tracker.scipy.fft.dct import dstn as dstn
from tracker.scipy.fft.dct import idct as idct
from tracker.scipy.fft.dct import idctn as idctn
from tracker.scipy.fft.dct import idst as idst
from tracker.scipy.fft.dct import idstn as idstn

__getattr__ = passing(scipy.fft)


def _along_one(name: str) -> Callable[..., Any]:
    theirs = getattr(np.fft, name)

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

    transform.__name__ = name
    transform.__doc__ = f"As np.fft.{name}."
    return drop_in(scipy.fft)(transform)


def _along_several(name: str, axes: Any, inside: str | None = None) -> Callable[..., Any]:
    """`inside`: the transform of which this one is the conjugate, turned round."""
    theirs = getattr(np.fft, inside or name)

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
        if s is not None and axes is None:  # the last ones, as many as there are lengths
            axes = tuple(range(np.ndim(x) - len(s), np.ndim(x)))
        if inside is None:
            return theirs(x, s, axes, norm)
        norm = _OPPOSITE[norm]
        if name.startswith("i"):
            return np.conjugate(theirs(x, s, axes, norm))
        return theirs(np.conjugate(x), s, axes, norm)

    transform.__name__ = name
    transform.__doc__ = f"As scipy.fft.{name}."
    return drop_in(scipy.fft)(transform)


_OPPOSITE = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}
fft = _along_one("fft")
ifft = _along_one("ifft")
rfft = _along_one("rfft")
irfft = _along_one("irfft")
hfft = _along_one("hfft")
ihfft = _along_one("ihfft")
fft2 = _along_several("fft2", (-2, -1))
ifft2 = _along_several("ifft2", (-2, -1))
rfft2 = _along_several("rfft2", (-2, -1))
irfft2 = _along_several("irfft2", (-2, -1))
hfft2 = _along_several("hfft2", (-2, -1), "irfftn")
ihfft2 = _along_several("ihfft2", (-2, -1), "rfftn")
fftn = _along_several("fftn", None)
ifftn = _along_several("ifftn", None)
rfftn = _along_several("rfftn", None)
irfftn = _along_several("irfftn", None)
hfftn = _along_several("hfftn", None, "irfftn")
ihfftn = _along_several("ihfftn", None, "rfftn")


@drop_in(scipy.fft)
def fftshift(x: Any, axes: Any = None) -> Any:
    return np.fft.fftshift(as_array(x), axes)


@drop_in(scipy.fft)
def ifftshift(x: Any, axes: Any = None) -> Any:
    return np.fft.ifftshift(as_array(x), axes)
