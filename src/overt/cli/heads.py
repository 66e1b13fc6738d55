"""The heads of a recording in a terminal: a line for each attention, a shaded cell for each of its heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from overt.torch.record import table
from overt.views.colors import Scale

if TYPE_CHECKING:
    from overt.torch.record import Measures
    from overt.views.paper import Paper

# What is shown of all heads: its title, which of them a number tells of, and who gives way first where room is scarce.
_SHADED = {"first": ("first", "mean", 1), "entropy": ("entropy", "mean", 0)}
_SHADED |= {"previous": ("previous", "max", 2), "induction": ("induction", "max", 3)}
_TITLES = {kind: title for kind, (title, *_) in _SHADED.items()} | {"sinks": "sinks", "special": "special"}
_ORDER = ("first", "sinks", "entropy", "special", "previous", "induction")
_GAP = "  "


def short(names: Sequence[str]) -> list[str]:
    """Names without the parts that all begin and end with."""
    if len(names) == 1:
        return [name or "(model)" for name in names]
    parts = [name.split(".") for name in names]

    def alike(columns: Sequence[Sequence[str]]) -> int:
        # A part of each name stays.
        return len(list(takewhile(lambda column: len(set(column)) == 1, zip(*columns, strict=False))))

    least = min(map(len, parts))
    before = min(alike(parts), least - 1)
    after = min(alike([part[::-1] for part in parts]), least - 1 - before)
    return [".".join(part[before : len(part) - after]) or "(model)" for part in parts]


def lines(found: Mapping[str, Measures], paper: Paper) -> list[Text]:
    """One line a name: of the shares and the entropy the mean of its heads, of the relations the strongest head."""
    names, several = short(list(found)), list(found.values())
    kinds = [kind for kind in _ORDER if not all(np.isnan(getattr(x, kind)).all() for x in several)]
    shaded = [kind for kind in kinds if kind in _SHADED]
    wide = 2
    while (beyond := max(map(_width, made := _columns(names, several, kinds, shaded, wide, paper))) - paper.width) > 0:
        cut = table.shortened(names, max(map(len, names)) - beyond)
        if wide > 1:
            wide = 1
        elif cut != names:
            names = cut
        elif shaded:
            shaded.remove(min(shaded, key=lambda kind: _SHADED[kind][2]))
        else:
            break
    if shaded:
        legend = paper.legend("each cell a head, from head 0:", Scale.of(1, 1), masked=False)
        made += [
            legend,
            Text("previous, induction: the number of the strongest head; else the mean", "dim"),
        ]
    return made


def _columns(
    names: list[str], several: list[Measures], kinds: list[str], shaded: list[str], wide: int, paper: Paper
) -> list[Text]:
    rows = [Text("name", "bold"), *map(Text, names)]
    _pad(rows)
    for kind in kinds:
        column = [Text(_TITLES[kind], "bold")]
        column += [_cell(getattr(x, kind), kind, wide if kind in shaded else 0, paper) for x in several]
        if kind != kinds[-1]:
            _pad(column, right=kind not in shaded)
        for row, cell in zip(rows, column, strict=True):
            row.append(_GAP).append(cell)
    return rows


def _cell(heads: np.ndarray, kind: str, wide: int, paper: Paper) -> Text:
    if np.isnan(heads).all():
        return Text("–")
    number = np.nanmax(heads) if kind in _SHADED and _SHADED[kind][1] == "max" else np.nanmean(heads)
    said = f"{number:.1f}" if kind == "sinks" else f"{number:.2f}" if kind == "entropy" else f"{number:.0%}"
    if not wide:
        which = f" head {int(np.nanargmax(heads))}" if kind in ("previous", "induction") else ""
        return Text(said + which)
    cell = Text(said.rjust(4) + " ")
    for share in heads:
        cell.append(*(paper.hidden(wide) if np.isnan(share) else paper.cell(float(share), wide)))
    return cell


def _pad(column: list[Text], right: bool = False) -> None:
    width = max(map(_width, column))
    for cell in column:
        (cell.pad_left if right else cell.pad_right)(width - _width(cell))


def _width(text: Text) -> int:
    return cell_len(text.plain)
