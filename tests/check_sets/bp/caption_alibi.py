"""Audio captioning decoder with linear biases.

Slopes and distance tables are made once with numpy when the module is built and
live in the checkpoint as buffers; the layer itself is torch.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def get_slopes(n_heads: int) -> np.ndarray:
    """Geometric sequence of Press et al.: for 8 heads 1/2, 1/4, ..., 1/256.

    In general it starts at 2^(-8/n) and its ratio is the same number (n a power of two).
    """
    assert n_heads & (n_heads - 1) == 0, "only powers of two"
    return np.array([2.0 ** (-8.0 * h / n_heads) for h in range(n_heads)])


def distance_bias(n_heads: int, max_len: int) -> np.ndarray:
    """[H, max_len, max_len]: -slope * (query position - key position), upper half -inf."""
    i = np.arange(max_len)
    dist = (i[:, None] - i[None, :]).astype(np.float64)
    bias = -get_slopes(n_heads)[:, None, None] * dist[None]
    bias[:, np.triu(np.ones((max_len, max_len), dtype=bool), 1)] = -np.inf
    return bias.astype(np.float32)


class AlibiSelfAttention(nn.Module):
    """Causal.  x [B, T, D] -> [B, T, D]"""

    def __init__(self, d_model: int = 64, n_heads: int = 8, max_len: int = 128, dropout: float = 0.0):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.in_proj = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("bias", torch.from_numpy(distance_bias(n_heads, max_len)))

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q, k, v = (t.reshape(B, T, self.n_heads, self.d_head).transpose(1, 2) for t in (q, k, v))
        att = torch.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(self.d_head)
        att = att + self.bias[:, :T, :T]
        att = self.dropout(F.softmax(att, dim=-1))
        y = torch.einsum("bhij,bhjd->bhid", att, v)
        return self.out_proj(y.transpose(1, 2).reshape(B, T, D))


class CaptionDecoder(nn.Module):
    def __init__(self, vocab=500, d_model=64, depth=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, d_model)
        self.audio = nn.Linear(128, d_model)
        self.att = nn.ModuleList(AlibiSelfAttention(d_model) for _ in range(depth))
        self.ln = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(depth))

    def forward(self, clip, words):
        # clip [B, 128] pooled log-mel embedding, put in front as a prefix token
        x = torch.cat([self.audio(clip)[:, None], self.tok(words)], dim=1)
        for a, n in zip(self.att, self.ln):
            x = x + a(n(x))
        return x[:, 1:] @ self.tok.weight.t()
