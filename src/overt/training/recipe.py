"""How to train, whatever is learnt."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from overt.errors import ArgumentError

# Of the fields of a recipe.
_LIMITS = (
    *((name, 1, math.inf) for name in ("epochs", "batch_tokens", "score_every")),
    *((name, 0, math.inf) for name in ("rate", "guidance", "clip", "decay", "patience", "seed")),
    *((name, 0, 1) for name in ("warmup", "smoothing", "average")),
    ("dropout", 0, 0.99),
)


@dataclass(frozen=True)
class Recipe:
    """How to train; what is not said here is in the model and its vocabularies.

    guidance: weight of the loss that teaches one head of a Transformer to look where a word's translation stands.
    average: the decay of the running mean of the parameters, which is what is kept in the end.
    patience: stop when so many scores in a row were no better than the best; 0 never stops.
    """

    epochs: int = 28
    batch_tokens: int = 900
    rate: float = 1.2e-3
    warmup: float = 0.05
    dropout: float = 0.2
    smoothing: float = 0.1
    guidance: float = 0.5
    clip: float = 1.0
    decay: float = 0.01
    average: float = 0.998
    score_every: int = 5
    patience: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not math.isfinite(value):
                raise ArgumentError(f"{name} must be a finite number, not {value}")
        for name, least, most in _LIMITS:
            if not least <= getattr(self, name) <= most:
                raise ArgumentError(f"{name} must be from {least:g} to {most:g}, not {getattr(self, name)}")
