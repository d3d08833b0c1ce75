"""Fourier transforms, convolutions and polynomials: `np.fft`, `np.convolve`, `np.polyval` and
relatives."""
