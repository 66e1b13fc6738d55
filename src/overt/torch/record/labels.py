"""Names for what is looked at: layers and kinds of attention out of module names, tokens for keys and queries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile

from overt.errors import DtypeError, RecordingError, ShapeError
from overt.grid import shown
from overt.torch.record.entries import Recorded
from overt.views.labels import Labelled


def labelled(recording: Iterable[str], tokens: Sequence[str] | None, queries: Sequence[str] | None) -> list[Labelled]:
    """Each attention of a recording, all calls joined, with names where as many were given as it has keys."""
    for name, given in (("tokens", tokens), ("queries", queries)):
        if isinstance(given, str):
            raise DtypeError(f"{name} must be a list of strings, not one string")
        if given is not None and not (isinstance(given, Collection) and all(isinstance(x, str) for x in given)):
            raise DtypeError(f"{name} must be a list of strings, not {shown(given)}")
    names = list(recording)
    parts = []
    for name, (kind, layer) in zip(names, places(names), strict=True):
        seen: Recorded = recording[name]  # type: ignore[index]
        if seen.kept is not None:
            raise RecordingError(
                f'{name}: only statistics were kept, and a view needs cells: record with keep="qk" or keep="disk"'
            )
        T, S = seen.problem.shape.T, seen.problem.shape.S
        keys = next((x for x in (tokens, queries) if x is not None and len(x) == S), None)
        rows = next((x for x in (queries, tokens) if x is not None and len(x) == T), None)
        parts.append(Labelled(seen, keys, rows, name=kind, layer=layer))
    if tokens is not None and not any(part.tokens is not None or part.queries is not None for part in parts):
        sizes = sorted({part.seen.problem.shape.S for part in parts})
        raise ShapeError(f"{len(tokens)} tokens, but the attentions have {', '.join(map(str, sizes))} keys")
    return parts


def places(names: Sequence[str]) -> list[tuple[str, int]]:
    """A kind and a layer for each name: model.layers.3.self_attn is self_attn of layer 3.

    The kind is what names have apart from numbers and from what all begin with; where a name has several numbers,
    layers are counted.
    """
    split = [name.split(".") for name in names]
    kinds = [[part for part in parts if not part.isdigit()] for parts in split]
    # What differs first ends what all begin with; a kind keeps a name at least.
    columns = zip(*(kind[:-1] for kind in kinds), strict=False)
    common = len(list(takewhile(lambda column: len(set(column)) == 1, columns)))
    counted: dict[str, int] = {}
    found = []
    for parts, kind in zip(split, kinds, strict=True):
        numbers = [int(part) for part in parts if part.isdigit()]
        name = ".".join(kind[common:]) or "attention"
        layer = numbers[0] if len(numbers) == 1 else counted.get(name, 0)
        counted[name] = counted.get(name, 0) + 1
        found.append((name, layer))
    return found
