"""How do time and memory grow with length?  ``python -m benchmarks.memory`` prints them and draws docs/growth.png.

Each point runs in a process of its own: H = 1, D = 64, float32, two threads, growth of the peak resident set
beyond the inputs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

LENGTHS = (128, 512, 2048, 8192, 32_768, 131_072)
CALLS = {
    "overt": ("import overt", "overt.attention(q, k, v)"),
    "overt, with received, entropy and top(8)": (
        "import overt",
        "s = overt.attend(q, k, v); s.received(); s.entropy(); s.top(8)",
    ),
    "torch": (
        "import torch; torch.set_num_threads(2)",
        "torch.nn.functional.scaled_dot_product_attention(*(torch.from_numpy(x[None]) for x in (q, k, v)))",
    ),
    "NumPy, all weights": (
        "def softmax(s): e = np.exp(s - s.max(-1, keepdims=True)); return e / e.sum(-1, keepdims=True)",
        "softmax(q @ k.mT / 8) @ v",
    ),
}
# The whole matrix is left at a length where it takes 4 GiB.
WHOLE_UNTIL = 8192

MEASURE = """
import json, resource, time
import numpy as np
{setup}
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((1, 64, 64), np.float32) for _ in range(3))
{call}
q, k, v = (rng.standard_normal((1, {T}, 64), np.float32) for _ in range(3))
before, start = peak(), time.perf_counter()
{call}
print(json.dumps([time.perf_counter() - start, peak() - before]))
"""


def measure(name: str, T: int) -> tuple[float, float]:
    """Seconds, and MiB of growth."""
    setup, call = CALLS[name]
    code = MEASURE.format(setup=setup, call=call, T=T)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, mebibytes = json.loads(done.stdout)
    return seconds, mebibytes


def main() -> None:
    found: dict[str, list[tuple[int, float, float]]] = {}
    print("| T = S | " + " | ".join(CALLS) + " |\n" + "|---" * (len(CALLS) + 1) + "|")
    for T in LENGTHS:
        cells = []
        for name in CALLS:
            if (name == "torch" and find_spec("torch") is None) or ("all weights" in name and T > WHOLE_UNTIL):
                cells.append("")
                continue
            seconds, mebibytes = measure(name, T)
            found.setdefault(name, []).append((T, seconds, mebibytes))
            cells.append(f"{seconds:.3g} s, {mebibytes:.0f} MiB")
        print(f"| {T:,} | " + " | ".join(cells) + " |", flush=True)
    if find_spec("matplotlib"):
        draw(found, Path(__file__).parents[1] / "docs" / "growth.png")


def draw(found: dict[str, list[tuple[int, float, float]]], path: Path) -> None:
    """Time and memory over length, both logarithmic."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name, points in found.items():
        lengths, seconds, mebibytes = zip(*points, strict=True)
        panels[0].loglog(lengths, seconds, marker="o", label=name)
        panels[1].loglog(lengths, [max(m, 0.1) for m in mebibytes], marker="o", label=name)
    for axes, label in zip(panels, ("seconds", "MiB beyond the inputs"), strict=True):
        axes.set(xlabel="T = S", ylabel=label)
        axes.set_xticks(LENGTHS, [f"{T:,}" for T in LENGTHS], fontsize=8)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
