"""A minimal character level language model with sinusoidal positions."""
import math

import torch
import torch.nn as nn


def sinusoidal_table(max_len, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d))"""
    pos = torch.arange(max_len).float().unsqueeze(1)
    two_i = torch.arange(0, d_model, 2).float()
    angle = pos / torch.pow(10000.0, 2 * two_i / d_model)
    table = torch.zeros(max_len, d_model)
    table[:, 0::2] = torch.sin(angle)
    table[:, 1::2] = torch.cos(angle)
    return table


class CausalAttention(nn.Module):
    """Scaled dot-product attention (1/sqrt of the head size) without a view on the future."""

    def __init__(self, d_model, n_heads, dropout):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (u.view(b, t, self.n_heads, -1).transpose(1, 2) for u in (q, k, v))
        att = q @ k.transpose(-1, -2) / math.sqrt(self.n_heads)
        # position t predicts token t+1, so everything after t is hidden
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(diagonal=2)
        att = att.masked_fill(future, float("-inf")).softmax(dim=-1)
        y = self.dropout(att) @ v
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class MiniGPT(nn.Module):
    """idx (batch, time) of characters -> next character logits (batch, time, vocab)"""

    def __init__(self, vocab=65, d_model=48, n_heads=4, n_layers=2, max_len=128, dropout=0.1):
        super().__init__()
        self.d_model = d_model
        self.tok = nn.Embedding(vocab, d_model)
        self.register_buffer("pe", sinusoidal_table(max_len, d_model))
        self.ln1 = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(n_layers)])
        self.attn = nn.ModuleList([CausalAttention(d_model, n_heads, dropout) for _ in range(n_layers)])
        self.ln2 = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(n_layers)])
        self.mlp = nn.ModuleList([
            nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))
            for _ in range(n_layers)
        ])
        self.ln_f = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab)

    def forward(self, idx):
        x = self.tok(idx) * math.sqrt(self.d_model) + self.pe[: idx.size(1)]
        for ln1, attn, ln2, mlp in zip(self.ln1, self.attn, self.ln2, self.mlp):
            x = x + attn(ln1(x))
            x = x + mlp(ln2(x))
        return self.head(self.ln_f(x))
