"""T5 self-attention with bucketed relative bias. No 1/sqrt(d): T5 folds it in the init."""
import math

import torch
import torch.nn as nn


def bucket(rel, bidirectional=True, num=32, far=128):
    """rel = key position - query position. Half of the buckets exact, half logarithmic."""
    out = torch.zeros_like(rel)
    if bidirectional:
        num //= 2
        out += (rel > 0).long() * num
        n = rel.abs()
    else:
        n = (-rel).clamp(min=0)
    exact = num // 2
    big = exact + (torch.log(n.clamp(min=1).float() / exact) / math.log(far / exact) * (num - exact)).long()
    return out + torch.where(n < exact, n, big.clamp(max=num - 1))


class T5SelfAttention(nn.Module):
    def __init__(self, d_model=32, d_kv=12, heads=4, decoder=False, num=8, far=20, p=0.1):
        super().__init__()
        inner = heads * d_kv            # need not equal d_model
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)
        self.bias = nn.Embedding(num, heads)
        self.h, self.dk, self.decoder, self.num, self.far, self.p = heads, d_kv, decoder, num, far, p

    def forward(self, x, mask=None):
        """x (B,T,d_model). mask (B,T): 1 = token, 0 = pad. decoder=True is causal."""
        B, T, _ = x.shape
        q, k, v = (f(x).view(B, T, self.h, self.dk).transpose(1, 2) for f in (self.q, self.k, self.v))
        i = torch.arange(T, device=x.device)
        rel = i[None, :] - i[:, None]
        s = q @ k.transpose(-1, -2)
        s = s + self.bias(bucket(rel, not self.decoder, self.num, self.far)).permute(2, 0, 1)
        drop = torch.zeros(B, 1, T, T, dtype=torch.bool, device=x.device)
        if self.decoder:
            drop = drop | (rel > 0)
        if mask is not None:
            drop = drop | mask[:, None, None, :].eq(0)
        s = s.masked_fill(drop, torch.finfo(s.dtype).min)
        w = nn.functional.dropout(s.float().softmax(-1).type_as(s), self.p, self.training)
        return self.o((w @ v).transpose(1, 2).reshape(B, T, -1))
