"""Reimplementation of the T5 encoder's self-attention sublayer (Raffel et al., 2020)."""
import math
import torch
from torch import nn


def bucket(rel, n=32, far=128):
    """rel = key position - query position, any shape of int64 -> bucket ids, bidirectional."""
    n //= 2
    out = (rel > 0).long() * n
    rel = rel.abs()
    exact = n // 2
    big = exact + (torch.log(rel.clamp(min=1).float() / exact) / math.log(far / exact) * (n - exact)).long()
    return out + torch.where(rel < exact, rel, big.clamp(max=n - 1))


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.g = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return self.g * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class T5SelfSublayer(nn.Module):
    """hidden (B, L, d_model), keep (B, L) bool with True at real tokens -> (B, L, d_model).

    As in T5 the logits are not divided by sqrt(d_kv); the factor lives in the initialisation of q.
    """

    def __init__(self, d_model=32, d_kv=8, heads=4, p=0.1):
        super().__init__()
        self.heads, self.d_kv = heads, d_kv
        inner = heads * d_kv
        self.ln = RMSNorm(d_model)
        self.q, self.k, self.v = (nn.Linear(d_model, inner, bias=False) for _ in range(3))
        self.o = nn.Linear(inner, d_model, bias=False)
        self.rel = nn.Embedding(32, heads)
        self.drop = nn.Dropout(p)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        for lin in (self.k, self.v):
            nn.init.normal_(lin.weight, std=d_model ** -0.5)

    def forward(self, hidden, keep=None):
        B, L, _ = hidden.shape
        h = self.ln(hidden)
        q, k, v = (f(h).view(B, L, self.heads, self.d_kv).transpose(1, 2) for f in (self.q, self.k, self.v))
        pos = torch.arange(L, device=h.device)
        bias = self.rel(bucket(pos[None, :] - pos[:, None])).permute(2, 0, 1)
        logits = q @ k.transpose(-1, -2) + bias
        if keep is not None:
            logits = logits.masked_fill(~keep[:, None, None, :], torch.finfo(logits.dtype).min)
        w = self.drop(torch.softmax(logits.float(), dim=-1).type_as(logits))
        y = (w @ v).transpose(1, 2).reshape(B, L, -1)
        return hidden + self.drop(self.o(y))
