"""Text to tokens to numbers and back: characters, words, or pieces of words by byte-pair encoding."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from overt.errors import ArgumentError

Kind = Literal["characters", "words", "bpe"]
KINDS: tuple[Kind, ...] = ("characters", "words", "bpe")

PADDING, START, END, UNKNOWN = range(4)
SPECIAL = ("<padding>", "<start>", "<end>", "<unknown>")
# Stands for a space in front of a token.
SPACE = "▁"

# A word, an English contraction, a digit or a sign, with the space before it.
_PIECE = re.compile(r" ?(?:'(?:s|t|re|ve|m|ll|d)\b|[^\W\d_]+|\d|[^\w\s]|_)", re.IGNORECASE)


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of one language, and how text is cut into them."""

    kind: Kind
    fold: bool
    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...] = ()
    _numbers: dict[str, int] = field(init=False, repr=False, compare=False)
    _ranks: dict[tuple[str, str], int] = field(init=False, repr=False, compare=False)
    _known: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_numbers", {token: i for i, token in enumerate(self.tokens)})
        object.__setattr__(self, "_ranks", {pair: i for i, pair in enumerate(self.merges)})
        object.__setattr__(self, "_known", {})

    def __len__(self) -> int:
        return len(self.tokens)

    @staticmethod
    def learn(texts: Iterable[str], kind: Kind, *, size: int, fold: bool = False, least: int = 2) -> Vocabulary:
        """The vocabulary of some texts.

        size: at most as many tokens; for BPE as many merges.  least: characters, or words, seen less often are unknown.
        fold: see ``normalized``.
        """
        if kind not in KINDS:
            raise ArgumentError(f"a vocabulary is one of {', '.join(KINDS)}, not {kind!r}")
        pieces = Counter(piece for text in texts for piece in _pieces(normalized(text, fold), kind))
        if kind != "bpe":
            frequent = [token for token, count in _ordered(pieces) if count >= least]
            return Vocabulary(kind, fold, (*SPECIAL, *frequent[: max(0, size - len(SPECIAL))]))
        characters: Counter[str] = Counter()
        for piece, count in pieces.items():
            for character in piece:
                characters[character] += count
        alphabet = {character for character, count in characters.items() if count >= least}
        merges = _merges(pieces, alphabet, size)
        made = [first + second for first, second in merges]
        tokens = dict.fromkeys((*SPECIAL, *sorted(alphabet), *made))
        return Vocabulary(kind, fold, tuple(tokens), tuple(merges))

    def split(self, text: str, *, skip: float = 0.0, rng: np.random.Generator | None = None) -> list[str]:
        """The tokens of a text, unknown ones as they stand.

        skip: probability with which a merge is left out, drawn from ``rng``, for training: BPE dropout, Provilkov et
        al. 2020 (arXiv:1910.13267).
        """
        pieces = _pieces(normalized(text, self.fold), self.kind)
        if self.kind != "bpe":
            return pieces
        if skip and rng is not None:
            return [token for piece in pieces for token in self._merged(piece, skip, rng)]
        found: list[str] = []
        for piece in pieces:
            if piece not in self._known:
                self._known[piece] = self._merged(piece, 0.0, None)
            found += self._known[piece]
        return found

    def words(self, tokens: Sequence[str]) -> list[int]:
        """The number of the word in which each token of a text begins; characters are their own words."""
        if self.kind == "characters":
            return list(range(len(tokens)))
        lengths = [len(piece) for piece in _pieces(self.join(tokens), "words")]
        starts = np.cumsum([0, *(len(token) for token in tokens)])[:-1]
        return np.searchsorted(np.cumsum(lengths), starts, side="right").tolist()

    def numbers(self, tokens: Iterable[str]) -> list[int]:
        """The number of each token."""
        return [self._numbers.get(token, UNKNOWN) for token in tokens]

    @staticmethod
    def join(tokens: Iterable[str]) -> str:
        """The text that some tokens spell."""
        return "".join(tokens).replace(SPACE, " ").strip()

    def described(self) -> dict[str, Any]:
        """What ``Vocabulary.of`` makes this of, in types that JSON knows."""
        return {
            "kind": self.kind,
            "fold": self.fold,
            "tokens": list(self.tokens[len(SPECIAL) :]),
            "merges": [" ".join(pair) for pair in self.merges],
        }

    @staticmethod
    def of(described: dict[str, Any]) -> Vocabulary:
        """The vocabulary that ``described`` describes.  Raises ArgumentError for tokens that no text is cut into."""
        # What is a character is for the Unicode of whoever learnt them to say.
        if any(unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in "".join(described["tokens"])):
            raise ArgumentError("a token holds control characters")
        first, second = ([pair.split(" ")[i] for pair in described["merges"]] for i in (0, 1))
        return Vocabulary(
            described["kind"],
            described["fold"],
            (*SPECIAL, *described["tokens"]),
            tuple(zip(first, second, strict=True)),
        )

    def _merged(self, piece: str, skip: float, rng: np.random.Generator | None) -> tuple[str, ...]:
        parts = list(piece)
        while len(parts) > 1:
            ranks = [(self._ranks[pair], i) for i, pair in enumerate(pairwise(parts)) if pair in self._ranks]
            if rng is not None and ranks:
                ranks = [rank for rank, kept in zip(ranks, rng.random(len(ranks)) >= skip, strict=True) if kept]
            if not ranks:
                break
            _, i = min(ranks)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        return tuple(parts)


def normalized(text: str, fold: bool = False) -> str:
    """Accents composed, control characters dropped, runs of white space as one space.

    fold: small letters, straight quotes and the plain form of characters of full width and of ligatures, for text that
    is only read; what is to be written keeps its form.
    """
    if fold:
        text = unicodedata.normalize("NFKC", text).replace("’", "'").lower()
    text = unicodedata.normalize("NFC", text)
    if not text.isprintable():
        text = "".join(c for c in text if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn"))
    return " ".join(text.split())


def _pieces(text: str, kind: Kind) -> list[str]:
    if kind == "characters":
        return list(text.replace(" ", SPACE))
    return [piece.replace(" ", SPACE) for piece in _PIECE.findall(f" {text}")]


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    """Most frequent first, ties in the order of their code points."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _merges(words: Counter[str], alphabet: set[str], count: int) -> list[tuple[str, str]]:
    """The most frequent pairs of neighbours, one after another: Sennrich et al. 2016 (arXiv:1508.07909)."""
    parts = {word: list(word) for word in words}
    totals: Counter[tuple[str, str]] = Counter()
    where: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def note(word: str, sign: int) -> None:
        for pair in pairwise(parts[word]):
            if all(part in alphabet or len(part) > 1 for part in pair):
                totals[pair] += sign * words[word]
                where[pair].add(word)

    for word in parts:
        note(word, 1)
    found: list[tuple[str, str]] = []
    while len(found) < count and totals:
        best, most = max(totals.items(), key=lambda item: (item[1], item[0]))
        if most < 2:
            break
        found.append(best)
        for word in where.pop(best):
            note(word, -1)
            old, new = parts[word], []
            while old:
                width = 2 if tuple(old[:2]) == best else 1
                new.append("".join(old[:width]))
                old = old[width:]
            parts[word] = new
            note(word, 1)
        del totals[best]
    return found


def padded(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of numbers as one array (B, T), behind their ends ``PADDING``, and their lengths (B,)."""
    lengths = np.array([len(row) for row in rows], np.int64)
    array = np.full((len(rows), int(lengths.max(initial=0))), PADDING, np.int64)
    for i, row in enumerate(rows):
        array[i, : len(row)] = row
    return array, lengths
