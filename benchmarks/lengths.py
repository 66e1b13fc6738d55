"""Does attention help with long sentences?  ``python -m benchmarks.lengths PAIRS MODEL…``

BLEU of each model on the test pairs of a corpus, in groups by the length of the source, and the picture of it,
docs/lengths.png.  A model is a name or a checkpoint, and what follows an = is what the picture calls it.
The question and the picture are those of Bahdanau et al. 2015 (arXiv:1409.0473), figure 2.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from overt.models import load
from overt.training import corpus
from overt.training.tasks import bleu

# Words of the source, from and below.
EDGES = (1, 5, 7, 9, 12, 1000)


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    test = corpus.split(corpus.read([Path(sys.argv[1])]))[2]
    groups = [[pair for pair in test if low <= len(pair[0].split()) < high] for low, high in pairwise(EDGES)]
    names = [f"{low}–{high - 1}" if high < EDGES[-1] else f"{low} and more" for low, high in pairwise(EDGES)]
    print("| words | " + " | ".join(names) + " | all |\n" + "|---" * (len(names) + 2) + "|")
    print("| pairs | " + " | ".join(str(len(group)) for group in groups) + f" | {len(test)} |")
    found = {}
    for said in sys.argv[2:]:
        path, _, name = said.partition("=")
        translator = load(path)
        scores = []
        for group in (*groups, test):
            translations = translator.translate([source for source, _ in group], beam=5)
            scores.append(bleu([one[0].translation for one in translations], group)["bleu"])
        found[name or path] = scores
        print(f"| {name or path} | " + " | ".join(f"{score:.1f}" for score in scores) + " |", flush=True)
    if find_spec("matplotlib") is None:
        print("no picture: matplotlib is missing")
        return
    draw(names, found)


def draw(names: list[str], found: dict[str, list[float]]) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for name, scores in found.items():
        (line,) = axes.plot(names, scores[:-1], marker="o")
        axes.annotate(
            name, (len(names) - 1, scores[-2]), xytext=(8, 0), textcoords="offset points", va="center",
            color=line.get_color(),
        )  # fmt: skip
    axes.set_xlabel("words of the source")
    axes.set_ylabel("BLEU")
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).parents[1] / "docs" / "lengths.png", dpi=150)


if __name__ == "__main__":
    main()
