"""The page inside a notebook."""

from __future__ import annotations

import warnings
from base64 import b64encode
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from io import BytesIO
from math import prod
from typing import Any

import numpy as np

from overt.errors import ArgumentError, OvertError
from overt.views.labels import readable
from overt.views.page import pieces
from overt.views.subject import Subject
from overt.views.tiles import Tiles

# Cells of which a picture takes less than a second.
_DRAWN = 1 << 26
# Numbers of q and k that a notebook should carry; it is saved with them.
_NUMBERS = 1 << 20


def bundle(view: Subject) -> dict[str, Any]:
    """What a notebook keeps of a view: the page in a frame of its own that may run its script and nothing else.

    A hint where that would be too large.  Behind the frame, and beside it for what shows no HTML, is a picture: where a
    notebook was reopened and is not trusted, frames are taken out.
    """
    numbers = sum(part.problem.q.size + part.problem.k.size for part in view.parts)
    if numbers > _NUMBERS:
        return {
            "text/html": f"<p>{escape(repr(view))}</p><p>{numbers:,} numbers of q and k are too many for a notebook: "
            "look at them here with <code>.widget()</code>, "
            "or write a file with <code>.page(path)</code> and open that.</p>"
        }
    title = escape(readable(view.title))
    frame = (
        f'<iframe sandbox="allow-scripts" title="{title}" width="100%" height="720" '
        f'style="border: 0; grid-area: 1 / 1" srcdoc="{escape("".join(pieces(view)))}"></iframe>'
    )
    drawn = picture(view)
    if drawn is None:
        return {"text/html": frame}
    png = b64encode(drawn).decode()
    image = f'<img style="grid-area: 1 / 1; max-width: 100%" alt="{title}" src="data:image/png;base64,{png}">'
    return {"text/html": f'<div style="display: grid">{image}{frame}</div>', "image/png": png}


def picture(view: Subject) -> bytes | None:
    """A .png of what the page opens on, where matplotlib is installed and the matrix is no large one."""
    if find_spec("matplotlib") is None:
        return None
    from overt.views import figure

    crosses = [part for part in view.parts if part.name == "cross"]
    shape = (crosses[-1] if crosses else view.parts[0]).problem.shape
    if prod(shape.full) > _DRAWN:
        return None
    with warnings.catch_warnings():
        # Letters that no font has are named where a figure is asked for.
        warnings.simplefilter("ignore")
        made = figure.draw(
            view, "alignment" if crosses else "map", head=None if crosses else 0, row=0, part=0, log=False
        )
        with BytesIO() as file:
            made.savefig(file, format="png", dpi=80)
            return file.getvalue()


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
        # What is seen until Python answers: in a notebook that was reopened, that is all.
        picture = traitlets.Bytes().tag(sync=True)

        def _repr_mimebundle_(self, **options: Any) -> Any:
            bundle = super()._repr_mimebundle_(**options)
            if bundle and self.picture:
                data, *more = bundle if isinstance(bundle, tuple) else (bundle,)
                data = {**data, "image/png": b64encode(self.picture).decode()}
                return (data, *more) if more else data
            return bundle

    tiles = Tiles(view)
    made = Widget(page="".join(pieces(view, remote=True)), title=readable(view.title), picture=picture(view) or b"")
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
