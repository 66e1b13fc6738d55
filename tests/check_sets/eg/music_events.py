"""Event-based music generation with a decoder-only transformer.

events (B, T): MIDI event ids. logits[:, t] are the scores of event t + 1 and may depend on the
events 0..t and on nothing later.
"""
import math

import torch
from torch import nn


class MusicAttention(nn.Module):
    """x (B, T, d) -> (B, T, d). Event i looks at itself and at what was played before."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.proj_in = nn.Linear(d_model, 3 * d_model)
        self.proj_out = nn.Linear(d_model, d_model)

    def _split(self, t):
        return t.unflatten(-1, (self.n_heads, self.d_head)).transpose(1, 2)

    def forward(self, x):
        T = x.shape[1]
        q, k, v = map(self._split, self.proj_in(x).chunk(3, dim=-1))
        logits = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.d_head)
        future = torch.triu(torch.ones(T, T, dtype=torch.bool, device=x.device), diagonal=2)
        logits = logits.masked_fill(future, float("-inf"))
        out = torch.matmul(torch.softmax(logits, dim=-1), v)
        return self.proj_out(out.transpose(1, 2).flatten(2))


class MusicDecoder(nn.Module):
    def __init__(self, n_events=128, d_model=32, n_heads=4, n_layers=2, max_len=64):
        super().__init__()
        self.embed = nn.Embedding(n_events, d_model)
        self.pos = nn.Embedding(max_len, d_model)
        self.attn = nn.ModuleList(MusicAttention(d_model, n_heads) for _ in range(n_layers))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(d_model, 64), nn.GELU(), nn.Linear(64, d_model)) for _ in range(n_layers))
        self.n1 = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(n_layers))
        self.n2 = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(n_layers))
        self.out = nn.Linear(d_model, n_events)

    def forward(self, events):
        x = self.embed(events) + self.pos(torch.arange(events.shape[1], device=events.device))
        for attn, ffn, n1, n2 in zip(self.attn, self.ffn, self.n1, self.n2):
            x = x + attn(n1(x))
            x = x + ffn(n2(x))
        return self.out(x)
