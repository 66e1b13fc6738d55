"""What can be trained: translation from parallel text, and the reading of dates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from overt.errors import ArgumentError, DependencyError
from overt.models import Recurrent, Transformer, Translator, Vocabulary
from overt.models.translator import LONGEST
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
    score: what to measure a translator by; the first number says which of two is better.
    """

    model: Transformer | Recurrent
    source: Vocabulary
    target: Vocabulary
    pairs: Callable[[int], tuple[Pairs, Guides | None]]
    dev: Pairs
    score: Callable[[Translator], dict[str, float]]
    card: Mapping[str, Any]


def translation(
    paths: list[Path],
    *,
    architecture: Architecture = "transformer",
    source_tokens: Kind = "bpe",
    target_tokens: Kind = "characters",
    vocabulary_size: int = 4000,
    piece_dropout: float = 0.1,
    seed: int = 0,
    **sizes: Any,
) -> Task:
    """Translation as the pairs of one tab-separated file or of two files show it.

    vocabulary_size: merges of BPE.  piece_dropout: share of merges left out in training.  sizes: fields of the model.
    """
    train, dev, test = corpus.split(corpus.read(paths))
    if not train:
        raise ArgumentError(f"{paths[0]} holds too few pairs: none is left to train on")
    source, target = (
        Vocabulary.learn(
            (pair[side] for pair in train), kind, size=vocabulary_size if kind == "bpe" else 50_000, fold=fold
        )
        for side, kind, fold in ((0, source_tokens, True), (1, target_tokens, False))
    )
    # A single endless line would be a batch of its own that no memory holds.
    train, dev = (
        [(a, b) for a, b in part if len(source.split(a)) < LONGEST and len(target.split(b)) < LONGEST]
        for part in (train, dev)
    )
    model = (Recurrent if architecture == "rnn" else Transformer)(len(source), len(target), **sizes)

    # Words and not their pieces, so that the teacher need not learn anew when pieces are drawn anew.
    whole = [Vocabulary.learn((pair[side] for pair in train), _WHOLE[vocabulary.kind], size=10**6, fold=vocabulary.fold,
                              least=1) for side, vocabulary in ((0, source), (1, target))]  # fmt: skip
    links = None
    if architecture == "transformer":
        links = lexicon.alignments(
            [(whole[0].numbers(whole[0].split(a)), whole[1].numbers(whole[1].split(b))) for a, b in train]
        )

    def pairs(epoch: int) -> tuple[Pairs, Guides | None]:
        rng = np.random.default_rng((seed, epoch, 1))
        cut = [(source.split(a, skip=piece_dropout, rng=rng), target.split(b)) for a, b in train]
        guides = None
        if links is not None:
            guides = [_shared(one, source.words(a), target.words(b)) for one, (a, b) in zip(links, cut, strict=True)]
        return [(source.numbers(a), target.numbers(b)) for a, b in cut], guides

    def score(translator: Translator) -> dict[str, float]:
        return bleu([found[0].translation for found in translator.translate([a for a, _ in dev], beam=1)], dev)

    known = [(source.numbers(source.split(a)), target.numbers(target.split(b))) for a, b in dev]
    card = {"task": "translation", "pairs": {"train": len(train), "dev": len(dev), "test": len(test)}}
    return Task(model, source, target, pairs, known, score, card)


# Which words a vocabulary's tokens are parts of.
_WHOLE: dict[Kind, Kind] = {"characters": "characters", "words": "words", "bpe": "words"}


def _shared(links: np.ndarray, source: list[int], target: list[int]) -> np.ndarray:
    """Links between words (T, S) as links between their tokens, among which a source word shares what it gets."""
    counts = np.bincount(source, minlength=links.shape[1])
    return (links / np.maximum(counts, 1))[np.ix_(target, source)]


def bleu(found: list[str], pairs: list[corpus.Text]) -> dict[str, float]:
    """sacrebleu's BLEU, by characters for Chinese, and chrF of translations of some pairs."""
    try:
        import sacrebleu
    except ImportError:
        raise DependencyError("scores need sacrebleu: pip install 'overt[torch]'") from None
    if not pairs:
        return {"bleu": 0.0, "chrf": 0.0}
    wanted = [target for _, target in pairs]
    han = sum("\u4e00" <= c <= "\u9fff" for text in wanted for c in text)
    tokenize = "zh" if 2 * han > sum(map(len, wanted)) else "13a"
    return {
        "bleu": round(sacrebleu.corpus_bleu(found, [wanted], tokenize=tokenize).score, 2),
        "chrf": round(sacrebleu.corpus_chrf(found, [wanted]).score, 2),
    }


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

    def score(translator: Translator) -> dict[str, float]:
        return accuracy(translator, drawn(2, 0, 1000))

    return Task(
        model,
        source,
        target,
        pairs=lambda epoch: (numbers(drawn(1, epoch, count)), None),
        dev=numbers(drawn(3, 0, 500)),
        score=score,
        card={"task": "dates"},
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
