import torch
import torch.nn as nn
from typing import Dict


class DecoderCrossAttention(nn.Module):
    """Takes a dictionary:

    "hidden"                 (batch, tgt, dim)    decoder states
    "memory"                 (batch, src, dim)    encoder output
    "memory_key_padding"     (batch, src) bool    True marks padding
    """

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.dim, self.heads = dim, heads
        self.head_dim = dim // heads
        self.w = nn.ModuleDict({name: nn.Linear(dim, dim) for name in ("query", "key", "value", "out")})

    def forward(self, inputs: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
        hidden, memory, pad = inputs["hidden"], inputs["memory"], inputs["memory_key_padding"]

        def to_heads(t):
            return t.unflatten(2, (self.heads, self.head_dim)).movedim(2, 1)

        q = to_heads(self.w["query"](hidden)) * self.head_dim ** -0.5
        k = to_heads(self.w["key"](memory))
        v = to_heads(self.w["value"](memory))
        logits = q.matmul(k.mT).masked_fill(pad[:, None, None, :], float("-inf"))
        weights = logits.softmax(-1)
        mixed = weights.matmul(v).movedim(1, 2).flatten(2)
        return {"hidden": self.w["out"](mixed), "weights": weights}
