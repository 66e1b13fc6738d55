"""A recording as a table to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from overt.torch.record import measures
from overt.torch.record.measures import Measures

if TYPE_CHECKING:
    from overt.torch.record.recording import Recording


def text(rec: Recording) -> str:
    """One line a name: way in, heads, T × S, share of the first token, entropy over its bound, largest deviation."""
    lines = [("name", "way", "heads", "T × S", "first token", "entropy", "deviation")]
    for name in rec:
        several = [rec[name]] if len(rec._chains[name]) == 1 else rec.calls(name)
        shapes = [seen.problem.shape for seen in several]
        sizes = f"{shapes[0].T:,} × {shapes[0].S:,}" + (f" ×{len(several)}" if len(several) > 1 else "")
        off = [seen.deviation for seen in several if seen.deviation is not None]
        first, entropy = (
            np.nanmean(np.concatenate([measure(seen).reshape(-1) for seen in several]))
            for measure in (measures.first, measures.entropy)
        )
        lines.append(
            (
                name or "(model)",
                several[0].way,
                str(shapes[0].H),
                sizes,
                f"{first:.1%}",
                f"{entropy:.2f}",
                f"{max(off):.1e}" if off else "unchecked",
            )
        )
    shown = aligned(lines, 2)
    without = rec.without
    if without:
        shown.append(f"without attention: {', '.join(without)}")
    if rec.unseen:
        shown.append(f"not seen into: {reasons(rec.unseen)}")
    return "\n".join(shown)


def reasons(found: Mapping[str, str]) -> str:
    """Names, each with its reason."""
    return "; ".join(f"{name or '(model)'} ({why})" for name, why in found.items())


def heads(found: Mapping[str, Measures]) -> str:
    """One line a name: the means of its heads, and of the previous token and induction the strongest head."""
    lines = [("name", "first token", "sinks", "entropy", "special", "previous token", "induction")]
    for name, measured in found.items():
        means = (measured.first, measured.sinks, measured.entropy, measured.special)
        first, sinks, entropy, special = (_mean(x) for x in means)
        lines.append(
            (
                name or "(model)",
                f"{first:.1%}",
                f"{sinks:.1f}",
                f"{entropy:.2f}",
                "–" if np.isnan(special) else f"{special:.1%}",
                _strongest(measured.previous),
                _strongest(measured.induction),
            )
        )
    return "\n".join(aligned(lines, 1))


def aligned(lines: Sequence[Sequence[str]], names: int) -> list[str]:
    """Columns, the first ones to the left."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return [
        "  ".join(
            cell.ljust(n) if i < names else cell.rjust(n) for i, (cell, n) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _strongest(x: np.ndarray) -> str:
    if np.isnan(x).all():
        return "–"
    head = int(np.nanargmax(x))
    return f"{x[head]:.1%} in head {head}"


def _mean(x: np.ndarray) -> float:
    return float(np.nan if np.isnan(x).all() else np.nanmean(x))
