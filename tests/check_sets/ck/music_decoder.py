"""Symbolic music generation: decoder self-attention in the style of the Music Transformer,
with learned relative embeddings (Shaw et al. 2018) over a limited distance."""
import math

import torch
import torch.nn as nn


class MusicAttention(nn.Module):
    """Autoregressive: event i is computed from the events 0..i.

    x        B x T x d_model
    pad_mask B x T, True at the padding events
    """

    def __init__(self, d_model=40, n_head=4, max_rel=16):
        super().__init__()
        self.n_head = n_head
        self.d_head = d_model // n_head
        self.max_rel = max_rel
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)
        self.rel_k = nn.Embedding(max_rel + 1, self.d_head)

    def forward(self, x, pad_mask=None):
        B, T, C = x.shape
        q = self.wq(x).view(B, T, self.n_head, self.d_head).transpose(1, 2)
        k = self.wk(x).view(B, T, self.n_head, self.d_head).transpose(1, 2)
        v = self.wv(x).view(B, T, self.n_head, self.d_head).transpose(1, 2)

        pos = torch.arange(T, device=x.device)
        back = (pos[:, None] - pos[None, :]).clamp(0, self.max_rel)
        rel = self.rel_k(back)                                    # T x T x d_head
        scores = q @ k.transpose(-2, -1) + torch.einsum("bhid,ijd->bhij", q, rel)
        scores = scores / math.sqrt(self.n_head)

        ahead = torch.triu(torch.ones(T, T, device=x.device), diagonal=2).bool()
        scores = scores.masked_fill(ahead, -1e9)
        if pad_mask is not None:
            scores.masked_fill(pad_mask[:, None, None, :], -1e9)
        att = torch.softmax(scores, dim=-1)
        y = (att @ v).transpose(1, 2).reshape(B, T, C)
        return self.wo(y)
