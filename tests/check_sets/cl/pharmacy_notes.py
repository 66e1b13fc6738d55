from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class NotesConfig:
    vocab: int = 80
    dim: int = 32
    heads: int = 4
    layers: int = 2
    max_tokens: int = 32
    labels: int = 5


class NoteAttention(nn.Module):
    """Bidirectional; `lengths` counts the real tokens, what comes after is padding and no
    token may attend to it."""

    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.heads
        self.head_dim = cfg.dim // cfg.heads
        self.query, self.key, self.value = (nn.Linear(cfg.dim, cfg.dim) for _ in range(3))
        self.dense = nn.Linear(cfg.dim, cfg.dim)

    def forward(self, hidden, lengths):
        bsz, n, dim = hidden.shape

        def shape(t):
            return t.view(bsz, n, self.heads, self.head_dim).transpose(1, 2)

        scores = shape(self.query(hidden)) @ shape(self.key(hidden)).transpose(-1, -2)
        scores = scores / self.head_dim ** 0.5
        is_pad = torch.arange(n, device=hidden.device).unsqueeze(0) >= lengths.unsqueeze(1)
        scores = scores.masked_fill(is_pad.unsqueeze(1).unsqueeze(3), torch.finfo(scores.dtype).min)
        probs = scores.softmax(dim=-1)
        ctx = (probs @ shape(self.value(hidden))).transpose(1, 2).reshape(bsz, n, dim)
        return self.dense(ctx)


class NotesClassifier(nn.Module):
    """Pharmacist notes -> intervention type. Uses the first ([CLS]) token."""

    def __init__(self, cfg=None):
        super().__init__()
        cfg = cfg or NotesConfig()
        self.words = nn.Embedding(cfg.vocab, cfg.dim)
        self.places = nn.Embedding(cfg.max_tokens, cfg.dim)
        self.attn = nn.ModuleList(NoteAttention(cfg) for _ in range(cfg.layers))
        self.norm1 = nn.ModuleList(nn.LayerNorm(cfg.dim) for _ in range(cfg.layers))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(cfg.dim, 64), nn.GELU(), nn.Linear(64, cfg.dim)) for _ in range(cfg.layers)
        )
        self.norm2 = nn.ModuleList(nn.LayerNorm(cfg.dim) for _ in range(cfg.layers))
        self.cls = nn.Linear(cfg.dim, cfg.labels)

    def forward(self, tokens, lengths):
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        for attn, n1, ffn, n2 in zip(self.attn, self.norm1, self.ffn, self.norm2):
            x = n1(x + attn(x, lengths))
            x = n2(x + ffn(x))
        return self.cls(x[:, 0])
