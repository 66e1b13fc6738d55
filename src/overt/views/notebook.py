"""The page inside a notebook."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from overt.errors import ArgumentError, OvertError
from overt.views.labels import readable
from overt.views.page import pieces
from overt.views.subject import Subject
from overt.views.tiles import Tiles

# Numbers of q and k that a notebook should carry; it is saved with them.
_NUMBERS = 1 << 20


def html(view: Subject) -> str:
    """The page in a frame of its own that may run its script and nothing else; a hint where it would be too large."""
    numbers = sum(part.problem.q.size + part.problem.k.size for part in view.parts)
    if numbers > _NUMBERS:
        return (
            f"<p>{escape(repr(view))}</p><p>{numbers:,} numbers of q and k are too many for a notebook: "
            "look at them here with <code>.widget()</code>, "
            "or write a file with <code>.page(path)</code> and open that.</p>"
        )
    page = "".join(pieces(view))
    return (
        f'<iframe sandbox="allow-scripts" title="{escape(readable(view.title))}" width="100%" height="720" '
        f'style="border: 0" srcdoc="{escape(page)}"></iframe>'
    )


def widget(view: Subject) -> Any:
    """The page without its numbers, as a widget that asks Python for what is looked at."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise ArgumentError("the widget needs anywidget: pip install 'overt[jupyter]'") from None

    class Widget(anywidget.AnyWidget):
        _esm = (files("overt.views.page") / "widget.js").read_text("utf-8")
        page = traitlets.Unicode().tag(sync=True)
        title = traitlets.Unicode().tag(sync=True)

    tiles = Tiles(view)
    made = Widget(page="".join(pieces(view, remote=True)), title=readable(view.title))
    made.on_msg(lambda _, message, __: made.send(*reply(tiles, message)))
    return made


def reply(tiles: Tiles, message: Any) -> tuple[dict[str, Any], list[memoryview]]:
    """What is sent back for a message: its id and the dtypes of the arrays, which follow as bytes, or what is wrong."""
    name = message.get("id") if isinstance(message, dict) else None
    try:
        arrays = tiles.answer(message)
    except (OvertError, MemoryError) as error:
        return {"id": name, "error": str(error) or "there is not enough memory for that"}, []
    little = [np.ascontiguousarray(x, x.dtype.newbyteorder("<")) for x in arrays]
    return {"id": name, "dtypes": [x.dtype.name for x in arrays]}, [x.data.cast("B") for x in little]
