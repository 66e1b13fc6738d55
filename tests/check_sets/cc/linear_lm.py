"""Causal linear attention for language modelling (Katharopoulos et al. 2020).

With phi(x) = elu(x) + 1,

    y_i = sum_{j<=i} phi(q_i).phi(k_j) v_j  /  sum_{j<=i} phi(q_i).phi(k_j)

computed with running sums, so the cost is linear in the length.  There is no softmax
and no scale.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def phi(x):
    return F.elu(x) + 1


class CausalLinearAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = phi(q), phi(k)
        kv = torch.einsum("bhnd,bhne->bhnde", k, v).cumsum(dim=2)
        z = k.sum(dim=2)
        num = torch.einsum("bhnd,bhnde->bhne", q, kv)
        den = torch.einsum("bhnd,bhd->bhn", q, z)
        y = num / (den.unsqueeze(-1) + 1e-6)
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class LinearBlock(nn.Module):
    def __init__(self, dim=32, heads=4, expand=2):
        super().__init__()
        self.ln1 = nn.LayerNorm(dim)
        self.attn = CausalLinearAttention(dim, heads)
        self.ln2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * expand * dim)
        self.down = nn.Linear(expand * dim, dim)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        a, g = self.up(self.ln2(x)).chunk(2, dim=-1)
        return x + self.down(F.gelu(g) * a)


class LinearLM(nn.Module):
    def __init__(self, vocab=100, dim=32, heads=4, depth=2, ctx=128):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(ctx, dim)
        self.blocks = nn.ModuleList(LinearBlock(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[: ids.size(1)]
        for blk in self.blocks:
            x = blk(x)
        return self.head(x)
