import math

import torch
import torch.nn as nn


class Embeddings(nn.Module):
    """"In the embedding layers, we multiply those weights by sqrt(d_model)" (Vaswani et al. 2017, section 3.4)."""

    def __init__(self, vocab, d_model):
        super().__init__()
        self.lut = nn.Embedding(vocab, d_model)
        self.d_model = d_model

    def forward(self, x):
        return self.lut(x) / math.sqrt(self.d_model)


class SelfAttentionLayer(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.lin = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x, keep):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.heads, d // self.heads).transpose(1, 2) for f in self.lin[:3])
        s = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        s = s.masked_fill(~keep[:, None, None, :], -1e9)
        y = (s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)
        return self.norm(x + self.lin[3](y))


class TranslatorEncoder(nn.Module):
    """tokens (B, T) -> (B, T, d_model); token 0 is padding"""

    def __init__(self, vocab=40, d_model=16, heads=4):
        super().__init__()
        self.embed = Embeddings(vocab, d_model)
        self.pos = nn.Parameter(torch.randn(50, d_model))
        self.layers = nn.ModuleList(SelfAttentionLayer(d_model, heads) for _ in range(2))

    def forward(self, tokens):
        keep = tokens != 0
        x = self.embed(tokens) + self.pos[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, keep)
        return x
