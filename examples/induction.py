"""Predict each next character of a text by attention alone: an induction head made by hand, without training.

Every query is the last few characters, every key the characters before a position, every value the character that
stood there.  Attention then finds where the text has said the same before, and copies what came next.

Run it on any text:  python examples/induction.py [FILE]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import overt

REMEMBERED = 12
WIDTH_OF_CODE = 16
SHOWN = 8


def encode(text: str, codes: dict[str, np.ndarray]) -> np.ndarray:
    """(T, D): the characters up to each position, the nearest ones the loudest."""
    letters = np.stack([codes[c] for c in text])
    blank = np.zeros((REMEMBERED, WIDTH_OF_CODE))
    padded = np.concatenate([blank, letters])
    parts = [0.85**back * padded[REMEMBERED - back : len(padded) - back] for back in range(REMEMBERED)]
    return np.concatenate(parts, axis=1).astype(np.float32)


def readable(text: str) -> str:
    """One line of text, with white space folded."""
    return " ".join(text.split())


def attend_to_text(text: str) -> tuple[overt.Attended, list[str]]:
    """Attention from every character but the last to all before it, and the alphabet that its output is over."""
    alphabet = sorted(set(text))
    rng = np.random.default_rng(0)
    codes = {c: rng.choice([-1.0, 1.0], WIDTH_OF_CODE) for c in alphabet}
    # The key of a position is what came before its value, the character that follows.
    contexts = encode(text, codes)[:-1]
    values = np.eye(len(alphabet), dtype=np.float32)[[alphabet.index(c) for c in text[1:]]]
    # A query may look at earlier positions only, not at its own, whose value is the answer.
    earlier = ~overt.window(0, len(text))
    return overt.attend(contexts, contexts, values, mask=earlier, score=overt.scaled_dot(0.5)), alphabet


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "LICENSE"
    text = path.read_text(encoding="utf-8")
    start = time.perf_counter()
    seen, alphabet = attend_to_text(text)
    indices, weights = seen.top(1)
    seconds = time.perf_counter() - start

    guesses = np.array(alphabet)[seen.output.argmax(axis=-1)]
    right = guesses == np.array(list(text[1:]))
    commonest = max(alphabet, key=text.count)
    print(f"{path.name}: {len(text):,} characters, {len(right) ** 2:,} pairs in {seconds:.2f} s")
    print(f"next character right: {right[len(right) // 2 :].mean():.1%} in the second half of the text, ", end="")
    print(f"always guessing {commonest!r}: {text.count(commonest) / len(text):.1%}\n")

    print("where it looked, at positions that it was sure about:")
    sure = np.flatnonzero((weights[:, 0] > 0.8) & right)
    sure = sure[sure > len(text) // 20]
    for t in sure[np.linspace(0, len(sure) - 1, SHOWN).astype(int)] if len(sure) else []:
        s, w = int(indices[t, 0]), float(weights[t, 0])
        here, there = (readable(text[max(0, i - 35) : i + 1]) for i in (t, s))
        print(f"  …{here!s:>36} → {text[t + 1]!r}   because of {w:4.0%}  …{there!s:>36} → {text[s + 1]!r} (at {s})")


if __name__ == "__main__":
    main()
