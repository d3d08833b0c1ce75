"""Fourier transforms, convolutions and polynomials."""
