"""What every way out of a view is given: labelled attentions, a title, and the steps if there are any."""

from __future__ import annotations

from collections.abc import Sequence

from overt.attended import Attended
from overt.errors import ArgumentError, DtypeError
from overt.trace import Trace
from overt.views.labels import Labelled

Shown = Attended | Trace | Labelled | Sequence[Labelled]
"""What can be shown: one result, one trace, or the labelled attentions of a model."""


class Subject:
    """What is looked at: ``title``, ``parts``, the labelled attentions, and ``trace``, their steps or None."""

    def __init__(
        self,
        x: Shown,
        *,
        tokens: Sequence[str] | None = None,
        queries: Sequence[str] | None = None,
        title: str = "attention",
    ) -> None:
        self.title = title
        self.trace = x if isinstance(x, Trace) else None
        if isinstance(x, Attended | Trace):
            seen = x if isinstance(x, Attended) else Attended(x.problem)
            self.parts: tuple[Labelled, ...] = (Labelled(seen, tokens, queries),)
            return
        if tokens is not None or queries is not None:
            raise ArgumentError("labelled attention has its tokens already: give tokens= to Labelled, not to show")
        parts = (x,) if isinstance(x, Labelled) else x
        if not isinstance(parts, Sequence) or not all(isinstance(part, Labelled) for part in parts):
            raise DtypeError(
                f"show takes what overt.attend or overt.trace returns, or labelled attention, not {type(x).__name__}"
            )
        if not parts:
            raise ArgumentError("show got an empty list: give at least one labelled attention")
        self.parts = tuple(parts)
