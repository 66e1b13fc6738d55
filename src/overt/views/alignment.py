"""Where each token of a translation looked, as a table of shades in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from overt.views.colors import Scale
from overt.views.labels import readable
from overt.views.paper import GREYS, Paper

# On the token that was looked at most, wherever there are colours; so no row is empty.
_MOST = "•"


def table(source: Sequence[str], target: Sequence[str], alignment: np.ndarray, paper: Paper) -> Text:
    """An alignment (T, S), source across and target down; what is too wide for the window goes on below."""
    heads, sides = [_head(token) for token in source], [_head(token) for token in target]
    # What takes no room of its own, as the colour of the skin before it, still has a cell.
    widths = [max(1, cell_len(head)) for head in heads]
    heads = [head + " " * (width - cell_len(head)) for head, width in zip(heads, widths, strict=True)]
    left = max(map(cell_len, sides), default=0)
    text, start = Text(), 0
    while start < len(heads):
        end, room = start, paper.width - left
        while end < len(heads) and (end == start or widths[end] + 2 <= room):
            room -= widths[end] + 2
            end += 1
        text.append("\n" * (2 if start else 0) + " " * left + "".join(f"  {head}" for head in heads[start:end]))
        for side, weights in zip(sides, alignment, strict=True):
            line = Text(side + " " * (left - cell_len(side)))
            for i in range(start, end):
                line.append("  ").append(*_cell(weights[i], widths[i], 0 < weights[i] == max(weights), paper))
            if not paper.coloured:
                line.rstrip()
            text.append("\n").append(line)
        start = end
    return text


def legend(paper: Paper) -> Text:
    """What the shades mean."""
    if paper.coloured:
        line = paper.legend("share of what a word looked at", Scale.of(1, 1), masked=False)
        return line.append(f"   {_MOST} its most", "dim")
    steps = "  ".join(f"{shade} {i / len(GREYS):.1f}" for i, shade in enumerate(GREYS) if i)
    return Text(f"share of what a word looked at, from  {steps}", "dim")


def _cell(weight: float, width: int, most: bool, paper: Paper) -> tuple[str, Style | str]:
    if paper.coloured:
        return paper.cell(weight, width, text=_MOST if most else " ")
    # A word that looked everywhere a little looked somewhere most: no row is empty.
    return GREYS[min(len(GREYS) - 1, max(int(most), int(weight * len(GREYS))))] * width, ""


def _head(token: str) -> str:
    return readable(token.removeprefix("▁")) if token != "▁" else "␣"
