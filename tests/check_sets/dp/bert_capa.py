"""One BERT encoder layer, written out so that the students can step through it.

``BertCapa(hidden, n_heads, inter, p)``
    h    : (B, L, hidden) hidden states
    mask : (B, L) int, 1 = real token, 0 = [PAD].  No token reads a [PAD].
returns (B, L, hidden).

As usual p is the dropout of the attention probabilities and of both outputs,
it acts while training only; with ``.eval()`` the layer is deterministic.
"""
import math
import torch
from torch import nn


class BertCapa(nn.Module):
    def __init__(self, hidden=768, n_heads=12, inter=3072, p=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.hd = hidden // n_heads
        self.p = p
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.dense = nn.Linear(hidden, hidden)
        self.ln1 = nn.LayerNorm(hidden, eps=1e-12)
        self.up = nn.Linear(hidden, inter)
        self.down = nn.Linear(inter, hidden)
        self.ln2 = nn.LayerNorm(hidden, eps=1e-12)
        self.drop = nn.Dropout(p)

    def transpose_for_scores(self, x):
        x = x.view(*x.shape[:-1], self.n_heads, self.hd)
        return x.permute(0, 2, 1, 3)

    def forward(self, h, mask):
        q = self.transpose_for_scores(self.query(h))
        k = self.transpose_for_scores(self.key(h))
        v = self.transpose_for_scores(self.value(h))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.hd)
        ext = mask.unsqueeze(1).unsqueeze(3)
        scores = scores.masked_fill(ext == 0, -1e9)
        probs = nn.Dropout(self.p)(scores.softmax(dim=-1))
        ctx = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        ctx = ctx.view(h.size(0), h.size(1), -1)
        h = self.ln1(h + self.drop(self.dense(ctx)))
        y = self.down(nn.functional.gelu(self.up(h)))
        return self.ln2(h + self.drop(y))
