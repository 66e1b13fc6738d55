import torch
from torch import nn


class AttentionBridge(nn.Module):
    """attention_mask is additive, as the model library hands it over: 0.0 where a key may be seen, finfo.min where not, (B, 1, T, S)."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.proj = nn.ModuleDict({n: nn.Linear(dim, dim) for n in "qkvo"})

    def forward(self, x, attention_mask):
        q, k, v = (self.proj[n](x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for n in "qkv")
        scores = (q @ k.mT) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(~attention_mask.bool(), torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1)
        return self.proj["o"]((weights @ v).transpose(1, 2).flatten(2))
