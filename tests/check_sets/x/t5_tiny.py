"""A very small T5 (no dropout, relu FFN) used to unit-test our tokenizer pipeline."""
import math
import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class Attn(nn.Module):
    # like the original: no 1/sqrt(d), the init takes care of it
    def __init__(self, d_model, n_heads, d_kv, has_bias=False, bidirectional=True, buckets=32, max_distance=128):
        super().__init__()
        self.h, self.dk = n_heads, d_kv
        self.q = nn.Linear(d_model, n_heads * d_kv, bias=False)
        self.k = nn.Linear(d_model, n_heads * d_kv, bias=False)
        self.v = nn.Linear(d_model, n_heads * d_kv, bias=False)
        self.o = nn.Linear(n_heads * d_kv, d_model, bias=False)
        self.bidirectional, self.buckets, self.max_distance = bidirectional, buckets, max_distance
        self.rel = nn.Embedding(buckets, n_heads) if has_bias else None
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)
        nn.init.normal_(self.v.weight, std=d_model ** -0.5)

    def bucket(self, rel):
        n, ret = self.buckets, 0
        if self.bidirectional:
            n //= 2
            ret = (rel > 0).long() * n
            rel = rel.abs()
        else:
            rel = -torch.min(rel, torch.zeros_like(rel))
        exact = n // 2
        large = exact + (torch.log(rel.float().clamp(min=1) / exact) / math.log(self.max_distance / exact) * (n - exact)).long()
        large = large.clamp(max=n - 1)
        return ret + torch.where(rel < exact, rel, large)

    def position_bias(self, lq, lk):
        rel = torch.arange(lk)[None, :] - torch.arange(lq)[:, None]
        return self.rel(self.bucket(rel).to(self.rel.weight.device)).permute(2, 0, 1)[None]

    def forward(self, x, memory=None, bias=None):
        src = x if memory is None else memory
        b, lq, _ = x.shape
        lk = src.shape[1]
        q = self.q(x).view(b, lq, self.h, self.dk).transpose(1, 2)
        k = self.k(src).view(b, lk, self.h, self.dk).transpose(1, 2)
        v = self.v(src).view(b, lk, self.h, self.dk).transpose(1, 2)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        if bias is not None:
            scores = scores + bias
        p = scores.float().softmax(-1).type_as(scores)
        out = torch.einsum("bhqk,bhkd->bhqd", p, v)
        return self.o(out.transpose(1, 2).reshape(b, lq, -1))


class FF(nn.Sequential):
    def __init__(self, d, d_ff):
        super().__init__(nn.Linear(d, d_ff, bias=False), nn.ReLU(), nn.Linear(d_ff, d, bias=False))


class TinyT5(nn.Module):
    def __init__(self, vocab=100, d_model=32, n_heads=4, d_kv=8, d_ff=64, n_layers=2):
        super().__init__()
        self.shared = nn.Embedding(vocab, d_model)
        mk = nn.ModuleList
        self.enc_attn = mk([Attn(d_model, n_heads, d_kv, i == 0, True) for i in range(n_layers)])
        self.enc_ff = mk([FF(d_model, d_ff) for _ in range(n_layers)])
        self.dec_attn = mk([Attn(d_model, n_heads, d_kv, i == 0, False) for i in range(n_layers)])
        self.dec_cross = mk([Attn(d_model, n_heads, d_kv) for _ in range(n_layers)])
        self.dec_ff = mk([FF(d_model, d_ff) for _ in range(n_layers)])
        self.en = mk([RMSNorm(d_model) for _ in range(2 * n_layers + 1)])
        self.dn = mk([RMSNorm(d_model) for _ in range(3 * n_layers + 1)])
        self.d_model, self.n_layers = d_model, n_layers

    def encode(self, ids, pad_mask=None):
        """ids (B, S); pad_mask (B, S), 1 = token, 0 = padding"""
        x = self.shared(ids)
        bias = self.enc_attn[0].position_bias(ids.shape[1], ids.shape[1])
        if pad_mask is not None:
            bias = bias + (1.0 - pad_mask[:, None, None, :].to(x.dtype)) * -1e9
        for i in range(self.n_layers):
            x = x + self.enc_attn[i](self.en[2 * i](x), bias=bias)
            x = x + self.enc_ff[i](self.en[2 * i + 1](x))
        return self.en[-1](x)

    def forward(self, ids, dec_ids, pad_mask=None):
        mem = self.encode(ids, pad_mask)
        y = self.shared(dec_ids)
        t = dec_ids.shape[1]
        future = torch.triu(torch.full((t, t), -1e9, dtype=y.dtype), 1).to(y.device)
        bias = self.dec_attn[0].position_bias(t, t) + future
        cross = None
        if pad_mask is not None:
            cross = (1.0 - pad_mask[:, None, None, :].to(y.dtype)) * -1e9
        for i in range(self.n_layers):
            y = y + self.dec_attn[i](self.dn[3 * i](y), bias=bias)
            y = y + self.dec_cross[i](self.dn[3 * i + 1](y), mem, cross)
            y = y + self.dec_ff[i](self.dn[3 * i + 2](y))
        y = self.dn[-1](y) * self.d_model ** -0.5
        return y @ self.shared.weight.t()
