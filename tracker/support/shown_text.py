"""Text that prompts and notebooks show line by line, not as the literal of a string."""

from __future__ import annotations

import html


class ShownText(str):
    """A string whose `repr` is the text itself.

    >>> ShownText("two\\nlines")
    two
    lines
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"
