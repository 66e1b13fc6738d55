"""The page inside a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from overt.views.labels import readable
from overt.views.page import pieces

if TYPE_CHECKING:
    from overt.views.view import View

# Numbers of q and k that a notebook should carry; it is saved with them.
_NUMBERS = 1 << 20


def html(view: View) -> str:
    """The page in a frame of its own that may run its script and nothing else; a hint where it would be too large."""
    numbers = sum(part.problem.q.size + part.problem.k.size for part in view.parts)
    if numbers > _NUMBERS:
        return (
            f"<p>{escape(repr(view))}</p><p>{numbers:,} numbers of q and k are too many for a notebook: "
            "write a file with <code>.page(path)</code> and open that.</p>"
        )
    page = "".join(pieces(view))
    return (
        f'<iframe sandbox="allow-scripts" title="{escape(readable(view.title))}" width="100%" height="720" '
        f'style="border: 0" srcdoc="{escape(page)}"></iframe>'
    )
