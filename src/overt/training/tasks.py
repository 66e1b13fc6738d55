"""What can be trained: translation from parallel text, and the reading of dates."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from overt.errors import ArgumentError, DependencyError
from overt.models import Limit, Recurrent, Transformer, Translator, Vocabulary
from overt.models.translator import LONGEST, LONGEST_TEXT
from overt.models.vocabulary import Kind
from overt.training import corpus, lexicon
from overt.training.dates import Written, accuracy, written

Architecture = Literal["transformer", "rnn"]
Pairs = list[tuple[list[int], list[int]]]
"""Token numbers of sources and of their translations."""
Guides = list[np.ndarray]
"""Where each target token should look, (T, S) for each pair; what a row lacks to 1 goes to the end of the source."""


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be learnt.

    pairs: of an epoch, the same whenever they are asked for, and where to look, or None.
    dev: pairs to measure the loss on.
    score: the scores of a translator, and what it wrote.
    gain: whether what one wrote is better than what another did, by more than chance: 1, −1, or 0 for nobody knows.
    """

    model: Transformer | Recurrent
    source: Vocabulary
    target: Vocabulary
    pairs: Callable[[int], tuple[Pairs, Guides | None]]
    dev: Pairs
    score: Callable[[Translator], tuple[dict[str, float], list[str]]]
    gain: Callable[[list[str], list[str]], int]
    card: Mapping[str, Any]
    limit: Limit


def translation(
    paths: list[Path],
    *,
    architecture: Architecture = "transformer",
    source_tokens: Kind = "bpe",
    target_tokens: Kind = "characters",
    vocabulary_size: int = 4000,
    piece_dropout: float = 0.1,
    max_length: int | None = None,
    seed: int = 0,
    **sizes: Any,
) -> Task:
    """Translation as the pairs of one tab-separated file or of two files show it.

    vocabulary_size: merges of BPE.  piece_dropout: share of merges left out in training.  max_length: the most tokens
    of a translation, instead of what the pairs say of it.  sizes: fields of the model.
    """
    train, dev, test = corpus.split(corpus.read(paths))
    counts = {"test": len(test), "too_long": len(train) + len(dev)}
    # A single endless line would be a batch of its own that no memory holds.
    train, dev = ([pair for pair in part if max(map(len, pair)) <= LONGEST_TEXT] for part in (train, dev))
    source, target = (
        Vocabulary.learn(
            (pair[side] for pair in train), kind, size=vocabulary_size if kind == "bpe" else 50_000, fold=fold
        )
        for side, kind, fold in ((0, source_tokens, True), (1, target_tokens, False))
    )
    rows = [[(pair, (source.split(pair[0]), target.split(pair[1]))) for pair in part] for part in (train, dev)]
    rows = [[(pair, tokens) for pair, tokens in part if max(map(len, tokens)) < LONGEST] for part in rows]
    train, dev = ([pair for pair, _ in part] for part in rows)
    tokens, dev_tokens = ([tokens for _, tokens in part] for part in rows)
    counts = {"train": len(train), "dev": len(dev), **counts, "too_long": counts["too_long"] - len(train) - len(dev)}
    if not train:
        long = f", {counts['too_long']} being too long" if counts["too_long"] else ""
        raise ArgumentError(f"{paths[0]} holds too few pairs: none is left to train on{long}")
    limit = Limit(0.0, max_length) if max_length else Limit.learn((len(a), len(b)) for a, b in tokens)
    model = (Recurrent if architecture == "rnn" else Transformer)(len(source), len(target), **sizes)

    # Words and not their pieces, so that the teacher need not learn anew when pieces are drawn anew.
    whole = [Vocabulary.learn((pair[side] for pair in train), _WHOLE[vocabulary.kind], size=10**6, fold=vocabulary.fold,
                              least=1) for side, vocabulary in ((0, source), (1, target))]  # fmt: skip
    links = None
    if architecture == "transformer":
        links = lexicon.alignments(
            # What their tokens spell, which is without what these do not know.
            [
                (whole[0].numbers(whole[0].split(source.join(a))), whole[1].numbers(whole[1].split(target.join(b))))
                for a, b in tokens
            ]
        )

    def pairs(epoch: int) -> tuple[Pairs, Guides | None]:
        rng = np.random.default_rng((seed, epoch, 1))
        cut = [(source.split(a, skip=piece_dropout, rng=rng), target.split(b)) for a, b in train]
        guides = None
        if links is not None:
            guides = [_shared(one, source.words(a), target.words(b)) for one, (a, b) in zip(links, cut, strict=True)]
        return [(source.numbers(a), target.numbers(b)) for a, b in cut], guides

    def score(translator: Translator) -> tuple[dict[str, float], list[str]]:
        if not dev:
            return {}, []
        found = [best for (best,) in translator.translate([a for a, _ in dev], beam=1)]
        texts = [one.translation for one in found]
        return {**bleu(texts, dev), "cut": sum(one.cut for one in found)}, texts

    known = [(source.numbers(a), target.numbers(b)) for a, b in dev_tokens]
    card = {"task": "translation", "pairs": counts, "bleu_signature": signature(dev)}
    return Task(model, source, target, pairs, known, score, lambda new, old: gain(new, old, dev), card, limit)


# Which words a vocabulary's tokens are parts of.
_WHOLE: dict[Kind, Kind] = {"characters": "characters", "words": "words", "bpe": "words"}


def _shared(links: np.ndarray, source: list[int], target: list[int]) -> np.ndarray:
    """Links between words (T, S) as links between their tokens, among which a source word shares what it gets."""
    counts = np.bincount(source, minlength=links.shape[1])
    return (links / np.maximum(counts, 1))[np.ix_(target, source)]


def bleu(found: list[str], pairs: list[corpus.Text]) -> dict[str, float]:
    """sacrebleu's BLEU, as ``signature`` says, and chrF of translations of some pairs."""
    wanted = [[target for _, target in pairs]]
    metrics = _bleu(pairs), _sacrebleu().CHRF()
    scores = [metric.corpus_score(found, wanted).score if pairs else 0.0 for metric in metrics]
    return {name: round(score, 2) for name, score in zip(("bleu", "chrf"), scores, strict=True)}


def signature(pairs: list[corpus.Text]) -> str:
    """How the BLEU of translations of some pairs is measured, as sacrebleu writes it."""
    metric = _bleu(pairs)
    metric.corpus_score([""], [[""]])
    return str(metric.get_signature())


def gain(new: list[str], old: list[str], pairs: list[corpus.Text]) -> int:
    """Whether some translations have a BLEU higher than others (1) or lower (−1) by more than chance (else 0).

    More than chance: sentences taken from either by the toss of a coin make as much of a difference less than once in
    twenty times.  This is approximate randomization, Riezler & Maxwell 2005.
    """
    metric = _bleu(pairs)

    def statistics(texts: list[str]) -> np.ndarray:
        """(sentences, 10): what BLEU adds up, of each sentence."""
        found = [metric.corpus_score([text], [[wanted]]) for text, (_, wanted) in zip(texts, pairs, strict=True)]
        return np.array([[*one.counts, *one.totals, one.sys_len, one.ref_len] for one in found])

    def score(sums: np.ndarray) -> float:
        counts, totals, lengths = np.split(sums.astype(int), (4, 8))
        # Unsmoothed, since what smoothing makes of no common words is a matter of lengths.
        return metric.compute_bleu(counts.tolist(), totals.tolist(), *lengths.tolist(), smooth_method="none").score

    if new == old:
        return 0
    ours, theirs = statistics(new), statistics(old)
    tossed = np.random.default_rng(0).integers(2, size=(1000, len(pairs)))
    both, some = (ours + theirs).sum(axis=0), tossed @ ours + (1 - tossed) @ theirs
    more = score(ours.sum(axis=0)) - score(theirs.sum(axis=0))
    # Rounding must not make of the same difference a smaller one.
    as_much = sum(abs(score(one) - score(both - one)) >= abs(more) - 1e-9 for one in some)
    return 0 if as_much >= 50 else 1 if more > 0 else -1


def _bleu(pairs: list[corpus.Text]) -> Any:
    """BLEU over tokens that suit the script of the translations."""
    metrics, tokenize = _sacrebleu(), tokenizer([target for _, target in pairs])
    try:
        return metrics.BLEU(tokenize=tokenize)
    except (ImportError, RuntimeError):
        # The Japanese tokenizer is a package of its own.
        return metrics.BLEU(tokenize="char")


# Scripts that put no space between words, beside the Chinese and the Japanese: class SA of UAX #14, and Tibetan.
_UNSPACED = ("THAI", "LAO", "KHMER", "MYANMAR", "TAI", "NEW TAI", "AHOM", "TIBETAN")


def tokenizer(texts: list[str]) -> str:
    """The tokenizer of sacrebleu for the script that most letters of some texts are of."""
    names = [(unicodedata.name(c, ""), count) for c, count in Counter("".join(texts)).items() if c.isalpha()]

    def letters(*scripts: str) -> int:
        return sum(count for name, count in names if name.startswith(scripts))

    most = letters("") / 2
    # Japanese is written in both, Chinese in these characters alone.
    han, kana = letters("CJK "), letters("HIRAGANA ", "KATAKANA")
    if han + kana > most:
        return "ja-mecab" if 10 * kana > han else "zh"
    return "char" if letters(*_UNSPACED) > most else "13a"


def _sacrebleu() -> Any:
    try:
        from sacrebleu import metrics
    except ImportError:
        raise DependencyError("scores need sacrebleu: pip install 'overt[torch]'") from None
    return metrics


def dates(*, count: int = 10_000, seed: int = 0, **sizes: Any) -> Task:
    """Dates as people of many languages write them to ISO 8601; every epoch has ``count`` fresh ones."""
    rng = np.random.default_rng((seed, 0))
    known = [written(rng) for _ in range(20_000)]
    source = Vocabulary.learn((date.text for date in known), "characters", size=1000)
    target = Vocabulary.learn((date.iso for date in known), "characters", size=1000)
    model = Recurrent(len(source), len(target), **{"width": 32, "state": 64, "inner": 32, **sizes})

    def drawn(stream: int, epoch: int, count: int) -> list[Written]:
        rng = np.random.default_rng((seed, stream, epoch))
        return [written(rng) for _ in range(count)]

    def numbers(dates: list[Written]) -> Pairs:
        return [(source.numbers(source.split(date.text)), target.numbers(target.split(date.iso))) for date in dates]

    def score(translator: Translator) -> tuple[dict[str, float], list[str]]:
        return accuracy(translator, drawn(2, 0, 1000)), []

    return Task(
        model,
        source,
        target,
        pairs=lambda epoch: (numbers(drawn(1, epoch, count)), None),
        dev=numbers(drawn(3, 0, 500)),
        score=score,
        gain=lambda new, old: 0,
        card={"task": "dates"},
        limit=Limit(),
    )


# What suits dates, where it differs from what suits sentences.
DATES = {
    "epochs": 6,
    "batch_tokens": 2000,
    "rate": 5e-3,
    "warmup": 0.1,
    "dropout": 0.0,
    "smoothing": 0.0,
    "decay": 0.0,
    "average": 0.99,
    "score_every": 6,
}
