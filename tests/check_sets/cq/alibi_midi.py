import math

import torch
import torch.nn as nn


def head_slopes(n_heads):
    """Slopes of the ALiBi paper (Press et al. 2022), one per head, for any number of heads."""
    start = 2 ** (-8 / n_heads)
    return torch.tensor([start ** (h + 1) for h in range(n_heads)])


class AlibiAttention(nn.Module):
    """Causal self-attention for event sequences (MIDI tokens) with linear biases.

    No position embedding; a key that lies m steps in the past gets -slope * m added to its logit.
    The slopes are those of the authors' code, so that their pretrained weights can be loaded.

    x: (batch, time, d_model)
    """

    def __init__(self, d_model=48, n_heads=6, dropout=0.1):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("slopes", head_slopes(n_heads), persistent=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(B, T, self.n_heads, self.d_head).transpose(1, 2)
        k = k.view(B, T, self.n_heads, self.d_head).transpose(1, 2)
        v = v.view(B, T, self.n_heads, self.d_head).transpose(1, 2)

        pos = torch.arange(T, device=x.device)
        past = (pos[:, None] - pos[None, :])  # >= 0 for keys in the past
        bias = -self.slopes[:, None, None] * past

        att = q @ k.transpose(-2, -1) / math.sqrt(self.d_head) + bias
        att = att.masked_fill(past < 0, float("-inf"))
        att = self.drop(att.softmax(dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.out(y)


class EventModel(nn.Module):
    """tokens (B, T) -> logits (B, T, vocab)"""

    def __init__(self, vocab=90, d_model=48, n_heads=6, n_layers=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(n_layers))
        self.attns = nn.ModuleList(AlibiAttention(d_model, n_heads) for _ in range(n_layers))
        self.ffns = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, 2 * d_model), nn.GELU(),
                          nn.Linear(2 * d_model, d_model)) for _ in range(n_layers))
        self.head = nn.Linear(d_model, vocab)

    def forward(self, tokens):
        x = self.tok(tokens)
        for norm, attn, ffn in zip(self.norms, self.attns, self.ffns):
            x = x + attn(norm(x))
            x = x + ffn(x)
        return self.head(x)
