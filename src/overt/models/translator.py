"""From text to text: what a checkpoint is for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from overt import layers
from overt.attended import Attended
from overt.errors import ArgumentError, FileError
from overt.grid import host
from overt.models import checkpoint, decoding
from overt.models.checkpoint import Checkpoint
from overt.models.vocabulary import END, SPECIAL, START, UNKNOWN, padded
from overt.writing import located

BUNDLED = Path(__file__).parent / "bundled"
# In tokens, and in characters.
LONGEST, LONGEST_TEXT = 400, 20_000
# Sentences whose tokens together are no more than this are translated at once.
BATCH = 1000


@dataclass(frozen=True, eq=False)
class Translation:
    """A translation with the attention that made it.

    alignment (T, S): what target token t took from source token s, by ``target_tokens`` and ``source_tokens``;
    what remains to 1 in a row went to the end of the source.  cut: it had reached the limit of its length, where the
    model would have written more.
    """

    source: str
    translation: str
    score: float
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    _alignment: np.ndarray | tuple[_Reading, int] = field(repr=False)
    cut: bool = False

    @property
    def alignment(self) -> np.ndarray:
        """Where each token looked, worked out when it is asked for."""
        if isinstance(self._alignment, np.ndarray):
            return self._alignment
        reading, place = self._alignment
        return reading.alignment(place)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle keeps: where each token looked, and not the model that says so."""
        return {**self.__dict__, "_alignment": self.alignment}

    def described(self) -> dict[str, Any]:
        """The same in types that JSON knows."""
        return {
            "source": self.source,
            "translation": self.translation,
            "score": round(self.score, 6),
            "source_tokens": list(self.source_tokens),
            "target_tokens": list(self.target_tokens),
            "cut": self.cut,
            "alignment": [[round(float(weight), 6) for weight in row] for row in self.alignment],
        }


@dataclass(frozen=True, eq=False)
class Translator:
    """Translates with a checkpoint's parameters, of NumPy or of another library, nested for ``overt.layers``."""

    checkpoint: Checkpoint
    parameters: Any

    def __repr__(self) -> str:
        return f"Translator({self.checkpoint!r})"

    @staticmethod
    def of(found: Checkpoint) -> Translator:
        """A translator that computes in NumPy."""
        # A product with a transposed weight is faster, for few rows much, where the weight lies column by column.
        columns = {
            name: np.asfortranarray(x) if name.endswith("_weight") else x for name, x in found.parameters.items()
        }
        return Translator(found, layers.nested(columns))

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam: int = 5,
        n_best: int = 1,
        penalty: float = 1.0,
        temperature: float | None = None,
        seed: int = 0,
        prefix: str = "",
        replace_unknown: bool = True,
        max_length: int | None = None,
    ) -> list[list[Translation]]:
        """The ``n_best`` translations of each text, best first.

        beam: how many beginnings are kept at each step; 1 is greedy.  penalty: α of the length penalty.
        temperature: draw the tokens instead, one translation a text.  prefix: what every translation begins with.
        replace_unknown: put the source token that an unknown target token looked at in its place.
        max_length: the most tokens of a translation; by default what the checkpoint's ``limit`` says of each text.
        """
        _check(beam=beam, n_best=n_best, **({} if max_length is None else {"max_length": max_length}))
        if temperature is not None and not 0 < temperature < np.inf:
            raise ArgumentError(f"temperature must be a positive number, not {temperature}")
        if not np.isfinite(penalty):
            raise ArgumentError(f"the length penalty must be a finite number, not {penalty}")
        if n_best > beam:
            raise ArgumentError(f"a beam of {beam} holds no {n_best} best translations: give a wider beam")
        model, source, target = self.checkpoint.model, self.checkpoint.source, self.checkpoint.target
        tokens = [self.split(text, f"text {i} of {len(texts)}") for i, text in enumerate(texts, 1)]
        forced = target.numbers(target.split(prefix)) if prefix else []
        if UNKNOWN in forced:
            raise ArgumentError(f"the model cannot write the prefix {prefix!r}: it knows not all of its tokens")
        found: list[list[Translation]] = [[] for _ in texts]
        for part in _batches([len(split) for split in tokens]):
            sources = [[*source.numbers(tokens[i]), END] for i in part]
            rows, lengths = padded(sources)
            options: dict[str, Any] = {
                "rows": len(part),
                "limits": [max_length or self.checkpoint.limit.of(len(tokens[i])) for i in part],
                "prefixes": [forced] * len(part),
            }
            state = model.start(self.parameters, self._array(rows), self._array(lengths))
            if temperature is None:
                best = decoding.beam_search(self._step, state, width=beam, count=n_best, penalty=penalty, **options)
            else:
                rngs = [np.random.default_rng((seed, i)) for i in part]
                best = decoding.sample(self._step, state, temperature=temperature, rngs=rngs, **options)
            several = [(i, row, one) for i, row, ones in zip(part, sources, best, strict=True) for one in ones]
            reading = _Reading(self, [row for _, row, _ in several], [one.tokens for _, _, one in several])
            for place, (i, _, one) in enumerate(several):
                found[i].append(self._finished(texts[i], tokens[i], one, reading, place, replace_unknown))
        return found

    def align(self, text: str, translation: str) -> Translation:
        """A translation that is given: how likely the model finds it, by the sum of logarithms, and where it looks."""
        split, target = self.split(text), self.checkpoint.target
        numbers = target.numbers(target.split(translation))
        row = [*self.checkpoint.source.numbers(split), END]
        source, lengths = self._array(np.array([row])), self._array(np.array([len(row)]))
        scores = self.checkpoint.model.logits(
            self.parameters, source, lengths, self._array(np.array([[START, *numbers]]))
        )
        logs = decoding.log_probabilities(host("scores", scores)[0])
        score = float(logs[np.arange(len(numbers) + 1), [*numbers, END]].sum())
        given = decoding.Hypothesis(tuple(numbers), score)
        one = self._finished(text, split, given, _Reading(self, [row], [given.tokens]), 0, copy=False)
        return replace(one, translation=translation, target_tokens=tuple(target.split(translation)))

    def attentions(self, one: Translation) -> dict[str, list[Attended]]:
        """Every attention of a translation, layer by layer, by its name: "encoder", "decoder", "cross".

        Each is (1, H, T, S) over ``source_tokens`` and the end, and over the start and ``target_tokens``, whose query
        t is the step that wrote token t, or the end.  A token that was copied from the source is read as the token that
        it is where the target knows one: translate with ``replace_unknown=False`` for what the model itself read.
        """
        source = [*self.checkpoint.source.numbers(one.source_tokens), END]
        target = [START, *self.checkpoint.target.numbers(one.target_tokens)]
        row, lengths, written = (self._array(np.array(x)) for x in ([source], [len(source)], [target]))
        return self.checkpoint.model.attentions(self.parameters, row, lengths, written)

    def split(self, text: str, name: str = "the text") -> list[str]:
        """The tokens of a text.  Raises ArgumentError, with its name, for none and for more than ``LONGEST``."""
        # Nothing in long runs of anything is a sentence, and cutting them up takes long.
        tokens = self.checkpoint.source.split(text) if len(text) <= LONGEST_TEXT else []
        if not tokens and not text.strip():
            raise ArgumentError(f"{name} is empty: there is nothing to translate")
        if len(text) > LONGEST_TEXT or len(tokens) > LONGEST:
            size = f"{len(tokens)} tokens" if tokens else f"{len(text)} characters"
            raise ArgumentError(f"{name} has {size}, the model reads {LONGEST} tokens: give one sentence at a time")
        if not tokens:
            raise ArgumentError(f"{name} holds nothing but control characters: there is nothing to translate")
        return tokens

    def _step(self, state: Any, tokens: np.ndarray) -> tuple[Any, Any]:
        return self.checkpoint.model.advance(self.parameters, state, self._array(tokens))

    def _finished(
        self, text: str, split: list[str], best: decoding.Hypothesis, reading: _Reading, place: int, copy: bool
    ) -> Translation:
        tokens = [self.checkpoint.target.tokens[number] for number in best.tokens]
        if copy and UNKNOWN in best.tokens:
            looked = reading.alignment(place).argmax(axis=1)
            tokens = [split[i] if token == SPECIAL[UNKNOWN] else token for token, i in zip(tokens, looked, strict=True)]
        translation = self.checkpoint.target.join(tokens)
        return Translation(text, translation, best.score, tuple(split), tuple(tokens), (reading, place), best.cut)

    def _array(self, array: np.ndarray) -> Any:
        """Token numbers in the library of the parameters."""
        like = self.parameters["source_embedding"]
        return array if isinstance(like, np.ndarray) else array_namespace(like).asarray(array)


@dataclass(frozen=True, eq=False)
class _Reading:
    """Several translations, read once more and all at once when somebody asks where their tokens looked."""

    translator: Translator
    sources: list[list[int]]
    targets: list[tuple[int, ...]]

    def alignment(self, place: int) -> np.ndarray:
        """(T, S) of one of them, without its end and that of its source."""
        return self._weights[place, : len(self.targets[place]), : len(self.sources[place]) - 1].copy()

    @cached_property
    def _weights(self) -> np.ndarray:
        array, (source, lengths) = self.translator._array, padded(self.sources)
        target, _ = padded([[START, *tokens] for tokens in self.targets])
        return self.translator.checkpoint.model.alignment(
            self.translator.parameters, array(source), array(lengths), array(target)
        )


def load(name: str | Path) -> Translator:
    """The translator of a bundled model, by its name, or of a checkpoint, by its path.

    Raises FileError where there is neither.
    """
    path = located(name)
    if str(name) in bundled():
        path = BUNDLED / f"{name}.safetensors"
    elif not path.exists():
        raise FileError(f"{name} is no checkpoint, and no bundled model: these are {', '.join(bundled())}")
    return Translator.of(checkpoint.load(path))


def bundled() -> list[str]:
    """Names of the models inside the package."""
    return sorted(path.stem for path in BUNDLED.glob("*.safetensors"))


def _check(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise ArgumentError(f"{name} must be at least 1, not {value}")


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Indices of texts of similar length, as many at once as fit."""
    part: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if part and lengths[i] * (len(part) + 1) > BATCH:
            yield part
            part = []
        part.append(i)
    if part:
        yield part
