"""Hooks around forks, on systems that fork."""

from __future__ import annotations

import os
from collections.abc import Callable


def register_at_fork(**hooks: Callable[[], object]) -> None:
    """`os.register_at_fork(**hooks)`, where the system has forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**hooks)
