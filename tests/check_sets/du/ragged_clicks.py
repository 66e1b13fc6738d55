"""Click-session encoder, changed from fixed length to variable length.

Before, all sessions had 20 clicks.  Now they are padded at the end, and `n_clicks` says how
many are real; clicks in the padding have to get no weight in the attention.  The session
vector is the mean over the real clicks.
"""
import math

import torch
from torch import nn


class SessionEncoder(nn.Module):
    """items (B, T) item ids (0 = padding), n_clicks (B,) with 1 <= n_clicks <= T -> (B, dim).

    What is in the padded positions of `items` does not matter.
    """

    def __init__(self, n_items, dim=32, heads=2):
        super().__init__()
        self.heads = heads
        self.emb = nn.Embedding(n_items, dim)
        self.pos = nn.Parameter(torch.zeros(256, dim))
        self.qkv = nn.Linear(dim, 3 * dim)
        self.mix = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def attention(self, x, real):
        """x (B, T, dim), real (B, T) bool -> (B, T, dim)"""
        B, T, D = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(B, T, self.heads, -1).transpose(1, 2)
        k = k.view(B, T, self.heads, -1).permute(0, 2, 3, 1)
        v = v.view(B, T, self.heads, -1).transpose(1, 2)
        logits = q @ k / math.sqrt(D // self.heads)
        keep = real.unsqueeze(1).unsqueeze(3)
        logits = logits.masked_fill(~keep, -1e9)
        w = torch.softmax(logits, dim=-1)
        return (w @ v).transpose(1, 2).reshape(B, T, D)

    def forward(self, items, n_clicks):
        T = items.size(1)
        real = torch.arange(T, device=items.device) < n_clicks[:, None]
        x = self.emb(items) + self.pos[:T]
        x = self.norm(x + self.mix(self.attention(x, real)))
        x = x * real.unsqueeze(-1)
        return x.sum(dim=1) / n_clicks[:, None]
