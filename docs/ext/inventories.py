"""Inventories for intersphinx, made from lists of names, so that the site builds without a network.

A list has one name a line: `role target uri`, for example

    function numpy.where reference/generated/numpy.where.html

A name that our pages use and that its list lacks is a warning where there is no network.
"""

from __future__ import annotations

import tempfile
import zlib
from pathlib import Path


def write(names: Path) -> Path:
    """An inventory of these names, in Sphinx's format, in a temporary folder."""
    lines = [line.split() for line in names.read_text().splitlines() if line.strip()]
    entries = "".join(f"{target} py:{role} 1 {uri} -\n" for role, target, uri in lines)
    head = f"# Sphinx inventory version 2\n# Project: {names.stem}\n# Version: \n"
    head += "# The remainder of this file is compressed using zlib.\n"
    path = Path(tempfile.mkdtemp(prefix="inventory-")) / f"{names.stem}.inv"
    path.write_bytes(head.encode() + zlib.compress(entries.encode()))
    return path
