"""Snippet encoder for code search, decoder-only with ALiBi and no position table.

Heads are folded into the batch as in the BLOOM code so that the bias can be added
by ``baddbmm``.  Attention is the usual scaled dot product with causal mask; the bias of
head h is -slope_h * (i - j), with slopes 2^(-8 (h + 1) / H) for h = 0 .. H - 1.
"""
import torch
from torch import nn
from torch.nn import functional as F


def build_slopes(n_heads):
    """Geometric slopes for a power of two number of heads."""
    return torch.tensor([2.0 ** (-8.0 * h / n_heads) for h in range(n_heads)])


class AlibiAttention(nn.Module):
    def __init__(self, hidden_size=32, n_head=4):
        super().__init__()
        self.n_head = n_head
        self.head_dim = hidden_size // n_head
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.register_buffer("slopes", build_slopes(n_head))

    def _fold(self, t):
        # [batch, seq, heads, dim] -> [batch * heads, seq, dim]
        b, s, h, d = t.shape
        return t.permute(0, 2, 1, 3).reshape(b * h, s, d)

    def _merge(self, t, batch):
        # [batch * heads, seq, dim] -> [batch, seq, heads * dim]
        s = t.shape[1]
        t = t.view(self.n_head, batch, s, self.head_dim)
        return t.permute(1, 2, 0, 3).reshape(batch, s, -1)

    def forward(self, hidden):
        b, s, _ = hidden.shape
        fused = self.query_key_value(hidden).view(b, s, 3, self.n_head, self.head_dim)
        q, k, v = (self._fold(t) for t in fused.unbind(dim=2))
        pos = torch.arange(s, device=hidden.device)
        gap = pos[:, None] - pos[None, :]
        alibi = (-self.slopes[:, None, None] * gap).repeat(b, 1, 1)
        scores = torch.baddbmm(alibi, q, k.transpose(1, 2))
        scores = scores.masked_fill(gap < 0, torch.finfo(scores.dtype).min)
        probs = F.softmax(scores, dim=-1)
        return self.dense(self._merge(torch.bmm(probs, v), b))


class SnippetEncoder(nn.Module):
    def __init__(self, vocab_size=256, hidden_size=32, n_head=4, n_layer=2):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, hidden_size)
        self.attn = nn.ModuleList(AlibiAttention(hidden_size, n_head) for _ in range(n_layer))
        self.norm = nn.ModuleList(nn.LayerNorm(hidden_size) for _ in range(n_layer + 1))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for attn, norm in zip(self.attn, self.norm):
            x = x + attn(norm(x))
        return F.normalize(self.norm[-1](x)[:, -1], dim=-1)
