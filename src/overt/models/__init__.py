"""Encoder–decoder models whose attention can be read: load one and translate."""

from overt.models.checkpoint import Checkpoint, Limit
from overt.models.recurrent import Recurrent
from overt.models.transformer import Transformer
from overt.models.translator import Translation, Translator, bundled, load
from overt.models.vocabulary import Vocabulary

__all__ = [
    "Checkpoint",
    "Limit",
    "Recurrent",
    "Transformer",
    "Translation",
    "Translator",
    "Vocabulary",
    "bundled",
    "load",
]
