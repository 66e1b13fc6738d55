"""lofi piano generator - decoder-only transformer on MIDI tokens

tokens: (batch, n) int64 -> next token logits (batch, n, vocab).  logits[:, t] is for token t+1
and depends only on tokens[:, :t+1] (it's trained with teacher forcing on whole pieces).

positions are the sinusoids of the paper:
    PE[pos, 2i]   = sin(pos / 10000^(2i / d))
    PE[pos, 2i+1] = cos(pos / 10000^(2i / d))
"""
import numpy as np
import torch
import torch.nn as nn


def sinusoids(n, d):
    pe = np.zeros((n, d))
    for pos in range(n):
        for i in range(0, d, 2):
            pe[pos, i] = np.sin(pos / 10000 ** (2 * i / d))
            pe[pos, i + 1] = np.cos(pos / 10000 ** (2 * i / d))
    return torch.tensor(pe, dtype=torch.float32)


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        att = att.softmax(-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.n2(x))


class LofiNet(nn.Module):
    def __init__(self, vocab=388, d=128, heads=4, layers=2, max_len=512):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.register_buffer('pe', sinusoids(max_len, d))
        self.layers = nn.ModuleList([Layer(d, heads) for _ in range(layers)])
        self.out = nn.Linear(d, vocab)

    def forward(self, tokens):
        x = self.emb(tokens) + self.pe[:tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.out(x)
