"""Text to tokens to numbers and back: characters, words, or pieces of words by byte-pair encoding."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Literal

import numpy as np

from overt.errors import ArgumentError

Kind = Literal["characters", "words", "bpe"]
KINDS: tuple[Kind, ...] = ("characters", "words", "bpe")

PADDING, START, END, UNKNOWN = range(4)
SPECIAL = ("<padding>", "<start>", "<end>", "<unknown>")
# Stands for a space in front of a token.
SPACE = "▁"
# Categories of what is never written: control, format, lone surrogates, private, unassigned.
_CONTROLS = ("Cc", "Cf", "Cs", "Co", "Cn")

# Between letters they say how these are written (می\u200cخواهم), between signs that they are one (👩\u200d🚀).
_JOINERS = "\u200c\u200d"
# What a reader takes for one character, where ``_marked`` has made marks \0 and U+200D \1: a pair of regional
# indicators, which is a flag; signs that U+200D makes one; else a character and its marks, which is the combining
# character sequence of the Unicode Standard, section 3.6, D56.
_CLUSTER = (
    r"(?:[\U0001f1e6-\U0001f1ff]{2}|(?:[^\w\s\x00\x01]\x00*\x01)+[^\w\s\x00\x01]|[^\x00\x01])[\x00\x01]*|[\x00\x01]+"
)
_CLUSTERS = re.compile(_CLUSTER)
# A word, an English contraction, a digit or a sign, with the space before it.
_PIECES = re.compile(
    rf" ?(?:'(?:s|t|re|ve|m|ll|d)\b(?![\x00\x01])|(?:[^\W\d_][\x00\x01]*)+|(?! )(?:{_CLUSTER}))", re.IGNORECASE
)


class _Marks(dict[int, int]):
    """For ``str.translate``: what belongs to the character before it becomes 0, U+200D 1, all else stays."""

    def __missing__(self, code: int) -> int:
        # Colours of skin belong to the sign before them.
        mark = unicodedata.category(chr(code))[0] == "M" or chr(code) == "\u200c" or 0x1F3FB <= code <= 0x1F3FF
        self[code] = found = 0 if mark else 1 if chr(code) == "\u200d" else code
        return found


_MARKS = _Marks()


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

    def __repr__(self) -> str:
        return f"Vocabulary({self.kind}, {len(self)} tokens)"

    @staticmethod
    def learn(texts: Iterable[str], kind: Kind, *, size: int, fold: bool = False, least: int = 2) -> Vocabulary:
        """The vocabulary of some texts.

        size: at most as many tokens; for BPE as many merges.  least: characters, or words, seen less often are unknown.
        fold: see ``normalized``.
        """
        if kind not in KINDS:
            raise ArgumentError(f"a vocabulary is one of {', '.join(KINDS)}, not {kind!r}")
        pieces = Counter(piece for text in texts for piece in _pieces(normalized(text, fold), kind))
        counts = pieces
        if kind != "words":
            counts = Counter()
            for piece, count in pieces.items():
                for cluster in _clusters(piece):
                    # Where a cluster is too rare to be known, its characters stand for it.
                    for part in {cluster, *cluster}:
                        counts[part] += count
        frequent = [token for token, count in _ordered(counts) if count >= least]
        if kind != "bpe":
            return Vocabulary(kind, fold, (*SPECIAL, *frequent[: max(0, size - len(SPECIAL))]))
        alphabet = set(frequent)
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
        if self.kind == "words":
            return pieces
        if self.kind == "characters":
            return _atoms("".join(pieces), self._numbers)
        if skip and rng is not None:
            return [token for piece in pieces for token in self._merged(piece, skip, rng)]
        found: list[str] = []
        for piece in pieces:
            if piece not in self._known:
                self._known[piece] = self._merged(piece, 0.0, None)
            found += self._known[piece]
        return found

    def words(self, tokens: Sequence[str]) -> list[int]:
        """The number of the word in which each token of a text begins; for characters, of the cluster."""
        whole: Kind = "characters" if self.kind == "characters" else "words"
        lengths = [len(piece) for piece in _pieces(self.join(tokens), whole)]
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
        """The vocabulary that ``described`` describes.  Raises ArgumentError for what no text has taught."""
        kind, fold, tokens = described["kind"], described["fold"], described["tokens"]
        merges = [tuple(pair.split(" ")) for pair in described["merges"]]
        if kind not in KINDS or not isinstance(fold, bool) or not isinstance(tokens, list):
            raise ArgumentError("a vocabulary has a kind, a list of tokens, and folds or does not")
        # What is a character is for the Unicode of whoever learnt them to say.
        if any(c not in _JOINERS and unicodedata.category(c) in _CONTROLS[:3] for c in "".join(tokens)):
            raise ArgumentError("a token holds control characters")
        if len({*SPECIAL, *tokens}) < len(SPECIAL) + len(tokens):
            raise ArgumentError("two tokens are the same")
        if any(len(pair) != 2 or not all(pair) for pair in merges):
            raise ArgumentError("a merge is of two parts")
        return Vocabulary(kind, fold, (*SPECIAL, *tokens), tuple((first, second) for first, second in merges))

    def _merged(self, piece: str, skip: float, rng: np.random.Generator | None) -> tuple[str, ...]:
        """The parts of a piece after all merges, the earliest learnt and leftmost first, in O(n log n)."""
        # A gap at the end, and where a part has become the end of the one before it.
        parts = [*_atoms(piece, self._numbers), ""]
        before, after = list(range(-1, len(parts) - 1)), list(range(1, len(parts) + 1))

        def rank(i: int) -> int | None:
            return self._ranks.get((parts[i], parts[after[i]]))

        heap = [(found, i) for i in range(len(parts) - 1) if (found := rank(i)) is not None]
        heapify(heap)
        left_out: list[tuple[int, int]] = []
        while heap:
            entry = first, i = heappop(heap)
            # One of the two has been merged with another meanwhile.
            if rank(i) != first:
                continue
            if rng is not None and rng.random() < skip:
                left_out.append(entry)
                continue
            j = after[i]
            parts[i], parts[j] = parts[i] + parts[j], ""
            after[i] = after[j]
            before[after[j]] = i
            # What was left out is drawn anew after every merge.
            again = ((found, place) for place in (before[i], i) if place >= 0 and (found := rank(place)) is not None)
            for entry in (*again, *left_out):
                heappush(heap, entry)
            left_out.clear()
        return tuple(part for part in parts if part)


def normalized(text: str, fold: bool = False) -> str:
    """Accents composed, control characters dropped, runs of white space as one space.

    fold: small letters, straight quotes and the plain form of characters of full width and of ligatures, for text that
    is only read; what is to be written keeps its form.
    """
    if fold:
        text = unicodedata.normalize("NFKC", text).replace("’", "'").lower()
    if not text.isprintable():
        kept = (c for c in text if c.isspace() or c in _JOINERS or unicodedata.category(c) not in _CONTROLS)
        # What joins nothing says nothing.
        text = re.sub(rf"(?<!\S)[{_JOINERS}]+", "", "".join(kept))
    return " ".join(unicodedata.normalize("NFC", text).split())


def _marked(text: str) -> str:
    return text if text.isascii() else text.translate(_MARKS)


def _clusters(text: str) -> list[str]:
    """The characters of a text as a reader counts them."""
    marked = _marked(text)
    # Without marks and flags there is nothing to look for.
    if marked == text and max(text, default="") < "\U0001f1e6":
        return list(text)
    return [text[slice(*found.span())] for found in _CLUSTERS.finditer(marked)]


def _pieces(text: str, kind: Kind) -> list[str]:
    if kind == "characters":
        return _clusters(text.replace(" ", SPACE))
    text = f" {text}"
    marked = _marked(text)
    if marked == text:
        return [piece.replace(" ", SPACE) for piece in _PIECES.findall(text)]
    return [text[slice(*found.span())].replace(" ", SPACE) for found in _PIECES.finditer(marked)]


def _atoms(piece: str, known: Container[str]) -> list[str]:
    """The clusters of a piece that are known, and the characters of the others, but for unknown joiners."""
    clusters = _clusters(piece)
    if len(clusters) == len(piece):
        return clusters
    found: list[str] = []
    for cluster in clusters:
        found += [cluster] if cluster in known else [c for c in cluster if c not in _JOINERS or c in known]
    return found


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    """Most frequent first, ties in the order of their code points."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


class _Falling(tuple[str, str]):
    """A pair that a heap gives the later in the alphabet, the sooner."""

    __lt__ = tuple.__gt__


def _merges(pieces: Counter[str], alphabet: set[str], count: int) -> list[tuple[str, str]]:
    """The most frequent pairs of neighbours, one after another: Sennrich et al. 2016 (arXiv:1508.07909).

    A merge costs what it changes: n characters take O(n log n), however long their words.
    """
    # All pieces in a row, a gap behind each, and later where a part has become the end of the one before it.
    parts: list[str] = []
    times: list[int] = []
    for piece, many in pieces.items():
        atoms = _atoms(piece, alphabet)
        parts += [*atoms, ""]
        times += [many] * (len(atoms) + 1)
    before, after = list(range(-1, len(parts) - 1)), list(range(1, len(parts) + 1))
    known = set(alphabet)
    totals: Counter[tuple[str, str]] = Counter()
    where: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    changed: set[tuple[str, str]] = set()

    def note(i: int, sign: int) -> None:
        if i < 0 or parts[i] not in known or parts[after[i]] not in known:
            return
        pair = parts[i], parts[after[i]]
        totals[pair] += sign * times[i]
        changed.add(pair)
        if sign > 0:
            where[pair].append(i)

    for i in range(len(parts) - 1):
        note(i, 1)
    heap: list[tuple[int, _Falling]] = []
    found: list[tuple[str, str]] = []
    while len(found) < count:
        for pair in changed:
            if totals[pair] > 1:
                heappush(heap, (-totals[pair], _Falling(pair)))
        changed.clear()
        # Totals that have changed since stand further down, or are gone.
        while heap and totals[heap[0][1]] != -heap[0][0]:
            heappop(heap)
        if not heap:
            break
        first, second = best = heappop(heap)[1]
        found.append((first, second))
        known.add(first + second)
        for i in sorted(where.pop(best)):
            j = after[i]
            if parts[i] != first or parts[j] != second:
                continue
            for place in (before[i], i, j):
                note(place, -1)
            parts[i], parts[j] = first + second, ""
            after[i] = after[j]
            before[after[j]] = i
            for place in (before[i], i):
                note(place, 1)
    return found


def padded(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of numbers as one array (B, T), behind their ends ``PADDING``, and their lengths (B,)."""
    lengths = np.array([len(row) for row in rows], np.int64)
    array = np.full((len(rows), int(lengths.max(initial=0))), PADDING, np.int64)
    for i, row in enumerate(rows):
        array[i, : len(row)] = row
    return array, lengths
