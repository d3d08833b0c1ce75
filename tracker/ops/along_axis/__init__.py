"""Ops along one axis: sorts, scans, quantiles, sets, differences, edits."""
