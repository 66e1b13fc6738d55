# coding: utf-8
"""Small re-implementation of the text-to-text stack for our Finnish summariser.
Weights are converted from the public checkpoints so everything follows those (RMS norm,
initialisation absorbs the temperature, bias of the first block shared by all)."""
import math
import torch
from torch import nn


class RMS(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class SelfAttn(nn.Module):
    def __init__(self, d_model=64, d_kv=16, n_heads=4, buckets=32, max_distance=128,
                 decoder=False, has_bias=True):
        super().__init__()
        self.h, self.d_kv = n_heads, d_kv
        self.decoder = decoder
        self.buckets, self.max_distance = buckets, max_distance
        inner = n_heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        if has_bias:
            self.rel = nn.Embedding(buckets, n_heads)
        # checkpoint convention: q has std (d_model * d_kv) ** -0.5, so no factor at run time
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)
        nn.init.normal_(self.v.weight, std=d_model ** -0.5)

    def _bucket(self, rel):
        """rel = key position - query position."""
        n_b, out = self.buckets, torch.zeros_like(rel)
        if not self.decoder:
            n_b //= 2
            out = out + (rel > 0).long() * n_b
            dist = rel.abs()
        else:
            dist = (-rel).clamp(min=0)
        exact = n_b // 2
        far = exact + (torch.log(dist.clamp(min=1).float() / exact)
                       / math.log(self.max_distance / exact) * (n_b - exact)).long()
        far = far.clamp(max=n_b - 1)
        return out + torch.where(dist < exact, dist, far)

    def position_bias(self, n):
        p = torch.arange(n, device=self.rel.weight.device)
        b = self._bucket(p[None, :] - p[:, None])
        return self.rel(b).permute(2, 0, 1).unsqueeze(0)       # 1, h, n, n

    def forward(self, x, mask=None, bias=None):
        """mask: (B, n) 1 = token, 0 = padding."""
        B, n, _ = x.shape

        def heads(t):
            return t.view(B, n, self.h, self.d_kv).transpose(1, 2)

        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        if bias is None:
            bias = self.position_bias(n)
            keep = torch.ones(n, n, dtype=torch.bool, device=x.device)
            if self.decoder:
                keep = keep.tril()
            keep = keep[None, None]
            if mask is not None:
                keep = keep & mask.bool()[:, None, None, :]
            bias = bias.masked_fill(~keep, torch.finfo(x.dtype).min)
        att = (q @ k.transpose(-1, -2) + bias).float().softmax(-1).type_as(x)
        y = (att @ v).transpose(1, 2).reshape(B, n, self.h * self.d_kv)
        return self.o(y), bias


class Stack(nn.Module):
    def __init__(self, n_layers=2, d_model=64, decoder=False):
        super().__init__()
        self.norms = nn.ModuleList([RMS(d_model) for _ in range(n_layers)])
        self.layers = nn.ModuleList(
            [SelfAttn(d_model, decoder=decoder, has_bias=i == 0) for i in range(n_layers)])

    def forward(self, x, mask=None):
        bias = None
        for norm, layer in zip(self.norms, self.layers):
            y, bias = layer(norm(x), mask, bias)
            x = x + y
        return x
