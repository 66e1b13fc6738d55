"""One object for everything that can be looked at, and the ways to look at it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overt.errors import ArgumentError
from overt.views.subject import Shown, Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class View(Subject):
    """Something to look at: ``str`` for a terminal, ``figure()``, ``page(path)``, ``save(path)``, ``csv(path)``.

    In a notebook its value is the page itself.  ``parts`` are the labelled attentions, ``trace`` the steps, if it has.
    """

    def __repr__(self) -> str:
        shapes = ", ".join(str(part.seen.weights.shape) for part in self.parts[:3])
        more = f" and {len(self.parts) - 3} more" if len(self.parts) > 3 else ""
        return f"View({self.title!r}, weights {shapes}{more}): .figure(), .page(path), .save(path), .csv(path)"

    def __str__(self) -> str:
        from overt.views import terminal

        return terminal.text(self)

    def only(self, *, layer: int | None = None, name: str | None = None) -> View:
        """The same without other layers, or without attentions of other names."""
        chosen = [part for part in self.parts if layer in (None, part.layer) and name in (None, part.name)]
        if not chosen:
            layers, names = (sorted({getattr(part, what) for part in self.parts}) for what in ("layer", "name"))
            raise ArgumentError(f"nothing is left: the layers are {layers}, the names {names}")
        view = View(chosen, title=self.title)
        view.trace = self.trace
        return view

    def beside(self, *others: View) -> View:
        """One view with this and others, to be compared: two texts, or two models.  The page opens on ``Compare``.

        Each attention says by ``source`` which of them it is of: the title of its view, with a number where several
        have the same.
        """
        views = (self, *others)
        titles = [view.title for view in views]
        titles = [f"{title} {i}" if titles.count(title) > 1 else title for i, title in enumerate(titles, 1)]
        parts = [replace(part, source=title) for view, title in zip(views, titles, strict=True) for part in view.parts]
        return View(parts, title=" | ".join(view.title for view in views))

    def print(self, *, head: int | None = None, row: int = 0, query: int | None = None, log: bool = False) -> None:
        """Print to the terminal: one query head or all of them, of one batch row; all queries or one.

        log: shades by decades, to see faint weights, where they are linear from 0 to 1 otherwise.
        """
        from overt.views import terminal

        terminal.show(self, head=head, row=row, query=query, log=log)

    def figure(
        self, kind: str = "map", *, head: int | None = None, row: int = 0, part: int = 0, log: bool = False
    ) -> Figure:
        """A matplotlib figure (extra ``plot``): "map", "heads", "alignment", "entropy", "received" or "variance".

        "alignment" is of the last cross-attention, such as that of a translation, whatever ``part`` is.
        log: shades by decades, as in ``print``.
        """
        from overt.views import figure

        return figure.draw(self, kind, head=head, row=row, part=part, log=log)

    def page(
        self,
        path: str | Path,
        *,
        precision: str | None = None,
        report: Callable[[int, int], None] | None = None,
    ) -> Path:
        """Write one HTML file that needs nothing else and recomputes any cell exactly from q, k and lse.

        precision: "float16", "float32" or "float64" for the stored q and k, by default what they have as far as the
        file stays small.  The cells are exact for the numbers stored.
        report: told how many cells of the overviews are done, and of how many, every second or so.
        """
        from overt.views import page

        return page.write(self, path, precision=precision, report=report)

    def widget(self) -> Any:
        """The same page for a notebook (extra ``jupyter``); its cells are computed in Python when they are looked at.

        Nothing but names is sent beforehand, so any length that ``overt.attend`` has managed can be looked at.
        """
        from overt.views import notebook

        return notebook.widget(self)

    def save(self, path: str | Path) -> Path:
        """Write an .npz of q, k, v, all options, lse, output, received, entropy and tokens, for ``overt show``."""
        from overt.views import files

        return files.save(self, path)

    def csv(self, path: str | Path, k: int = 5) -> Path:
        """Write the k heaviest keys of every query, one pair a line."""
        from overt.views import files

        return files.csv(self, path, k)

    def as_dict(self, k: int = 5) -> dict[str, Any]:
        """Shapes, entropy, received attention and the k heaviest keys of every query, as JSON knows them."""
        from overt.views import files

        return files.as_dict(self, k)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        from overt.views import notebook

        return notebook.bundle(self)


def show(
    x: Shown,
    *,
    tokens: Sequence[str] | None = None,
    queries: Sequence[str] | None = None,
    title: str = "attention",
    head: int | None = None,
    row: int = 0,
    query: int | None = None,
    log: bool = False,
) -> View:
    """Print attention or its steps to the terminal, and give the ``View`` that can also draw, write and save it.

    x: what ``overt.attend`` or ``overt.trace`` returned, what ``overt.record`` recorded, labelled attention of a model
    (``overt.views.labels.Labelled``), or weights that others computed: an array (…, H, T, S), one for each layer as
    ``output_attentions=True`` returns them, a cache of TransformerLens, the arguments of a BertViz view in a dict.
    tokens: names of the S keys, and of the T queries too where they stand at the last T of them.
    queries: names of the T queries, where they are others.
    head, row, query: what to print, by default all heads and queries of the first batch row.
    log: shades by decades, to see faint weights.

    In a notebook nothing is printed: the returned view shows itself.
    """
    view = View(x, tokens=tokens, queries=queries, title=title)
    if "ipykernel" not in sys.modules:
        view.print(head=head, row=row, query=query, log=log)
    return view
