"""Which NumPy and SciPy are here, where their newer versions do something else."""

from __future__ import annotations

from types import ModuleType


def version_of(package: ModuleType) -> tuple[int, int]:
    """Its version, without what only mends.

    >>> version_of(np) >= (2, 0)
    True
    """
    major, minor, *_ = package.__version__.split(".")
    return int(major), int(minor)
