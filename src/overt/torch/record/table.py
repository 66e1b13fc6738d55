"""A recording as a table to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overt.torch.record import measures

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
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    shown = [
        "  ".join(
            cell.ljust(n) if i < 2 else cell.rjust(n) for i, (cell, n) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    without = rec.without
    if without:
        shown.append(f"without attention: {', '.join(without)}")
    return "\n".join(line.rstrip() for line in shown)
