"""Server log anomaly scores: a small causal transformer, positions through ALiBi only."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def alibi_bias(n_heads, length):
    """(n_heads, length, length) additive bias -slope_h * (i - j) for j <= i, -inf for j > i.

    Slopes as in Press et al.: the geometric sequence that starts at 2^(-8/n) with that
    same ratio, and ends at 2^-8. n_heads must be a power of two.
    """
    assert n_heads & (n_heads - 1) == 0
    slopes = torch.pow(2.0, -8.0 * torch.arange(n_heads) / n_heads)
    i = torch.arange(length)
    dist = (i[:, None] - i[None, :]).float()
    bias = -slopes[:, None, None] * dist
    return bias.masked_fill(dist < 0, float("-inf"))


class LogBlock(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, bias):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        q, k, v = (z.view(B, T, self.n_heads, -1).transpose(1, 2) for z in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = x + self.proj(a.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln2(x))


class LogAnomaly(nn.Module):
    """template ids (B, T) -> surprise (-log p) of each line given the lines before it, (B, T - 1)"""

    def __init__(self, n_templates=40, dim=32, n_heads=4, depth=2):
        super().__init__()
        self.n_heads = n_heads
        self.emb = nn.Embedding(n_templates, dim)
        self.blocks = nn.ModuleList(LogBlock(dim, n_heads) for _ in range(depth))
        self.head = nn.Linear(dim, n_templates)

    def forward(self, ids):
        x = self.emb(ids)
        bias = alibi_bias(self.n_heads, ids.shape[1]).to(x)
        for blk in self.blocks:
            x = blk(x, bias)
        logp = self.head(x[:, :-1]).log_softmax(-1)
        return -logp.gather(-1, ids[:, 1:, None]).squeeze(-1)
