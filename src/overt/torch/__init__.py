"""Attention with gradients for PyTorch, and modules that own parameters."""

from overt.errors import DependencyError

try:
    import torch  # noqa: F401, tells at once and in one line what is missing
except ImportError:
    raise DependencyError("overt.torch needs PyTorch: pip install 'overt[torch]'") from None

from overt.torch import nn, ring
from overt.torch.attended import Attended
from overt.torch.attention import attend, attention
from overt.torch.modules import (
    AdditiveAttention,
    BilinearAttention,
    CrossAttention,
    DecoderLayer,
    EncoderDecoder,
    EncoderLayer,
    FeedForward,
    LearnedPositions,
    MultiHeadAttention,
    SelfAttention,
    SinusoidalPositions,
)

__all__ = [
    "AdditiveAttention",
    "Attended",
    "BilinearAttention",
    "CrossAttention",
    "DecoderLayer",
    "EncoderDecoder",
    "EncoderLayer",
    "FeedForward",
    "LearnedPositions",
    "MultiHeadAttention",
    "SelfAttention",
    "SinusoidalPositions",
    "attend",
    "attention",
    "nn",
    "ring",
]
