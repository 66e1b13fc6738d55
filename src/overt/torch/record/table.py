"""A recording as a table to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from overt.torch.record import measures
from overt.torch.record.call import called

if TYPE_CHECKING:
    from overt.torch.record.recording import Recording


def text(rec: Recording, width: int | None = None) -> str:
    """One line a name: way in, heads, T × S, share of the first token, entropy over its bound, largest deviation.

    width: of the window; where the table is wider, a way that all share has a line of its own, and names are cut.
    """
    lines = [("name", "way", "heads", "T × S", "first token", "entropy", "deviation")]
    for name in rec:
        chain, *others = rec._chains[name]
        several = rec.calls(name) if others or not chain.adds_up else [rec[name]]
        shapes = [seen.problem.shape for seen in several]
        sizes = f"{shapes[0].T:,} × {shapes[0].S:,}" + (f" ×{len(several)}" if len(several) > 1 else "")
        off = [seen.deviation for seen in several if seen.deviation is not None]
        first, entropy = (
            float(measures.nanmean(np.concatenate([measure(seen).reshape(-1) for seen in several])))
            for measure in (measures.first, measures.entropy)
        )
        lines.append(
            (
                called(name),
                several[0].way,
                str(shapes[0].H),
                sizes,
                f"{first:.1%}",
                # Where no query sees two keys there is no bound.
                f"{entropy:.2f}" if isfinite(entropy) else "–",
                f"{max(off):.1e}" if off else "unchecked",
            )
        )
    shown = aligned(lines, 2)
    if width and max(map(len, shown)) > width:
        ways = {line[1] for line in lines[1:]}
        alike = len(ways) == 1
        rows = [(line[0], *line[2 if alike else 1 :]) for line in lines]
        room = width - len(aligned(rows, 1)[0]) + max(len(line[0]) for line in lines)
        names = ["name", *shortened([line[0] for line in lines[1:]], room)]
        shown = aligned([(name, *rest) for name, (_, *rest) in zip(names, rows, strict=True)], 1 if alike else 2)
        if alike:
            shown.append(f"way of all: {ways.pop()}")
    without = rec.without
    if without:
        shown.append(f"without attention: {', '.join(without)}")
    if rec.unseen:
        shown.append(f"not seen into: {reasons(rec.unseen)}")
    return "\n".join(shown)


def shortened(names: Sequence[str], room: int) -> list[str]:
    """Names whose words are cut, all alike, until they have room, and no further than they can be told apart."""
    parts, found = [name.split(".") for name in names], list(names)
    for most in range(max(len(word) for name in parts for word in name), 2, -1):
        cut = [".".join(word[:most] for word in name) for name in parts]
        if max(map(len, found)) <= room or len(set(cut)) < len(set(names)):
            break
        found = cut
    return found


def reasons(found: Mapping[str, str]) -> str:
    """Names by their reasons."""
    names: dict[str, list[str]] = {}
    for name, why in found.items():
        names.setdefault(why, []).append(called(name))
    return "; ".join(f"{', '.join(same)} ({why})" for why, same in names.items())


def aligned(lines: Sequence[Sequence[str]], names: int) -> list[str]:
    """Columns, the first ones to the left."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return [
        "  ".join(
            cell.ljust(n) if i < names else cell.rjust(n) for i, (cell, n) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
