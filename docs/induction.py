"""Draw docs/induction.png, the picture in the README, from the example's own result (needs matplotlib)."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))
from induction import attend_to_text  # noqa: E402


def main() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    seen, _ = attend_to_text(text)
    picture = seen.map(256, 256, pool="mean")
    figure, axes = plt.subplots(figsize=(6.4, 5.2), layout="constrained")
    shade = axes.imshow(
        np.maximum(picture, 3e-4), norm=LogNorm(3e-4, 2e-2), cmap="magma", extent=(0, len(text), len(text), 0)
    )
    axes.set(xlabel="character looked at (key)", ylabel="character that looks (query)")
    axes.set_title("Where the Apache licence repeats itself")
    figure.colorbar(shade, label="mean weight in each cell of 45 × 45 characters")
    figure.savefig(ROOT / "docs" / "induction.png", dpi=90)


if __name__ == "__main__":
    main()
