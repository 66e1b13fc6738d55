"""minT5: the T5 encoder self-attention in as few lines as I could.

Two things differ from the usual transformer and are meant to be so:
* scores are NOT divided by sqrt(d_kv) (T5 folds that into the initialisation);
* a learned bias per head and relative-position bucket is added to the scores.
`attention_mask` is the tokenizer's 1 = token, 0 = padding.
"""
import math

import torch
import torch.nn as nn


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class T5SelfAttention(nn.Module):
    def __init__(self, d_model=32, d_kv=6, n_heads=4, num_buckets=16, max_distance=20):
        super().__init__()
        inner = n_heads * d_kv
        self.n_heads, self.d_kv = n_heads, d_kv
        self.num_buckets, self.max_distance = num_buckets, max_distance
        self.norm = RMSNorm(d_model)
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.rel_bias = nn.Embedding(num_buckets, n_heads)

    def bucket(self, rel):
        """rel = key position - query position; bidirectional buckets."""
        n = self.num_buckets // 2
        out = (rel > 0).long() * n
        rel = rel.abs()
        exact = n // 2
        far = exact + (
            torch.log(rel.clamp(min=1).float() / exact)
            / math.log(self.max_distance / exact)
            * (n - exact)
        ).long()
        return out + torch.where(rel < exact, rel, far.clamp(max=n - 1))

    def forward(self, hidden, attention_mask=None):
        b, n, _ = hidden.shape
        x = self.norm(hidden)
        q, k, v = (f(x).view(b, n, self.n_heads, self.d_kv).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        pos = torch.arange(n, device=x.device)
        bias = self.rel_bias(self.bucket(pos[None, :] - pos[:, None])).permute(2, 0, 1)
        scores = q @ k.transpose(2, 3) + bias.unsqueeze(0)
        if attention_mask is not None:
            drop = (attention_mask == 0)[:, None, None, :]
            scores = scores.masked_fill(drop, torch.finfo(scores.dtype).min)
        w = torch.softmax(scores.float(), dim=-1).type_as(scores)
        y = (w @ v).transpose(1, 2).reshape(b, n, -1)
        return hidden + self.o(y)
