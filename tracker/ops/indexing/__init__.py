"""Ops that read and write by index: views, slices, gathers, scatters, in-place writes."""
