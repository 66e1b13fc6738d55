"""DeBERTa's disentangled attention (He et al. 2021), v2 conventions without log buckets.

A_ij = Qc_i . Kc_j  +  Qc_i . Kr_delta(i,j)  +  Kc_j . Qr_delta(j,i),   divided by sqrt(3 d)
delta(i, j) = clamp(i - j + k, 0, 2k - 1); Kr and Qr are projections of one table of 2k embeddings
by the same matrices as the content (share_att_key).
"""
import torch
from torch import nn


def delta(n, k, device=None):
    p = torch.arange(n, device=device)
    return (p[:, None] - p[None, :] + k).clamp(0, 2 * k - 1)


class DisentangledSelfAttention(nn.Module):
    """hidden [B, N, D], attention_mask [B, N] with 1 for tokens and 0 for padding."""

    def __init__(self, hidden_size, num_attention_heads, max_relative_positions, p_drop=0.1):
        super().__init__()
        self.nh = num_attention_heads
        self.dh = hidden_size // num_attention_heads
        self.k = max_relative_positions
        self.query_proj = nn.Linear(hidden_size, hidden_size)
        self.key_proj = nn.Linear(hidden_size, hidden_size)
        self.value_proj = nn.Linear(hidden_size, hidden_size)
        self.pos_dropout, self.dropout = nn.Dropout(p_drop), nn.Dropout(p_drop)

    def _h(self, t):
        return t.unflatten(-1, (self.nh, self.dh)).transpose(-2, -3)

    def forward(self, hidden, attention_mask, rel_embeddings):
        n = hidden.shape[1]
        q, k, v = self._h(self.query_proj(hidden)), self._h(self.key_proj(hidden)), self._h(self.value_proj(hidden))
        rel = self.pos_dropout(rel_embeddings)
        kr = self._h(self.key_proj(rel))            # [H, 2k, d]
        qr = self._h(self.query_proj(rel))
        idx = delta(n, self.k, hidden.device)

        c2c = q @ k.transpose(-1, -2)
        c2p = q @ kr.transpose(-1, -2)              # [B, H, n(i), 2k]
        c2p = c2p.gather(-1, idx.expand(c2c.shape))
        p2c = k @ qr.transpose(-1, -2)              # [B, H, n(j), 2k]
        p2c = p2c.gather(-1, idx.expand(c2c.shape)).transpose(-1, -2)

        a = (c2c + c2p + p2c) / (3 * self.dh) ** 0.5
        a = a.masked_fill(attention_mask[:, None, None, :] == 0, torch.finfo(a.dtype).min)
        a = self.dropout(torch.softmax(a, dim=-1))
        return (a @ v).transpose(1, 2).flatten(2)


class DebertaLayer(nn.Module):
    def __init__(self, dim, heads, k):
        super().__init__()
        self.att = DisentangledSelfAttention(dim, heads, k)
        self.dense = nn.Linear(dim, dim)
        self.n1, self.n2 = nn.LayerNorm(dim, eps=1e-7), nn.LayerNorm(dim, eps=1e-7)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x, mask, rel):
        x = self.n1(x + self.dense(self.att(x, mask, rel)))
        return self.n2(x + self.down(nn.functional.gelu(self.up(x))))


class MiniDeberta(nn.Module):
    def __init__(self, vocab, dim=128, heads=4, depth=3, k=64):
        super().__init__()
        self.word = nn.Embedding(vocab, dim, padding_idx=0)
        self.rel = nn.Parameter(torch.randn(2 * k, dim) * 0.02)
        self.layers = nn.ModuleList([DebertaLayer(dim, heads, k) for _ in range(depth)])

    def forward(self, ids):
        mask = (ids != 0).long()
        x = self.word(ids)
        for l in self.layers:
            x = l(x, mask, self.rel)
        return x
