"""Text-to-text encoder/decoder pieces in the manner of T5.

As in the published model the logits are not divided by sqrt(d): the factor is
folded into the initialisation of the query projection (std = (d * d_model)**-0.5).
All masks are boolean, True = may be looked at, and shaped [batch, klen].
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class FusionConfig:
    d_model: int = 64
    d_kv: int = 16
    n_heads: int = 4
    d_ff: int = 128
    rel_buckets: int = 32
    rel_max_dist: int = 128
    dropout: float = 0.1
    eps: float = 1e-6


class RMSScale(nn.Module):
    def __init__(self, d, eps):
        super().__init__()
        self.g, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        return self.g * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def bucketize(rel, bidirectional, n, max_dist):
    """``rel`` = key position - query position."""
    out = torch.zeros_like(rel)
    if bidirectional:
        n //= 2
        out = out + (rel > 0).long() * n
        rel = rel.abs()
    else:
        rel = (-rel).clamp(min=0)
    exact = n // 2
    far = exact + (
        torch.log(rel.clamp(min=1).float() / exact) / math.log(max_dist / exact) * (n - exact)
    ).long()
    far = far.clamp(max=n - 1)
    return out + torch.where(rel < exact, rel, far)


class T5Attend(nn.Module):
    def __init__(self, cfg: FusionConfig, is_decoder=False, has_bias=False):
        super().__init__()
        inner = cfg.n_heads * cfg.d_kv
        self.cfg, self.is_decoder = cfg, is_decoder
        self.q = nn.Linear(cfg.d_model, inner, bias=False)
        self.k = nn.Linear(cfg.d_model, inner, bias=False)
        self.v = nn.Linear(cfg.d_model, inner, bias=False)
        self.o = nn.Linear(inner, cfg.d_model, bias=False)
        nn.init.normal_(self.q.weight, std=(cfg.d_kv * cfg.d_model) ** -0.5)
        nn.init.normal_(self.k.weight, std=cfg.d_model ** -0.5)
        nn.init.normal_(self.v.weight, std=cfg.d_model ** -0.5)
        self.bias_table = nn.Embedding(cfg.rel_buckets, cfg.n_heads) if has_bias else None
        self.drop = nn.Dropout(cfg.dropout)

    def _bias(self, tq, tk, past, device):
        qpos = torch.arange(past, past + tq, device=device)[:, None]
        kpos = torch.arange(tk, device=device)[None]
        b = bucketize(kpos - qpos, not self.is_decoder, self.cfg.rel_buckets, self.cfg.rel_max_dist)
        return self.bias_table(b).permute(2, 0, 1).unsqueeze(0)

    def forward(self, x, memory=None, mask=None, cache=None, bias=None):
        """Returns (output, bias, cache); cache is a (k, v) pair or None.

        ``memory`` switches to cross-attention (never causal).
        """
        B, tq, _ = x.shape
        cross = memory is not None
        heads = lambda t: t.view(B, -1, self.cfg.n_heads, self.cfg.d_kv).transpose(1, 2)
        q = heads(self.q(x))
        if cross and cache is not None:
            k, v = cache
        else:
            src = memory if cross else x
            k, v = heads(self.k(src)), heads(self.v(src))
            if cache is not None:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        tk = k.size(2)
        past = 0 if cross else tk - tq
        logits = q @ k.transpose(-1, -2)
        if bias is None:
            if self.bias_table is not None:
                bias = self._bias(tq, tk, past, x.device)
            else:
                bias = logits.new_zeros(1, 1, tq, tk)
        logits = logits + bias
        ok = torch.ones(1, 1, tq, tk, dtype=torch.bool, device=x.device)
        if self.is_decoder and not cross:
            ok = ok.tril(past)
        if mask is not None:
            ok = ok & mask[:, None, None, :]
        logits = logits.masked_fill(~ok, torch.finfo(logits.dtype).min)
        w = self.drop(torch.softmax(logits.float(), -1).type_as(logits))
        y = (w @ v).transpose(1, 2).flatten(2)
        return self.o(y), bias, (k, v)


class EncoderLayer(nn.Module):
    def __init__(self, cfg, first=False):
        super().__init__()
        self.n1, self.n2 = RMSScale(cfg.d_model, cfg.eps), RMSScale(cfg.d_model, cfg.eps)
        self.att = T5Attend(cfg, has_bias=first)
        self.up, self.down = nn.Linear(cfg.d_model, cfg.d_ff, bias=False), nn.Linear(cfg.d_ff, cfg.d_model, bias=False)

    def forward(self, x, mask=None, bias=None):
        a, bias, _ = self.att(self.n1(x), mask=mask, bias=bias)
        x = x + a
        return x + self.down(self.up(self.n2(x)).relu()), bias
