"""Modules that own parameters and call ``overt.layers``.

Every linear map and norm is a module of its own, and every parameter is reached by its path, so that hooks,
parametrisations, adapters, pruning and sharding find here what they find in other modules.
``device`` and ``dtype`` are torch's; ``reset_parameters()`` draws afresh, as after ``to_empty``.
Whatever attends gives its ``Attended`` beside its output when called with ``attended=True``.
State dicts load under the names of ``overt.layers`` too: ``query_weight`` is ``query.weight`` here.
"""

from overt.torch.modules.attentions import (
    AdditiveAttention,
    BilinearAttention,
    CrossAttention,
    MultiHeadAttention,
    SelfAttention,
)
from overt.torch.modules.layer import Layer, Linear
from overt.torch.modules.models import EncoderDecoder
from overt.torch.modules.positions import LearnedPositions, SinusoidalPositions
from overt.torch.modules.transformers import DecoderLayer, EncoderLayer, FeedForward

__all__ = [
    "AdditiveAttention",
    "BilinearAttention",
    "CrossAttention",
    "DecoderLayer",
    "EncoderDecoder",
    "EncoderLayer",
    "FeedForward",
    "Layer",
    "LearnedPositions",
    "Linear",
    "MultiHeadAttention",
    "SelfAttention",
    "SinusoidalPositions",
]
