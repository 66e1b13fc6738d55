"""SASRec: next-item recommendation from left-padded histories (item 0 = padding)."""
import torch
import torch.nn as nn


class SelfAttentionBlock(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim, eps=1e-8)
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, keep):
        # only the queries are normalised, as in the original TensorFlow code
        q, k, v = self.q(self.norm(x)), self.k(x), self.v(x)
        q, k, v = (a.unflatten(-1, (self.heads, -1)).transpose(1, 2) for a in (q, k, v))
        s = torch.matmul(q, k.transpose(2, 3)) / q.size(-1) ** 0.5
        s = s.masked_fill(~keep, float("-inf"))
        # a padded position at the left edge has no key at all
        p = torch.softmax(s, dim=-1).nan_to_num(0.0)
        y = torch.matmul(self.drop(p), v).transpose(1, 2).flatten(2)
        return self.norm(x) + y


class PointWiseFFN(nn.Module):
    def __init__(self, dim, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=1e-8)
        self.conv1 = nn.Conv1d(dim, dim, 1)
        self.conv2 = nn.Conv1d(dim, dim, 1)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = self.norm(x)
        y = self.drop(torch.relu(self.conv1(x.transpose(1, 2))))
        return x + self.drop(self.conv2(y)).transpose(1, 2)


class SASRec(nn.Module):
    def __init__(self, n_items=50, dim=24, heads=2, blocks=2, max_len=16, dropout=0.2):
        super().__init__()
        self.dim = dim
        self.items = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.positions = nn.Embedding(max_len, dim)
        self.drop = nn.Dropout(dropout)
        self.attn = nn.ModuleList(SelfAttentionBlock(dim, heads, dropout) for _ in range(blocks))
        self.ffn = nn.ModuleList(PointWiseFFN(dim, dropout) for _ in range(blocks))
        self.norm = nn.LayerNorm(dim, eps=1e-8)

    def features(self, history):
        b, l = history.shape
        real = history != 0
        keep = torch.ones(l, l, dtype=torch.bool, device=history.device).tril()
        keep = keep[None, None] & real[:, None, None, :]
        x = self.items(history) * self.dim ** 0.5
        x = self.drop(x + self.positions.weight[:l]) * real[..., None]
        for attn, ffn in zip(self.attn, self.ffn):
            x = ffn(attn(x, keep)) * real[..., None]
        return self.norm(x)

    def forward(self, history, candidates=None):
        """history [B, L] -> scores of the next item; candidates [B, C] or all items."""
        last = self.features(history)[:, -1]
        if candidates is None:
            return last @ self.items.weight.t()
        return torch.einsum("bd,bcd->bc", last, self.items(candidates))
