"""What every way out of a view is given: labelled attentions, a title, and the steps if there are any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from overt.attended import Attended
from overt.errors import ArgumentError, DtypeError
from overt.trace import Trace
from overt.views import foreign
from overt.views.labels import Labelled


@runtime_checkable
class Recorded(Protocol):
    """Something with attentions that knows how to label them, such as what ``overt.record`` gives."""

    def labelled(self, tokens: Sequence[str] | None, queries: Sequence[str] | None) -> list[Labelled]:
        """Its attentions, with names for keys and queries where these fit."""
        ...


Shown = Attended | Trace | Labelled | Sequence[Labelled] | Recorded | Any
"""What can be shown: one result, one trace, the labelled attentions of a model, a recording, or given weights."""


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
        if not isinstance(title, str):
            raise DtypeError(f"title must be text, not {type(title).__name__}")
        self.title = title
        self.trace = x if isinstance(x, Trace) else None
        if isinstance(x, Attended | Trace):
            seen = x if isinstance(x, Attended) else Attended(x.problem)
            self.parts: tuple[Labelled, ...] = (Labelled(seen, tokens, queries),)
            return
        found = None
        if isinstance(x, Recorded):
            found = x.labelled(tokens, queries)
        elif not _is_labelled(x):
            found = foreign.labelled(x, tokens, queries)
        if found is not None:
            self.parts = tuple(found)
            return
        parts = (x,) if isinstance(x, Labelled) else x
        if not isinstance(parts, Sequence) or not all(isinstance(part, Labelled) for part in parts):
            raise DtypeError(
                "show takes what overt.attend, overt.trace or overt.record gives, labelled attention, or weights: an "
                "array (…, H, T, S), one for each layer, a model's output, a cache of TransformerLens, the arguments "
                f"of a BertViz view in a dict; not {type(x).__name__}"
            )
        if not parts:
            raise ArgumentError("show got an empty list: give at least one labelled attention")
        if tokens is not None or queries is not None:
            raise ArgumentError("labelled attention has its tokens already: give tokens= to Labelled, not to show")
        self.parts = tuple(parts)


def _is_labelled(x: object) -> bool:
    return isinstance(x, Labelled) or (isinstance(x, Sequence) and any(isinstance(part, Labelled) for part in x))
